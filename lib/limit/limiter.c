/* Joins identity, policy, store and chain: the middleware that limits. */
#include "limit/limiter_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "chain/chain_internal.h"
#include "store/store.h"

/* asking the store */

static void on_answer(struct weir_check *check)
{
    const struct weir_limit_state *state = check->owner;
    weir_wake(state->ticket);
}

static void fail_check(struct weir_limit_state *state, const char *why)
{
    state->check.result = WEIR_STORE_UNAVAILABLE;
    strncpy(state->check.why, why, sizeof state->check.why - 1);
}

/* Copies a plan into the request's memory, at the size that it has; false: memory ran out. */
static bool keep_plan(struct weir_limit_state *state, struct weir_request *request,
                      const struct weir_plan_of_checks *plan)
{
    size_t count = plan->count;
    if (count == 0)
        return true;
    /* One behind the other, those that are aligned like pointers first. */
    size_t each = sizeof *state->spends + sizeof *state->planned + sizeof *state->check.answers;
    state->spends = weir_request_alloc(request, count * each + plan->keys.length);
    if (state->spends == NULL)
        return false;
    state->planned = (struct weir_planned *)(state->spends + count);
    state->check.answers = (struct weir_answer *)(state->planned + count);
    char *keys = (char *)(state->check.answers + count);

    memset(state->check.answers, 0, count * sizeof *state->check.answers);
    memcpy(keys, plan->keys.at, plan->keys.length);
    memcpy(state->spends, plan->spends, count * sizeof *state->spends);
    memcpy(state->planned, plan->planned, count * sizeof *state->planned);
    for (size_t i = 0; i < count; i++)
        state->spends[i].key = keys + (plan->spends[i].key - plan->keys.at);
    state->check.spends = state->spends;
    state->check.count = count;
    return true;
}

/* What is done with all there is to count by; false: it cannot be done. */
typedef bool use_asker(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_request *request, const struct weir_asker *asker);

/* Fills the check with the limits of the ruleset. */
static bool add_limits(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_request *request, const struct weir_asker *asker)
{
    (void)limiter;
    char memory[WEIR_PLAN_KEY_BYTES];
    struct weir_plan_of_checks plan;
    weir_plan_init(&plan, memory, sizeof memory);
    return weir_plan_add(&plan, state->ruleset, asker, state->cost)
           && keep_plan(state, request, &plan);
}

/* Fields of the body are decoded for as long as it takes to hash them into keys. */
static bool use_fields(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_request *request, struct weir_asker *asker, use_asker *use)
{
    struct weir_body_field fields[WEIR_FIELDS_MAX];
    struct weir_text body = weir_request_whole_body(request);
    const struct weir_ruleset *ruleset = state->ruleset;
    size_t size = weir_body_memory_bytes(body, ruleset->field_count);
    char *memory = malloc(size);
    if (memory == NULL)
        return false;

    struct weir_buffer buffer = weir_buffer_init(memory, size);
    for (size_t i = 0; i < ruleset->field_count; i++)
        fields[i] = (struct weir_body_field){ .name = ruleset->fields[i] };
    if (state->reading == WEIR_BODY_READ)
        state->reading =
            weir_body_read(&request->facts, body, fields, ruleset->field_count, &buffer);
    asker->fields = fields;
    asker->field_count = state->reading == WEIR_BODY_READ ? ruleset->field_count : 0;
    bool is_done = state->reading != WEIR_BODY_NO_MEMORY && use(limiter, state, request, asker);
    explicit_bzero(memory, buffer.length);
    free(memory);
    return is_done;
}

static bool ask_about(struct weir_limiter *limiter, struct weir_limit_state *state,
                      struct weir_request *request, use_asker *use)
{
    struct weir_asker asker = { .policy = state->edition->policy,
                                .identity = &request->identity,
                                .facts = &request->facts,
                                .match = &state->match,
                                .device = weir_limiter_device(state),
                                .prepared = state->edition->prepared };
    return state->ruleset->field_count > 0 ? use_fields(limiter, state, request, &asker, use)
                                           : use(limiter, state, request, &asker);
}

static bool make_plan(struct weir_limiter *limiter, struct weir_limit_state *state,
                      struct weir_request *request, const struct weir_ruleset *ruleset,
                      uint64_t cost)
{
    state->ruleset = ruleset;
    state->cost = cost;
    state->check = (struct weir_check){ .wants_time = true }; /* to settle with */
    state->source = WEIR_SOURCE_NONE;
    return ask_about(limiter, state, request, add_limits);
}

