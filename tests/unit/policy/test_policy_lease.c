/* "lease" in a policy: what it becomes, what is refused, and what is warned of. */
#include "test.h"

#include <weir/policy.h>

#include "policy/lease_units.h"

static struct weir_policy *policy;
static struct weir_error error;

static enum weir_code parse(const char *top, const char *limit)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{%s\"store\":{\"url\":\"redis://127.0.0.1:1\"},\"secret\":"
             "\"0123456789abcdef0123456789abcdef\",\"user\":{\"header\":\"X-User\"},"
             "\"plans\":{\"free\":{\"planned\":{\"rate\":\"10/second\",\"burst\":20}},"
             "\"pro\":{\"planned\":{\"rate\":\"100/second\",\"burst\":2000}}},"
             "\"policies\":{\"p\":{\"limits\":[%s]}},"
             "\"routes\":[{\"match\":\"* /*\",\"policy\":\"p\"}]}",
             top, limit);
    error = (struct weir_error)WEIR_NO_ERROR;
    policy = NULL;
    return weir_policy_parse(json, strlen(json), NULL, &policy, &error);
}

#define LIMIT(more)   "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"1000/second\"," more "}"
#define PLANNED(more) "{\"name\":\"planned\",\"by\":\"ip\",\"rate\":\"plan\"," more "}"

static void reads_leases(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        uint64_t batch;
        uint32_t low_water_ppm, share_ppm;
    } rows[] = {
        { LIMIT("\"lease\":\"auto\""), 0, 200000, 0 },
        { LIMIT("\"lease\":{\"batch\":50}"), 50, 200000, 0 },
        { LIMIT("\"lease\":{\"batch\":1000,\"low_water\":0}"), 1000, 0, 0 },
        { LIMIT("\"lease\":{\"comment\":\"busy\",\"batch\":50,\"low_water\":0.35}"), 50, 350000,
          0 },
        { LIMIT("\"lease\":{\"batch\":\"auto\",\"share\":0.05}"), 0, 200000, 50000 },
        { LIMIT("\"algorithm\":\"token-bucket\",\"lease\":{\"batch\":1}"), 1, 200000, 0 },
        { LIMIT("\"algorithm\":\"fixed-window\",\"lease\":{\"batch\":9}"), 9, 200000, 0 },
        { PLANNED("\"lease\":{\"batch\":20}"), 20, 200000, 0 },
        { "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"unlimited\",\"lease\":{\"batch\":20}}", 20,
          200000, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (parse("", rows[i].limit) != WEIR_OK)
            fail_msg("%s: %s", rows[i].limit, error.text);
        const struct weir_lease *lease = policy->rulesets[0].limits[0].lease;
        assert_non_null(lease);
        assert_int_equal(lease->batch, rows[i].batch);
        assert_int_equal(lease->low_water_ppm, rows[i].low_water_ppm);
        assert_int_equal(lease->share_ppm, rows[i].share_ppm);
        weir_policy_free(policy);
    }
}

static void leases_nothing_by_itself(void **state)
{
    (void)state;
    assert_int_equal(parse("", LIMIT("\"burst\":5")), WEIR_OK);
    assert_null(policy->rulesets[0].limits[0].lease);
    weir_policy_free(policy);
}

