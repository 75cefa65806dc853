/* What the limiter tells: clients in replies and quota fields, operators in decisions. */
#include "limit/limiter_internal.h"

#include <string.h>

#include <weir/calendar.h>

#include "base/clock.h"
#include "base/log.h"
#include "headers/ratelimit.h"
#include "limit/gcra.h"
#include "reply/problem.h"

/* What a closed policy asks a client to wait where the store knows nothing better. */
#define CLOSED_RETRY_US UINT64_C(1000000)

bool weir_limiter_may_show(const struct weir_limit_state *state, const struct weir_request *request)
{
    return state->match.route->auth != WEIR_AUTH_NONE && weir_identity_is_known(&request->identity);
}

/* refusals */

/* The time in which a limit fills, from empty. */
static uint64_t filling_us(const struct weir_limiter *limiter, const struct weir_spend *spend)
{
    if (spend->calendar != NULL) {
        uint64_t now_us = weir_clock_now_us(&limiter->clock);
        struct weir_window window = weir_calendar_window(spend->calendar, now_us);
        return window.end_us - window.start_us;
    }
    switch (spend->algorithm) {
    case WEIR_GCRA:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        if (spend->rate.limit > 0) {
            struct weir_span span = weir_gcra_span(&spend->rate, weir_capacity(spend));
            return span.us + (span.part > 0);
        }
        break;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_PENALTY:
        break;
    }
    return spend->rate.window_us;
}

static void put_plural(struct weir_buffer *text, uint64_t number, const char *unit)
{
    weir_buffer_put_number(text, number);
    weir_buffer_put_char(text, ' ');
    weir_buffer_put_string(text, unit);
    if (number != 1)
        weir_buffer_put_char(text, 's');
}

static void put_window(struct weir_buffer *text, uint64_t window_us)
{
    if (window_us % 1000000 == 0)
        put_plural(text, window_us / 1000000, "second");
    else
        put_plural(text, window_us / 1000, "millisecond");
}

uint64_t weir_limiter_told_wait_s(const struct weir_limit_state *state, uint64_t retry_s)
{
    const struct weir_retry_rule *rule = &state->ruleset->retry_after;
    switch (rule->kind) {
    case WEIR_RETRY_NONE:
        return 0;
    case WEIR_RETRY_FIXED:
        return rule->seconds;
    case WEIR_RETRY_ROUNDED:
        retry_s = (retry_s + rule->seconds - 1) / rule->seconds * rule->seconds;
        return state->by_memory && retry_s > WEIR_MEMORY_WAIT_S ? WEIR_MEMORY_WAIT_S : retry_s;
    case WEIR_RETRY_EXACT:
        break;
    }
    return retry_s;
}

/* "Limit of 100 per 60 seconds reached; retry in 8 seconds." */
static const char *describe(const struct weir_limiter *limiter,
                            const struct weir_limit_state *state,
                            const struct weir_combined *verdict, char *memory, size_t size)
{
    const struct weir_spend *spend = &state->check.spends[verdict->worst];
    struct weir_buffer text = weir_buffer_init(memory, size);
    if (verdict->impossible) {
        weir_buffer_put_string(&text, "This request costs ");
        weir_buffer_put_number(&text, spend->cost);
        weir_buffer_put_string(&text, ", and the limit never holds more than ");
        weir_buffer_put_number(&text, spend->rate.limit == 0 ? 0 : spend->rate.burst);
        weir_buffer_put_string(&text, ".");
        return weir_buffer_string(&text);
    }
    weir_buffer_put_string(&text, "Limit of ");
    weir_buffer_put_number(&text, spend->rate.limit);
    weir_buffer_put_string(&text, " per ");
    put_window(&text, spend->calendar == NULL ? spend->rate.window_us : filling_us(limiter, spend));
    weir_buffer_put_string(&text, " reached");
    uint64_t wait_s = weir_limiter_told_wait_s(state, weir_limiter_retry_s(verdict));
    if (wait_s > 0) {
        weir_buffer_put_string(&text, "; retry in ");
        put_plural(&text, wait_s, "second");
    }
    weir_buffer_put_char(&text, '.');
    return weir_buffer_string(&text);
}

