#include "limit/concurrency.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* slots */

struct part {
    uint32_t share_ppm;
    atomic_uint busy;
};

struct weir_slots {
    atomic_uint limit;
    atomic_uint in_flight;
    atomic_uint_fast64_t time_us;
    atomic_uint_fast64_t refused;
    atomic_uint_fast64_t lost;
    atomic_uint_fast64_t told;
    atomic_uint_fast64_t untaken;
    pthread_mutex_t measuring; /* guards the next; nobody waits for it */
    struct weir_vegas vegas;
    char *name;
    size_t part_count;
    struct part parts[]; /* one more than there are: of requests of none */
};

struct weir_slots *weir_slots_new(const struct weir_slots_options *options)
{
    size_t parts = options->part_count + 1;
    struct weir_slots *slots = calloc(1, sizeof *slots + parts * sizeof slots->parts[0]);
    char *name = strdup(options->name);
    if (slots == NULL || name == NULL) {
        free(slots);
        free(name);
        return NULL;
    }
    slots->name = name;
    slots->part_count = options->part_count;
    for (size_t i = 0; i < options->part_count; i++)
        slots->parts[i].share_ppm = options->shares_ppm[i];
    weir_vegas_init(&slots->vegas, options->bounds, options->seed);
    atomic_init(&slots->limit, weir_vegas_limit(&slots->vegas));
    pthread_mutex_init(&slots->measuring, NULL); /* does not fail for a default one (glibc) */
    return slots;
}

void weir_slots_free(struct weir_slots *slots)
{
    if (slots == NULL)
        return;
    pthread_mutex_destroy(&slots->measuring);
    free(slots->name);
    free(slots);
}

const char *weir_slots_name(const struct weir_slots *slots)
{
    return slots->name;
}

void weir_slots_set_bounds(struct weir_slots *slots, struct weir_vegas_bounds bounds)
{
    pthread_mutex_lock(&slots->measuring);
    weir_vegas_set_bounds(&slots->vegas, bounds);
    atomic_store(&slots->limit, weir_vegas_limit(&slots->vegas));
    pthread_mutex_unlock(&slots->measuring);
}

/* What is kept for a part; nothing for who is of none. */
static unsigned share_of(const struct weir_slots *slots, size_t part)
{
    if (part == slots->part_count)
        return 0;
    uint64_t share = (uint64_t)atomic_load(&slots->limit) * slots->parts[part].share_ppm / 1000000;
    return share == 0 ? 1 : (unsigned)share;
}

bool weir_slots_have_room(const struct weir_slots *slots, size_t part)
{
    return atomic_load(&slots->in_flight) < atomic_load(&slots->limit)
           || atomic_load(&slots->parts[part].busy) < share_of(slots, part);
}

/* One more, unless there are as many as that. */
static bool add_below(atomic_uint *count, unsigned most)
{
    unsigned now = atomic_load_explicit(count, memory_order_relaxed);
    while (now < most)
        if (atomic_compare_exchange_weak(count, &now, now + 1))
            return true;
    return false;
}

bool weir_slots_take(struct weir_slots *slots, size_t part)
{
    if (add_below(&slots->in_flight, atomic_load(&slots->limit))) {
        atomic_fetch_add(&slots->parts[part].busy, 1);
        return true;
    }
    if (!add_below(&slots->parts[part].busy, share_of(slots, part)))
        return false;
    atomic_fetch_add(&slots->in_flight, 1);
    return true;
}

void weir_slots_take_anyway(struct weir_slots *slots, size_t part)
{
    atomic_fetch_add(&slots->in_flight, 1);
    atomic_fetch_add(&slots->parts[part].busy, 1);
}

/* A sample more or less changes nothing, and no request waits to give one. */
static void measure(struct weir_slots *slots, const struct weir_vegas_sample *sample)
{
    if (pthread_mutex_trylock(&slots->measuring) != 0) {
        atomic_fetch_add_explicit(&slots->untaken, 1, memory_order_relaxed);
        return;
    }
    if (weir_vegas_add(&slots->vegas, sample)) {
        atomic_store(&slots->limit, weir_vegas_limit(&slots->vegas));
        atomic_store(&slots->time_us, (uint64_t)slots->vegas.time_us);
    }
    pthread_mutex_unlock(&slots->measuring);
}

void weir_slots_give(struct weir_slots *slots, size_t part, enum weir_slot_end how,
                     uint64_t started_us, uint64_t ended_us)
{
    unsigned in_flight = atomic_fetch_sub(&slots->in_flight, 1);
    atomic_fetch_sub(&slots->parts[part].busy, 1);
    if (how == WEIR_SLOT_UNTOLD)
        return;
    atomic_fetch_add_explicit(&slots->told, 1, memory_order_relaxed);
    const struct weir_vegas_sample sample = { .started_us = started_us,
                                              .ended_us =
                                                  ended_us > started_us ? ended_us : started_us,
                                              .in_flight = in_flight,
                                              .is_dropped = how == WEIR_SLOT_DROPPED };
    measure(slots, &sample);
}

void weir_slots_lost(struct weir_slots *slots)
{
    atomic_fetch_add(&slots->lost, 1);
}

#define WAIT_MAX_S UINT64_C(60)

