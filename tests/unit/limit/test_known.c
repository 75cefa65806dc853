/* Cookies of known devices: who made them is seen, and for whom they are. */
#include "test.h"

#include "limit/known.h"

#define NOW UINT64_C(1800000000)

static struct weir_policy policy = { .secret = "secret of this test" };
static const struct weir_known rules = {
    .cookie = "known", .cookie_s = 1000, .path = "/login", .is_secure = true
};
static const struct weir_ruleset ruleset = { .name = "login", .known = &rules };

static struct weir_account account_of(const char *subject)
{
    return (struct weir_account){ &policy, &ruleset, weir_text_from(subject) };
}

/* The cookie that a new device gets, as a client sends it back. */
static const char *cookie_for(const struct weir_account *account, uint64_t now_s)
{
    static char cookie[WEIR_COOKIE_BYTES];
    struct weir_buffer text = weir_buffer_init(cookie, sizeof cookie);
    struct weir_device device;
    weir_device_new(account, now_s, &device);
    weir_device_write(account, &device, now_s, &text);
    assert_non_null(weir_buffer_string(&text));
    *strchr(cookie, ';') = '\0';
    return cookie;
}

static bool is_known(const struct weir_account *account, const char *line, uint64_t now_s,
                     struct weir_device *device)
{
    const struct weir_line lines[] = { { WEIR_TEXT("Host"), WEIR_TEXT("a") },
                                       { WEIR_TEXT("cookie"), weir_text_from(line) } };
    const struct weir_facts facts = { .headers = lines, .header_count = COUNT_OF(lines) };
    return weir_device_find(account, &facts, now_s, device);
}

static void finds_its_own_cookie(void **state)
{
    (void)state;
    struct weir_account ann = account_of("field:username=ann");
    struct weir_device device;
    char line[2 * WEIR_COOKIE_BYTES];
    const char *cookie = cookie_for(&ann, NOW);
    static const struct {
        const char *before, *behind;
    } forms[] = { { "", "" }, { "a=b; ", "" }, { "a; =;;", " ;c=d" }, { "  ", "  " } };
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        snprintf(line, sizeof line, "%s%s%s", forms[i].before, cookie, forms[i].behind);
        assert_true(is_known(&ann, line, NOW, &device));
        assert_int_equal(device.expires_s, NOW + 1000);
        assert_int_equal(strlen(device.id), WEIR_LABEL_CHARS);
    }
}

static void knows_it_until_it_expires(void **state)
{
    (void)state;
    struct weir_account ann = account_of("field:username=ann");
    struct weir_device device;
    const char *cookie = cookie_for(&ann, NOW);
    assert_true(is_known(&ann, cookie, NOW + 999, &device));
    assert_false(is_known(&ann, cookie, NOW + 1000, &device));
    assert_true(is_known(&ann, cookie, NOW + 500, &device));
    assert_false(weir_device_is_old(&ann, &device, NOW + 500));
    assert_true(weir_device_is_old(&ann, &device, NOW + 501));
}

static void takes_no_cookie_of_another(void **state)
{
    (void)state;
    static const struct weir_ruleset other_ruleset = { .name = "admin", .known = &rules };
    static struct weir_policy other_policy = { .secret = "another secret" };
    struct weir_account ann = account_of("field:username=ann");
    struct weir_account others[] = { account_of("field:username=bob"), ann, ann };
    struct weir_device device;
    others[1].ruleset = &other_ruleset;
    others[2].policy = &other_policy;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        char line[WEIR_COOKIE_BYTES], renamed[WEIR_COOKIE_BYTES];
        snprintf(line, sizeof line, "%s", cookie_for(&others[i], NOW));
        assert_false(is_known(&ann, line, NOW, &device));
        /* Its value under the name of ann's cookie. */
        const char *mine = cookie_for(&ann, NOW);
        snprintf(renamed, sizeof renamed, "%.*s%s", (int)(strchr(mine, '=') - mine), mine,
                 strchr(line, '='));
        assert_false(is_known(&ann, renamed, NOW, &device));
    }
}

