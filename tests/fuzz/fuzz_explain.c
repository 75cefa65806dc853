/* Requests as somebody sends them in to be explained: whatever stands in one, it is refused with a text, or
 * explained in JSON, and printed without a character that a terminal would obey. */
#include <stdlib.h>
#include <string.h>

#include <weir/limiter.h>

#include "admin/explain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char policy_json[] =
    "{ \"store\": {\"url\": \"memory:\"}, \"secret\": \"s\","
    "  \"client_ip\": {\"trust\": [\"10.0.0.0/8\"], \"header\": \"Forwarded\"},"
    "  \"policies\": {\"all\": {\"limits\": ["
    "    {\"name\": \"a\", \"by\": [\"ip\", \"route\"], \"rate\": \"5/second\"},"
    "    {\"name\": \"b\", \"by\": \"header:X-Device\", \"rate\": \"1/day\","
    "     \"algorithm\": \"sliding-log\"},"
    "    {\"name\": \"c\", \"by\": [\"param:id\", \"query:q\"], \"rate\": \"0/minute\"},"
    "    {\"name\": \"d\", \"by\": \"field:name\", \"rate\": \"9/minute\"}]}},"
    "  \"routes\": [{\"match\": \"* /a/:id\", \"policy\": \"all\"},"
    "    {\"match\": \"POST /*\", \"policy\": \"all\", \"cost\": 3}] }";

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct weir_limiter *limiter_for_all(void)
{
    static struct weir_policy *policy;
    static struct weir_limiter *limiter;
    if (limiter != NULL)
        return limiter;
    require(weir_policy_parse(policy_json, sizeof policy_json - 1, NULL, &policy, NULL) == WEIR_OK);
    require(weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy), &limiter, NULL) == WEIR_OK);
    return limiter;
}

static void check_print(const json_t *explanation)
{
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    require(stream != NULL);
    weir_explain_print(explanation, stream);
    require(fclose(stream) == 0);
    for (size_t i = 0; i < size; i++)
        require(text[i] == '\n' || ((unsigned char)text[i] >= 0x20 && text[i] != 0x7F));
    require(strstr(text, "\xc2\x9b") == NULL);
    free(text);
}

static void check_explanation(json_t *explanation, const struct weir_error *error)
{
    if (explanation == NULL) {
        require(error->code == WEIR_E_VALUE && error->text[0] != '\0');
        return;
    }
    char *json = json_dumps(explanation, 0);
    require(json != NULL);
    free(json);
    check_print(explanation);
    json_decref(explanation);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weir_line lines[16];
    struct weir_described described = { .peer = "10.0.0.1" };
    struct weir_error error = WEIR_NO_ERROR;
    /* Memory of exactly that size, so that a sanitizer sees what is read behind it. */
    char *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    const struct weir_text sent = { copy, size };
    if (weir_described_read(sent, lines, 16, &described, &error) == WEIR_OK)
        check_explanation(weir_explain(limiter_for_all(), &described, &error), &error);
    else
        require(error.code == WEIR_E_VALUE && error.text[0] != '\0');
    free(copy);
    return 0;
}
