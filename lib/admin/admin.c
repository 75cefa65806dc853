/* The admin API: which requests there are, and the middleware that answers them. */
#include "admin/admin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admin/dashboard.h"
#include "base/clock.h"
#include "base/options.h"

#define ADMIN_OPTIONS_FIRST (offsetof(struct weir_admin_options, log) + sizeof(struct weir_log))

/* the requests */

/* clang-format off */
#define SUBJECT "policy", "limit", "ip", "api_key", "user", "tenant", "plan", "route", \
                "header:", "query:", "param:", "field:"
/* clang-format on */

static const char *const nothing[] = { NULL };
static const char *const of_recent[] = { "after", "count", NULL };
static const char *const of_top[] = { "policy", "by", "count", NULL };
static const char *const to_explain[] = { "request_id", "method", "path",   "peer", "header",
                                          "cost",       "user",   "tenant", "plan", NULL };
static const char *const subject[] = { SUBJECT, NULL };
static const char *const to_block[] = { SUBJECT, "seconds", "reason", NULL };
static const char *const to_unblock[] = { SUBJECT, "id", NULL };

static const struct weir_admin_route routes[] = {
    { "GET", "/health", weir_admin_health, false, nothing },
    { "GET", "/policy", weir_admin_policy, false, nothing },
    { "GET", "/stats", weir_admin_stats, false, nothing },
    { "GET", "/recent", weir_admin_recent, false, of_recent },
    { "GET", "/top", weir_admin_top, false, of_top },
    { "GET", "/explain", weir_admin_explain, true, to_explain },
    { "GET", "/key", weir_admin_look, true, subject },
    { "GET", "/blocks", weir_admin_list, true, nothing },
    { "POST", "/reset", weir_admin_reset, true, subject },
    { "POST", "/block", weir_admin_block, true, to_block },
    { "POST", "/unblock", weir_admin_unblock, true, to_unblock },
    { "POST", "/reload", weir_admin_reload, true, nothing },
};

#define ROUTES (sizeof routes / sizeof routes[0])

static bool takes(const struct weir_admin_route *route, struct weir_text method)
{
    return weir_text_equal(method, weir_text_from(route->method))
           || (weir_text_equal(method, WEIR_TEXT("HEAD")) && strcmp(route->method, "GET") == 0);
}

