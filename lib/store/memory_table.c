#include "store/memory_table.h"

#include <assert.h>
#include <stdlib.h>

#include <sys/mman.h>

/* Segments grow by chunks of places. The first chunks of 8 segments stand side by side in one page,
 * then their second ones in the next, and so on: a page is taken from the system only when one of
 * the 8 has grown that far. */
#define CHUNK_PLACES     16
#define GROUP_SEGMENTS   8
#define MOST_CHUNKS      (WEIR_SEGMENT_PLACES / CHUNK_PLACES)
#define CHUNK_STRIDE     (CHUNK_PLACES * GROUP_SEGMENTS)
#define GROUP_PLACES     (WEIR_SEGMENT_PLACES * GROUP_SEGMENTS)
#define CACHE_LINE_BYTES 64
#define PLACES_PER_LINE  (CACHE_LINE_BYTES / sizeof(struct weir_memory_entry))

static_assert(sizeof(struct weir_memory_entry) == 32, "two entries share a cache line");
static_assert(CHUNK_STRIDE * sizeof(struct weir_memory_entry) == 4096, "chunks share a page");
static_assert(CHUNK_PLACES * 3 / 4 > 8, "the smallest segment holds a whole plan");

/* One segment, as the functions below need it. */
struct view {
    const struct weir_memory_table *table;
    struct weir_segment *segment;
    struct weir_memory_entry *entries; /* its first place */
    size_t places;
};

static size_t chunks_of(const struct weir_segment *segment)
{
    return atomic_load_explicit(&segment->chunks, memory_order_relaxed);
}

static struct view view_of(const struct weir_memory_table *table, size_t index)
{
    struct weir_segment *segment = &table->segments[index];
    size_t first = index / GROUP_SEGMENTS * GROUP_PLACES + index % GROUP_SEGMENTS * CHUNK_PLACES;
    return (struct view){ table, segment, &table->entries[first],
                          chunks_of(segment) * CHUNK_PLACES };
}

static struct weir_memory_entry *entry_at(const struct view *view, size_t place)
{
    return &view->entries[place / CHUNK_PLACES * CHUNK_STRIDE + place % CHUNK_PLACES];
}

static size_t place_after(const struct view *view, size_t place)
{
    return place + 1 == view->places ? 0 : place + 1;
}

static bool is_live(const struct weir_memory_entry *entry, uint64_t now_us)
{
    return weir_entry_expires_us(entry) > now_us;
}

static bool is_empty(const struct weir_memory_entry *entry)
{
    return entry->expires_ms == 0;
}

/* The first place of a cache line, so that a short search stays in it. */
static size_t home_of(const struct view *view, uint64_t hash)
{
    size_t place = (size_t)(((hash & UINT32_MAX) * view->places) >> 32);
    return place - place % PLACES_PER_LINE;
}

/* Searching ends at an empty place; with a quarter of them empty it ends soon. */
static size_t most_taken(size_t places)
{
    return places - places / 4;
}

static size_t most_chunks(const struct view *view)
{
    return atomic_load_explicit(&view->table->most_chunks, memory_order_relaxed);
}

/* The place of `hash`, or the empty place where the search for it ends. */
static size_t search(const struct view *view, uint64_t hash)
{
    size_t place = home_of(view, hash);
    for (;;) {
        const struct weir_memory_entry *entry = entry_at(view, place);
        if (is_empty(entry) || entry->hash == hash)
            return place;
        place = place_after(view, place);
    }
}

/* making room */

/* Under the segment's lock, which others do not need to read it. */
static void count_rings(const struct view *view, int more)
{
    uint8_t rings = atomic_load_explicit(&view->segment->rings, memory_order_relaxed);
    atomic_store_explicit(&view->segment->rings, (uint8_t)(rings + more), memory_order_relaxed);
}

/* An entry is about to be forgotten or overwritten. */
static void release(const struct view *view, const struct weir_memory_entry *entry)
{
    struct weir_ring *ring = weir_entry_ring(entry);
    if (ring == NULL)
        return;
    count_rings(view, -1);
    view->table->give_ring(view->table->owner, ring);
}

/* An entry takes the place of none, or of one that was released. */
static void adopt(const struct view *view, const struct weir_memory_entry *entry)
{
    if (weir_entry_ring(entry) != NULL)
        count_rings(view, 1);
}

