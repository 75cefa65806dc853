/* "penalty" in a policy file. */
#include "parse.h"

#define SECOND UINT64_C(1000000)
#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

#define LIMIT(name, members)                                                                       \
    "{\"name\":\"" name "\",\"by\":\"ip\",\"rate\":\"5/minute\"" members "}"
#define POLICY(limits)   "{\"policies\":{\"p\":{\"limits\":[" limits "]}}}"
#define PENALTY(members) POLICY(LIMIT("a", ",\"penalty\":{" members "}"))
#define GOOD             ",\"penalty\":{\"after\":3,\"ban\":[\"1m\"]}"
#define AT               "/policies/p/limits/0/penalty"

static void reads_a_penalty(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        struct weir_penalty want;
    } rows[] = {
        { PENALTY("\"after\":3,\"ban\":[\"1m\",\"5m\",\"15m\",\"1h\"],\"forget\":\"24h\","
                  "\"extend\":true"),
          { 3, 4, { MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR }, DAY, true } },
        { PENALTY("\"after\":1,\"ban\":[\"20ms\"],\"extend\":false"),
          { 1, 1, { 20000 }, DAY, false } },
        { PENALTY("\"forget\":\"1s\",\"ban\":[\"1s\",\"1s\"],\"after\":1000"),
          { 1000, 2, { SECOND, SECOND }, SECOND, false } },
        { PENALTY("\"ban\":[\"1h\",\"30d\"],\"after\":2,\"comment\":\"a day is not enough\""),
          { 2, 2, { HOUR, 30 * DAY }, 30 * DAY, false } },
        { PENALTY("\"ban\":[\"366d\"],\"after\":2,\"forget\":\"366d\""),
          { 2, 1, { 366 * DAY }, 366 * DAY, false } },
        { PENALTY("\"ban\":[\"1s\",\"2s\",\"3s\",\"4s\",\"5s\",\"6s\",\"7s\",\"8s\"],\"after\":2"),
          { 2,
            8,
            { SECOND, 2 * SECOND, 3 * SECOND, 4 * SECOND, 5 * SECOND, 6 * SECOND, 7 * SECOND,
              8 * SECOND },
            DAY,
            false } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_policy *policy = parse(rows[i].json);
        const struct weir_penalty *penalty = policy->rulesets[0].limits[0].penalty;
        assert_non_null(penalty);
        assert_int_equal(penalty->after, rows[i].want.after);
        assert_int_equal(penalty->ban_count, rows[i].want.ban_count);
        assert_memory_equal(penalty->bans_us, rows[i].want.bans_us, sizeof penalty->bans_us);
        assert_int_equal(penalty->forget_us, rows[i].want.forget_us);
        assert_int_equal(penalty->extends, rows[i].want.extends);
        weir_policy_free(policy);
    }
}

static void knows_limits_without_one(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY(LIMIT("a", "") "," LIMIT("b", GOOD)));
    assert_null(policy->rulesets[0].limits[0].penalty);
    assert_non_null(policy->rulesets[0].limits[1].penalty);
    assert_null(policy->guesses.limits[0].penalty);
    weir_policy_free(policy);
}

static void refuses_what_is_no_penalty(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path, *text;
    } rows[] = {
        { POLICY(LIMIT("a", ",\"penalty\":3")), WEIR_E_TYPE, AT, "wanted is an object" },
        { PENALTY(""), WEIR_E_MISSING, AT, "\"after\" is missing" },
        { PENALTY("\"after\":1"), WEIR_E_MISSING, AT, "\"ban\" is missing" },
        { PENALTY("\"after\":1,\"bans\":[]"), WEIR_E_UNKNOWN_KEY, AT "/bans", "\"ban\"?" },
        { PENALTY("\"after\":0,\"ban\":[\"1m\"]"), WEIR_E_VALUE, AT "/after",
          "The value is 0; wanted is a whole number from 1 to 1000." },
        { PENALTY("\"after\":1001,\"ban\":[\"1m\"]"), WEIR_E_VALUE, AT "/after", "1001" },
        { PENALTY("\"after\":\"3\",\"ban\":[\"1m\"]"), WEIR_E_TYPE, AT "/after", "whole number" },
        { PENALTY("\"after\":1,\"ban\":\"1m\""), WEIR_E_TYPE, AT "/ban",
          "wanted is a list of 1 to 8 durations" },
        { PENALTY("\"after\":1,\"ban\":[]"), WEIR_E_VALUE, AT "/ban",
          "The list has 0 bans; wanted are 1 to 8." },
        { PENALTY("\"after\":1,\"ban\":[1,1,1,1,1,1,1,1,1]"), WEIR_E_VALUE, AT "/ban", "9 bans" },
        { PENALTY("\"after\":1,\"ban\":[\"1m\",60]"), WEIR_E_TYPE, AT "/ban/1",
          "The value is 60; wanted is a duration" },
        { PENALTY("\"after\":1,\"ban\":[\"0s\"]"), WEIR_E_VALUE, AT "/ban/0", "\"0s\"" },
        { PENALTY("\"after\":1,\"ban\":[\"367d\"]"), WEIR_E_VALUE, AT "/ban/0", "\"366d\"" },
        { PENALTY("\"after\":1,\"ban\":[\"1 m\"]"), WEIR_E_VALUE, AT "/ban/0", "\"1 m\"" },
        { PENALTY("\"after\":1,\"ban\":[\"5m\",\"5m\",\"299s\"]"), WEIR_E_VALUE, AT "/ban/2",
          "The ban of \"299s\" is shorter than the one before it" },
        { PENALTY("\"after\":1,\"ban\":[\"1h\"],\"forget\":\"59m\""), WEIR_E_VALUE, AT "/forget",
          "\"59m\" is shorter than the longest ban" },
        { PENALTY("\"after\":1,\"ban\":[\"1h\"],\"forget\":\"367d\""), WEIR_E_VALUE, AT "/forget",
          "\"367d\"" },
        { PENALTY("\"after\":1,\"ban\":[\"1h\"],\"forget\":\"0s\""), WEIR_E_VALUE, AT "/forget",
          "\"0s\"" },
        { PENALTY("\"after\":1,\"ban\":[\"1h\"],\"extend\":1"), WEIR_E_TYPE, AT "/extend",
          "true or false" },
        { "{\"policies\":{\"p\":{\"limits\":[" LIMIT("a", "") "],\"penalty\":{}}}}",
          WEIR_E_UNKNOWN_KEY, "/policies/p/penalty", "\"penalty\" means nothing here" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

/* A plan of checks has eight. */
static void counts_the_places_that_penalties_take(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY(LIMIT("a", GOOD) "," LIMIT("b", GOOD) "," LIMIT(
        "c", GOOD) "," LIMIT("d", "") "," LIMIT("e", "")));
    assert_int_equal(policy->rulesets[0].limit_count, 5);
    weir_policy_free(policy);
    struct weir_error error = refusal(POLICY(LIMIT("a", GOOD) "," LIMIT("b", GOOD) "," LIMIT(
        "c", GOOD) "," LIMIT("d", "") "," LIMIT("e", GOOD)));
    assert_error(&error, WEIR_E_VALUE, "/policies/p/limits",
                 "The list has 5 limits and 4 penalties; wanted are at most 8 of both together.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_penalty),
        cmocka_unit_test(knows_limits_without_one),
        cmocka_unit_test(refuses_what_is_no_penalty),
        cmocka_unit_test(counts_the_places_that_penalties_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
