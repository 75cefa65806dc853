/* Presets: what they expand to, what a file may change, and how the whole is shown. */
#include <unistd.h>

#include "parse.h"

#define POLICY(members) "{\"policies\":{\"p\":{" members "}}}"
#define SECRET(members) "{\"secret\":\"${SECRET}\",\"policies\":{\"p\":{" members "}}}"

static const struct weir_limit_rule *find_limit(const struct weir_policy *policy, const char *name)
{
    const struct weir_ruleset *ruleset = &policy->rulesets[0];
    size_t at = 0;
    while (at < ruleset->limit_count && strcmp(ruleset->limits[at].name, name) != 0)
        at++;
    if (at == ruleset->limit_count)
        fail_msg("there is no limit \"%s\"", name);
    return &ruleset->limits[at];
}

static void loads_each_preset(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *limit, *field;
        uint64_t units, window_s;
    } rows[] = {
        { SECRET("\"preset\":\"login\""), "account", "username", 10, 3600 },
        { SECRET("\"preset\":\"login\",\"fields\":{\"account\":\"email\"}"), "stop", "email", 100,
          366 * 86400 },
        { POLICY("\"preset\":\"otp-send\""), "gap", "destination", 1, 30 },
        { SECRET("\"preset\":\"otp-verify\""), "account", "destination", 10, 3600 },
        { POLICY("\"preset\":\"password-reset\""), "account", "email", 20, 3600 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_policy *policy = parse(rows[i].json);
        const struct weir_limit_rule *limit = find_limit(policy, rows[i].limit);
        assert_int_equal(limit->rate.limit, rows[i].units);
        assert_int_equal(limit->rate.window_us, rows[i].window_s * 1000000);
        assert_int_equal(limit->by.parts[0].alternatives[0].kind, WEIR_BY_FIELD);
        assert_string_equal(text_of(limit->by.parts[0].alternatives[0].name), rows[i].field);
        assert_int_equal(policy->rulesets[0].on_store_failure.timeout, WEIR_FAIL_MEMORY);
        assert_int_equal(policy->rulesets[0].on_store_failure.error, WEIR_FAIL_MEMORY);
        weir_policy_free(policy);
    }
}

static void lets_the_file_change_a_preset(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse(POLICY("\"preset\":\"otp-send\",\"on_store_failure\":\"closed\",\"limits\":["
                     "{\"name\":\"all\",\"by\":\"global\",\"rate\":\"1000/hour\"},"
                     "{\"name\":\"destination\",\"rate\":\"3/hour\"}]"));
    const struct weir_ruleset *ruleset = &policy->rulesets[0];
    static const char *const names[] = { "all", "destination", "gap", "address" };
    assert_int_equal(ruleset->limit_count, COUNT_OF(names));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(ruleset->limits[i].name, names[i]);
    assert_int_equal(ruleset->limits[1].rate.limit, 3);
    assert_int_equal(ruleset->limits[1].by.parts[0].alternatives[0].kind, WEIR_BY_FIELD);
    assert_int_equal(ruleset->on_store_failure.timeout, WEIR_FAIL_CLOSED);
    weir_policy_free(policy);
}

static void lets_the_file_change_what_is_inside(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse(SECRET("\"preset\":\"login\",\"known\":{\"secure\":false},\"limits\":["
                     "{\"name\":\"account\",\"penalty\":{\"after\":4}}]"));
    const struct weir_limit_rule *account = find_limit(policy, "account");
    assert_int_equal(account->penalty->after, 4);
    assert_int_equal(account->penalty->ban_count, 4);
    assert_false(policy->rulesets[0].known->is_secure);
    assert_int_equal(policy->rulesets[0].known->address_us, UINT64_C(30) * 86400 * 1000000);
    weir_policy_free(policy);
}

