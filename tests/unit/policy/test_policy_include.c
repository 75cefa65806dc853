/* A policy in several files: what they become together, and where an error in one of them is. */
#include "parse.h"

#include <unistd.h>

#include <sys/stat.h>

#include "test.h"

#define SHA256_OF_FOO "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
#define LIMITS(name)                                                                               \
    "{\"limits\": [{\"name\": \"" name "\", \"by\": \"ip\", \"rate\": \"5/minute\"}]}"

static char folder[] = "/tmp/weir-include-XXXXXX";

static const char *in_folder(const char *name)
{
    static char path[4][256];
    static unsigned next;
    char *string = path[next++ % 4];
    snprintf(string, 256, "%s/%s", folder, name);
    return string;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(mkdir(in_folder("limits"), 0700), 0);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static struct weir_policy *load(const char *name)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    char line[600];
    if (weir_policy_load(in_folder(name), &policy, &error) != WEIR_OK)
        fail_msg("%s", weir_error_line(&error, name, line, sizeof line));
    return policy;
}

static struct weir_error refused(const char *name)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    assert_int_not_equal(weir_policy_load(in_folder(name), &policy, &error), WEIR_OK);
    assert_null(policy);
    return error;
}

/* what the files become */

static void write_shop(void)
{
    write_file("shop.json",
               "{\"include\": [\"limits/web.json\", \"plans.json\"],\n"
               " \"comment\": \"one\", \"instances\": 3,\n"
               " \"policies\": {\"own\": " LIMITS(
                   "a") ", \"comment\": 1},\n"
                        " \"routes\": [{\"match\": \"GET /own\", \"policy\": \"web\"}]}");
    write_file("limits/web.json",
               "{\"comment\": \"two\", \"include\": \"mail.json\",\n"
               " \"policies\": {\"comment\": 2, \"web\": {\"limits\": [{\"name\": \"b\",\n"
               "  \"by\": \"api_key|ip\", \"rate\": \"plan\"}]}},\n"
               " \"routes\": [{\"match\": \"GET /web\", \"policy\": \"web\"},\n"
               "             {\"match\": \"POST /web\", \"policy\": \"mail\"}]}");
    write_file("limits/mail.json",
               "{\"policies\": {\"mail\": " LIMITS(
                   "c") "}, \"default\": \"own\",\n"
                        " \"api_keys\": {\"file\": \"keys.json\"},\n"
                        " \"routes\": [{\"match\": \"GET /mail\", \"policy\": \"mail\"}]}");
    write_file("limits/keys.json",
               "{\"keys\": [{\"id\": \"one\", \"plan\": \"pro\", \"sha256\": \"" SHA256_OF_FOO
               "\"}]}");
    write_file("plans.json", "{\"plans\": {\"free\": {\"b\": \"5/hour\"},\n"
                             " \"pro\": {\"b\": \"50/hour\"}}}");
}

static void reads_several_files_as_one(void **state)
{
    (void)state;
    static const char *const routes[] = { "GET /own", "GET /web", "POST /web", "GET /mail" };
    static const char *const names[] = { "own", "web", "mail" };
    write_shop();
    struct weir_policy *policy = load("shop.json");
    assert_int_equal(policy->instances, 3);
    assert_int_equal(policy->route_count, COUNT_OF(routes));
    for (size_t i = 0; i < COUNT_OF(routes); i++)
        assert_string_equal(policy->routes[i].match, routes[i]);
    assert_int_equal(policy->ruleset_count, COUNT_OF(names));
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(policy->rulesets[i].name, names[i]);
    assert_int_equal(policy->plan_count, 2);
    assert_string_equal(policy->default_plan->name, "free");
    assert_ptr_equal(policy->fallback.ruleset, &policy->rulesets[0]);
    assert_int_equal(weir_keyring_count(policy->identity.keys), 1);
    assert_string_equal(policy->routes[0].file, "");
    assert_string_equal(policy->routes[2].file, "limits/web.json");
    assert_int_equal(policy->routes[2].index, 1);
    assert_string_equal(policy->routes[3].file, "limits/mail.json");
    assert_int_equal(policy->routes[3].index, 0);
    weir_policy_free(policy);
}

