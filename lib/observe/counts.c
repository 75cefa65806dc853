#include "observe/counts.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* One thread's share of one limit's numbers. */
struct cells {
    _Alignas(WEIR_CACHE_LINE_BYTES)
        atomic_uint_fast64_t decisions[WEIR_COUNTED_OUTCOMES][WEIR_SOURCES];
    atomic_uint_fast64_t units[WEIR_UNITS_FATES][2];
};

/* One limit of one policy; it stays once it is there. */
struct row {
    struct cells shards[WEIR_SHARDS];
    struct row *next;
    bool is_limit;
    char name[];
};

struct record {
    struct record *next;
    struct row *none, *concurrency;
    struct row *limits; /* the first one first */
    char name[];
};

/* The limits of one policy as one edition of it has them; it stays as well, for the next edition that
 * has the same. */
struct weir_policy_counts {
    struct weir_policy_counts *next;
    const struct record *record;
    struct row *none, *concurrency;
    size_t limit_count;
    struct row *limits[];
};

struct weir_counts {
    struct weir_histogram latency;
    struct {
        _Alignas(WEIR_CACHE_LINE_BYTES) atomic_uint_fast64_t failures[WEIR_STORE_RESULTS];
    } shards[WEIR_SHARDS];

    pthread_mutex_t mutex; /* guards the lists, not the numbers */
    struct record *first;  /* policies in the order they came in */
    struct weir_policy_counts *known;
};

/* names */

const char *weir_outcome_name(enum weir_outcome outcome)
{
    static const char *const names[] = {
        [WEIR_ALLOWED] = "allowed",
        [WEIR_LIMITED] = "limited",
        [WEIR_IMPOSSIBLE] = "impossible",
        [WEIR_SHADOW_LIMITED] = "shadow-limited",
        [WEIR_UNAUTHENTICATED] = "unauthenticated",
        [WEIR_FAILED_OPEN] = "failed-open",
        [WEIR_FAILED_CLOSED] = "failed-closed",
        [WEIR_UNREADABLE] = "unreadable",
        [WEIR_DENIED] = "denied",
        [WEIR_BUSY] = "busy",
    };
    return (size_t)outcome < sizeof names / sizeof names[0] ? names[outcome] : "other";
}

const char *weir_source_name(enum weir_source source)
{
    static const char *const names[WEIR_SOURCES] = { "none", "store", "lease", "denials",
                                                     "memory" };
    return names[source];
}

const char *weir_store_failure_name(enum weir_store_result result)
{
    switch (result) {
    case WEIR_STORE_ANSWERED:
        return NULL;
    case WEIR_STORE_TIMEOUT:
        return "timeout";
    case WEIR_STORE_ERROR:
        return "error";
    case WEIR_STORE_UNAVAILABLE:
    case WEIR_STORE_CANCELLED:
        break;
    }
    return "unavailable";
}

/* making */

/* Zeroed, for what stands in cache lines of its own. */
static void *alloc_lines(size_t size)
{
    size_t whole = (size + WEIR_CACHE_LINE_BYTES - 1) / WEIR_CACHE_LINE_BYTES;
    void *made = aligned_alloc(WEIR_CACHE_LINE_BYTES, whole * WEIR_CACHE_LINE_BYTES);
    if (made != NULL)
        memset(made, 0, whole * WEIR_CACHE_LINE_BYTES);
    return made;
}

struct weir_counts *weir_counts_new(void)
{
    struct weir_counts *made = alloc_lines(sizeof *made);
    if (made != NULL)
        pthread_mutex_init(&made->mutex, NULL); /* does not fail for a default one (glibc) */
    return made;
}

static struct row *make_row(const char *name, bool is_limit)
{
    struct row *made = alloc_lines(sizeof *made + strlen(name) + 1);
    if (made == NULL)
        return NULL;
    made->is_limit = is_limit;
    strcpy(made->name, name);
    return made;
}

static void free_record(struct record *record)
{
    while (record->limits != NULL) {
        struct row *next = record->limits->next;
        free(record->limits);
        record->limits = next;
    }
    free(record->none);
    free(record->concurrency);
    free(record);
}

struct weir_counts *weir_counts_free(struct weir_counts *counts)
{
    if (counts == NULL)
        return NULL;
    while (counts->known != NULL) {
        struct weir_policy_counts *next = counts->known->next;
        free(counts->known);
        counts->known = next;
    }
    while (counts->first != NULL) {
        struct record *next = counts->first->next;
        free_record(counts->first);
        counts->first = next;
    }
    pthread_mutex_destroy(&counts->mutex);
    free(counts);
    return NULL;
}

static struct record *make_record(const char *name)
{
    struct record *made = calloc(1, sizeof *made + strlen(name) + 1);
    if (made == NULL)
        return NULL;
    strcpy(made->name, name);
    made->none = make_row("", false);
    made->concurrency = make_row("concurrency", false);
    if (made->none == NULL || made->concurrency == NULL) {
        free_record(made);
        return NULL;
    }
    return made;
}

/* finding */

static struct record *find_record(struct weir_counts *counts, const char *name)
{
    struct record **place = &counts->first;
    while (*place != NULL && strcmp((*place)->name, name) != 0)
        place = &(*place)->next;
    if (*place == NULL)
        *place = make_record(name);
    return *place;
}

