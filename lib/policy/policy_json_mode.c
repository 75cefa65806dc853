/* "mode" and "enforce_percent": whether limits hold, and for whom. */
#include <math.h>
#include <string.h>

#include "policy/policy_json.h"
#include "policy/warnings.h"

#define PPM_IN_A_PERCENT (WEIR_ENFORCE_ALL / 100)

enum weir_code weir_read_mode(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    const struct weir_choice choices[] = {
        { weir_mode_name(WEIR_ENFORCE), WEIR_ENFORCE },
        { weir_mode_name(WEIR_SHADOW), WEIR_SHADOW },
        { weir_mode_name(WEIR_OFF), WEIR_OFF },
    };
    int mode = WEIR_ENFORCE;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &mode);
    *(enum weir_mode *)into = (enum weir_mode)mode;
    return code;
}

/* In hundredths; what else a number says is no percentage that somebody has meant. */
enum weir_code weir_read_enforce_percent(struct weir_reader *reader, const struct weir_place *place,
                                         void *into)
{
    static const char *const wanted =
        "a percentage from 0 to 100, of two decimals at most, such as 10 or 0.25";
    struct weir_ruleset *ruleset = into;
    if (!json_is_number(place->value))
        return weir_refuse_type(reader, place, wanted);
    double percent = json_number_value(place->value);
    if (!(percent >= 0 && percent <= 100) || fabs(percent * 100 - round(percent * 100)) > 1e-6)
        return weir_refuse_value(reader, place, wanted);
    ruleset->enforce_ppm = (uint32_t)round(percent * 100) * (PPM_IN_A_PERCENT / 100);
    return ruleset->mode == WEIR_ENFORCE
               ? WEIR_OK
               : weir_warn_of_percent(reader->policy, ruleset, reader->error);
}

enum weir_code weir_refuse_enforce_percent(struct weir_reader *reader,
                                           const struct weir_place *place, void *into)
{
    (void)into;
    return weir_refuse(
        reader, place, WEIR_E_UNKNOWN_KEY,
        "A roll-out is of one policy at a time; wanted is \"enforce_percent\" in one "
        "of \"policies\".");
}
