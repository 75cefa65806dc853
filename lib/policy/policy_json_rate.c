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

enum weir_code weir_check_calendar(const struct weir_reader *reader, const struct weir_place *place,
                                   uint64_t window_us)
{
    if (WEIR_DAY_US % window_us == 0)
        return WEIR_OK;
    if (window_us % WEIR_WEEK_US == 0 || window_us % WEIR_YEAR_US == 0)
        return weir_refuse(reader, place, WEIR_E_NOT_YET,
                           "Weeks and years on the calendar arrive with a later version; use "
                           "windows of whole days, or leave out \"calendar\".");
    if (window_us % WEIR_DAY_US == 0)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_VALUE,
                       "The window divides no day, so it cannot start at midnight; wanted is one "
                       "that does, whole days, or no \"calendar\".");
}
