/* What tests of the policy file share: parsing a text, and looking at what came of it. */
#ifndef TESTS_UNIT_POLICY_PARSE_H
#define TESTS_UNIT_POLICY_PARSE_H

#include "test.h"

#include "policy/policy.h"

static inline struct weir_policy *parse(const char *json)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    if (weir_policy_parse(json, strlen(json), NULL, &policy, &error) != WEIR_OK)
        fail_msg("%s: %s", error.path, error.text);
    return policy;
}

/* The error of a text that must be refused. */
static inline struct weir_error refusal(const char *json)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    enum weir_code code = weir_policy_parse(json, strlen(json), NULL, &policy, &error);
    assert_int_not_equal(code, WEIR_OK);
    assert_int_equal(code, error.code);
    assert_null(policy);
    return error;
}

static inline void assert_error(const struct weir_error *error, enum weir_code code,
                                const char *path, const char *text)
{
    assert_string_equal(weir_code_name(error->code), weir_code_name(code));
    assert_string_equal(error->path, path);
    if (strstr(error->text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error->text, text);
}

static inline const char *text_of(struct weir_text text)
{
    static char memory[4][256];
    static unsigned next;
    char *string = memory[next++ % 4];
    snprintf(string, 256, "%.*s", WEIR_TEXT_ARGS(text));
    return string;
}

#endif
