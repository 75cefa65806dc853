/* Sums in this process's memory: a table of segments, behind a mutex for each shard of them. */
#include "store/memory.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/hash.h"
#include "base/options.h"
#include "store/memory_plan.h"
#include "store/memory_texts.h"
#include "store/steady_clock.h"

#define SHARDS 128

/* How often a check is tried, if other threads hinder it. In the smallest stores few of them may have
 * all the shards. */
#define TRIES 32

/* A mutex has a cache line to itself, or threads would slow each other down without sharing. */
struct shard {
    _Alignas(64) pthread_mutex_t mutex;
};

struct memory {
    struct shard shards[SHARDS];
    size_t shards_ready;
    struct weir_steady_clock clock;
    bool clock_is_ready;
    unsigned char hash_key[crypto_shorthash_KEYBYTES];
    struct weir_memory_table table; /* segment i belongs to shard i % SHARDS */
    struct weir_memory_rings rings; /* a ring's lock is that of its key's segment */
    struct weir_memory_texts texts; /* behind the next */
    pthread_mutex_t sharing;        /* taken before that of any shard */
    bool sharing_is_ready;
    atomic_bool has_logs; /* the table has left half of the memory to them */
    atomic_uint_fast64_t evicted;
};

/* A plan, and the shards to lock for it. */
struct locked_plan {
    struct weir_memory_plan plan;
    size_t shards[WEIR_CHECK_LIMITS]; /* in the order they are locked in */
    size_t shard_count;
};

/* where a key is */

static uint64_t hash_of(const struct memory *memory, const char *key, size_t key_length)
{
    /* 64 bits of a hash that nobody outside can compute: two of a million live keys meet with a
     * chance of one in 30 million, and nobody can choose them. */
    unsigned char bytes[crypto_shorthash_BYTES];
    crypto_shorthash(bytes, (const unsigned char *)key, key_length, memory->hash_key);
    uint64_t hash;
    memcpy(&hash, bytes, sizeof hash);
    return hash;
}

static size_t shard_of(size_t segment)
{
    return segment % SHARDS;
}

/* locking */

/* Adds a shard in its place, once: whoever locks several does so in rising order. */
static void add_shard(struct locked_plan *locked, size_t shard)
{
    size_t at = locked->shard_count;
    while (at > 0 && locked->shards[at - 1] > shard)
        at--;
    if (at > 0 && locked->shards[at - 1] == shard)
        return;
    memmove(&locked->shards[at + 1], &locked->shards[at],
            (locked->shard_count - at) * sizeof locked->shards[0]);
    locked->shards[at] = shard;
    locked->shard_count++;
}

static void lock_shards(struct memory *memory, const struct locked_plan *locked)
{
    for (size_t i = 0; i < locked->shard_count; i++)
        pthread_mutex_lock(&memory->shards[locked->shards[i]].mutex);
}

static void unlock_shards(struct memory *memory, const struct locked_plan *locked)
{
    for (size_t i = locked->shard_count; i > 0; i--)
        pthread_mutex_unlock(&memory->shards[locked->shards[i - 1]].mutex);
}

/* For rings, beside the shards that their plan has locked: only if nobody has it, in any order. */
static bool try_lock(void *self, size_t segment)
{
    struct memory *memory = self;
    return pthread_mutex_trylock(&memory->shards[shard_of(segment)].mutex) == 0;
}

static void unlock(void *self, size_t segment)
{
    struct memory *memory = self;
    pthread_mutex_unlock(&memory->shards[shard_of(segment)].mutex);
}

/* sharing the memory */

/* Logs are to have half of it, so the table does with the other half from now on. Mostly it has not
 * grown that far; if it has, this takes some milliseconds, once. */
static void share_memory(struct memory *memory)
{
    pthread_mutex_lock(&memory->sharing);
    if (!atomic_load_explicit(&memory->has_logs, memory_order_relaxed)) {
        weir_table_set_half(&memory->table);
        for (size_t i = 0; i < memory->table.segment_count; i++) {
            pthread_mutex_t *mutex = &memory->shards[shard_of(i)].mutex;
            pthread_mutex_lock(mutex);
            weir_table_halve(&memory->table, i, weir_steady_clock_now_us(&memory->clock));
            pthread_mutex_unlock(mutex);
        }
        weir_table_return_pages(&memory->table);
        atomic_store_explicit(&memory->has_logs, true, memory_order_release);
    }
    pthread_mutex_unlock(&memory->sharing);
}

/* carrying out a check */

static void find_keys(struct memory *memory, struct locked_plan *locked,
                      const struct weir_check *check)
{
    struct weir_memory_plan *plan = &locked->plan;
    plan->table = &memory->table;
    plan->rings = &memory->rings;
    plan->count = plan->keep.count = check->count;
    locked->shard_count = 0;
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spend = &check->spends[i];
        uint64_t hash = hash_of(memory, spend->key, spend->key_length);
        plan->parts[i].spend = spend;
        plan->parts[i].hash = plan->keep.hashes[i] = hash;
        weir_table_prefetch(&memory->table, hash);
        add_shard(locked, shard_of(weir_table_segment(&memory->table, hash)));
        if (spend->algorithm == WEIR_SLIDING_LOG
            && !atomic_load_explicit(&memory->has_logs, memory_order_acquire))
            share_memory(memory);
    }
}

