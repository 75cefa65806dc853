#ifndef WEIR_BASE_ALIGN_H
#define WEIR_BASE_ALIGN_H

#include <stddef.h>

/* A size rounded up, so that what stands behind it in one block may be anything. */
static inline size_t weir_aligned(size_t size)
{
    const size_t unit = _Alignof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

#endif
