#include "chain/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* The heap's own quick lists end at 1 KiB, and a request is longer: malloc() and free() of it cost a
 * tenth of what a limiter in memory does. */

/* Sizes are rounded up, so that requests which differ by a header line use the same blocks. */
#define UNIT_BYTES ((size_t)64)

/* Of one thread: as many as have been under way at once, up to this. A request with a very long target
 * or very many header lines is not worth it: what is kept comes to 128 KiB at most. */
#define SPARES_MAX      32
#define SPARE_BYTES_MAX ((size_t)4096)

/* Under a sanitizer each request has memory of its own, so that one which is used after its end is seen. */
#if defined(__SANITIZE_ADDRESS__)
#define KEEPS_SPARES 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEEPS_SPARES 0
#endif
#endif
#ifndef KEEPS_SPARES
#define KEEPS_SPARES 1
#endif

struct spare {
    struct spare *next;
    size_t size;
};

struct spares {
    struct spare *first;
    unsigned count;
    bool ends_with_thread; /* its thread has been told to free them at its end */
};

static _Thread_local struct spares spares;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t at_thread_end;
static bool has_key;

void weir_blocks_drop(void)
{
    while (spares.first != NULL) {
        struct spare *spare = spares.first;
        spares.first = spare->next;
        free(spare);
    }
    spares.count = 0;
}

/* Nothing is kept any more, whatever else the thread still does. */
static void end_keeping(void *self)
{
    (void)self;
    weir_blocks_drop();
    spares.count = SPARES_MAX;
}

static void make_key(void)
{
    has_key = KEEPS_SPARES && pthread_key_create(&at_thread_end, end_keeping) == 0;
}

/* A library may be unloaded before the threads that have used it end. */
__attribute__((destructor)) static void delete_key(void)
{
    if (has_key)
        pthread_key_delete(at_thread_end);
}

/* False: nobody would free the spares when the thread ends. */
static bool ends_with_thread(void)
{
    if (spares.ends_with_thread)
        return true;
    pthread_once(&once, make_key);
    spares.ends_with_thread = has_key && pthread_setspecific(at_thread_end, &spares) == 0;
    return spares.ends_with_thread;
}

void *weir_block_take(size_t *size)
{
    if (*size > SIZE_MAX - UNIT_BYTES)
        return NULL;
    *size = (*size + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES;
    struct spare *spare = spares.first;
    if (spare == NULL || spare->size < *size)
        return malloc(*size);
    spares.first = spare->next;
    spares.count--;
    *size = spare->size;
    return spare;
}

void weir_block_give(void *block, size_t size)
{
    struct spare *spare = block;
    if (size > SPARE_BYTES_MAX || spares.count >= SPARES_MAX || !ends_with_thread()) {
        free(block);
        return;
    }
    *spare = (struct spare){ .next = spares.first, .size = size };
    spares.first = spare;
    spares.count++;
}