uint64_t weir_slots_refused(struct weir_slots *slots)
{
    uint64_t time_s = (atomic_load(&slots->time_us) + 999999) / 1000000;
    uint64_t wait_s = time_s == 0 ? 1 : time_s < WAIT_MAX_S ? time_s : WAIT_MAX_S;
    return wait_s + atomic_fetch_add(&slots->refused, 1) % 3;
}

struct weir_slots_numbers weir_slots_numbers(const struct weir_slots *slots)
{
    return (struct weir_slots_numbers){ .limit = atomic_load(&slots->limit),
                                        .in_flight = atomic_load(&slots->in_flight),
                                        .refused = atomic_load(&slots->refused),
                                        .lost = atomic_load(&slots->lost),
                                        .time_us = atomic_load(&slots->time_us),
                                        .told = atomic_load(&slots->told),
                                        .untaken = atomic_load(&slots->untaken) };
}

/* counts for each key */

#define SHARDS  64
#define BUCKETS 64

struct weir_counted {
    struct weir_counted *next;
    uint64_t hash;
    uint32_t in_flight;
    uint32_t key_length;
    char key[];
};

struct shard {
    pthread_mutex_t lock; /* guards the rest */
    uint64_t keys, in_flight, refused;
    struct weir_counted *buckets[BUCKETS];
};

struct weir_key_counts {
    uint8_t hash_key[WEIR_HASH_KEY_BYTES];
    struct shard shards[SHARDS];
};

struct weir_key_counts *weir_key_counts_new(void)
{
    struct weir_key_counts *counts = calloc(1, sizeof *counts);
    if (counts == NULL)
        return NULL;
    weir_hash_key(counts->hash_key);
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&counts->shards[i].lock, NULL); /* as above */
    return counts;
}

void weir_key_counts_free(struct weir_key_counts *counts)
{
    for (size_t i = 0; counts != NULL && i < SHARDS; i++)
        pthread_mutex_destroy(&counts->shards[i].lock);
    free(counts);
}

static struct shard *shard_of(struct weir_key_counts *counts, uint64_t hash)
{
    return &counts->shards[hash % SHARDS];
}

/* Where the pointer to the key's entry is, or would be. */
static struct weir_counted **find(struct shard *shard, uint64_t hash, struct weir_text key)
{
    struct weir_counted **at = &shard->buckets[hash / SHARDS % BUCKETS];
    for (; *at != NULL; at = &(*at)->next)
        if ((*at)->hash == hash
            && weir_text_equal((struct weir_text){ (*at)->key, (*at)->key_length }, key))
            break;
    return at;
}

bool weir_key_counts_have_room(struct weir_key_counts *counts, struct weir_text key, uint32_t most)
{
    uint64_t hash = weir_hash64(key, counts->hash_key);
    struct shard *shard = shard_of(counts, hash);
    pthread_mutex_lock(&shard->lock);
    const struct weir_counted *counted = *find(shard, hash, key);
    bool has_room = counted == NULL || counted->in_flight < most;
    shard->refused += !has_room;
    pthread_mutex_unlock(&shard->lock);
    return has_room;
}

static struct weir_counted *add_entry(struct shard *shard, uint64_t hash, struct weir_text key,
                                      struct weir_counted **at)
{
    struct weir_counted *made = malloc(sizeof *made + key.length);
    if (made == NULL)
        return NULL;
    *made = (struct weir_counted){ .hash = hash, .key_length = (uint32_t)key.length };
    memcpy(made->key, key.at, key.length);
    *at = made;
    shard->keys++;
    return made;
}

struct weir_counted *weir_key_counts_take(struct weir_key_counts *counts, struct weir_text key,
                                          uint32_t most)
{
    uint64_t hash = weir_hash64(key, counts->hash_key);
    struct shard *shard = shard_of(counts, hash);
    pthread_mutex_lock(&shard->lock);
    struct weir_counted **at = find(shard, hash, key);
    struct weir_counted *counted = *at == NULL ? add_entry(shard, hash, key, at) : *at;
    if (counted != NULL && counted->in_flight >= most)
        counted = NULL;
    if (counted != NULL) {
        counted->in_flight++;
        shard->in_flight++;
    } else
        shard->refused++;
    pthread_mutex_unlock(&shard->lock);
    return counted;
}

static void drop_entry(struct shard *shard, struct weir_counted *counted)
{
    struct weir_counted **at = &shard->buckets[counted->hash / SHARDS % BUCKETS];
    while (*at != counted)
        at = &(*at)->next;
    *at = counted->next;
    free(counted);
    shard->keys--;
}

void weir_key_counts_give(struct weir_key_counts *counts, struct weir_counted *counted)
{
    struct shard *shard = shard_of(counts, counted->hash);
    pthread_mutex_lock(&shard->lock);
    shard->in_flight--;
    if (--counted->in_flight == 0)
        drop_entry(shard, counted);
    pthread_mutex_unlock(&shard->lock);
}

struct weir_key_counts_numbers weir_key_counts_numbers(struct weir_key_counts *counts)
{
    struct weir_key_counts_numbers numbers = { .keys = 0 };
    for (size_t i = 0; i < SHARDS; i++) {
        struct shard *shard = &counts->shards[i];
        pthread_mutex_lock(&shard->lock);
        numbers.keys += shard->keys;
        numbers.in_flight += shard->in_flight;
        numbers.refused += shard->refused;
        pthread_mutex_unlock(&shard->lock);
    }
    return numbers;
}