static void names_the_place_of_an_error_in_the_file(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        enum weir_code code;
        const char *path, *text;
    } rows[] = {
        { POLICY("\"preset\":\"logon\""), WEIR_E_VALUE, "/policies/p/preset",
          "The value is \"logon\"; did you mean \"login\"?" },
        { POLICY("\"preset\":\"login\""), WEIR_E_MISSING, "/policies/p/known",
          "add \"secret\": \"${WEIR_SECRET}\" at the top" },
        { POLICY("\"preset\":7"), WEIR_E_TYPE, "/policies/p/preset", "\"otp-verify\"" },
        { POLICY("\"preset\":\"login\",\"fields\":{\"user\":\"email\"}"), WEIR_E_UNKNOWN_KEY,
          "/policies/p/fields/user", "wanted is \"account\"" },
        { POLICY("\"preset\":\"login\",\"fields\":{\"account\":5}"), WEIR_E_TYPE,
          "/policies/p/fields/account", "the name of a field" },
        { POLICY("\"fields\":{\"account\":\"email\"}"), WEIR_E_UNKNOWN_KEY, "/policies/p/fields",
          "means nothing here" },
        { SECRET("\"preset\":\"login\",\"limits\":[{\"name\":\"x\",\"by\":\"ip\",\"rate\":\"1/s\"},"
                 "{\"name\":\"pair\",\"rate\":\"5/fortnight\"}]"),
          WEIR_E_VALUE, "/policies/p/limits/0/rate", "is no unit of time" },
        { SECRET("\"preset\":\"login\",\"limits\":[{\"name\":\"pair\",\"rate\":\"5/fortnight\"}]"),
          WEIR_E_VALUE, "/policies/p/limits/0/rate", "fortnight" },
        { SECRET("\"preset\":\"login\",\"limits\":{}"), WEIR_E_TYPE, "/policies/p/limits",
          "a list of limits" },
        { SECRET("\"preset\":\"login\",\"limits\":[5]"), WEIR_E_TYPE, "/policies/p/limits/0",
          "wanted is an object" },
        { "{\"policies\":{\"p\":5}}", WEIR_E_TYPE, "/policies/p", "wanted is an object" },
        { "{\"policies\":5}", WEIR_E_TYPE, "/policies", "an object" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

/* Who takes it as it is cannot do anything about it. */
static void warns_of_nothing_that_is_a_presets_own(void **state)
{
    (void)state;
    static const char *const presets[] = { "login", "otp-send", "otp-verify", "password-reset" };
    static const unsigned instances[] = { 1, 2, 3, 10, 100, 10000 };
    for (size_t i = 0; i < COUNT_OF(presets) * COUNT_OF(instances); i++) {
        char json[300];
        snprintf(json, sizeof json,
                 "{\"secret\":\"sixteen letters.\",\"instances\":%u,\"store\":{\"url\":"
                 "\"redis://h\"},\"policies\":{\"p\":{\"preset\":\"%s\",\"limits\":[{\"name\":"
                 "\"address\",\"exact\":true}]}}}",
                 instances[i / COUNT_OF(presets)], presets[i % COUNT_OF(presets)]);
        struct weir_policy *policy = parse(json);
        if (weir_policy_warning_count(policy) > 0)
            fail_msg("%s: %s", json, weir_policy_warning(policy, 0)->text);
        weir_policy_free(policy);
    }
}

static void warns_of_what_the_file_makes_of_a_preset(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"secret\":\"sixteen letters.\",\"instances\":100,\"store\":{\"url\":"
              "\"redis://h\"},\"policies\":{\"p\":{\"preset\":\"login\",\"limits\":["
              "{\"name\":\"pair\",\"rate\":\"4/15minutes\"}]}}}");
    assert_int_equal(weir_policy_warning_count(policy), 1);
    assert_int_equal(weir_policy_warning(policy, 0)->code, WEIR_W_SHARE_ROUNDED_UP);
    assert_string_equal(weir_policy_warning(policy, 0)->path, "/policies/p/limits/0/rate");
    weir_policy_free(policy);
}

/* A stranger at one address, or at six, leaves the owner of an account the way back. */
static void keeps_the_way_back_open(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY("\"preset\":\"password-reset\""));
    const struct weir_limit_rule *pair = find_limit(policy, "pair");
    assert_int_equal(pair->by.count, 2);
    assert_int_equal(pair->by.parts[0].alternatives[0].kind, WEIR_BY_IP);
    assert_int_equal(pair->by.parts[1].alternatives[0].kind, WEIR_BY_FIELD);
    assert_true(6 * pair->rate.limit < find_limit(policy, "account")->rate.limit);
    weir_policy_free(policy);
}

static void takes_no_mask_for_a_secret(void **state)
{
    (void)state;
    static const struct {
        const char *json, *path, *text;
    } rows[] = {
        { "{\"secret\":\"***\"}", "/secret", "as one is shown; wanted is the secret itself" },
        { "{\"secret\":\"${MASK}\"}", "/secret", "as one is shown" },
        { "{\"store\":{\"url\":\"redis://weir:***@h\"}}", "/store/url",
          "where a password belongs" },
        { "{\"store\":{\"url\":\"redis://***@h\"}}", "/store/url", "where a password belongs" },
        { "{\"store\":{\"url\":\"redis://***\"}}", "/store/url", "where a password belongs" },
        { "{\"store\":{\"url\":\"redis+sentinel://h/m?sentinel_user=a&sentinel_password=***\"}}",
          "/store/url", "where a password belongs" },
        { "{\"store\":{\"url\":\"redis+sentinel://h/m?sentinel_password=***&sentinel_user=a\"}}",
          "/store/url", "such as \"${REDIS_PASSWORD}\"" },
    };
    setenv("MASK", "***", 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].json);
        struct weir_error error = refusal(rows[i].json);
        assert_error(&error, WEIR_E_VALUE, rows[i].path, rows[i].text);
    }
    /* Stars in a password that is one. */
    weir_policy_free(parse("{\"store\":{\"url\":\"redis://weir:a***b***@h\"}}"));
}

