#include "limit/limiter_observe.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/order.h"
#include "headers/ratelimit.h"
#include "limit/limiter_internal.h"
#include "limit/subject.h"
#include "store/store.h"

/* coming and going */

bool weir_limiter_open_observing(struct weir_limiter *limiter, const char *instance)
{
    struct weir_limiter_observing *observing = calloc(1, sizeof *observing);
    if (observing == NULL)
        return false;
    limiter->observing = observing;
    pthread_mutex_init(&observing->mutex, NULL); /* does not fail for a default one (glibc) */
    if (instance != NULL)
        memcpy(observing->instance, instance, strnlen(instance, WEIR_INSTANCE_MAX));
    else if (gethostname(observing->instance, WEIR_INSTANCE_MAX) != 0)
        strcpy(observing->instance, "unknown");
    observing->recent = weir_recent_new();
    return observing->recent != NULL;
}

void weir_limiter_close_observing(struct weir_limiter *limiter)
{
    struct weir_limiter_observing *observing = limiter->observing;
    if (observing == NULL)
        return;
    weir_recent_free(observing->recent);
    pthread_mutex_destroy(&observing->mutex);
    free(observing);
    limiter->observing = NULL;
}

/* The clock of the lists: the limiter's where the store is in this process; else one that the clock of a
 * Redis server cannot differ from. `note` may know the time from somebody who has just looked. */
static uint64_t top_now_us(const struct weir_limiter *limiter, const struct weir_limit_note *note)
{
    if (!limiter->store->type->answers_inline)
        return note != NULL && note->answered_us > 0 ? note->answered_us : weir_monotonic_us();
    return note != NULL && note->now_us > 0 ? note->now_us : weir_clock_now_us(&limiter->clock);
}

static struct weir_limiter_top *free_top(struct weir_limiter_top *top)
{
    if (top == NULL)
        return NULL;
    weir_top_free(top->by[WEIR_TOP_SPENT]);
    weir_top_free(top->by[WEIR_TOP_REFUSED]);
    free(top->policy);
    free(top);
    return NULL;
}

static struct weir_limiter_top *new_top(const char *policy, uint64_t now_us)
{
    struct weir_limiter_top *top = calloc(1, sizeof *top);
    if (top == NULL)
        return NULL;
    top->policy = strdup(policy);
    top->by[WEIR_TOP_SPENT] = weir_top_new(now_us);
    top->by[WEIR_TOP_REFUSED] = weir_top_new(now_us);
    bool is_whole =
        top->policy != NULL && top->by[WEIR_TOP_SPENT] != NULL && top->by[WEIR_TOP_REFUSED] != NULL;
    return is_whole ? top : free_top(top);
}

/* That of an edition before, or a new one; the mutex is locked. NULL: memory ran out. */
static struct weir_limiter_top *refer_to_top(struct weir_limiter_observing *observing,
                                             const char *policy, uint64_t now_us)
{
    struct weir_limiter_top *top = observing->tops;
    while (top != NULL && strcmp(top->policy, policy) != 0)
        top = top->next;
    if (top == NULL) {
        top = new_top(policy, now_us);
        if (top == NULL)
            return NULL;
        top->next = observing->tops;
        observing->tops = top;
    }
    top->editions++;
    return top;
}

bool weir_limiter_open_tops(struct weir_limiter *limiter, struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    struct weir_limiter_observing *observing = limiter->observing;
    uint64_t now_us = top_now_us(limiter, NULL);
    size_t count = policy->ruleset_count;
    edition->tops = calloc(count + 1, sizeof edition->tops[0]);
    if (edition->tops == NULL)
        return false;
    bool is_whole = true;
    pthread_mutex_lock(&observing->mutex);
    for (size_t i = 0; i <= count && is_whole; i++) {
        const struct weir_ruleset *ruleset = i < count ? &policy->rulesets[i] : &policy->guesses;
        edition->tops[i] = refer_to_top(observing, ruleset->name, now_us);
        is_whole = edition->tops[i] != NULL;
    }
    pthread_mutex_unlock(&observing->mutex);
    return is_whole;
}

/* The mutex is locked. */
static void leave_top(struct weir_limiter_observing *observing, struct weir_limiter_top *top)
{
    if (--top->editions > 0)
        return;
    struct weir_limiter_top **at = &observing->tops;
    while (*at != top)
        at = &(*at)->next;
    *at = top->next;
    free_top(top);
}

