/* Slots of a back end with their parts, and counts of requests under way for each key. */
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/hash.h"
#include "limit/concurrency.h"

static int start(void **state)
{
    (void)state;
    return weir_hash_start() ? 0 : -1;
}

/* slots */

/* As many slots as that, for good, as no request tells anything. */
static struct weir_slots *make(uint32_t limit, const uint32_t *shares_ppm, size_t count)
{
    struct weir_slots *slots = weir_slots_new(&(const struct weir_slots_options){
        .name = "g", .bounds = { 1, 1000, limit }, .shares_ppm = shares_ppm, .part_count = count });
    assert_non_null(slots);
    return slots;
}

static void give(struct weir_slots *slots, size_t part)
{
    weir_slots_give(slots, part, WEIR_SLOT_UNTOLD, 0, 0);
}

static void lets_in_as_many_as_there_are_slots(void **state)
{
    (void)state;
    struct weir_slots *slots = make(3, NULL, 0);
    for (int i = 0; i < 3; i++) {
        assert_true(weir_slots_have_room(slots, 0));
        assert_true(weir_slots_take(slots, 0));
    }
    assert_false(weir_slots_have_room(slots, 0));
    assert_false(weir_slots_take(slots, 0));
    give(slots, 0);
    assert_true(weir_slots_take(slots, 0));
    assert_int_equal(weir_slots_numbers(slots).in_flight, 3);

    weir_slots_take_anyway(slots, 0);
    assert_int_equal(weir_slots_numbers(slots).in_flight, 4);
    give(slots, 0);
    assert_false(weir_slots_take(slots, 0));
    for (int i = 0; i < 3; i++)
        give(slots, 0);
    assert_int_equal(weir_slots_numbers(slots).in_flight, 0);
    weir_slots_free(slots);
}

static void keeps_shares_and_lends_what_is_idle(void **state)
{
    (void)state;
    static const uint32_t shares[] = { 700000, 300000 };
    struct weir_slots *slots = make(10, shares, 2);
    for (int i = 0; i < 10; i++) /* batch takes what live does not use */
        assert_true(weir_slots_take(slots, 1));
    assert_false(weir_slots_take(slots, 1));
    assert_false(weir_slots_take(slots, 2)); /* of no part */
    for (int i = 0; i < 7; i++)              /* and live gets its own all the same */
        assert_true(weir_slots_take(slots, 0));
    assert_false(weir_slots_take(slots, 0));
    for (int i = 0; i < 8; i++) { /* what is given back is not lent until it is below the limit */
        assert_false(weir_slots_take(slots, 2));
        give(slots, 1);
    }
    assert_true(weir_slots_take(slots, 2));
    assert_int_equal(weir_slots_numbers(slots).in_flight, 10);
    assert_true(weir_slots_take(slots, 1)); /* it is below its share of three */
    assert_false(weir_slots_take(slots, 1));
    weir_slots_free(slots);
}

#define PARTS 4

static uint64_t random_state;

static unsigned draw(unsigned below)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (unsigned)((random_state * UINT64_C(2685821657736338717)) >> 33) % below;
}

/* The rule again, in the words of the header. */
static bool must_get_in(uint32_t limit, const uint32_t *shares, const unsigned *busy, size_t part)
{
    unsigned in_all = 0, share = 0;
    for (size_t i = 0; i <= PARTS; i++)
        in_all += busy[i];
    if (part < PARTS)
        share = limit * shares[part] / 1000000 == 0 ? 1 : limit * shares[part] / 1000000;
    return in_all < limit || busy[part] < share;
}

