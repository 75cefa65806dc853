/* Editions of a policy: which one is in use, and until when an older one has to stay.
 *
 * A request takes the current edition at its beginning and leaves it at its end, and everything that is
 * decided about it is decided by that one. Taking and leaving cost an atomic addition each. An edition
 * that has been replaced is freed when nobody has it any more, by who leaves it last. */
#ifndef WEIR_LIMIT_EDITION_H
#define WEIR_LIMIT_EDITION_H

#include <pthread.h>
#include <stdatomic.h>

#include "limit/concurrency.h"
#include "limit/denied.h"
#include "limit/leases.h"
#include "limit/prepared.h"

struct weir_edition_slot;
struct weir_editions;
struct weir_limiter_group;
struct weir_policy_counts;
struct weir_limiter_top;

/* The names of a ruleset and of its limits, as they are kept for as long as the limiter lives. */
struct weir_edition_names {
    const char *policy;
    const char *limits[WEIR_CHECK_LIMITS];
};

/* One policy in use. Nothing of it changes while anybody has it. */
struct weir_edition {
    const struct weir_policy *policy;
    struct weir_policy *owned; /* the same, to be freed with the edition; NULL: somebody else's */
    struct weir_prepared_set *prepared;
    uint64_t number; /* 1 for the first */

    /* Beside the policy's rulesets, and behind them that for guesses. */
    struct weir_edition_names *names;
    struct weir_policy_counts **counts;
    struct weir_policy_counts *counts_of_none; /* of what no policy is about */
    struct weir_limiter_top **tops;

    /* The limiter's, so far as this policy wants them: they outlive all editions. */
    struct weir_store *fallback;        /* in this process; NULL: no policy falls back on it */
    struct weir_denials *denials;       /* NULL: off, or the store answers as fast as they would */
    struct weir_leases *leases;         /* NULL: no limit is leased, or likewise                 */
    struct weir_key_counts *key_counts; /* NULL: no policy counts by key */
    struct weir_limiter_group **groups; /* in the policy's order of adaptive limits              */

    struct weir_editions *editions;
    struct weir_edition_slot *slot;
};

/* Slots are made when all that there are hold an edition, used again, and freed with the rest: so who
 * has read which slot is the current one may count itself in it, whatever has become of it. */
struct weir_edition_slot {
    _Alignas(64) atomic_uint_fast64_t users;
    struct weir_edition *edition; /* NULL: the slot is free */
    struct weir_edition_slot *next;
};

struct weir_editions {
    _Atomic(struct weir_edition_slot *) current;
    pthread_mutex_t mutex; /* guards the list of slots, and which of them are free */
    struct weir_edition_slot *slots;
    uint64_t replaced; /* how many editions there have been; by who replaces */
    void (*free_edition)(struct weir_edition *edition);
};

/* `free_edition` is called on any thread. */
void weir_editions_init(struct weir_editions *editions,
                        void (*free_edition)(struct weir_edition *edition));

/* Frees all editions, when nobody has any. */
void weir_editions_finish(struct weir_editions *editions);

/* Makes `edition` the current one, numbered, and owned from then on; false: memory ran out, and
 * nothing has changed. By one thread at a time. */
bool weir_editions_replace(struct weir_editions *editions, struct weir_edition *edition);

/* How many there are, the current one included: more than one while older ones are in use. */
size_t weir_editions_count(struct weir_editions *editions);

/* The current one, to be left once. Any thread, without a lock. */
const struct weir_edition *weir_edition_take(struct weir_editions *editions);

/* Once more the one that the caller has. */
const struct weir_edition *weir_edition_take_again(const struct weir_edition *edition);

/* Accepts NULL. */
void weir_edition_leave(const struct weir_edition *edition);

/* The kept names of a ruleset of its policy's. Pure. */
const struct weir_edition_names *weir_edition_names(const struct weir_edition *edition,
                                                    const struct weir_ruleset *ruleset);

/* Where a ruleset of its policy's is counted; at NULL: what no policy is about. Pure. */
struct weir_policy_counts *weir_edition_counts(const struct weir_edition *edition,
                                               const struct weir_ruleset *ruleset);

/* Likewise who spends most of it; NULL: there is no ruleset. Pure. */
const struct weir_limiter_top *weir_edition_top(const struct weir_edition *edition,
                                                const struct weir_ruleset *ruleset);

#endif