static void says_which_files_it_was_read_from(void **state)
{
    (void)state;
    static const char *const files[] = { "shop.json", "limits/web.json", "limits/mail.json",
                                         "plans.json", "limits/keys.json" };
    write_shop();
    struct weir_policy *policy = load("shop.json");
    assert_int_equal(weir_policy_file_count(policy), COUNT_OF(files));
    for (size_t i = 0; i < COUNT_OF(files); i++)
        assert_string_equal(weir_policy_file(policy, i), in_folder(files[i]));
    assert_null(weir_policy_file(policy, COUNT_OF(files)));
    assert_true(policy->has_file);
    weir_policy_free(policy);

    struct weir_error error = WEIR_NO_ERROR;
    static const char json[] = "{\"include\": \"plans.json\"}";
    assert_int_equal(weir_policy_parse(json, strlen(json), folder, &policy, &error), WEIR_OK);
    assert_int_equal(weir_policy_file_count(policy), 1);
    assert_string_equal(weir_policy_file(policy, 0), in_folder("plans.json"));
    assert_false(policy->has_file);
    weir_policy_free(policy);
    policy = parse("{}");
    assert_int_equal(weir_policy_file_count(policy), 0);
    assert_null(weir_policy_file(policy, 0));
    weir_policy_free(policy);
}

static void takes_an_included_file_by_its_whole_name(void **state)
{
    (void)state;
    char json[400];
    write_shop();
    snprintf(json, sizeof json, "{\"include\": [\"%s\"]}", in_folder("plans.json"));
    write_file("limits/whole.json", json);
    struct weir_policy *policy = load("limits/whole.json");
    assert_int_equal(policy->plan_count, 2);
    assert_string_equal(weir_policy_file(policy, 1), in_folder("plans.json"));
    weir_policy_free(policy);
}

static void finds_files_for_tls_beside_the_file_that_names_them(void **state)
{
    (void)state;
    write_file("tls.json", "{\"include\": \"limits/store.json\"}");
    write_file("limits/store.json",
               "{\"store\": {\"url\": \"rediss://h\", \"tls\": {\"ca_file\": \"ca.pem\","
               " \"cert_file\": \"/etc/weir.pem\", \"key_file\": \"../weir.key\"}}}");
    struct weir_policy *policy = load("tls.json");
    assert_string_equal(policy->store_tls.ca_file, in_folder("limits/ca.pem"));
    assert_string_equal(policy->store_tls.cert_file, "/etc/weir.pem");
    assert_string_equal(policy->store_tls.key_file, in_folder("limits/../weir.key"));
    weir_policy_free(policy);
}

/* printing */

static void prints_all_files_as_one_that_loads_as_the_same(void **state)
{
    (void)state;
    char *text = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    write_shop();
    assert_int_equal(weir_policy_expand(in_folder("shop.json"), &text, &error), WEIR_OK);
    assert_null(strstr(text, "include"));
    assert_non_null(strstr(text, "\"limits/keys.json\""));
    write_file("printed.json", text);
    struct weir_policy *policy = load("printed.json"), *first = load("shop.json");
    assert_string_equal(weir_policy_text(first), text);
    assert_string_equal(weir_policy_text(policy), text);
    assert_int_equal(policy->route_count, first->route_count);
    assert_int_equal(policy->ruleset_count, first->ruleset_count);
    assert_string_equal(policy->default_plan->name, first->default_plan->name);
    weir_policy_free(policy);
    weir_policy_free(first);
    free(text);
}

static void keeps_its_text_without_its_secrets(void **state)
{
    (void)state;
    struct weir_policy *policy =
        parse("{\"store\": {\"url\": \"redis://u:hidden@h:1/2\"}, \"secret\": \"hidden as well\","
              " \"policies\": {\"p\": {\"preset\": \"login\"}}}");
    assert_null(strstr(weir_policy_text(policy), "hidden"));
    assert_null(strstr(weir_policy_text(policy), "preset"));
    assert_non_null(strstr(weir_policy_text(policy), "\"limits\""));
    weir_policy_free(policy);
}

/* errors */

struct row {
    const char *when;
    const char *first, *second; /* the texts of first.json and limits/second.json */
    enum weir_code code;
    const char *line; /* that is printed, up to what may differ */
};

