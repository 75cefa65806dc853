/* The limiter for code that is not in a request: it asks, and waits for the answer in place. */
#include "limit/limiter_internal.h"

#include <string.h>

#include "limit/algorithm.h"
#include "store/store.h"

/* One call: its plan, and where the thread waits for the store. */
struct call {
    struct weir_limiter *limiter;
    struct weir_subject_plan planned;
    struct weir_plan_of_checks *plan; /* in `planned` */
    char keys[WEIR_PLAN_KEY_BYTES];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    struct weir_check check;
    bool is_leased; /* the leases have the check, and not the store */
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

static enum weir_code plan_call(struct call *call, struct weir_limiter *limiter,
                                const struct weir_subject *subjects, size_t count,
                                enum purpose purpose, struct weir_error *error)
{
    if (limiter == NULL || subjects == NULL || count == 0)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "There is no %s.",
                              limiter == NULL ? "limiter" : "subject");
    call->limiter = limiter;
    call->planned.looks = purpose == TO_LOOK;
    call->planned.only_own = purpose == TO_CHANGE;
    call->planned.denied = NULL;
    call->plan = &call->planned.plan;
    call->plan->count = 0;
    call->plan->keys = weir_buffer_init(call->keys, sizeof call->keys);
    call->is_leased = false;
    call->by_memory = false;
    call->is_share_too_small = false;
    memset(call->answers, 0, sizeof call->answers);
    enum weir_code code = WEIR_OK;
    for (size_t i = 0; i < count && code == WEIR_OK; i++)
        code = weir_limiter_add_subject(limiter, subject_at(subjects, i), &call->planned, error);
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
        weir_leases_submit(call->limiter->leases, &call->check);
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
    if (weir_store_ready(store)) {
        submit(call, store);
        return call->check.result == WEIR_STORE_ANSWERED;
    }
    call->check.result = WEIR_STORE_UNAVAILABLE;
    strcpy(call->check.why, "not connected");
    return false;
}

/* The same, of what this process holds, or of the limiter's store. */
static bool ask_leases(struct call *call)
{
    struct weir_leases *leases = call->limiter->leases;
    if (weir_leases_decide(leases, &call->check))
        return true;
    call->is_leased = weir_leases_take(leases, &call->check);
    bool is_answered = ask(call, call->limiter->store);
    if (is_answered && !call->is_leased)
        weir_leases_count_held(leases, &call->check);
    call->is_leased = false;
    return is_answered;
}