/* the text */

static char file[] = "/tmp/weir-preset-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int made = mkstemp(file);
    return made < 0 ? -1 : close(made);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(file);
}

static enum weir_code expand(const char *json, char **text, struct weir_error *error)
{
    FILE *stream = fopen(file, "w");
    assert_non_null(stream);
    fputs(json, stream);
    assert_int_equal(fclose(stream), 0);
    return weir_policy_expand(file, text, error);
}

static void writes_a_preset_out_as_the_same_policy(void **state)
{
    (void)state;
    static const char *const presets[] = { "login", "otp-send", "otp-verify", "password-reset" };
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        char json[200];
        char *text = NULL, *again = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        snprintf(json, sizeof json, SECRET("\"preset\":\"%s\""), presets[i]);
        assert_int_equal(expand(json, &text, &error), WEIR_OK);
        assert_null(strstr(text, "preset"));
        assert_int_equal(expand(text, &again, &error), WEIR_OK);
        assert_string_equal(text, again);

        struct weir_policy *ours = parse(json), *theirs = parse(text);
        assert_int_equal(ours->rulesets[0].limit_count, theirs->rulesets[0].limit_count);
        for (size_t j = 0; j < ours->rulesets[0].limit_count; j++) {
            const struct weir_limit_rule *one = &ours->rulesets[0].limits[j];
            const struct weir_limit_rule *other = &theirs->rulesets[0].limits[j];
            assert_string_equal(one->name, other->name);
            assert_memory_equal(&one->rate, &other->rate, sizeof one->rate);
            assert_int_equal(one->when, other->when);
        }
        weir_policy_free(ours);
        weir_policy_free(theirs);
        free(text);
        free(again);
    }
}

static void hides_secrets_but_not_the_names_of_variables(void **state)
{
    (void)state;
    static const struct {
        const char *json, *shown, *hidden;
    } rows[] = {
        { "{\"secret\":\"s3cret\"}", "\"secret\": \"***\"", "s3cret" },
        { "{\"secret\":\"${WEIR_SECRET}\"}", "\"secret\": \"${WEIR_SECRET}\"", "***" },
        { "{\"store\":{\"url\":\"redis://weir:s3cret@host:1/2\"}}", "\"redis://weir:***@host:1/2\"",
          "s3cret" },
        { "{\"store\":{\"url\":\"redis://weir:${PASSWORD}@host\"}}",
          "\"redis://weir:${PASSWORD}@host\"", "***" },
        { "{\"store\":{\"url\":\"redis+sentinel://h/m?sentinel_password=s3cret\"}}",
          "sentinel_password=***", "s3cret" },
        { "{\"store\":{\"url\":\"redis+sentinel://h/m?sentinel_password=${P}\"}}",
          "sentinel_password=${P}", "***" },
        { "{\"store\":{\"url\":\"memory:\"}}", "\"memory:\"", "***" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *text = NULL;
        struct weir_error error = WEIR_NO_ERROR;
        assert_int_equal(expand(rows[i].json, &text, &error), WEIR_OK);
        if (strstr(text, rows[i].shown) == NULL || strstr(text, rows[i].hidden) != NULL)
            fail_msg("%s became %s", rows[i].json, text);
        free(text);
    }
}

static void says_what_keeps_a_file_from_being_written_out(void **state)
{
    (void)state;
    char *text = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    assert_int_equal(expand("{", &text, &error), WEIR_E_JSON);
    error = (struct weir_error)WEIR_NO_ERROR;
    assert_int_equal(expand(POLICY("\"preset\":\"x\""), &text, &error), WEIR_E_VALUE);
    assert_string_equal(error.path, "/policies/p/preset");
    error = (struct weir_error)WEIR_NO_ERROR;
    assert_int_equal(weir_policy_expand("/nowhere/policy.json", &text, &error), WEIR_E_FILE);
    assert_int_equal(weir_policy_expand(NULL, &text, &error), WEIR_E_ARGUMENT);
    assert_null(text);
}

int main(void)
{
    setenv("SECRET", "a secret", 1);
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_each_preset),
        cmocka_unit_test(lets_the_file_change_a_preset),
        cmocka_unit_test(lets_the_file_change_what_is_inside),
        cmocka_unit_test(names_the_place_of_an_error_in_the_file),
        cmocka_unit_test(warns_of_nothing_that_is_a_presets_own),
        cmocka_unit_test(warns_of_what_the_file_makes_of_a_preset),
        cmocka_unit_test(keeps_the_way_back_open),
        cmocka_unit_test(takes_no_mask_for_a_secret),
        cmocka_unit_test(writes_a_preset_out_as_the_same_policy),
        cmocka_unit_test(hides_secrets_but_not_the_names_of_variables),
        cmocka_unit_test(says_what_keeps_a_file_from_being_written_out),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
