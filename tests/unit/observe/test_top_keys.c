/* Who has most: exact while there is a counter for everybody, and within the bound after that. */
#include "test.h"

#include <pthread.h>

#include "observe/top_keys.h"

#define MINUTE UINT64_C(60000000)
#define START  (UINT64_C(1000000) * MINUTE)

#define KEYS_MAX 20000

static struct weir_top *top;

static int set_up(void **state)
{
    (void)state;
    top = weir_top_new(START);
    assert_non_null(top);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    top = weir_top_free(top);
    return 0;
}

static void add(unsigned number, uint64_t weight, uint64_t now_us)
{
    char key[16];
    int length = snprintf(key, sizeof key, "client-%u", number);
    weir_top_add(top, (struct weir_text){ key, (size_t)length }, weight, now_us);
}

static unsigned number_of(const struct weir_top_entry *entry)
{
    char key[WEIR_TOP_KEY_BYTES + 1];
    memcpy(key, entry->key, entry->key_length);
    key[entry->key_length] = '\0';
    return (unsigned)strtoul(key + strlen("client-"), NULL, 10);
}

static struct weir_top_entry entries[4096];

static size_t list(uint64_t now_us, struct weir_top_sum *sum)
{
    return weir_top_list(top, now_us, entries, COUNT_OF(entries), sum);
}

static void is_exact_as_long_as_everybody_has_a_counter(void **state)
{
    (void)state;
    struct weir_top_sum sum;
    for (unsigned i = 0; i < WEIR_TOP_COUNTERS; i++)
        for (unsigned n = 0; n <= i; n++)
            add(i, 10, START);
    assert_int_equal(list(START, &sum), WEIR_TOP_COUNTERS);
    for (unsigned i = 0; i < WEIR_TOP_COUNTERS; i++) {
        assert_int_equal(number_of(&entries[i]), WEIR_TOP_COUNTERS - 1 - i);
        assert_int_equal(entries[i].count, 10 * (WEIR_TOP_COUNTERS - i));
        assert_int_equal(entries[i].at_least, entries[i].count);
    }
    assert_int_equal(sum.total, 10 * WEIR_TOP_COUNTERS * (WEIR_TOP_COUNTERS + 1) / 2);
}

/* Streams that try the bound. Each returns the key of the n-th event. */

static uint32_t noise(uint32_t number)
{
    number = number * UINT32_C(2654435761) + 12345;
    number ^= number >> 15;
    return number * UINT32_C(2246822519) ^ number >> 13;
}

/* Key k about as often as 1/(k+1): the share of the first k keys is ln k / ln n. */
static unsigned zipf(unsigned n)
{
    double share = (double)noise(n) / UINT32_MAX, power = 1;
    for (double all = share * 9.9; all > 0; all -= 0.01)
        power *= 1.01005;
    unsigned key = (unsigned)power - 1;
    return key < KEYS_MAX ? key : KEYS_MAX - 1;
}

static unsigned everybody_once(unsigned n)
{
    return n % KEYS_MAX;
}

/* One big client among a flood of keys that are never seen again. */
static unsigned one_in_a_flood(unsigned n)
{
    return n % 50 == 0 ? 0 : 1 + n % (KEYS_MAX - 1);
}

/* First many evict each other, then those that went first come back. */
static unsigned returning(unsigned n)
{
    return n < 30000 ? n % 300 : n % 40;
}

static void check_bounds(const uint64_t exact[KEYS_MAX], uint64_t total)
{
    static bool is_listed[KEYS_MAX];
    struct weir_top_sum sum;
    size_t count = list(START, &sum);
    memset(is_listed, 0, sizeof is_listed);
    assert_int_equal(sum.total, total);
    assert_true(sum.error_bound <= total / WEIR_TOP_COUNTERS);
    for (size_t i = 0; i < count; i++) {
        unsigned key = number_of(&entries[i]);
        is_listed[key] = true;
        assert_true(entries[i].at_least <= exact[key]);
        assert_true(entries[i].count >= exact[key]);
        assert_true(entries[i].count - exact[key] <= total / WEIR_TOP_COUNTERS);
        assert_true(i == 0 || entries[i - 1].count >= entries[i].count);
    }
    for (unsigned key = 0; key < KEYS_MAX; key++)
        assert_true(is_listed[key] || exact[key] <= sum.error_bound);
}

