#include "limit/edition.h"

#include <stdlib.h>

void weir_editions_init(struct weir_editions *editions,
                        void (*free_edition)(struct weir_edition *edition))
{
    atomic_init(&editions->current, NULL);
    pthread_mutex_init(&editions->mutex, NULL); /* does not fail for a default one (glibc) */
    editions->slots = NULL;
    editions->replaced = 0;
    editions->free_edition = free_edition;
}

/* slots */

/* A free one; NULL: memory ran out. The mutex is locked. */
static struct weir_edition_slot *free_slot(struct weir_editions *editions)
{
    struct weir_edition_slot *slot = editions->slots;
    while (slot != NULL && slot->edition != NULL)
        slot = slot->next;
    if (slot != NULL)
        return slot;
    slot = aligned_alloc(_Alignof(struct weir_edition_slot), sizeof *slot);
    if (slot == NULL)
        return NULL;
    atomic_init(&slot->users, 0);
    slot->edition = NULL;
    slot->next = editions->slots;
    editions->slots = slot;
    return slot;
}

/* freeing */

/* Takes an edition out that nobody has and nobody can take any more; NULL: there is none. */
static struct weir_edition *take_out(struct weir_editions *editions)
{
    struct weir_edition *edition = NULL;
    pthread_mutex_lock(&editions->mutex);
    for (struct weir_edition_slot *slot = editions->slots; slot != NULL; slot = slot->next) {
        /* Who counts itself in a slot that is not the current one any more finds that out before it
         * touches the edition; so 0 users, seen after that, will not become any. */
        if (slot->edition == NULL || slot == atomic_load(&editions->current)
            || atomic_load(&slot->users) > 0)
            continue;
        edition = slot->edition;
        slot->edition = NULL;
        break;
    }
    pthread_mutex_unlock(&editions->mutex);
    return edition;
}

static void free_unused(struct weir_editions *editions)
{
    struct weir_edition *edition;
    while ((edition = take_out(editions)) != NULL)
        editions->free_edition(edition);
}

bool weir_editions_replace(struct weir_editions *editions, struct weir_edition *edition)
{
    pthread_mutex_lock(&editions->mutex);
    struct weir_edition_slot *slot = free_slot(editions);
    if (slot != NULL) {
        edition->editions = editions;
        edition->slot = slot;
        edition->number = ++editions->replaced;
        slot->edition = edition;
        atomic_store(&editions->current, slot);
    }
    pthread_mutex_unlock(&editions->mutex);
    free_unused(editions); /* that of before, if nobody has it */
    return slot != NULL;
}

void weir_editions_finish(struct weir_editions *editions)
{
    atomic_store(&editions->current, NULL);
    free_unused(editions);
    for (struct weir_edition_slot *slot = editions->slots, *next; slot != NULL; slot = next) {
        next = slot->next;
        free(slot);
    }
    pthread_mutex_destroy(&editions->mutex);
}

size_t weir_editions_count(struct weir_editions *editions)
{
    size_t count = 0;
    pthread_mutex_lock(&editions->mutex);
    for (const struct weir_edition_slot *slot = editions->slots; slot != NULL; slot = slot->next)
        count += slot->edition != NULL;
    pthread_mutex_unlock(&editions->mutex);
    return count;
}

/* taking and leaving */

/* Ends being counted in a slot, and frees what waited for that. */
static void leave_slot(struct weir_editions *editions, struct weir_edition_slot *slot)
{
    if (atomic_fetch_sub(&slot->users, 1) == 1 && slot != atomic_load(&editions->current))
        free_unused(editions);
}

const struct weir_edition *weir_edition_take(struct weir_editions *editions)
{
    for (;;) {
        struct weir_edition_slot *slot = atomic_load(&editions->current);
        atomic_fetch_add(&slot->users, 1);
        if (slot == atomic_load(&editions->current))
            return slot->edition;
        leave_slot(editions, slot);
    }
}

const struct weir_edition *weir_edition_take_again(const struct weir_edition *edition)
{
    atomic_fetch_add(&edition->slot->users, 1);
    return edition;
}

void weir_edition_leave(const struct weir_edition *edition)
{
    if (edition != NULL)
        leave_slot(edition->editions, edition->slot);
}

/* That for guesses, which is not one of the file's, stands behind them. */
static size_t index_of(const struct weir_edition *edition, const struct weir_ruleset *ruleset)
{
    const struct weir_policy *policy = edition->policy;
    return ruleset == &policy->guesses ? policy->ruleset_count
                                       : (size_t)(ruleset - policy->rulesets);
}

const struct weir_edition_names *weir_edition_names(const struct weir_edition *edition,
                                                    const struct weir_ruleset *ruleset)
{
    return &edition->names[index_of(edition, ruleset)];
}

struct weir_policy_counts *weir_edition_counts(const struct weir_edition *edition,
                                               const struct weir_ruleset *ruleset)
{
    return ruleset == NULL ? edition->counts_of_none : edition->counts[index_of(edition, ruleset)];
}

const struct weir_limiter_top *weir_edition_top(const struct weir_edition *edition,
                                                const struct weir_ruleset *ruleset)
{
    return ruleset == NULL ? NULL : edition->tops[index_of(edition, ruleset)];
}
