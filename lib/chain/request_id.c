#include "chain/request_id.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/request.h>

#include "base/hash.h"
#include "chain/request.h"

#define MADE_ID_CHARS 32

/* what is taken over */

static bool is_alphanumeric(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool weir_request_id_is_fit(struct weir_text id)
{
    if (id.length == 0 || id.length > WEIR_REQUEST_ID_MAX)
        return false;
    for (size_t i = 0; i < id.length; i++)
        if (!is_alphanumeric(id.at[i]) && memchr("._~+/=:-", id.at[i], 8) == NULL)
            return false;
    return true;
}

/* The value of the only line of that name; at NULL: there is none, or several, of which one may be the
 * client's own. */
static struct weir_text only_line(const struct weir_facts *facts, struct weir_text name)
{
    struct weir_text value = { NULL, 0 };
    for (size_t i = 0; i < facts->header_count; i++) {
        if (!weir_text_equal_fold(facts->headers[i].name, name))
            continue;
        if (value.at != NULL)
            return (struct weir_text){ NULL, 0 };
        value = facts->headers[i].value;
    }
    return value;
}

/* what is made */

static uint8_t id_key[WEIR_HASH_KEY_BYTES];

static void draw_key(void)
{
    if (weir_hash_start())
        weir_hash_key(id_key);
}

/* A counter under a keyed hash: as good as random to who does not have the key, and without a call of
 * the system for each. */
static uint64_t next_bits(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static atomic_uint_fast64_t counter;
    pthread_once(&once, draw_key);
    uint64_t number = atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
    return weir_hash64((struct weir_text){ (const char *)&number, sizeof number }, id_key);
}

static void put_hex(uint64_t bits, char *text)
{
    for (int i = 0; i < 16; i++)
        text[i] = "0123456789abcdef"[bits >> (60 - 4 * i) & 15];
}

static const char *make_id(struct weir_request *request)
{
    char text[MADE_ID_CHARS];
    put_hex(next_bits(), text);
    put_hex(next_bits(), text + MADE_ID_CHARS / 2);
    return weir_request_copy(request, (struct weir_text){ text, sizeof text });
}

const char *weir_request_id(struct weir_request *request)
{
    if (request->id != NULL)
        return request->id;
    struct weir_text sent = { NULL, 0 };
    if (request->is_peer_trusted)
        sent = only_line(&request->facts, WEIR_TEXT("X-Request-Id"));
    request->id =
        weir_request_id_is_fit(sent) ? weir_request_copy(request, sent) : make_id(request);
    return request->id;
}

/* traces */

/* So many lower-case hex digits; `is_zero` is whether all of them are 0. */
static bool take_hex(struct weir_text *text, size_t count, bool *is_zero)
{
    *is_zero = true;
    if (text->length < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        char c = text->at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *is_zero = *is_zero && c == '0';
    }
    text->at += count;
    text->length -= count;
    return true;
}

static bool take_dash(struct weir_text *text)
{
    if (text->length == 0 || text->at[0] != '-')
        return false;
    text->at++;
    text->length--;
    return true;
}

bool weir_traceparent_is_fit(struct weir_text value)
{
    struct weir_text rest = value;
    bool is_version_0, is_zero;
    if (!take_hex(&rest, 2, &is_version_0) || weir_text_starts_with(value, WEIR_TEXT("ff"))
        || !take_dash(&rest))
        return false;
    if (!take_hex(&rest, 32, &is_zero) || is_zero || !take_dash(&rest))
        return false;
    if (!take_hex(&rest, 16, &is_zero) || is_zero || !take_dash(&rest))
        return false;
    if (!take_hex(&rest, 2, &is_zero))
        return false;
    return rest.length == 0 || (!is_version_0 && rest.at[0] == '-');
}

const char *weir_request_traceparent(struct weir_request *request)
{
    struct weir_text value = only_line(&request->facts, WEIR_TEXT("traceparent"));
    if (value.at == NULL || !weir_traceparent_is_fit(value))
        return NULL;
    /* What a later version has behind that is not for us, and of any length. */
    return value.length == WEIR_TRACEPARENT_CHARS
               ? value.at
               : weir_request_copy(request, (struct weir_text){ value.at, WEIR_TRACEPARENT_CHARS });
}
