#include "store/redis_errors.h"

#include <stdio.h>
#include <string.h>

/* An error of Redis begins with a word in capitals. "ERR", or no such word, may stand for what a
 * script met with one key; the others are about the server, its user, or its memory. */
static size_t word_length(const char *why)
{
    return strspn(why, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

static bool is_about_server(const char *why)
{
    size_t length = word_length(why);
    bool has_word = length > 2 && (why[length] == ' ' || why[length] == '\0');
    return has_word && strncmp(why, "ERR", length) != 0;
}

/* The rest of a text may change from one error to the next, as with the slot of a "MOVED". */
static bool is_alike(const char *why, const char *other)
{
    size_t length = word_length(why);
    if (!is_about_server(why))
        return strcmp(why, other) == 0;
    return word_length(other) == length && strncmp(why, other, length) == 0;
}

bool weir_errors_add(struct weir_redis_errors *errors, uint64_t key, bool is_of_server,
                     const char *why, uint64_t now_us)
{
    if (errors->count == 0) {
        errors->since_us = now_us;
        errors->key = key;
        errors->is_of_server = false;
    }
    if (errors->count < WEIR_ERRORS_IN_A_ROW)
        errors->count++;
    errors->is_of_server =
        errors->is_of_server || is_of_server || key != errors->key || is_about_server(why);
    if (!errors->is_of_server || errors->count < WEIR_ERRORS_IN_A_ROW
        || now_us - errors->since_us < WEIR_ERRORS_LAST_US)
        return false;
    bool may_change = now_us - errors->changed_us >= WEIR_ERRORS_PAUSE_US;
    if (errors->is_failing && (!may_change || is_alike(why, errors->why)))
        return false;
    errors->is_failing = true;
    errors->changed_us = now_us;
    snprintf(errors->why, sizeof errors->why, "%.*s", (int)sizeof errors->why - 1, why);
    return true;
}

bool weir_errors_end(struct weir_redis_errors *errors, uint64_t now_us)
{
    errors->count = 0;
    if (!errors->is_failing || now_us - errors->changed_us < WEIR_ERRORS_PAUSE_US)
        return false;
    errors->is_failing = false;
    errors->changed_us = now_us;
    errors->why[0] = '\0';
    return true;
}

const char *weir_errors_advice(const char *why)
{
    static const struct {
        const char *start, *advice;
    } rows[] = {
        { "OOM ", ": give it more memory (maxmemory)" },
        { "NOPERM", ": let its user do that (ACL SETUSER)" },
        { "NOAUTH", ": put a password into the store's \"url\"" },
        { "MISCONF", ": it cannot save its data; see its own log" },
        { "NOREPLICAS", ": bring its replicas back (min-replicas-to-write)" },
        { "CLUSTERDOWN", ": see \"redis-cli --cluster check\"" },
        { "BUSY", ": a script keeps it busy; SCRIPT KILL ends it" },
        { "ERR the clocks", ": let both machines follow NTP" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strncmp(why, rows[i].start, strlen(rows[i].start)) == 0)
            return rows[i].advice;
    return "";
}
