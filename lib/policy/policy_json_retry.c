/* "retry_after": what who is refused is told of the wait. */
#include "policy/policy_json.h"

#define SECOND_US   UINT64_C(1000000)
#define WANTED      "\"exact\", \"none\", a duration such as \"60s\", or {\"round\": \"1m\"}"
#define WANTED_TIME "a duration from \"1s\" to \"366d\""

static enum weir_code read_time(const struct weir_reader *reader, const struct weir_place *place,
                                const char *wanted, uint64_t *time_s)
{
    struct weir_text text;
    uint64_t time_us = 0;
    enum weir_code code = weir_read_text(reader, place, wanted, &text);
    if (code != WEIR_OK)
        return code;
    if (!weir_duration_parse(text, &time_us) || time_us < SECOND_US)
        return weir_refuse_value(reader, place, wanted);
    *time_s = (time_us + SECOND_US - 1) / SECOND_US;
    return WEIR_OK;
}

static enum weir_code read_round(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct weir_retry_rule *rule = into;
    return read_time(reader, place, WANTED_TIME, &rule->seconds);
}

enum weir_code weir_read_retry_after(struct weir_reader *reader, const struct weir_place *place,
                                     void *into)
{
    static const struct weir_member members[] = { { "round", read_round, true } };
    struct weir_retry_rule *rule = into;
    if (json_is_object(place->value)) {
        rule->kind = WEIR_RETRY_ROUNDED;
        return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), rule);
    }
    if (!json_is_string(place->value))
        return weir_refuse_type(reader, place, WANTED);
    struct weir_text word = weir_text_from(json_string_value(place->value));
    if (weir_text_equal(word, WEIR_TEXT("exact")))
        return WEIR_OK;
    rule->kind = WEIR_RETRY_NONE;
    if (weir_text_equal(word, WEIR_TEXT("none")))
        return WEIR_OK;
    rule->kind = WEIR_RETRY_FIXED;
    return read_time(reader, place, WANTED, &rule->seconds);
}
