/* The smaller and the larger of two numbers; of two times, see base/clock.h. */
#ifndef WEIR_BASE_ORDER_H
#define WEIR_BASE_ORDER_H

#include <stdint.h>

static inline uint64_t weir_smaller(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static inline uint64_t weir_larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

#endif
