#include "test.h"

#include "identity/identity.h"
#include "peer.h"

#define HEADERS_MAX 6

/* Rules as a policy file would make them: the proxy is 10.0.0.1, "secret" is a key of user
 * "key-user" and tenant "key-tenant" on plan "key-plan", and "bare" one that says nothing. */
static void rules_start(struct weir_identity_rules *rules)
{
    static const char keys[] =
        "{\"keys\":[{\"id\":\"full\",\"user\":\"key-user\",\"tenant\":\"key-tenant\","
        "\"plan\":\"key-plan\",\"sha256\":"
        "\"2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\"},"
        "{\"id\":\"bare\",\"sha256\":"
        "\"9b828d53402d6e332ef05a2fe03063b359192571ba99fcd3b85074f46a72fd7e\"}]}";
    *rules = (struct weir_identity_rules){
        .form = WEIR_X_FORWARDED_FOR,
        .forwarded_header = WEIR_TEXT("X-Forwarded-For"),
        .prefixes = { .ipv4 = 32, .ipv6 = 56 },
        .api_key_header = WEIR_TEXT("X-API-Key"),
        .user_header = WEIR_TEXT("X-Auth-User"),
        .tenant_header = WEIR_TEXT("X-Auth-Tenant"),
    };
    assert_int_equal(weir_trust_add(&rules->trust, WEIR_TEXT("10.0.0.1"), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_keyring_parse(weir_text_from(keys), &rules->keys, NULL), WEIR_OK);
}

static int start(void **state)
{
    static struct weir_identity_rules rules;
    rules_start(&rules);
    *state = &rules;
    return 0;
}

static int finish(void **state)
{
    weir_identity_rules_finish(*state);
    return 0;
}

/* Header lines as name, value, name, value, …, up to the first NULL. */
typedef const char *lines[2 * HEADERS_MAX];

/* Adds what is found to `identity`; texts in it live as long as the literals. */
static void find(const struct weir_identity_rules *rules, const char *peer_text,
                 const char *const *line, struct weir_identity *identity)
{
    union peer peer = peer_from(peer_text);
    struct weir_line headers[HEADERS_MAX];
    size_t count = 0;
    for (; count < HEADERS_MAX && line[2 * count] != NULL; count++)
        headers[count] = (struct weir_line){ weir_text_from(line[2 * count]),
                                             weir_text_from(line[2 * count + 1]) };
    struct weir_facts facts = { .headers = headers, .header_count = count, .peer = &peer.any };
    weir_identity_find(rules, &facts, identity);
}

/* "" stands for not known, and known texts are never empty. */
static void assert_name(struct weir_text got, const char *wanted)
{
    assert_int_equal(got.at == NULL, wanted[0] == '\0');
    if (!weir_text_equal(got, weir_text_from(wanted)))
        fail_msg("\"%.*s\" is not \"%s\"", WEIR_TEXT_ARGS(got), wanted);
}

static void finds_the_address_and_what_told_it(void **state)
{
    static const struct {
        const char *when;
        const char *peer;
        lines headers;
        const char *client, *network, *source;
    } rows[] = {
        { "the peer's own", "192.0.2.1", { NULL }, "192.0.2.1", "192.0.2.1/32", "peer" },
        { "through a proxy",
          "10.0.0.1",
          { "x-forwarded-for", "2001:db8:0:1234::5" },
          "2001:db8:0:1234::5",
          "2001:db8:0:1200::/56",
          "X-Forwarded-For" },
        { "a header that is not believed",
          "192.0.2.1",
          { "X-Forwarded-For", "1.1.1.1" },
          "192.0.2.1",
          "192.0.2.1/32",
          "peer" },
        { "a header that cannot be read",
          "10.0.0.1",
          { "X-Forwarded-For", "unknown" },
          "10.0.0.1",
          "10.0.0.1/32",
          "peer" },
        { "only the configured header",
          "10.0.0.1",
          { "Forwarded", "for=1.1.1.1", "X-Real-IP", "2.2.2.2" },
          "10.0.0.1",
          "10.0.0.1/32",
          "peer" },
        { "IPv4 on a dual-stack socket",
          "::ffff:192.0.2.1",
          { NULL },
          "192.0.2.1",
          "192.0.2.1/32",
          "peer" },
        { "none", "unix", { NULL }, "", "", "peer" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[WEIR_ADDRESS_CHARS], network[WEIR_NETWORK_CHARS];
        struct weir_identity identity = { .found = false };
        print_message("    %s\n", rows[i].when);
        find(*state, rows[i].peer, rows[i].headers, &identity);
        assert_true(identity.found);
        weir_address_print(&identity.client, text);
        assert_string_equal(text, rows[i].client);
        weir_network_print(&identity.network, network);
        assert_string_equal(network, rows[i].network);
        assert_name(identity.source, rows[i].source);
        assert_false(weir_identity_is_known(&identity));
    }
}

static void keeps_the_peer_beside_the_client(void **state)
{
    char text[WEIR_ADDRESS_CHARS];
    struct weir_identity identity = { .found = false };
    find(*state, "10.0.0.1", (lines){ "X-Forwarded-For", "1.1.1.1" }, &identity);
    weir_address_print(&identity.peer, text);
    assert_string_equal(text, "10.0.0.1");
}

static const struct key_row {
    const char *when;
    lines headers;
    const char *id; /* NULL: none */
    bool unknown;
} key_rows[] = {
    { "no key", { NULL }, NULL, false },
    { "its header", { "x-api-key", "secret" }, "full", false },
    { "blanks around it", { "X-API-Key", " secret\t" }, "full", false },
    { "an unknown one", { "X-API-Key", "guess" }, NULL, true },
    { "an empty header", { "X-API-Key", "" }, NULL, false },
    { "a blank header", { "X-API-Key", "  " }, NULL, false },
    { "bearer", { "Authorization", "Bearer secret" }, "full", false },
    { "bearer in any case, and blanks", { "authorization", "bEARER   secret " }, "full", false },
    { "an unknown bearer", { "Authorization", "Bearer guess" }, NULL, true },
    { "bearer without a token", { "Authorization", "Bearer" }, NULL, false },
    { "bearer with blanks only", { "Authorization", "Bearer  " }, NULL, false },
    { "another scheme", { "Authorization", "Basic secret" }, NULL, false },
    { "a scheme that starts like it", { "Authorization", "Bearers secret" }, NULL, false },
    { "no scheme", { "Authorization", "secret" }, NULL, false },
    { "an empty authorization", { "Authorization", "" }, NULL, false },
    { "both", { "Authorization", "Bearer bare", "X-API-Key", "secret" }, "full", false },
    { "an unknown one hides a bearer",
      { "X-API-Key", "guess", "Authorization", "Bearer bare" },
      NULL,
      true },
    { "an empty one does not", { "X-API-Key", "", "Authorization", "Bearer bare" }, "bare", false },
};

static void finds_the_api_key(void **state)
{
    for (size_t i = 0; i < COUNT_OF(key_rows); i++) {
        struct weir_identity identity = { .found = false };
        print_message("    %s\n", key_rows[i].when);
        find(*state, "192.0.2.1", key_rows[i].headers, &identity);
        assert_int_equal(identity.api_key_unknown, key_rows[i].unknown);
        assert_int_equal(identity.api_key != NULL, key_rows[i].id != NULL);
        if (key_rows[i].id != NULL)
            assert_string_equal(identity.api_key->id, key_rows[i].id);
        assert_int_equal(weir_identity_is_known(&identity), key_rows[i].id != NULL);
    }
}

static void asks_for_no_key_where_none_is_configured(void **state)
{
    struct weir_identity_rules without_header = *(struct weir_identity_rules *)*state;
    struct weir_identity_rules without_ring = without_header;
    without_header.api_key_header = (struct weir_text){ NULL, 0 };
    without_ring.keys = NULL;
    for (size_t i = 0; i < COUNT_OF(key_rows); i++) {
        struct weir_identity identity = { .found = false };
        find(&without_header, "192.0.2.1", key_rows[i].headers, &identity);
        find(&without_ring, "192.0.2.1", key_rows[i].headers, &identity);
        assert_null(identity.api_key);
        assert_false(identity.api_key_unknown);
    }
}

static void reads_a_bearer_where_authorization_is_the_header(void **state)
{
    struct weir_identity_rules rules = *(struct weir_identity_rules *)*state;
    struct weir_identity identity = { .found = false };
    rules.api_key_header = WEIR_TEXT("authorization");
    find(&rules, "192.0.2.1", (lines){ "Authorization", "Bearer secret" }, &identity);
    assert_non_null(identity.api_key);
}

static void knows_no_key_in_an_empty_ring(void **state)
{
    struct weir_identity_rules rules = *(struct weir_identity_rules *)*state;
    struct weir_identity identity = { .found = false };
    assert_int_equal(weir_keyring_parse(WEIR_TEXT("{\"keys\":[]}"), &rules.keys, NULL), WEIR_OK);
    find(&rules, "192.0.2.1", (lines){ "X-API-Key", "secret" }, &identity);
    weir_keyring_free(rules.keys);
    assert_true(identity.api_key_unknown);
}

static void takes_names_from_the_application_then_the_key_then_the_proxy(void **state)
{
    static const struct {
        const char *when;
        const char *peer;
        const char *app; /* what the application sets, for all three; NULL: nothing */
        lines headers;
        const char *user, *tenant, *plan;
    } rows[] = {
        { "nobody says", "10.0.0.1", NULL, { NULL }, "", "", "" },
        { "the application", "10.0.0.1", "app", { NULL }, "app", "app", "app" },
        { "the key",
          "192.0.2.1",
          NULL,
          { "X-API-Key", "secret" },
          "key-user",
          "key-tenant",
          "key-plan" },
        { "the proxy",
          "10.0.0.1",
          NULL,
          { "X-Auth-User", "pu", "X-Auth-Tenant", "pt" },
          "pu",
          "pt",
          "" },
        { "application before key",
          "192.0.2.1",
          "app",
          { "X-API-Key", "secret" },
          "app",
          "app",
          "app" },
        { "key before proxy",
          "10.0.0.1",
          NULL,
          { "X-API-Key", "secret", "X-Auth-User", "pu", "X-Auth-Tenant", "pt" },
          "key-user",
          "key-tenant",
          "key-plan" },
        { "proxy where the key is silent",
          "10.0.0.1",
          NULL,
          { "X-API-Key", "bare", "X-Auth-User", "pu" },
          "pu",
          "",
          "" },
        { "an untrusted peer",
          "192.0.2.1",
          NULL,
          { "X-Auth-User", "pu", "X-Auth-Tenant", "pt" },
          "",
          "",
          "" },
        { "an unknown key says nothing", "192.0.2.1", NULL, { "X-API-Key", "guess" }, "", "", "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_text app = weir_text_from(rows[i].app);
        struct weir_identity identity = { .user = app, .tenant = app, .plan = app };
        print_message("    %s\n", rows[i].when);
        find(*state, rows[i].peer, rows[i].headers, &identity);
        assert_name(identity.user, rows[i].user);
        assert_name(identity.tenant, rows[i].tenant);
        assert_name(identity.plan, rows[i].plan);
    }
}

static void ignores_a_proxys_name_that_is_not_plain(void **state)
{
    char long_name[WEIR_NAME_MAX + 2];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    const struct {
        const char *when;
        lines headers;
        const char *user;
    } rows[] = {
        { "plain", { "X-Auth-User", "ann" }, "ann" },
        { "blanks around it", { "x-auth-user", " ann b\t" }, "ann b" },
        { "letters beyond ASCII", { "X-Auth-User", "\xC3\xA4nn" }, "\xC3\xA4nn" },
        { "the longest", { "X-Auth-User", long_name + 1 }, long_name + 1 },
        { "too long", { "X-Auth-User", long_name }, "" },
        { "empty", { "X-Auth-User", "" }, "" },
        { "blank", { "X-Auth-User", "  " }, "" },
        { "a control character", { "X-Auth-User", "a\tnn" }, "" },
        { "a DEL", { "X-Auth-User", "ann\x7F" }, "" },
        { "two lines", { "X-Auth-User", "ann", "x-auth-user", "bob" }, "" },
        { "an empty line beside it", { "X-Auth-User", "", "X-Auth-User", "bob" }, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_identity identity = { .found = false };
        print_message("    %s\n", rows[i].when);
        find(*state, "10.0.0.1", rows[i].headers, &identity);
        assert_name(identity.user, rows[i].user);
        assert_int_equal(weir_identity_is_known(&identity), rows[i].user[0] != '\0');
    }
}

static void believes_names_behind_a_trusted_unix_socket(void **state)
{
    struct weir_identity_rules rules = *(struct weir_identity_rules *)*state;
    struct weir_identity before = { .found = false }, after = { .found = false };
    find(&rules, "unix", (lines){ "X-Auth-Tenant", "pt" }, &before);
    rules.trust.unix_peer = true;
    find(&rules, "unix", (lines){ "X-Auth-Tenant", "pt" }, &after);
    assert_name(before.tenant, "");
    assert_name(after.tenant, "pt");
    assert_int_equal(after.client.family, WEIR_NO_ADDRESS);
}

static void takes_an_empty_name_of_the_application_for_none(void **state)
{
    struct weir_identity identity = { .user = WEIR_TEXT(""), .plan = WEIR_TEXT("") };
    assert_false(weir_identity_is_known(&identity));
    find(*state, "192.0.2.1", (lines){ "X-API-Key", "secret" }, &identity);
    assert_name(identity.user, "key-user");
    assert_name(identity.plan, "key-plan");
}

static void is_known_by_more_than_a_plan(void **state)
{
    (void)state;
    struct weir_identity by_plan = { .plan = WEIR_TEXT("free") };
    struct weir_identity by_tenant = { .tenant = WEIR_TEXT("acme") };
    assert_false(weir_identity_is_known(&by_plan));
    assert_true(weir_identity_is_known(&by_tenant));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_the_address_and_what_told_it, start, finish),
        cmocka_unit_test_setup_teardown(keeps_the_peer_beside_the_client, start, finish),
        cmocka_unit_test_setup_teardown(finds_the_api_key, start, finish),
        cmocka_unit_test_setup_teardown(asks_for_no_key_where_none_is_configured, start, finish),
        cmocka_unit_test_setup_teardown(reads_a_bearer_where_authorization_is_the_header, start,
                                        finish),
        cmocka_unit_test_setup_teardown(knows_no_key_in_an_empty_ring, start, finish),
        cmocka_unit_test_setup_teardown(
            takes_names_from_the_application_then_the_key_then_the_proxy, start, finish),
        cmocka_unit_test_setup_teardown(ignores_a_proxys_name_that_is_not_plain, start, finish),
        cmocka_unit_test_setup_teardown(believes_names_behind_a_trusted_unix_socket, start, finish),
        cmocka_unit_test_setup_teardown(takes_an_empty_name_of_the_application_for_none, start,
                                        finish),
        cmocka_unit_test(is_known_by_more_than_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
