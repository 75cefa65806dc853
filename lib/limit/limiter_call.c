/* The limiter for code that is not in a request: it asks, and waits for the answer in place. */
#include "limit/limiter_internal.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "headers/ratelimit.h"
#include "limit/algorithm.h"
#include "store/store.h"

/* One call: its plan, and where the thread waits for the store. */
struct call {
    struct weir_limiter *limiter;
    const struct weir_edition *edition; /* the caller's */
    struct weir_subject_plan planned;
    struct weir_plan_of_checks *plan; /* in `planned` */
    char keys[WEIR_PLAN_KEY_BYTES];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    struct weir_check check;
    bool is_leased;          /* the leases have the check, and not the store */
    uint64_t asked_us;       /* monotonic: when a store was that answers later; 0: none was */
    enum weir_source source; /* of what was decided */
    bool by_memory;
    bool is_share_too_small;

    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool has_ended;
};

/* An array of an older or newer caller has items of another size. */
static const struct weir_subject *subject_at(const struct weir_subject *subjects, size_t index)
{
    return (const void *)((const char *)subjects + index * subjects->size);
}

/* What a call does with the sums. */
enum purpose { TO_SPEND, TO_LOOK, TO_CHANGE };

/* The edition that a call is decided by, for as long as it takes. */
static const struct weir_edition *take_edition(struct weir_limiter *limiter)
{
    return limiter == NULL ? NULL : weir_edition_take(&limiter->editions);
}

static void leave_edition(const struct weir_edition **edition)
{
    weir_edition_leave(*edition);
}

#define HOLDS_EDITION __attribute__((cleanup(leave_edition)))

static enum weir_code plan_call(struct call *call, struct weir_limiter *limiter,
                                const struct weir_edition *edition,
                                const struct weir_subject *subjects, size_t count,
                                enum purpose purpose, struct weir_error *error)
{
    if (limiter == NULL || subjects == NULL || count == 0)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "There is no %s.",
                              limiter == NULL ? "limiter" : "subject");
    call->limiter = limiter;
    call->edition = edition;
    call->planned.looks = purpose == TO_LOOK;
    call->planned.only_own = purpose == TO_CHANGE;
    call->planned.denied = NULL;
    call->planned.first = NULL;
    call->planned.is_spared = false;
    call->plan = &call->planned.plan;
    call->plan->count = 0;
    call->plan->keys = weir_buffer_init(call->keys, sizeof call->keys);
    call->is_leased = false;
    call->source = WEIR_SOURCE_NONE;
    call->by_memory = false;
    call->is_share_too_small = false;
    memset(call->answers, 0, sizeof call->answers);
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < count && code == WEIR_OK; i++)
        code = weir_limiter_add_subject(edition, subject_at(subjects, i), &call->planned, error);
    call->check = (struct weir_check){ .spends = call->plan->spends,
                                       .answers = call->answers,
                                       .count = call->plan->count,
                                       .wants_time = true };
    return code;
}

/* asking a store */

static void on_end(struct weir_check *check)
{
    struct call *call = check->owner;
    pthread_mutex_lock(&call->mutex);
    call->has_ended = true;
    pthread_cond_signal(&call->ended);
    pthread_mutex_unlock(&call->mutex);
}

static void submit(struct call *call, const struct weir_store *store)
{
    pthread_mutex_init(&call->mutex, NULL); /* neither fails for a default one (glibc) */
    pthread_cond_init(&call->ended, NULL);
    call->has_ended = false;
    call->check.done = on_end;
    call->check.owner = call;
    if (call->is_leased)
        weir_leases_submit(call->edition->leases, &call->check);
    else
        store->type->submit(store->self, &call->check);
    pthread_mutex_lock(&call->mutex);
    while (!call->has_ended)
        pthread_cond_wait(&call->ended, &call->mutex);
    pthread_mutex_unlock(&call->mutex);
    pthread_cond_destroy(&call->ended);
    pthread_mutex_destroy(&call->mutex);
}

