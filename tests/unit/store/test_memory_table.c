/* The table by itself, with hashes of the test's own. WEIR_SEED repeats a run. */
#include "test.h"

#include <inttypes.h>
#include <time.h>

#include "store/memory_table.h"

/* Enough for one group of 8 segments. */
#define SMALL_BYTES (UINT64_C(40) << 10)

/* Entries keep their expiry in whole milliseconds; all times below are in these. */
#define MS UINT64_C(1000)

static const struct weir_keep keep_none = { .count = 0 };
static struct weir_memory_table table;

static int open_small(void **state)
{
    (void)state;
    return !weir_table_init(&table, SMALL_BYTES);
}

static int close_table(void **state)
{
    (void)state;
    weir_table_finish(&table);
    return 0;
}

/* A hash of the first segment, with a place anywhere in it. */
static uint64_t hash_in_first(uint32_t number)
{
    return (uint64_t)(number & 0xffff) << 32 | number * UINT32_C(2654435761);
}

static void put_standing(uint64_t hash, uint64_t expires_ms, enum weir_standing standing,
                         uint64_t now_ms)
{
    struct weir_memory_entry entry = { .hash = hash, .first = hash, .standing = standing & 3 };
    weir_entry_expire_at(&entry, expires_ms * MS);
    weir_table_put(&table, &entry, now_ms * MS, &keep_none);
}

static void put(uint64_t hash, uint64_t expires_ms, bool refuses, uint64_t now_ms)
{
    put_standing(hash, expires_ms, refuses ? WEIR_REFUSES : WEIR_HAS_MORE, now_ms);
}

static bool has(uint64_t hash, uint64_t now_ms)
{
    const struct weir_memory_entry *entry = weir_table_find(&table, hash, now_ms * MS);
    if (entry != NULL && weir_entry_ring(entry) == NULL)
        assert_int_equal(entry->first, hash);
    return entry != NULL;
}

/* The keys that a segment holds at its full size. */
static uint32_t most_keys(void)
{
    return WEIR_SEGMENT_PLACES * 3 / 4;
}

static void holds_what_was_put_until_it_expires(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), 1000 + i, false, 1);
    for (uint32_t i = 0; i < most_keys(); i++) {
        assert_true(has(hash_in_first(i), 999 + i));
        assert_false(has(hash_in_first(i), 1000 + i));
    }
    assert_false(has(hash_in_first(4711), 1));
    assert_int_equal(weir_table_live(&table, 0, MS), most_keys());
    assert_int_equal(weir_table_live(&table, 0, 1009 * MS), most_keys() - 10);
}

static void starts_small_and_stays_in_its_budget(void **state)
{
    (void)state;
    size_t before = 0, after = 0;
    for (size_t i = 0; i < table.segment_count; i++)
        before += weir_table_bytes(&table, i);
    assert_true(before < 1024);
    for (uint64_t n = 0; n < 100000; n++)
        put(n * UINT64_C(0x9e3779b97f4a7c15), 1000, false, 1);
    for (size_t i = 0; i < table.segment_count; i++)
        after += weir_table_bytes(&table, i);
    assert_in_range(after, 32768, SMALL_BYTES);
}

static void evicts_what_has_expired_before_all_else(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), i % 2 == 0 ? 10 : 1000, false, 1);
    for (uint32_t i = 0; i < most_keys() / 2; i++)
        put(hash_in_first(1000 + i), 1000, false, 10);
    for (uint32_t i = 1; i < most_keys(); i += 2)
        assert_true(has(hash_in_first(i), 10));
    for (uint32_t i = 0; i < most_keys() / 2; i++)
        assert_true(has(hash_in_first(1000 + i), 10));
}

static void evicts_the_least_recently_used(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), 1000, false, 1);
    /* The first ten are used again. */
    for (uint32_t i = 0; i < 10; i++)
        put(hash_in_first(i), 1000, false, 1);
    for (uint32_t i = 0; i < 20; i++)
        put(hash_in_first(1000 + i), 1000, false, 1);
    for (uint32_t i = 0; i < most_keys(); i++)
        assert_int_equal(has(hash_in_first(i), 1), i < 10 || i >= 30);
}

static void never_evicts_one_that_refuses_before_another(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), 1000 + i, i < 50, 1);
    for (uint32_t i = 0; i < 5000; i++)
        put(hash_in_first(1000 + i), 2000, false, 1);
    for (uint32_t i = 0; i < 50; i++)
        assert_true(has(hash_in_first(i), 1));
}

