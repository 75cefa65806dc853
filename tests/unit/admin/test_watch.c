/* A policy that is reloaded when one of its files changes. */
#include "test.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/weir.h>

#include "admin/watched_files.h"
#include "kept_log.h"

static char folder[] = "/tmp/weir-watch-XXXXXX";
static char memory[4][120];

/* The path of a file in the folder; four of them hold at once. */
static const char *in_folder(const char *name)
{
    static size_t next;
    char *path = memory[next++ % COUNT_OF(memory)];
    snprintf(path, sizeof memory[0], "%s/%s", folder, name);
    return path;
}

static void write_to(const char *name, const char *text)
{
    FILE *out = fopen(in_folder(name), "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void move(const char *from, const char *to)
{
    assert_int_equal(rename(in_folder(from), in_folder(to)), 0);
}

static void point(const char *name, const char *to)
{
    assert_int_equal(symlink(to, in_folder(name)), 0);
}

static void make(const char *name)
{
    assert_int_equal(mkdir(in_folder(name), 0700), 0);
}

/* A file by which so many requests of an address fit. */
static const char *with(unsigned rate, const char *more)
{
    static char text[1000];
    snprintf(text, sizeof text,
             "{%s \"policies\": {\"p\": {\"limits\": [{\"name\": \"a\", \"by\": \"ip\", \"rate\": "
             "\"%u/hour\"}]}}, \"routes\": [{\"match\": \"* /*\", \"policy\": \"p\"}]}",
             more, rate);
    return text;
}

static const char keys[] = "{\"keys\": []}";

#define WITH_KEYS "\"api_keys\": {\"header\": \"X-API-Key\", \"file\": \"keys.json\"},"

/* a program */

static struct weir_policy *policy;
static struct weir_limiter *limiter;
static struct weir_watch *watch;

static void load(const char *name)
{
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_load(in_folder(name), &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .log = kept_log()), &limiter, NULL),
        WEIR_OK);
}

static void watch_it(uint32_t quiet_ms)
{
    assert_int_equal(weir_watch_new(WEIR_WATCH_OPTIONS(.limiter = limiter, .log = kept_log(),
                                                       .quiet_ms = quiet_ms),
                                    &watch, NULL),
                     WEIR_OK);
}

static void start_quiet(const char *name, uint32_t quiet_ms)
{
    load(name);
    watch_it(quiet_ms);
}

static void start(const char *name)
{
    start_quiet(name, 1);
}

static void clear(const char *name)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", name);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
    (void)state;
    kept_forget();
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    policy = NULL;
    limiter = NULL;
    watch = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    weir_watch_free(watch);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    clear(folder);
    return 0;
}

/* How many requests of an address fit now. */
static uint64_t fitting(void)
{
    struct weir_verdict verdict;
    assert_int_equal(weir_limiter_peek(limiter, WEIR_SUBJECT(.policy = "p", .ip = "192.0.2.1"), 1,
                                       &verdict, NULL),
                     WEIR_OK);
    return verdict.quotas[0].quota;
}

static void wait_for_generation(unsigned number)
{
    char part[40];
    snprintf(part, sizeof part, "generation %u,", number);
    kept_wait_for(part);
}

/* ways to change a file */

static void sees_a_file_that_is_written_in_place(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    start("policy.json");
    write_to("policy.json", with(2, ""));
    while (fitting() != 2)
        kept_wait_for("generation"); /* it may have been read half written before */
}

static void sees_a_file_that_is_put_in_its_place(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    start("policy.json");
    for (unsigned i = 2; i < 5; i++) {
        write_to(".policy.json.swp", with(i, ""));
        move(".policy.json.swp", "policy.json");
        wait_for_generation(i);
        assert_int_equal(fitting(), i);
    }
}

/* The way Kubernetes mounts a ConfigMap. */
static void sees_a_link_that_is_swapped(void **state)
{
    (void)state;
    make("..one");
    write_to("..one/policy.json", with(1, WITH_KEYS));
    write_to("..one/keys.json", keys);
    point("..data", "..one");
    point("policy.json", "..data/policy.json");
    point("keys.json", "..data/keys.json");
    start("policy.json");
    make("..two");
    write_to("..two/policy.json", with(2, WITH_KEYS));
    write_to("..two/keys.json", keys);
    point("..data_tmp", "..two");
    move("..data_tmp", "..data");
    wait_for_generation(2);
    assert_int_equal(fitting(), 2);
    clear(in_folder("..one"));
    make("..three");
    write_to("..three/policy.json", with(3, WITH_KEYS));
    write_to("..three/keys.json", keys);
    point("..data_tmp", "..three");
    move("..data_tmp", "..data");
    kept_wait_for("generation 3,");
    while (fitting() != 3)
        kept_wait_for("generation");
}