static void refuses_what_is_no_lease(void **state)
{
    (void)state;
    static const struct {
        const char *limit;
        enum weir_code code;
        const char *below; /* "/policies/p/limits/0/lease" */
        const char *text;
    } rows[] = {
        { LIMIT("\"lease\":true"), WEIR_E_TYPE, "", "\"auto\", or an object" },
        { LIMIT("\"lease\":50"), WEIR_E_TYPE, "", "\"auto\", or an object" },
        { LIMIT("\"lease\":\"always\""), WEIR_E_VALUE, "", "\"always\"" },
        { LIMIT("\"lease\":{}"), WEIR_E_MISSING, "", "\"batch\" is missing" },
        { LIMIT("\"lease\":{\"batch\":5,\"batches\":5}"), WEIR_E_UNKNOWN_KEY, "/batches", "batch" },
        { LIMIT("\"lease\":{\"batch\":0}"), WEIR_E_VALUE, "/batch",
          "\"auto\", or a whole number from 1 to" },
        { LIMIT("\"lease\":{\"batch\":-5}"), WEIR_E_VALUE, "/batch", "-5" },
        { LIMIT("\"lease\":{\"batch\":1.5}"), WEIR_E_VALUE, "/batch", "1.5" },
        { LIMIT("\"lease\":{\"batch\":2000000000}"), WEIR_E_VALUE, "/batch", "to 1000000000" },
        { LIMIT("\"lease\":{\"batch\":\"many\"}"), WEIR_E_TYPE, "/batch", "\"auto\"" },
        { LIMIT("\"lease\":{\"batch\":5,\"low_water\":\"0.2\"}"), WEIR_E_TYPE, "/low_water",
          "from 0 to 0.9" },
        { LIMIT("\"lease\":{\"batch\":5,\"low_water\":1}"), WEIR_E_VALUE, "/low_water",
          "from 0 to 0.9" },
        { LIMIT("\"lease\":{\"batch\":5,\"low_water\":-0.1}"), WEIR_E_VALUE, "/low_water", "-0.1" },
        { LIMIT("\"lease\":{\"batch\":5,\"share\":0.1}"), WEIR_E_VALUE, "/share", "is a number" },
        { LIMIT("\"lease\":{\"batch\":\"auto\",\"share\":0}"), WEIR_E_VALUE, "/share", "above 0" },
        { LIMIT("\"lease\":{\"batch\":\"auto\",\"share\":0.6}"), WEIR_E_VALUE, "/share", "0.5" },
        { LIMIT("\"lease\":{\"batch\":1001}"), WEIR_E_VALUE, "", "holds, which is 1000" },
        { LIMIT("\"burst\":40,\"lease\":{\"batch\":50}"), WEIR_E_VALUE, "", "holds, which is 40" },
        { PLANNED("\"lease\":{\"batch\":21}"), WEIR_E_VALUE, "",
          "in the plan \"free\", which is 20" },
        { LIMIT("\"algorithm\":\"leaky-bucket\",\"lease\":\"auto\""), WEIR_E_VALUE, "",
          "A leaky-bucket cannot be leased" },
        { LIMIT("\"algorithm\":\"sliding-log\",\"lease\":\"auto\""), WEIR_E_VALUE, "",
          "A sliding-log cannot be leased" },
        { LIMIT("\"lease\":\"auto\",\"algorithm\":\"sliding-counter\""), WEIR_E_VALUE, "",
          "use gcra, token-bucket or fixed-window" },
        { LIMIT("\"lease\":\"auto\",\"count\":\"failures\""), WEIR_E_VALUE, "", "\"count\"" },
        { LIMIT("\"lease\":\"auto\",\"count\":{\"401\":2}"), WEIR_E_VALUE, "", "\"count\"" },
        { LIMIT("\"lease\":\"auto\",\"penalty\":{\"after\":3,\"ban\":[\"1m\"]}"), WEIR_E_VALUE, "",
          "\"penalty\"" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char path[80];
        snprintf(path, sizeof path, "/policies/p/limits/0/lease%s", rows[i].below);
        enum weir_code code = parse("", rows[i].limit);
        if (code != rows[i].code || strcmp(error.path, path) != 0
            || strstr(error.text, rows[i].text) == NULL)
            fail_msg("%s: %s: %s [%s]", rows[i].limit, error.path, error.text,
                     weir_code_name(code));
    }
}

static const struct weir_error *find_warning(enum weir_code code)
{
    const struct weir_error *found = NULL;
    for (size_t i = 0; i < weir_policy_warning_count(policy); i++)
        if (weir_policy_warning(policy, i)->code == code)
            found = weir_policy_warning(policy, i);
    return found;
}

static void warns_of_leases_that_do_not_help(void **state)
{
    (void)state;
    static const struct {
        const char *top, *limit;
        enum weir_code code;
        bool warns;
        const char *text;
    } rows[] = {
        { "\"instances\":3,", LIMIT("\"lease\":{\"batch\":50}"), WEIR_W_LEASE_BOUND, true,
          "up to 180 of the 1000 units" },
        { "\"instances\":3,", LIMIT("\"lease\":{\"batch\":25}"), WEIR_W_LEASE_BOUND, false, "" },
        { "\"instances\":3,", LIMIT("\"lease\":\"auto\""), WEIR_W_LEASE_BOUND, false, "" },
        { "\"instances\":3,", LIMIT("\"lease\":{\"batch\":\"auto\",\"share\":0.2}"),
          WEIR_W_LEASE_BOUND, true, "up to 720 of the 1000 units" },
        { "\"instances\":3,", LIMIT("\"lease\":{\"batch\":\"auto\",\"share\":0.02}"),
          WEIR_W_LEASE_BOUND, false, "" },
        { "\"instances\":3,", PLANNED("\"lease\":{\"batch\":5}"), WEIR_W_LEASE_BOUND, true,
          "of the 20 units of the limit \"planned\" in the plan \"free\"" },
        { "", LIMIT("\"lease\":\"auto\""), WEIR_W_LEASE_WITHOUT_INSTANCES, true, "\"instances\"" },
        { "\"instances\":1,", LIMIT("\"lease\":\"auto\""), WEIR_W_LEASE_WITHOUT_INSTANCES, false,
          "" },
        { "", LIMIT("\"lease\":{\"batch\":9}"), WEIR_W_LEASE_TOO_SHORT, true, "9000 us" },
        { "", LIMIT("\"lease\":{\"batch\":10}"), WEIR_W_LEASE_TOO_SHORT, false, "" },
        { "", LIMIT("\"algorithm\":\"fixed-window\",\"lease\":{\"batch\":9}"),
          WEIR_W_LEASE_TOO_SHORT, false, "" },
        { "", LIMIT("\"lease\":\"auto\"") ",{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"1/second\"}",
          WEIR_W_LEASED_IN_PART, true, "The limit \"b\" of the policy \"p\" is not leased" },
        { "",
          LIMIT("\"lease\":\"auto\"") ",{\"name\":\"b\",\"by\":\"ip\",\"rate\":\"1/"
                                      "second\",\"lease\":\"auto\"}",
          WEIR_W_LEASED_IN_PART, false, "" },
        { "", LIMIT("\"burst\":5"), WEIR_W_LEASED_IN_PART, false, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(parse(rows[i].top, rows[i].limit), WEIR_OK);
        const struct weir_error *warning = find_warning(rows[i].code);
        if ((warning != NULL) != rows[i].warns
            || (warning != NULL && strstr(warning->text, rows[i].text) == NULL))
            fail_msg("%s %s: %s", rows[i].limit, weir_code_name(rows[i].code),
                     warning == NULL ? "no warning" : warning->text);
        weir_policy_free(policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_leases),
        cmocka_unit_test(leases_nothing_by_itself),
        cmocka_unit_test(refuses_what_is_no_lease),
        cmocka_unit_test(warns_of_leases_that_do_not_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