static size_t count_live(const struct view *view, uint64_t now_us)
{
    size_t live = 0;
    for (size_t i = 0; i < view->places; i++)
        live += is_live(entry_at(view, i), now_us);
    return live;
}

/* Chunks for what there is and half a chunk more. */
static size_t wanted_chunks(size_t live, size_t most)
{
    size_t places = (live + CHUNK_PLACES / 2) * 4 / 3;
    size_t chunks = (places + CHUNK_PLACES - 1) / CHUNK_PLACES;
    return chunks < most ? chunks : most;
}

/* Takes all that is live out and puts it back into `chunks` of places. */
static void rebuild(struct view *view, size_t chunks, uint64_t now_us)
{
    struct weir_memory_entry kept[WEIR_SEGMENT_PLACES];
    size_t count = 0;
    uint64_t soonest_us = UINT64_MAX;
    for (size_t i = 0; i < view->places; i++) {
        struct weir_memory_entry *entry = entry_at(view, i);
        if (is_live(entry, now_us)) {
            uint64_t expires_us = weir_entry_expires_us(entry);
            soonest_us = expires_us < soonest_us ? expires_us : soonest_us;
            kept[count++] = *entry;
        } else {
            release(view, entry);
        }
        *entry = (struct weir_memory_entry){ 0 };
    }

    atomic_store_explicit(&view->segment->chunks, (uint8_t)chunks, memory_order_relaxed);
    view->places = chunks * CHUNK_PLACES;
    view->segment->taken = (uint8_t)count;
    view->segment->soonest_us = soonest_us;
    for (size_t i = 0; i < count; i++)
        *entry_at(view, search(view, kept[i].hash)) = kept[i];
}

/* Whether an entry at `place` may move up to `hole`: its home does not lie between the two. */
static bool may_move(size_t hole, size_t home, size_t place)
{
    return hole <= place ? home <= hole || home > place : home <= hole && home > place;
}

/* Forgets the entry at a place, and moves up those behind it that were pushed off it, so that every
 * search still ends where it should (Knuth, The Art of Computer Programming 3, algorithm 6.4 R). */
static void empty_place(const struct view *view, size_t hole)
{
    release(view, entry_at(view, hole));
    for (size_t place = place_after(view, hole); !is_empty(entry_at(view, place));
         place = place_after(view, place)) {
        if (!may_move(hole, home_of(view, entry_at(view, place)->hash), place))
            continue;
        *entry_at(view, hole) = *entry_at(view, place);
        hole = place;
    }
    *entry_at(view, hole) = (struct weir_memory_entry){ 0 };
    view->segment->taken--;
}

static bool is_kept(const struct weir_keep *keep, uint64_t hash)
{
    for (size_t i = 0; i < keep->count; i++)
        if (keep->hashes[i] == hash)
            return true;
    return false;
}

#define STANDING_SHIFT 62

/* How much it is a pity to lose an entry: first its standing counts. Of keys that have more, an old
 * use is less than a late one; of the others, a state that ends soon. */
static uint64_t worth_of(const struct view *view, const struct weir_memory_entry *entry)
{
    if (is_empty(entry))
        return UINT64_MAX;
    uint32_t age = (view->segment->tick - (uint32_t)entry->used_at) & WEIR_TICK_MASK;
    uint64_t among_equals =
        entry->standing == WEIR_HAS_MORE ? WEIR_TICK_MASK - age : entry->expires_ms;
    return (uint64_t)entry->standing << STANDING_SHIFT | among_equals;
}

static void evict(const struct view *view, size_t place)
{
    empty_place(view, place);
    if (view->table->evicted != NULL)
        atomic_fetch_add_explicit(view->table->evicted, 1, memory_order_relaxed);
}

/* A full segment has far more keys than a plan, so there is always one to lose. */
static void evict_one(const struct view *view, const struct weir_keep *keep)
{
    size_t cheapest = 0;
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < view->places; i++) {
        const struct weir_memory_entry *entry = entry_at(view, i);
        uint64_t worth = worth_of(view, entry);
        if (worth >= least || is_kept(keep, entry->hash))
            continue;
        least = worth;
        cheapest = i;
    }
    evict(view, cheapest);
}

