#include "observe/top_keys.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/order.h"
#include "observe/shards.h"

#define PARTS   4u
#define PERIODS 2
#define BUCKETS 256 /* a power of two */
#define NOBODY  UINT16_MAX

struct counter {
    uint64_t count, error;
    uint16_t next;  /* in its bucket                                    */
    uint16_t place; /* in the heap, which there is when all are in use  */
    uint8_t bucket;
    uint8_t key_length;
    uint8_t key[WEIR_TOP_KEY_BYTES];
};

/* The counters of one part and period. */
struct table {
    uint64_t total;
    size_t used;
    uint16_t buckets[BUCKETS];
    uint16_t heap[WEIR_TOP_COUNTERS]; /* the smallest count first */
    struct counter counters[WEIR_TOP_COUNTERS];
};

struct part {
    _Alignas(WEIR_CACHE_LINE_BYTES) pthread_mutex_t mutex; /* guards the rest */
    uint64_t start_us;                                     /* of the current period */
    unsigned current;                                      /* the table it has      */
    struct table tables[PERIODS];
};

struct weir_top {
    uint8_t key[WEIR_HASH_KEY_BYTES];
    uint64_t created_us;
    struct part parts[PARTS];
};

/* one table */

/* The counters are written before they are read. */
static void clear(struct table *table)
{
    table->total = 0;
    table->used = 0;
    memset(table->buckets, 0xFF, sizeof table->buckets);
}

static struct weir_text key_of(const struct counter *counter)
{
    return (struct weir_text){ (const char *)counter->key, counter->key_length };
}

static struct counter *find(struct table *table, uint8_t bucket, struct weir_text key)
{
    uint16_t index = table->buckets[bucket];
    while (index != NOBODY && !weir_text_equal(key_of(&table->counters[index]), key))
        index = table->counters[index].next;
    return index == NOBODY ? NULL : &table->counters[index];
}

static uint64_t count_at(const struct table *table, size_t place)
{
    return table->counters[table->heap[place]].count;
}

static void put_at(struct table *table, size_t place, uint16_t index)
{
    table->heap[place] = index;
    table->counters[index].place = (uint16_t)place;
}

/* The count at this place has grown. */
static void sift_down(struct table *table, size_t place)
{
    uint16_t index = table->heap[place];
    uint64_t count = table->counters[index].count;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child + 1 < WEIR_TOP_COUNTERS && count_at(table, child + 1) < count_at(table, child))
            child++;
        if (child >= WEIR_TOP_COUNTERS || count_at(table, child) >= count)
            break;
        put_at(table, place, table->heap[child]);
        place = child;
    }
    put_at(table, place, index);
}

static void make_heap(struct table *table)
{
    for (size_t i = 0; i < WEIR_TOP_COUNTERS; i++)
        put_at(table, i, (uint16_t)i);
    for (size_t i = WEIR_TOP_COUNTERS / 2; i-- > 0;)
        sift_down(table, i);
}

static void unlink_counter(struct table *table, const struct counter *counter)
{
    uint16_t index = (uint16_t)(counter - table->counters);
    uint16_t *at = &table->buckets[counter->bucket];
    while (*at != index)
        at = &table->counters[*at].next;
    *at = counter->next;
}

static void give(struct table *table, struct counter *counter, uint8_t bucket, struct weir_text key)
{
    counter->bucket = bucket;
    counter->next = table->buckets[bucket];
    table->buckets[bucket] = (uint16_t)(counter - table->counters);
    counter->key_length = (uint8_t)key.length;
    memcpy(counter->key, key.at, key.length);
}

/* A counter for a key that has none: one of its own, or the smallest of somebody else's. */
static struct counter *take(struct table *table, uint8_t bucket, struct weir_text key)
{
    bool is_free = table->used < WEIR_TOP_COUNTERS;
    struct counter *counter = &table->counters[is_free ? table->used : table->heap[0]];
    if (is_free) {
        counter->count = 0;
        table->used++;
    } else {
        unlink_counter(table, counter);
    }
    counter->error = counter->count;
    give(table, counter, bucket, key);
    return counter;
}

static void count(struct table *table, uint8_t bucket, struct weir_text key, uint64_t weight)
{
    struct counter *counter = find(table, bucket, key);
    bool was_full = table->used == WEIR_TOP_COUNTERS;
    if (counter == NULL)
        counter = take(table, bucket, key);
    counter->count += weight;
    table->total += weight;
    if (was_full)
        sift_down(table, counter->place);
    else if (table->used == WEIR_TOP_COUNTERS)
        make_heap(table);
}

/* What a key may have that has no counter here. */
static uint64_t smallest(const struct table *table)
{
    return table->used < WEIR_TOP_COUNTERS ? 0 : count_at(table, 0);
}

/* time */

/* Begins another period where the current one is over; the mutex is locked. */
static void advance(struct part *part, uint64_t now_us)
{
    if (now_us == 0 || (now_us >= part->start_us && now_us - part->start_us < WEIR_TOP_PERIOD_US))
        return;
    if (now_us < part->start_us) {
        /* A clock that was put back by more than a little: the period goes on from there. */
        if (part->start_us - now_us > WEIR_TOP_PERIOD_US)
            part->start_us = now_us;
        return;
    }
    uint64_t periods = (now_us - part->start_us) / WEIR_TOP_PERIOD_US;
    part->start_us += periods * WEIR_TOP_PERIOD_US;
    part->current = 1 - part->current;
    clear(&part->tables[part->current]);
    if (periods > 1)
        clear(&part->tables[1 - part->current]);
}