static void evicts_the_one_that_ends_first_if_all_refuse(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), i == 7 ? 500 : 1000, true, 1);
    put(hash_in_first(1000), 1000, false, 1);
    for (uint32_t i = 0; i < most_keys(); i++)
        assert_int_equal(has(hash_in_first(i), 1), i != 7);
    assert_true(has(hash_in_first(1000), 1));
}

/* 20 refuse, 20 are used up: a flood of keys that have more forgives none of them, and one of keys that
 * are used up none that refuses. */
static void evicts_what_is_used_up_before_what_refuses(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 40; i++)
        put_standing(hash_in_first(i), 1000, i < 20 ? WEIR_REFUSES : WEIR_USED_UP, 1);
    for (uint32_t i = 0; i < 5000; i++)
        put_standing(hash_in_first(1000 + i), 2000, WEIR_HAS_MORE, 1);
    for (uint32_t i = 0; i < 40; i++)
        assert_true(has(hash_in_first(i), 1));
    for (uint32_t i = 0; i < 5000; i++)
        put_standing(hash_in_first(10000 + i), 2000 + i, WEIR_USED_UP, 1);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(has(hash_in_first(i), 1), i < 20);
    /* Of these, the ones that end last have stayed. */
    for (uint32_t i = 4950; i < 5000; i++)
        assert_true(has(hash_in_first(10000 + i), 1));
}

static void never_evicts_a_key_of_the_same_plan(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), 1000, true, 1);
    struct weir_keep keep = { .count = 8 };
    for (uint32_t i = 0; i < 8; i++)
        keep.hashes[i] = hash_in_first(1000 + i);
    for (uint32_t i = 0; i < 8; i++) {
        struct weir_memory_entry entry = { .hash = keep.hashes[i], .first = keep.hashes[i] };
        weir_entry_expire_at(&entry, 1000 * MS);
        weir_table_put(&table, &entry, MS, &keep);
    }
    for (uint32_t i = 0; i < 8; i++)
        assert_true(has(keep.hashes[i], 1));
}

/* Against a list: with fewer keys than fit, nothing is ever lost, whatever is put and expires. */
static void agrees_with_a_list_for_ever(void **state)
{
    (void)state;
    const char *given = getenv("WEIR_SEED");
    uint64_t random =
        given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL) * 2654435761u;
    random += random == 0;
    print_message("    WEIR_SEED=%" PRIu64 "\n", random);

    static uint64_t expires_ms[96];
    memset(expires_ms, 0, sizeof expires_ms);
    uint64_t now_ms = 1;
    for (int step = 0; step < 300000; step++) {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        uint64_t number = random * UINT64_C(2685821657736338717) >> 16;
        uint32_t key = (uint32_t)(number % COUNT_OF(expires_ms));
        /* Half of them meet in one place. */
        uint64_t hash = key % 2 == 0 ? hash_in_first(key) : (uint64_t)key << 32 | 0xffffff00;
        now_ms += number >> 8 & 1;

        assert_int_equal(has(hash, now_ms), expires_ms[key] > now_ms);
        if ((number >> 9 & 3) == 0)
            continue;
        expires_ms[key] = now_ms + 1 + (number >> 12) % 300;
        put(hash, expires_ms[key], (number >> 11 & 1) == 0, now_ms);
        assert_true(has(hash, now_ms));
    }
}

static void never_lets_a_state_end_early(void **state)
{
    (void)state;
    struct weir_memory_entry entry = { .hash = hash_in_first(1) };
    weir_entry_expire_at(&entry, 5 * MS + 1);
    assert_int_equal(weir_entry_expires_us(&entry), 6 * MS);
    weir_entry_expire_at(&entry, 5 * MS);
    assert_int_equal(weir_entry_expires_us(&entry), 5 * MS);

    /* Beyond what an entry has bits for, it ends never. */
    static const uint64_t late_us[] = { (UINT64_C(1) << 43) * MS, UINT64_MAX - 1, UINT64_MAX };
    for (size_t i = 0; i < COUNT_OF(late_us); i++) {
        weir_entry_expire_at(&entry, late_us[i]);
        assert_int_equal(weir_entry_expires_us(&entry), UINT64_MAX);
    }
    weir_entry_expire_at(&entry, ((UINT64_C(1) << 43) - 2) * MS);
    assert_int_equal(weir_entry_expires_us(&entry), ((UINT64_C(1) << 43) - 2) * MS);
}