static bool ask(struct call *call, const struct weir_store *store)
{
    call->asked_us = 0;
    if (weir_store_ready(store)) {
        call->asked_us = store->type->answers_inline ? 0 : weir_monotonic_us();
        submit(call, store);
        return call->check.result == WEIR_STORE_ANSWERED;
    }
    call->check.result = WEIR_STORE_UNAVAILABLE;
    strcpy(call->check.why, "not connected");
    return false;
}

/* What the store has been asked for a decision; who only looks is not counted. */
static void count_answer(const struct call *call)
{
    const struct weir_check *check = &call->check;
    bool has_failed = check->result != WEIR_STORE_ANSWERED;
    if (call->planned.looks)
        return;
    if (call->asked_us > 0)
        weir_count_asked(call->limiter->counts, check->result,
                         weir_monotonic_us() - call->asked_us);
    else if (has_failed)
        weir_count_unasked(call->limiter->counts, check->result);
    if (has_failed && call->asked_us > 0 && !call->is_leased)
        weir_limiter_count_plan(call->edition, check, call->plan->planned, WEIR_UNITS_UNSURE,
                                false);
}

/* The same, of what this process holds, or of the limiter's store. */
static bool ask_leases(struct call *call)
{
    struct weir_leases *leases = call->edition->leases;
    call->source = WEIR_SOURCE_LEASE;
    if (weir_leases_decide(leases, &call->check))
        return true;
    call->is_leased = weir_leases_take(leases, &call->check);
    call->source = call->is_leased ? WEIR_SOURCE_LEASE : WEIR_SOURCE_STORE;
    bool is_answered = ask(call, call->limiter->store);
    count_answer(call);
    if (is_answered && !call->is_leased)
        weir_leases_count_held(leases, &call->check);
    call->is_leased = false;
    return is_answered;
}

/* The same, unless it was refused a moment ago. */
static bool ask_or_deny(struct call *call)
{
    struct weir_denials *denials = call->edition->denials;
    struct weir_denial_question question;
    call->source = WEIR_SOURCE_DENIALS;
    if (weir_denials_replay(denials, &call->check, &question))
        return true;
    bool is_answered = ask_leases(call);
    weir_denials_note(denials, &call->check, &question);
    return is_answered;
}

static enum weir_code refuse_store(const struct weir_check *check, struct weir_error *error)
{
    switch (check->result) {
    case WEIR_STORE_TIMEOUT:
        return weir_error_set(error, WEIR_E_STORE_TIMEOUT, NULL,
                              "The store did not answer before its deadline.");
    case WEIR_STORE_ERROR:
        return weir_error_set(error, WEIR_E_STORE_ERROR, NULL, "The store answered: %s.",
                              check->why);
    case WEIR_STORE_UNAVAILABLE:
    case WEIR_STORE_CANCELLED:
    case WEIR_STORE_ANSWERED:
        break;
    }
    return weir_error_set(error, WEIR_E_STORE_UNAVAILABLE, NULL, "The store cannot be asked: %s.",
                          check->why);
}

/* the verdict */

/* A call is decided as one: where it only watches for one of the subjects, it does for all. */
static enum weir_mode mode_here(const struct call *call, const struct weir_ruleset *ruleset)
{
    return call->planned.is_spared ? WEIR_SHADOW : weir_limiter_mode(call->edition, ruleset);
}

/* The strictest of the rules: closed, then memory, then open. Policies that only watch never keep
 * anybody out. */
static enum weir_failure_action strictest_rule(const struct call *call)
{
    enum weir_failure_action strictest = WEIR_FAIL_OPEN;
    for (size_t i = 0; i < call->plan->count; i++) {
        const struct weir_ruleset *ruleset = call->plan->planned[i].ruleset;
        enum weir_failure_action rule = weir_limiter_failure_rule(ruleset, call->check.result);
        if (rule == WEIR_FAIL_OPEN || mode_here(call, ruleset) != WEIR_ENFORCE)
            continue;
        if (strictest == WEIR_FAIL_OPEN || rule == WEIR_FAIL_CLOSED)
            strictest = rule;
    }
    return strictest;
}

static bool ask_memory(struct call *call)
{
    if (call->edition->fallback == NULL)
        return false;
    for (size_t i = 0; i < call->plan->count; i++)
        if (!weir_limiter_take_share(&call->plan->spends[i], &call->plan->planned[i],
                                     call->edition->policy->instances))
            call->is_share_too_small = true;
    call->by_memory = true;
    return ask(call, call->edition->fallback);
}

