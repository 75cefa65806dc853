#include "admin/explain.h"

#include <stdlib.h>

#include "admin/explain_internal.h"
#include "base/clock.h"

/* the decision, in the order in which limiter.c takes it */

static enum weir_mode mode_of(const struct explaining *explaining,
                              const struct weir_ruleset *ruleset)
{
    if (ruleset != explaining->match.route->ruleset)
        return weir_limiter_mode(explaining->edition, ruleset);
    return weir_limiter_mode_for(explaining->edition, ruleset, &explaining->identity);
}

static void conclude(struct explaining *explaining, enum weir_outcome outcome, unsigned status)
{
    explaining->outcome = outcome;
    explaining->status = status;
}

/* A policy that only watches lets through what it would refuse; the first reason is the one. */
static void watch(struct explaining *explaining, enum weir_outcome would)
{
    if (explaining->outcome == WEIR_SHADOW_LIMITED)
        return;
    explaining->outcome = WEIR_SHADOW_LIMITED;
    explaining->would = would;
}

static bool is_denied_by(struct explaining *explaining, const struct weir_client_list *deny,
                         enum weir_mode mode)
{
    const char *what = mode == WEIR_OFF ? NULL : weir_list_names(deny, &explaining->identity);
    if (what == NULL)
        return false;
    explaining->listed = what;
    if (mode == WEIR_ENFORCE)
        conclude(explaining, WEIR_DENIED, 403);
    else
        watch(explaining, WEIR_DENIED);
    return mode == WEIR_ENFORCE;
}

static bool is_kept_out(struct explaining *explaining)
{
    const struct weir_policy *policy = explaining->policy;
    const struct weir_ruleset *ruleset = explaining->match.route->ruleset;
    return is_denied_by(explaining, policy->access.deny, policy->mode)
           || (ruleset != NULL
               && is_denied_by(explaining, ruleset->access.deny, mode_of(explaining, ruleset)));
}

static bool is_allowed_by(struct explaining *explaining, const struct weir_access *access)
{
    const char *what = weir_list_names(access->allow, &explaining->identity);
    if (what != NULL)
        explaining->listed = what;
    return what != NULL;
}

static void refuse(struct explaining *explaining)
{
    struct explained_check *check = &explaining->check;
    enum weir_outcome outcome = check->combined.impossible ? WEIR_IMPOSSIBLE : WEIR_LIMITED;
    bool enforces = mode_of(explaining, explaining->ruleset) == WEIR_ENFORCE;
    if (enforces || explaining->outcome != WEIR_SHADOW_LIMITED)
        explaining->refusal = *check;
    explaining->is_refused = enforces;
    if (!enforces)
        watch(explaining, outcome);
    else if (outcome == WEIR_IMPOSSIBLE && check->by_memory && check->is_share_too_small)
        conclude(explaining, WEIR_FAILED_CLOSED, 503);
    else
        conclude(explaining, outcome, weir_explain_leaves(explaining) ? 0 : 429);
}

/* The store has failed: the policy says what becomes of the request. */
static void apply_failure(struct explaining *explaining)
{
    struct explained_check *check = &explaining->check;
    bool enforces = mode_of(explaining, explaining->ruleset) == WEIR_ENFORCE;
    enum weir_failure_action rule = weir_limiter_failure_rule(explaining->ruleset, check->result);
    if (rule == WEIR_FAIL_MEMORY && weir_explain_look_in_memory(explaining)) {
        if (!check->combined.allowed)
            refuse(explaining);
        return;
    }
    explaining->is_refused = enforces && rule != WEIR_FAIL_OPEN;
    if (explaining->is_refused)
        conclude(explaining, WEIR_FAILED_CLOSED, 503);
    else
        conclude(explaining, WEIR_FAILED_OPEN, 0);
}

/* Whether the limits of the ruleset let the request through. */
static bool passes(struct explaining *explaining, const struct weir_ruleset *ruleset, uint64_t cost)
{
    explaining->ruleset = ruleset;
    explaining->cost = cost;
    weir_explain_check(explaining);
    if (explaining->check.result != WEIR_STORE_ANSWERED)
        apply_failure(explaining);
    else if (!explaining->check.combined.allowed)
        refuse(explaining);
    return !explaining->is_refused;
}

/* Nobody knows by what such a request is to be counted. */
static void apply_reading(struct explaining *explaining)
{
    enum weir_body_reading reading = explaining->reading;
    if (reading == WEIR_BODY_READ || reading == WEIR_BODY_NO_MEMORY)
        return;
    if (mode_of(explaining, explaining->ruleset) != WEIR_ENFORCE)
        watch(explaining, WEIR_UNREADABLE);
    else
        conclude(explaining, WEIR_UNREADABLE,
                 reading == WEIR_BODY_BROKEN    ? 400
                 : reading == WEIR_BODY_FOREIGN ? 415
                                                : 413);
}

static void apply_limits(struct explaining *explaining, const struct weir_route *route)
{
    const struct weir_described *described = explaining->described;
    const struct weir_ruleset *ruleset = route->ruleset;
    explaining->ruleset = ruleset;
    if (mode_of(explaining, ruleset) == WEIR_OFF
        || is_allowed_by(explaining, &explaining->policy->access)
        || is_allowed_by(explaining, &ruleset->access)) {
        explaining->is_exempt = true;
        return;
    }
    weir_explain_read_fields(explaining, ruleset);
    if (ruleset->known != NULL)
        weir_explain_recognise(explaining, ruleset);
    if (passes(explaining, ruleset, described->has_cost ? described->cost : route->cost))
        apply_reading(explaining);
}