/* The same, unless it was refused a moment ago. */
static bool ask_or_deny(struct call *call)
{
    struct weir_denials *denials = call->limiter->denials;
    struct weir_denial_question question;
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

/* The strictest of the rules: closed, then memory, then open. Policies that only watch never keep
 * anybody out. */
static enum weir_failure_action strictest_rule(const struct call *call)
{
    enum weir_failure_action strictest = WEIR_FAIL_OPEN;
    for (size_t i = 0; i < call->plan->count; i++) {
        const struct weir_ruleset *ruleset = call->plan->planned[i].ruleset;
        enum weir_failure_action rule = weir_limiter_failure_rule(ruleset, call->check.result);
        if (rule == WEIR_FAIL_OPEN || weir_limiter_mode(call->limiter, ruleset) != WEIR_ENFORCE)
            continue;
        if (strictest == WEIR_FAIL_OPEN || rule == WEIR_FAIL_CLOSED)
            strictest = rule;
    }
    return strictest;
}

static bool ask_memory(struct call *call)
{
    struct weir_limiter *limiter = call->limiter;
    if (limiter->fallback == NULL)
        return false;
    for (size_t i = 0; i < call->plan->count; i++)
        if (!weir_limiter_take_share(&call->plan->spends[i], &call->plan->planned[i],
                                     limiter->policy->instances))
            call->is_share_too_small = true;
    call->by_memory = true;
    return ask(call, limiter->fallback);
}

static bool refusals_are_watched(const struct call *call)
{
    for (size_t i = 0; i < call->plan->count; i++)
        if (!call->answers[i].allowed
            && weir_limiter_mode(call->limiter, call->plan->planned[i].ruleset) == WEIR_ENFORCE)
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

static void fill_limits(const struct call *call, struct weir_verdict *verdict)
{
    verdict->quota_count = call->plan->count;
    for (size_t i = 0; i < call->plan->count; i++) {
        const struct weir_answer *answer = &call->answers[i];
        verdict->quotas[i] = weir_limiter_quota(call->limiter, &call->plan->planned[i],
                                                &call->plan->spends[i], answer);
        verdict->decided_us[i] = call->check.now_us + answer->after_us;
        verdict->full_us[i] = verdict->decided_us[i] + answer->reset_us;
        if (answer->wait_us > verdict->wait_us)
            verdict->wait_us = answer->wait_us;
    }
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
    if (combined.allowed)
        return;
    verdict->wait_us = 0;
    verdict->retry_us = verdict->outcome == WEIR_FAILED_CLOSED
                            ? weir_limiter_closed_retry_us(call->limiter)
                            : combined.retry_us;
    verdict->policy = call->plan->planned[combined.worst].ruleset->name;
    verdict->limit = call->plan->planned[combined.worst].limit->name;
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
static struct weir_verdict denied_by(const struct weir_ruleset *ruleset)
{
    return (struct weir_verdict){ .outcome = WEIR_DENIED, .policy = ruleset->name };
}

enum weir_code weir_limiter_check(struct weir_limiter *limiter, const struct weir_subject *subjects,
                                  size_t count, struct weir_verdict *verdict,
                                  struct weir_error *error)
{
    struct call call;
    enum weir_code code = plan_call(&call, limiter, subjects, count, TO_SPEND, error);
    if (code != WEIR_OK)
        return code;
    if (call.planned.denied != NULL)
        *verdict = denied_by(call.planned.denied);
    else if (call.plan->count == 0)
        *verdict = (struct weir_verdict){ .allowed = true };
    else if (ask_or_deny(&call))
        fill_verdict(&call, verdict);
    else
        fail_verdict(&call, verdict);
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
    enum weir_code code = plan_call(&call, limiter, subjects, count, TO_LOOK, error);
    if (code != WEIR_OK)
        return code;
    if (call.planned.denied != NULL) {
        *verdict = denied_by(call.planned.denied);
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
    verdict->policy = call.plan->planned[combined.worst].ruleset->name;
    verdict->limit = call.plan->planned[combined.worst].limit->name;
    return WEIR_OK;
}

/* what changes sums without a decision */

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
                                    call->limiter->policy->instances);
    }
    call->check.operation = WEIR_SETTLE;
}

enum weir_code weir_limiter_settle(struct weir_limiter *limiter,
                                   const struct weir_subject *subjects, size_t count,
                                   const struct weir_verdict *verdict, uint64_t actual,
                                   struct weir_error *error)
{
    struct call call;
    enum weir_code code = plan_call(&call, limiter, subjects, count, TO_SPEND, error);
    if (code != WEIR_OK)
        return code;
    merge_penalties(&call, NULL);
    if (verdict == NULL || verdict->quota_count != call.plan->count)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "The verdict is not one about these subjects.");
    if (verdict->outcome != WEIR_ALLOWED || call.plan->count == 0 || verdict->decided_us[0] == 0)
        return weir_error_set(error, WEIR_E_STATE, NULL, "Nothing was spent.");
    set_settled(&call, verdict, actual);
    if (!verdict->by_memory)
        call.check.count = weir_limiter_settle_leases(limiter, call.plan->spends, call.plan->count);
    if (call.check.count == 0)
        return WEIR_OK;
    bool is_settled = ask(&call, verdict->by_memory ? limiter->fallback : limiter->store);
    weir_denials_forget(limiter->denials, &call.check);
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
    enum weir_code code = plan_call(&call, limiter, subject, 1, TO_CHANGE, error);
    if (code != WEIR_OK)
        return code;
    call.check.operation = WEIR_RESET;
    return change(&call, error);
}

enum weir_code weir_limiter_block(struct weir_limiter *limiter, const struct weir_subject *subject,
                                  uint64_t seconds, struct weir_error *error)
{
    struct call call;
    enum weir_code code = plan_call(&call, limiter, subject, 1, TO_CHANGE, error);
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
