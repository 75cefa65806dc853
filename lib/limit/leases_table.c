/* The keys of leases: a table in shards, each with a lock and a list of its keys in the order in which
 * the store was asked for them. */
#include <stdlib.h>
#include <string.h>

#include "limit/leases_internal.h"
#include "policy/calendar.h"

#define BUCKETS 512 /* of a shard; with the usual budget more than it has keys */

bool weir_lease_shard_init(struct weir_lease_shard *shard)
{
    pthread_mutexattr_t attributes;
    shard->buckets = calloc(BUCKETS, sizeof(struct weir_lease_entry *));
    if (shard->buckets == NULL)
        return false;
    /* What is done under it is shorter than going to sleep. None of these fails (glibc). */
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&shard->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return true;
}

void weir_lease_shard_finish(struct weir_lease_shard *shard)
{
    if (shard->buckets == NULL)
        return;
    while (shard->oldest != NULL)
        weir_lease_remove(shard, shard->oldest);
    free(shard->buckets);
    pthread_mutex_destroy(&shard->mutex);
}

uint64_t weir_lease_hash(const struct weir_leases *leases, const struct weir_spend *spend)
{
    return weir_hash64((struct weir_text){ spend->key, spend->key_length }, leases->hash_key);
}

struct weir_lease_shard *weir_lease_shard_of(struct weir_leases *leases, uint64_t hash)
{
    return &leases->shards[hash % WEIR_LEASE_SHARDS];
}

static struct weir_lease_entry **bucket_of(const struct weir_lease_shard *shard, uint64_t hash)
{
    return &shard->buckets[hash / WEIR_LEASE_SHARDS % BUCKETS];
}

struct weir_lease_entry *weir_lease_find(const struct weir_lease_shard *shard, uint64_t hash,
                                         const struct weir_spend *spend)
{
    struct weir_lease_entry *entry = *bucket_of(shard, hash);
    while (entry != NULL
           && (entry->hash != hash || entry->spend.key_length != spend->key_length
               || memcmp(entry->key, spend->key, spend->key_length) != 0))
        entry = entry->next;
    return entry;
}

/* the list */

static void put_newest(struct weir_lease_shard *shard, struct weir_lease_entry *entry,
                       uint64_t now_us)
{
    entry->touched_us = now_us;
    entry->newer = NULL;
    entry->older = shard->newest;
    *(shard->newest == NULL ? &shard->oldest : &shard->newest->newer) = entry;
    shard->newest = entry;
}

static void take_out(struct weir_lease_shard *shard, struct weir_lease_entry *entry)
{
    *(entry->older == NULL ? &shard->oldest : &entry->older->newer) = entry->newer;
    *(entry->newer == NULL ? &shard->newest : &entry->newer->older) = entry->older;
}

void weir_lease_touch(struct weir_lease_shard *shard, struct weir_lease_entry *entry,
                      uint64_t now_us)
{
    take_out(shard, entry);
    put_newest(shard, entry, now_us);
}

/* coming and going */

static size_t bytes_of(size_t key_length)
{
    return sizeof(struct weir_lease_entry) + key_length;
}

void weir_lease_renew(struct weir_lease_entry *entry, const struct weir_spend *spend)
{
    const struct weir_calendar *calendar = entry->spend.calendar;
    if (calendar != spend->calendar) {
        weir_calendar_keep(spend->calendar);
        weir_calendar_let_go(calendar);
    }
    entry->lease = *spend->lease;
    entry->spend = *spend;
    entry->spend.lease = &entry->lease;
    entry->spend.key = entry->key;
}

struct weir_lease_entry *weir_lease_make(struct weir_lease_shard *shard, uint64_t hash,
                                         const struct weir_spend *spend, uint64_t now_us)
{
    struct weir_lease_entry *entry = malloc(bytes_of(spend->key_length));
    if (entry == NULL)
        return NULL;
    *entry = (struct weir_lease_entry){ .hash = hash };
    memcpy(entry->key, spend->key, spend->key_length);
    weir_lease_renew(entry, spend);
    entry->next = *bucket_of(shard, hash);
    *bucket_of(shard, hash) = entry;
    put_newest(shard, entry, now_us);
    shard->bytes += bytes_of(spend->key_length);
    shard->numbers.keys++;
    return entry;
}

void weir_lease_remove(struct weir_lease_shard *shard, struct weir_lease_entry *entry)
{
    struct weir_lease_entry **link = bucket_of(shard, entry->hash);
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    take_out(shard, entry);
    shard->bytes -= bytes_of(entry->spend.key_length);
    shard->numbers.keys--;
    shard->numbers.stranded += entry->block.lapsed;
    weir_calendar_let_go(entry->spend.calendar);
    free(entry);
}