#define WITH(members) "{\"include\": \"limits/second.json\"" members "}"

static void says_in_which_file_an_error_is(void **state)
{
    (void)state;
    static const struct row rows[] = {
        { "in the second file", WITH(""), "{\n \"instances\": 0}", WEIR_E_VALUE,
          "conf/limits/second.json:2:2: /instances: The value is 0" },
        { "in the first file", WITH(",\n \"instances\": 0"), "{}", WEIR_E_VALUE,
          "conf/first.json:2:2: /instances: The value is 0" },
        { "no JSON", WITH(""), "{\n  x}", WEIR_E_JSON,
          "conf/limits/second.json:2:3: The file is not JSON" },
        { "no object", WITH(""), "[]", WEIR_E_TYPE,
          "conf/limits/second.json: The value is an array; wanted is an object." },
        { "a policy of the second file", WITH(", \"policies\": {\"a\": " LIMITS("a") "}"),
          "{\"policies\": {\n\"b\": {\"limits\": 1}}}", WEIR_E_TYPE,
          "conf/limits/second.json:2:7: /policies/b/limits: The value is 1" },
        { "a policy of the first file, where both have some",
          WITH(",\n\"policies\": {\"a\": {\"limits\": 1}}"),
          "{\"policies\": {\"b\": " LIMITS("a") "}}", WEIR_E_TYPE,
          "conf/first.json:2:20: /policies/a/limits: The value is 1" },
        { "a policy where only the second file has any", WITH(""),
          "{\"policies\": {\"b\": {\n\"mode\": 1}}}", WEIR_E_TYPE,
          "conf/limits/second.json:2:1: /policies/b/mode: The value is 1" },
        { "policies that are none", WITH(""), "{\n\"policies\": 1}", WEIR_E_TYPE,
          "conf/limits/second.json:2:1: /policies: The value is 1; wanted is an object." },
        { "policies that are none in the first file", WITH(",\n\"policies\": 1"),
          "{\"policies\": {}}", WEIR_E_TYPE, "conf/first.json:2:1: /policies: The value is 1" },
        { "a route of the second file", WITH(", \"routes\": [{\"match\": \"GET /a\"}]"),
          "{\"routes\": [{\"match\": \"GET /b\"},\n{\"match\": \"get /c\"}]}", WEIR_E_VALUE,
          "conf/limits/second.json:2:2: /routes/1/match: The value is \"get /c\"" },
        { "a route of the first file", WITH(",\n\"routes\": [{\"match\": \"get /a\"}]"),
          "{\"routes\": [{\"match\": \"GET /b\"}]}", WEIR_E_VALUE,
          "conf/first.json:2:13: /routes/0/match: The value is \"get /a\"" },
        { "routes that are none", WITH(""), "{\n\"routes\": {}}", WEIR_E_TYPE,
          "conf/limits/second.json:2:1: /routes: The value is an object; wanted is a list" },
        { "routes that are none in the first file", WITH(",\n\"routes\": {}"), "{\"routes\": []}",
          WEIR_E_TYPE, "conf/first.json:2:1: /routes: The value is an object" },
        { "a policy of both", WITH(",\n\"policies\": {\"a\": " LIMITS("a") "}"),
          "{\"policies\": {\n\"a\": " LIMITS("a") "}}", WEIR_E_VALUE,
          "conf/limits/second.json:2:1: /policies/a: \"a\" stands in first.json:2:14 too; wanted "
          "is one of them." },
        { "a member of both", WITH(",\n\"instances\": 2"), "{\n\"instances\": 2}", WEIR_E_VALUE,
          "conf/limits/second.json:2:1: /instances: \"instances\" stands in first.json:2:1 too" },
        { "a member that means nothing", WITH(""), "{\n\"instance\": 2}", WEIR_E_UNKNOWN_KEY,
          "conf/limits/second.json:2:1: /instance: \"instance\" means nothing here" },
        { "a keys file that is none", WITH(""), "{\"api_keys\": {\"file\": \"bad-keys.json\"}}",
          WEIR_E_JSON, "conf/limits/bad-keys.json:1:2: The file is not JSON" },
        { "itself", WITH(""), "{\"include\":\n\"second.json\"}", WEIR_E_VALUE,
          "conf/limits/second.json:1:2: /include: The file \"limits/second.json\" is part of this "
          "policy already" },
        { "the first file again", WITH(""), "{\"include\": [\n \"../first.json\"]}", WEIR_E_VALUE,
          "conf/limits/second.json:2:2: /include/0: The file \"limits/../first.json\" is part" },
        { "the same file twice", "{\"include\": [\"limits/second.json\",\n\"limits/second.json\"]}",
          "{}", WEIR_E_VALUE, "conf/first.json:2:1: /include/1: The file \"limits/second.json\"" },
        { "a file that is not there", WITH(""), "{\n\"include\": \"gone.json\"}", WEIR_E_FILE,
          "conf/limits/second.json:2:1: /include: \"" },
        { "a folder", "{\"include\": \"limits\"}", "{}", WEIR_E_FILE,
          "conf/first.json:1:2: /include: \"" },
        { "no name", "{\"include\": \"\"}", "{}", WEIR_E_VALUE,
          "conf/first.json:1:2: /include: The value is \"\"; wanted is the name of a file" },
        { "no name in a list", "{\"include\": [true]}", "{}", WEIR_E_TYPE,
          "conf/first.json:1:14: /include/0: The value is true; wanted is the name of a file" },
        { "no list", "{\"include\": {}}", "{}", WEIR_E_TYPE,
          "conf/first.json:1:2: /include: The value is an object; wanted is the name of a file, "
          "or" },
    };
    write_file("limits/bad-keys.json", "{]");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char line[600];
        print_message("    %s\n", rows[i].when);
        write_file("first.json", rows[i].first);
        write_file("limits/second.json", rows[i].second);
        const struct weir_error error = refused("first.json");
        assert_string_equal(weir_code_name(error.code), weir_code_name(rows[i].code));
        weir_error_line(&error, "conf/first.json", line, sizeof line);
        if (strncmp(line, rows[i].line, strlen(rows[i].line)) != 0)
            fail_msg("\"%s\" does not start with \"%s\"", line, rows[i].line);
    }
}