static bool refusals_are_watched(const struct call *call)
{
    for (size_t i = 0; i < call->plan->count; i++)
        if (!call->answers[i].allowed
            && mode_here(call, call->plan->planned[i].ruleset) == WEIR_ENFORCE)
            return false;
    return true;
}

static enum weir_outcome outcome_of(const struct call *call, const struct weir_combined *combined)
{
    if (combined->allowed)
        return WEIR_ALLOWED;
    if (refusals_are_watched(call))
        return WEIR_SHADOW_LIMITED;
    if (!combined->impossible)
        return WEIR_LIMITED;
    return call->is_share_too_small ? WEIR_FAILED_CLOSED : WEIR_IMPOSSIBLE;
}

/* From here on there are limits only. */
static void merge_penalties(struct call *call, struct weir_answer *answers)
{
    struct weir_plan_of_checks *plan = call->plan;
    size_t limits = 0;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->spends[i].algorithm != WEIR_PENALTY)
            call->planned.costs[limits++] = call->planned.costs[i];
    plan->count = call->check.count =
        weir_plan_merge_penalties(plan->spends, plan->planned, answers, plan->count);
}

/* Tells the sum of one limit from others: that of another client or kind, or one of the same key in
 * which a unit is another stretch of time, so that it could not be given back as it was spent. */
static uint64_t name_sum(const struct weir_spend *spend)
{
    static const uint8_t
        open_key[WEIR_HASH_KEY_BYTES]; /* nobody gains by two sums that look alike */
    const uint64_t unit[] = { spend->rate.interval_us, spend->rate.interval_part,
                              spend->rate.parts };
    uint64_t name = weir_hash64((struct weir_text){ spend->key, spend->key_length }, open_key);
    if (weir_has_burst(spend->algorithm))
        name ^= weir_hash64((struct weir_text){ (const char *)unit, sizeof unit }, open_key);
    return name;
}

static void fill_limits(const struct call *call, struct weir_verdict *verdict)
{
    verdict->quota_count = call->plan->count;
    for (size_t i = 0; i < call->plan->count; i++) {
        const struct weir_answer *answer = &call->answers[i];
        verdict->quotas[i] = weir_limiter_quota(
            call->limiter, call->edition, &call->plan->planned[i], &call->plan->spends[i], answer);
        verdict->decided_us[i] = call->check.now_us + answer->after_us;
        verdict->full_us[i] = verdict->decided_us[i] + answer->reset_us;
        verdict->sums[i] = name_sum(&call->plan->spends[i]);
        if (answer->wait_us > verdict->wait_us)
            verdict->wait_us = answer->wait_us;
    }
}

/* The limit that refused, in texts that last. */
static void name_worst(struct weir_verdict *verdict, size_t worst)
{
    verdict->policy = verdict->quotas[worst].policy;
    verdict->limit = verdict->quotas[worst].limit;
}

static void fill_verdict(struct call *call, struct weir_verdict *verdict)
{
    merge_penalties(call, call->answers);
    if (call->by_memory)
        weir_cap_waits(call->answers, call->plan->count);
    const struct weir_combined combined = weir_combine(call->answers, call->plan->count);
    *verdict = (struct weir_verdict){ .outcome = outcome_of(call, &combined),
                                      .by_memory = call->by_memory };
    verdict->allowed = verdict->outcome == WEIR_ALLOWED || verdict->outcome == WEIR_SHADOW_LIMITED;
    fill_limits(call, verdict);
    if (combined.allowed) {
        weir_limiter_count_plan(call->edition, &call->check, call->plan->planned, WEIR_UNITS_SPENT,
                                call->by_memory);
        return;
    }
    verdict->wait_us = 0;
    verdict->retry_us = verdict->outcome == WEIR_FAILED_CLOSED
                            ? weir_limiter_closed_retry_us(call->limiter)
                            : combined.retry_us;
    name_worst(verdict, combined.worst);
}

