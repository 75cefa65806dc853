/* Labels of keys and clients: what operators read, where nobody may read everything. */
#include "test.h"

#include "base/hash.h"
#include "limit/combine.h"
#include "limit/label.h"

static struct weir_policy *parse(const char *json)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return policy;
}

static const struct weir_api_key api_key = { .id = "acme-free", .user = "ann", .tenant = "acme" };

/* Somebody with an API key of the keys file, whose user and tenant it names. */
static struct weir_identity whole_identity(void)
{
    return (struct weir_identity){
        .found = true,
        .client = { .family = WEIR_IPV4, .bytes = { 192, 0, 2, 7 } },
        .network = { .address = { .family = WEIR_IPV4, .bytes = { 192, 0, 2, 0 } }, .prefix = 24 },
        .api_key = &api_key,
        .user = WEIR_TEXT("ann"),
        .tenant = WEIR_TEXT("acme"),
        .plan = WEIR_TEXT("free"),
    };
}

/* subjects in keys */

#define LIMIT(name, by) "{\"name\":\"" name "\",\"by\":" by ",\"rate\":\"5/minute\"}"
#define POLICY(members, limits)                                                                    \
    "{\"secret\":\"s\",\"store\":{\"prefix\":\"my:app\"},"                                         \
    "\"policies\":{\"p\":{" members "\"limits\":[" limits "]}}}"

static void finds_the_subject_in_every_kind_of_key(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        const char *json;
        const char *subjects[3];
    } rows[] = {
        { "the slot is the client, one limit",
          POLICY("", LIMIT("a", "\"ip\"")),
          { "ip=192.0.2.0/24" } },
        { "several that share it",
          POLICY("", LIMIT("a", "\"api_key\"") "," LIMIT("b", "\"api_key\"")),
          { "api_key=acme-free", "api_key=acme-free" } },
        { "the slot is the policy, one limit",
          POLICY("\"slot\":\"policy\",", LIMIT("a", "[\"ip\",\"route\"]")),
          { "ip=192.0.2.0/24&route=/v1/:id" } },
        { "several, some that share it",
          POLICY("\"slot\":\"policy\",",
                 LIMIT("a", "\"ip\"") "," LIMIT("b", "\"ip\"") "," LIMIT("c", "\"tenant\"")),
          { "ip=192.0.2.0/24", "ip=192.0.2.0/24", "tenant=acme" } },
        { "everybody's", POLICY("", LIMIT("a", "\"global\"")), { "global=all" } },
        { "a penalty beside its limit",
          POLICY("", "{\"name\":\"a\",\"by\":\"ip\",\"rate\":\"5/minute\","
                     "\"penalty\":{\"after\":3,\"ban\":[\"1m\"]}}"),
          { "ip=192.0.2.0/24", "ip=192.0.2.0/24" } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        struct weir_policy *policy = parse(rows[i].json);
        const struct weir_identity who = whole_identity();
        const struct weir_asker asker = { .policy = policy,
                                          .identity = &who,
                                          .route = WEIR_TEXT("/v1/:id") };
        static char keys[WEIR_PLAN_KEY_BYTES];
        struct weir_plan_of_checks plan;
        weir_plan_init(&plan, keys, sizeof keys);
        assert_true(weir_plan_add(&plan, &policy->rulesets[0], &asker, 1));
        for (size_t n = 0; n < plan.count; n++) {
            struct weir_text subject =
                weir_subject_of_key(&plan.spends[n], policy, &policy->rulesets[0]);
            assert_non_null(subject.at);
            assert_int_equal(subject.length, strlen(rows[i].subjects[n]));
            assert_memory_equal(subject.at, rows[i].subjects[n], subject.length);
        }
        assert_null(plan.count < 3 ? rows[i].subjects[plan.count] : NULL);
        weir_policy_free(policy);
    }
}

