#include "test.h"

#include <pthread.h>

#include "observe/counts.h"

static const char *const two[] = { "burst", "daily" };
static const char *const swapped[] = { "daily", "burst" };

/* What was seen of one limit. */
struct seen {
    const char *policy, *limit;
    struct weir_limit_sums sums;
    unsigned times;
};

static void look_for(void *self, const struct weir_limit_sums *sums)
{
    struct seen *seen = self;
    if (strcmp(sums->policy, seen->policy) != 0 || strcmp(sums->limit, seen->limit) != 0)
        return;
    seen->sums = *sums;
    seen->times++;
}

static struct weir_limit_sums sums_of(struct weir_counts *counts, const char *policy,
                                      const char *limit)
{
    struct seen seen = { .policy = policy, .limit = limit };
    weir_counts_each(counts, look_for, &seen);
    assert_int_equal(seen.times, 1);
    return seen.sums;
}

static struct weir_policy_counts *of(struct weir_counts *counts, const char *policy,
                                     const char *const *limits, size_t count)
{
    struct weir_policy_counts *made = weir_counts_of_policy(counts, policy, limits, count);
    assert_non_null(made);
    return made;
}

static int make(void **state)
{
    *state = weir_counts_new();
    return *state == NULL ? -1 : 0;
}

static int drop(void **state)
{
    *state = weir_counts_free(*state);
    return 0;
}

static void keeps_limits_outcomes_and_sources_apart(void **state)
{
    struct weir_policy_counts *api = of(*state, "api", two, 2);
    weir_count_decision(api, 1, 1, WEIR_SOURCE_STORE, 1);
    weir_count_decision(api, 1, 1, WEIR_SOURCE_DENIALS, 2);
    weir_count_decision(api, 0, 1, WEIR_SOURCE_STORE, 4);
    weir_count_decision(api, WEIR_NO_LIMIT, 0, WEIR_SOURCE_STORE, 8);
    weir_count_decision(api, WEIR_LIMIT_CONCURRENCY, 9, WEIR_SOURCE_NONE, 16);
    struct weir_limit_sums daily = sums_of(*state, "api", "daily");
    assert_int_equal(daily.decisions[1][WEIR_SOURCE_STORE], 1);
    assert_int_equal(daily.decisions[1][WEIR_SOURCE_DENIALS], 2);
    assert_int_equal(sums_of(*state, "api", "burst").decisions[1][WEIR_SOURCE_STORE], 4);
    assert_int_equal(sums_of(*state, "api", "").decisions[0][WEIR_SOURCE_STORE], 8);
    assert_int_equal(sums_of(*state, "api", "concurrency").decisions[9][WEIR_SOURCE_NONE], 16);
}

static void counts_an_outcome_that_it_does_not_know_nowhere(void **state)
{
    struct weir_policy_counts *api = of(*state, "api", two, 2);
    weir_count_decision(api, 0, WEIR_COUNTED_OUTCOMES, WEIR_SOURCE_STORE, 1);
    struct weir_limit_sums burst = sums_of(*state, "api", "burst");
    for (size_t i = 0; i < WEIR_COUNTED_OUTCOMES; i++)
        assert_int_equal(burst.decisions[i][WEIR_SOURCE_STORE], 0);
}

static void keeps_the_store_and_the_fallback_apart(void **state)
{
    struct weir_policy_counts *api = of(*state, "api", two, 2);
    weir_count_units_of(api, 0, WEIR_UNITS_SPENT, false, 50);
    weir_count_units_of(api, 0, WEIR_UNITS_SPENT, true, 5);
    weir_count_units_of(api, 0, WEIR_UNITS_RETURNED, false, 20);
    weir_count_units_of(api, 0, WEIR_UNITS_UNSURE, false, 7);
    struct weir_limit_sums burst = sums_of(*state, "api", "burst");
    assert_int_equal(burst.units[WEIR_UNITS_SPENT][false], 50);
    assert_int_equal(burst.units[WEIR_UNITS_SPENT][true], 5);
    assert_int_equal(burst.units[WEIR_UNITS_RETURNED][false], 20);
    assert_int_equal(burst.units[WEIR_UNITS_UNSURE][false], 7);
}

static void goes_on_with_the_numbers_of_names_that_come_back(void **state)
{
    weir_count_decision(of(*state, "api", two, 2), 0, 1, WEIR_SOURCE_STORE, 3);
    of(*state, "other", two, 1);
    struct weir_policy_counts *later = of(*state, "api", swapped, 2);
    weir_count_decision(later, 1, 1, WEIR_SOURCE_STORE, 4); /* "burst" has moved */
    assert_int_equal(sums_of(*state, "api", "burst").decisions[1][WEIR_SOURCE_STORE], 7);
    assert_int_equal(sums_of(*state, "api", "daily").decisions[1][WEIR_SOURCE_STORE], 0);
}

static void keeps_what_is_in_no_policy_any_more(void **state)
{
    weir_count_decision(of(*state, "api", two, 2), 1, 1, WEIR_SOURCE_STORE, 3);
    of(*state, "api", two, 1);
    assert_int_equal(sums_of(*state, "api", "daily").decisions[1][WEIR_SOURCE_STORE], 3);
}