static enum weir_step conclude(struct weir_limiter *limiter, struct weir_limit_state *state,
                               struct weir_request *request);

/* A server that stops answers 503, as it does to who is parked already; one whose parking is full
 * goes on by the rule for a store that failed. */
static enum weir_step cannot_park(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request)
{
    if (weir_chain_is_stopping(request->chain)) {
        state->phase = WEIR_LIMIT_DONE;
        weir_request_fail(request, WEIR_E_STOPPING, "The server is stopping.");
        return WEIR_FAIL;
    }
    state->asked_us = 0;
    fail_check(state, "too many requests wait already");
    return conclude(limiter, state, request);
}

static void submit(const struct weir_limiter *limiter, struct weir_limit_state *state)
{
    if (state->is_leased)
        weir_leases_submit(state->edition->leases, &state->check);
    else
        limiter->store->type->submit(limiter->store->self, &state->check);
}

/* Whether what this process knows is enough. */
static bool answers_here(struct weir_limit_state *state)
{
    const struct weir_edition *edition = state->edition;
    if (weir_denials_replay(edition->denials, &state->check, &state->denial))
        state->source = WEIR_SOURCE_DENIALS;
    else if (weir_leases_decide(edition->leases, &state->check))
        state->source = WEIR_SOURCE_LEASE;
    else
        return false;
    return true;
}

static enum weir_step ask(struct weir_limiter *limiter, struct weir_limit_state *state,
                          struct weir_request *request)
{
    const struct weir_store *store = limiter->store;
    state->check.done = on_answer;
    state->check.owner = state;
    state->phase = WEIR_LIMIT_ASKED;
    state->asked_us = 0;
    state->ticket = (struct weir_ticket){ NULL, 0 };

    if (answers_here(state))
        return conclude(limiter, state, request);
    if (!weir_store_ready(store)) {
        fail_check(state, "not connected");
        return conclude(limiter, state, request);
    }
    if (state->has_timed_out) {
        fail_check(state, "no answer to the check before");
        state->check.result = WEIR_STORE_TIMEOUT;
        return conclude(limiter, state, request);
    }
    state->is_leased = weir_leases_take(state->edition->leases, &state->check);
    state->source = state->is_leased ? WEIR_SOURCE_LEASE : WEIR_SOURCE_STORE;
    if (!store->type->answers_inline)
        weir_limiter_note_asking(limiter, state);
    if (!state->is_leased && weir_in_place_ask(request, store, &state->check))
        return WEIR_WAIT;
    if (!store->type->answers_inline) {
        state->ticket = weir_park(request);
        if (state->ticket.number == 0)
            return cannot_park(limiter, state, request);
        /* Parked before it is handed over: a store that answers at once must find somebody to
         * wake. After this line the request belongs to the store. */
        submit(limiter, state);
        return WEIR_WAIT;
    }
    store->type->submit(store->self, &state->check);
    return conclude(limiter, state, request);
}

/* the store failed */

enum weir_failure_action weir_limiter_failure_rule(const struct weir_ruleset *ruleset,
                                                   enum weir_store_result result)
{
    switch (result) {
    case WEIR_STORE_TIMEOUT:
        return ruleset->on_store_failure.timeout;
    case WEIR_STORE_ERROR:
        return ruleset->on_store_failure.error;
    case WEIR_STORE_UNAVAILABLE:
    case WEIR_STORE_CANCELLED:
    case WEIR_STORE_ANSWERED:
        break;
    }
    return ruleset->on_store_failure.unavailable;
}

static void on_memory_answer(struct weir_check *check)
{
    (void)check;
}

bool weir_limiter_take_share(struct weir_spend *spend, const struct weir_planned *planned,
                             unsigned instances)
{
    bool fitted = spend->cost <= spend->rate.burst;
    spend->rate = weir_rate_share(&spend->rate, planned->limit, instances);
    return !fitted || spend->cost <= spend->rate.burst;
}