static size_t list_violated(const struct weir_limit_state *state,
                            const char *violated[WEIR_CHECK_LIMITS])
{
    size_t count = 0;
    for (size_t i = 0; i < state->check.count; i++)
        if (!state->check.answers[i].allowed)
            violated[count++] = state->planned[i].limit->name;
    return count;
}

/* A number as a header's value; a refusal without its wait is still a refusal. */
static void add_retry_after(struct weir_request *request, uint64_t seconds)
{
    char memory[24];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_number(&text, seconds);
    weir_reply_line_made(request, "Retry-After", weir_buffer_string(&text));
}

static enum weir_step reply_problem(struct weir_request *request,
                                    const struct weir_problem *problem)
{
    char memory[2048];
    struct weir_buffer json = weir_buffer_init(memory, sizeof memory);
    weir_problem_write(problem, &json);
    const char *text = weir_buffer_string(&json);
    if (text == NULL
        || !weir_reply_bytes_made(request, problem->status, "application/problem+json", text,
                                  json.length))
        return WEIR_FAIL;
    weir_reply_line_made(request, "Cache-Control", "no-store");
    if (request->id != NULL)
        weir_reply_line_made(request, "X-Request-Id", request->id);
    request->is_refused = true;
    return WEIR_DONE;
}

bool weir_limiter_leaves(const struct weir_limit_state *state)
{
    for (size_t i = 0; i < state->check.count; i++)
        if (!state->check.answers[i].allowed && !state->planned[i].limit->leaves_to_handler)
            return false;
    return true;
}

void weir_limiter_guard(struct weir_limiter *limiter, const struct weir_request *request,
                        struct weir_reply *reply)
{
    bool is_let_in = request->result == 0 ? reply->status < 400 : request->result == WEIR_SUCCEEDED;
    if (!request->is_limited || !is_let_in)
        return;
    weir_log_line(&limiter->log, WEIR_ERROR,
                  "The handler of %s was to refuse a request, and answered %u: ask "
                  "weir_request_is_limited() in it, or take \"refusal\": \"handler\" out of the "
                  "policy.",
                  request->facts.path.at == NULL ? "a path" : request->facts.path.at,
                  reply->status);
    if (reply->add != NULL)
        return; /* the application's own response, which is on its way */
    reply->status = 500;
    reply->line_count = 0;
    reply->body = "";
    reply->body_length = 0;
}

bool weir_request_is_limited(const struct weir_request *request)
{
    return request->is_limited;
}

enum weir_step weir_limiter_refuse(struct weir_limiter *limiter, struct weir_limit_state *state,
                                   struct weir_request *request,
                                   const struct weir_combined *verdict)
{
    char detail[160];
    const char *violated[WEIR_CHECK_LIMITS];
    struct weir_problem problem = { .type = WEIR_PROBLEM_QUOTA_EXCEEDED, .status = 429 };
    /* Where identity is not asked for, one refusal looks like another. */
    if (state->shows_quotas) {
        problem.detail = describe(limiter, state, verdict, detail, sizeof detail);
        problem.violated = violated;
        problem.violated_count = list_violated(state, violated);
    }
    state->phase = WEIR_LIMIT_DONE;
    weir_limiter_conclude(limiter, state, request,
                          verdict->impossible ? WEIR_IMPOSSIBLE : WEIR_LIMITED, verdict,
                          weir_limiter_retry_s(verdict));
    enum weir_step step = reply_problem(request, &problem);
    uint64_t wait_s =
        verdict->impossible ? 0 : weir_limiter_told_wait_s(state, weir_limiter_retry_s(verdict));
    if (step == WEIR_DONE && wait_s > 0)
        add_retry_after(request, wait_s);
    return step;
}

uint64_t weir_limiter_closed_retry_us(const struct weir_limiter *limiter)
{
    struct weir_store_state how;
    weir_store_state(limiter->store, &how);
    return how.retry_us > CLOSED_RETRY_US ? how.retry_us : CLOSED_RETRY_US;
}

