#include "test.h"

#include "store/redis_internal.h"

static struct weir_check check_of(struct weir_spend *spend, const char *key)
{
    *spend = (struct weir_spend){ .key = key, .key_length = strlen(key) };
    return (struct weir_check){ .spends = spend, .count = 1 };
}

static size_t lane_of(const char *key, size_t count)
{
    struct weir_spend spend;
    const struct weir_check check = check_of(&spend, key);
    return weir_redis_lane_of(&check, count);
}

static void keeps_the_keys_of_one_client_in_one_lane(void **state)
{
    (void)state;
    for (size_t count = 1; count <= WEIR_REDIS_LANES_MAX; count++) {
        assert_int_equal(lane_of("weir:{ip=192.0.2.7}:api:burst", count),
                         lane_of("weir:{ip=192.0.2.7}:login:address", count));
        assert_int_equal(lane_of("other:{ip=192.0.2.7}", count),
                         lane_of("weir:{ip=192.0.2.7}:api:burst", count));
    }
}

static void gives_each_lane_its_share(void **state)
{
    (void)state;
    for (size_t count = 1; count <= WEIR_REDIS_LANES_MAX; count++) {
        size_t found[WEIR_REDIS_LANES_MAX] = { 0 };
        for (unsigned client = 0; client < 1000 * count; client++) {
            char key[48];
            snprintf(key, sizeof key, "weir:{ip=10.0.%u.%u}:api:burst", client / 256, client % 256);
            size_t lane = lane_of(key, count);
            assert_in_range(lane, 0, count - 1);
            found[lane]++;
        }
        for (size_t lane = 0; lane < count; lane++)
            assert_in_range(found[lane], 800, 1200);
    }
}

static void leaves_checks_without_a_key_to_the_first(void **state)
{
    (void)state;
    struct weir_spend spend = { .key = NULL };
    const struct weir_check rows[] = {
        { .count = 0 },
        { .count = 1, .spends = NULL },
        { .count = 1, .spends = &spend },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(weir_redis_lane_of(&rows[i], 16), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_keys_of_one_client_in_one_lane),
        cmocka_unit_test(gives_each_lane_its_share),
        cmocka_unit_test(leaves_checks_without_a_key_to_the_first),
    };
    return cmocka_run_group_tests_name("redis_lanes", tests, NULL, NULL);
}
