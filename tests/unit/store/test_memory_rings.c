/* The budget of rings, and plans on a table of the test's own. */
#include "test.h"

#include "store/memory_plan.h"

#define SECOND UINT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define NOW    UINT64_C(1767225600000000)

/* Of a ring of 4 places: 24 bytes, 12 for each, and what malloc() takes. */
#define SMALL_RING_BYTES 96

static struct weir_memory_table table;
static struct weir_memory_rings rings;

static void open_table(uint64_t table_bytes, size_t most_bytes)
{
    assert_true(weir_table_init(&table, table_bytes));
    rings = (struct weir_memory_rings){ .table = &table, .stride = 8, .most_bytes = most_bytes };
    table.give_ring = weir_rings_give;
    table.owner = &rings;
}

static void open_with(size_t most_bytes)
{
    open_table(UINT64_C(40) << 10, most_bytes);
}

static int close_table(void **state)
{
    (void)state;
    weir_table_finish(&table);
    assert_int_equal(rings.bytes, 0);
    return 0;
}

/* Keys of the first segment. */
static uint64_t hash_of(uint32_t number)
{
    return number * UINT32_C(2654435761);
}

/* The only key of a segment. */
static uint64_t hash_in(size_t segment)
{
    return (((uint64_t)segment << 32) / table.segment_count) << 32;
}

static struct weir_ring *take(uint32_t size, const struct weir_keep *keep, size_t kept_bytes)
{
    const struct weir_ring_place place = { .now_us = NOW, .keep = keep, .kept_bytes = kept_bytes };
    return weir_rings_take(&rings, size, &place);
}

static const struct weir_keep keep_none = { .count = 0 };

static void put_taken(uint64_t hash, struct weir_ring *ring, uint64_t expires_us,
                      enum weir_standing standing)
{
    assert_non_null(ring);
    struct weir_memory_entry entry = {
        .hash = hash, .first = (uintptr_t)ring, .high = WEIR_HIGH_RING, .standing = standing & 3
    };
    weir_entry_expire_at(&entry, expires_us);
    weir_table_put(&table, &entry, NOW, &keep_none);
}

static void put_ring(uint64_t hash, uint64_t expires_us, enum weir_standing standing)
{
    put_taken(hash, take(4, &keep_none, 0), expires_us, standing);
}

static bool has_hash(uint64_t hash)
{
    return weir_table_find(&table, hash, 1) != NULL;
}

static bool has(uint32_t number)
{
    return has_hash(hash_of(number));
}

