#include "watched_store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "store/store.h"

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* stores */

struct weir_store *watched_open_with(const char *url, struct weir_store_options options)
{
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    options.log = kept_log();
    if (weir_store_open(url, &options, &store, &error) != WEIR_OK)
        fail_msg("%s: %s", url, error.text);
    return store;
}

struct weir_store *watched_open(const char *url, uint32_t timeout_ms)
{
    return watched_open_with(url, *WEIR_STORE_OPTIONS(.timeout_ms = timeout_ms));
}

/* waiting */

static void give_up_after(uint64_t start_us, const char *what)
{
    if (weir_monotonic_us() - start_us < WATCHED_WAIT_US) {
        pause_a_moment();
        return;
    }
    kept_print();
    fail_msg("waited in vain until %s", what);
}

uint64_t watched_wait_until_ready(struct weir_store *store, bool wanted)
{
    uint64_t start_us = weir_monotonic_us();
    while (weir_store_ready(store) != wanted)
        give_up_after(start_us, wanted ? "the store is ready" : "the store is not ready");
    return weir_monotonic_us() - start_us;
}

uint64_t watched_wait_for_server(struct weir_store *store, unsigned port)
{
    char place[32];
    uint64_t start_us = weir_monotonic_us();
    struct weir_store_state state;
    snprintf(place, sizeof place, ":%u", port);
    for (;;) {
        weir_store_state(store, &state);
        if (state.answering && strstr(state.server, place) != NULL)
            return weir_monotonic_us() - start_us;
        give_up_after(start_us, "the store talks to that server");
    }
}

/* the load */

struct place {
    struct weir_check check;
    struct weir_answer answer;
    uint64_t deadline_us;
    atomic_bool is_taken;
};

struct watched_load {
    struct weir_store *store;
    const struct weir_spend *spend;
    uint64_t timeout_us;
    pthread_t thread;
    atomic_bool stops;
    pthread_mutex_t mutex; /* of the counts */
    struct watched_counts counts;
    struct place places[WATCHED_UNDER_WAY_MAX];
};

static void count(struct watched_counts *counts, const struct place *place)
{
    switch (place->check.result) {
    case WEIR_STORE_ANSWERED:
        counts->answered += place->answer.allowed;
        counts->refused += !place->answer.allowed;
        return;
    case WEIR_STORE_TIMEOUT:
        counts->timeouts++;
        return;
    case WEIR_STORE_UNAVAILABLE:
        counts->unavailable++;
        return;
    case WEIR_STORE_ERROR:
    case WEIR_STORE_CANCELLED:
        counts->errors++;
        snprintf(counts->why, sizeof counts->why, "%s", place->check.why);
        return;
    }
}

static void on_done(struct weir_check *check)
{
    struct watched_load *load = check->owner;
    struct place *place = (struct place *)(void *)check;
    uint64_t now_us = weir_monotonic_us();
    pthread_mutex_lock(&load->mutex);
    count(&load->counts, place);
    if (now_us > place->deadline_us && now_us - place->deadline_us > load->counts.latest_us)
        load->counts.latest_us = now_us - place->deadline_us;
    pthread_mutex_unlock(&load->mutex);
    place->is_taken = false;
}

static void submit(struct watched_load *load, struct place *place)
{
    place->is_taken = true;
    place->check = (struct weir_check){
        .spends = load->spend, .answers = &place->answer, .count = 1, .done = on_done, .owner = load
    };
    place->deadline_us = weir_monotonic_us() + load->timeout_us;
    pthread_mutex_lock(&load->mutex);
    load->counts.submitted++;
    pthread_mutex_unlock(&load->mutex);
    load->store->type->submit(load->store->self, &place->check);
}

static bool all_ended(struct watched_load *load)
{
    for (size_t i = 0; i < WATCHED_UNDER_WAY_MAX; i++)
        if (load->places[i].is_taken)
            return false;
    return true;
}

static void *keep_loading(void *self)
{
    struct watched_load *load = self;
    for (size_t at = 0; !load->stops; at = (at + 1) % WATCHED_UNDER_WAY_MAX) {
        if (!load->places[at].is_taken)
            submit(load, &load->places[at]);
        pause_a_moment();
    }
    while (!all_ended(load))
        pause_a_moment();
    return NULL;
}

struct watched_load *watched_load_start(struct weir_store *store, const struct weir_spend *spend,
                                        uint32_t timeout_ms)
{
    struct watched_load *load = calloc(1, sizeof *load);
    assert_non_null(load);
    load->store = store;
    load->spend = spend;
    load->timeout_us = timeout_ms * UINT64_C(1000);
    assert_int_equal(pthread_mutex_init(&load->mutex, NULL), 0);
    assert_int_equal(pthread_create(&load->thread, NULL, keep_loading, load), 0);
    return load;
}

struct watched_counts watched_load_counts(struct watched_load *load)
{
    pthread_mutex_lock(&load->mutex);
    struct watched_counts counts = load->counts;
    pthread_mutex_unlock(&load->mutex);
    return counts;
}

void watched_load_wait_for_answers(struct watched_load *load, uint64_t more)
{
    uint64_t start_us = weir_monotonic_us();
    uint64_t wanted = watched_load_counts(load).answered + more;
    while (watched_load_counts(load).answered < wanted)
        give_up_after(start_us, "more checks are answered");
}

struct watched_counts watched_load_stop(struct watched_load *load)
{
    load->stops = true;
    pthread_join(load->thread, NULL);
    struct watched_counts counts = load->counts;
    pthread_mutex_destroy(&load->mutex);
    free(load);
    return counts;
}
