/* The subcommand from its command line to its JSON; that it decides as the limiter does is
 * test_simulate_agrees.c's. */
#include "test.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "tools/tool.h"

#define WORDS_MAX 24

static char folder[] = "/tmp/weir-simulate-XXXXXX";

static const char *path_of(const char *name)
{
    static char paths[4][64];
    static size_t next;
    char *path = paths[next++ % COUNT_OF(paths)];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *stream = fopen(path_of(name), "w");
    assert_non_null(stream);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static FILE *open_log(const char *name)
{
    FILE *log = fopen(path_of(name), "w");
    assert_non_null(log);
    return log;
}

/* A request of 2026-03-04, so many seconds after midnight. */
static void write_request(FILE *log, unsigned second, const char *ip, const char *user,
                          const char *request, unsigned status)
{
    fprintf(log, "%s - %s [04/Mar/2026:%02u:%02u:%02u +0000] \"%s\" %u 0\n", ip, user,
            second / 3600, second / 60 % 60, second % 60, request, status);
}

static void write_policy(const char *policies, const char *routes)
{
    FILE *stream = open_log("policy.json");
    fprintf(stream,
            "{\"store\": {\"url\": \"memory:\"}, \"secret\": \"a-secret-of-some-bytes\", "
            "\"policies\": {%s}, \"routes\": [%s]}",
            policies, routes);
    assert_int_equal(fclose(stream), 0);
}

/* Five a minute for each address, all at once. */
static void write_five_a_minute(const char *members)
{
    char policy[512];
    snprintf(policy, sizeof policy,
             "\"api\": {\"limits\": [{\"name\": \"address\", \"by\": \"ip\", \"rate\": "
             "\"5/minute\"}]%s}",
             members);
    write_policy(policy, "{\"match\": \"* /*\", \"auth\": \"none\", \"policy\": \"api\"}");
}

/* Eight requests of one client in a second, one of another later. */
static void write_eight_and_one(void)
{
    FILE *log = open_log("log");
    for (int i = 0; i < 8; i++)
        write_request(log, 3600, "192.0.2.1", "-", "GET /a HTTP/1.1", i < 2 ? 429 : 200);
    write_request(log, 3600 + 90, "192.0.2.2", "-", "GET /a HTTP/1.1", 200);
    assert_int_equal(fclose(log), 0);
}

/* running it */

/* What it printed, on either stream. */
static char said[16384];
static bool uses_terminal; /* as standard error */

static void redirect(int stream, const char *name, int *kept)
{
    int file = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    *kept = dup(stream);
    assert_true(file >= 0 && *kept >= 0);
    dup2(file, stream);
    close(file);
}

static void restore(int stream, int kept)
{
    dup2(kept, stream);
    close(kept);
}

static void read_back(const char *name)
{
    FILE *stream = fopen(path_of(name), "r");
    assert_non_null(stream);
    said[fread(said, 1, sizeof said - 1, stream)] = '\0';
    fclose(stream);
}

/* Runs it with words that have blanks between them; "@NAME" is a file in the folder. */
static int run(const char *line)
{
    static char text[1024], names[WORDS_MAX][96];
    char *words[WORDS_MAX + 1];
    int count = 0, out, err = -1;
    snprintf(text, sizeof text, "simulate %s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        assert_true(count < WORDS_MAX);
        snprintf(names[count], sizeof names[0], "%s", word[0] == '@' ? path_of(word + 1) : word);
        words[count] = names[count];
        count++;
    }
    fflush(stdout);
    redirect(STDOUT_FILENO, "out", &out);
    if (!uses_terminal)
        redirect(STDERR_FILENO, "err", &err);
    int status = weir_tool_simulate(count, words);
    fflush(stdout);
    restore(STDOUT_FILENO, out);
    if (!uses_terminal)
        restore(STDERR_FILENO, err);
    return status;
}

/* What it says with --json. */
static json_t *run_json(const char *line)
{
    char all[1024];
    snprintf(all, sizeof all, "--json --policy @policy.json %s", line);
    int status = run(all);
    read_back("err");
    if (status != WEIR_TOOL_FINE)
        fail_msg("%s", said);
    json_t *json = json_load_file(path_of("out"), 0, NULL);
    assert_non_null(json);
    return json;
}

static json_int_t number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static bool has_note(const json_t *json, const char *part)
{
    size_t index;
    const json_t *note, *notes = json_object_get(json, "notes");
    for (index = 0; index < json_array_size(notes); index++) {
        note = json_array_get(notes, index);
        if (strstr(json_string_value(note), part) != NULL)
            return true;
    }
    return false;
}

static void expect_error(const char *part)
{
    read_back("err");
    if (strstr(said, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", said, part);
}

/* figures */

static void says_who_would_be_refused_when_and_how_often(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    json_t *json = run_json("@log");
    assert_int_equal(number(json, "requests"), 9);
    assert_int_equal(number(json, "refused"), 3);
    assert_int_equal(number(json, "answered_429"), 2);
    assert_string_equal(text_of(json, "from"), "2026-03-04T01:00:00Z");
    assert_string_equal(text_of(json, "to"), "2026-03-04T01:01:30Z");
    const json_t *outcomes = json_object_get(json, "outcomes");
    assert_int_equal(number(outcomes, "allowed"), 6);
    assert_int_equal(number(outcomes, "limited"), 3);
    const json_t *policy = json_array_get(json_object_get(json, "policies"), 0);
    const json_t *limit = json_array_get(json_object_get(policy, "limits"), 0);
    assert_string_equal(text_of(policy, "name"), "api");
    assert_string_equal(text_of(limit, "name"), "address");
    assert_int_equal(number(limit, "requests"), 9);
    assert_int_equal(number(limit, "refused"), 3);
    assert_int_equal(number(limit, "keys"), 2);
    assert_int_equal(number(limit, "refused_keys"), 1);
    const json_t *keys = json_object_get(json, "keys"), *key = json_array_get(keys, 0);
    assert_int_equal(json_array_size(keys), 1);
    assert_string_equal(text_of(key, "key"), "ip:192.0.2.1/32");
    assert_string_equal(text_of(key, "limit"), "address");
    assert_int_equal(number(key, "requests"), 8);
    assert_int_equal(number(key, "refused"), 3);
    assert_int_equal(number(key, "retry_most_s"), 12);
    assert_string_equal(text_of(key, "first"), "2026-03-04T01:00:00Z");
    const json_t *times = json_object_get(json, "times");
    assert_int_equal(number(json_array_get(times, 0), "refused"), 3);
    assert_true(has_note(json, "--spread"));
    assert_true(has_note(json, "answered 429"));
    json_decref(json);
}

static void prints_tables_for_people(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    assert_int_equal(run("--policy @policy.json @log"), WEIR_TOOL_FINE);
    read_back("out");
    static const char *const parts[] = {
        "9 requests in 1 min 30 s, from 2026-03-04T01:00:00Z to 2026-03-04T01:01:30Z.",
        "would refuse 3 of them (33.3 %).",
        "ip:192.0.2.1/32  api     address        3   8  37.5 %",
        "12 s\n",
    };
    for (size_t i = 0; i < COUNT_OF(parts); i++)
        if (strstr(said, parts[i]) == NULL)
            fail_msg("\"%s\" is not in %s", parts[i], said);
    expect_error("--spread");
}

static void watches_as_the_policy_says_unless_it_is_to_enforce(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        json_int_t refused, shadow;
    } rows[] = {
        { "", 3, 0 },
        { ", \"mode\": \"shadow\"", 0, 3 },
        { ", \"mode\": \"off\"", 0, 0 },
        { ", \"enforce_percent\": 0", 0, 3 },
    };
    write_eight_and_one();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].members);
        write_five_a_minute(rows[i].members);
        json_t *json = run_json("@log");
        assert_int_equal(number(json, "refused"), rows[i].refused);
        assert_int_equal(number(json, "shadow"), rows[i].shadow);
        json_decref(json);
        json = run_json("--enforce @log");
        assert_int_equal(number(json, "refused"), 3);
        json_decref(json);
    }
}

