/* What of a limiter belongs to one policy file, and what outlives all of them. */
#include "limit/limiter_internal.h"

#include <stdlib.h>
#include <string.h>

#include "store/store.h"

/* names that last */

/* Where a name is, or is to be put. */
static size_t find_name(const struct weir_limiter_names *names, const char *name)
{
    size_t low = 0, high = names->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names->names[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(struct weir_limiter_names *names)
{
    if (names->count < names->room)
        return true;
    size_t room = names->room == 0 ? 32 : 2 * names->room;
    char **grown = reallocarray(names->names, room, sizeof *grown);
    if (grown == NULL)
        return false;
    names->names = grown;
    names->room = room;
    return true;
}

/* The name, as it was kept before or is now; NULL: memory ran out. */
static const char *keep_name(struct weir_limiter_names *names, const char *name)
{
    size_t at = find_name(names, name);
    if (at < names->count && strcmp(names->names[at], name) == 0)
        return names->names[at];
    char *kept = make_room(names) ? strdup(name) : NULL;
    if (kept == NULL)
        return NULL;
    memmove(&names->names[at + 1], &names->names[at], (names->count - at) * sizeof kept);
    names->names[at] = kept;
    names->count++;
    return kept;
}

static bool keep_names_of(struct weir_limiter_names *kept, const struct weir_ruleset *ruleset,
                          struct weir_edition_names *names)
{
    names->policy = keep_name(kept, ruleset->name);
    bool is_kept = names->policy != NULL;
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        names->limits[i] = keep_name(kept, ruleset->limits[i].name);
        is_kept = is_kept && names->limits[i] != NULL;
    }
    return is_kept;
}

static bool keep_names(struct weir_limiter *limiter, struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    size_t count = policy->ruleset_count;
    edition->names = calloc(count + 1, sizeof *edition->names);
    if (edition->names == NULL)
        return false;
    bool is_kept = keep_names_of(&limiter->names, &policy->guesses, &edition->names[count]);
    for (size_t i = 0; i < count && is_kept; i++)
        is_kept = keep_names_of(&limiter->names, &policy->rulesets[i], &edition->names[i]);
    return is_kept;
}

/* counts */

static struct weir_policy_counts *count_ruleset(struct weir_limiter *limiter,
                                                const struct weir_ruleset *ruleset)
{
    const char *names[WEIR_CHECK_LIMITS];
    for (size_t i = 0; i < ruleset->limit_count; i++)
        names[i] = ruleset->limits[i].name;
    return weir_counts_of_policy(limiter->counts, ruleset->name, names, ruleset->limit_count);
}

static bool find_counts(struct weir_limiter *limiter, struct weir_edition *edition)
{
    const struct weir_policy *policy = edition->policy;
    size_t count = policy->ruleset_count;
    edition->counts = calloc(count + 1, sizeof edition->counts[0]);
    if (edition->counts == NULL)
        return false;
    edition->counts[count] = count_ruleset(limiter, &policy->guesses);
    edition->counts_of_none = weir_counts_of_policy(limiter->counts, "", NULL, 0);
    bool is_whole = edition->counts[count] != NULL && edition->counts_of_none != NULL;
    for (size_t i = 0; i < count && is_whole; i++) {
        edition->counts[i] = count_ruleset(limiter, &policy->rulesets[i]);
        is_whole = edition->counts[i] != NULL;
    }
    return is_whole;
}

/* what a policy may ask for */

static bool falls_back(const struct weir_ruleset *ruleset)
{
    return ruleset->on_store_failure.timeout == WEIR_FAIL_MEMORY
           || ruleset->on_store_failure.unavailable == WEIR_FAIL_MEMORY
           || ruleset->on_store_failure.error == WEIR_FAIL_MEMORY;
}

static bool wants_fallback(const struct weir_policy *policy)
{
    bool wants = falls_back(&policy->guesses);
    for (size_t i = 0; i < policy->ruleset_count; i++)
        wants = wants || falls_back(&policy->rulesets[i]);
    return wants;
}

/* The caller's, or NULL for the system's, as the limiter got it. */
static const struct weir_clock *clock_of(const struct weir_limiter *limiter)
{
    return limiter->has_own_clock ? &limiter->clock : NULL;
}

static enum weir_code open_fallback(struct weir_limiter *limiter, struct weir_edition *edition,
                                    struct weir_error *error)
{
    struct weir_store *made = limiter->fallback;
    if (!wants_fallback(edition->policy))
        return WEIR_OK;
    if (made == NULL) {
        const struct weir_store_options *settings =
            WEIR_STORE_OPTIONS(.memory_bytes = edition->policy->store_memory_bytes,
                               .clock = clock_of(limiter), .log = limiter->log);
        enum weir_code code = weir_store_new_memory(settings, &made, error);
        if (code != WEIR_OK)
            return code;
        limiter->fallback = made;
    }
    edition->fallback = made;
    return WEIR_OK;
}

/* Leases end denials where units go back, whether or not this policy has any. */
static bool open_denials(struct weir_limiter *limiter, struct weir_edition *edition)
{
    uint64_t cap_us = edition->policy->denial_cache_us;
    if (limiter->store->type->answers_inline
        || (cap_us == 0 && !weir_limiter_wants_leases(edition)))
        return true;
    if (limiter->denials == NULL)
        limiter->denials = weir_denials_new(cap_us, clock_of(limiter));
    edition->denials = cap_us == 0 ? NULL : limiter->denials;
    return limiter->denials != NULL;
}

static enum weir_code fill(struct weir_limiter *limiter, struct weir_edition *edition,
                           struct weir_error *error)
{
    if (!keep_names(limiter, edition) || !find_counts(limiter, edition)
        || !weir_limiter_open_tops(limiter, edition) || !weir_limiter_prepare(limiter, edition)
        || !open_denials(limiter, edition) || !weir_limiter_open_concurrency(limiter, edition))
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    if (!weir_limiter_open_leases(limiter, edition))
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "The leases lack memory or a thread.");
    return open_fallback(limiter, edition, error);
}