static void says_so_of_a_text_that_is_no_file(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    char line[600];
    static const char json[] = "{\"include\": \"limits/second.json\", \"instances\": 1}";
    write_file("limits/second.json", "{\"instances\": 2}");
    assert_int_equal(weir_policy_parse(json, strlen(json), folder, &policy, &error), WEIR_E_VALUE);
    assert_string_equal(error.file, "limits/second.json");
    assert_string_equal(weir_error_line(&error, NULL, line, sizeof line),
                        "limits/second.json:1:2: /instances: \"instances\" stands in line 1, "
                        "column 35 of the policy's text too; wanted is one of them. [value]");
}

static void keeps_an_error_that_is_older(void **state)
{
    (void)state;
    struct weir_error error = { WEIR_E_STATE, 5, 6, "/before", "Before.", "old.json" };
    struct weir_policy *policy = NULL;
    write_file("first.json", WITH(""));
    write_file("limits/second.json", "{\"instances\": 0}");
    assert_int_equal(weir_policy_load(in_folder("first.json"), &policy, &error), WEIR_E_VALUE);
    assert_error(&error, WEIR_E_STATE, "/before", "Before.");
    assert_string_equal(error.file, "old.json");
    assert_int_equal(error.line, 5);
    assert_int_equal(weir_policy_load(in_folder("first.json"), &policy, NULL), WEIR_E_VALUE);
}

static void warns_of_what_stands_in_another_file(void **state)
{
    (void)state;
    char line[600];
    write_file("first.json", WITH(", \"routes\": [{\"match\": \"* /*\"}]"));
    write_file("limits/second.json", "{\"routes\": [{\"match\": \"GET /a\"}]}");
    struct weir_policy *policy = load("first.json");
    assert_int_equal(weir_policy_warning_count(policy), 1);
    assert_string_equal(
        weir_error_line(weir_policy_warning(policy, 0), "first.json", line, sizeof line),
        "limits/second.json:1:14: /routes/0/match: \"GET /a\" never matches, since \"* /*\" at "
        "/routes/0 of the first file comes first and takes all of it; put it before that route. "
        "[route-hidden]");
    weir_policy_free(policy);
}

