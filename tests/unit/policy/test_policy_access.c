/* Fields of bodies, what a success takes back, and lists of clients, as a policy file says them. */
#include "parse.h"

#include <unistd.h>

#define POLICY(rest) "{\"policies\":{\"p\":{" rest "}}}"
#define LIMITS(list) "\"limits\":[" list "]"
#define PLAIN        "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/hour\"}"
#define BY(by)       "{\"name\":\"a\",\"by\":" by ",\"rate\":\"5/hour\"}"

struct row {
    const char *json;
    enum weir_code code;
    const char *path;
    const char *text; /* a part of it */
};

static void refuse_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        print_message("    %s\n", rows[i].json);
        const struct weir_error error = refusal(rows[i].json);
        assert_error(&error, rows[i].code, rows[i].path, rows[i].text);
    }
}

/* fields */

static void gathers_the_fields_that_limits_count_by(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(
        "{\"body_max\":\"4KiB\",\"policies\":{"
        "\"p\":{" LIMITS(
            "{\"name\":\"a\",\"by\":[\"ip\",\"field:username\"],\"rate\":\"5/hour\"},"
            "{\"name\":\"b\",\"by\":\"field:user.name|field:username|ip\","
            "\"rate\":\"5/hour\",\"exact\":true}") ",\"body_max\":\"2MiB\"},"
                                                   "\"q\":{" LIMITS(BY(
                                                       "\"field:a b\"")) "},\"r\":{" LIMITS(PLAIN) "}}}");
    const struct weir_ruleset *ruleset = &policy->rulesets[0];
    assert_int_equal(ruleset->field_count, 2);
    assert_string_equal(text_of(ruleset->fields[0]), "username");
    assert_string_equal(text_of(ruleset->fields[1]), "user.name");
    assert_int_equal(ruleset->body_max_bytes, 2 << 20);
    assert_int_equal(ruleset->limits[0].by.parts[1].alternatives[0].kind, WEIR_BY_FIELD);
    assert_false(ruleset->limits[0].by.parts[1].alternatives[0].exact);
    assert_true(ruleset->limits[1].by.parts[0].alternatives[0].exact);
    assert_int_equal(policy->rulesets[1].field_count, 1);
    assert_string_equal(text_of(policy->rulesets[1].fields[0]), "a b");
    assert_int_equal(policy->rulesets[1].body_max_bytes, 4 << 10);
    assert_int_equal(policy->rulesets[2].field_count, 0);
    weir_policy_free(policy);

    policy = parse(POLICY(LIMITS(BY("\"field:x\""))));
    assert_int_equal(policy->rulesets[0].body_max_bytes, 16 << 10);
    weir_policy_free(policy);
}

#define SIX(n)                                                                                     \
    "[\"field:" n "1\",\"field:" n "2\",\"field:" n "3\",\"field:" n "4\",\"field:" n              \
    "5\",\"field:" n "6\"]"

