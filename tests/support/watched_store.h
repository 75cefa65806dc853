/* A Redis store whose log is kept, and a steady load on it. Functions that fail, fail the test. */
#ifndef TESTS_SUPPORT_WATCHED_STORE_H
#define TESTS_SUPPORT_WATCHED_STORE_H

#include "kept_log.h"

#include <weir/store.h>

/* No wait of a test's own is longer. */
#define WATCHED_WAIT_US UINT64_C(60000000)

/* Opens one with the kept log. */
struct weir_store *watched_open(const char *url, uint32_t timeout_ms);

/* The same with options of the test's own, whose log is set here. */
struct weir_store *watched_open_with(const char *url, struct weir_store_options options);

/* Looks again and again until it is so, and returns how many µs that took. */
uint64_t watched_wait_until_ready(struct weir_store *store, bool wanted);
uint64_t watched_wait_for_server(struct weir_store *store, unsigned port);

/* A check every millisecond, of which so many may be under way. */
#define WATCHED_UNDER_WAY_MAX 512

struct watched_load;

struct watched_counts {
    uint64_t submitted;
    uint64_t answered; /* and let through */
    uint64_t refused;
    uint64_t timeouts;
    uint64_t unavailable;
    uint64_t errors;
    uint64_t latest_us; /* the most that a check ended after its deadline; 0: none did */
    char why[64];       /* of the last error */
};

/* `spend` is borrowed; `timeout_ms` is the store's. */
struct watched_load *watched_load_start(struct weir_store *store, const struct weir_spend *spend,
                                        uint32_t timeout_ms);

/* What has ended so far. */
struct watched_counts watched_load_counts(struct watched_load *load);

/* Waits until so many more were answered. */
void watched_load_wait_for_answers(struct watched_load *load, uint64_t more);

/* Ends it when the last check has ended, and says what became of all. */
struct watched_counts watched_load_stop(struct watched_load *load);

#endif