static void sees_what_a_link_leads_to(void **state)
{
    (void)state;
    make("there");
    write_to("there/real.json", with(1, ""));
    point("policy.json", "there/real.json");
    start("policy.json");
    write_to("there/new", with(2, ""));
    move("there/new", "there/real.json");
    wait_for_generation(2);
    assert_int_equal(fitting(), 2);
}

static void sees_a_keys_file_and_one_that_is_included(void **state)
{
    (void)state;
    make("parts");
    write_to("parts/keys.json", keys);
    write_to("parts/route.json", "{\"routes\": []}");
    write_to("policy.json", with(1, "\"api_keys\": {\"header\": \"X-API-Key\", \"file\": "
                                    "\"parts/keys.json\"}, \"include\": \"parts/route.json\","));
    start("policy.json");
    write_to("parts/new", keys);
    move("parts/new", "parts/keys.json");
    wait_for_generation(2);
    write_to("parts/new", "{\"routes\": []}");
    move("parts/new", "parts/route.json");
    wait_for_generation(3);
}

static void keeps_the_policy_while_its_file_is_gone(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    start("policy.json");
    unlink(in_folder("policy.json"));
    kept_wait_for("cannot be read");
    assert_int_equal(fitting(), 1);
    struct weir_reload_state how;
    weir_limiter_reload_state(limiter, &how);
    assert_false(how.last_ok);
    write_to("new", with(2, ""));
    move("new", "policy.json");
    wait_for_generation(2);
    assert_int_equal(fitting(), 2);
}

static void keeps_the_policy_while_its_file_is_bad(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    start("policy.json");
    write_to("new", "{");
    move("new", "policy.json");
    kept_wait_for("not JSON");
    assert_int_equal(fitting(), 1);
    write_to("new", with(2, ""));
    move("new", "policy.json");
    wait_for_generation(2);
}

static void waits_for_a_file_that_is_included_and_not_there_yet(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    make("parts");
    start("policy.json");
    write_to("new", with(2, "\"include\": [\"parts/one.json\"],"));
    move("new", "policy.json");
    kept_wait_for("one.json");
    write_to("new", "{\"include\": \"two.json\", \"routes\": []}");
    move("new", "parts/one.json");
    kept_wait_for("two.json");
    write_to("new", "{\"routes\": []}");
    move("new", "parts/two.json");
    wait_for_generation(2);
    assert_int_equal(fitting(), 2);
}

static void makes_one_reload_of_a_burst(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    start_quiet("policy.json", 500);
    for (unsigned i = 2; i <= 9; i++) {
        write_to("new", with(i, ""));
        move("new", "policy.json");
    }
    wait_for_generation(2);
    assert_int_equal(fitting(), 9);
}

static void lets_files_be_that_are_not_its_own(void **state)
{
    (void)state;
    write_to("policy.json", with(1, ""));
    start("policy.json");
    for (unsigned i = 0; i < 20; i++)
        write_to("other.json", "{");
    write_to("new", with(2, ""));
    move("new", "policy.json");
    wait_for_generation(2);
    assert_int_equal(kept_lines(""), 1);
}

/* what is no file */

static void goes_on_after_a_pipe_in_the_place_of_a_file(void **state)
{
    (void)state;
    static const char *const names[] = { "policy.json", "part.json", "keys.json" };
    const char *more = WITH_KEYS "\"include\": \"part.json\",";
    unsigned generation = 1;
    write_to("keys.json", keys);
    write_to("part.json", "{\"routes\": []}");
    write_to("policy.json", with(1, more));
    start("policy.json");
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        kept_forget();
        move(names[i], "kept");
        assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
        move("pipe", names[i]);
        kept_wait_for("it is a pipe, and wanted is a file");
        move("kept", names[i]);
        wait_for_generation(++generation);
    }
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    move("pipe", "policy.json"); /* and ends while it is there */
}

/* what does not come from the files */

static void reads_what_has_changed_before_it_watches(void **state)
{
    (void)state;
    make("..one");
    make("..two");
    write_to("..one/policy.json", with(1, WITH_KEYS));
    write_to("..one/keys.json", keys);
    write_to("..two/policy.json", with(2, WITH_KEYS));
    write_to("..two/keys.json", keys);
    point("..data", "..one");
    point("policy.json", "..data/policy.json");
    point("keys.json", "..data/keys.json");
    load("policy.json");
    point("..data_tmp", "..two");
    move("..data_tmp", "..data");
    watch_it(1);
    wait_for_generation(2);
    assert_int_equal(fitting(), 2);
    write_to("..two/new", keys);
    move("..two/new", "..two/keys.json");
    wait_for_generation(3);
}