void weir_limiter_close_tops(struct weir_limiter *limiter, struct weir_edition *edition)
{
    struct weir_limiter_observing *observing = limiter->observing;
    if (edition->tops == NULL)
        return;
    pthread_mutex_lock(&observing->mutex);
    for (size_t i = 0; i <= edition->policy->ruleset_count; i++)
        if (edition->tops[i] != NULL)
            leave_top(observing, edition->tops[i]);
    pthread_mutex_unlock(&observing->mutex);
    free(edition->tops);
    edition->tops = NULL;
}

/* counting */

/* One that is refused, or would be, and not for the store's sake. */
static bool is_refusal(const struct weir_limit_note *note)
{
    return note->outcome != WEIR_ALLOWED && note->outcome != WEIR_FAILED_OPEN
           && note->outcome != WEIR_FAILED_CLOSED && note->would != WEIR_FAILED_CLOSED;
}

static void count(const struct weir_limiter *limiter, const struct weir_edition *edition,
                  const struct weir_limit_note *note, const struct weir_client *client)
{
    bool is_refused = is_refusal(note);
    const struct weir_limiter_top *top = weir_edition_top(edition, note->ruleset);
    const struct weir_text key = { (const char *)client->bytes, client->length };
    weir_count_decision(weir_edition_counts(edition, note->ruleset), note->limit, note->outcome,
                        note->source, 1);
    if (top == NULL || (!is_refused && !note->has_spent))
        return;
    weir_top_add(top->by[is_refused ? WEIR_TOP_REFUSED : WEIR_TOP_SPENT], key,
                 is_refused ? 1 : note->cost, top_now_us(limiter, note));
}

/* telling */

/* When it was decided. A store in this process goes by the limiter's own clock. */
static uint64_t time_of(const struct weir_limiter *limiter, const struct weir_limit_note *note)
{
    bool is_own = note->source == WEIR_SOURCE_MEMORY
                  || (note->source == WEIR_SOURCE_STORE && limiter->store->type->answers_inline);
    return is_own && note->now_us > 0 ? note->now_us : weir_clock_now_us(&limiter->clock);
}

static void add_numbers(const struct weir_limiter *limiter, const struct weir_edition *edition,
                        const struct weir_limit_note *note, struct weir_decision *decision)
{
    if (note->planned == NULL) {
        decision->quota = note->most;
        return;
    }
    const struct weir_quota quota =
        weir_limiter_quota(limiter, edition, note->planned, note->spend, note->answer);
    decision->quota = quota.quota;
    decision->remaining = quota.remaining;
    decision->window_s = quota.window_s;
    decision->reset_s = weir_seconds_up(note->answer->reset_us);
}

static const char *limit_name(const struct weir_limit_note *note)
{
    if (note->limit == WEIR_LIMIT_CONCURRENCY)
        return WEIR_CONCURRENCY;
    return note->planned == NULL ? NULL : note->planned->limit->name;
}

/* All but the client and what is of a request. */
static void fill(const struct weir_limiter *limiter, const struct weir_edition *edition,
                 const struct weir_limit_note *note, uint64_t time_us,
                 struct weir_decision *decision)
{
    *decision = (struct weir_decision){
        .outcome = note->outcome,
        .by_memory = note->by_memory,
        .policy = note->ruleset == NULL ? NULL : note->ruleset->name,
        .limit = limit_name(note),
        .failure = note->failure,
        .why = note->why[0] == '\0' ? NULL : note->why,
        .cost = note->cost,
        .retry_s = note->retry_s,
        .time_us = time_us,
        .instance = limiter->observing->instance,
        .generation = edition->number,
        .source = note->source == WEIR_SOURCE_NONE ? NULL : weir_source_name(note->source),
        .shadow = note->outcome == WEIR_SHADOW_LIMITED || note->would != note->outcome,
        .would = note->would,
        .status = note->status,
        .retry_us = note->retry_us,
        .count = 1,
    };
    add_numbers(limiter, edition, note, decision);
}

/* So many decisions a second are told by each thread in full. Of a flood those beyond that get no id,
 * with which each reply would have to be made anew, and take no place among the last ones. */
#define IN_FULL_PER_S 100

static bool is_in_full(uint64_t time_us)
{
    static _Thread_local uint64_t second;
    static _Thread_local unsigned told;
    if (time_us / 1000000 != second) {
        second = time_us / 1000000;
        told = 0;
    }
    return told < IN_FULL_PER_S && ++told > 0;
}