static void spreads_a_second_where_it_is_asked_to(void **state)
{
    (void)state;
    write_policy("\"api\": {\"limits\": [{\"name\": \"address\", \"by\": \"ip\", \"rate\": "
                 "\"8/second\", \"burst\": 1}]}",
                 "{\"match\": \"* /*\", \"auth\": \"none\", \"policy\": \"api\"}");
    write_eight_and_one();
    json_t *json = run_json("@log");
    assert_int_equal(number(json, "refused"), 7);
    json_decref(json);
    json = run_json("--spread @log");
    assert_int_equal(number(json, "refused"), 0);
    assert_false(has_note(json, "--spread"));
    json_decref(json);
}

/* Who it is */

static void counts_those_whom_the_log_does_not_name_by_address_if_told_to(void **state)
{
    (void)state;
    write_policy("\"api\": {\"limits\": [{\"name\": \"client\", \"by\": \"client\", \"rate\": "
                 "\"2/hour\"}]}",
                 "{\"match\": \"* /*\", \"auth\": \"required\", \"policy\": \"api\"}");
    FILE *log = open_log("log");
    for (int i = 0; i < 3; i++) {
        write_request(log, 60, "192.0.2.1", "-", "GET /a HTTP/1.1", 200);
        write_request(log, 60, "192.0.2.1", "ann", "GET /a HTTP/1.1", 200);
    }
    assert_int_equal(fclose(log), 0);
    json_t *json = run_json("@log");
    assert_int_equal(number(json_object_get(json, "outcomes"), "unauthenticated"), 3);
    assert_int_equal(number(json_object_get(json, "outcomes"), "limited"), 1);
    assert_true(has_note(json, "--no-auth"));
    assert_string_equal(text_of(json_array_get(json_object_get(json, "keys"), 1), "key"),
                        "user:ann");
    json_decref(json);
    json = run_json("--no-auth @log");
    assert_int_equal(number(json, "refused"), 2);
    assert_int_equal(number(json_object_get(json, "outcomes"), "limited"), 2);
    json_decref(json);
}