static void forgets_what_is_removed(void **state)
{
    (void)state;
    weir_table_remove(&table, hash_in_first(1));
    for (uint32_t i = 0; i < 20; i++)
        put(hash_in_first(i), 1000, false, 1);
    weir_table_remove(&table, hash_in_first(7));
    weir_table_remove(&table, hash_in_first(7));
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(has(hash_in_first(i), 1), i != 7);
    assert_int_equal(weir_table_live(&table, 0, MS), 19);
}

/* rings */

static unsigned rings_given;

static void count_ring(void *owner, struct weir_ring *ring)
{
    assert_ptr_equal(owner, &table);
    rings_given++;
    free(ring);
}

static int open_with_rings(void **state)
{
    rings_given = 0;
    int failed = open_small(state);
    table.give_ring = count_ring;
    table.owner = &table;
    return failed;
}

static struct weir_ring *put_ring(uint64_t hash, uint64_t expires_ms, enum weir_standing standing)
{
    struct weir_ring *ring = malloc(weir_ring_bytes(4));
    assert_non_null(ring);
    weir_ring_init(ring, 4);
    struct weir_memory_entry entry = {
        .hash = hash, .first = (uintptr_t)ring, .high = WEIR_HIGH_RING, .standing = standing & 3
    };
    weir_entry_expire_at(&entry, expires_ms * MS);
    weir_table_put(&table, &entry, MS, &keep_none);
    return ring;
}

static void gives_a_ring_back_that_is_forgotten(void **state)
{
    (void)state;
    put_ring(hash_in_first(1), 1000, WEIR_HAS_MORE);
    put_ring(hash_in_first(1), 1000, WEIR_HAS_MORE);
    assert_int_equal(rings_given, 1); /* another stands in its place */
    put(hash_in_first(1), 1000, false, 1);
    assert_int_equal(rings_given, 2); /* none does */
    put_ring(hash_in_first(1), 1000, WEIR_HAS_MORE);
    weir_table_remove(&table, hash_in_first(1));
    assert_int_equal(rings_given, 3);
    put_ring(hash_in_first(2), 10, WEIR_HAS_MORE);
    weir_table_sweep(&table, 0, 9 * MS);
    assert_int_equal(rings_given, 3);
    weir_table_sweep(&table, 0, 10 * MS);
    assert_int_equal(rings_given, 4);
    put_ring(hash_in_first(3), 1000, WEIR_HAS_MORE);
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(1000 + i), 1000, false, 1);
    assert_int_equal(rings_given, 5); /* evicted */
    put_ring(hash_in_first(4), 1000, WEIR_HAS_MORE);
    weir_table_finish(&table);
    assert_int_equal(rings_given, 6);
}

static void keeps_a_ring_whose_entry_is_put_again(void **state)
{
    (void)state;
    put_ring(hash_in_first(1), 1000, WEIR_HAS_MORE);
    struct weir_memory_entry again = *weir_table_find(&table, hash_in_first(1), MS);
    again.standing = WEIR_REFUSES;
    weir_table_put(&table, &again, MS, &keep_none);
    assert_int_equal(rings_given, 0);
}

static void evicts_rings_and_nothing_else(void **state)
{
    (void)state;
    put(hash_in_first(0), 10, false, 1);
    put_ring(hash_in_first(1), 40, WEIR_REFUSES);
    put_ring(hash_in_first(2), 30, WEIR_REFUSES);
    put_ring(hash_in_first(3), 50, WEIR_USED_UP);
    put_ring(hash_in_first(4), 90, WEIR_HAS_MORE);
    put_ring(hash_in_first(5), 80, WEIR_HAS_MORE);
    put_ring(hash_in_first(6), 10, WEIR_HAS_MORE);
    const struct weir_keep keep = { .hashes = { hash_in_first(6) }, .count = 1 };

    static const struct {
        uint32_t number;
        enum weir_standing standing;
    } order[] = { { 4, WEIR_HAS_MORE },
                  { 5, WEIR_HAS_MORE },
                  { 3, WEIR_USED_UP },
                  { 2, WEIR_REFUSES },
                  { 1, WEIR_REFUSES } };
    uint64_t before = 0;
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        uint64_t worth = weir_table_ring_worth(&table, 0, &keep);
        assert_int_equal(weir_worth_standing(worth), order[i].standing);
        assert_true(worth > before);
        before = worth;
        /* Not one of a better standing in its place: it may have gone meanwhile. */
        if (order[i].standing > WEIR_HAS_MORE)
            assert_false(weir_table_evict_ring(&table, 0, order[i].standing - 1u, &keep));
        assert_true(has(hash_in_first(order[i].number), 1));
        assert_true(weir_table_evict_ring(&table, 0, order[i].standing, &keep));
        assert_false(has(hash_in_first(order[i].number), 1));
    }
    assert_int_equal(weir_table_ring_worth(&table, 0, &keep), UINT64_MAX);
    assert_false(weir_table_evict_ring(&table, 0, WEIR_REFUSES, &keep));
    assert_true(has(hash_in_first(0), 1));
    assert_true(has(hash_in_first(6), 1));
}

