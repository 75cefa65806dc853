/* How this process and its policy are, for the admin API. */
#include "admin/admin.h"

#include <string.h>

#include <weir/version.h>

#include "base/clock.h"
#include "limit/limiter_internal.h"
#include "limit/limiter_observe.h"

const char *weir_admin_instance(const struct weir_admin *admin)
{
    return admin->limiter->observing->instance;
}

static const char *breaker_name(enum weir_breaker_state breaker)
{
    static const char *const names[] = { [WEIR_BREAKER_CLOSED] = "closed",
                                         [WEIR_BREAKER_STARTING] = "starting",
                                         [WEIR_BREAKER_OPEN] = "open",
                                         [WEIR_BREAKER_PROBING] = "probing" };
    return names[breaker];
}

static json_t *text_or_null(const char *text)
{
    return text[0] == '\0' ? json_null() : weir_admin_string(text);
}

json_t *weir_admin_store(const struct weir_store_state *state)
{
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:f}", "name", state->name, "answering",
                     state->answering, "breaker", breaker_name(state->breaker), "server",
                     text_or_null(state->server), "why", text_or_null(state->why), "down_s",
                     (double)state->down_us / 1e6);
}

static json_t *describe_reload(const struct weir_reload_state *state)
{
    return json_pack("{s:b, s:o, s:o, s:I, s:I}", "ok", state->last_ok, "time",
                     state->last_us == 0 ? json_null() : weir_admin_moment(state->last_us), "why",
                     text_or_null(state->why), "successes", (json_int_t)state->successes,
                     "failures", (json_int_t)state->failures);
}

static json_t *describe_policy(const struct weir_reload_state *state)
{
    return json_pack("{s:o, s:I, s:o, s:o}", "file", text_or_null(state->file), "generation",
                     (json_int_t)state->generation, "loaded", weir_admin_moment(state->loaded_us),
                     "reload", describe_reload(state));
}

/* "degraded": requests are served, by the rules for failures or by the policy of before. */
void weir_admin_health(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_store_state store;
    struct weir_reload_state policy;
    weir_limiter_state(admin->limiter, &store);
    weir_limiter_reload_state(admin->limiter, &policy);
    bool is_well = store.answering && store.why[0] == '\0' && policy.last_ok;
    uint64_t up_us = weir_monotonic_us() - admin->started_us;
    weir_admin_answer(job, json_pack("{s:s, s:s, s:s, s:I, s:o, s:o}", "status",
                                     is_well ? "ok" : "degraded", "version", weir_version(),
                                     "instance", weir_admin_instance(admin), "uptime_s",
                                     (json_int_t)(up_us / 1000000), "store",
                                     weir_admin_store(&store), "policy", describe_policy(&policy)));
}

/* What is in force, which is not always what the file says by now. */
void weir_admin_policy(struct weir_admin *admin, struct weir_admin_job *job)
{
    const struct weir_edition *edition = weir_edition_take(&admin->limiter->editions);
    const char *text = weir_policy_text(edition->policy);
    json_t *body = text == NULL ? NULL : json_loads(text, 0, NULL);
    weir_edition_leave(edition);
    weir_admin_answer(job, body);
}

/* The limiter logs it. */
void weir_admin_reload(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_reload_state state;
    enum weir_code code = weir_policy_reload(admin->limiter, NULL, &error);
    weir_limiter_reload_state(admin->limiter, &state);
    weir_admin_log_reload(admin, job, code == WEIR_OK);
    if (code == WEIR_OK) {
        weir_admin_answer(job, describe_policy(&state));
        return;
    }
    char line[WEIR_ADMIN_DETAIL_CHARS];
    weir_admin_refuse(
        job, code == WEIR_E_MEMORY || code == WEIR_E_SYSTEM ? 500 : 409, "%s",
        weir_error_line(&error, state.file[0] == '\0' ? NULL : state.file, line, sizeof line));
}