/* bounds */

static void write_chain(unsigned length)
{
    char name[40], json[80];
    for (unsigned i = 1; i <= length; i++) {
        snprintf(name, sizeof name, "chain-%u.json", i);
        snprintf(json, sizeof json, "{\"include\": \"chain-%u.json\"}", i + 1);
        write_file(name, i == length ? "{}" : json);
    }
}

static void follows_eight_files_in_a_row_and_no_more(void **state)
{
    (void)state;
    write_chain(9);
    struct weir_policy *policy = load("chain-1.json");
    assert_int_equal(weir_policy_file_count(policy), 9);
    weir_policy_free(policy);
    write_chain(10);
    const struct weir_error error = refused("chain-1.json");
    assert_error(&error, WEIR_E_VALUE, "/include", "at most 8");
    assert_string_equal(error.file, "chain-9.json");
}

static void takes_sixty_four_files_and_no_more(void **state)
{
    (void)state;
    char name[40], json[4096] = "{\"include\": [";
    for (unsigned i = 1; i <= 64; i++) {
        snprintf(name, sizeof name, "part-%u.json", i);
        write_file(name, "{}");
        snprintf(json + strlen(json), sizeof json - strlen(json), "%s\"%s\"", i > 1 ? "," : "",
                 name);
        if (i < 63)
            continue;
        char whole[4200];
        snprintf(whole, sizeof whole, "%s]}", json);
        write_file(i == 63 ? "parts.json" : "many.json", whole);
    }
    struct weir_policy *policy = load("parts.json");
    assert_int_equal(weir_policy_file_count(policy), 64);
    weir_policy_free(policy);
    const struct weir_error error = refused("many.json");
    assert_error(&error, WEIR_E_VALUE, "/include/63", "at most 64");
}

static void takes_four_mebibytes_in_all_and_no_more(void **state)
{
    (void)state;
    static char blank[(3 << 20) + 3];
    memset(blank, ' ', sizeof blank - 1);
    memcpy(blank, "{}", 2);
    write_file("large-1.json", blank);
    write_file("large-2.json", blank);
    write_file("one.json", "{\"include\": [\"large-1.json\"]}");
    write_file("two.json", "{\"include\": [\"large-1.json\", \"large-2.json\"]}");
    weir_policy_free(load("one.json"));
    const struct weir_error error = refused("two.json");
    assert_error(&error, WEIR_E_VALUE, "/include/1", "longer than 4 MiB");
    assert_string_equal(error.file, "");
}

static void takes_names_that_an_error_can_show(void **state)
{
    (void)state;
    char name[129], json[200];
    memset(name, 'n', 128);
    name[127] = '\0';
    snprintf(json, sizeof json, "{\"include\": \"%s\"}", name);
    write_file("first.json", json);
    write_file(name, "{\"instances\": 0}");
    struct weir_error error = refused("first.json");
    assert_string_equal(error.file, name);
    name[127] = 'n';
    name[128] = '\0';
    snprintf(json, sizeof json, "{\"include\": \"%s\"}", name);
    write_file("first.json", json);
    error = refused("first.json");
    assert_error(&error, WEIR_E_VALUE, "/include", "is 128 bytes long");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_several_files_as_one),
        cmocka_unit_test(says_which_files_it_was_read_from),
        cmocka_unit_test(takes_an_included_file_by_its_whole_name),
        cmocka_unit_test(finds_files_for_tls_beside_the_file_that_names_them),
        cmocka_unit_test(prints_all_files_as_one_that_loads_as_the_same),
        cmocka_unit_test(keeps_its_text_without_its_secrets),
        cmocka_unit_test(says_in_which_file_an_error_is),
        cmocka_unit_test(says_so_of_a_text_that_is_no_file),
        cmocka_unit_test(keeps_an_error_that_is_older),
        cmocka_unit_test(warns_of_what_stands_in_another_file),
        cmocka_unit_test(follows_eight_files_in_a_row_and_no_more),
        cmocka_unit_test(takes_sixty_four_files_and_no_more),
        cmocka_unit_test(takes_four_mebibytes_in_all_and_no_more),
        cmocka_unit_test(takes_names_that_an_error_can_show),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