static void apply_route(struct explaining *explaining)
{
    const struct weir_route *route = explaining->match.route;
    if (route->auth == WEIR_AUTH_REQUIRED && !weir_identity_is_known(&explaining->identity))
        conclude(explaining, WEIR_UNAUTHENTICATED, 401);
    else if (route->ruleset != NULL)
        apply_limits(explaining, route);
}

/* A key that nobody was given, and nothing else that says who asks. */
static bool is_guess(const struct explaining *explaining)
{
    const struct weir_identity *who = &explaining->identity;
    return explaining->match.route->auth != WEIR_AUTH_NONE && who->api_key_unknown
           && !weir_identity_is_known(who);
}

static void apply_guess(struct explaining *explaining)
{
    const struct weir_ruleset *guesses = &explaining->policy->guesses;
    if (mode_of(explaining, guesses) != WEIR_OFF && !passes(explaining, guesses, 1))
        return;
    if (explaining->match.route->auth == WEIR_AUTH_REQUIRED)
        conclude(explaining, WEIR_UNAUTHENTICATED, 401);
    else
        apply_route(explaining);
}

static void decide(struct explaining *explaining)
{
    const struct weir_policy *policy = explaining->policy;
    explaining->outcome = WEIR_ALLOWED;
    explaining->would = WEIR_ALLOWED;
    if (is_kept_out(explaining))
        return;
    if (explaining->facts.path.at == NULL && !policy->has_default) {
        conclude(explaining, WEIR_UNREADABLE, 400);
        return;
    }
    if (is_guess(explaining) && !is_allowed_by(explaining, &policy->access))
        apply_guess(explaining);
    else
        apply_route(explaining);
}

/* telling */

static void tell_request(struct explaining *explaining)
{
    json_t *request = weir_explain_put_object(explaining, explaining->root, "request");
    weir_explain_put_text(explaining, request, "method", explaining->facts.method);
    weir_explain_put_text(explaining, request, "path", explaining->facts.path);
}

static void tell_mode(struct explaining *explaining)
{
    const struct weir_ruleset *ruleset = explaining->ruleset;
    if (ruleset == NULL) {
        weir_explain_put(explaining, explaining->root, "policy", json_null());
        return;
    }
    json_t *policy = weir_explain_put_object(explaining, explaining->root, "policy");
    weir_explain_put_string(explaining, policy, "name", ruleset->name);
    weir_explain_put_string(explaining, policy, "mode", weir_mode_name(ruleset->mode));
    weir_explain_put(explaining, policy, "enforce_percent",
                     json_real((double)ruleset->enforce_ppm / 10000));
    weir_explain_put_string(explaining, policy, "here",
                            weir_mode_name(mode_of(explaining, ruleset)));
    weir_explain_put_number(explaining, policy, "cost", explaining->cost);
    weir_explain_put_number(explaining, policy, "generation", explaining->edition->number);
}

static void tell_state(struct explaining *explaining)
{
    const struct explained_check *check = &explaining->check;
    struct weir_store_state store;
    json_t *state = weir_explain_put_object(explaining, explaining->root, "state");
    weir_store_state(explaining->limiter->store, &store);
    weir_explain_put_string(explaining, state, "store",
                            explaining->described->is_empty ? NULL : store.name);
    weir_explain_put_bool(explaining, state, "as_if_empty", explaining->described->is_empty);
    weir_explain_put_bool(explaining, state, "by_memory", check->by_memory);
    weir_explain_put_string(explaining, state, "failure",
                            check->why[0] == '\0' ? NULL : check->why);
}

static void tell_all(struct explaining *explaining)
{
    tell_request(explaining);
    weir_explain_tell_address(explaining);
    weir_explain_tell_identity(explaining);
    weir_explain_tell_routes(explaining);
    weir_explain_tell_lists(explaining);
    tell_mode(explaining);
    weir_explain_tell_limits(explaining);
    weir_explain_tell_concurrency(explaining);
    tell_state(explaining);
    weir_explain_tell_verdict(explaining);
    weir_explain_tell_summary(explaining);
    weir_explain_put_array(explaining, explaining->root, "hints");
    weir_explain_tell_hints(explaining);
}

bool weir_explain_begin(struct explaining *explaining, struct weir_limiter *limiter)
{
    explaining->limiter = limiter;
    explaining->arena = weir_arena_new();
    explaining->root = json_object();
    if (explaining->arena == NULL || explaining->root == NULL) {
        weir_arena_free(explaining->arena);
        json_decref(explaining->root);
        return false;
    }
    explaining->edition = weir_edition_take(&limiter->editions);
    explaining->policy = explaining->edition->policy;
    return true;
}

json_t *weir_explain_end(struct explaining *explaining)
{
    weir_edition_leave(explaining->edition);
    weir_arena_free(explaining->arena);
    json_decref(explaining->blocks);
    if (!explaining->has_failed)
        return explaining->root;
    json_decref(explaining->root);
    return NULL;
}

static void explain(struct explaining *explaining)
{
    weir_identity_find(&explaining->policy->identity, &explaining->facts, &explaining->identity);
    weir_policy_match(explaining->policy, &explaining->facts, &explaining->match);
    decide(explaining);
    tell_all(explaining);
}

json_t *weir_explain(struct weir_limiter *limiter, const struct weir_described *described,
                     struct weir_error *error)
{
    struct explaining *explaining = calloc(1, sizeof *explaining);
    json_t *root = NULL;
    enum weir_code code = WEIR_E_MEMORY;
    if (explaining != NULL && weir_explain_begin(explaining, limiter)) {
        explaining->described = described;
        code = weir_explain_read(explaining, error);
        if (code == WEIR_OK)
            explain(explaining);
        root = weir_explain_end(explaining);
    }
    free(explaining);
    if (root == NULL)
        weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    if (root != NULL && code == WEIR_OK)
        return root;
    json_decref(root);
    return NULL;
}
