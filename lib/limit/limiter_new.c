/* Making and freeing limiters. */
#include "limit/limiter_internal.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/options.h"
#include "store/store.h"

#define LIMITER_OPTIONS_FIRST                                                                      \
    (offsetof(struct weir_limiter_options, decision_self) + sizeof(void *))

static enum weir_code open_store(struct weir_limiter *limiter,
                                 const struct weir_limiter_options *options,
                                 struct weir_error *error)
{
    const struct weir_policy *policy = options->policy;
    const struct weir_store_options *settings =
        WEIR_STORE_OPTIONS(.timeout_ms = policy->store_timeout_ms,
                           .memory_bytes = policy->store_memory_bytes, .clock = options->clock,
                           .log = options->log, .connections = policy->store_connections,
                           .tls_ca_file = policy->store_tls.ca_file,
                           .tls_cert_file = policy->store_tls.cert_file,
                           .tls_key_file = policy->store_tls.key_file,
                           .tls_server_name = policy->store_tls.server_name);
    limiter->store = options->store;
    limiter->owns_store = options->store == NULL;
    return limiter->owns_store
               ? weir_store_open(policy->store_url, settings, &limiter->store, error)
               : WEIR_OK;
}

static void take(struct weir_limiter *limiter, const struct weir_limiter_options *options)
{
    weir_limiter_init_editions(limiter);
    limiter->has_own_clock = options->clock != NULL;
    limiter->clock = weir_clock_or_system(options->clock);
    limiter->log = options->log;
    limiter->on_decision = options->on_decision;
    limiter->decision_self = options->decision_self;
    limiter->cost = options->cost;
    limiter->cost_self = options->cost_self;
    pthread_mutex_init(&limiter->settling_mutex,
                       NULL); /* neither fails for a default one (glibc) */
    pthread_cond_init(&limiter->settled, NULL);
}

enum weir_code weir_limiter_new(const struct weir_limiter_options *options,
                                struct weir_limiter **limiter, struct weir_error *error)
{
    struct weir_limiter_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, LIMITER_OPTIONS_FIRST,
                                            "WEIR_LIMITER_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if (ours.policy == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A limiter needs a policy; weir_policy_load() makes one.");

    struct weir_limiter *made = calloc(1, sizeof *made);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    take(made, &ours);
    weir_limiter_make_middleware(made);
    made->counts = weir_counts_new();
    if (!weir_limiter_init_reload(made, &ours) || made->counts == NULL
        || !weir_limiter_open_observing(made, ours.instance))
        code = weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    if (code == WEIR_OK)
        code = open_store(made, &ours, error);
    if (code == WEIR_OK)
        code = weir_limiter_adopt(made, ours.policy, NULL, error);
    if (code != WEIR_OK) {
        weir_limiter_free(made);
        return code;
    }
    *limiter = made;
    return WEIR_OK;
}

/* The store ends each of them by its deadline. */
static void wait_for_settlements(struct weir_limiter *limiter)
{
    pthread_mutex_lock(&limiter->settling_mutex);
    while (limiter->settling > 0)
        pthread_cond_wait(&limiter->settled, &limiter->settling_mutex);
    pthread_mutex_unlock(&limiter->settling_mutex);
}

struct weir_limiter *weir_limiter_free(struct weir_limiter *limiter)
{
    if (limiter == NULL)
        return NULL;
    wait_for_settlements(limiter);
    limiter->leases = weir_leases_free(limiter->leases);
    if (limiter->owns_store)
        weir_store_free(limiter->store);
    weir_store_free(limiter->fallback);
    weir_denials_free(limiter->denials);
    weir_limiter_finish_editions(limiter);
    weir_limiter_close_observing(limiter);
    weir_limiter_finish_reload(limiter);
    weir_key_counts_free(limiter->key_counts);
    weir_counts_free(limiter->counts);
    pthread_cond_destroy(&limiter->settled);
    pthread_mutex_destroy(&limiter->settling_mutex);
    free(limiter);
    return NULL;
}

void weir_limiter_state(struct weir_limiter *limiter, struct weir_store_state *state)
{
    weir_store_state(limiter->store, state);
}