static void refuses_fields_that_cannot_be(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { POLICY(LIMITS(BY("\"field:\""))), WEIR_E_VALUE, "/policies/p/limits/0/by",
          "wanted behind the colon is the name of a field of the body" },
        { POLICY(LIMITS(BY("\"field:a\\nb\""))), WEIR_E_VALUE, "/policies/p/limits/0/by",
          "the name of a field" },
        { POLICY(LIMITS(BY("\"feild:a\""))), WEIR_E_VALUE, "/policies/p/limits/0/by",
          "did you mean \"field:\"?" },
        { POLICY(LIMITS(PLAIN) ",\"body_max\":\"2KiB\""), WEIR_E_VALUE, "/policies/p/body_max",
          "no limit of this policy counts by a field" },
        { POLICY(LIMITS(BY("\"field:x\"")) ",\"body_max\":2048"), WEIR_E_TYPE,
          "/policies/p/body_max", "a number of bytes from \"1KiB\" to \"16MiB\"" },
        { POLICY(LIMITS(BY("\"field:x\"")) ",\"body_max\":\"17MiB\""), WEIR_E_VALUE,
          "/policies/p/body_max", "The value is \"17MiB\"" },
        { "{\"body_max\":\"512\"}", WEIR_E_VALUE, "/body_max", "from \"1KiB\"" },
        { POLICY(LIMITS(BY(SIX("a")) ",{\"name\":\"b\",\"by\":" SIX(
              "b") ",\"rate\":\"5/hour\"},"
                   "{\"name\":\"c\",\"by\":" SIX("c") ",\"rate\":\"5/hour\"}")),
          WEIR_E_VALUE, "/policies/p/limits", "more than 16 fields" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

/* Who guesses passwords does not get in because the store is down. */
static void takes_a_policy_with_fields_for_one_that_guards_a_login(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY(LIMITS(BY("\"field:x\""))));
    assert_int_equal(policy->rulesets[0].on_store_failure.error, WEIR_FAIL_CLOSED);
    weir_policy_free(policy);
    policy = parse(POLICY(LIMITS(BY("\"field:x\"")) ",\"on_store_failure\":\"open\""));
    assert_int_equal(weir_policy_warning(policy, 0)->code, WEIR_W_OPEN_ON_LOGIN);
    weir_policy_free(policy);
    policy = parse(
        "{\"store\":{\"url\":\"redis://h\"},\"policies\":{\"p\":{" LIMITS(BY("\"field:x\"")) "}}}");
    const struct weir_error *warning = weir_policy_warning(policy, 0);
    assert_int_equal(warning->code, WEIR_W_NO_SECRET);
    assert_string_equal(warning->path, "/policies/p/limits/0/by");
    weir_policy_free(policy);
}

/* on_success */

#define ACCOUNT(rest) "{\"name\":\"account\",\"by\":\"field:x\",\"rate\":\"9/hour\"" rest "}"
#define PAIR(rest)    "{\"name\":\"pair\",\"by\":[\"ip\",\"field:x\"],\"rate\":\"5/hour\"" rest "}"
#define RESET         ",\"on_success\":\"reset\""
#define FORGIVE       ",\"on_success\":{\"forgive\":\"pair\"}"
#define FIRST         "/policies/p/limits/0/on_success"

static void knows_what_a_success_takes_back(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY(LIMITS(ACCOUNT(FORGIVE) "," PAIR(RESET) "," PLAIN)));
    const struct weir_limit_rule *limits = policy->rulesets[0].limits;
    assert_int_equal(limits[0].on_success, WEIR_FORGIVES);
    assert_ptr_equal(limits[0].forgives, &limits[1]);
    assert_int_equal(limits[1].on_success, WEIR_RESETS);
    assert_int_equal(limits[2].on_success, WEIR_SETTLES);
    weir_policy_free(policy);

    static const char *const accounts[] = { "\"user\"", "\"api_key\"", "\"field:x\"",
                                            "[\"ip\",\"user|api_key\"]",
                                            "[\"user|ip\",\"field:x\"]" };
    for (size_t i = 0; i < COUNT_OF(accounts); i++) {
        char json[300];
        snprintf(json, sizeof json,
                 POLICY(LIMITS("{\"name\":\"a\",\"by\":%s,\"rate\":\"5/hour\"" RESET "}")),
                 accounts[i]);
        weir_policy_free(parse(json));
    }
}

static void lets_nobody_clear_what_is_counted_for_others(void **state)
{
    (void)state;
    static const char *const shared[] = { "\"ip\"",      "\"global\"",   "\"tenant\"", "\"client\"",
                                          "\"user|ip\"", "\"header:X\"", "\"route\"" };
    for (size_t i = 0; i < COUNT_OF(shared); i++) {
        char json[300];
        snprintf(json, sizeof json,
                 POLICY(LIMITS("{\"name\":\"a\",\"by\":%s,\"rate\":\"5/hour\"" RESET "}")),
                 shared[i]);
        print_message("    %s\n", shared[i]);
        const struct weir_error error = refusal(json);
        assert_error(&error, WEIR_E_VALUE, FIRST, "by logging in");
    }
}

static void refuses_to_take_back_what_it_cannot(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { POLICY(LIMITS(ACCOUNT(",\"on_success\":\"forget\""))), WEIR_E_VALUE, FIRST, "\"reset\"" },
        { POLICY(LIMITS(ACCOUNT(",\"on_success\":true"))), WEIR_E_TYPE, FIRST,
          "\"reset\", or {\"forgive\": \"NAME\"}" },
        { POLICY(LIMITS(ACCOUNT(",\"on_success\":{}"))), WEIR_E_MISSING, FIRST,
          "\"forgive\" is missing" },
        { POLICY(LIMITS(ACCOUNT(",\"on_success\":{\"forgive\":1}"))), WEIR_E_TYPE, FIRST "/forgive",
          "the name of another limit" },
        { POLICY(LIMITS(ACCOUNT(",\"on_success\":{\"forgive\":\"pairs\"}") "," PAIR(RESET))),
          WEIR_E_REFERENCE, FIRST "/forgive",
          "\"pairs\", which is no limit of this policy; did you mean \"pair\"?" },
        { POLICY(LIMITS(ACCOUNT(FORGIVE) "," PAIR(""))), WEIR_E_VALUE, FIRST "/forgive",
          "give it \"on_success\": \"reset\"" },
        { POLICY(LIMITS(ACCOUNT(",\"on_success\":{\"forgive\":\"account\"}"))), WEIR_E_VALUE,
          FIRST "/forgive", "the next success would forgive it again" },
        { POLICY(LIMITS("{\"name\":\"account\",\"by\":\"field:y\",\"rate\":\"9/hour\"" FORGIVE
                        "}," PAIR(RESET))),
          WEIR_E_VALUE, FIRST "/forgive", "what it has counted may be others'" },
        { POLICY(LIMITS(ACCOUNT(FORGIVE ",\"exact\":true") "," PAIR(RESET))), WEIR_E_VALUE,
          FIRST "/forgive", "does not count by all that \"account\" counts by" },
        { POLICY(LIMITS(ACCOUNT(FORGIVE ",\"algorithm\":\"sliding-log\"") "," PAIR(RESET))),
          WEIR_E_VALUE, FIRST "/forgive", "What a sliding-log has counted cannot be given back" },
        { POLICY(LIMITS(ACCOUNT(FORGIVE ",\"algorithm\":\"leaky-bucket\"") "," PAIR(RESET))),
          WEIR_E_VALUE, FIRST "/forgive", "wanted is gcra, token-bucket" },
        { POLICY(LIMITS(ACCOUNT(RESET ",\"count\":\"successes\""))), WEIR_E_VALUE, FIRST,
          "counts successes, and each would clear it" },
    };
    refuse_all(rows, COUNT_OF(rows));
}