static void tell(struct weir_limiter *limiter, const struct weir_decision *decision, bool in_full)
{
    if (in_full)
        weir_recent_add(limiter->observing->recent, decision);
    if (limiter->on_decision != NULL)
        limiter->on_decision(limiter->decision_self, decision);
}

/* decisions about requests */

/* The network of a client, in `memory`; NULL: there is none. */
static const char *name_network(const struct weir_identity *who, char memory[WEIR_NETWORK_CHARS])
{
    if (who->client.family == WEIR_NO_ADDRESS)
        return NULL;
    weir_network_print(&who->network, memory);
    return memory;
}

/* Whose requests at once there are too many of. */
static const char *label_busy(const struct weir_limit_state *state,
                              const struct weir_request *request,
                              const struct weir_limit_note *note, char label[WEIR_KEY_LABEL_CHARS])
{
    char memory[WEIR_SUBJECT_MAX + 1];
    struct weir_buffer subject = weir_buffer_init(memory, sizeof memory);
    const struct weir_asker asker = { .policy = state->edition->policy,
                                      .identity = &request->identity,
                                      .facts = &request->facts,
                                      .match = &state->match };
    if (!state->hold.is_own
        || !weir_subject_write(&note->ruleset->concurrency->by, &asker, &subject))
        return NULL;
    weir_subject_label(weir_buffer_text(&subject), &request->identity, label);
    return label;
}

static const char *label_key(const struct weir_edition *edition, const struct weir_limit_note *note,
                             const struct weir_identity *who, char label[WEIR_KEY_LABEL_CHARS])
{
    if (note->planned == NULL)
        return NULL;
    weir_subject_label(weir_subject_of_key(note->spend, edition->policy, note->planned->ruleset),
                       who, label);
    return label;
}

static void tell_request(struct weir_limiter *limiter, const struct weir_limit_state *state,
                         struct weir_request *request, const struct weir_limit_note *note,
                         uint64_t time_us, bool in_full)
{
    char network[WEIR_NETWORK_CHARS], label[WEIR_KEY_LABEL_CHARS];
    struct weir_decision decision;
    fill(limiter, state->edition, note, time_us, &decision);
    decision.method = request->method;
    decision.path =
        request->facts.path.at == NULL ? request->facts.target.at : request->facts.path.at;
    decision.address = name_network(&request->identity, network);
    decision.client =
        request->identity.api_key != NULL ? request->identity.api_key->id : decision.address;
    decision.key = note->limit == WEIR_LIMIT_CONCURRENCY
                       ? label_busy(state, request, note, label)
                       : label_key(state->edition, note, &request->identity, label);
    decision.request_id = in_full ? weir_request_id(request) : request->id;
    decision.traceparent = in_full ? weir_request_traceparent(request) : NULL;
    tell(limiter, &decision, in_full);
}

/* Out of line: most requests are let through, and nothing is told of them. */
__attribute__((noinline)) static void observe(struct weir_limiter *limiter,
                                              struct weir_limit_state *state,
                                              struct weir_request *request,
                                              const struct weir_limit_note *note)
{
    struct weir_client client;
    weir_client_of(&request->identity, state->edition->policy, &client);
    count(limiter, state->edition, note, &client);
    uint64_t time_us = time_of(limiter, note);
    bool in_full = is_in_full(time_us);
    if (in_full || limiter->on_decision != NULL)
        tell_request(limiter, state, request, note, time_us, in_full);
}

/* notes */

uint64_t weir_limiter_retry_s(const struct weir_combined *verdict)
{
    if (verdict == NULL || verdict->allowed || verdict->impossible)
        return 0;
    return weir_larger(weir_seconds_up(verdict->retry_us), 1);
}

/* Of the reply to such a refusal. */
static unsigned status_of(const struct weir_limit_state *state, enum weir_outcome outcome)
{
    switch (outcome) {
    case WEIR_LIMITED:
    case WEIR_IMPOSSIBLE:
        return 429;
    case WEIR_UNAUTHENTICATED:
        return 401;
    case WEIR_FAILED_CLOSED:
        return 503;
    case WEIR_UNREADABLE:
        return weir_limiter_unreadable_status(state);
    case WEIR_DENIED:
        return 403;
    case WEIR_BUSY:
        return state->hold.is_own ? 429 : 503;
    case WEIR_ALLOWED:
    case WEIR_SHADOW_LIMITED:
    case WEIR_FAILED_OPEN:
        break;
    }
    return 0;
}