/* The last of them that has the path; each path has one method. */
static const struct weir_admin_route *find_route(const char *path)
{
    for (size_t i = 0; i < ROUTES; i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return NULL;
}

/* answering */

/* Nothing of this is for anybody's store, and no browser is to take it for something else. */
static void put_headers(struct weir_request *request)
{
    weir_reply_line(request, "Cache-Control", "no-store");
    weir_reply_line(request, "X-Content-Type-Options", "nosniff");
    weir_reply_line(request, "Referrer-Policy", "no-referrer");
}

static enum weir_step reply_problem(struct weir_request *request, unsigned status,
                                    const char *detail)
{
    if (!weir_reply_problem(request, status, NULL, detail))
        return WEIR_FAIL;
    put_headers(request);
    return WEIR_DONE;
}

static enum weir_step reply_method(struct weir_request *request,
                                   const struct weir_admin_route *route)
{
    bool is_get = route == NULL || strcmp(route->method, "GET") == 0;
    enum weir_step step = reply_problem(request, 405, NULL);
    if (step == WEIR_DONE)
        weir_reply_line(request, "Allow", is_get ? "GET, HEAD" : "POST");
    return step;
}

/* jansson may have an allocator of the application's own, so the text is written into ours. */
static bool reply_body(struct weir_request *request, const struct weir_admin_answer *answer)
{
    size_t length = json_dumpb(answer->body, NULL, 0, JSON_COMPACT);
    char *text = length == 0 ? NULL : weir_request_alloc(request, length + 1);
    if (text == NULL || json_dumpb(answer->body, text, length, JSON_COMPACT) != length)
        return false;
    return weir_reply_bytes_made(request, answer->status, "application/json", text, length);
}

static enum weir_step reply_answer(struct weir_request *request,
                                   const struct weir_admin_answer *answer)
{
    if (answer->body == NULL)
        return reply_problem(request, answer->status == 0 ? 500 : answer->status,
                             answer->detail[0] == '\0' ? NULL : answer->detail);
    if (!reply_body(request, answer)) {
        weir_request_fail_memory(request);
        return WEIR_FAIL;
    }
    put_headers(request);
    return WEIR_DONE;
}

/* The page is public: it holds no data. */
static bool is_page(const char *path)
{
    return path[0] == '\0' || strcmp(path, "/") == 0 || strcmp(path, "/dashboard") == 0;
}

static enum weir_step reply_page(struct weir_request *request)
{
    struct weir_text method = request->facts.method;
    if (!weir_text_equal(method, WEIR_TEXT("GET")) && !weir_text_equal(method, WEIR_TEXT("HEAD")))
        return reply_method(request, NULL);
    return weir_dashboard_reply(request) ? WEIR_DONE : WEIR_FAIL;
}

/* a request */

/* In the request's slot; the job is there from when it was made. */
struct slot {
    struct weir_admin_job *job;
    bool was_handed_over;
};

static enum weir_step carry_out(struct weir_admin *admin, struct slot *slot,
                                struct weir_request *request)
{
    struct weir_admin_job *job = slot->job;
    if (!job->route->blocks) {
        job->route->answer(admin, job);
        return reply_answer(request, &job->answer);
    }
    slot->was_handed_over = true;
    if (weir_admin_hand_over(admin, job, request))
        return WEIR_WAIT;
    slot->was_handed_over = false;
    enum weir_step step = reply_problem(request, 503, "Too many such requests wait already.");
    if (step == WEIR_DONE)
        weir_reply_line(request, "Retry-After", "1");
    return step;
}

static bool is_json(const struct weir_request *request)
{
    struct weir_text type = weir_facts_header(&request->facts, WEIR_TEXT("Content-Type")), kind;
    return type.at != NULL && weir_text_take_first(&type, ';', &kind)
           && weir_text_equal_fold(weir_text_trim(kind), WEIR_TEXT("application/json"));
}

/* A page from elsewhere can send a form, but no JSON without being asked whether it may. */
static enum weir_step take_body(struct weir_admin *admin, struct slot *slot,
                                struct weir_request *request)
{
    const char *bytes;
    size_t length;
    if (!is_json(request)) {
        enum weir_step step = reply_problem(request, 415, "The body has to be application/json.");
        if (step == WEIR_DONE)
            weir_reply_line(request, "Accept", "application/json");
        return step;
    }
    if (!weir_request_body(request, WEIR_ADMIN_BODY_MAX, &bytes, &length))
        return WEIR_WAIT;
    if (!weir_admin_read_body(slot->job, (struct weir_text){ bytes, length }))
        return reply_answer(request, &slot->job->answer);
    return carry_out(admin, slot, request);
}

static enum weir_step go_on(struct weir_admin *admin, struct slot *slot,
                            struct weir_request *request)
{
    if (strcmp(slot->job->route->method, "POST") == 0)
        return take_body(admin, slot, request);
    if (!weir_admin_read_query(slot->job, request))
        return reply_answer(request, &slot->job->answer);
    return carry_out(admin, slot, request);
}

static enum weir_step begin(struct weir_admin *admin, struct slot *slot,
                            struct weir_request *request)
{
    const char *path = weir_request_rest(request);
    if (is_page(path))
        return reply_page(request);
    if (!weir_admin_lets_in(admin, request)) {
        put_headers(request);
        return WEIR_DONE;
    }
    const struct weir_admin_route *route = find_route(path);
    if (route == NULL)
        return reply_problem(request, 404, NULL);
    if (!takes(route, request->facts.method))
        return reply_method(request, route);
    slot->job = weir_admin_job_new(route);
    if (slot->job == NULL) {
        weir_request_fail_memory(request);
        return WEIR_FAIL;
    }
    weir_admin_name_client(admin, request, slot->job->who);
    slot->job->parked = weir_chain_parked(request->chain);
    return go_on(admin, slot, request);
}

static enum weir_step on_request(void *self, struct weir_request *request)
{
    struct slot *slot = weir_request_slot(request, self);
    if (slot->job == NULL)
        return begin(self, slot, request);
    if (slot->was_handed_over)
        return reply_answer(request, &slot->job->answer);
    return go_on(self, slot, request); /* the body is there */
}

static void on_end(void *self, struct weir_request *request)
{
    struct slot *slot = weir_request_slot(request, self);
    if (slot->job == NULL)
        return;
    if (!slot->was_handed_over)
        weir_admin_log_undone(self, slot->job, request->reply.status);
    weir_admin_job_drop(slot->job);
    slot->job = NULL;
}

static void destroy(void *self)
{
    weir_admin_stop(self); /* it wakes requests of the chain, which is about to go */
}

/* the guard of other paths */

static enum weir_step guard_on_request(void *self, struct weir_request *request)
{
    struct weir_admin *const *admin = self;
    if (weir_admin_lets_in(*admin, request))
        return WEIR_NEXT;
    put_headers(request);
    return WEIR_DONE;
}

static enum weir_code guard_may_listen(void *self, const struct sockaddr *address,
                                       struct weir_error *error)
{
    struct weir_admin *const *admin = self;
    return weir_admin_may_listen(*admin, address, error);
}

/* making and freeing */

static void take(struct weir_admin *admin, const struct weir_admin_options *options)
{
    admin->limiter = options->limiter;
    admin->log = options->log;
    admin->started_us = weir_monotonic_us();
    admin->middleware =
        *WEIR_MIDDLEWARE(.name = "admin", .self = admin, .on_request = on_request, .on_end = on_end,
                         .destroy = destroy, .request_bytes = sizeof(struct slot),
                         .may_listen = weir_admin_may_listen);
    admin->guarded = admin;
    admin->guard = *WEIR_MIDDLEWARE(.name = "admin-guard", .self = &admin->guarded,
                                    .on_request = guard_on_request, .may_listen = guard_may_listen);
    pthread_mutex_init(&admin->mutex, NULL); /* none fails for a default one (glibc) */
    pthread_mutex_init(&admin->attempts.mutex, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&admin->more, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

enum weir_code weir_admin_new(const struct weir_admin_options *options, struct weir_admin **admin,
                              struct weir_error *error)
{
    struct weir_admin_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, ADMIN_OPTIONS_FIRST,
                                            "WEIR_ADMIN_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if (ours.limiter == NULL || admin == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "An admin API needs a limiter and a place.");
    struct weir_admin *made = calloc(1, sizeof *made);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    take(made, &ours);
    code = weir_admin_take_token(made, ours.token, error);
    if (code == WEIR_OK && !weir_admin_start(made))
        code = weir_error_set(error, WEIR_E_SYSTEM, NULL, "The admin API's thread cannot start.");
    if (code != WEIR_OK) {
        weir_admin_free(made);
        return code;
    }
    weir_admin_heed_policy(made);
    *admin = made;
    return WEIR_OK;
}

struct weir_admin *weir_admin_free(struct weir_admin *admin)
{
    if (admin == NULL)
        return NULL;
    weir_admin_leave_policy(admin);
    weir_admin_stop(admin);
    weir_admin_forget_token(admin);
    pthread_cond_destroy(&admin->more);
    pthread_mutex_destroy(&admin->attempts.mutex);
    pthread_mutex_destroy(&admin->mutex);
    free(admin);
    return NULL;
}

const struct weir_middleware *weir_admin(struct weir_admin *admin)
{
    return &admin->middleware;
}

const struct weir_middleware *weir_admin_guard(struct weir_admin *admin)
{
    return &admin->guard;
}