static void counts_failures_by_the_status_in_the_log(void **state)
{
    (void)state;
    write_policy("\"login\": {\"limits\": [{\"name\": \"tries\", \"by\": \"ip\", \"rate\": "
                 "\"2/hour\", \"count\": \"failures\"}]}",
                 "{\"match\": \"POST /login\", \"auth\": \"none\", \"policy\": \"login\"}");
    FILE *log = open_log("log");
    for (unsigned i = 0; i < 10; i++) {
        write_request(log, i, "192.0.2.1", "-", "POST /login HTTP/1.1", 200);
        write_request(log, i, "192.0.2.2", "-", "POST /login HTTP/1.1", i < 5 ? 401 : 200);
    }
    assert_int_equal(fclose(log), 0);
    json_t *json = run_json("@log");
    assert_int_equal(number(json, "refused"), 8);
    json_decref(json);
}

static void counts_by_fields_that_json_lines_have(void **state)
{
    (void)state;
    write_policy("\"login\": {\"limits\": [{\"name\": \"account\", \"by\": \"field:username\", "
                 "\"rate\": \"2/hour\"}]}",
                 "{\"match\": \"POST /login\", \"auth\": \"none\", \"policy\": \"login\"}");
    FILE *log = open_log("log");
    for (unsigned i = 0; i < 3; i++)
        fprintf(log,
                "{\"time\": %u, \"ip\": \"192.0.2.%u\", \"request\": \"POST /login HTTP/1.1\", "
                "\"name\": \"Ann & %s\", \"status\": 200}\n",
                1772582400 + i, i, i == 1 ? "Bob" : "Eve");
    fprintf(log, "{\"time\": 1772582409, \"ip\": \"192.0.2.9\", \"request\": \"POST /login "
                 "HTTP/1.1\", \"name\": \"ann & EVE\", \"status\": 200}\n");
    assert_int_equal(fclose(log), 0);
    json_t *json = run_json("--map field:username=name @log");
    assert_int_equal(number(json, "refused"), 1);
    json_decref(json);
    json = run_json("@log");
    assert_int_equal(number(json, "refused"), 0);
    assert_true(has_note(json, "\"account\" of the policy \"login\" met no request"));
    json_decref(json);
}

/* logs */

static void takes_several_logs_in_the_order_of_time(void **state)
{
    (void)state;
    write_five_a_minute("");
    FILE *late = open_log("late"), *early = open_log("early");
    for (unsigned i = 0; i < 3; i++) {
        write_request(late, 60 + i, "192.0.2.1", "-", "GET /late HTTP/1.1", 200);
        write_request(early, 50 - i, "192.0.2.1", "-", "GET /early HTTP/1.1", 200);
    }
    assert_int_equal(fclose(late) | fclose(early), 0);
    json_t *json = run_json("@late @early --decisions @decisions");
    assert_int_equal(number(json, "requests"), 6);
    json_decref(json);
    read_back("decisions");
    const char *first = strstr(said, "{\"line\":3,\"log\":"), *last = strstr(said, "\"line\":3,");
    assert_ptr_equal(first, said);
    assert_non_null(strstr(first, "early\",\"time_us\":1772582448000000,\"outcome\":\"allowed\""));
    assert_non_null(strstr(last, "late\",\"time_us\":1772582462000000"));
}