enum weir_step weir_limiter_fail_closed(struct weir_limiter *limiter,
                                        struct weir_limit_state *state,
                                        struct weir_request *request)
{
    static const struct weir_problem problem = { .type = WEIR_PROBLEM_REDUCED_CAPACITY,
                                                 .status = 503 };
    uint64_t retry_s = weir_seconds_up(weir_limiter_closed_retry_us(limiter));
    state->phase = WEIR_LIMIT_DONE;
    weir_limiter_conclude(limiter, state, request, WEIR_FAILED_CLOSED, NULL, retry_s);
    enum weir_step step = reply_problem(request, &problem);
    if (step == WEIR_DONE)
        add_retry_after(request, retry_s);
    return step;
}

const char *weir_limiter_challenge(const struct weir_request *request)
{
    return request->identity.api_key_unknown ? "Bearer realm=\"api\", error=\"invalid_token\""
                                             : "Bearer realm=\"api\"";
}

enum weir_step weir_limiter_unauthorized(struct weir_limiter *limiter,
                                         struct weir_limit_state *state,
                                         struct weir_request *request)
{
    static const struct weir_problem problem = { .type = WEIR_PROBLEM_BLANK, .status = 401 };
    state->phase = WEIR_LIMIT_DONE;
    weir_limiter_conclude(limiter, state, request, WEIR_UNAUTHENTICATED, NULL, 0);
    enum weir_step step = reply_problem(request, &problem);
    if (step == WEIR_DONE)
        weir_reply_line(request, "WWW-Authenticate", weir_limiter_challenge(request));
    return step;
}

enum weir_step weir_limiter_bad_path(struct weir_limiter *limiter, struct weir_limit_state *state,
                                     struct weir_request *request)
{
    static const struct weir_problem problem = { .type = WEIR_PROBLEM_BLANK,
                                                 .status = 400,
                                                 .detail = "The path cannot be normalised." };
    weir_limiter_conclude(limiter, state, request, WEIR_UNREADABLE, NULL, 0);
    return reply_problem(request, &problem);
}

enum weir_step weir_limiter_deny(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 struct weir_request *request, const char *what)
{
    char memory[64];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    struct weir_problem problem = { .type = WEIR_PROBLEM_BLANK, .status = 403 };
    /* Where identity is not asked for, nobody is told what is known of him. */
    if (weir_limiter_may_show(state, request)) {
        weir_buffer_put_string(&text, "This ");
        weir_buffer_put_string(&text, what);
        weir_buffer_put_string(&text, " is kept out.");
        problem.detail = weir_buffer_string(&text);
    }
    state->phase = WEIR_LIMIT_DONE;
    weir_limiter_conclude(limiter, state, request, WEIR_DENIED, NULL, 0);
    return reply_problem(request, &problem);
}

/* A quota of the client's own that it has used up itself. */
static enum weir_step refuse_own(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 struct weir_request *request, struct weir_problem *problem)
{
    char memory[120];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    if (problem->violated_count > 0) {
        state->hold.shown_most = state->ruleset->concurrency->fixed;
        weir_buffer_put_string(&text, "Limit of ");
        put_plural(&text, state->hold.shown_most, "request");
        weir_buffer_put_string(&text, " at once reached; retry when one has ended.");
        problem->detail = weir_buffer_string(&text);
    }
    problem->type = WEIR_PROBLEM_QUOTA_EXCEEDED;
    problem->status = 429;
    weir_limiter_conclude(limiter, state, request, WEIR_BUSY, NULL, 1);
    enum weir_step step = reply_problem(request, problem);
    uint64_t wait_s = weir_limiter_told_wait_s(state, 1);
    if (step == WEIR_DONE && wait_s > 0)
        add_retry_after(request, wait_s);
    return step;
}

enum weir_step weir_limiter_busy(struct weir_limiter *limiter, struct weir_limit_state *state,
                                 struct weir_request *request, struct weir_slots *full)
{
    static const char *const violated[] = { WEIR_CONCURRENCY };
    struct weir_problem problem = { .type = WEIR_PROBLEM_REDUCED_CAPACITY, .status = 503 };
    bool shows = weir_limiter_may_show(state, request);
    if (shows) {
        problem.violated = violated;
        problem.violated_count = 1;
    }
    state->phase = WEIR_LIMIT_DONE;
    state->hold.is_over = true;
    state->hold.is_own = full == NULL;
    state->hold.most =
        full == NULL ? state->ruleset->concurrency->fixed : weir_slots_numbers(full).limit;
    if (full == NULL)
        return refuse_own(limiter, state, request, &problem);
    uint64_t retry_s = weir_slots_refused(full);
    state->hold.shown_most = shows ? weir_slots_numbers(full).limit : 0;
    weir_limiter_conclude(limiter, state, request, WEIR_BUSY, NULL, retry_s);
    enum weir_step step = reply_problem(request, &problem);
    if (step == WEIR_DONE)
        add_retry_after(request, retry_s);
    return step;
}