/* lists */

static char keys_file[64];

static int write_keys(void **state)
{
    (void)state;
    strcpy(keys_file, "/tmp/weir-keys-XXXXXX");
    int file = mkstemp(keys_file);
    FILE *stream = fdopen(file, "w");
    assert_non_null(stream);
    assert_true(fputs("{\"keys\": [{\"id\": \"acme-free\", \"sha256\":"
                      " \"2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae\"}]}",
                      stream)
                >= 0);
    return fclose(stream);
}

static int remove_keys(void **state)
{
    (void)state;
    return unlink(keys_file);
}

static struct weir_identity from(const char *address)
{
    struct weir_identity identity = { .found = true };
    assert_true(weir_address_parse(weir_text_from(address), &identity.client));
    return identity;
}

static void finds_who_is_named(void **state)
{
    (void)state;
    char json[600];
    snprintf(
        json, sizeof json,
        "{\"api_keys\":{\"file\":\"%s\"},\"deny\":{\"comment\":\"July\",\"ip\":[\"10.0.0.0/8\","
        "\"2001:db8::/32\",\"::ffff:192.0.2.0/120\"],\"api_key\":[\"acme-free\"],"
        "\"tenant\":[\"t1\",\"t2\"],\"user\":[\"bob\"]},\"allow\":{\"ip\":[]}}",
        keys_file);
    struct weir_policy *policy = parse(json);
    const struct weir_client_list *deny = policy->access.deny;
    static const struct {
        const char *address;
        const char *by;
    } rows[] = {
        { "10.255.0.1", "address" },      { "11.0.0.1", NULL },
        { "192.0.2.9", "address" },       { "192.0.3.9", NULL },
        { "2001:db8::9", "address" },     { "2001:db9::9", NULL },
        { "::ffff:10.0.0.9", "address" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].address);
        struct weir_identity identity = from(rows[i].address);
        const char *by = weir_list_names(deny, &identity);
        assert_string_equal(by == NULL ? "" : by, rows[i].by == NULL ? "" : rows[i].by);
    }
    struct weir_identity who = { .api_key = weir_keyring_at(policy->identity.keys, 0) };
    assert_string_equal(weir_list_names(deny, &who), "API key");
    who = (struct weir_identity){ .tenant = WEIR_TEXT("t2") };
    assert_string_equal(weir_list_names(deny, &who), "tenant");
    who = (struct weir_identity){ .user = WEIR_TEXT("bob") };
    assert_string_equal(weir_list_names(deny, &who), "user");
    who = (struct weir_identity){ .user = WEIR_TEXT("Bob"), .tenant = WEIR_TEXT("bob") };
    assert_null(weir_list_names(deny, &who));
    assert_null(weir_list_names(policy->access.allow, &who));
    assert_null(weir_list_names(NULL, &who));
    weir_policy_free(policy);
}