static void keeps_to_the_rule_whoever_comes_and_goes(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        random_state = round * 7919 + 1;
        uint32_t limit = 1 + draw(60), shares[PARTS], left = 1000000;
        unsigned busy[PARTS + 1] = { 0 }, most = limit;
        for (size_t i = 0; i < PARTS; i++) {
            shares[i] = draw(left + 1);
            left -= shares[i];
            unsigned share = limit * shares[i] / 1000000;
            most += share == 0 ? 1 : share;
        }
        struct weir_slots *slots = make(limit, shares, PARTS);
        for (unsigned step = 0; step < 2000; step++) {
            size_t part = draw(PARTS + 1);
            if (busy[part] > 0 && draw(100) < (step % 500 < 300 ? 35u : 60u)) {
                give(slots, part);
                busy[part]--;
                continue;
            }
            bool wanted = must_get_in(limit, shares, busy, part);
            assert_int_equal(weir_slots_have_room(slots, part), wanted);
            assert_int_equal(weir_slots_take(slots, part), wanted);
            busy[part] += wanted;
            assert_true(weir_slots_numbers(slots).in_flight <= most);
        }
        for (size_t part = 0; part <= PARTS; part++)
            while (busy[part]-- > 0)
                give(slots, part);
        assert_int_equal(weir_slots_numbers(slots).in_flight, 0);
        weir_slots_free(slots);
    }
}

static void moves_with_what_requests_tell(void **state)
{
    (void)state;
    struct weir_slots *slots = make(10, NULL, 0);
    for (int i = 0; i < 10; i++)
        assert_true(weir_slots_take(slots, 0));
    for (int i = 0; i < 10; i++)
        weir_slots_give(slots, 0, WEIR_SLOT_SERVED, 1000, 11000);
    assert_int_equal(weir_slots_numbers(slots).limit, 20);
    assert_int_equal(weir_slots_numbers(slots).time_us, 10000);

    for (int i = 0; i < 20; i++)
        assert_true(weir_slots_take(slots, 0));
    for (int i = 0; i < 20; i++)
        weir_slots_give(slots, 0, i < 10 ? WEIR_SLOT_UNTOLD : WEIR_SLOT_DROPPED, 0, 0);
    for (int i = 0; i < 10; i++) {
        assert_true(weir_slots_take(slots, 0));
        weir_slots_give(slots, 0, WEIR_SLOT_DROPPED, 0, 0);
    }
    assert_int_equal(weir_slots_numbers(slots).limit, 10);
    weir_slots_free(slots);
}

static void tells_who_is_turned_away_different_times(void **state)
{
    (void)state;
    struct weir_slots *slots = make(10, NULL, 0);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(weir_slots_refused(slots), 1 + i % 3);
    for (int i = 0; i < 10; i++)
        weir_slots_take(slots, 0);
    for (int i = 0; i < 10; i++)
        weir_slots_give(slots, 0, WEIR_SLOT_SERVED, 0, 2500000);
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(weir_slots_refused(slots), 3 + i % 3);
    assert_int_equal(weir_slots_numbers(slots).refused, 12);
    weir_slots_free(slots);
}

/* from many threads */

#define THREADS 4
#define TURNS   20000

static struct weir_slots *shared;
static atomic_uint under_way, most_under_way;

static void *come_and_go(void *self)
{
    (void)self;
    for (int i = 0; i < TURNS; i++) {
        if (!weir_slots_take(shared, 0))
            continue;
        unsigned now = atomic_fetch_add(&under_way, 1) + 1;
        unsigned most = atomic_load(&most_under_way);
        while (now > most && !atomic_compare_exchange_weak(&most_under_way, &most, now))
            ;
        atomic_fetch_sub(&under_way, 1);
        weir_slots_give(shared, 0, i % 7 == 0 ? WEIR_SLOT_DROPPED : WEIR_SLOT_UNTOLD, 0, 10);
    }
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, NULL), 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void never_has_more_slots_than_the_limit_with_many_threads(void **state)
{
    (void)state;
    shared =
        weir_slots_new(&(const struct weir_slots_options){ .name = "g", .bounds = { 1, 3, 2 } });
    assert_non_null(shared);
    run_threads(come_and_go);
    assert_in_range(atomic_load(&most_under_way), 1, 3);
    assert_int_equal(weir_slots_numbers(shared).in_flight, 0);
    weir_slots_free(shared);
}

/* counts for each key */

static struct weir_text key(unsigned number)
{
    static _Thread_local char text[32];
    snprintf(text, sizeof text, "api api_key=k%u", number);
    return weir_text_from(text);
}