static void make_room(struct view *view, uint64_t now_us, const struct weir_keep *keep)
{
    size_t chunks = chunks_of(view->segment), most = most_chunks(view);
    bool is_whole = chunks >= most;
    if (is_whole && now_us < view->segment->soonest_us) {
        evict_one(view, keep);
        return;
    }
    size_t wanted = wanted_chunks(count_live(view, now_us), most);
    rebuild(view, wanted > chunks ? wanted : chunks, now_us);
    if (view->segment->taken >= most_taken(view->places))
        evict_one(view, keep);
}

/* rings */

bool weir_table_has_rings(const struct weir_memory_table *table, size_t segment)
{
    return atomic_load_explicit(&table->segments[segment].rings, memory_order_relaxed) > 0;
}

/* As worth_of() has it; UINT64_MAX: the entry has no ring, or must not go. */
static uint64_t ring_worth(const struct view *view, const struct weir_memory_entry *entry,
                           const struct weir_keep *keep)
{
    bool may_go = !is_empty(entry) && weir_entry_ring(entry) != NULL && !is_kept(keep, entry->hash);
    return may_go ? worth_of(view, entry) : UINT64_MAX;
}

/* The ring that may go first. */
struct candidate {
    size_t place;
    uint64_t worth; /* UINT64_MAX: there is none */
};

static struct candidate find_ring(const struct view *view, const struct weir_keep *keep)
{
    struct candidate cheapest = { .worth = UINT64_MAX };
    for (size_t i = 0; i < view->places; i++) {
        uint64_t worth = ring_worth(view, entry_at(view, i), keep);
        if (worth < cheapest.worth)
            cheapest = (struct candidate){ .place = i, .worth = worth };
    }
    return cheapest;
}

uint64_t weir_table_ring_worth(const struct weir_memory_table *table, size_t segment,
                               const struct weir_keep *keep)
{
    struct view view = view_of(table, segment);
    return find_ring(&view, keep).worth;
}

enum weir_standing weir_worth_standing(uint64_t worth)
{
    return (enum weir_standing)(worth >> STANDING_SHIFT);
}

bool weir_table_evict_ring(struct weir_memory_table *table, size_t segment, enum weir_standing most,
                           const struct weir_keep *keep)
{
    struct view view = view_of(table, segment);
    struct candidate cheapest = find_ring(&view, keep);
    if (cheapest.worth == UINT64_MAX || weir_worth_standing(cheapest.worth) > most)
        return false;
    evict(&view, cheapest.place);
    return true;
}

void weir_table_sweep(struct weir_memory_table *table, size_t segment, uint64_t now_us)
{
    struct view view = view_of(table, segment);
    if (view.places > 0 && now_us >= view.segment->soonest_us)
        rebuild(&view, chunks_of(view.segment), now_us);
}

/* giving memory up */

void weir_table_set_half(struct weir_memory_table *table)
{
    atomic_store_explicit(&table->most_chunks, MOST_CHUNKS / 2, memory_order_relaxed);
}

void weir_table_halve(struct weir_memory_table *table, size_t segment, uint64_t now_us)
{
    static const struct weir_keep none = { .count = 0 };
    struct view view = view_of(table, segment);
    size_t most = most_chunks(&view);
    if (chunks_of(view.segment) <= most)
        return;
    rebuild(&view, chunks_of(view.segment), now_us);
    while (view.segment->taken > most_taken(most * CHUNK_PLACES))
        evict_one(&view, &none);
    rebuild(&view, most, now_us);
}

void weir_table_return_pages(struct weir_memory_table *table)
{
    size_t most = atomic_load_explicit(&table->most_chunks, memory_order_relaxed);
    size_t bytes = (MOST_CHUNKS - most) * CHUNK_STRIDE * sizeof *table->entries;
    for (size_t group = 0; group < table->segment_count / GROUP_SEGMENTS; group++)
        madvise(&table->entries[group * GROUP_PLACES + most * CHUNK_STRIDE], bytes, MADV_DONTNEED);
}

/* the table */