/* making and freeing */

static struct weir_limiter *limiter_of(const struct weir_edition *edition)
{
    return (struct weir_limiter *)((char *)edition->editions
                                   - offsetof(struct weir_limiter, editions));
}

static void free_edition(struct weir_edition *edition)
{
    struct weir_limiter *limiter = limiter_of(edition);
    weir_limiter_close_concurrency(limiter, edition);
    weir_limiter_close_tops(limiter, edition);
    weir_prepared_free(edition->prepared);
    free(edition->names);
    free(edition->counts);
    weir_policy_free(edition->owned);
    free(edition);
}

void weir_limiter_init_editions(struct weir_limiter *limiter)
{
    weir_editions_init(&limiter->editions, free_edition);
    pthread_mutex_init(&limiter->groups_mutex, NULL); /* does not fail for a default one (glibc) */
}

void weir_limiter_finish_editions(struct weir_limiter *limiter)
{
    weir_editions_finish(&limiter->editions);
    pthread_mutex_destroy(&limiter->groups_mutex);
    for (size_t i = 0; i < limiter->names.count; i++)
        free(limiter->names.names[i]);
    free(limiter->names.names);
}

/* What holds for all from now on. */
static void adopt_shared(struct weir_limiter *limiter, const struct weir_edition *edition)
{
    if (edition->denials != NULL)
        weir_denials_set_cap(edition->denials, edition->policy->denial_cache_us);
    if (edition->number > 1)
        weir_denials_forget_all(limiter->denials);
    weir_limiter_adopt_concurrency(edition);
    weir_limiter_adopt_leases(limiter, edition);
}

enum weir_code weir_limiter_adopt(struct weir_limiter *limiter, const struct weir_policy *policy,
                                  struct weir_policy *owned, struct weir_error *error)
{
    struct weir_edition *made = calloc(1, sizeof *made);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    made->policy = policy;
    made->editions = &limiter->editions;
    enum weir_code code = fill(limiter, made, error);
    made->owned = owned;
    if (code == WEIR_OK && !weir_editions_replace(&limiter->editions, made))
        code = weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    if (code != WEIR_OK) {
        made->owned = NULL; /* it stays the caller's */
        free_edition(made);
        return code;
    }
    adopt_shared(limiter, made);
    return WEIR_OK;
}

/* for a request */

static void release_edition(struct weir_request_hold *hold)
{
    weir_edition_leave(((struct weir_edition_hold *)hold)->edition);
}

const struct weir_edition *weir_limiter_edition_for(struct weir_limiter *limiter,
                                                    struct weir_request *request,
                                                    struct weir_edition_hold *hold)
{
    for (const struct weir_request_hold *at = request->holds; at != NULL; at = at->next) {
        const struct weir_edition_hold *kept = (const struct weir_edition_hold *)at;
        if (at->release == release_edition && kept->edition->editions == &limiter->editions)
            return kept->edition;
    }
    hold->base.release = release_edition;
    hold->edition = weir_edition_take(&limiter->editions);
    weir_request_hold(request, &hold->base);
    return hold->edition;
}