static struct row *find_limit(struct record *record, const char *name)
{
    struct row **place = &record->limits;
    while (*place != NULL && strcmp((*place)->name, name) != 0)
        place = &(*place)->next;
    if (*place == NULL)
        *place = make_row(name, true);
    return *place;
}

static bool is_of(const struct weir_policy_counts *known, const char *policy,
                  const char *const *limits, size_t limit_count)
{
    if (known->limit_count != limit_count || strcmp(known->record->name, policy) != 0)
        return false;
    for (size_t i = 0; i < limit_count; i++)
        if (strcmp(known->limits[i]->name, limits[i]) != 0)
            return false;
    return true;
}

static struct weir_policy_counts *make_known(struct weir_counts *counts, const char *policy,
                                             const char *const *limits, size_t limit_count)
{
    struct weir_policy_counts *made =
        calloc(1, sizeof *made + limit_count * sizeof made->limits[0]);
    struct record *record = made == NULL ? NULL : find_record(counts, policy);
    bool is_whole = record != NULL;
    for (size_t i = 0; is_whole && i < limit_count; i++) {
        made->limits[i] = find_limit(record, limits[i]);
        is_whole = made->limits[i] != NULL;
    }
    if (!is_whole) {
        free(made);
        return NULL;
    }
    made->record = record;
    made->none = record->none;
    made->concurrency = record->concurrency;
    made->limit_count = limit_count;
    made->next = counts->known;
    counts->known = made;
    return made;
}

struct weir_policy_counts *weir_counts_of_policy(struct weir_counts *counts, const char *policy,
                                                 const char *const *limits, size_t limit_count)
{
    pthread_mutex_lock(&counts->mutex);
    struct weir_policy_counts *known = counts->known;
    while (known != NULL && !is_of(known, policy, limits, limit_count))
        known = known->next;
    if (known == NULL)
        known = make_known(counts, policy, limits, limit_count);
    pthread_mutex_unlock(&counts->mutex);
    return known;
}

/* counting */

static struct cells *cells_of(struct weir_policy_counts *policy, size_t limit)
{
    struct row *row = policy->none;
    if (limit < policy->limit_count)
        row = policy->limits[limit];
    else if (limit == WEIR_LIMIT_CONCURRENCY)
        row = policy->concurrency;
    return &row->shards[weir_shard()];
}

void weir_count_decision(struct weir_policy_counts *policy, size_t limit, unsigned outcome,
                         enum weir_source source, uint64_t by)
{
    if (outcome < WEIR_COUNTED_OUTCOMES)
        weir_shard_add(&cells_of(policy, limit)->decisions[outcome][source], by);
}

void weir_count_units_of(struct weir_policy_counts *policy, size_t limit, enum weir_units_fate fate,
                         bool by_memory, uint64_t units)
{
    weir_shard_add(&cells_of(policy, limit)->units[fate][by_memory], units);
}

void weir_count_unasked(struct weir_counts *counts, enum weir_store_result result)
{
    weir_shard_add(&counts->shards[weir_shard()].failures[result], 1);
}

void weir_count_asked(struct weir_counts *counts, enum weir_store_result result, uint64_t waited_us)
{
    weir_histogram_note(&counts->latency, waited_us);
    if (result != WEIR_STORE_ANSWERED)
        weir_count_unasked(counts, result);
}

/* reading */

struct weir_store_sums weir_counts_of_store(const struct weir_counts *counts)
{
    struct weir_store_sums sums = { .latency = weir_histogram_read(&counts->latency) };
    for (size_t i = 0; i < WEIR_SHARDS; i++)
        for (size_t k = 0; k < WEIR_STORE_RESULTS; k++)
            sums.failures[k] += weir_shard_read(&counts->shards[i].failures[k]);
    return sums;
}

static void add_cells(const struct cells *cells, struct weir_limit_sums *sums)
{
    for (size_t i = 0; i < WEIR_COUNTED_OUTCOMES; i++)
        for (size_t k = 0; k < WEIR_SOURCES; k++)
            sums->decisions[i][k] += weir_shard_read(&cells->decisions[i][k]);
    for (size_t i = 0; i < WEIR_UNITS_FATES; i++)
        for (size_t k = 0; k < 2; k++)
            sums->units[i][k] += weir_shard_read(&cells->units[i][k]);
}

static struct weir_limit_sums sums_of(const struct record *record, const struct row *row)
{
    struct weir_limit_sums sums = { .policy = record->name,
                                    .limit = row->name,
                                    .is_limit = row->is_limit };
    for (size_t i = 0; i < WEIR_SHARDS; i++)
        add_cells(&row->shards[i], &sums);
    return sums;
}

void weir_counts_each(struct weir_counts *counts,
                      void (*see)(void *self, const struct weir_limit_sums *sums), void *self)
{
    pthread_mutex_lock(&counts->mutex);
    for (const struct record *record = counts->first; record != NULL; record = record->next) {
        struct weir_limit_sums sums = sums_of(record, record->none);
        see(self, &sums);
        for (const struct row *row = record->limits; row != NULL; row = row->next) {
            sums = sums_of(record, row);
            see(self, &sums);
        }
        sums = sums_of(record, record->concurrency);
        see(self, &sums);
    }
    pthread_mutex_unlock(&counts->mutex);
}