static void fail_verdict(struct call *call, struct weir_verdict *verdict)
{
    enum weir_failure_action rule = strictest_rule(call);
    if (rule == WEIR_FAIL_MEMORY && ask_memory(call)) {
        fill_verdict(call, verdict);
        return;
    }
    if (rule == WEIR_FAIL_OPEN)
        *verdict = (struct weir_verdict){ .allowed = true, .outcome = WEIR_FAILED_OPEN };
    else
        *verdict = (struct weir_verdict){ .outcome = WEIR_FAILED_CLOSED,
                                          .retry_us = weir_limiter_closed_retry_us(call->limiter) };
}

/* Nothing is decided for who is kept out. */
static struct weir_verdict denied_by(const struct call *call)
{
    const struct weir_edition_names *names =
        weir_edition_names(call->edition, call->planned.denied);
    return (struct weir_verdict){ .outcome = WEIR_DENIED, .policy = names->policy };
}

/* Which limit has refused, if one has, and why it let through all the same. */
static void note_limit(const struct call *call, struct weir_limit_note *note)
{
    const struct weir_combined combined = weir_combine(call->answers, call->plan->count);
    if (combined.allowed)
        return;
    note->planned = &call->plan->planned[combined.worst];
    note->spend = &call->plan->spends[combined.worst];
    note->answer = &call->answers[combined.worst];
    note->ruleset = note->planned->ruleset;
    note->limit = (size_t)(note->planned->limit - note->ruleset->limits);
    if (note->outcome != WEIR_SHADOW_LIMITED)
        return;
    note->would = combined.impossible ? WEIR_IMPOSSIBLE : WEIR_LIMITED;
    if (combined.impossible && call->is_share_too_small)
        note->would = WEIR_FAILED_CLOSED;
}

static void note_failure(const struct weir_check *check, struct weir_limit_note *note)
{
    note->failure = weir_store_failure_name(check->result);
    note->source = WEIR_SOURCE_NONE;
    memcpy(note->why, check->why, sizeof note->why);
    note->why[sizeof note->why - 1] = '\0';
}

static void observe(const struct call *call, const struct weir_verdict *verdict)
{
    const struct weir_check *check = &call->check;
    struct weir_limit_note note = {
        .outcome = verdict->outcome,
        .would = verdict->outcome,
        .ruleset = call->planned.first,
        .limit = WEIR_NO_LIMIT,
        .by_memory = verdict->by_memory,
        .has_spent = verdict->outcome == WEIR_ALLOWED && check->count > 0,
        .source = verdict->by_memory ? WEIR_SOURCE_MEMORY : call->source,
        .cost = check->count > 0 ? check->spends[0].cost : 0,
        .retry_s = weir_seconds_up(verdict->retry_us),
        .retry_us = verdict->retry_us,
        .now_us = check->now_us,
    };
    if (call->planned.denied != NULL)
        note.ruleset = call->planned.denied;
    else if (check->count > 0 && check->result == WEIR_STORE_ANSWERED)
        note_limit(call, &note);
    else if (check->count > 0)
        note_failure(check, &note);
    weir_limiter_observe_call(call->limiter, call->edition, &note, &call->planned.client);
}

enum weir_code weir_limiter_check(struct weir_limiter *limiter, const struct weir_subject *subjects,
                                  size_t count, struct weir_verdict *verdict,
                                  struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    enum weir_code code = plan_call(&call, limiter, edition, subjects, count, TO_SPEND, error);
    if (code != WEIR_OK)
        return code;
    if (call.planned.denied != NULL)
        *verdict = denied_by(&call);
    else if (call.plan->count == 0)
        *verdict = (struct weir_verdict){ .allowed = true };
    else if (ask_or_deny(&call))
        fill_verdict(&call, verdict);
    else
        fail_verdict(&call, verdict);
    observe(&call, verdict);
    return WEIR_OK;
}

/* A look is always let through; what it found says whether the subjects' costs would be. */
static void judge(struct call *call)
{
    for (size_t i = 0; i < call->plan->count; i++) {
        call->answers[i].allowed = call->planned.costs[i] <= call->answers[i].remaining;
        call->answers[i].impossible = call->planned.costs[i] > call->plan->spends[i].rate.burst;
    }
}

