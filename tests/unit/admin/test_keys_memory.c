/* What operators do to keys while memory runs out: each allocation of JSON fails once. A list that
 * was there stays, and nothing leaks. */
#include "test.h"

#include <jansson.h>
#include <weir/weir.h>

#include "admin/keys.h"

static size_t allocations; /* since the last begin() */
static size_t failing;     /* the number of the one that fails, from 1; 0: none */
static long living;

/* Where its buffer cannot grow, by doubling, jansson 2.14 drops a letter of a string that it reads, or
 * reads past the end. That is not what is under test. */
static bool is_doubled(size_t size)
{
    return size >= 32 && (size & (size - 1)) == 0;
}

static void *take(size_t size)
{
    if (!is_doubled(size) && ++allocations == failing)
        return NULL;
    void *memory = malloc(size);
    living += memory != NULL;
    return memory;
}

static void give(void *memory)
{
    living -= memory != NULL;
    free(memory);
}

static const char policy_json[] =
    "{\"policies\": {\"api\": {\"limits\": [{\"name\": \"burst\", \"by\": \"user\", \"rate\":"
    " \"5/hour\"}, {\"name\": \"day\", \"by\": \"user\", \"rate\": \"50/day\"}]}}, \"secret\": "
    "\"s\","
    " \"default\": \"api\"}";

static struct weir_limiter *limiter;

#define WHO(name) WEIR_SUBJECT(.policy = "api", .user = name)

static enum weir_code block(json_t **body)
{
    return weir_keys_block(limiter, WHO("ann"), 60, "a reason", "a test", body, NULL);
}

static enum weir_code look(json_t **body)
{
    return weir_keys_look(limiter, WHO("ann"), body, NULL);
}

static enum weir_code list(json_t **body)
{
    return weir_keys_list(limiter, body, NULL);
}

static enum weir_code reset(json_t **body)
{
    return weir_keys_reset(limiter, WHO("ann"), body, NULL);
}

static enum weir_code unblock(json_t **body)
{
    return weir_keys_unblock(limiter, WHO("ann"), body, NULL);
}

static bool has_row_of_bob(void)
{
    json_t *body = NULL, *row;
    size_t index;
    bool has = false;
    assert_int_equal(list(&body), WEIR_OK);
    json_array_foreach(json_object_get(body, "blocks"), index, row)
    {
        const char *reason = json_string_value(json_object_get(row, "reason"));
        has = has || (reason != NULL && strcmp(reason, "stays") == 0);
    }
    json_decref(body);
    return has;
}

/* Returns how many allocations it takes. */
static size_t run(enum weir_code (*act)(json_t **body), size_t number)
{
    json_t *body = NULL;
    long before = living;
    allocations = 0;
    failing = number;
    enum weir_code code = act(&body);
    size_t taken = allocations;
    failing = 0;
    if (number == 0)
        assert_int_equal(code, WEIR_OK);
    else
        assert_true(code == WEIR_OK || code == WEIR_E_MEMORY || code == WEIR_E_STORE_ERROR);
    if (code == WEIR_OK)
        json_decref(body);
    assert_int_equal(living, before);
    assert_true(has_row_of_bob());
    return taken;
}

static void keeps_the_list_while_memory_runs_out(void **state)
{
    (void)state;
    json_t *body = NULL;
    assert_int_equal(weir_keys_block(limiter, WHO("bob"), 3600, "stays", "a test", &body, NULL),
                     WEIR_OK);
    json_decref(body);
    static const struct {
        const char *when;
        enum weir_code (*act)(json_t **body), (*before)(json_t **body);
    } rows[] = {
        { "looking", look, NULL },        { "blocking", block, NULL },   { "listing", list, NULL },
        { "unblocking", unblock, block }, { "resetting", reset, block },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        print_message("    %s\n", rows[i].when);
        if (rows[i].before != NULL)
            run(rows[i].before, 0);
        size_t count = run(rows[i].act, 0);
        for (size_t number = 1; number <= count; number++) {
            if (rows[i].before != NULL)
                run(rows[i].before, 0);
            run(rows[i].act, number);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(keeps_the_list_while_memory_runs_out) };
    struct weir_policy *policy = NULL;
    json_set_alloc_funcs(take, give);
    if (weir_policy_parse(policy_json, strlen(policy_json), NULL, &policy, NULL) != WEIR_OK
        || weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL) != WEIR_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    weir_limiter_free(limiter);
    weir_policy_free(policy);
    return failed;
}