/* False: a log has no room to grow. */
static bool carry_out(struct weir_memory_plan *plan, const struct weir_check *check)
{
    switch (check->operation) {
    case WEIR_SPEND:
        return weir_memory_plan_spend(plan);
    case WEIR_SETTLE:
        weir_memory_plan_settle(plan);
        break;
    case WEIR_RESET:
        weir_memory_plan_reset(plan);
        break;
    case WEIR_BLOCK:
        weir_memory_plan_block(plan, check->block_us);
        break;
    case WEIR_EXCHANGE:
        break; /* has no plan */
    }
    return true;
}

static bool carry_out_once(struct memory *memory, struct locked_plan *locked,
                           struct weir_check *check)
{
    lock_shards(memory, locked);
    /* The time is read under the locks, so that for each key it only goes forward. */
    check->now_us = locked->plan.now_us = weir_steady_clock_now_us(&memory->clock);
    bool is_done = carry_out(&locked->plan, check);
    unlock_shards(memory, locked);
    return is_done;
}

static bool carry_out_locked(struct memory *memory, struct locked_plan *locked,
                             struct weir_check *check)
{
    bool is_done = carry_out_once(memory, locked, check);
    for (int n = 1; n < TRIES && !is_done && locked->plan.is_hindered; n++) {
        sched_yield();
        is_done = carry_out_once(memory, locked, check);
    }
    return is_done;
}

static void fail(struct weir_check *check, const char *why)
{
    check->result = WEIR_STORE_ERROR;
    strncpy(check->why, why, sizeof check->why - 1);
    check->why[sizeof check->why - 1] = '\0';
    check->done(check);
}

/* The time is read under the mutex, so that it only goes forward. */
static void exchange(struct memory *memory, struct weir_check *check)
{
    pthread_mutex_lock(&memory->sharing);
    check->now_us = weir_steady_clock_now_us(&memory->clock);
    bool has_room = weir_memory_texts_exchange(&memory->texts, check, check->now_us);
    pthread_mutex_unlock(&memory->sharing);
    if (!has_room) {
        fail(check, "the memory store has no room for a text");
        return;
    }
    check->result = WEIR_STORE_ANSWERED;
    check->why[0] = '\0';
    check->done(check);
}

static void memory_submit(void *self, struct weir_check *check)
{
    struct memory *memory = self;
    const char *fault = weir_check_fault(check);
    if (fault != NULL) {
        fail(check, fault);
        return;
    }

    if (check->operation == WEIR_EXCHANGE) {
        exchange(memory, check);
        return;
    }
    struct locked_plan locked;
    find_keys(memory, &locked, check);
    if (!carry_out_locked(memory, &locked, check)) {
        fail(check, "the memory store has no room for a sliding log");
        return;
    }

    for (size_t i = 0; i < check->count && check->operation == WEIR_SPEND; i++)
        check->answers[i] = locked.plan.parts[i].answer;
    check->result = WEIR_STORE_ANSWERED;
    check->why[0] = '\0';
    check->done(check);
}

/* how it is */

/* Shard by shard, each for as long as a few sums take: a store of a gigabyte has a hundred of them and
 * more segments than anybody should wait for. */
static void memory_numbers(void *self, struct weir_store_numbers *numbers)
{
    struct memory *memory = self;
    const struct weir_memory_table *table = &memory->table;
    numbers->is_memory = true;
    numbers->bytes = sizeof *memory + atomic_load(&memory->rings.bytes);
    numbers->evictions = atomic_load_explicit(&memory->evicted, memory_order_relaxed);
    for (size_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&memory->shards[i].mutex);
        for (size_t segment = i; segment < table->segment_count; segment += SHARDS) {
            numbers->keys += weir_table_taken(table, segment);
            numbers->bytes += weir_table_bytes(table, segment);
        }
        pthread_mutex_unlock(&memory->shards[i].mutex);
    }
}

/* making and freeing */

static void memory_free(void *self)
{
    struct memory *memory = self;
    weir_table_finish(&memory->table);
    weir_memory_texts_finish(&memory->texts);
    for (size_t i = 0; i < memory->shards_ready; i++)
        pthread_mutex_destroy(&memory->shards[i].mutex);
    if (memory->sharing_is_ready)
        pthread_mutex_destroy(&memory->sharing);
    if (memory->clock_is_ready)
        weir_steady_clock_finish(&memory->clock);
    sodium_memzero(memory->hash_key, sizeof memory->hash_key);
    free(memory);
}

static const struct weir_store_type memory_type = {
    .size = sizeof(struct weir_store_type),
    .name = "memory",
    .answers_inline = true,
    .submit = memory_submit,
    .free = memory_free,
    .exchanges = true,
};

