/* Another policy in the place of the one that is in force. */
#include "limit/limiter_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* what only a restart can change */

static bool is_same(const char *one, const char *other)
{
    return one == NULL || other == NULL ? one == other : strcmp(one, other) == 0;
}

static enum weir_code refuse_member(struct weir_error *error, const char *member)
{
    char path[32];
    snprintf(path, sizeof path, "/store/%s", member);
    for (char *at = path + sizeof "/store/" - 1; *at != '\0'; at++)
        if (*at == '.')
            *at = '/';
    return weir_error_set(error, WEIR_E_STATE, path,
                          "The store is open, and stays as it is for as long as this process runs; "
                          "restart to change store.%s.",
                          member);
}

static enum weir_code refuse_url(struct weir_error *error, const struct weir_policy *now,
                                 const struct weir_policy *next)
{
    if (strcmp(now->store_shown, next->store_shown) == 0)
        return refuse_member(error, "url"); /* another password */
    return weir_error_set(
        error, WEIR_E_STATE, "/store/url",
        "The store in use is \"%.100s\", and the file says \"%.100s\"; restart to "
        "change store.url.",
        now->store_shown, next->store_shown);
}

/* By what the store was opened. */
static enum weir_code check_opening(const struct weir_policy *now, const struct weir_policy *next,
                                    struct weir_error *error)
{
    if (strcmp(now->store_url, next->store_url) != 0)
        return refuse_url(error, now, next);
    if (now->store_timeout_ms != next->store_timeout_ms)
        return refuse_member(error, "timeout");
    if (now->store_connections != next->store_connections)
        return refuse_member(error, "connections");
    bool is_same_tls = is_same(now->store_tls.ca_file, next->store_tls.ca_file)
                       && is_same(now->store_tls.cert_file, next->store_tls.cert_file)
                       && is_same(now->store_tls.key_file, next->store_tls.key_file)
                       && is_same(now->store_tls.server_name, next->store_tls.server_name);
    return is_same_tls ? WEIR_OK : refuse_member(error, "tls");
}

/* Whoever has opened the store, what is counted lies under the prefix, and a fallback is made once. */
static enum weir_code check_store(const struct weir_limiter *limiter, const struct weir_policy *now,
                                  const struct weir_policy *next, struct weir_error *error)
{
    if (strcmp(now->store_prefix, next->store_prefix) != 0)
        return refuse_member(error, "prefix");
    if (now->store_memory_bytes != next->store_memory_bytes)
        return refuse_member(error, "memory");
    return limiter->owns_store ? check_opening(now, next, error) : WEIR_OK;
}

/* how it went */

static void note_success(struct weir_limiter *limiter, uint64_t generation)
{
    const char *file = limiter->file;
    struct weir_reload_state *state = &limiter->reload_state;
    pthread_mutex_lock(&limiter->reload_state_mutex);
    state->generation = generation;
    state->loaded_us = state->last_us = weir_clock_now_us(&limiter->clock);
    state->last_ok = true;
    state->why[0] = '\0';
    state->successes++;
    snprintf(state->file, sizeof state->file, "%s", file == NULL ? "" : file);
    pthread_mutex_unlock(&limiter->reload_state_mutex);
}

static void note_failure(struct weir_limiter *limiter, const char *line)
{
    struct weir_reload_state *state = &limiter->reload_state;
    pthread_mutex_lock(&limiter->reload_state_mutex);
    state->last_us = weir_clock_now_us(&limiter->clock);
    state->last_ok = false;
    snprintf(state->why, sizeof state->why, "%s", line);
    state->failures++;
    pthread_mutex_unlock(&limiter->reload_state_mutex);
}

static void tell_success(const struct weir_limiter *limiter, uint64_t generation,
                         const struct weir_policy *policy, const char *file)
{
    size_t warnings = weir_policy_warning_count(policy);
    weir_log_line(&limiter->log, WEIR_INFO, "Reloaded %s: generation %" PRIu64 ", %zu warning%s.",
                  file == NULL ? "the policy" : file, generation, warnings,
                  warnings == 1 ? "" : "s");
}

