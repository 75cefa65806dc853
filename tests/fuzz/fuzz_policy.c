/* Policy files: whatever stands in one, it is taken or refused with a code, a place and a text. What
 * stands behind a NUL is a second file, which the first may include as "b". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "limit/penalty.h"
#include "policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Of an error or a warning. */
static void check_message(const struct weir_error *message)
{
    require(message->code > WEIR_OK && message->code < WEIR_CODE_COUNT);
    require(message->text[0] != '\0');
    require(memchr(message->text, '\0', sizeof message->text) != NULL);
    require(memchr(message->path, '\0', sizeof message->path) != NULL);
    require(message->path[0] == '\0' || message->path[0] == '/');
    require(memchr(message->file, '\0', sizeof message->file) != NULL);
}

static void check_numbers(const struct weir_limit_rule *limit,
                          const struct weir_limit_numbers *numbers)
{
    const struct weir_rate *rate = &numbers->rate;
    const uint64_t now_us = UINT64_C(1700000000000000);
    require(rate->window_us > 0 && rate->parts > 0 && rate->interval_part < rate->parts);
    require(rate->limit <= WEIR_UNITS_MAX && rate->burst <= WEIR_UNITS_MAX);
    require(weir_has_burst(limit->algorithm) || rate->burst == rate->limit);
    if (numbers->calendar == NULL)
        return;
    require(limit->algorithm == WEIR_FIXED_WINDOW && !limit->from_first);
    struct weir_window window = weir_calendar_window(numbers->calendar, now_us);
    require(window.start_us <= now_us && now_us < window.end_us);
}

static void check_limit(const struct weir_policy *policy, const struct weir_limit_rule *limit)
{
    static const struct weir_text plans[] = { { "free", 4 }, { "pro", 3 }, { NULL, 0 } };
    struct weir_limit_numbers numbers;
    require(limit->by.count >= 1 && limit->by.parts[0].count >= 1);
    require(limit->max_wait_us == 0 || limit->algorithm == WEIR_LEAKY_BUCKET);
    require(!limit->logs_refusals || limit->algorithm == WEIR_SLIDING_LOG);
    require(limit->penalty == NULL || weir_penalty_fault(limit->penalty) == NULL);
    require(weir_count_units(limit, 404, 1) <= WEIR_STATUS_UNITS_MAX);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        if (weir_limit_rate(policy, limit, plans[i], &numbers))
            check_numbers(limit, &numbers);
}

static void check_ruleset(const struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    require(ruleset->limit_count >= 1 && ruleset->limit_count <= WEIR_CHECK_LIMITS);
    require(ruleset->enforce_ppm <= WEIR_ENFORCE_ALL);
    for (size_t i = 0; i < ruleset->limit_count; i++)
        check_limit(policy, &ruleset->limits[i]);
}

static void check_policy(const struct weir_policy *policy)
{
    const struct weir_facts facts = { .method = WEIR_TEXT("GET"),
                                      .path = WEIR_TEXT("/v1/items/7") };
    struct weir_match match;
    weir_policy_match(policy, &facts, &match);
    require(match.route != NULL && match.params.count <= WEIR_PARAMS_MAX);
    for (size_t i = 0; i < policy->ruleset_count; i++)
        check_ruleset(policy, &policy->rulesets[i]);
    for (size_t i = 0; i < weir_policy_warning_count(policy); i++)
        check_message(weir_policy_warning(policy, i));
}

static char folder[] = "/tmp/weir-fuzz-XXXXXX";
static char second[sizeof folder + 2];

static void clean_up(void)
{
    unlink(second);
    rmdir(folder);
}

static void make_folder(void)
{
    static bool is_there;
    if (is_there)
        return;
    is_there = true;
    require(mkdtemp(folder) != NULL);
    snprintf(second, sizeof second, "%s/b", folder);
    atexit(clean_up);
}

/* Returns the length of the first. */
static size_t split(const uint8_t *data, size_t size)
{
    const uint8_t *end = memchr(data, '\0', size);
    if (end == NULL)
        return size;
    size_t length = (size_t)(end - data);
    FILE *file = fopen(second, "w");
    require(file != NULL);
    require(fwrite(end + 1, 1, size - length - 1, file) == size - length - 1);
    require(fclose(file) == 0);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    make_folder();
    size_t length = split(data, size);
    enum weir_code code = weir_policy_parse((const char *)data, length, folder, &policy, &error);
    require(code == error.code);
    if (code == WEIR_OK)
        check_policy(policy);
    else
        check_message(&error);
    require((policy != NULL) == (code == WEIR_OK));
    weir_policy_free(policy);
    return 0;
}