static enum weir_code parse_file(void *self, const char *file, struct weir_policy **made,
                                 struct weir_error *error)
{
    (void)self;
    static char text[1000];
    FILE *in = fopen(file, "r");
    assert_non_null(in);
    size_t length = fread(text, 1, sizeof text, in);
    fclose(in);
    return weir_policy_parse(text, length, folder, made, error);
}

static void reads_what_has_changed_since_a_limiter_was_made_that_reads_in_its_own_way(void **state)
{
    (void)state;
    const char *text = with(1, "");
    write_to("policy.json", text);
    assert_int_equal(weir_policy_parse(text, strlen(text), folder, &policy, NULL), WEIR_OK);
    assert_int_equal(
        weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .log = kept_log(),
                                              .file = in_folder("policy.json"), .load = parse_file),
                         &limiter, NULL),
        WEIR_OK);
    write_to("new", with(2, ""));
    move("new", "policy.json");
    watch_it(1);
    wait_for_generation(2);
    assert_int_equal(fitting(), 2);
    write_to("new", with(3, ""));
    move("new", "policy.json");
    wait_for_generation(3);
}

static size_t lowest_free_descriptor(void)
{
    int descriptor = dup(0);
    assert_true(descriptor >= 0);
    close(descriptor);
    return (size_t)descriptor;
}

/* Nobody touches the files again. */
static void tries_again_what_failed_for_want_of_descriptors(void **state)
{
    (void)state;
    struct rlimit before, none;
    write_to("policy.json", with(1, ""));
    write_to("new", with(2, ""));
    start("policy.json");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = lowest_free_descriptor();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    move("new", "policy.json");
    kept_wait_for("Too many open files");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    wait_for_generation(2);
}

/* misuse */

static void refuses_what_it_cannot_watch(void **state)
{
    (void)state;
    struct weir_error error = WEIR_NO_ERROR;
    const char *text = with(1, "");
    assert_int_equal(weir_watch_new(WEIR_WATCH_OPTIONS(.limiter = NULL), &watch, NULL),
                     WEIR_E_ARGUMENT);
    assert_int_equal(weir_policy_parse(text, strlen(text), NULL, &policy, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL),
                     WEIR_OK);
    assert_int_equal(weir_watch_new(WEIR_WATCH_OPTIONS(.limiter = limiter), &watch, &error),
                     WEIR_E_ARGUMENT);
    assert_non_null(strstr(error.text, "file"));
    error = (struct weir_error)WEIR_NO_ERROR;
    assert_int_equal(weir_watch_new(WEIR_WATCH_OPTIONS(.limiter = limiter,
                                                       .file = in_folder("none/policy.json")),
                                    &watch, &error),
                     WEIR_E_SYSTEM);
    assert_null(watch);
    assert_null(weir_watch_free(NULL));
}

static void finds_files_beside_others(void **state)
{
    (void)state;
    static const struct {
        const char *file, *name, *path;
    } rows[] = {
        { "policy.json", "keys.json", "keys.json" },
        { "/etc/weir/policy.json", "limits/a.json", "/etc/weir/limits/a.json" },
        { "weir/policy.json", "/etc/keys.json", "/etc/keys.json" },
        { "/policy.json", "keys.json", "/keys.json" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *path = weir_path_beside(rows[i].file, rows[i].name);
        assert_string_equal(path, rows[i].path);
        free(path);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sees_a_file_that_is_written_in_place),
        TEST(sees_a_file_that_is_put_in_its_place),
        TEST(sees_a_link_that_is_swapped),
        TEST(sees_what_a_link_leads_to),
        TEST(sees_a_keys_file_and_one_that_is_included),
        TEST(keeps_the_policy_while_its_file_is_gone),
        TEST(keeps_the_policy_while_its_file_is_bad),
        TEST(waits_for_a_file_that_is_included_and_not_there_yet),
        TEST(makes_one_reload_of_a_burst),
        TEST(lets_files_be_that_are_not_its_own),
        TEST(goes_on_after_a_pipe_in_the_place_of_a_file),
        TEST(reads_what_has_changed_before_it_watches),
        TEST(reads_what_has_changed_since_a_limiter_was_made_that_reads_in_its_own_way),
        TEST(tries_again_what_failed_for_want_of_descriptors),
        TEST(refuses_what_it_cannot_watch),
        TEST(finds_files_beside_others),
    };
    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}
