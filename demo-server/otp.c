/* POST /otp/send and POST /otp/verify. How often anybody may ask and try is the policy file's
 * business. What this file owes (NIST SP 800-63B-4, section 3.1.3.2): a code is of six digits from a
 * random source, works once and for ten minutes, a new one takes the place of the old, and no code
 * can be tried more than five times, however many try at once.
 *
 * Codes live in this process: several instances need one table, in a database of theirs. */
#include "otp.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>
#include <sodium.h>

#include "json.h"
#include "log.h"
#include "routes.h"

#define CODES          4096 /* a power of two */
#define NEIGHBOURS     16
#define TRIES          5
#define LIFETIME_S     600
#define CODES_POSSIBLE 1000000

struct digest {
    unsigned char bytes[16];
};

struct code {
    struct digest destination;
    struct digest digits;
    time_t expires_s; /* of the monotonic clock; 0: there is none */
    unsigned tries_left;
};

struct demo_otp {
    bool shows_codes;
    pthread_mutex_t mutex; /* of the codes */
    unsigned char key[crypto_generichash_KEYBYTES];
    struct code codes[CODES];
};

struct demo_otp *demo_otp_new(bool shows_codes)
{
    struct demo_otp *otp = calloc(1, sizeof *otp);
    if (otp == NULL)
        return NULL;
    otp->shows_codes = shows_codes;
    pthread_mutex_init(&otp->mutex, NULL);
    randombytes_buf(otp->key, sizeof otp->key);
    return otp;
}

void demo_otp_free(struct demo_otp *otp)
{
    if (otp == NULL)
        return;
    pthread_mutex_destroy(&otp->mutex);
    sodium_memzero(otp, sizeof *otp);
    free(otp);
}

static struct digest digest_of(const struct demo_otp *otp, const char *text, size_t length)
{
    struct digest digest;
    crypto_generichash(digest.bytes, sizeof digest.bytes, (const unsigned char *)text, length,
                       otp->key, sizeof otp->key);
    return digest;
}

/* Spellings that the policy counts as one destination are one here, too. */
static struct digest destination_of(const struct demo_otp *otp, const char *text, size_t length)
{
    struct digest digest;
    crypto_generichash_state state;
    crypto_generichash_init(&state, otp->key, sizeof otp->key, sizeof digest.bytes);
    while (length > 0 && strchr(" \t", text[0]) != NULL)
        text++, length--;
    while (length > 0 && strchr(" \t", text[length - 1]) != NULL)
        length--;
    for (size_t i = 0; i < length; i++) {
        bool is_upper = text[i] >= 'A' && text[i] <= 'Z';
        unsigned char folded = (unsigned char)(is_upper ? text[i] - 'A' + 'a' : text[i]);
        crypto_generichash_update(&state, &folded, 1);
    }
    crypto_generichash_final(&state, digest.bytes, sizeof digest.bytes);
    return digest;
}

static bool is_same(const struct digest *one, const struct digest *other)
{
    return sodium_memcmp(one->bytes, other->bytes, sizeof one->bytes) == 0;
}

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1;
}

/* the table; its mutex is held */

static struct code *code_at(struct demo_otp *otp, const struct digest *destination, size_t step)
{
    size_t start;
    memcpy(&start, destination->bytes, sizeof start);
    return &otp->codes[(start + step) % CODES];
}

/* The code that was sent there last; NULL: it is gone, or there was none. */
static struct code *find(struct demo_otp *otp, const struct digest *destination)
{
    for (size_t i = 0; i < NEIGHBOURS; i++) {
        struct code *code = code_at(otp, destination, i);
        if (code->expires_s > now_s() && is_same(&code->destination, destination))
            return code;
    }
    return NULL;
}

/* Where a new code goes: in the place of the old one, or of the one that ends first. */
static struct code *make_room(struct demo_otp *otp, const struct digest *destination)
{
    struct code *room = find(otp, destination);
    for (size_t i = 0; room == NULL && i < NEIGHBOURS; i++)
        if (code_at(otp, destination, i)->expires_s <= now_s())
            room = code_at(otp, destination, i);
    if (room != NULL)
        return room;
    room = code_at(otp, destination, 0);
    for (size_t i = 1; i < NEIGHBOURS; i++)
        if (code_at(otp, destination, i)->expires_s < room->expires_s)
            room = code_at(otp, destination, i);
    return room;
}

/* Takes a try before it looks at the digits, so that those who try at once share the tries. */
static bool try_code(struct demo_otp *otp, const struct digest *destination,
                     const struct digest *digits)
{
    struct code *code = find(otp, destination);
    if (code == NULL || code->tries_left == 0)
        return false;
    code->tries_left--;
    bool is_right = is_same(&code->digits, digits);
    if (is_right)
        code->expires_s = 0;
    return is_right;
}

/* the handlers */

static enum weir_step reply_misused(struct weir_request *request, const char *wanted)
{
    weir_reply_problem(request, 400, NULL, wanted);
    return WEIR_DONE;
}

enum weir_step demo_otp_send(void *self, struct weir_request *request)
{
    struct demo_otp *otp = self;
    const char *destination;
    size_t length;
    enum weir_field found = weir_request_field(request, "destination", &destination, &length);
    if (found == WEIR_FIELD_WAIT)
        return WEIR_WAIT;
    if (found != WEIR_FIELD_FOUND || length == 0)
        return reply_misused(request, "Send destination, as a form or as a JSON object.");

    char digits[8];
    snprintf(digits, sizeof digits, "%06u", (unsigned)randombytes_uniform(CODES_POSSIBLE));
    struct digest whose = destination_of(otp, destination, length);
    pthread_mutex_lock(&otp->mutex);
    *make_room(otp, &whose) = (struct code){ .destination = whose,
                                             .digits = digest_of(otp, digits, 6),
                                             .expires_s = now_s() + LIFETIME_S,
                                             .tries_left = TRIES };
    pthread_mutex_unlock(&otp->mutex);
    if (otp->shows_codes)
        demo_log_code(destination, digits);
    sodium_memzero(digits, sizeof digits);
    /* The same for every destination, whether somebody reads it or not. */
    return demo_reply_object(request, 202, json_pack("{s:s}", "status", "sent"));
}

enum weir_step demo_otp_verify(void *self, struct weir_request *request)
{
    struct demo_otp *otp = self;
    const char *destination, *digits;
    size_t destination_length, digits_length;
    enum weir_field found =
        weir_request_field(request, "destination", &destination, &destination_length);
    if (found == WEIR_FIELD_WAIT)
        return WEIR_WAIT;
    if (found != WEIR_FIELD_FOUND || destination_length == 0
        || weir_request_field(request, "code", &digits, &digits_length) != WEIR_FIELD_FOUND)
        return reply_misused(request, "Send destination and code, as a form or as a JSON object.");

    struct digest whose = destination_of(otp, destination, destination_length);
    struct digest theirs = digest_of(otp, digits, digits_length);
    pthread_mutex_lock(&otp->mutex);
    bool is_right = !weir_request_is_limited(request) && try_code(otp, &whose, &theirs);
    pthread_mutex_unlock(&otp->mutex);
    if (is_right)
        return demo_reply_object(request, 200, json_pack("{s:s}", "status", "ok"));
    weir_reply_problem(request, 401, NULL, "The code is wrong, or not valid any more.");
    weir_reply_line(request, "WWW-Authenticate", "Form realm=\"one-time code\"");
    weir_reply_line(request, "Cache-Control", "no-store");
    return WEIR_DONE;
}