static void finds_none_in_what_is_no_key_of_the_policy(void **state)
{
    (void)state;
    static const char *const texts[] = { "",
                                         "weir",
                                         "my:app:{",
                                         "my:app:{p",
                                         "my:app:{p}:p",
                                         "my:app:{p}:p:a",
                                         "my:app:{p}:p:a:gcra",
                                         "my:app:{p}:p::ip=1",
                                         "my:app:{q}:q:a:gcra:ip=1" };
    struct weir_policy *policy = parse(POLICY("\"slot\":\"policy\",", LIMIT("a", "\"ip\"")));
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        const struct weir_spend spend = { .key = texts[i], .key_length = strlen(texts[i]) };
        assert_null(weir_subject_of_key(&spend, policy, &policy->rulesets[0]).at);
    }
    weir_policy_free(policy);
}

/* labels */

static void says_of_a_subject_what_may_be_seen(void **state)
{
    (void)state;
    static const struct {
        const char *subject, *label;
        bool has_identity;
    } rows[] = {
        { "ip=192.0.2.0/24", "ip:192.0.2.0/24", false },
        { "api_key=acme-free&ip=192.0.2.0/24", "api_key:acme-free + ip:192.0.2.0/24", false },
        { "user=Zm9vYmFyMTIzNDU2Nzg5MA", "user#Zm9vYmFyMT", false },
        { "user=Zm9vYmFyMTIzNDU2Nzg5MA", "user:ann", true },
        { "tenant=acme", "tenant:acme", false },
        { "route=/v1/:id", "route:/v1/:id", false },
        { "global=all", "global", false },
        { "header:X-Device=Zm9vYmFyMTIzNDU2Nzg5MA", "header:X-Device#Zm9vYmFyMT", true },
        { "field:user.name=Zm9vYmFyMTIzNDU2Nzg5MA&ip=::/56",
          "field:user.name#Zm9vYmFyMT + ip:::/56", false },
        { "query:q=ab", "query:q#ab", false },
        { "param:id=Zm9vYmFyMTIzNDU2Nzg5MA", "param:id#Zm9vYmFyMT", false },
        { "device=Zm9vYmFyMTIzNDU2Nzg5MA", "device#Zm9vYmFyMT", false },
        { "long=Zm9vYmFyMTIzNDU2Nzg5MA", "long#Zm9vYmFyMT", false },
        { "no subject at all\x1b[2J", "no subject at all?[2J", false },
        { "tenant=a\xE2\x80\xAE"
          "b\xC2\x9B\xFF\xC3\xA9",
          "tenant:a?b??\xC3\xA9", false },
        { "", "", false },
    };
    const struct weir_identity who = whole_identity();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char label[WEIR_KEY_LABEL_CHARS];
        weir_subject_label(weir_text_from(rows[i].subject), rows[i].has_identity ? &who : NULL,
                           label);
        assert_string_equal(label, rows[i].label);
    }
    char label[WEIR_KEY_LABEL_CHARS];
    weir_subject_label((struct weir_text){ NULL, 0 }, &who, label);
    assert_string_equal(label, "");
}

static void shows_a_user_only_where_the_keys_file_names_it(void **state)
{
    (void)state;
    char label[WEIR_KEY_LABEL_CHARS];
    struct weir_identity who = whole_identity();
    who.user = WEIR_TEXT("bob@example.org"); /* the application has said so */
    weir_subject_label(WEIR_TEXT("user=Zm9vYmFyMTIzNDU2Nzg5MA"), &who, label);
    assert_string_equal(label, "user#Zm9vYmFyMT");
}

static void cuts_a_label_that_is_too_long(void **state)
{
    (void)state;
    char subject[600], label[WEIR_KEY_LABEL_CHARS];
    memset(subject, 'a', sizeof subject);
    memcpy(subject, "tenant=", 7);
    weir_subject_label((struct weir_text){ subject, sizeof subject }, NULL, label);
    assert_in_range(strlen(label), WEIR_KEY_LABEL_CHARS - 8, WEIR_KEY_LABEL_CHARS - 1);
    assert_string_equal(label + strlen(label) - 4, "a...");
}