static void takes_no_cookie_that_was_changed(void **state)
{
    (void)state;
    struct weir_account ann = account_of("field:username=ann");
    struct weir_device device;
    const char *cookie = cookie_for(&ann, NOW);
    char changed[WEIR_COOKIE_BYTES];
    for (size_t i = 0; cookie[i] != '\0'; i++) {
        snprintf(changed, sizeof changed, "%s", cookie);
        changed[i] = changed[i] == 'A' ? 'B' : 'A';
        assert_false(is_known(&ann, changed, NOW, &device));
        changed[i] = '\0';
        assert_false(is_known(&ann, changed, NOW, &device));
    }
    snprintf(changed, sizeof changed, "%s.x", cookie);
    assert_false(is_known(&ann, changed, NOW, &device));
    assert_false(is_known(&ann, "", NOW, &device));
    assert_true(is_known(&ann, cookie, NOW, &device));
}

static void writes_what_browsers_keep_to_themselves(void **state)
{
    (void)state;
    struct weir_account ann = account_of("field:username=ann");
    char memory[WEIR_COOKIE_BYTES];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    struct weir_device device;
    weir_device_new(&ann, NOW, &device);
    weir_device_write(&ann, &device, NOW + 10, &text);
    const char *cookie = weir_buffer_string(&text);
    assert_memory_equal(cookie, "known_", 6);
    assert_non_null(strstr(cookie, "; Max-Age=990; Path=/login; HttpOnly; SameSite=Lax; Secure"));
    assert_null(strstr(cookie, "ann"));
}

static void gives_each_device_a_name_of_its_own(void **state)
{
    (void)state;
    struct weir_account ann = account_of("field:username=ann");
    struct weir_device one, other;
    weir_device_new(&ann, NOW, &one);
    weir_device_new(&ann, NOW, &other);
    assert_string_not_equal(one.id, other.id);
}

static void forgets_the_oldest_cookies_of_others(void **state)
{
    (void)state;
    struct weir_account ann = account_of("field:username=ann");
    char first[1000] = "", second[1000] = "";
    const char *own = cookie_for(&ann, NOW);
    for (size_t i = 0; i < 11; i++) {
        char *line = i < 6 ? first : second;
        snprintf(line + strlen(line), 30, "known_%010zu=v; ", i);
    }
    snprintf(second + strlen(second), sizeof second - strlen(second),
             "known_=1; known_012345678;=;known_\"12345678\"=; unknown_0123456789=1; %s", own);
    const struct weir_line lines[] = { { WEIR_TEXT("Cookie"), weir_text_from(first) },
                                       { WEIR_TEXT("Host"), WEIR_TEXT("known_0123456789=1") },
                                       { WEIR_TEXT("Cookie"), { NULL, 0 } },
                                       { WEIR_TEXT("COOKIE"), weir_text_from(second) } };
    struct weir_facts facts = { .headers = lines, .header_count = COUNT_OF(lines) };
    struct weir_text names[8];
    assert_int_equal(weir_device_surplus(&ann, &facts, names, 8), 3);
    assert_true(weir_text_equal(names[0], WEIR_TEXT("known_0000000000")));
    assert_true(weir_text_equal(names[2], WEIR_TEXT("known_0000000002")));
    assert_int_equal(weir_device_surplus(&ann, &facts, names, 2), 2);
    facts.header_count = 3;
    assert_int_equal(weir_device_surplus(&ann, &facts, names, 8), 0);

    char memory[WEIR_COOKIE_BYTES];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    weir_device_write_expired(&ann, names[0], &text);
    assert_string_equal(weir_buffer_string(&text), "known_0000000000=; Max-Age=0; Path=/login; "
                                                   "HttpOnly; SameSite=Lax; Secure");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_its_own_cookie),
        cmocka_unit_test(knows_it_until_it_expires),
        cmocka_unit_test(takes_no_cookie_of_another),
        cmocka_unit_test(takes_no_cookie_that_was_changed),
        cmocka_unit_test(writes_what_browsers_keep_to_themselves),
        cmocka_unit_test(gives_each_device_a_name_of_its_own),
        cmocka_unit_test(forgets_the_oldest_cookies_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