static const char *describe_body(const struct weir_limit_state *state, char *memory, size_t size)
{
    struct weir_buffer text = weir_buffer_init(memory, size);
    if (state->reading == WEIR_BODY_BROKEN)
        return "The body is not what its Content-Type says, or can be read in more than one way.";
    if (state->reading == WEIR_BODY_FOREIGN)
        return "The body is of a kind that is not read here.";
    weir_buffer_put_string(&text, "The body is longer than the ");
    weir_buffer_put_number(&text, state->ruleset->body_max_bytes);
    weir_buffer_put_string(&text, " bytes that are taken.");
    return weir_buffer_string(&text);
}

unsigned weir_limiter_unreadable_status(const struct weir_limit_state *state)
{
    if (state->reading == WEIR_BODY_FOREIGN)
        return 415;
    return state->reading == WEIR_BODY_TOO_LONG ? 413 : 400;
}

enum weir_step weir_limiter_unreadable(struct weir_limiter *limiter, struct weir_limit_state *state,
                                       struct weir_request *request)
{
    char memory[80];
    const struct weir_problem problem = {
        .type = WEIR_PROBLEM_BLANK,
        .status = weir_limiter_unreadable_status(state),
        .detail = describe_body(state, memory, sizeof memory),
    };
    weir_limiter_conclude(limiter, state, request, WEIR_UNREADABLE, NULL, 0);
    enum weir_step step = reply_problem(request, &problem);
    request->is_refused = false; /* what was tried is a failure, and counts */
    if (step == WEIR_DONE && problem.status == 415)
        weir_reply_line(request, "Accept",
                        "application/x-www-form-urlencoded, multipart/form-data, application/json");
    return step;
}

/* quota fields */

static struct weir_quota_field field_of(const struct weir_limiter *limiter,
                                        const struct weir_planned *planned,
                                        const struct weir_spend *spend,
                                        const struct weir_answer *answer)
{
    static const struct weir_text none = { NULL, 0 };
    bool waits = !answer->allowed && !answer->impossible;
    return (struct weir_quota_field){
        .name = planned->limit->name,
        .quota = weir_capacity(spend),
        .window_us = filling_us(limiter, spend),
        .remaining = answer->remaining,
        /* Nothing ever comes back to a limit of 0, least of all at once. */
        .after_us = spend->rate.limit == 0 ? spend->rate.window_us
                    : waits                ? answer->retry_us
                                           : answer->reset_us,
        .refused = !answer->allowed,
        .policy_item = planned->prepared == NULL ? none : planned->prepared->policy_item,
        .item_head = planned->prepared == NULL ? none : planned->prepared->item_head,
    };
}

/* A name that cannot stand in a field is left for whoever writes one to find. */
static bool prepare_fields(void *self, const struct weir_limit_rule *limit,
                           struct weir_prepared_limit *prepared, struct weir_arena *arena)
{
    static const struct weir_answer nothing = { .remaining = 0 };
    const struct weir_planned planned = { .limit = limit };
    const struct weir_quota_field field = field_of(self, &planned, &prepared->spend, &nothing);
    char policy_memory[512], head_memory[256];
    struct weir_buffer policy = weir_buffer_init(policy_memory, sizeof policy_memory);
    struct weir_buffer head = weir_buffer_init(head_memory, sizeof head_memory);
    /* Windows of a calendar are not all of one length. */
    if (prepared->spend.calendar != NULL || !weir_ratelimit_prepare(&field, &policy, &head))
        return true;
    prepared->policy_item =
        (struct weir_text){ weir_arena_copy(arena, weir_buffer_text(&policy)), policy.length };
    prepared->item_head =
        (struct weir_text){ weir_arena_copy(arena, weir_buffer_text(&head)), head.length };
    return prepared->policy_item.at != NULL && prepared->item_head.at != NULL;
}