static void note_limit(struct weir_limit_note *note, const struct weir_limit_state *state,
                       const struct weir_combined *verdict)
{
    note->limit = WEIR_NO_LIMIT;
    if (verdict != NULL && !verdict->allowed) {
        note->planned = &state->planned[verdict->worst];
        note->spend = &state->check.spends[verdict->worst];
        note->answer = &state->check.answers[verdict->worst];
        note->limit = (size_t)(note->planned->limit - note->planned->ruleset->limits);
        note->retry_us = verdict->impossible ? 0 : verdict->retry_us;
    } else if (state->hold.is_over) {
        note->limit = WEIR_LIMIT_CONCURRENCY;
    }
}

/* What the store's failure is called; the words are its own. */
static void note_failure(struct weir_limit_note *note, const struct weir_limit_state *state)
{
    const struct weir_check *check = &state->check;
    note->failure = weir_store_failure_name(check->result);
    if (note->failure == NULL)
        return; /* the fallback has answered, and holds too little for that */
    note->source = WEIR_SOURCE_NONE;
    memcpy(note->why, check->why, sizeof note->why);
    note->why[sizeof note->why - 1] = '\0';
}

static struct weir_limit_note make_note(const struct weir_limit_state *state,
                                        enum weir_outcome outcome,
                                        const struct weir_combined *verdict, uint64_t retry_s)
{
    bool is_watched = outcome == WEIR_SHADOW_LIMITED || outcome == WEIR_FAILED_OPEN;
    struct weir_limit_note note = {
        .outcome = outcome,
        .would = is_watched && state->would != WEIR_ALLOWED ? state->would : outcome,
        .ruleset = state->ruleset,
        .by_memory = state->by_memory,
        .has_spent = outcome == WEIR_ALLOWED && state->check.count > 0,
        .source = state->by_memory ? WEIR_SOURCE_MEMORY : state->source,
        .cost = state->check.count > 0 ? state->check.spends[0].cost : 0,
        .retry_s = retry_s,
        .most = state->hold.is_over ? state->hold.most : 0,
        .now_us = state->check.now_us,
        .answered_us = state->answered_us,
    };
    note.retry_us = verdict == NULL ? retry_s * 1000000 : 0;
    note_limit(&note, state, verdict);
    if (outcome == WEIR_FAILED_OPEN || outcome == WEIR_FAILED_CLOSED)
        note_failure(&note, state);
    return note;
}

/* Which of two things that a request was let through in spite of is the one to tell. */
static unsigned rank(enum weir_outcome outcome)
{
    switch (outcome) {
    case WEIR_LIMITED:
    case WEIR_IMPOSSIBLE:
        return 2; /* the application is to refuse it */
    case WEIR_ALLOWED:
        return 0;
    case WEIR_SHADOW_LIMITED:
    case WEIR_UNAUTHENTICATED:
    case WEIR_FAILED_OPEN:
    case WEIR_FAILED_CLOSED:
    case WEIR_UNREADABLE:
    case WEIR_DENIED:
    case WEIR_BUSY:
        break;
    }
    return 1;
}

void weir_limiter_report(struct weir_limiter *limiter, struct weir_limit_state *state,
                         struct weir_request *request, enum weir_outcome outcome,
                         const struct weir_combined *verdict)
{
    struct weir_limit_note note = make_note(state, outcome, verdict, weir_limiter_retry_s(verdict));
    note.status = note.would == outcome ? 0 : status_of(state, note.would);
    if (state->note != NULL && rank(state->note->outcome) >= rank(note.outcome))
        return;
    if (state->note == NULL)
        state->note = weir_request_alloc(request, sizeof *state->note);
    if (state->note != NULL) {
        *state->note = note;
        return;
    }
    /* Better too early than never. */
    if (!state->is_concluded)
        observe(limiter, state, request, &note);
    state->is_concluded = true;
}

void weir_limiter_conclude(struct weir_limiter *limiter, struct weir_limit_state *state,
                           struct weir_request *request, enum weir_outcome outcome,
                           const struct weir_combined *verdict, uint64_t retry_s)
{
    struct weir_limit_note note = make_note(state, outcome, verdict, retry_s);
    note.status = status_of(state, outcome);
    /* Nobody else says that the store failed before that. */
    if (note.failure == NULL && state->note != NULL && state->note->failure != NULL) {
        note.failure = state->note->failure;
        memcpy(note.why, state->note->why, sizeof note.why);
    }
    if (!state->is_concluded)
        observe(limiter, state, request, &note);
    state->is_concluded = true;
}