static void counts_each_key_apart(void **state)
{
    (void)state;
    struct weir_key_counts *counts = weir_key_counts_new();
    assert_non_null(counts);
    struct weir_counted *first = weir_key_counts_take(counts, key(1), 2);
    struct weir_counted *second = weir_key_counts_take(counts, key(1), 2);
    assert_non_null(first);
    assert_ptr_equal(first, second);
    assert_false(weir_key_counts_have_room(counts, key(1), 2));
    assert_null(weir_key_counts_take(counts, key(1), 2));
    struct weir_counted *other = weir_key_counts_take(counts, key(2), 2);
    assert_non_null(other);
    assert_int_equal(weir_key_counts_numbers(counts).keys, 2);
    assert_int_equal(weir_key_counts_numbers(counts).in_flight, 3);
    assert_int_equal(weir_key_counts_numbers(counts).refused, 2);
    weir_key_counts_give(counts, first);
    assert_true(weir_key_counts_have_room(counts, key(1), 2));
    weir_key_counts_give(counts, second);
    weir_key_counts_give(counts, other);
    assert_int_equal(weir_key_counts_numbers(counts).keys, 0);
    assert_int_equal(weir_key_counts_numbers(counts).in_flight, 0);
    weir_key_counts_free(counts);
}

#define KEYS 20000

/* Many keys meet in one place of the table. */
static void forgets_keys_that_have_nothing_under_way(void **state)
{
    (void)state;
    static struct weir_counted *held[KEYS][2];
    struct weir_key_counts *counts = weir_key_counts_new();
    assert_non_null(counts);
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < KEYS; i++)
            assert_non_null(held[i][round] = weir_key_counts_take(counts, key(i), 2));
    assert_int_equal(weir_key_counts_numbers(counts).keys, KEYS);
    assert_int_equal(weir_key_counts_numbers(counts).in_flight, 2 * KEYS);
    for (unsigned i = 0; i < KEYS; i++)
        assert_null(weir_key_counts_take(counts, key(i), 2));
    random_state = 1;
    for (unsigned i = KEYS; i-- > 0;) {
        unsigned other = draw(i + 1);
        weir_key_counts_give(counts, held[other][0]);
        weir_key_counts_give(counts, held[other][1]);
        held[other][0] = held[i][0];
        held[other][1] = held[i][1];
    }
    assert_int_equal(weir_key_counts_numbers(counts).keys, 0);
    assert_int_equal(weir_key_counts_numbers(counts).in_flight, 0);
    weir_key_counts_free(counts);
}

static struct weir_key_counts *shared_counts;
static atomic_uint with_key[4];

static void *take_keys(void *self)
{
    (void)self;
    for (unsigned i = 0; i < TURNS; i++) {
        unsigned which = i % 4;
        struct weir_counted *counted = weir_key_counts_take(shared_counts, key(which), 2);
        if (counted == NULL)
            continue;
        if (atomic_fetch_add(&with_key[which], 1) >= 2)
            abort();
        atomic_fetch_sub(&with_key[which], 1);
        weir_key_counts_give(shared_counts, counted);
    }
    return NULL;
}

static void never_counts_more_than_the_limit_with_many_threads(void **state)
{
    (void)state;
    shared_counts = weir_key_counts_new();
    assert_non_null(shared_counts);
    run_threads(take_keys);
    assert_int_equal(weir_key_counts_numbers(shared_counts).keys, 0);
    weir_key_counts_free(shared_counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lets_in_as_many_as_there_are_slots),
        cmocka_unit_test(keeps_shares_and_lends_what_is_idle),
        cmocka_unit_test(keeps_to_the_rule_whoever_comes_and_goes),
        cmocka_unit_test(moves_with_what_requests_tell),
        cmocka_unit_test(tells_who_is_turned_away_different_times),
        cmocka_unit_test(never_has_more_slots_than_the_limit_with_many_threads),
        cmocka_unit_test(counts_each_key_apart),
        cmocka_unit_test(forgets_keys_that_have_nothing_under_way),
        cmocka_unit_test(never_counts_more_than_the_limit_with_many_threads),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
