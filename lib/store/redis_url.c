#include "store/redis_url.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define DATABASE_MAX 1000000

static enum weir_code refuse(struct weir_error *error, const char *why)
{
    return weir_error_set(error, WEIR_E_VALUE, "/store/url", "The Redis URL %s.", why);
}

/* small texts */

/* Cuts what stands before the first `mark` off the front; false: there is none. */
static bool cut_at(struct weir_text *rest, char mark, struct weir_text *before)
{
    const char *found = memchr(rest->at, mark, rest->length);
    if (found == NULL)
        return false;
    *before = (struct weir_text){ rest->at, (size_t)(found - rest->at) };
    rest->at = found + 1;
    rest->length -= before->length + 1;
    return true;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = weir_fold_char(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Copies with percent-decoding (RFC 3986, section 2.1); false: broken, with a NUL, or too long. */
static bool decode(struct weir_text text, char *to, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i];
        if (c == '%') {
            int high = i + 2 < text.length ? hex_digit(text.at[i + 1]) : -1;
            int low = high >= 0 ? hex_digit(text.at[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || length + 1 >= size)
            return false;
        to[length++] = c;
    }
    to[length] = '\0';
    return true;
}

/* the parts of a URL */

static enum weir_code read_credentials(struct weir_text *rest, struct weir_redis_url *read,
                                       struct weir_error *error)
{
    struct weir_text login, user;
    bool is_path = rest->length > 0 && rest->at[0] == '/';
    if (is_path || !cut_at(rest, '@', &login))
        return WEIR_OK;
    if (!cut_at(&login, ':', &user))
        return refuse(error, "names a user without a password; "
                             "write redis://:password@host or redis://user:password@host");
    if (!decode(user, read->user, sizeof read->user)
        || !decode(login, read->password, sizeof read->password))
        return refuse(error, "has a user or password that is too long or badly percent-encoded");
    if (read->password[0] == '\0')
        return refuse(error, "has an empty password");
    return WEIR_OK;
}

static enum weir_code read_database(struct weir_text text, struct weir_redis_url *read,
                                    struct weir_error *error)
{
    uint64_t number = 0;
    if (text.length > 0 && (!weir_text_to_number(text, &number) || number > DATABASE_MAX))
        return refuse(error, "must name the database by its number");
    read->database = (unsigned)number;
    return WEIR_OK;
}

/* A name, or an address with its zone ("fe80::1%eth0"). */
static bool is_host(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789.-_:%";
    return host[0] != '\0' && strspn(host, allowed) == strlen(host);
}

/* "name", "name:port", "[v6]", "[v6]:port" */
static enum weir_code read_host(struct weir_text rest, struct weir_redis_url *read,
                                struct weir_error *error)
{
    struct weir_text host = rest;
    struct weir_text port = { NULL, 0 };
    bool is_v6 = rest.length > 0 && rest.at[0] == '[';
    if (is_v6) {
        rest.at++;
        rest.length--;
        if (!cut_at(&rest, ']', &host) || (rest.length > 0 && rest.at[0] != ':'))
            return refuse(error, "has an IPv6 address that does not end in \"]\"");
        if (rest.length > 0)
            port = (struct weir_text){ rest.at + 1, rest.length - 1 };
    } else if (cut_at(&rest, ':', &host)) {
        port = rest;
    }

    if (!decode(host, read->host, sizeof read->host) || !is_host(read->host))
        return refuse(error, "has no host, or one that cannot be; "
                             "\"@\" in a password is written \"%40\"");
    uint64_t number = 6379;
    if (port.at != NULL && (!weir_text_to_number(port, &number) || number == 0 || number > 65535))
        return refuse(error, "has a port that is not a number from 1 to 65535");
    read->port = (unsigned)number;
    snprintf(read->shown, sizeof read->shown, is_v6 ? "[%s]:%u" : "%s:%u", read->host, read->port);
    return WEIR_OK;
}

static enum weir_code read_network(struct weir_text rest, struct weir_redis_url *read,
                                   struct weir_error *error)
{
    struct weir_text host = rest;
    struct weir_text database = { NULL, 0 };
    if (cut_at(&rest, '/', &host))
        database = rest;
    enum weir_code code = read_database(database, read, error);
    return code != WEIR_OK ? code : read_host(host, read, error);
}

static enum weir_code read_unix(struct weir_text rest, struct weir_redis_url *read,
                                struct weir_error *error)
{
    struct weir_text path = rest;
    struct weir_text database = { NULL, 0 };
    if (cut_at(&rest, '?', &path)) {
        if (!weir_text_starts_with(rest, WEIR_TEXT("db=")))
            return refuse(error, "has something else than \"db=N\" after its \"?\"");
        database = (struct weir_text){ rest.at + 3, rest.length - 3 };
    }
    if (path.length < 2 || path.at[0] != '/' || !decode(path, read->path, sizeof read->path))
        return refuse(error, "must hold the absolute path of a socket, of at most 107 bytes");
    snprintf(read->shown, sizeof read->shown, "%s", read->path);
    return read_database(database, read, error);
}

/* Kinds of which the library knows that they are not there yet. */
static bool is_of_later(struct weir_text scheme)
{
    return weir_text_equal(scheme, WEIR_TEXT("rediss"))
           || weir_text_starts_with(scheme, WEIR_TEXT("rediss+"))
           || weir_text_equal(scheme, WEIR_TEXT("redis+sentinel"))
           || weir_text_equal(scheme, WEIR_TEXT("redis+cluster"));
}

static enum weir_code read_all(const char *url, struct weir_redis_url *read,
                               struct weir_error *error)
{
    struct weir_text rest = weir_text_from(url);
    struct weir_text scheme = { NULL, 0 };
    if (rest.at == NULL || !cut_at(&rest, ':', &scheme)
        || !weir_text_starts_with(rest, WEIR_TEXT("//")))
        return refuse(error, "must start with \"redis://\" or \"redis+unix://\"");
    if (is_of_later(scheme))
        return weir_error_set(error, WEIR_E_NOT_YET, "/store/url",
                              "Redis over TLS, Sentinel and Cluster are not there yet.");
    rest.at += 2;
    rest.length -= 2;

    bool is_unix = weir_text_equal(scheme, WEIR_TEXT("redis+unix"));
    if (!is_unix && !weir_text_equal(scheme, WEIR_TEXT("redis")))
        return refuse(error, "must start with \"redis://\" or \"redis+unix://\"");
    enum weir_code code = read_credentials(&rest, read, error);
    if (code != WEIR_OK)
        return code;
    return is_unix ? read_unix(rest, read, error) : read_network(rest, read, error);
}

enum weir_code weir_redis_url_read(const char *url, struct weir_redis_url *read,
                                   struct weir_error *error)
{
    struct weir_redis_url made = { .port = 6379 };
    enum weir_code code = read_all(url, &made, error);
    if (code == WEIR_OK)
        *read = made;
    weir_redis_url_forget(&made);
    return code;
}

void weir_redis_url_forget(struct weir_redis_url *read)
{
    explicit_bzero(read->password, sizeof read->password);
}