void weir_limiter_passed(struct weir_limiter *limiter, struct weir_limit_state *state,
                         struct weir_request *request)
{
    if (state->is_concluded)
        return;
    state->is_concluded = true;
    if (state->note != NULL) {
        observe(limiter, state, request, state->note);
        return;
    }
    struct weir_client client = { .length = 0 };
    const struct weir_limit_note note = { .outcome = WEIR_ALLOWED,
                                          .would = WEIR_ALLOWED,
                                          .ruleset = state->match.route->ruleset,
                                          .limit = WEIR_NO_LIMIT,
                                          .source = state->source,
                                          .has_spent = state->has_spent,
                                          .cost = state->has_spent ? state->spends[0].cost : 0,
                                          .now_us = state->check.now_us,
                                          .answered_us = state->answered_us };
    if (note.has_spent)
        weir_client_of(&request->identity, state->edition->policy, &client);
    count(limiter, state->edition, &note, &client);
}

/* decisions about calls */

/* The part of a client's label that is its public name; NULL: it has none. */
static const char *public_name(const char *label)
{
    const struct weir_text text = weir_text_from(label);
    if (!weir_text_starts_with(text, WEIR_TEXT("api_key:"))
        && !weir_text_starts_with(text, WEIR_TEXT("ip:")))
        return NULL;
    return strchr(label, ':') + 1;
}

void weir_limiter_observe_call(struct weir_limiter *limiter, const struct weir_edition *edition,
                               const struct weir_limit_note *note, const struct weir_client *client)
{
    char who[WEIR_KEY_LABEL_CHARS], label[WEIR_KEY_LABEL_CHARS];
    struct weir_decision decision;
    count(limiter, edition, note, client);
    if (note->outcome == WEIR_ALLOWED && !note->by_memory)
        return;
    uint64_t time_us = time_of(limiter, note);
    fill(limiter, edition, note, time_us, &decision);
    weir_client_label(client, edition->policy, who);
    decision.client = public_name(who);
    decision.key = label_key(edition, note, NULL, label);
    tell(limiter, &decision, is_in_full(time_us));
}

/* for operators */

size_t weir_limiter_recent(struct weir_limiter *limiter, uint64_t after,
                           struct weir_recent_decision *decisions, size_t size)
{
    return weir_recent_list(limiter->observing->recent, after, decisions, size);
}

bool weir_limiter_recent_of(struct weir_limiter *limiter, const char *request_id,
                            struct weir_recent_decision *decision)
{
    return weir_recent_find(limiter->observing->recent, request_id, decision);
}

static const struct weir_limiter_top *find_top(const struct weir_edition *edition,
                                               const char *policy)
{
    for (size_t i = 0; i <= edition->policy->ruleset_count; i++)
        if (strcmp(edition->tops[i]->policy, policy) == 0)
            return edition->tops[i];
    return NULL;
}

static void label_entry(const struct weir_top_entry *entry, const struct weir_policy *policy,
                        struct weir_top_key *key)
{
    char label[WEIR_KEY_LABEL_CHARS];
    struct weir_client client = { .length = entry->key_length };
    memcpy(client.bytes, entry->key, entry->key_length);
    weir_client_label(&client, policy, label);
    size_t length = strnlen(label, sizeof key->key - 1);
    memcpy(key->key, label, length);
    key->key[length] = '\0';
    key->count = entry->count;
    key->at_least = entry->at_least;
}

size_t weir_limiter_top(struct weir_limiter *limiter, const char *policy, enum weir_top_by by,
                        struct weir_top_key *keys, size_t size, struct weir_top_total *total)
{
    const struct weir_edition *edition = weir_edition_take(&limiter->editions);
    const struct weir_limiter_top *top = find_top(edition, policy);
    struct weir_top_entry *entries = top == NULL ? NULL : calloc(size + 1, sizeof *entries);
    struct weir_top_sum sum = { .total = 0 };
    size_t count = 0;
    uint64_t now_us = top_now_us(limiter, NULL);
    if (entries != NULL)
        count = weir_top_list(top->by[by == WEIR_TOP_REFUSED], now_us, entries, size, &sum);
    for (size_t i = 0; i < count; i++)
        label_entry(&entries[i], edition->policy, &keys[i]);
    if (total != NULL)
        *total = (struct weir_top_total){ .total = sum.total,
                                          .error_bound = sum.error_bound,
                                          .since_us = weir_clock_now_us(&limiter->clock)
                                                      - (now_us - sum.since_us) };
    free(entries);
    weir_edition_leave(edition);
    return count;
}