/* Asks the store in this process for this instance's share; false: even that failed. */
static bool ask_memory(struct weir_limit_state *state)
{
    struct weir_check *check = &state->check;
    struct weir_store *fallback = state->edition->fallback;
    if (fallback == NULL)
        return false;
    state->is_share_too_small = false;
    for (size_t i = 0; i < check->count; i++)
        if (!weir_limiter_take_share(&state->spends[i], &state->planned[i],
                                     state->edition->policy->instances))
            state->is_share_too_small = true;
    for (size_t i = 0; i < check->count; i++)
        state->planned[i].prepared = NULL; /* that is of the whole limit */
    check->done = on_memory_answer;
    fallback->type->submit(fallback->self, check);
    state->by_memory = true;
    return check->result == WEIR_STORE_ANSWERED;
}

/* a leaky bucket: its turn comes later */

static uint64_t longest_wait_us(const struct weir_check *check)
{
    uint64_t wait_us = 0;
    for (size_t i = 0; i < check->count; i++)
        if (check->answers[i].wait_us > wait_us)
            wait_us = check->answers[i].wait_us;
    return wait_us;
}

/* Nobody else may wait: as if the queue were full. */
static enum weir_step turn_away(struct weir_limiter *limiter, struct weir_limit_state *state,
                                struct weir_request *request)
{
    struct weir_answer *answers = state->check.answers;
    for (size_t i = 0; i < state->check.count; i++) {
        answers[i].allowed = answers[i].wait_us == 0;
        answers[i].retry_us = answers[i].wait_us;
    }
    struct weir_combined verdict = weir_combine(answers, state->check.count);
    return weir_limiter_refuse(limiter, state, request, &verdict);
}

static enum weir_step wait_turn(struct weir_limiter *limiter, struct weir_limit_state *state,
                                struct weir_request *request, uint64_t wait_us)
{
    state->phase = WEIR_LIMIT_WAITING;
    if (weir_wait(request, wait_us))
        return WEIR_WAIT;
    state->phase = WEIR_LIMIT_DONE;
    weir_limiter_give_back(limiter, state);
    if (!weir_chain_is_stopping(request->chain))
        return turn_away(limiter, state, request);
    weir_request_fail(request, WEIR_E_STOPPING, "The server is stopping.");
    return WEIR_FAIL;
}

static enum weir_step go_on(struct weir_limiter *limiter, struct weir_limit_state *state,
                            struct weir_request *request);

/* Its moment has come, or its client has gone and leaves the place to others. */
static enum weir_step end_wait(struct weir_limiter *limiter, struct weir_limit_state *state,
                               struct weir_request *request)
{
    state->phase = WEIR_LIMIT_DONE;
    if (!weir_request_is_gone(request))
        return go_on(limiter, state, request);
    weir_limiter_give_back(limiter, state);
    return WEIR_DONE;
}

/* the verdict */

static enum weir_step limit_route(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request);

/* Nobody knows by what such a request is to be counted. */
static bool is_unreadable(const struct weir_limit_state *state)
{
    return state->reading != WEIR_BODY_READ && state->reading != WEIR_BODY_NO_MEMORY;
}

/* No limit stands against the request. */
static enum weir_step enter(struct weir_limiter *limiter, struct weir_limit_state *state,
                            struct weir_request *request)
{
    state->phase = WEIR_LIMIT_DONE;
    if (is_unreadable(state) && weir_limiter_mode_here(state, state->ruleset) == WEIR_ENFORCE)
        return weir_limiter_unreadable(limiter, state, request);
    if (is_unreadable(state))
        weir_limiter_watch(limiter, state, request, WEIR_UNREADABLE, NULL);
    enum weir_step step = weir_limiter_enter(limiter, state, request);
    if (step == WEIR_NEXT)
        weir_limiter_passed(limiter, state, request);
    return step;
}

/* Nothing stands against this check: what it was for goes on. */
static enum weir_step go_on(struct weir_limiter *limiter, struct weir_limit_state *state,
                            struct weir_request *request)
{
    if (state->purpose == WEIR_FOR_ROUTE)
        return enter(limiter, state, request);
    state->has_quotas = false;
    state->shows_quotas = false;
    if (state->match.route->auth == WEIR_AUTH_REQUIRED)
        return weir_limiter_unauthorized(limiter, state, request);
    return limit_route(limiter, state, request);
}

/* From here on there are limits only. */
static void merge_penalties(struct weir_limit_state *state)
{
    struct weir_check *check = &state->check;
    check->count =
        weir_plan_merge_penalties(state->spends, state->planned, check->answers, check->count);
}

