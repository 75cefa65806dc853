/* The leases of one limiter: what this process holds of each key, and who waits for more of it.
 *
 * A check is decided here if all of its limits are leased. Where enough is held of each, at once. Else
 * a block of units is asked of the store for each limit that lacks them, by a WEIR_SPEND of that limit
 * alone; those who want the same key wait in one line for the same answer. The next block is asked for
 * before the one that is spent is empty. Nothing is held for longer than about a second after the store
 * was asked last: what is left then is given back, by a WEIR_SETTLE.
 *
 * All functions are thread-safe, and at NULL nothing is leased. */
#ifndef WEIR_LIMIT_LEASES_H
#define WEIR_LIMIT_LEASES_H

#include <weir/store.h>

struct weir_denials;
struct weir_leases;

struct weir_leases_options {
    const struct weir_store_type
        *type; /* borrowed, like `store`: who is asked                    */
    void *store;
    unsigned instances;             /* among which units are divided                              */
    uint64_t timeout_us;            /* nobody waits longer                                        */
    uint64_t budget_bytes;          /* of what is kept about keys; 0: 8 MiB                       */
    struct weir_denials *denials;   /* borrowed: end where units go back to the store; or NULL    */
    const struct weir_clock *clock; /* one that only goes forward; copied. Then nothing is done by
                                     * itself, and weir_leases_tend() has to be called. NULL: the
                                     * system's, and a thread                                     */
};

/* NULL: memory ran out, or no thread could be made. */
struct weir_leases *weir_leases_new(const struct weir_leases_options *options);

/* Units are divided among so many from now on. */
void weir_leases_set_instances(struct weir_leases *leases, unsigned instances);

/* Gives back what is held, and waits until the store has ended all it was asked, which it does by its
 * deadline. Nobody may be waiting. Accepts NULL; returns NULL. */
struct weir_leases *weir_leases_free(struct weir_leases *leases);

/* Gives back what is held, and waits for what was asked before; meanwhile others may take more. By one
 * thread at a time. */
void weir_leases_flush(struct weir_leases *leases);

/* The store has answered a check that only looks, and which weir_leases_decide() did not decide: what is
 * held here of its keys counts as unspent. Does nothing for any other check. */
void weir_leases_count_held(struct weir_leases *leases, struct weir_check *check);

/* Whether a check that weir_leases_decide() did not decide is one for weir_leases_submit(): it spends,
 * all of its limits are leased, and a block of one of them is worth a call of its own. Asked once. */
bool weir_leases_take(struct weir_leases *leases, const struct weir_check *check);

/* Decides the check with what is held, now, as a store would that answers inline, but without calling
 * `done`; false: nothing was done, and weir_leases_submit() or the store has to be asked. A check that
 * only looks is answered from what the store said less than a second ago. */
bool weir_leases_decide(struct weir_leases *leases, struct weir_check *check);

/* As a store's submit, for a check that weir_leases_take(). It ends by the timeout, and with a failure
 * of the store if that comes instead of the units. */
void weir_leases_submit(struct weir_leases *leases, struct weir_check *check);

/* As a store's cancel. */
void weir_leases_cancel(struct weir_leases *leases, struct weir_check *check);

/* Settles spends that may have been decided here: takes the units that come back to a block, and moves
 * what the store has to be told to the front. Returns how many that are. */
size_t weir_leases_settle(struct weir_leases *leases, struct weir_spend *spends, size_t count);

/* Forgets what is held of these keys, since the store is told to forget or to block them. Once before
 * and once after the store has done it: what it had under way in between may be of either time. */
void weir_leases_drop(struct weir_leases *leases, const struct weir_spend *spends, size_t count);

/* Gives back what was held for long enough and ends what has waited for too long. Returns when it wants
 * to be called next, UINT64_MAX: not before something is submitted. */
uint64_t weir_leases_tend(struct weir_leases *leases);

/* Counts since the start, and how it is now. */
struct weir_leases_numbers {
    uint64_t decided;    /* checks that found enough here                     */
    uint64_t waited;     /* checks that had to wait for a block               */
    uint64_t calls;      /* to the store, for blocks                          */
    uint64_t refused;    /* of these                                          */
    uint64_t taken;      /* units                                             */
    uint64_t given_back; /* units, to the store                               */
    uint64_t stranded;   /* units that nobody spent before the store had them back by itself */
    uint64_t unsure;     /* units of calls that the store has not answered, or whose answer
                          * came too late to count: it may have counted them  */
    uint64_t evicted;    /* keys that others took the place of                */
    uint64_t keys;       /* that something is known of now                    */
    uint64_t held;       /* units, now                                        */
    uint64_t bytes;      /* now                                               */
};

struct weir_leases_numbers weir_leases_numbers(struct weir_leases *leases);

#endif