static enum weir_code memory_init(struct memory *memory, const struct weir_store_options *options,
                                  struct weir_error *error)
{
    if (!weir_hash_start())
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "libsodium cannot be started.");
    randombytes_buf(memory->hash_key, sizeof memory->hash_key);

    while (memory->shards_ready < SHARDS
           && pthread_mutex_init(&memory->shards[memory->shards_ready].mutex, NULL) == 0)
        memory->shards_ready++;
    memory->sharing_is_ready = pthread_mutex_init(&memory->sharing, NULL) == 0;
    memory->clock_is_ready = weir_steady_clock_init(&memory->clock, options->clock);
    if (memory->shards_ready < SHARDS || !memory->sharing_is_ready || !memory->clock_is_ready)
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "The system has no mutex to give.");

    uint64_t budget_bytes = options->memory_bytes - sizeof *memory;
    if (!weir_table_init(&memory->table, budget_bytes))
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    memory->rings = (struct weir_memory_rings){
        .table = &memory->table,
        .stride = SHARDS,
        .most_bytes = (size_t)(budget_bytes / 2),
        .try_lock = try_lock,
        .unlock = unlock,
        .owner = memory,
    };
    memory->table.give_ring = weir_rings_give;
    memory->table.owner = &memory->rings;
    memory->table.evicted = &memory->evicted;
    return WEIR_OK;
}

static enum weir_code take_options(const struct weir_store_options *options,
                                   struct weir_store_options *ours, struct weir_error *error)
{
    enum weir_code code = weir_options_take(ours, sizeof *ours, options, WEIR_STORE_OPTIONS_FIRST,
                                            "WEIR_STORE_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if (ours->memory_bytes == 0)
        ours->memory_bytes = WEIR_MEMORY_BYTES_DEFAULT;
    if (ours->memory_bytes < WEIR_MEMORY_BYTES_MIN || ours->memory_bytes > WEIR_MEMORY_BYTES_MAX)
        return weir_error_set(error, WEIR_E_VALUE, "/store/memory",
                              "The memory store's budget is %llu bytes; it must be %llu to %llu.",
                              (unsigned long long)ours->memory_bytes,
                              (unsigned long long)WEIR_MEMORY_BYTES_MIN,
                              (unsigned long long)WEIR_MEMORY_BYTES_MAX);
    return WEIR_OK;
}

enum weir_code weir_store_new_memory(const struct weir_store_options *options,
                                     struct weir_store **store, struct weir_error *error)
{
    struct weir_store_options ours;
    enum weir_code code = take_options(options, &ours, error);
    if (code != WEIR_OK)
        return code;

    struct memory *memory = aligned_alloc(_Alignof(struct memory), sizeof *memory);
    if (memory == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    memset(memory, 0, sizeof *memory);
    code = memory_init(memory, &ours, error);
    if (code == WEIR_OK)
        code = weir_store_new(&memory_type, memory, store, error);
    if (code != WEIR_OK) {
        memory_free(memory);
        return code;
    }
    (*store)->numbers = memory_numbers;
    return WEIR_OK;
}

/* for tests and benchmarks */

static pthread_mutex_t *mutex_of(struct memory *memory, size_t segment)
{
    return &memory->shards[shard_of(segment)].mutex;
}

size_t weir_memory_keys(struct weir_store *store)
{
    struct memory *memory = store->self;
    uint64_t now_us = weir_steady_clock_now_us(&memory->clock);
    size_t keys = 0;
    for (size_t i = 0; i < memory->table.segment_count; i++) {
        pthread_mutex_lock(mutex_of(memory, i));
        keys += weir_table_live(&memory->table, i, now_us);
        pthread_mutex_unlock(mutex_of(memory, i));
    }
    return keys;
}

size_t weir_memory_bytes(struct weir_store *store)
{
    struct memory *memory = store->self;
    size_t bytes = sizeof *memory + atomic_load(&memory->rings.bytes);
    for (size_t i = 0; i < memory->table.segment_count; i++) {
        pthread_mutex_lock(mutex_of(memory, i));
        bytes += weir_table_bytes(&memory->table, i);
        pthread_mutex_unlock(mutex_of(memory, i));
    }
    return bytes;
}

uint64_t weir_memory_ttl_us(struct weir_store *store, const char *key, size_t key_length)
{
    struct memory *memory = store->self;
    uint64_t hash = hash_of(memory, key, key_length);
    pthread_mutex_t *mutex = mutex_of(memory, weir_table_segment(&memory->table, hash));
    pthread_mutex_lock(mutex);
    uint64_t now_us = weir_steady_clock_now_us(&memory->clock);
    const struct weir_memory_entry *entry = weir_table_find(&memory->table, hash, now_us);
    uint64_t ttl_us = entry == NULL ? 0 : weir_entry_expires_us(entry) - now_us;
    pthread_mutex_unlock(mutex);
    return ttl_us;
}