static void refuses_lists_that_name_nobody(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "{\"allow\":[\"10.0.0.1\"]}", WEIR_E_TYPE, "/allow", "wanted is an object" },
        { "{\"deny\":{\"ips\":[]}}", WEIR_E_UNKNOWN_KEY, "/deny/ips", "did you mean \"ip\"?" },
        { "{\"deny\":{\"ip\":\"10.0.0.1\"}}", WEIR_E_TYPE, "/deny/ip", "wanted is a list" },
        { "{\"deny\":{\"ip\":[\"10.0.0.1\",\"10.1\"]}}", WEIR_E_VALUE, "/deny/ip/1",
          "The value is \"10.1\": wanted is an address, or a block" },
        { "{\"deny\":{\"ip\":[\"lb.example\"]}}", WEIR_E_VALUE, "/deny/ip/0",
          "host names are not looked up" },
        { "{\"deny\":{\"ip\":[\"10.0.0.0/33\"]}}", WEIR_E_VALUE, "/deny/ip/0",
          "the prefix length must be" },
        { "{\"deny\":{\"ip\":[7]}}", WEIR_E_TYPE, "/deny/ip/0", "such as \"10.0.0.0/8\"" },
        { "{\"deny\":{\"user\":[\"\"]}}", WEIR_E_VALUE, "/deny/user/0", "wanted is a name" },
        { "{\"allow\":{\"tenant\":[5]}}", WEIR_E_TYPE, "/allow/tenant/0", "wanted is a name" },
        { "{\"deny\":{\"api_key\":[\"a\"]}}", WEIR_E_REFERENCE, "/deny/api_key",
          "There are no keys to name" },
        { POLICY(LIMITS(PLAIN) ",\"deny\":{\"ip\":[\"x\"]}"), WEIR_E_VALUE, "/policies/p/deny/ip/0",
          "wanted is an address" },
        { POLICY(LIMITS(PLAIN) ",\"allow\":{\"ip\":[\"x\"]}"), WEIR_E_VALUE,
          "/policies/p/allow/ip/0", "wanted is an address" },
    };
    refuse_all(rows, COUNT_OF(rows));
    char json[300];
    snprintf(json, sizeof json, "{\"api_keys\":{\"file\":\"%s\"},\"deny\":{\"api_key\":[\"%s\"]}}",
             keys_file, "acme-fre");
    const struct weir_error error = refusal(json);
    assert_error(&error, WEIR_E_REFERENCE, "/deny/api_key/0",
                 "\"acme-fre\" is no id in the keys file; did you mean \"acme-free\"?");
}

/* The key itself in the place of its id is the likely mistake. */
static void refuses_a_part_of_a_limit_for_a_key_that_there_is_not(void **state)
{
    (void)state;
    static const char format[] =
        "{\"api_keys\":{\"file\":\"%s\"},\"policies\":{\"p\":{\"concurrency\":{\"adaptive\":{},"
        "\"partition_by\":\"api_key\",\"partitions\":{\"%s\":0.5}}}}}";
    char json[400];
    snprintf(json, sizeof json, format, keys_file, "foo");
    const struct weir_error error = refusal(json);
    assert_error(&error, WEIR_E_REFERENCE, "/policies/p/concurrency/partitions/foo",
                 "\"foo\" is no id in the keys file.");
    snprintf(json, sizeof json, format, keys_file, "acme-free");
    weir_policy_free(parse(json));
}

static void bounds_the_length_of_lists(void **state)
{
    (void)state;
    static char json[1025 * 11 + 100];
    strcpy(json, "{\"deny\":{\"ip\":[\"10.0.0.1\"");
    for (int i = 0; i < 1024; i++)
        strcat(json, ",\"10.0.0.1\"");
    strcat(json, "]}}");
    const struct weir_error error = refusal(json);
    assert_error(&error, WEIR_E_VALUE, "/deny/ip", "The list has 1025 items; wanted are at most");
}

static void warns_of_letting_everybody_through(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"allow\":{\"ip\":[\"10.0.0.0/8\",\"0.0.0.0/0\"]},\"deny\":{\"ip\":[\"::/0\"]},"
              "\"policies\":{\"p\":{" LIMITS(PLAIN) ",\"allow\":{\"ip\":[\"::/0\"]},"
                                                    "\"on_store_failure\":\"closed\"}}}");
    static const char *const paths[] = { "/allow/ip/1", "/policies/p/allow/ip/0" };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        assert_int_equal(weir_policy_warning(policy, i)->code, WEIR_W_ALLOWS_EVERYONE);
        assert_string_equal(weir_policy_warning(policy, i)->path, paths[i]);
    }
    assert_non_null(strstr(weir_policy_warning(policy, 0)->text, "0.0.0.0/0 is every address"));
    weir_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gathers_the_fields_that_limits_count_by),
        cmocka_unit_test(refuses_fields_that_cannot_be),
        cmocka_unit_test(takes_a_policy_with_fields_for_one_that_guards_a_login),
        cmocka_unit_test(knows_what_a_success_takes_back),
        cmocka_unit_test(lets_nobody_clear_what_is_counted_for_others),
        cmocka_unit_test(refuses_to_take_back_what_it_cannot),
        cmocka_unit_test(finds_who_is_named),
        cmocka_unit_test(refuses_lists_that_name_nobody),
        cmocka_unit_test(refuses_a_part_of_a_limit_for_a_key_that_there_is_not),
        cmocka_unit_test(bounds_the_length_of_lists),
        cmocka_unit_test(warns_of_letting_everybody_through),
    };
    return cmocka_run_group_tests(tests, write_keys, remove_keys);
}
