/* POST /login. What keeps guessing slow is the policy file's business; what this file owes is that
 * neither the answer nor the time it takes tells whether a user exists. */
#include <string.h>
#include <strings.h>

#include <jansson.h>
#include <sodium.h>

#include "json.h"
#include "routes.h"

#define BODY_MAX_BYTES (16 * 1024)

/* argon2id with 19 MiB and two passes, the least that OWASP's cheat sheet on password storage
 * names. The password is "correct horse battery staple". */
static const struct {
    const char *name;
    char hash[crypto_pwhash_STRBYTES];
} users[] = {
    { "ann", "$argon2id$v=19$m=19456,t=2,p=1$RlyXOGnWRM6LOFPwrNgsNQ"
             "$sgAYC08I6AS3D7vO1vFj2xSAYXA7BiJqa05A2jWzxaM" },
};

/* Of 32 random bytes that nobody kept, with the same cost: for users who are not there. */
static const char nobody[crypto_pwhash_STRBYTES] =
    "$argon2id$v=19$m=19456,t=2,p=1$XshBzQAn32X2dF9dPZI+FQ"
    "$io5FE8AKAB4gMTEBdYY9FR6WRjSkD4H0pkUsBoL+9u0";

struct credentials {
    char username[256];
    char password[1024];
};

/* Copies text that fits and holds no NUL. */
static bool keep(const char *text, size_t length, char *copy, size_t size)
{
    if (length >= size || memchr(text, '\0', length) != NULL)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    return true;
}

static bool keep_member(const json_t *object, const char *name, char *copy, size_t size)
{
    const json_t *member = json_object_get(object, name);
    return json_is_string(member)
           && keep(json_string_value(member), json_string_length(member), copy, size);
}

static bool read_json(const char *body, size_t length, struct credentials *who)
{
    json_t *object = json_loadb(body, length, JSON_REJECT_DUPLICATES, NULL);
    bool read = keep_member(object, "username", who->username, sizeof who->username)
                && keep_member(object, "password", who->password, sizeof who->password);
    json_decref(object);
    return read;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Undoes "+" and "%20"; false: too long, a broken escape, or a NUL. */
static bool decode(const char *text, size_t length, char *copy, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < length; i++, used++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (c == '%') {
            int high = i + 2 < length ? hex_digit(text[i + 1]) : -1;
            int low = i + 2 < length ? hex_digit(text[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (used + 1 >= size || c == '\0')
            return false;
        copy[used] = c;
    }
    copy[used] = '\0';
    return true;
}

/* Finds the one field of that name in "a=1&b=2"; none or several are refused. */
static bool read_field(const char *body, size_t length, const char *name, char *copy, size_t size)
{
    const char *end = body + length;
    size_t name_length = strlen(name);
    size_t found = 0;
    for (const char *at = body; at < end;) {
        const char *stop = memchr(at, '&', (size_t)(end - at));
        if (stop == NULL)
            stop = end;
        if ((size_t)(stop - at) > name_length && memcmp(at, name, name_length) == 0
            && at[name_length] == '=') {
            at += name_length + 1;
            if (++found > 1 || !decode(at, (size_t)(stop - at), copy, size))
                return false;
        }
        at = stop + 1;
    }
    return found == 1;
}

static bool read_form(const char *body, size_t length, struct credentials *who)
{
    return read_field(body, length, "username", who->username, sizeof who->username)
           && read_field(body, length, "password", who->password, sizeof who->password);
}

/* Whether a Content-Type is `wanted`, parameters such as "; charset=utf-8" aside. */
static bool is_type(const char *type, const char *wanted)
{
    size_t length = strcspn(type, "; \t");
    return length == strlen(wanted) && strncasecmp(type, wanted, length) == 0;
}

static bool read_credentials(struct weir_request *request, const char *body, size_t length,
                             struct credentials *who)
{
    const char *type = weir_request_header(request, "Content-Type");
    if (type == NULL)
        return false;
    if (is_type(type, "application/json"))
        return read_json(body, length, who);
    return is_type(type, "application/x-www-form-urlencoded") && read_form(body, length, who);
}

/* Hashes once whoever is named. This holds libmicrohttpd's thread for some 20 ms, and with it all
 * other connections of that thread: enough for a demo with --threads, while a busy server parks
 * the request (weir_park()) and hashes in a pool of its own. */
static bool is_right(const struct credentials *who)
{
    const char *hash = nobody;
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++)
        if (strcmp(users[i].name, who->username) == 0)
            hash = users[i].hash;
    bool matches = crypto_pwhash_str_verify(hash, who->password, strlen(who->password)) == 0;
    return matches && hash != nobody;
}

static enum weir_step reply_wrong(struct weir_request *request)
{
    weir_reply_problem(request, 401, NULL, "The user name or the password is wrong.");
    /* RFC 9110, section 15.5.2, wants a challenge; browsers show no dialog for this scheme. */
    weir_reply_line(request, "WWW-Authenticate", "Form realm=\"login\"");
    weir_reply_line(request, "Cache-Control", "no-store");
    return WEIR_DONE;
}

enum weir_step demo_login(void *self, struct weir_request *request)
{
    (void)self;
    const char *body;
    size_t length;
    if (!weir_request_body(request, BODY_MAX_BYTES, &body, &length))
        return WEIR_WAIT;

    struct credentials who;
    if (!read_credentials(request, body, length, &who)) {
        sodium_memzero(&who, sizeof who);
        weir_reply_problem(request, 400, NULL,
                           "Send username and password, as a form or as a JSON object.");
        return WEIR_DONE;
    }
    bool right = is_right(&who);
    sodium_memzero(&who, sizeof who);
    if (!right)
        return reply_wrong(request);
    return demo_reply_object(request, 200, json_pack("{s:s}", "status", "ok"));
}
