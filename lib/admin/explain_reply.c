/* What the client gets: the status, and the header lines that weir writes. */
#include "admin/explain_internal.h"
#include "headers/ratelimit.h"

/* Where the limiter's own functions find what they look at. */
struct stand_in {
    struct weir_request request;
    struct weir_limit_state state;
    struct weir_reply reply;
    struct explaining *explaining;
    json_t *headers;
};

static bool add_line(void *response, const char *name, const char *value)
{
    struct stand_in *stand_in = response;
    json_t *line = json_pack("[ss]", name, value);
    if (json_array_append_new(stand_in->headers, line) != 0)
        stand_in->explaining->has_failed = true;
    return true;
}

static const char *find_line(void *response, const char *name)
{
    (void)response;
    (void)name;
    return NULL;
}

static void stand_in_for(struct explaining *explaining, struct stand_in *stand_in)
{
    struct explained_check *check = &explaining->check;
    stand_in->explaining = explaining;
    stand_in->request.identity = explaining->identity;
    stand_in->state.edition = explaining->edition;
    stand_in->state.match = explaining->match;
    stand_in->state.ruleset = explaining->ruleset;
    stand_in->state.spends = check->plan.spends;
    stand_in->state.planned = check->plan.planned;
    stand_in->state.by_memory = check->by_memory;
    stand_in->state.check = (struct weir_check){ .spends = check->plan.spends,
                                                 .answers = check->answers,
                                                 .count = check->plan.count };
    stand_in->reply = (struct weir_reply){
        .status = explaining->status, .response = stand_in, .add = add_line, .header = find_line
    };
}

bool weir_explain_leaves(const struct explaining *explaining)
{
    const struct explained_check *check = &explaining->check;
    for (size_t i = 0; i < check->plan.count; i++)
        if (!check->answers[i].allowed && !check->plan.planned[i].limit->leaves_to_handler)
            return false;
    return true;
}

/* Whether a wait that the client is told is known, and not only its upper bound. */
static bool are_waits_known(const struct explained_check *check)
{
    for (size_t i = 0; i < check->plan.count; i++)
        if (!check->answers[i].allowed && !check->answers[i].impossible
            && !check->is_retry_known[i])
            return false;
    return true;
}

/* Only the limits of the route are shown, and only where they hold. */
static bool has_quotas(const struct explaining *explaining)
{
    const struct explained_check *check = &explaining->check;
    bool is_answered = check->result == WEIR_STORE_ANSWERED || check->by_memory;
    return is_answered && explaining->ruleset != NULL
           && explaining->ruleset == explaining->match.route->ruleset && !explaining->is_exempt
           && explaining->outcome != WEIR_DENIED && explaining->outcome != WEIR_FAILED_CLOSED
           && weir_limiter_mode_for(explaining->edition, explaining->ruleset, &explaining->identity)
                  == WEIR_ENFORCE;
}

static void add_number(struct stand_in *stand_in, const char *name, uint64_t number)
{
    add_line(stand_in, name,
             weir_explain_printf(stand_in->explaining, "%llu", (unsigned long long)number));
}

static uint64_t exact_wait_s(const struct explaining *explaining)
{
    if (explaining->outcome == WEIR_FAILED_CLOSED)
        return weir_seconds_up(weir_limiter_closed_retry_us(explaining->limiter));
    if (explaining->outcome != WEIR_LIMITED)
        return 0;
    uint64_t retry_s = weir_seconds_up(explaining->check.combined.retry_us);
    return retry_s == 0 ? 1 : retry_s;
}

static void tell_wait(struct stand_in *stand_in, json_t *verdict)
{
    struct explaining *explaining = stand_in->explaining;
    uint64_t wait_s = exact_wait_s(explaining);
    if (explaining->outcome == WEIR_LIMITED)
        wait_s = weir_limiter_told_wait_s(&stand_in->state, wait_s);
    if (wait_s == 0 || explaining->status == 0)
        return;
    if (explaining->outcome == WEIR_LIMITED && !are_waits_known(&explaining->check)) {
        weir_explain_put_number(explaining, verdict, "retry_most_s", wait_s);
        return;
    }
    weir_explain_put_number(explaining, verdict, "retry_s", wait_s);
    add_number(stand_in, "Retry-After", wait_s);
}

static void tell_headers(struct stand_in *stand_in, json_t *verdict)
{
    struct explaining *explaining = stand_in->explaining;
    stand_in->headers = weir_explain_put_array(explaining, verdict, "headers");
    if (explaining->status != 0) {
        add_line(stand_in, "Content-Type", "application/problem+json");
        add_line(stand_in, "Cache-Control", "no-store");
    }
    tell_wait(stand_in, verdict);
    if (explaining->status == 401)
        add_line(stand_in, "WWW-Authenticate", weir_limiter_challenge(&stand_in->request));
    stand_in->state.shows_quotas = has_quotas(explaining) && are_waits_known(&explaining->check)
                                   && weir_limiter_may_show(&stand_in->state, &stand_in->request);
    if (stand_in->state.shows_quotas)
        weir_limiter_show(explaining->limiter, &stand_in->state, &stand_in->reply);
}

/* The limit that refuses, or would. */
static void tell_limit(struct explaining *explaining, json_t *verdict)
{
    const struct explained_check *refusal = &explaining->refusal;
    if (refusal->plan.count == 0)
        return;
    const struct weir_planned *planned = &refusal->plan.planned[refusal->combined.worst];
    weir_explain_put_string(explaining, verdict, "policy", planned->ruleset->name);
    weir_explain_put_string(explaining, verdict, "limit", planned->limit->name);
    weir_explain_put_string(explaining, verdict, "key",
                            weir_explain_key(explaining, &planned->limit->by));
}

void weir_explain_tell_verdict(struct explaining *explaining)
{
    const struct explained_check *check = &explaining->check;
    json_t *verdict = weir_explain_put_object(explaining, explaining->root, "verdict");
    struct stand_in *stand_in = weir_arena_array(explaining->arena, 1, sizeof *stand_in);
    weir_explain_put_string(explaining, verdict, "outcome", weir_outcome_name(explaining->outcome));
    if (explaining->outcome == WEIR_SHADOW_LIMITED)
        weir_explain_put_string(explaining, verdict, "would", weir_outcome_name(explaining->would));
    if (explaining->status != 0)
        weir_explain_put_number(explaining, verdict, "status", explaining->status);
    tell_limit(explaining, verdict);
    /* Else header lines that would tell a wait are left out. */
    weir_explain_put_bool(explaining, verdict, "waits_known", are_waits_known(check));
    if (stand_in == NULL) {
        explaining->has_failed = true;
        return;
    }
    stand_in_for(explaining, stand_in);
    tell_headers(stand_in, verdict);
}
