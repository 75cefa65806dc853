/* Units that were used in a window. */
#ifndef WEIR_LIMIT_UNITS_H
#define WEIR_LIMIT_UNITS_H

#include <weir/store.h>

/* What is used once spend->reserved units of it have turned out to be spend->cost: never below
 * nothing, and not above `most`, unless it already was. */
static inline uint64_t weir_units_settled(const struct weir_spend *spend, uint64_t used,
                                          uint64_t most)
{
    if (spend->cost <= spend->reserved) {
        uint64_t given = spend->reserved - spend->cost;
        return given < used ? used - given : 0;
    }
    uint64_t sum = used + (spend->cost - spend->reserved);
    if (sum <= most)
        return sum;
    return used > most ? used : most;
}

#endif