enum weir_code weir_limiter_peek(struct weir_limiter *limiter, const struct weir_subject *subjects,
                                 size_t count, struct weir_verdict *verdict,
                                 struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    enum weir_code code = plan_call(&call, limiter, edition, subjects, count, TO_LOOK, error);
    if (code != WEIR_OK)
        return code;
    if (call.planned.denied != NULL) {
        *verdict = denied_by(&call);
        return WEIR_OK;
    }
    if (call.plan->count > 0 && !ask_leases(&call))
        return refuse_store(&call.check, error);
    fill_verdict(&call, verdict);
    memset(verdict->decided_us, 0, sizeof verdict->decided_us); /* there is nothing to settle */
    struct weir_combined combined = { .allowed = true };
    judge(&call);
    if (call.plan->count > 0)
        combined = weir_combine(call.answers, call.plan->count);
    if (combined.allowed)
        return WEIR_OK;
    verdict->outcome = outcome_of(&call, &combined);
    verdict->allowed = verdict->outcome == WEIR_SHADOW_LIMITED;
    name_worst(verdict, combined.worst);
    return WEIR_OK;
}

/* what changes sums without a decision */

/* Another policy may have come between the decision and this. */
static bool is_of_same_sums(const struct call *call, const struct weir_verdict *verdict)
{
    bool is_same = true;
    for (size_t i = 0; i < call->plan->count && is_same; i++)
        is_same = verdict->sums[i] == name_sum(&call->plan->spends[i]);
    return is_same;
}

static enum weir_code refuse_verdict(const struct call *call, const struct weir_verdict *verdict,
                                     struct weir_error *error)
{
    if (verdict == NULL || call->edition->number == 1)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "The verdict is not one about these subjects.");
    return weir_error_set(error, WEIR_E_STATE, NULL,
                          "The policy has been replaced, and its limits are not those that have "
                          "decided; what was spent stays spent.");
}

static void set_settled(struct call *call, const struct weir_verdict *verdict, uint64_t actual)
{
    for (size_t i = 0; i < call->plan->count; i++) {
        struct weir_spend *spend = &call->plan->spends[i];
        spend->reserved = spend->cost;
        spend->cost = actual < WEIR_UNITS_MAX ? actual : WEIR_UNITS_MAX;
        spend->decided_us = verdict->decided_us[i];
        spend->full_us = verdict->full_us[i];
        if (verdict->by_memory)
            weir_limiter_take_share(spend, &call->plan->planned[i],
                                    call->edition->policy->instances);
    }
    call->check.operation = WEIR_SETTLE;
}

enum weir_code weir_limiter_settle(struct weir_limiter *limiter,
                                   const struct weir_subject *subjects, size_t count,
                                   const struct weir_verdict *verdict, uint64_t actual,
                                   struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    enum weir_code code = plan_call(&call, limiter, edition, subjects, count, TO_SPEND, error);
    if (code != WEIR_OK)
        return code;
    merge_penalties(&call, NULL);
    if (verdict == NULL || verdict->quota_count != call.plan->count)
        return refuse_verdict(&call, verdict, error);
    if (verdict->outcome != WEIR_ALLOWED || call.plan->count == 0 || verdict->decided_us[0] == 0)
        return weir_error_set(error, WEIR_E_STATE, NULL, "Nothing was spent.");
    set_settled(&call, verdict, actual);
    if (!is_of_same_sums(&call, verdict))
        return refuse_verdict(&call, verdict, error);
    if (!verdict->by_memory)
        call.check.count = weir_limiter_settle_leases(edition, call.plan->spends,
                                                      call.plan->planned, call.plan->count);
    if (call.check.count == 0)
        return WEIR_OK;
    bool is_settled = ask(&call, verdict->by_memory ? limiter->fallback : limiter->store);
    weir_denials_forget(limiter->denials, &call.check);
    for (size_t i = 0; i < call.check.count; i++)
        weir_limiter_count_settled(edition, &call.plan->planned[i], &call.plan->spends[i],
                                   is_settled, verdict->by_memory);
    return is_settled ? WEIR_OK : refuse_store(&call.check, error);
}