/* all of it */

struct weir_top *weir_top_new(uint64_t now_us)
{
    struct weir_top *top = aligned_alloc(_Alignof(struct weir_top), sizeof *top);
    if (top == NULL)
        return NULL;
    weir_hash_key(top->key);
    top->created_us = now_us;
    for (size_t i = 0; i < PARTS; i++) {
        struct part *part = &top->parts[i];
        pthread_mutex_init(&part->mutex, NULL); /* does not fail for a default one (glibc) */
        part->start_us = now_us;
        part->current = 0;
        for (size_t n = 0; n < PERIODS; n++)
            clear(&part->tables[n]);
    }
    return top;
}

struct weir_top *weir_top_free(struct weir_top *top)
{
    for (size_t i = 0; top != NULL && i < PARTS; i++)
        pthread_mutex_destroy(&top->parts[i].mutex);
    free(top);
    return NULL;
}

/* A part whose mutex is locked now: the thread's own, or where that is in use another one, since it
 * does not matter which part a key is counted in. Only where all are in use somebody waits. */
static struct part *lock_part(struct weir_top *top)
{
    unsigned own = weir_shard();
    for (unsigned i = 0; i < PARTS; i++) {
        struct part *part = &top->parts[(own + i) % PARTS];
        if (pthread_mutex_trylock(&part->mutex) == 0)
            return part;
    }
    struct part *part = &top->parts[own % PARTS];
    pthread_mutex_lock(&part->mutex);
    return part;
}

void weir_top_add(struct weir_top *top, struct weir_text key, uint64_t weight, uint64_t now_us)
{
    if (top == NULL || key.length == 0 || key.length > WEIR_TOP_KEY_BYTES || weight == 0)
        return;
    uint8_t bucket = (uint8_t)weir_hash64(key, top->key);
    struct part *part = lock_part(top);
    advance(part, now_us);
    count(&part->tables[part->current], bucket, key, weight);
    pthread_mutex_unlock(&part->mutex);
}

/* reading */

#define MERGED_MAX (PARTS * PERIODS * WEIR_TOP_COUNTERS)

/* What is read of all tables: entries of one key may stand there several times. */
struct merging {
    struct weir_top_entry *entries;
    size_t count;
    struct weir_top_sum *sum;
};

/* An entry holds what its key may have more than in a table where it has no counter. */
static void read_table(const struct table *table, struct merging *merging)
{
    uint64_t least = smallest(table);
    merging->sum->total += table->total;
    merging->sum->error_bound += least;
    for (size_t i = 0; i < table->used; i++) {
        const struct counter *counter = &table->counters[i];
        struct weir_top_entry *entry = &merging->entries[merging->count++];
        entry->key_length = counter->key_length;
        memcpy(entry->key, counter->key, counter->key_length);
        entry->count = counter->count - least;
        entry->at_least = counter->count - counter->error;
    }
}

static void read_parts(struct weir_top *top, uint64_t now_us, struct merging *merging)
{
    uint64_t since_us = UINT64_MAX;
    for (size_t i = 0; i < PARTS; i++) {
        struct part *part = &top->parts[i];
        pthread_mutex_lock(&part->mutex);
        advance(part, now_us);
        since_us = weir_smaller(since_us, part->start_us);
        for (size_t n = 0; n < PERIODS; n++)
            read_table(&part->tables[n], merging);
        pthread_mutex_unlock(&part->mutex);
    }
    uint64_t back_us = since_us < WEIR_TOP_PERIOD_US ? 0 : since_us - WEIR_TOP_PERIOD_US;
    merging->sum->since_us = weir_larger(back_us, weir_smaller(top->created_us, since_us));
}

static int order_by_key(const void *one, const void *other)
{
    const struct weir_top_entry *a = one, *b = other;
    if (a->key_length != b->key_length)
        return a->key_length - b->key_length;
    return memcmp(a->key, b->key, a->key_length);
}

static int order_by_count(const void *one, const void *other)
{
    const struct weir_top_entry *a = one, *b = other;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    return a->at_least < b->at_least ? 1 : a->at_least > b->at_least ? -1 : order_by_key(a, b);
}

/* Makes one entry of those with the same key. */
static void merge(struct merging *merging)
{
    struct weir_top_entry *entries = merging->entries;
    size_t merged = 0;
    qsort(entries, merging->count, sizeof *entries, order_by_key);
    for (size_t i = 0; i < merging->count; i++) {
        if (merged == 0 || order_by_key(&entries[merged - 1], &entries[i]) != 0) {
            entries[merged++] = entries[i];
            continue;
        }
        entries[merged - 1].count += entries[i].count;
        entries[merged - 1].at_least += entries[i].at_least;
    }
    merging->count = merged;
    for (size_t i = 0; i < merged; i++)
        entries[i].count += merging->sum->error_bound;
    qsort(entries, merged, sizeof *entries, order_by_count);
}

size_t weir_top_list(struct weir_top *top, uint64_t now_us, struct weir_top_entry *entries,
                     size_t size, struct weir_top_sum *sum)
{
    *sum = (struct weir_top_sum){ .total = 0 };
    struct merging merging = { .entries = top == NULL ? NULL : malloc(MERGED_MAX * sizeof *entries),
                               .sum = sum };
    if (merging.entries == NULL)
        return 0;
    read_parts(top, now_us, &merging);
    merge(&merging);
    size_t count = merging.count < size ? merging.count : size;
    if (count > 0)
        memcpy(entries, merging.entries, count * sizeof *entries);
    free(merging.entries);
    return count;
}
