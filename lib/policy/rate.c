/* Rates whose arithmetic is exact. */
#include <weir/store.h>

/* Redis's Lua counts in doubles, which are exact to 2^53. An arrival time is now plus at most a
 * whole burst, and now stays below 2^52 until 2112; the Redis store asks for the same. */
#define BURST_MAX_US WEIR_BURST_MAX_US

/* C counts in 1/parts µs, in 64 bits, and adds two bursts of them. */
#define BURST_MAX_PARTS (UINT64_C(1) << 62)

static uint64_t greatest_divisor(uint64_t one, uint64_t other)
{
    while (other != 0) {
        uint64_t rest = one % other;
        one = other;
        other = rest;
    }
    return one;
}

static enum weir_code refuse(struct weir_error *error, const char *why)
{
    return weir_error_set(error, WEIR_E_VALUE, NULL, "The rate cannot be kept: %s.", why);
}

static enum weir_code check_numbers(uint64_t limit, uint64_t window_us, uint64_t burst,
                                    struct weir_error *error)
{
    if (window_us == 0)
        return refuse(error, "the window is 0; wanted is at least one microsecond");
    if (window_us > WEIR_WINDOW_MAX_US)
        return refuse(error, "the window is longer than 366 days");
    if (limit > WEIR_UNITS_MAX)
        return refuse(error, "the limit is above 1000000000");
    if (burst > WEIR_UNITS_MAX)
        return refuse(error, "the burst is above 1000000000");
    if (limit == 0 && burst > 0)
        return refuse(error, "a limit of 0 lets nothing through, so it has no burst");
    if (limit / 1000 > window_us)
        return refuse(error, "it is above one unit in each nanosecond");
    return WEIR_OK;
}

/* Both spans of a burst, in microseconds and in parts, must fit; dividing cannot overflow. */
static enum weir_code check_span(const struct weir_rate *rate, uint64_t interval_parts,
                                 struct weir_error *error)
{
    if (rate->burst > BURST_MAX_US / (rate->interval_us + 1))
        return refuse(error, "a burst of that size takes more than 71 years to earn");
    if (rate->burst > BURST_MAX_PARTS / interval_parts)
        return refuse(error, "its fractions of a microsecond are too fine for a burst of that "
                             "size; choose a rounder number of units, a smaller burst or a "
                             "shorter window");
    return WEIR_OK;
}

enum weir_code weir_rate_make(uint64_t limit, uint64_t window_us, uint64_t burst,
                              struct weir_rate *rate, struct weir_error *error)
{
    enum weir_code code = check_numbers(limit, window_us, burst, error);
    if (code != WEIR_OK)
        return code;

    /* Where nothing is ever earned, a whole window stands for the interval: no cost fits. */
    uint64_t divisor = limit == 0 ? window_us : greatest_divisor(limit, window_us);
    uint64_t parts = limit == 0 ? 1 : limit / divisor;
    uint64_t interval_parts = limit == 0 ? window_us : window_us / divisor;
    struct weir_rate made = { .limit = limit,
                              .window_us = window_us,
                              .burst = burst == 0 ? limit : burst,
                              .parts = parts,
                              .interval_us = interval_parts / parts,
                              .interval_part = interval_parts % parts };
    code = check_span(&made, interval_parts, error);
    if (code == WEIR_OK)
        *rate = made;
    return code;
}