/* The application answers as it does to any failure. */
static enum weir_step leave_to_handler(struct weir_limiter *limiter, struct weir_limit_state *state,
                                       struct weir_request *request,
                                       const struct weir_combined *verdict)
{
    weir_limiter_report(limiter, state, request,
                        verdict->impossible ? WEIR_IMPOSSIBLE : WEIR_LIMITED, verdict);
    request->is_limited = true;
    return go_on(limiter, state, request);
}

/* What becomes of who is refused. What only a share of the limit cannot hold is not impossible: the whole
 * of it will be back. */
static enum weir_outcome would_be(const struct weir_limit_state *state,
                                  const struct weir_combined *verdict)
{
    if (!verdict->impossible)
        return WEIR_LIMITED;
    return state->by_memory && state->is_share_too_small ? WEIR_FAILED_CLOSED : WEIR_IMPOSSIBLE;
}

static enum weir_step apply_answers(struct weir_limiter *limiter, struct weir_limit_state *state,
                                    struct weir_request *request)
{
    merge_penalties(state);
    if (state->by_memory)
        weir_cap_waits(state->check.answers, state->check.count);
    struct weir_combined verdict = weir_combine(state->check.answers, state->check.count);
    bool enforces = weir_limiter_mode_here(state, state->ruleset) == WEIR_ENFORCE;
    state->has_quotas = state->purpose == WEIR_FOR_ROUTE;
    state->shows_quotas = state->has_quotas && enforces && weir_limiter_may_show(state, request);
    if (!verdict.allowed && enforces && would_be(state, &verdict) == WEIR_FAILED_CLOSED)
        return weir_limiter_fail_closed(limiter, state, request);
    if (!verdict.allowed && enforces && weir_limiter_leaves(state))
        return leave_to_handler(limiter, state, request, &verdict);
    if (!verdict.allowed && enforces)
        return weir_limiter_refuse(limiter, state, request, &verdict);
    if (!verdict.allowed)
        weir_limiter_watch(limiter, state, request, would_be(state, &verdict), &verdict);
    else if (state->by_memory)
        weir_limiter_report(limiter, state, request, WEIR_ALLOWED, &verdict);
    state->has_spent =
        verdict.allowed && state->purpose == WEIR_FOR_ROUTE && state->spends[0].cost > 0;
    if (verdict.allowed)
        weir_limiter_count_plan(state->edition, &state->check, state->planned, WEIR_UNITS_SPENT,
                                state->by_memory);
    uint64_t wait_us = verdict.allowed && enforces ? longest_wait_us(&state->check) : 0;
    return wait_us > 0 ? wait_turn(limiter, state, request, wait_us)
                       : go_on(limiter, state, request);
}

static enum weir_step apply_failure(struct weir_limiter *limiter, struct weir_limit_state *state,
                                    struct weir_request *request)
{
    enum weir_failure_action rule = weir_limiter_failure_rule(state->ruleset, state->check.result);
    if (rule == WEIR_FAIL_MEMORY && ask_memory(state))
        return apply_answers(limiter, state, request);
    /* A policy that only watches never keeps anybody out. */
    if (rule != WEIR_FAIL_OPEN && weir_limiter_mode_here(state, state->ruleset) == WEIR_ENFORCE)
        return weir_limiter_fail_closed(limiter, state, request);
    state->would = rule == WEIR_FAIL_OPEN ? WEIR_ALLOWED : WEIR_FAILED_CLOSED;
    weir_limiter_report(limiter, state, request, WEIR_FAILED_OPEN, NULL);
    return go_on(limiter, state, request);
}

static enum weir_step check_route(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request);

/* A store that fails knows nobody. */
static enum weir_step know_address(struct weir_limiter *limiter, struct weir_limit_state *state,
                                   struct weir_request *request)
{
    const struct weir_check *check = &state->check;
    state->known->is_at_home =
        check->result == WEIR_STORE_ANSWERED && check->answers[0].remaining == 0;
    state->purpose = WEIR_FOR_ROUTE;
    return check_route(limiter, state, request);
}

static enum weir_step conclude(struct weir_limiter *limiter, struct weir_limit_state *state,
                               struct weir_request *request)
{
    state->phase = WEIR_LIMIT_DONE;
    state->has_timed_out = state->has_timed_out || state->check.result == WEIR_STORE_TIMEOUT;
    weir_denials_note(state->edition->denials, &state->check, &state->denial);
    weir_limiter_count_answer(limiter, state);
    if (state->purpose == WEIR_FOR_ADDRESS)
        return know_address(limiter, state, request);
    if (state->check.result == WEIR_STORE_ANSWERED)
        return apply_answers(limiter, state, request);
    return apply_failure(limiter, state, request);
}

