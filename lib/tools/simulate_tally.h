/* Who was refused, when, and how often. */
#ifndef WEIR_TOOLS_SIMULATE_TALLY_H
#define WEIR_TOOLS_SIMULATE_TALLY_H

#include "tools/simulate_replay.h"

struct weir_tally_count {
    uint64_t requests;
    uint64_t refused; /* not let through to the application      */
    uint64_t watched; /* would be, if the policy did not only watch */
};

/* One limit, and the requests that it had a say in. */
struct weir_tally_limit {
    const struct weir_ruleset *ruleset;
    const struct weir_limit_rule *limit;
    struct weir_tally_count count;
    uint64_t keys, refused_keys;
};

struct weir_tally_policy {
    const struct weir_ruleset *ruleset; /* NULL: no policy's */
    struct weir_tally_count count;
    struct weir_tally_limit *limits; /* as many as the ruleset has */
};

/* What a limit counts under one key; or a client that was refused without a limit. */
struct weir_tally_key {
    const char *label;          /* NULL: nobody was refused here */
    const char *policy, *limit; /* NULL: none */
    enum weir_outcome outcome;
    struct weir_tally_count count;
    uint64_t first_us, last_us; /* that were refused, or would be */
    uint64_t retry_most_s;
    size_t length;
    char bytes[];
};

/* The hash stands beside the key, so that others need not be looked at. */
struct weir_tally_place {
    uint64_t hash;
    struct weir_tally_key *key; /* NULL: free */
};

/* So many stretches of time at most; the first begins at `first_us`. */
#define WEIR_TALLY_TIMES 24

struct weir_tally {
    struct weir_tally_policy *policies; /* those of the file, that for guesses, and none */
    size_t policy_count;
    uint64_t outcomes[WEIR_BUSY + 1];
    struct weir_tally_count all;
    uint64_t turned_away; /* that were answered 429 when they came */
    uint64_t first_us, width_us;
    struct weir_tally_count times[WEIR_TALLY_TIMES];
    size_t time_count;

    const struct weir_policy *policy;
    struct weir_tally_place *keys; /* a table of `room` places */
    size_t key_count, room;
    struct weir_arena *labels;
    uint8_t hash_key[WEIR_HASH_KEY_BYTES];
};

/* For requests from `first_us` to `last_us`. NULL: memory ran out. */
struct weir_tally *weir_tally_new(const struct weir_policy *policy, uint64_t first_us,
                                  uint64_t last_us);

/* Accepts NULL; returns NULL. */
struct weir_tally *weir_tally_free(struct weir_tally *tally);

/* False: memory ran out. `status` is what the log has. */
bool weir_tally_add(struct weir_tally *tally, uint64_t time_us, unsigned status,
                    const struct weir_replayed *replayed);

/* Those that were refused most, first; the list is for free(). NULL: memory ran out. */
const struct weir_tally_key **weir_tally_top(const struct weir_tally *tally, size_t *count);

/* Whether it was kept from the application. */
bool weir_is_refused(enum weir_outcome outcome);

#endif
