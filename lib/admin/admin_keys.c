/* Looking at clients' keys, resetting and blocking them, for the admin API. */
#include "admin/admin.h"

#include <stdio.h>
#include <string.h>

#include "admin/keys.h"
#include "base/log.h"
#include "reply/problem.h"

static const char *member(const json_t *body, const char *name)
{
    const char *text = json_string_value(json_object_get(body, name));
    return text == NULL ? "?" : text;
}

/* Every change is a line, whatever came of it. */
static void log_done(const struct weir_admin *admin, const struct weir_admin_job *job,
                     const char *what, const json_t *body)
{
    const char *reason = json_string_value(json_object_get(body, "reason"));
    weir_log_line(&admin->log, WEIR_INFO,
                  "Admin API: %s of policy %s, limit %s, key %s, by %s: done.%s%s", what,
                  member(body, "policy"), member(body, "limit"), member(body, "key"), job->who,
                  reason == NULL ? "" : " Reason: ", reason == NULL ? "" : reason);
}

/* Whom it names is told as far as it is somebody; and only then what the error says, for else that may
 * show a secret that was taken for a name. `subject` at NULL: it was named by its id. */
static void log_failed(const struct weir_admin *admin, const struct weir_admin_job *job,
                       const char *what, const struct weir_subject *subject,
                       const struct weir_error *error)
{
    struct weir_error why = WEIR_NO_ERROR;
    json_t *whom = NULL;
    if (subject != NULL)
        weir_keys_name(admin->limiter, subject, &whom, &why);
    if (whom != NULL)
        weir_log_line(&admin->log, WEIR_WARNING,
                      "Admin API: %s of policy %s, limit %s, key %s, by %s: not done. %s [%s]",
                      what, member(whom, "policy"), member(whom, "limit"), member(whom, "key"),
                      job->who, error->text, weir_code_name(error->code));
    else
        weir_log_line(&admin->log, WEIR_WARNING, "Admin API: %s%s, by %s: not done. %s%s[%s]", what,
                      subject == NULL ? " by id" : "", job->who, subject == NULL ? error->text : "",
                      subject == NULL ? " " : "", weir_code_name(error->code));
    json_decref(whom);
}

static void log_change(const struct weir_admin *admin, struct weir_admin_job *job, const char *what,
                       const struct weir_subject *subject, const json_t *body,
                       const struct weir_error *error)
{
    job->is_told = true;
    if (body != NULL)
        log_done(admin, job, what, body);
    else
        log_failed(admin, job, what, subject, error);
}

void weir_admin_log_reload(const struct weir_admin *admin, struct weir_admin_job *job, bool is_done)
{
    job->is_told = true;
    weir_log_line(&admin->log, is_done ? WEIR_INFO : WEIR_WARNING,
                  "Admin API: reload of the policy, by %s: %s.", job->who,
                  is_done ? "done" : "not done");
}

void weir_admin_log_undone(const struct weir_admin *admin, struct weir_admin_job *job,
                           unsigned status)
{
    if (strcmp(job->route->method, "POST") != 0 || job->is_told)
        return;
    job->is_told = true;
    if (status == 0)
        weir_log_line(&admin->log, WEIR_WARNING,
                      "Admin API: %s, by %s: not done. The request broke off.",
                      job->route->path + 1, job->who);
    else
        weir_log_line(&admin->log, WEIR_WARNING, "Admin API: %s, by %s: not done. %u %s",
                      job->route->path + 1, job->who, status, weir_status_phrase(status));
}

static void answer(struct weir_admin_job *job, enum weir_code code, json_t *body,
                   const struct weir_error *error)
{
    if (code == WEIR_OK)
        weir_admin_answer(job, body);
    else
        weir_admin_fail(job, error);
}

void weir_admin_look(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_admin_subject read;
    struct weir_error error = WEIR_NO_ERROR;
    json_t *body = NULL;
    if (!weir_admin_read_subject(job, &read))
        return;
    enum weir_code code = weir_keys_look(admin->limiter, &read.subject, &body, &error);
    answer(job, code, body, &error);
}

void weir_admin_reset(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_admin_subject read;
    struct weir_error error = WEIR_NO_ERROR;
    json_t *body = NULL;
    if (!weir_admin_read_subject(job, &read))
        return;
    enum weir_code code = weir_keys_reset(admin->limiter, &read.subject, &body, &error);
    log_change(admin, job, "reset", &read.subject, body, &error);
    answer(job, code, body, &error);
}

void weir_admin_block(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_admin_subject read;
    struct weir_error error = WEIR_NO_ERROR;
    json_t *body = NULL;
    uint64_t seconds = 0;
    const char *reason;
    char by[WEIR_ADDRESS_CHARS + 16], what[40];
    if (!weir_admin_read_subject(job, &read) || !weir_admin_text(job, "reason", &reason)
        || !weir_admin_number(job, "seconds", 1, WEIR_BURST_MAX_US / 1000000, &seconds))
        return;
    if (seconds == 0) {
        weir_admin_refuse(job, 400, "\"seconds\" is missing: blocked for how long?");
        return;
    }
    snprintf(by, sizeof by, "admin API, %s", job->who);
    snprintf(what, sizeof what, "block for %llu s", (unsigned long long)seconds);
    enum weir_code code =
        weir_keys_block(admin->limiter, &read.subject, seconds, reason, by, &body, &error);
    log_change(admin, job, what, &read.subject, body, &error);
    answer(job, code, body, &error);
}

/* By the id of a row, or by whom it names. */
static enum weir_code unblock(struct weir_admin *admin, struct weir_admin_job *job, const char *id,
                              const struct weir_subject *subject, json_t **body,
                              struct weir_error *error)
{
    (void)job;
    if (id != NULL)
        return weir_keys_unblock_id(admin->limiter, id, body, error);
    return weir_keys_unblock(admin->limiter, subject, body, error);
}

void weir_admin_unblock(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_admin_subject read;
    struct weir_error error = WEIR_NO_ERROR;
    json_t *body = NULL;
    const char *id;
    if (!weir_admin_text(job, "id", &id))
        return;
    if (id != NULL && json_object_size(job->members) > 1) {
        weir_admin_refuse(job, 400, "An \"id\" says all; leave the other members out.");
        return;
    }
    if (id == NULL && !weir_admin_read_subject(job, &read))
        return;
    enum weir_code code = unblock(admin, job, id, &read.subject, &body, &error);
    log_change(admin, job, "unblock", id == NULL ? &read.subject : NULL, body, &error);
    answer(job, code, body, &error);
}

void weir_admin_list(struct weir_admin *admin, struct weir_admin_job *job)
{
    struct weir_error error = WEIR_NO_ERROR;
    json_t *body = NULL;
    enum weir_code code = weir_keys_list(admin->limiter, &body, &error);
    answer(job, code, body, &error);
}