/* from the start */

static enum weir_step check_ruleset(struct weir_limiter *limiter, struct weir_limit_state *state,
                                    struct weir_request *request,
                                    const struct weir_ruleset *ruleset, uint64_t cost)
{
    state->by_memory = false;
    if (!make_plan(limiter, state, request, ruleset, cost)) {
        state->check.count = 0; /* the keys are gone: no store may decide it */
        fail_check(state, "the plan could not be made");
        return conclude(limiter, state, request);
    }
    if (state->check.count == 0)
        return go_on(limiter, state, request);
    return ask(limiter, state, request);
}

static uint64_t cost_of(const struct weir_limiter *limiter, struct weir_request *request,
                        const struct weir_route *route)
{
    return limiter->cost == NULL ? route->cost
                                 : limiter->cost(limiter->cost_self, request, route->cost);
}

/* No limit holds for whom a list lets through. */
static bool is_allowed(const struct weir_access *access, const struct weir_request *request)
{
    return access->allow != NULL && weir_list_names(access->allow, &request->identity) != NULL;
}

static enum weir_step check_route(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request)
{
    const struct weir_route *route = state->match.route;
    enum weir_step step;
    if (weir_limiter_is_busy(limiter, state, request, &step))
        return step;
    return check_ruleset(limiter, state, request, route->ruleset, cost_of(limiter, request, route));
}

/* Asks whether the account has succeeded from this address before. */
static enum weir_step look_for_address(struct weir_limiter *limiter, struct weir_limit_state *state,
                                       struct weir_request *request)
{
    struct weir_limit_known *known = state->known;
    state->purpose = WEIR_FOR_ADDRESS;
    state->check =
        (struct weir_check){ .spends = &known->memory, .answers = &known->remembered, .count = 1 };
    return ask(limiter, state, request);
}

/* Where a policy treats those alike who have succeeded before, they are found first. */
static enum weir_step recognise_and_check(struct weir_limiter *limiter,
                                          struct weir_limit_state *state,
                                          struct weir_request *request)
{
    state->ruleset = state->match.route->ruleset;
    if (state->ruleset->known != NULL
        && !ask_about(limiter, state, request, weir_limiter_recognise))
        state->known = NULL; /* without memory nobody is known */
    return weir_limiter_must_look(state) ? look_for_address(limiter, state, request)
                                         : check_route(limiter, state, request);
}

/* No limit of the ruleset holds for this request. */
static bool is_exempt(const struct weir_limit_state *state, const struct weir_ruleset *ruleset,
                      const struct weir_request *request)
{
    return weir_limiter_mode_here(state, ruleset) == WEIR_OFF
           || is_allowed(&state->edition->policy->access, request)
           || is_allowed(&ruleset->access, request);
}

/* The application may ask for fields, whether or not limits hold. But a body of unknown length may turn
 * out too long, and could not be handed on any more; so where nothing is refused it is left alone. */
static bool wants_body(const struct weir_limit_state *state, const struct weir_ruleset *ruleset,
                       const struct weir_request *request, bool is_free)
{
    bool may_refuse = weir_limiter_mode_here(state, ruleset) == WEIR_ENFORCE && !is_free;
    return ruleset->field_count > 0
           && (may_refuse || weir_request_body_fits(request, ruleset->body_max_bytes));
}

/* Reads the body where limits count by its fields, and then decides. */
static enum weir_step read_and_check(struct weir_limiter *limiter, struct weir_limit_state *state,
                                     struct weir_request *request)
{
    const struct weir_route *route = state->match.route;
    const struct weir_ruleset *ruleset = route->ruleset;
    bool is_free = is_exempt(state, ruleset, request);
    enum weir_body_stage stage = WEIR_BODY_UNASKED;
    if (wants_body(state, ruleset, request, is_free))
        stage = weir_request_await_body(request, ruleset->body_max_bytes);
    if (stage == WEIR_BODY_ASKED) {
        state->phase = WEIR_LIMIT_READING;
        return WEIR_WAIT;
    }
    if (stage == WEIR_BODY_CUT && request->error != NULL)
        return WEIR_FAIL;
    if (is_free)
        return go_on(limiter, state, request);
    state->reading = stage == WEIR_BODY_CUT ? WEIR_BODY_TOO_LONG : WEIR_BODY_READ;
    return recognise_and_check(limiter, state, request);
}

