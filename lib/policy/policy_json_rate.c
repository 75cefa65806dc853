/* Rates and bursts, as limits and plans write them. */
#include "policy/policy_json.h"

enum weir_code weir_read_rate(const struct weir_reader *reader, const struct weir_place *place,
                              struct weir_written_rate *rate)
{
    char pointer[WEIR_POINTER_BYTES];
    struct weir_text text;
    enum weir_code code =
        weir_read_text(reader, place, "a text such as \"100/minute\" or \"plan\"", &text);
    if (code != WEIR_OK)
        return code;
    return weir_rate_parse(text, rate, weir_place_pointer(place, pointer), reader->error);
}

enum weir_code weir_make_rate(const struct weir_reader *reader, const struct weir_place *place,
                              const struct weir_written_rate *written, uint64_t burst,
                              struct weir_rate *rate)
{
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_rate_make(written->limit, written->window_us, burst, rate, &error);
    return code == WEIR_OK ? code : weir_refuse(reader, place, code, "%s", error.text);
}

enum weir_code weir_read_burst(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    return weir_read_integer(reader, place, 1, WEIR_UNITS_MAX, into);
}

const char *weir_algorithm_word(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_GCRA:
        return "gcra";
    case WEIR_TOKEN_BUCKET:
        return "token-bucket";
    case WEIR_LEAKY_BUCKET:
        return "leaky-bucket";
    case WEIR_FIXED_WINDOW:
        return "fixed-window";
    case WEIR_SLIDING_COUNTER:
        return "sliding-counter";
    case WEIR_SLIDING_LOG:
        return "sliding-log";
    case WEIR_PENALTY:
        return "penalty";
    }
    return "?";
}