/* Whatever happens to entries with a ring, or it would be passed by, or looked at for nothing. */
static void knows_whether_a_segment_has_rings(void **state)
{
    (void)state;
    put(hash_in_first(0), 1000, false, 1);
    assert_false(weir_table_has_rings(&table, 0));
    put_ring(hash_in_first(1), 1000, WEIR_HAS_MORE);
    put_ring(hash_in_first(1), 1000, WEIR_HAS_MORE);
    put_ring(hash_in_first(0), 10, WEIR_HAS_MORE);
    assert_false(weir_table_has_rings(&table, 1));
    weir_table_remove(&table, hash_in_first(1));
    assert_true(weir_table_has_rings(&table, 0));
    weir_table_sweep(&table, 0, 10 * MS);
    assert_false(weir_table_has_rings(&table, 0));

    put_ring(hash_in_first(2), 1000, WEIR_HAS_MORE);
    put(hash_in_first(2), 1000, false, 1);
    assert_false(weir_table_has_rings(&table, 0));
    put_ring(hash_in_first(2), 1000, WEIR_HAS_MORE);
    for (uint32_t i = 0; i < 30; i++)
        put(hash_in_first(1000 + i), 1000, false, 1);
    assert_true(weir_table_has_rings(&table, 0)); /* the segment has grown with it */
    assert_true(weir_table_evict_ring(&table, 0, WEIR_HAS_MORE, &keep_none));
    assert_false(weir_table_has_rings(&table, 0));
}

static void halves_what_has_grown_beyond(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < most_keys(); i++)
        put(hash_in_first(i), 1000, i % 4 == 0, 1);
    size_t whole = weir_table_bytes(&table, 0);
    weir_table_set_half(&table);
    weir_table_halve(&table, 0, MS);
    weir_table_return_pages(&table);
    assert_true(weir_table_bytes(&table, 0) < whole / 2 + 64);
    assert_int_equal(weir_table_live(&table, 0, MS), most_keys() / 2);
    for (uint32_t i = 0; i < most_keys(); i += 4)
        assert_true(has(hash_in_first(i), 1));
    /* It does not grow again. */
    for (uint32_t i = 0; i < 1000; i++)
        put(hash_in_first(1000 + i), 1000, false, 1);
    assert_true(weir_table_bytes(&table, 0) < whole / 2 + 64);
}

#define CASE(name)      cmocka_unit_test_setup_teardown(name, open_small, close_table)
#define RING_CASE(name) cmocka_unit_test_setup_teardown(name, open_with_rings, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(holds_what_was_put_until_it_expires),
        CASE(starts_small_and_stays_in_its_budget),
        CASE(evicts_what_has_expired_before_all_else),
        CASE(evicts_the_least_recently_used),
        CASE(never_evicts_one_that_refuses_before_another),
        CASE(evicts_the_one_that_ends_first_if_all_refuse),
        CASE(evicts_what_is_used_up_before_what_refuses),
        CASE(never_evicts_a_key_of_the_same_plan),
        CASE(agrees_with_a_list_for_ever),
        CASE(never_lets_a_state_end_early),
        CASE(forgets_what_is_removed),
        RING_CASE(gives_a_ring_back_that_is_forgotten),
        RING_CASE(keeps_a_ring_whose_entry_is_put_again),
        RING_CASE(evicts_rings_and_nothing_else),
        RING_CASE(knows_whether_a_segment_has_rings),
        CASE(halves_what_has_grown_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