static enum weir_step limit_route(struct weir_limiter *limiter, struct weir_limit_state *state,
                                  struct weir_request *request)
{
    const struct weir_route *route = state->match.route;
    state->purpose = WEIR_FOR_ROUTE;
    state->source = WEIR_SOURCE_NONE;
    if (route->auth == WEIR_AUTH_REQUIRED && !weir_identity_is_known(&request->identity))
        return weir_limiter_unauthorized(limiter, state, request);
    return route->ruleset == NULL ? go_on(limiter, state, request)
                                  : read_and_check(limiter, state, request);
}

/* A key that nobody was given, and nothing else that says who asks. */
static bool is_guess(const struct weir_limit_state *state, const struct weir_request *request)
{
    return state->match.route->auth != WEIR_AUTH_NONE && request->identity.api_key_unknown
           && !weir_identity_is_known(&request->identity);
}

static void find_identity(const struct weir_edition *edition, struct weir_request *request)
{
    const struct weir_identity_rules *rules = &edition->policy->identity;
    if (request->identity.found)
        return;
    weir_identity_find(rules, &request->facts, &request->identity);
    request->is_peer_trusted = weir_trust_covers_peer(&rules->trust, &request->identity.peer);
}

/* Keeps out who is denied, or only says that it would; false: he is not kept out. */
static bool keep_out(struct weir_limiter *limiter, struct weir_limit_state *state,
                     struct weir_request *request, const struct weir_client_list *deny,
                     enum weir_mode mode, enum weir_step *step)
{
    if (deny == NULL || mode == WEIR_OFF)
        return false;
    const char *what = weir_list_names(deny, &request->identity);
    if (what == NULL)
        return false;
    if (mode == WEIR_ENFORCE)
        *step = weir_limiter_deny(limiter, state, request, what);
    else
        weir_limiter_watch(limiter, state, request, WEIR_DENIED, NULL);
    return mode == WEIR_ENFORCE;
}

/* The file's list goes first, then that of the route's policy. */
static bool is_kept_out(struct weir_limiter *limiter, struct weir_limit_state *state,
                        struct weir_request *request, enum weir_step *step)
{
    const struct weir_policy *policy = state->edition->policy;
    const struct weir_ruleset *ruleset = state->match.route->ruleset;
    if (keep_out(limiter, state, request, policy->access.deny, policy->mode, step))
        return true;
    if (ruleset == NULL)
        return false;
    state->ruleset = ruleset; /* for the report */
    bool is_out = keep_out(limiter, state, request, ruleset->access.deny,
                           weir_limiter_mode_here(state, ruleset), step);
    state->ruleset = NULL;
    return is_out;
}

static enum weir_step start(struct weir_limiter *limiter, struct weir_limit_state *state,
                            struct weir_request *request)
{
    enum weir_step step = WEIR_NEXT;
    state->edition = weir_limiter_edition_for(limiter, request, &state->kept);
    const struct weir_policy *policy = state->edition->policy;
    find_identity(state->edition, request);
    weir_policy_match(policy, &request->facts, &state->match);
    weir_limiter_find_mode(state, request);
    if (is_kept_out(limiter, state, request, &step))
        return step;
    if (request->facts.path.at == NULL && !policy->has_default)
        return weir_limiter_bad_path(limiter, state, request);
    if (!is_guess(state, request) || is_allowed(&policy->access, request))
        return limit_route(limiter, state, request);
    state->purpose = WEIR_FOR_GUESS;
    if (weir_limiter_mode_here(state, &policy->guesses) == WEIR_OFF)
        return go_on(limiter, state, request);
    return check_ruleset(limiter, state, request, &policy->guesses, 1);
}

/* the middleware */

static void warn_once(struct weir_limiter *limiter)
{
    if (!atomic_exchange(&limiter->has_warned, true))
        weir_log_line(&limiter->log, WEIR_WARNING,
                      "A limiter stands twice in one chain; a request is counted once. [%s]",
                      weir_code_name(WEIR_W_COUNTED_TWICE));
}

