#include "store/redis_sentinel.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "store/redis_wire.h"

/* shapes */

static bool is_list(const struct redisReply *reply, size_t least)
{
    return reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

/* The bytes of an element; none where it is no string. */
static struct weir_text text_of(const struct redisReply *element)
{
    bool is_text = element != NULL && element->str != NULL
                   && (element->type == REDIS_REPLY_STRING || element->type == REDIS_REPLY_STATUS);
    return is_text ? (struct weir_text){ element->str, (size_t)element->len }
                   : (struct weir_text){ NULL, 0 };
}

static bool starts_with(const struct redisReply *error, const char *word)
{
    return strncmp(error->str, word, strlen(word)) == 0;
}

/* It goes into log lines and to the system's resolver: nothing but what can stand in a name or an
 * address. */
static bool is_host(struct weir_text text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:%";
    for (size_t i = 0; i < text.length; i++)
        if (memchr(allowed, text.at[i], sizeof allowed - 1) == NULL)
            return false;
    return text.length > 0;
}

static bool read_place(struct weir_text host, struct weir_text port, struct weir_redis_place *place)
{
    uint64_t number;
    if (!is_host(host) || host.length >= sizeof place->host || port.at == NULL
        || !weir_text_to_number(port, &number) || number == 0 || number > 65535)
        return false;
    memset(place, 0, sizeof *place);
    memcpy(place->host, host.at, host.length);
    place->port = (unsigned)number;
    return true;
}

/* where the master is */

/* Whatever was said instead of an address. */
static void read_refusal(const struct redisReply *reply, char *why, size_t size)
{
    bool is_error = reply != NULL && reply->type == REDIS_REPLY_ERROR && reply->str != NULL
                    && reply->str[0] != '\0';
    if (!is_error)
        snprintf(why, size, "what it says is no address");
    else if (starts_with(reply, "NOAUTH"))
        snprintf(why, size, "it wants a password: sentinel_password");
    else if (starts_with(reply, "ERR unknown command"))
        snprintf(why, size, "it is no Sentinel");
    else
        weir_redis_read_error(reply, why, size);
}

enum weir_sentinel_meaning weir_sentinel_read_master(const struct redisReply *reply,
                                                     struct weir_redis_place *place, char *why,
                                                     size_t size)
{
    if (reply != NULL && reply->type == REDIS_REPLY_NIL)
        return WEIR_SENTINEL_UNKNOWN;
    if (is_list(reply, 2)
        && read_place(text_of(reply->element[0]), text_of(reply->element[1]), place))
        return WEIR_SENTINEL_NAMED;
    read_refusal(reply, why, size);
    return WEIR_SENTINEL_REFUSED;
}

/* what a server is */

bool weir_sentinel_read_role(const struct redisReply *reply, char *why, size_t size)
{
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
        return true;
    struct weir_text role = { NULL, 0 };
    if (is_list(reply, 1))
        role = text_of(reply->element[0]);
    if (weir_text_equal(role, WEIR_TEXT("master")))
        return true;
    if (weir_text_equal(role, WEIR_TEXT("slave")) || weir_text_equal(role, WEIR_TEXT("replica")))
        snprintf(why, size, "it is a replica, not the master");
    else if (weir_text_equal(role, WEIR_TEXT("sentinel")))
        snprintf(why, size, "it is a Sentinel, not the master");
    else
        snprintf(why, size, "it does not say that it is the master");
    return false;
}

/* messages */

/* "<name> <old host> <old port> <new host> <new port>", read from the end, where nothing can hold a
 * space. */
static bool read_switch(struct weir_text text, const char *master, struct weir_redis_place *place)
{
    struct weir_text old, port, host;
    return weir_text_take_last(&text, ' ', &port) && weir_text_take_last(&text, ' ', &host)
           && weir_text_take_last(&text, ' ', &old) && weir_text_take_last(&text, ' ', &old)
           && weir_text_equal(text, weir_text_from(master)) && read_place(host, port, place);
}

enum weir_sentinel_message weir_sentinel_read_message(const struct redisReply *reply,
                                                      const char *master,
                                                      struct weir_redis_place *place)
{
    if (!is_list(reply, 3))
        return WEIR_SENTINEL_NO_MESSAGE;
    struct weir_text kind = text_of(reply->element[0]);
    if (weir_text_equal(kind, WEIR_TEXT("pmessage")))
        return WEIR_SENTINEL_OTHER_MESSAGE;
    if (!weir_text_equal(kind, WEIR_TEXT("message")))
        return WEIR_SENTINEL_NO_MESSAGE;
    bool is_switch = weir_text_equal(text_of(reply->element[1]), WEIR_TEXT(WEIR_SENTINEL_CHANNEL))
                     && read_switch(text_of(reply->element[2]), master, place);
    return is_switch ? WEIR_SENTINEL_SWITCHED : WEIR_SENTINEL_OTHER_MESSAGE;
}