static void tell_failure(struct weir_limiter *limiter, const struct weir_error *error,
                         const char *file)
{
    char line[sizeof limiter->reload_state.why];
    weir_error_line(error, file, line, sizeof line);
    note_failure(limiter, line);
    weir_log_line(&limiter->log, WEIR_ERROR,
                  "Not reloaded; the policy of before stays in force: %s", line);
}

/* replacing; `reload_mutex` is held */

/* What the next reload reads. */
struct source {
    char *file; /* owned; NULL: what there was before */
    struct weir_file_stamp stamp;
};

static void free_source(struct source *source)
{
    free(source->file);
}

static void keep_source(struct weir_limiter *limiter, struct source *source)
{
    if (source->file == NULL)
        return;
    free(limiter->file);
    limiter->file = source->file;
    limiter->file_stamp = source->stamp;
    source->file = NULL;
}

static enum weir_code replace(struct weir_limiter *limiter, struct weir_policy *policy,
                              struct source *source, struct weir_error *error)
{
    const struct weir_edition *now = weir_edition_take(&limiter->editions);
    enum weir_code code = policy == now->policy ? weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                                                                 "That policy is in force already.")
                                                : check_store(limiter, now->policy, policy, error);
    weir_edition_leave(now);
    if (code == WEIR_OK)
        code = weir_limiter_adopt(limiter, policy, policy, error);
    if (code != WEIR_OK)
        return code;
    uint64_t generation = limiter->editions.replaced;
    const char *file = source->file; /* which the limiter keeps */
    keep_source(limiter, source);
    note_success(limiter, generation);
    tell_success(limiter, generation, policy, file);
    if (limiter->on_policy != NULL)
        limiter->on_policy(limiter->policy_self, policy);
    return WEIR_OK;
}

void weir_limiter_tell_policy(struct weir_limiter *limiter,
                              void (*on_policy)(void *self, const struct weir_policy *policy),
                              void *self)
{
    pthread_mutex_lock(&limiter->reload_mutex);
    limiter->on_policy = on_policy;
    limiter->policy_self = self;
    const struct weir_edition *now = weir_edition_take(&limiter->editions);
    if (on_policy != NULL)
        on_policy(self, now->policy);
    weir_edition_leave(now);
    pthread_mutex_unlock(&limiter->reload_mutex);
}

static void hand_out(const struct weir_error *error, struct weir_error *theirs)
{
    if (theirs != NULL && theirs->code == WEIR_OK)
        *theirs = *error;
}

