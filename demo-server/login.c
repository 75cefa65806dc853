/* POST /login. What keeps guessing slow is the policy file's business; what this file owes is that
 * neither the answer nor the time it takes tells whether a user exists, or who is refused. */
#include <string.h>

#include <jansson.h>
#include <sodium.h>

#include "json.h"
#include "routes.h"

#define PASSWORD_MAX_BYTES 1024

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

/* Hashes once whoever is named, and whoever is limited. This holds libmicrohttpd's thread for some
 * 20 ms, and with it all other connections of that thread: enough for a demo with --threads, while a
 * busy server parks the request (weir_park()) and hashes in a pool of its own. */
static bool is_right(const char *username, const char *password, size_t password_length)
{
    const char *hash = nobody;
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++)
        if (strcmp(users[i].name, username) == 0)
            hash = users[i].hash;
    bool matches = crypto_pwhash_str_verify(hash, password, password_length) == 0;
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
    const char *username, *password;
    size_t username_length, password_length;
    enum weir_field found = weir_request_field(request, "username", &username, &username_length);
    if (found == WEIR_FIELD_WAIT)
        return WEIR_WAIT;
    if (found != WEIR_FIELD_FOUND
        || weir_request_field(request, "password", &password, &password_length) != WEIR_FIELD_FOUND
        || password_length > PASSWORD_MAX_BYTES) {
        weir_reply_problem(request, 400, NULL,
                           "Send username and password, as a form or as a JSON object.");
        return WEIR_DONE;
    }
    bool right = is_right(username, password, password_length);
    if (!right || weir_request_is_limited(request))
        return reply_wrong(request);
    return demo_reply_object(request, 200, json_pack("{s:s}", "status", "ok"));
}