static void does_not_grow_when_the_same_is_loaded_again(void **state)
{
    struct weir_policy_counts *one = of(*state, "api", two, 2);
    struct weir_policy_counts *other = of(*state, "api", swapped, 2);
    assert_ptr_not_equal(one, other);
    for (size_t i = 0; i < 100; i++) {
        assert_ptr_equal(of(*state, "api", two, 2), one);
        assert_ptr_equal(of(*state, "api", swapped, 2), other);
    }
}

static void note_order(void *self, const struct weir_limit_sums *sums)
{
    char *order = self;
    strcat(order, sums->policy);
    strcat(order, "/");
    strcat(order, sums->limit);
    strcat(order, sums->is_limit ? "! " : " ");
}

static void shows_the_limits_of_a_policy_together(void **state)
{
    char order[200] = "";
    of(*state, "", NULL, 0);
    of(*state, "api", two, 1);
    of(*state, "login", swapped, 1);
    of(*state, "api", two, 2);
    weir_counts_each(*state, note_order, order);
    assert_string_equal(order, "/ /concurrency api/ api/burst! api/daily! api/concurrency "
                               "login/ login/daily! login/concurrency ");
}

static void counts_failures_by_kind_and_times_only_what_was_asked(void **state)
{
    weir_count_asked(*state, WEIR_STORE_ANSWERED, 300);
    weir_count_asked(*state, WEIR_STORE_TIMEOUT, 20000);
    weir_count_unasked(*state, WEIR_STORE_UNAVAILABLE);
    struct weir_store_sums sums = weir_counts_of_store(*state);
    assert_int_equal(sums.latency.count, 2);
    assert_int_equal(sums.latency.sum_us, 20300);
    assert_int_equal(sums.failures[WEIR_STORE_ANSWERED], 0);
    assert_int_equal(sums.failures[WEIR_STORE_TIMEOUT], 1);
    assert_int_equal(sums.failures[WEIR_STORE_UNAVAILABLE], 1);
}

#define THREADS 8
#define ROUNDS  20000

static void *count_much(void *counts)
{
    struct weir_policy_counts *api = weir_counts_of_policy(counts, "api", two, 2);
    for (unsigned i = 0; i < ROUNDS; i++) {
        weir_count_decision(api, i % 2, i % 2, WEIR_SOURCE_STORE, 1);
        weir_count_units_of(api, i % 2, WEIR_UNITS_SPENT, false, i % 3);
        weir_count_asked(counts, WEIR_STORE_ANSWERED, i % 1000);
    }
    return NULL;
}

static void loses_nothing_among_threads(void **state)
{
    pthread_t threads[THREADS];
    of(*state, "api", two, 2);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, count_much, *state), 0);
    sums_of(*state, "api", "burst"); /* while they count */
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    struct weir_limit_sums burst = sums_of(*state, "api", "burst");
    struct weir_limit_sums daily = sums_of(*state, "api", "daily");
    uint64_t units = 0, us = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        units += i % 3;
        us += i % 1000;
    }
    assert_int_equal(burst.decisions[0][WEIR_SOURCE_STORE], THREADS * ROUNDS / 2);
    assert_int_equal(daily.decisions[1][WEIR_SOURCE_STORE], THREADS * ROUNDS / 2);
    assert_int_equal(burst.units[WEIR_UNITS_SPENT][0] + daily.units[WEIR_UNITS_SPENT][0],
                     THREADS * units);
    struct weir_store_sums store = weir_counts_of_store(*state);
    assert_int_equal(store.latency.count, THREADS * ROUNDS);
    assert_int_equal(store.latency.sum_us, THREADS * us);
}

static void spreads_threads_over_the_copies(void **state)
{
    (void)state;
    /* Stacks of 8 MiB and a guard page, one below the other, as pthread_create() lays them out. */
    unsigned met = 0;
    for (uint64_t i = 0; i < WEIR_SHARDS; i++) {
        uint64_t self = UINT64_C(0x7f12345006c0) - i * (UINT64_C(8) << 20 | 4096);
        met |= 1u << ((self >> 12) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - WEIR_SHARD_BITS));
    }
    unsigned copies = 0;
    for (; met != 0; met >>= 1)
        copies += met & 1;
    assert_true(copies >= WEIR_SHARDS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keeps_limits_outcomes_and_sources_apart, make, drop),
        cmocka_unit_test_setup_teardown(counts_an_outcome_that_it_does_not_know_nowhere, make,
                                        drop),
        cmocka_unit_test_setup_teardown(keeps_the_store_and_the_fallback_apart, make, drop),
        cmocka_unit_test_setup_teardown(goes_on_with_the_numbers_of_names_that_come_back, make,
                                        drop),
        cmocka_unit_test_setup_teardown(keeps_what_is_in_no_policy_any_more, make, drop),
        cmocka_unit_test_setup_teardown(does_not_grow_when_the_same_is_loaded_again, make, drop),
        cmocka_unit_test_setup_teardown(shows_the_limits_of_a_policy_together, make, drop),
        cmocka_unit_test_setup_teardown(counts_failures_by_kind_and_times_only_what_was_asked, make,
                                        drop),
        cmocka_unit_test_setup_teardown(loses_nothing_among_threads, make, drop),
        cmocka_unit_test(spreads_threads_over_the_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
