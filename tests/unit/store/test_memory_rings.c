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

static void open_with(size_t most_bytes)
{
    assert_true(weir_table_init(&table, UINT64_C(40) << 10));
    rings = (struct weir_memory_rings){ .table = &table, .stride = 8, .most_bytes = most_bytes };
    table.give_ring = weir_rings_give;
    table.owner = &rings;
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

static struct weir_ring *take(uint32_t size, const struct weir_keep *keep)
{
    const struct weir_ring_place place = { .segment = 0, .now_us = NOW, .keep = keep };
    return weir_rings_take(&rings, size, &place);
}

static void put_ring(uint32_t number, uint64_t expires_us, bool refuses)
{
    static const struct weir_keep none = { .count = 0 };
    struct weir_ring *ring = take(4, &none);
    assert_non_null(ring);
    struct weir_memory_entry entry = { .hash = hash_of(number),
                                       .first = (uintptr_t)ring,
                                       .high = WEIR_HIGH_RING,
                                       .refuses = refuses };
    weir_entry_expire_at(&entry, expires_us);
    weir_table_put(&table, &entry, NOW, &none);
}

static bool has(uint32_t number)
{
    return weir_table_find(&table, hash_of(number), 1) != NULL;
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
    open_with(5 * SMALL_RING_BYTES);
    put_ring(0, NOW + 2 * HOUR, true);
    put_ring(1, NOW + HOUR, true);
    put_ring(2, NOW + HOUR, false);
    put_ring(3, NOW + HOUR, false);
    put_ring(4, NOW, false); /* has expired */
    static const uint32_t order[] = { 4, 2, 3, 1, 0 };
    const struct weir_keep none = { .count = 0 };
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        struct weir_ring *ring = take(4, &none);
        assert_non_null(ring);
        assert_false(has(order[i]));
        for (size_t later = i + 1; later < COUNT_OF(order); later++)
            assert_true(has(order[later]));
        /* It stays, so that the next one needs room too. */
        struct weir_memory_entry entry = { .hash = hash_of(100 + (uint32_t)i),
                                           .first = (uintptr_t)ring,
                                           .high = WEIR_HIGH_RING,
                                           .refuses = 1 };
        weir_entry_expire_at(&entry, NOW + 9 * HOUR);
        weir_table_put(&table, &entry, NOW, &none);
    }
}

static void forgets_nothing_of_the_plan_and_nobody_in_vain(void **state)
{
    (void)state;
    open_with(3 * SMALL_RING_BYTES);
    put_ring(0, NOW + HOUR, false);
    put_ring(1, NOW + HOUR, false);
    put_ring(2, NOW + HOUR, false);
    const struct weir_keep keep = { .hashes = { hash_of(0), hash_of(1) }, .count = 2 };
    assert_null(take(12, &keep)); /* would take two of them */
    assert_null(take(100, &keep));
    assert_true(has(0) && has(1) && has(2));
    struct weir_ring *ring = take(4, &keep);
    assert_non_null(ring);
    assert_true(has(0) && has(1) && !has(2));
    weir_rings_give(&rings, ring);
    weir_rings_give(&rings, NULL);
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
    assert_false(has(0) || has(1) || has(2));
    assert_int_equal(rings.bytes, 0);
    plan = plan_of(spends, 2, NOW);
    assert_true(weir_memory_plan_spend(&plan));
    assert_int_equal(plan.parts[0].answer.remaining, 7);
    assert_int_equal(plan.parts[1].answer.remaining, 7);
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

#define CASE(name) cmocka_unit_test_teardown(name, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(makes_rings_for_what_they_must_hold),
        CASE(forgets_the_least_of_a_pity_first),
        CASE(forgets_nothing_of_the_plan_and_nobody_in_vain),
        CASE(spends_nothing_where_one_log_cannot_grow),
        CASE(refuses_even_what_it_cannot_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