bool weir_limiter_prepare(struct weir_limiter *limiter, struct weir_edition *edition)
{
    edition->prepared = weir_prepared_new(edition->policy);
    return edition->prepared != NULL
           && weir_prepared_each(edition->prepared, prepare_fields, limiter);
}

/* Names of the fields that were added, for scripts in a browser (Fetch, CORS protocol). */
static void expose(struct weir_reply *reply, const struct weir_field_line *lines, size_t count)
{
    char memory[256];
    struct weir_buffer names = weir_buffer_init(memory, sizeof memory);
    for (size_t i = 0; i < count; i++) {
        weir_buffer_put_string(&names, lines[i].name);
        weir_buffer_put_string(&names, ", ");
    }
    weir_buffer_put_string(&names, "Retry-After");
    const char *text = weir_buffer_string(&names);
    if (text != NULL)
        weir_reply_add(reply, "Access-Control-Expose-Headers", text);
}

/* What this client may see; returns how many there are. */
static size_t gather_fields(const struct weir_limiter *limiter,
                            const struct weir_limit_state *state,
                            struct weir_quota_field fields[WEIR_FIELDS_SHOWN_MAX])
{
    size_t count = state->shows_quotas ? state->check.count : 0;
    for (size_t i = 0; i < count; i++)
        fields[i] =
            field_of(limiter, &state->planned[i], &state->spends[i], &state->check.answers[i]);
    if (state->hold.shown_most > 0)
        fields[count++] = (struct weir_quota_field){ .name = WEIR_CONCURRENCY,
                                                     .quota = state->hold.shown_most,
                                                     .unit = "concurrent-requests" };
    return count;
}

void weir_limiter_show(struct weir_limiter *limiter, struct weir_limit_state *state,
                       struct weir_reply *reply)
{
    const struct weir_policy *policy = state->edition->policy;
    struct weir_quota_field fields[WEIR_FIELDS_SHOWN_MAX];
    size_t shown = policy->headers == 0 ? 0 : gather_fields(limiter, state, fields);
    /* Once, even where the limiter stands twice in the chain. */
    state->shows_quotas = false;
    state->hold.shown_most = 0;
    if (shown == 0)
        return;

    char memory[2048];
    struct weir_buffer buffer = weir_buffer_init(memory, sizeof memory);
    struct weir_field_line lines[WEIR_FIELD_LINES_MAX];
    bool tells_time = (policy->headers & WEIR_HEADERS_LEGACY) != 0;
    uint64_t now_us = tells_time ? weir_clock_now_us(&limiter->clock) : 0;
    size_t count = weir_ratelimit_lines(policy->headers, policy->headers_clamp, fields, shown,
                                        now_us, &buffer, lines);
    for (size_t i = 0; i < count; i++)
        weir_reply_add_made(reply, lines[i].name, lines[i].value);
    if (policy->expose_headers && count > 0)
        expose(reply, lines, count);
}

struct weir_quota weir_limiter_quota(const struct weir_limiter *limiter,
                                     const struct weir_edition *edition,
                                     const struct weir_planned *planned,
                                     const struct weir_spend *spend,
                                     const struct weir_answer *answer)
{
    const struct weir_quota_field field = field_of(limiter, planned, spend, answer);
    const struct weir_edition_names *names = weir_edition_names(edition, planned->ruleset);
    return (struct weir_quota){ .policy = names->policy,
                                .limit = names->limits[planned->limit - planned->ruleset->limits],
                                .quota = field.quota,
                                .remaining = field.remaining,
                                .window_s = weir_seconds_up(field.window_us),
                                .reset_s = weir_seconds_up(field.after_us) };
}

size_t weir_request_quotas(struct weir_request *request, struct weir_limiter *limiter,
                           struct weir_quota *quotas, size_t size)
{
    const struct weir_limit_state *state = weir_request_slot(request, limiter);
    if (state == NULL || !state->has_quotas)
        return 0;
    for (size_t i = 0; i < state->check.count && i < size; i++)
        quotas[i] = weir_limiter_quota(limiter, state->edition, &state->planned[i],
                                       &state->spends[i], &state->check.answers[i]);
    return state->check.count;
}
