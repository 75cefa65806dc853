/* Texts that the memory store keeps beside its sums: a few, for operators. */
#ifndef WEIR_STORE_MEMORY_TEXTS_H
#define WEIR_STORE_MEMORY_TEXTS_H

#include <weir/store.h>

/* Each under a key of its own. */
#define WEIR_MEMORY_TEXTS_MAX 8

struct weir_memory_text {
    char *key; /* owned; NULL: the place is free */
    size_t key_length;
    char *text; /* owned */
    size_t length;
    uint64_t until_us;
};

struct weir_memory_texts {
    struct weir_memory_text at[WEIR_MEMORY_TEXTS_MAX];
};

/* Carries out a WEIR_EXCHANGE without a fault. False: there is no room, and nothing was done. By one
 * thread at a time. */
bool weir_memory_texts_exchange(struct weir_memory_texts *texts, struct weir_check *check,
                                uint64_t now_us);

void weir_memory_texts_finish(struct weir_memory_texts *texts);

#endif
