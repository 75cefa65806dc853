/* Sums in this process's memory: a table of segments, behind a mutex for each shard of them. */
#include "store/memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "base/hash.h"
#include "base/options.h"
#include "limit/algorithm.h"
#include "store/memory_table.h"
#include "store/steady_clock.h"

#define SHARDS 128

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
};

/* One limit of a plan under way. */
struct part {
    const struct weir_spend *spend;
    uint64_t hash;
    struct weir_memory_entry entry; /* as it is kept now; expires_us 0: there is none */
    struct weir_decision_step step;
};

struct plan {
    struct part parts[WEIR_CHECK_LIMITS];
    size_t count;
    size_t shards[WEIR_CHECK_LIMITS]; /* in the order they are locked in */
    size_t shard_count;
    bool allowed;
    uint64_t now_us;
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
static void plan_shard(struct plan *plan, size_t shard)
{
    size_t at = plan->shard_count;
    while (at > 0 && plan->shards[at - 1] > shard)
        at--;
    if (at > 0 && plan->shards[at - 1] == shard)
        return;
    memmove(&plan->shards[at + 1], &plan->shards[at],
            (plan->shard_count - at) * sizeof plan->shards[0]);
    plan->shards[at] = shard;
    plan->shard_count++;
}

static void plan_lock(struct memory *memory, const struct plan *plan)
{
    for (size_t i = 0; i < plan->shard_count; i++)
        pthread_mutex_lock(&memory->shards[plan->shards[i]].mutex);
}

static void plan_unlock(struct memory *memory, const struct plan *plan)
{
    for (size_t i = plan->shard_count; i > 0; i--)
        pthread_mutex_unlock(&memory->shards[plan->shards[i - 1]].mutex);
}

/* deciding */

static void plan_find(const struct memory *memory, struct plan *plan,
                      const struct weir_check *check)
{
    plan->count = check->count;
    plan->shard_count = 0;
    for (size_t i = 0; i < check->count; i++) {
        struct part *part = &plan->parts[i];
        part->spend = &check->spends[i];
        part->hash = hash_of(memory, part->spend->key, part->spend->key_length);
        weir_table_prefetch(&memory->table, part->hash);
        plan_shard(plan, shard_of(weir_table_segment(&memory->table, part->hash)));
    }
}

static void part_decide(const struct memory *memory, struct part *part, uint64_t now_us)
{
    const struct weir_memory_entry *entry = weir_table_find(&memory->table, part->hash, now_us);
    part->entry = entry != NULL ? *entry : (struct weir_memory_entry){ .hash = part->hash };
    struct weir_state state = { part->entry.first, part->entry.second };
    part->step = weir_decide(part->spend, state, now_us);
}

static void plan_decide(const struct memory *memory, struct plan *plan)
{
    plan->allowed = true;
    for (size_t i = 0; i < plan->count; i++) {
        struct part *part = &plan->parts[i];
        part_decide(memory, part, plan->now_us);
        plan->allowed = plan->allowed && part->step.answer.allowed;
    }
}

/* keeping */

static bool is_changed(const struct part *part)
{
    return part->step.state.first != part->entry.first
           || part->step.state.second != part->entry.second;
}

/* Whether the key is one that a flood of others must not forgive. A look and a cost that never fits
 * say nothing about that. */
static bool refuses_after(const struct part *part)
{
    const struct weir_answer *answer = &part->step.answer;
    if (answer->impossible || part->spend->cost == 0)
        return part->entry.refuses;
    return !answer->allowed;
}

static void part_keep(struct memory *memory, const struct part *part, uint64_t now_us,
                      const struct weir_keep *keep)
{
    struct weir_memory_entry entry = part->entry;
    entry.refuses = refuses_after(part);
    /* A refusal and a look leave the state and its expiry alone. */
    if (is_changed(part)) {
        entry.first = part->step.state.first;
        entry.second = (uint32_t)part->step.state.second;
        entry.expires_us = part->step.expires_us;
    }
    if (entry.expires_us > now_us)
        weir_table_put(&memory->table, &entry, now_us, keep);
}

/* Writes all parts, or after a refusal those that spent nothing anyhow: their state is as it was,
 * or put right, and they are remembered as in use and as refusing. */
static void plan_keep(struct memory *memory, const struct plan *plan)
{
    struct weir_keep keep = { .count = plan->count };
    for (size_t i = 0; i < plan->count; i++)
        keep.hashes[i] = plan->parts[i].hash;

    for (size_t i = 0; i < plan->count; i++) {
        const struct part *part = &plan->parts[i];
        bool spends = part->step.answer.allowed && part->spend->cost > 0;
        if (plan->allowed || !spends)
            part_keep(memory, part, plan->now_us, &keep);
    }
}

/* Where another limit refused, this one has spent nothing, and says what it holds. */
static struct weir_answer plan_answer(const struct plan *plan, const struct part *part)
{
    if (plan->allowed || !part->step.answer.allowed)
        return part->step.answer;
    struct weir_spend look = *part->spend;
    look.cost = 0;
    const struct weir_state state = { part->entry.first, part->entry.second };
    return weir_decide(&look, state, plan->now_us).answer;
}

static void fail(struct weir_check *check, const char *why)
{
    check->result = WEIR_STORE_ERROR;
    strncpy(check->why, why, sizeof check->why - 1);
    check->why[sizeof check->why - 1] = '\0';
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

    struct plan plan;
    plan_find(memory, &plan, check);
    plan_lock(memory, &plan);
    /* The time is read under the locks, so that for each key it only goes forward. */
    plan.now_us = weir_steady_clock_now_us(&memory->clock);
    plan_decide(memory, &plan);
    plan_keep(memory, &plan);
    plan_unlock(memory, &plan);

    for (size_t i = 0; i < plan.count; i++)
        check->answers[i] = plan_answer(&plan, &plan.parts[i]);
    check->result = WEIR_STORE_ANSWERED;
    check->why[0] = '\0';
    check->done(check);
}

/* making and freeing */

static void memory_free(void *self)
{
    struct memory *memory = self;
    weir_table_finish(&memory->table);
    for (size_t i = 0; i < memory->shards_ready; i++)
        pthread_mutex_destroy(&memory->shards[i].mutex);
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
    memory->clock_is_ready = weir_steady_clock_init(&memory->clock, options->clock);
    if (memory->shards_ready < SHARDS || !memory->clock_is_ready)
        return weir_error_set(error, WEIR_E_SYSTEM, NULL, "The system has no mutex to give.");

    if (!weir_table_init(&memory->table, options->memory_bytes - sizeof *memory))
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
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
        return weir_error_set(error, WEIR_E_VALUE, NULL,
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
    if (code != WEIR_OK)
        memory_free(memory);
    return code;
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
    size_t bytes = sizeof *memory;
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
    uint64_t ttl_us = entry == NULL ? 0 : entry->expires_us - now_us;
    pthread_mutex_unlock(mutex);
    return ttl_us;
}