static enum weir_step limit_on_request(void *self, struct weir_request *request)
{
    struct weir_limiter *limiter = self;
    struct weir_limit_state *state = weir_request_slot(request, self);
    switch (state->phase) {
    case WEIR_LIMIT_NEW:
        return start(limiter, state, request);
    case WEIR_LIMIT_READING:
        return read_and_check(limiter, state, request);
    case WEIR_LIMIT_ASKED:
        weir_leases_count_held(state->edition->leases, &state->check);
        return conclude(limiter, state, request);
    case WEIR_LIMIT_WAITING:
        return end_wait(limiter, state, request);
    case WEIR_LIMIT_DONE:
        break;
    }
    warn_once(limiter);
    return WEIR_NEXT;
}

static void limit_on_reply(void *self, struct weir_request *request, struct weir_reply *reply)
{
    struct weir_limit_state *state = weir_request_slot(request, self);
    if (state->phase == WEIR_LIMIT_WAITING)
        return; /* the server stops: nothing has come of it, and on_end gives it back */
    weir_limiter_leave_back_end(state, request, weir_reply_status(reply));
    weir_limiter_guard(self, request, reply);
    if (weir_limiter_settle_outcome(self, state, request, weir_reply_status(reply)))
        weir_limiter_remember(self, state, request, reply);
    weir_limiter_show(self, state, reply);
}

/* The server ended the request under the store's hands. Even if the answer is there by now, its
 * `done` may still be about to look for somebody to wake: cancel() waits for it. */
static void take_back(struct weir_limiter *limiter, struct weir_limit_state *state,
                      struct weir_request *request)
{
    struct weir_check *check = &state->check;
    if (state->is_leased)
        weir_leases_cancel(state->edition->leases, check);
    else if (!weir_in_place_cancel(request, check))
        limiter->store->type->cancel(limiter->store->self, check);
    weir_limiter_count_taken_back(state);
    if (state->purpose == WEIR_FOR_ADDRESS)
        return;
    if (check->result == WEIR_STORE_ANSWERED)
        merge_penalties(state);
    bool has_taken =
        check->result == WEIR_STORE_ANSWERED && weir_combine(check->answers, check->count).allowed;
    if (has_taken)
        weir_limiter_count_plan(state->edition, check, state->planned, WEIR_UNITS_SPENT, false);
    state->has_spent = has_taken && state->purpose == WEIR_FOR_ROUTE;
}

static void limit_on_end(void *self, struct weir_request *request)
{
    struct weir_limiter *limiter = self;
    struct weir_limit_state *state = weir_request_slot(request, self);
    if (state->phase == WEIR_LIMIT_ASKED)
        take_back(limiter, state, request);
    bool never_ran = state->phase == WEIR_LIMIT_ASKED || state->phase == WEIR_LIMIT_WAITING;
    bool broke_off = !state->has_reply && state->has_spent && state->ruleset->returns_on_abort;
    if (never_ran || broke_off)
        weir_limiter_give_back(limiter, state);
    weir_limiter_leave(state);
    state->phase = WEIR_LIMIT_DONE;
}

static enum weir_step identify_on_request(void *self, struct weir_request *request)
{
    struct weir_limiter *limiter =
        (struct weir_limiter *)((char *)self - offsetof(struct weir_limiter, identify));
    struct weir_edition_hold *hold = weir_request_slot(request, self);
    if (!request->identity.found)
        find_identity(weir_limiter_edition_for(limiter, request, hold), request);
    return WEIR_NEXT;
}

const struct weir_middleware *weir_limit(struct weir_limiter *limiter)
{
    return &limiter->limit;
}

const struct weir_middleware *weir_identify(struct weir_limiter *limiter)
{
    return &limiter->identify;
}

void weir_limiter_make_middleware(struct weir_limiter *limiter)
{
    limiter->limit =
        *WEIR_MIDDLEWARE(.name = "limit", .self = limiter, .on_request = limit_on_request,
                         .on_reply = limit_on_reply, .on_end = limit_on_end,
                         .request_bytes = sizeof(struct weir_limit_state));
    /* Not the limiter itself: what a request keeps for this link is not what it keeps for the other. */
    limiter->identify = *WEIR_MIDDLEWARE(.name = "identify", .self = &limiter->identify,
                                         .on_request = identify_on_request,
                                         .request_bytes = sizeof(struct weir_edition_hold));
}

struct weir_limiter *weir_limiter_of(const struct weir_middleware *middleware)
{
    return middleware->on_request == limit_on_request ? middleware->self : NULL;
}