bool weir_table_init(struct weir_memory_table *table, uint64_t budget_bytes)
{
    size_t group_bytes = GROUP_PLACES * sizeof(struct weir_memory_entry)
                         + GROUP_SEGMENTS * sizeof(struct weir_segment);
    size_t groups = (size_t)(budget_bytes / group_bytes);
    if (groups == 0)
        return false;

    void *entries =
        mmap(NULL, groups * GROUP_PLACES * sizeof *table->entries, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (entries == MAP_FAILED)
        return false;
    *table = (struct weir_memory_table){ .entries = entries,
                                         .segment_count = groups * GROUP_SEGMENTS,
                                         .most_chunks = MOST_CHUNKS };
    table->segments = calloc(table->segment_count, sizeof *table->segments);
    if (table->segments == NULL)
        weir_table_finish(table);
    return table->segments != NULL;
}

static void release_all(const struct weir_memory_table *table)
{
    for (size_t segment = 0; segment < table->segment_count; segment++) {
        struct view view = view_of(table, segment);
        for (size_t i = 0; i < view.places; i++)
            if (!is_empty(entry_at(&view, i)))
                release(&view, entry_at(&view, i));
    }
}

void weir_table_finish(struct weir_memory_table *table)
{
    if (table->give_ring != NULL)
        release_all(table);
    if (table->entries != NULL)
        munmap(table->entries, table->segment_count * WEIR_SEGMENT_PLACES * sizeof *table->entries);
    free(table->segments);
    *table = (struct weir_memory_table){ 0 };
}

size_t weir_table_segment(const struct weir_memory_table *table, uint64_t hash)
{
    return (size_t)(((hash >> 32) * table->segment_count) >> 32);
}

void weir_table_prefetch(const struct weir_memory_table *table, uint64_t hash)
{
    /* A segment that is just growing sends this to the wrong lines, which costs time only. */
    struct view view = view_of(table, weir_table_segment(table, hash));
    size_t home = home_of(&view, hash);
    __builtin_prefetch(entry_at(&view, home), 1);
    __builtin_prefetch(entry_at(&view, home + PLACES_PER_LINE), 1);
}

struct weir_memory_entry *weir_table_find(const struct weir_memory_table *table, uint64_t hash,
                                          uint64_t now_us)
{
    struct view view = view_of(table, weir_table_segment(table, hash));
    if (view.places == 0)
        return NULL;
    struct weir_memory_entry *entry = entry_at(&view, search(&view, hash));
    return is_live(entry, now_us) ? entry : NULL;
}

void weir_table_put(struct weir_memory_table *table, const struct weir_memory_entry *entry,
                    uint64_t now_us, const struct weir_keep *keep)
{
    struct view view = view_of(table, weir_table_segment(table, entry->hash));
    if (view.places == 0)
        rebuild(&view, 1, now_us);

    struct weir_memory_entry *place = entry_at(&view, search(&view, entry->hash));
    if (is_empty(place)) {
        if (view.segment->taken >= most_taken(view.places)) {
            make_room(&view, now_us, keep);
            place = entry_at(&view, search(&view, entry->hash));
        }
        view.segment->taken++;
        adopt(&view, entry);
    } else if (weir_entry_ring(place) != weir_entry_ring(entry)) {
        release(&view, place);
        adopt(&view, entry);
    }
    if (weir_entry_expires_us(entry) < view.segment->soonest_us)
        view.segment->soonest_us = weir_entry_expires_us(entry);
    *place = *entry;
    place->used_at = ++view.segment->tick & WEIR_TICK_MASK;
}

void weir_table_remove(struct weir_memory_table *table, uint64_t hash)
{
    struct view view = view_of(table, weir_table_segment(table, hash));
    if (view.places == 0)
        return;
    size_t place = search(&view, hash);
    if (!is_empty(entry_at(&view, place)))
        empty_place(&view, place);
}

size_t weir_table_live(const struct weir_memory_table *table, size_t segment, uint64_t now_us)
{
    struct view view = view_of(table, segment);
    return count_live(&view, now_us);
}

size_t weir_table_taken(const struct weir_memory_table *table, size_t segment)
{
    return table->segments[segment].taken;
}

size_t weir_table_bytes(const struct weir_memory_table *table, size_t segment)
{
    return sizeof *table->segments
           + view_of(table, segment).places * sizeof(struct weir_memory_entry);
}