static void leaves_out_what_is_outside_of_the_span(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    json_t *json = run_json("@log --from 2026-03-04T01:00:01Z");
    assert_int_equal(number(json, "requests"), 1);
    assert_int_equal(number(json_object_get(json, "lines"), "outside"), 8);
    assert_true(has_note(json, "outside of --from and --to"));
    json_decref(json);
    json = run_json("@log --to 2026-03-04T01:01:30Z");
    assert_int_equal(number(json, "requests"), 8);
    json_decref(json);
}

static void names_the_first_lines_that_are_none(void **state)
{
    (void)state;
    write_five_a_minute("");
    FILE *log = open_log("log");
    for (int i = 0; i < 7; i++) {
        fprintf(log, "nonsense\n\n");
        write_request(log, 60, "192.0.2.1", "-", "GET /a HTTP/1.1", 200);
    }
    for (int i = 0; i < (1 << 20) + 5; i++)
        fputc('x', log);
    fprintf(log, "\r\n");
    write_request(log, 90, "192.0.2.1", "-", "GET /a HTTP/1.1", 200);
    assert_int_equal(fclose(log), 0);
    json_t *json = run_json("@log");
    const json_t *lines = json_object_get(json, "lines");
    const json_t *bad = json_object_get(lines, "first_bad");
    assert_int_equal(number(lines, "bad"), 8);
    assert_int_equal(number(lines, "read"), 16);
    assert_int_equal(number(json, "requests"), 8);
    assert_int_equal(json_array_size(bad), 5);
    assert_int_equal(number(json_array_get(bad, 1), "line"), 4);
    assert_true(has_note(json, "8 of 16 lines are left out; the first is"));
    json_decref(json);
}

static void tells_one_of_many_by_top(void **state)
{
    (void)state;
    write_five_a_minute("");
    FILE *log = open_log("log");
    for (unsigned i = 0; i < 60; i++) {
        char ip[32];
        snprintf(ip, sizeof ip, "192.0.2.%u", i % 3 == 0 ? 1 : i % 6);
        write_request(log, 60, ip, "-", "GET /a HTTP/1.1", 200);
    }
    assert_int_equal(fclose(log), 0);
    json_t *json = run_json("@log --top 1");
    const json_t *keys = json_object_get(json, "keys");
    assert_int_equal(json_array_size(keys), 1);
    assert_int_equal(number(json, "refused_keys"), 4);
    assert_string_equal(text_of(json_array_get(keys, 0), "key"), "ip:192.0.2.1/32");
    json_decref(json);
}

static void reads_from_standard_input(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    assert_non_null(freopen(path_of("log"), "r", stdin));
    json_t *json = run_json("-");
    assert_int_equal(number(json, "requests"), 9);
    json_decref(json);
}

/* On a terminal that is this test's. */
static void shows_how_far_it_is_on_a_terminal(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int other = open(ptsname(terminal), O_RDWR | O_NOCTTY), kept = dup(STDERR_FILENO);
    assert_true(other >= 0 && kept >= 0);
    uses_terminal = true;
    dup2(other, STDERR_FILENO);
    int status = run("--policy @policy.json @log");
    dup2(kept, STDERR_FILENO);
    uses_terminal = false;
    assert_int_equal(status, WEIR_TOOL_FINE);
    /* What was written may come in pieces; the last line is known. */
    said[0] = '\0';
    for (size_t length = 0; strstr(said, "over the second.") == NULL; said[length] = '\0') {
        ssize_t count = read(terminal, said + length, sizeof said - 1 - length);
        assert_true(count > 0);
        length += (size_t)count;
    }
    assert_non_null(strstr(said, "\rreading ["));
    assert_non_null(strstr(said, "\rsimulating ["));
    assert_non_null(strstr(said, "] 100 %"));
    const char *end = strstr(said, "\r\033[Kweir: ");
    assert_non_null(end); /* the bar is gone before anything is said */
    assert_null(strstr(end, "%"));
    close(terminal);
    close(other);
    close(kept);
}

/* what it cannot do */