/* clients */

static void assert_client(const struct weir_policy *policy, const struct weir_identity *who,
                          const char *wanted)
{
    struct weir_client client;
    char label[WEIR_KEY_LABEL_CHARS];
    weir_client_of(who, policy, &client);
    weir_client_label(&client, policy, label);
    assert_string_equal(label, wanted);
}

/* The label of a value that is hashed, as the store's keys begin. */
static const char *hashed(const struct weir_policy *policy, const char *dimension,
                          const char *value)
{
    static char text[64];
    char hash[WEIR_LABEL_CHARS + 1];
    weir_label(weir_text_from(value), policy->secret, hash);
    snprintf(text, sizeof text, "%s#%.10s", dimension, hash);
    return text;
}

static void calls_a_client_by_the_first_that_is_known(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY("", LIMIT("a", "\"ip\"")));
    struct weir_identity who = whole_identity();
    assert_client(policy, &who, "api_key:acme-free");
    who.api_key = NULL;
    assert_client(policy, &who, hashed(policy, "user", "ann"));
    who.user.length = 0;
    assert_client(policy, &who, "tenant:acme");
    who.tenant = WEIR_TEXT("Acme, Inc.");
    assert_client(policy, &who, hashed(policy, "tenant", "Acme, Inc."));
    who.tenant.length = 0;
    assert_client(policy, &who, "ip:192.0.2.0/24");
    who.client.family = WEIR_IPV6;
    who.network = (struct weir_network){
        .address = { .family = WEIR_IPV6, .bytes = { 0x20, 1, 0xd, 0xb8, 0, 1 } }, .prefix = 56
    };
    assert_client(policy, &who, "ip:2001:db8:1::/56");
    who.client.family = WEIR_NO_ADDRESS;
    assert_client(policy, &who, "");
    weir_policy_free(policy);
}

static void keeps_clients_with_long_names_apart(void **state)
{
    (void)state;
    char one[300], other[300];
    struct weir_policy *policy = parse(POLICY("", LIMIT("a", "\"ip\"")));
    struct weir_identity who = { .found = true };
    struct weir_client first, second;
    memset(one, 'a', sizeof one);
    memset(other, 'a', sizeof other);
    one[255] = other[254] = '\0';
    who.user = weir_text_from(one);
    weir_client_of(&who, policy, &first);
    who.user = weir_text_from(other);
    weir_client_of(&who, policy, &second);
    assert_memory_not_equal(first.bytes, second.bytes, 20);
    assert_client(policy, &who, hashed(policy, "user", other));
    const struct weir_api_key long_key = { .id = one };
    who.api_key = &long_key;
    assert_client(policy, &who, hashed(policy, "api_key", one));
    weir_policy_free(policy);
}

static void tells_a_user_from_a_tenant_of_the_same_name(void **state)
{
    (void)state;
    struct weir_policy *policy = parse(POLICY("", LIMIT("a", "\"ip\"")));
    const struct weir_identity user = { .user = WEIR_TEXT("acme") };
    const struct weir_identity tenant = { .tenant = WEIR_TEXT("acme") };
    struct weir_client one, other;
    weir_client_of(&user, policy, &one);
    weir_client_of(&tenant, policy, &other);
    assert_int_equal(one.length, other.length);
    assert_memory_not_equal(one.bytes, other.bytes, one.length);
    weir_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_subject_in_every_kind_of_key),
        cmocka_unit_test(finds_none_in_what_is_no_key_of_the_policy),
        cmocka_unit_test(says_of_a_subject_what_may_be_seen),
        cmocka_unit_test(shows_a_user_only_where_the_keys_file_names_it),
        cmocka_unit_test(cuts_a_label_that_is_too_long),
        cmocka_unit_test(calls_a_client_by_the_first_that_is_known),
        cmocka_unit_test(keeps_clients_with_long_names_apart),
        cmocka_unit_test(tells_a_user_from_a_tenant_of_the_same_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