static void stays_within_the_stated_bound(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        unsigned (*key_at)(unsigned n);
    } rows[] = {
        { "Zipf", zipf },
        { "everybody once, again and again", everybody_once },
        { "one in a flood", one_in_a_flood },
        { "those that were evicted come back", returning },
    };
    static uint64_t exact[KEYS_MAX];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        uint64_t total = 0;
        memset(exact, 0, sizeof exact);
        for (unsigned n = 0; n < 40000; n++) {
            uint64_t weight = 1 + noise(n) % 7;
            exact[rows[i].key_at(n)] += weight;
            total += weight;
            add(rows[i].key_at(n), weight, START);
        }
        check_bounds(exact, total);
        top = weir_top_free(top);
        top = weir_top_new(START);
    }
}

static void finds_one_big_client_in_a_flood_of_others(void **state)
{
    (void)state;
    struct weir_top_sum sum;
    for (unsigned n = 0; n < 40000; n++)
        add(one_in_a_flood(n), 1, START);
    assert_int_equal(weir_top_list(top, START, entries, 1, &sum), 1);
    assert_int_equal(number_of(&entries[0]), 0);
}

static void forgets_what_is_older_than_two_periods(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t later_us;
        size_t keys;
        uint64_t since_us; /* after START */
    } rows[] = {
        { "at once", 0, 2, 0 },
        { "in the next period", 5 * MINUTE, 2, 0 },
        { "at its end", 10 * MINUTE - 1, 2, 0 },
        { "one later", 10 * MINUTE, 1, 5 * MINUTE },
        { "two later", 15 * MINUTE, 0, 10 * MINUTE },
        { "days later", 6000 * MINUTE, 0, 5995 * MINUTE },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_top_sum sum;
        print_message("    %s\n", rows[i].when);
        add(1, 5, START);
        if (rows[i].later_us >= 5 * MINUTE)
            add(2, 3, START + 5 * MINUTE);
        else
            add(2, 3, START);
        assert_int_equal(list(START + rows[i].later_us, &sum), rows[i].keys);
        assert_int_equal(sum.since_us - START, rows[i].since_us);
        top = weir_top_free(top);
        top = weir_top_new(START);
    }
}

static void counts_on_when_the_clock_steps_or_is_not_known(void **state)
{
    (void)state;
    struct weir_top_sum sum;
    add(1, 1, START + MINUTE);
    add(1, 1, 0);
    add(1, 1, START - MINUTE);
    add(1, 1, START - 1000 * MINUTE);
    add(1, 1, START - 999 * MINUTE);
    assert_int_equal(list(START - 998 * MINUTE, &sum), 1);
    assert_int_equal(entries[0].count, 5);
    assert_int_equal(list(START - 900 * MINUTE, &sum), 0);
}

static void takes_keys_of_any_bytes_up_to_a_length(void **state)
{
    (void)state;
    static const char longest[WEIR_TOP_KEY_BYTES] = { 1, 0, 2, 0 };
    struct weir_top_sum sum;
    weir_top_add(top, (struct weir_text){ longest, sizeof longest }, 1, START);
    weir_top_add(top, (struct weir_text){ longest, sizeof longest - 1 }, 1, START);
    weir_top_add(top, (struct weir_text){ longest, sizeof longest }, 1, START);
    weir_top_add(top, WEIR_TEXT(""), 1, START);
    weir_top_add(top, WEIR_TEXT("nothing"), 0, START);
    weir_top_add(NULL, WEIR_TEXT("nobody"), 1, START);
    assert_int_equal(list(START, &sum), 2);
    assert_int_equal(entries[0].count, 2);
    assert_int_equal(entries[0].key_length, sizeof longest);
    assert_memory_equal(entries[0].key, longest, sizeof longest);
    assert_int_equal(weir_top_list(NULL, START, entries, 1, &sum), 0);
}

#define THREADS 6
#define EACH    20000

static void *count_some(void *self)
{
    const unsigned *first = self;
    for (unsigned n = 0; n < EACH; n++)
        add((*first + n) % 100, 1, START);
    return NULL;
}

static void adds_up_what_several_threads_count(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    unsigned firsts[THREADS];
    struct weir_top_sum sum;
    for (unsigned i = 0; i < THREADS; i++) {
        firsts[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, count_some, &firsts[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        list(START, &sum);
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(list(START, &sum), 100);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(entries[i].count, THREADS * EACH / 100);
    assert_int_equal(sum.total, THREADS * EACH);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(is_exact_as_long_as_everybody_has_a_counter),
        TEST(stays_within_the_stated_bound),
        TEST(finds_one_big_client_in_a_flood_of_others),
        TEST(forgets_what_is_older_than_two_periods),
        TEST(counts_on_when_the_clock_steps_or_is_not_known),
        TEST(takes_keys_of_any_bytes_up_to_a_length),
        TEST(adds_up_what_several_threads_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