static void says_what_it_cannot_simulate(void **state)
{
    (void)state;
    static const struct {
        const char *log, *line, *error;
        int status;
    } rows[] = {
        { "", "--policy @policy.json @log", "the log is empty", WEIR_TOOL_FOUND },
        { "\n\n", "--policy @policy.json @log", "the log is empty", WEIR_TOOL_FOUND },
        { "what\n", "--policy @policy.json @log", "no line of the log is one", WEIR_TOOL_FOUND },
        { "what", "--policy @policy.json @log", "log:1: it is neither", WEIR_TOOL_FOUND },
        { "\x1f\x8b\x08", "--policy @policy.json @log", "zcat", WEIR_TOOL_FOUND },
        { "", "--policy @policy.json @none", "none: No such file", WEIR_TOOL_FOUND },
        { "", "--policy @policy.json /", "directory", WEIR_TOOL_FOUND },
        { "", "--policy @none @log", "none", WEIR_TOOL_FOUND },
        { "", "@log", "There is no --policy FILE.", WEIR_TOOL_MISUSED },
        { "", "--policy @policy.json", "LOG", WEIR_TOOL_MISUSED },
        { "", "--policy @policy.json @log --format xml", "wanted is common", WEIR_TOOL_MISUSED },
        { "", "--policy @policy.json @log --from noon", "--from is \"noon\"", WEIR_TOOL_MISUSED },
        { "", "--policy @policy.json @log --to 1am", "--to is \"1am\"", WEIR_TOOL_MISUSED },
        { "", "--policy @policy.json @log --map x=y", "NAME=MEMBER", WEIR_TOOL_MISUSED },
        { "", "--policy @policy.json @log --top 0", "--top", WEIR_TOOL_MISUSED },
    };
    write_five_a_minute("");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].line);
        write_file("log", rows[i].log);
        assert_int_equal(run(rows[i].line), rows[i].status);
        expect_error(rows[i].error);
    }
}

static void says_where_decisions_cannot_be_written(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    assert_int_equal(run("--policy @policy.json @log --decisions @no/such"), WEIR_TOOL_FOUND);
    expect_error("No such file");
    assert_int_equal(run("--policy @policy.json @log --decisions /dev/full"), WEIR_TOOL_FOUND);
    expect_error("cannot be written in full");
}

static void ends_with_one_where_that_is_asked_for(void **state)
{
    (void)state;
    write_five_a_minute("");
    write_eight_and_one();
    assert_int_equal(run("--policy @policy.json @log --exit-code"), WEIR_TOOL_FOUND);
    assert_int_equal(run("--policy @policy.json @log"), WEIR_TOOL_FINE);
    write_five_a_minute(", \"mode\": \"shadow\"");
    assert_int_equal(run("--policy @policy.json @log --exit-code"), WEIR_TOOL_FINE);
}

static void says_what_it_leaves_out(void **state)
{
    (void)state;
    write_five_a_minute(", \"concurrency\": {\"fixed\": 1, \"by\": \"ip\"}");
    write_eight_and_one();
    json_t *json = run_json("@log");
    assert_int_equal(number(json, "refused"), 3);
    assert_true(has_note(json, "requests at once"));
    json_decref(json);
}

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const names[] = { "policy.json", "log", "late", "early",
                                         "decisions",   "out", "err" };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        remove(path_of(names[i]));
    return remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_who_would_be_refused_when_and_how_often),
        cmocka_unit_test(prints_tables_for_people),
        cmocka_unit_test(watches_as_the_policy_says_unless_it_is_to_enforce),
        cmocka_unit_test(spreads_a_second_where_it_is_asked_to),
        cmocka_unit_test(counts_those_whom_the_log_does_not_name_by_address_if_told_to),
        cmocka_unit_test(counts_failures_by_the_status_in_the_log),
        cmocka_unit_test(counts_by_fields_that_json_lines_have),
        cmocka_unit_test(takes_several_logs_in_the_order_of_time),
        cmocka_unit_test(leaves_out_what_is_outside_of_the_span),
        cmocka_unit_test(names_the_first_lines_that_are_none),
        cmocka_unit_test(tells_one_of_many_by_top),
        cmocka_unit_test(reads_from_standard_input),
        cmocka_unit_test(shows_how_far_it_is_on_a_terminal),
        cmocka_unit_test(says_what_it_cannot_simulate),
        cmocka_unit_test(says_where_decisions_cannot_be_written),
        cmocka_unit_test(ends_with_one_where_that_is_asked_for),
        cmocka_unit_test(says_what_it_leaves_out),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
