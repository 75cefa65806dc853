/* Ids and traces that strangers send: what is taken over is short and holds nothing that a log or a
 * header line could be broken with, and what is no trace is none. */
#include <stdlib.h>
#include <string.h>

#include "chain/request_id.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool is_only(struct weir_text text, const char *characters)
{
    for (size_t i = 0; i < text.length; i++)
        if (text.at[i] == '\0' || strchr(characters, text.at[i]) == NULL)
            return false;
    return true;
}

#define HEX     "0123456789abcdef"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static void check_trace(struct weir_text value)
{
    require(value.length >= WEIR_TRACEPARENT_CHARS);
    require(value.at[2] == '-' && value.at[35] == '-' && value.at[52] == '-');
    require(is_only((struct weir_text){ value.at, WEIR_TRACEPARENT_CHARS }, HEX "-"));
    require(!is_only((struct weir_text){ value.at + 3, 32 }, "0"));
    require(!is_only((struct weir_text){ value.at + 36, 16 }, "0"));
    require(value.length == WEIR_TRACEPARENT_CHARS || memcmp(value.at, "00", 2) != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Memory of exactly that size, so that a sanitizer sees what is read behind it. */
    char *copy = malloc(size == 0 ? 1 : size);
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    const struct weir_text text = { copy, size };
    bool is_short = size >= 1 && size <= WEIR_REQUEST_ID_MAX;
    bool is_plain = is_only(text, LETTERS "0123456789._~+/=:-");
    require(weir_request_id_is_fit(text) == (is_short && is_plain));
    if (weir_traceparent_is_fit(text))
        check_trace(text);
    free(copy);
    return 0;
}