/* In the fallback of this process, where the subject may have spent too, and in the store. */
static enum weir_code change(struct call *call, struct weir_error *error)
{
    struct weir_limiter *limiter = call->limiter;
    if (call->plan->count == 0)
        return weir_error_set(
            error, WEIR_E_VALUE, NULL,
            "No limit of the policy is the subject's own; name what it is counted "
            "by, or a limit.");
    if (limiter->fallback != NULL && !ask(call, limiter->fallback))
        return refuse_store(&call->check, error);
    weir_leases_drop(limiter->leases, call->plan->spends, call->plan->count);
    bool is_changed = ask(call, limiter->store);
    weir_leases_drop(limiter->leases, call->plan->spends, call->plan->count);
    weir_denials_forget_all(limiter->denials);
    return is_changed ? WEIR_OK : refuse_store(&call->check, error);
}

enum weir_code weir_limiter_reset(struct weir_limiter *limiter, const struct weir_subject *subject,
                                  struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    enum weir_code code = plan_call(&call, limiter, edition, subject, 1, TO_CHANGE, error);
    if (code != WEIR_OK)
        return code;
    call.check.operation = WEIR_RESET;
    return change(&call, error);
}

enum weir_code weir_limiter_block(struct weir_limiter *limiter, const struct weir_subject *subject,
                                  uint64_t seconds, struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    enum weir_code code = plan_call(&call, limiter, edition, subject, 1, TO_CHANGE, error);
    if (code != WEIR_OK)
        return code;
    if (seconds == 0 || seconds > WEIR_BURST_MAX_US / 1000000)
        return weir_error_set(
            error, WEIR_E_VALUE, NULL, "A block of %llu seconds cannot be; wanted are 1 to %llu.",
            (unsigned long long)seconds, (unsigned long long)(WEIR_BURST_MAX_US / 1000000));
    call.check.operation = WEIR_BLOCK;
    call.check.block_us = seconds * 1000000;
    return change(&call, error);
}

/* for what is mounted for operators */

/* A call that begins with nothing planned. */
static void begin_call(struct call *call, struct weir_limiter *limiter,
                       const struct weir_edition *edition)
{
    *call = (struct call){ .limiter = limiter, .edition = edition };
    call->plan = &call->planned.plan;
}

enum weir_code weir_limiter_change_keys(struct weir_limiter *limiter, enum weir_operation operation,
                                        const struct weir_spend *spends, size_t count,
                                        uint64_t block_us, struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    begin_call(&call, limiter, edition);
    call.plan->count = count < WEIR_CHECK_LIMITS ? count : WEIR_CHECK_LIMITS;
    memcpy(call.plan->spends, spends, call.plan->count * sizeof *spends);
    call.check = (struct weir_check){ .operation = operation,
                                      .spends = call.plan->spends,
                                      .answers = call.answers,
                                      .count = call.plan->count,
                                      .block_us = block_us };
    return change(&call, error);
}

enum weir_code weir_limiter_exchange(struct weir_limiter *limiter, const char *name,
                                     struct weir_exchange *exchange, uint64_t *now_us,
                                     struct weir_error *error)
{
    struct call call;
    HOLDS_EDITION const struct weir_edition *edition = take_edition(limiter);
    if (!weir_store_exchanges(limiter->store))
        return weir_error_set(error, WEIR_E_NOT_YET, NULL,
                              "The store \"%s\" keeps no texts, which a list of blocks takes.",
                              limiter->store->type->name);
    begin_call(&call, limiter, edition);
    /* No limit's key begins so: behind the prefix they have a brace. */
    struct weir_buffer key = weir_buffer_init(call.keys, sizeof call.keys);
    weir_buffer_put_string(&key, edition->policy->store_prefix);
    weir_buffer_put_string(&key, "::");
    weir_buffer_put_string(&key, name);
    call.plan->spends[0] = (struct weir_spend){ .key = key.at, .key_length = key.length };
    call.check = (struct weir_check){
        .operation = WEIR_EXCHANGE, .spends = call.plan->spends, .count = 1, .exchange = exchange
    };
    if (!ask(&call, limiter->store))
        return refuse_store(&call.check, error);
    *now_us = call.check.now_us;
    return WEIR_OK;
}