/* The file that a policy was read from, if it was. */
static enum weir_code source_of(const struct weir_policy *policy, struct source *source,
                                struct weir_error *error)
{
    if (!policy->has_file)
        return WEIR_OK;
    source->stamp = policy->stamps[0];
    source->file = strdup(policy->files[0]);
    return source->file != NULL ? WEIR_OK
                                : weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

enum weir_code weir_limiter_replace(struct weir_limiter *limiter, struct weir_policy *policy,
                                    struct weir_error *error)
{
    struct weir_error why = WEIR_NO_ERROR;
    if (limiter == NULL || policy == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "There is no %s.",
                              limiter == NULL ? "limiter" : "policy");
    __attribute__((cleanup(free_source))) struct source source = { .file = NULL };
    pthread_mutex_lock(&limiter->reload_mutex);
    enum weir_code code = source_of(policy, &source, &why);
    if (code == WEIR_OK)
        code = replace(limiter, policy, &source, &why);
    if (code != WEIR_OK)
        tell_failure(limiter, &why, source.file);
    pthread_mutex_unlock(&limiter->reload_mutex);
    hand_out(&why, error);
    return code;
}

static enum weir_code load(const struct weir_limiter *limiter, const char *file,
                           struct weir_policy **policy, struct weir_error *error)
{
    return limiter->load == NULL ? weir_policy_load(file, policy, error)
                                 : limiter->load(limiter->load_self, file, policy, error);
}

static enum weir_code reload(struct weir_limiter *limiter, struct source *source,
                             struct weir_error *error)
{
    struct weir_policy *policy = NULL;
    source->stamp = weir_file_stamp(source->file);
    enum weir_code code = load(limiter, source->file, &policy, error);
    if (code == WEIR_OK)
        code = replace(limiter, policy, source, error);
    if (code != WEIR_OK)
        weir_policy_free(policy);
    return code;
}

/* A copy of the name that is meant; `reload_mutex` is held. */
static enum weir_code find_file(const struct weir_limiter *limiter, const char *file, char **own,
                                struct weir_error *error)
{
    const char *wanted = file == NULL ? limiter->file : file;
    if (wanted == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "The policy was not read from a file; name one, or set \"file\" in "
                              "the limiter's options.");
    *own = strdup(wanted);
    return *own == NULL ? weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.") : WEIR_OK;
}

enum weir_code weir_limiter_file(struct weir_limiter *limiter, char **file,
                                 struct weir_file_stamp *stamp, struct weir_error *error)
{
    pthread_mutex_lock(&limiter->reload_mutex);
    enum weir_code code = find_file(limiter, NULL, file, error);
    if (stamp != NULL)
        *stamp = limiter->file_stamp;
    pthread_mutex_unlock(&limiter->reload_mutex);
    return code;
}

enum weir_code weir_policy_reload(struct weir_limiter *limiter, const char *file,
                                  struct weir_error *error)
{
    struct weir_error why = WEIR_NO_ERROR;
    if (limiter == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "There is no limiter.");
    __attribute__((cleanup(free_source))) struct source source = { .file = NULL };
    pthread_mutex_lock(&limiter->reload_mutex);
    enum weir_code code = find_file(limiter, file, &source.file, &why);
    if (code == WEIR_OK)
        code = reload(limiter, &source, &why);
    if (code != WEIR_OK)
        tell_failure(limiter, &why, source.file);
    pthread_mutex_unlock(&limiter->reload_mutex);
    hand_out(&why, error);
    return code;
}

void weir_limiter_reload_state(struct weir_limiter *limiter, struct weir_reload_state *state)
{
    pthread_mutex_lock(&limiter->reload_state_mutex);
    *state = limiter->reload_state;
    pthread_mutex_unlock(&limiter->reload_state_mutex);
}

/* the first policy */

static bool note_first_file(struct weir_limiter *limiter, const char *file,
                            const struct weir_policy *policy)
{
    bool is_known = policy->has_file && strcmp(file, policy->files[0]) == 0;
    limiter->file = strdup(file);
    limiter->file_stamp = is_known ? policy->stamps[0] : weir_file_stamp(file);
    snprintf(limiter->reload_state.file, sizeof limiter->reload_state.file, "%s", file);
    return limiter->file != NULL;
}

bool weir_limiter_init_reload(struct weir_limiter *limiter,
                              const struct weir_limiter_options *options)
{
    const struct weir_policy *policy = options->policy;
    const char *file = policy->has_file ? policy->files[0] : NULL;
    if (options->file != NULL)
        file = options->file;
    pthread_mutex_init(&limiter->reload_mutex, NULL); /* neither fails for a default one (glibc) */
    pthread_mutex_init(&limiter->reload_state_mutex, NULL);
    limiter->load = options->load;
    limiter->load_self = options->load_self;
    limiter->reload_state = (struct weir_reload_state){
        .generation = 1, .loaded_us = weir_clock_now_us(&limiter->clock), .last_ok = true
    };
    return file == NULL || note_first_file(limiter, file, policy);
}

void weir_limiter_finish_reload(struct weir_limiter *limiter)
{
    free(limiter->file);
    pthread_mutex_destroy(&limiter->reload_state_mutex);
    pthread_mutex_destroy(&limiter->reload_mutex);
}