static void makes_rings_for_what_they_must_hold(void **state)
{
    (void)state;
    open_with(0);
    static const struct {
        uint64_t limit;
        uint32_t needed, size;
    } rows[] = {
        { 1000, 1, 4 },       { 1000, 5, 10 },         { 1000, 500, 1000 },
        { 1000, 1000, 1141 }, { 1000, 2000, 2000 },    { 1, 1, 4 },
        { 1, 15, 17 },        { 50000, 40000, 56266 }, { WEIR_UNITS_MAX, 1000000, 2000000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(weir_rings_size(rows[i].limit, rows[i].needed), rows[i].size);
}

static void forgets_the_least_of_a_pity_first(void **state)
{
    (void)state;
    open_with(6 * SMALL_RING_BYTES);
    put_ring(hash_of(0), NOW + 2 * HOUR, WEIR_REFUSES);
    put_ring(hash_of(1), NOW + HOUR, WEIR_REFUSES);
    put_ring(hash_of(2), NOW + HOUR, WEIR_HAS_MORE);
    put_ring(hash_of(3), NOW + HOUR, WEIR_HAS_MORE);
    put_ring(hash_of(4), NOW, WEIR_HAS_MORE); /* has expired */
    put_ring(hash_of(5), NOW + HOUR, WEIR_USED_UP);
    static const uint32_t order[] = { 4, 2, 3, 5, 1, 0 };
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        struct weir_ring *ring = take(4, &keep_none, 0);
        assert_non_null(ring);
        assert_false(has(order[i]));
        for (size_t later = i + 1; later < COUNT_OF(order); later++)
            assert_true(has(order[later]));
        /* It stays, so that the next one needs room too. */
        put_taken(hash_of(100 + (uint32_t)i), ring, NOW + 9 * HOUR, WEIR_REFUSES);
    }
}

static void forgets_nothing_of_the_plan_and_nobody_in_vain(void **state)
{
    (void)state;
    open_with(3 * SMALL_RING_BYTES);
    for (uint32_t i = 0; i < 3; i++)
        put_ring(hash_of(i), NOW + HOUR, WEIR_HAS_MORE);
    const struct weir_keep keep = { .hashes = { hash_of(0), hash_of(1) }, .count = 2 };
    size_t kept_bytes = 2 * SMALL_RING_BYTES;
    assert_null(take(12, &keep, kept_bytes)); /* would take two of them */
    assert_null(take(100, &keep, kept_bytes));
    assert_null(weir_rings_take(&rings, 4, NULL));
    assert_true(has(0) && has(1) && has(2));
    struct weir_ring *ring = take(4, &keep, kept_bytes);
    assert_non_null(ring);
    assert_true(has(0) && has(1) && !has(2));
    weir_rings_give(&rings, ring);
    weir_rings_give(&rings, NULL);
}

/* in all segments */

#define SEGMENTS    512
#define TABLE_BYTES (UINT64_C(64) * 129 << 8)

/* Of each segment: how often its lock was tried, and whether another thread has it. */
static unsigned tries[SEGMENTS];
static bool busy[SEGMENTS];
static bool locked[SEGMENTS];

static bool try_lock(void *owner, size_t segment)
{
    assert_ptr_equal(owner, tries);
    assert_false(locked[segment]);
    tries[segment]++;
    locked[segment] = !busy[segment];
    return locked[segment];
}

static void unlock(void *owner, size_t segment)
{
    assert_ptr_equal(owner, tries);
    assert_true(locked[segment]);
    locked[segment] = false;
}

/* A ring in each segment, and no room for another. */
static void open_full(enum weir_standing standing)
{
    open_table(TABLE_BYTES, SEGMENTS * SMALL_RING_BYTES);
    assert_int_equal(table.segment_count, SEGMENTS);
    memset(tries, 0, sizeof tries);
    memset(busy, 0, sizeof busy);
    memset(locked, 0, sizeof locked);
    for (size_t i = 0; i < SEGMENTS; i++) {
        assert_int_equal(weir_table_segment(&table, hash_in(i)), i);
        put_ring(hash_in(i), NOW + HOUR, standing);
    }
    rings.try_lock = try_lock;
    rings.unlock = unlock;
    rings.owner = tries;
}

static size_t count_gone(void)
{
    size_t gone = 0;
    for (size_t i = 0; i < SEGMENTS; i++)
        gone += !has_hash(hash_in(i));
    return gone;
}

static size_t first_gone(void)
{
    size_t segment = 0;
    while (segment < SEGMENTS && has_hash(hash_in(segment)))
        segment++;
    return segment;
}

static unsigned count_tries(void)
{
    unsigned all = 0;
    for (size_t i = 0; i < SEGMENTS; i++) {
        all += tries[i];
        assert_false(locked[i]);
    }
    return all;
}

/* However many segments there are; and each in its turn. */
static void looks_at_a_few_segments_for_each_ring(void **state)
{
    (void)state;
    open_full(WEIR_REFUSES);
    for (unsigned n = 1; n <= 32; n++) {
        struct weir_ring *ring = take(4, &keep_none, 0);
        assert_int_equal(count_gone(), 1);
        assert_in_range(count_tries(), n, n * 17);
        put_taken(hash_in(first_gone()), ring, NOW + HOUR, WEIR_REFUSES);
    }
    for (size_t i = 0; i < SEGMENTS; i++)
        assert_in_range(tries[i], 1, 2);
}

/* A log that grows may need as much as many others have. */
static void takes_what_a_large_ring_needs_from_all_segments(void **state)
{
    (void)state;
    open_full(WEIR_USED_UP);
    const struct weir_keep keep = { .hashes = { hash_in(3) }, .count = 1 };
    uint32_t size = 300 * SMALL_RING_BYTES / sizeof(struct weir_ring_entry);
    struct weir_ring *ring = take(size, &keep, SMALL_RING_BYTES);
    assert_non_null(ring);
    assert_in_range(count_gone(), 300, 301);
    assert_true(has_hash(hash_in(3)));
    weir_rings_give(&rings, ring);
    for (size_t i = 3; i < SEGMENTS; i += 8)
        assert_int_equal(tries[i], 0); /* this thread has them all */
}

static void forgets_none_that_refuses_while_others_have_more(void **state)
{
    (void)state;
    open_full(WEIR_REFUSES);
    for (size_t i = 1; i < SEGMENTS; i += 16)
        weir_table_find(&table, hash_in(i), NOW)->standing = WEIR_HAS_MORE;
    for (size_t i = 1; i < SEGMENTS; i += 16) {
        struct weir_ring *ring = take(4, &keep_none, 0);
        assert_int_equal(count_gone(), 1);
        assert_int_equal(first_gone() % 16, 1);
        put_taken(hash_in(first_gone()), ring, NOW + HOUR, WEIR_REFUSES);
    }
    /* Nor in passing, where it takes more than one: the second is looked for further on. */
    for (size_t i = 1; i < SEGMENTS; i += 64)
        weir_table_find(&table, hash_in(i), NOW)->standing = WEIR_HAS_MORE;
    rings.next = 0;
    struct weir_ring *ring = take(10, &keep_none, 0);
    assert_int_equal(count_gone(), 2);
    for (size_t i = 0; i < 16; i++)
        assert_int_equal(has_hash(hash_in(i)), i != 1);
    weir_rings_give(&rings, ring);
}

static void waits_for_no_lock_of_another_thread(void **state)
{
    (void)state;
    open_full(WEIR_HAS_MORE);
    memset(busy, true, sizeof busy);
    assert_null(take(4, &keep_none, 0));
    assert_int_equal(count_gone(), 0);
    assert_in_range(count_tries(), SEGMENTS, 10 * SEGMENTS);
    /* One of them is free, or is its own. */
    busy[77] = false;
    struct weir_ring *ring = take(4, &keep_none, 0);
    assert_non_null(ring);
    assert_false(has_hash(hash_in(77)));
    assert_int_equal(count_gone(), 1);
    busy[77] = true;
    const struct weir_keep keep = { .hashes = { UINT64_C(1) << 31 }, .count = 1 };
    struct weir_ring *other = take(4, &keep, 0);
    assert_non_null(other);
    assert_int_equal(count_gone(), 2);
    weir_rings_give(&rings, ring);
    weir_rings_give(&rings, other);
}

/* plans */

static struct weir_memory_plan plan_of(const struct weir_spend *spends, size_t count,
                                       uint64_t now_us)
{
    struct weir_memory_plan plan = { .table = &table, .rings = &rings, .count = count };
    plan.keep.count = count;
    plan.now_us = now_us;
    for (size_t i = 0; i < count; i++) {
        plan.parts[i].spend = &spends[i];
        plan.parts[i].hash = plan.keep.hashes[i] = hash_of((uint32_t)i);
    }
    return plan;
}

static struct weir_spend log_of(uint64_t limit, uint64_t cost)
{
    struct weir_spend spend = { .algorithm = WEIR_SLIDING_LOG, .cost = cost };
    assert_int_equal(weir_rate_make(limit, HOUR, 0, &spend.rate, NULL), WEIR_OK);
    return spend;
}

static void spends_nothing_where_one_log_cannot_grow(void **state)
{
    (void)state;
    open_with(SMALL_RING_BYTES);
    struct weir_spend spends[3] = { log_of(8, 1), log_of(8, 1), log_of(8, 1) };
    spends[1].algorithm = WEIR_GCRA;
    struct weir_memory_plan plan = plan_of(spends, 3, NOW);
    assert_false(weir_memory_plan_spend(&plan));
    assert_false(plan.is_hindered);
    assert_false(has(0) || has(1) || has(2));
    assert_int_equal(rings.bytes, 0);
    plan = plan_of(spends, 2, NOW);
    assert_true(weir_memory_plan_spend(&plan));
    assert_int_equal(plan.parts[0].answer.remaining, 7);
    assert_int_equal(plan.parts[1].answer.remaining, 7);
}

/* Unlike one that can never succeed, the check may be repeated. */
static void says_when_only_other_threads_are_in_the_way(void **state)
{
    (void)state;
    open_full(WEIR_HAS_MORE);
    memset(busy, true, sizeof busy);
    struct weir_spend spend = log_of(8, 1);
    struct weir_memory_plan plan = plan_of(&spend, 1, NOW);
    plan.parts[0].hash = plan.keep.hashes[0] = hash_in(0) + 1;
    weir_table_remove(&table, hash_in(0));
    for (size_t i = 8; i < SEGMENTS; i += 8)
        weir_table_remove(&table, hash_in(i));
    rings.most_bytes = rings.bytes;
    assert_false(weir_memory_plan_spend(&plan));
    assert_true(plan.is_hindered);
    memset(busy, false, sizeof busy);
    assert_true(weir_memory_plan_spend(&plan));
}

/* Who is refused stays refused, though the attempt leaves no trace. */
static void refuses_even_what_it_cannot_log(void **state)
{
    (void)state;
    open_with(SMALL_RING_BYTES);
    struct weir_spend spend = log_of(8, 8);
    spend.logs_refusals = true;
    struct weir_memory_plan plan = plan_of(&spend, 1, NOW);
    assert_true(weir_memory_plan_spend(&plan));
    spend.cost = 1;
    for (uint64_t n = 1; n < 20; n++) {
        plan = plan_of(&spend, 1, NOW + n * SECOND);
        assert_true(weir_memory_plan_spend(&plan));
        assert_false(plan.parts[0].answer.allowed);
        /* The first refusals are logged in the places that there are. */
        assert_int_equal(plan.parts[0].answer.reset_us, n <= 3 ? HOUR : HOUR - (n - 3) * SECOND);
        assert_int_equal(plan.parts[0].answer.retry_us, HOUR - n * SECOND);
    }
}

/* A ring that has become far too large makes no room for a smaller one at the cost of others. */
static void forgets_nobody_to_shrink_a_ring(void **state)
{
    (void)state;
    open_with(100 * SMALL_RING_BYTES);
    put_ring(hash_of(9), NOW + 9 * HOUR, WEIR_HAS_MORE);
    struct weir_spend spend = log_of(100, 1);
    struct weir_memory_plan plan;
    for (uint64_t n = 0; n < 50; n++) {
        plan = plan_of(&spend, 1, NOW + n);
        assert_true(weir_memory_plan_spend(&plan));
    }
    plan = plan_of(&spend, 1, NOW + HOUR / 2);
    assert_true(weir_memory_plan_spend(&plan));
    rings.most_bytes = rings.bytes;
    plan = plan_of(&spend, 1, NOW + HOUR + 100);
    assert_true(weir_memory_plan_spend(&plan));
    assert_int_equal(plan.parts[0].answer.remaining, 98);
    assert_int_equal(rings.bytes, rings.most_bytes);
    assert_true(has(9));
    /* Where there is room it shrinks. */
    rings.most_bytes *= 2;
    plan = plan_of(&spend, 1, NOW + HOUR + 101);
    assert_true(weir_memory_plan_spend(&plan));
    assert_in_range(rings.bytes, 2 * SMALL_RING_BYTES, 3 * SMALL_RING_BYTES);
}

/* With a clock at the end of all time, what is logged ends before it begins. */
static void frees_a_ring_that_is_not_kept(void **state)
{
    (void)state;
    open_with(100 * SMALL_RING_BYTES);
    struct weir_spend spend = log_of(8, 1);
    struct weir_memory_plan plan = plan_of(&spend, 1, UINT64_MAX - SECOND);
    assert_true(weir_memory_plan_spend(&plan));
    assert_false(has(0));
    assert_int_equal(rings.bytes, 0);
}

#define CASE(name) cmocka_unit_test_teardown(name, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(makes_rings_for_what_they_must_hold),
        CASE(forgets_the_least_of_a_pity_first),
        CASE(forgets_nothing_of_the_plan_and_nobody_in_vain),
        CASE(looks_at_a_few_segments_for_each_ring),
        CASE(takes_what_a_large_ring_needs_from_all_segments),
        CASE(forgets_none_that_refuses_while_others_have_more),
        CASE(waits_for_no_lock_of_another_thread),
        CASE(spends_nothing_where_one_log_cannot_grow),
        CASE(says_when_only_other_threads_are_in_the_way),
        CASE(refuses_even_what_it_cannot_log),
        CASE(forgets_nobody_to_shrink_a_ring),
        CASE(frees_a_ring_that_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
