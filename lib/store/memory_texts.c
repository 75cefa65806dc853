#include "store/memory_texts.h"

#include <stdlib.h>
#include <string.h>

static void forget(struct weir_memory_text *kept)
{
    free(kept->key);
    free(kept->text);
    *kept = (struct weir_memory_text){ .key = NULL };
}

void weir_memory_texts_finish(struct weir_memory_texts *texts)
{
    for (size_t i = 0; i < WEIR_MEMORY_TEXTS_MAX; i++)
        forget(&texts->at[i]);
}

/* The text of that key, or a free place; NULL: there is neither. */
static struct weir_memory_text *find(struct weir_memory_texts *texts,
                                     const struct weir_spend *spend, uint64_t now_us)
{
    struct weir_memory_text *free_one = NULL;
    for (size_t i = 0; i < WEIR_MEMORY_TEXTS_MAX; i++) {
        struct weir_memory_text *kept = &texts->at[i];
        if (kept->key != NULL && kept->until_us <= now_us)
            forget(kept);
        if (kept->key == NULL)
            free_one = kept;
        else if (kept->key_length == spend->key_length
                 && memcmp(kept->key, spend->key, spend->key_length) == 0)
            return kept;
    }
    return free_one;
}

/* Whether what is kept begins as expected. */
static bool is_expected(const struct weir_memory_text *kept, const struct weir_exchange *exchange)
{
    if (exchange->expected == NULL || kept->key == NULL)
        return exchange->expected == NULL && kept->key == NULL;
    return kept->length >= WEIR_TEXT_MARK_BYTES
           && memcmp(kept->text, exchange->expected, WEIR_TEXT_MARK_BYTES) == 0;
}

static bool put(struct weir_memory_text *kept, const struct weir_spend *spend,
                const struct weir_exchange *exchange, uint64_t now_us)
{
    struct weir_memory_text made = { .key = malloc(spend->key_length),
                                     .key_length = spend->key_length,
                                     .text = malloc(exchange->length),
                                     .length = exchange->length,
                                     .until_us = now_us + exchange->keep_us };
    if (made.key == NULL || made.text == NULL) {
        forget(&made);
        return false;
    }
    memcpy(made.key, spend->key, spend->key_length);
    memcpy(made.text, exchange->text, exchange->length);
    forget(kept);
    *kept = made;
    return true;
}

bool weir_memory_texts_exchange(struct weir_memory_texts *texts, struct weir_check *check,
                                uint64_t now_us)
{
    struct weir_exchange *exchange = check->exchange;
    struct weir_memory_text *kept = find(texts, check->spends, now_us);
    if (kept == NULL)
        return exchange->text == NULL || exchange->expected != NULL;
    exchange->found_length = kept->length;
    if (kept->length > 0)
        memcpy(exchange->found, kept->text, kept->length);
    if (exchange->text == NULL || !is_expected(kept, exchange))
        return true;
    if (exchange->length > 0)
        return put(kept, check->spends, exchange, now_us);
    forget(kept);
    return true;
}
