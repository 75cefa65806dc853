/* Which Sentinel is asked next for the master. Pure: it knows no clock, no socket. */
#ifndef WEIR_STORE_REDIS_SENTINEL_SEARCH_H
#define WEIR_STORE_REDIS_SENTINEL_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis_url.h"

/* While one is silent, the next is asked too after so long; each has so long for its answer. */
#define WEIR_SENTINEL_PATIENCE_US UINT64_C(250000)
#define WEIR_SENTINEL_ANSWER_US   UINT64_C(1000000)

#define WEIR_SENTINEL_NOBODY SIZE_MAX

/* A round asks each Sentinel once, until one gives a good answer: that one is the first to be asked
 * in the next round. Sentinels are known by their place in the URL; times are of
 * weir_monotonic_us(). */
struct weir_sentinel_search {
    size_t count;
    size_t order[WEIR_REDIS_PLACES_MAX];      /* who is asked first, second…                    */
    uint64_t asked_us[WEIR_REDIS_PLACES_MAX]; /* of those under `asked`                         */
    bool was_asked[WEIR_REDIS_PLACES_MAX];    /* in this round                                  */
    bool is_asked[WEIR_REDIS_PLACES_MAX];     /* …and has not answered yet                      */
    uint64_t next_us;                         /* then the next one is asked, if none has answered */
    bool is_under_way;
};

void weir_sentinel_search_init(struct weir_sentinel_search *search, size_t count);

/* Begins a round; nothing happens if one is under way. */
void weir_sentinel_search_begin(struct weir_sentinel_search *search, uint64_t now_us);

/* Whoever is to be asked now, who then counts as asked. */
size_t weir_sentinel_search_next(struct weir_sentinel_search *search, uint64_t now_us);

/* Whoever has had the time for an answer and has not given it. The caller says that it failed. */
size_t weir_sentinel_search_late(const struct weir_sentinel_search *search, uint64_t now_us);

/* When one of the two above has something to say; UINT64_MAX: no round is under way. */
uint64_t weir_sentinel_search_until(const struct weir_sentinel_search *search);

/* One gave no good answer, and the next is asked at once. True: that was the last one, and the round
 * is over. Nothing happens if it was not asked. */
bool weir_sentinel_search_failed(struct weir_sentinel_search *search, size_t index,
                                 uint64_t now_us);

/* One gave a good answer: the round is over. */
void weir_sentinel_search_found(struct weir_sentinel_search *search, size_t index);

/* What the first one said led nowhere: it is asked last from now on. */
void weir_sentinel_search_doubt(struct weir_sentinel_search *search);

#endif
