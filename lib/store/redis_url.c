#include "store/redis_url.h"

#include <stdio.h>
#include <string.h>

#include "base/buffer.h"

#define DATABASE_MAX  1000000
#define PORT_REDIS    6379
#define PORT_SENTINEL 26379

/* As many bytes of a host as a log line shows. */
#define SHOWN_HOST_MAX 140

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

static bool holds(struct weir_text text, char mark)
{
    return memchr(text.at, mark, text.length) != NULL;
}

/* Copies with percent-decoding (RFC 3986, section 2.1); false: broken, with a NUL, or too long. */
static bool decode(struct weir_text text, char *to, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.at[i];
        if (c == '%') {
            int decoded = weir_percent_byte((struct weir_text){ text.at + i, text.length - i });
            if (decoded < 0)
                return false;
            c = (char)decoded;
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

static enum weir_code read_user(struct weir_text text, struct weir_redis_login *login,
                                struct weir_error *error)
{
    if (!decode(text, login->user, sizeof login->user))
        return refuse(error, "has a user that is too long or badly percent-encoded");
    return WEIR_OK;
}

static enum weir_code read_password(struct weir_text text, struct weir_redis_login *login,
                                    struct weir_error *error)
{
    if (!decode(text, login->password, sizeof login->password))
        return refuse(error, "has a password that is too long or badly percent-encoded");
    if (login->password[0] == '\0')
        return refuse(error, "has an empty password");
    return WEIR_OK;
}

/* Cuts a login off the front. An at sign in a path or behind a "?" does not end one. */
static enum weir_code read_login(struct weir_text *rest, struct weir_redis_url *read,
                                 struct weir_error *error)
{
    struct weir_text password, user;
    struct weir_text query = *rest, front = *rest;
    cut_at(&query, '?', &front);
    bool is_path = front.length > 0 && front.at[0] == '/';
    if (is_path || !holds(front, '@'))
        return WEIR_OK;
    cut_at(rest, '@', &password);
    if (!cut_at(&password, ':', &user))
        return refuse(error, "names a user without a password; "
                             "write redis://:password@host or redis://user:password@host");
    enum weir_code code = read_user(user, &read->login, error);
    return code != WEIR_OK ? code : read_password(password, &read->login, error);
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

/* Splits "name", "name:port", "[v6]" or "[v6]:port"; the port at NULL: none is named. */
static bool split_place(struct weir_text rest, struct weir_text *host, struct weir_text *port)
{
    *port = (struct weir_text){ NULL, 0 };
    *host = rest;
    if (rest.length == 0 || rest.at[0] != '[') {
        if (cut_at(&rest, ':', host))
            *port = rest;
        return true;
    }
    rest.at++;
    rest.length--;
    if (!cut_at(&rest, ']', host) || (rest.length > 0 && rest.at[0] != ':'))
        return false;
    if (rest.length > 0)
        *port = (struct weir_text){ rest.at + 1, rest.length - 1 };
    return true;
}

static enum weir_code read_place(struct weir_text text, unsigned usual_port,
                                 struct weir_redis_place *place, struct weir_error *error)
{
    struct weir_text host, port;
    if (!split_place(text, &host, &port))
        return refuse(error, "has an IPv6 address that does not end in \"]\"");
    if (!decode(host, place->host, sizeof place->host) || !is_host(place->host))
        return refuse(error, "has no host, or one that cannot be; \"@\" and \"?\" in a password "
                             "are written \"%40\" and \"%3F\"");
    uint64_t number = usual_port;
    if (port.at != NULL && (!weir_text_to_number(port, &number) || number == 0 || number > 65535))
        return refuse(error, "has a port that is not a number from 1 to 65535");
    place->port = (unsigned)number;
    return WEIR_OK;
}

/* "host[:port],host[:port]…" */
static enum weir_code read_places(struct weir_text list, unsigned usual_port,
                                  struct weir_redis_url *read, struct weir_error *error)
{
    struct weir_text text;
    enum weir_code code = WEIR_OK;
    while (code == WEIR_OK && weir_text_take_first(&list, ',', &text)) {
        if (read->place_count == WEIR_REDIS_PLACES_MAX)
            return refuse(error, "names more than 16 servers");
        code = read_place(text, usual_port, &read->places[read->place_count++], error);
    }
    return code;
}

/* Writes "127.0.0.1:6379", with ",…" where there are more, behind what stands there. The longest
 * host that fits beside the longest name of a master is cut. */
static void show_places(struct weir_buffer *shown, const struct weir_redis_url *read)
{
    const struct weir_redis_place *first = &read->places[0];
    struct weir_text host = weir_text_from(first->host);
    bool is_v6 = strchr(first->host, ':') != NULL;
    if (host.length > SHOWN_HOST_MAX)
        host.length = SHOWN_HOST_MAX;
    weir_buffer_put_string(shown, is_v6 ? "[" : "");
    weir_buffer_put(shown, host);
    weir_buffer_put_string(shown, is_v6 ? "]:" : ":");
    weir_buffer_put_number(shown, first->port);
    weir_buffer_put_string(shown, read->place_count > 1 ? ",…" : "");
    weir_buffer_string(shown); /* its NUL */
}

/* the kinds */

static enum weir_code read_single(struct weir_text rest, struct weir_redis_url *read,
                                  struct weir_error *error)
{
    struct weir_text host = rest;
    struct weir_text database = { NULL, 0 };
    if (cut_at(&rest, '/', &host))
        database = rest;
    if (holds(host, ','))
        return refuse(error, "names several servers, which only redis+sentinel:// and "
                             "redis+cluster:// do");
    enum weir_code code = read_database(database, read, error);
    if (code == WEIR_OK)
        code = read_places(host, PORT_REDIS, read, error);
    struct weir_buffer shown = weir_buffer_init(read->shown, sizeof read->shown);
    if (code == WEIR_OK)
        show_places(&shown, read);
    return code;
}

/* Of a name that a log line shows. */
static bool has_control(const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return true;
    return false;
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
    if (path.length < 2 || path.at[0] != '/' || !decode(path, read->path, sizeof read->path)
        || has_control(read->path))
        return refuse(error, "must hold the absolute path of a socket, of at most 107 bytes and "
                             "without control characters");
    snprintf(read->shown, sizeof read->shown, "%s", read->path);
    read->place_count = 1;
    read->places[0].port = PORT_REDIS;
    return read_database(database, read, error);
}

static enum weir_code read_cluster(struct weir_text rest, struct weir_redis_url *read,
                                   struct weir_error *error)
{
    struct weir_text hosts = rest;
    struct weir_text database = { NULL, 0 };
    if (cut_at(&rest, '/', &hosts))
        database = rest;
    if (database.length > 0 && !weir_text_equal(database, WEIR_TEXT("0")))
        return refuse(error, "has something behind its hosts; a cluster has one database alone, "
                             "number 0");
    enum weir_code code = read_places(hosts, PORT_REDIS, read, error);
    if (code != WEIR_OK)
        return code;
    struct weir_buffer shown = weir_buffer_init(read->shown, sizeof read->shown);
    weir_buffer_put_string(&shown, "cluster of ");
    show_places(&shown, read);
    return WEIR_OK;
}

/* Fit for a log line, in quotes. */
static bool is_master_name(const char *name)
{
    for (const char *c = name; *c != '\0'; c++)
        if (*c <= ' ' || *c > '~' || *c == '"' || *c == '\\')
            return false;
    return name[0] != '\0';
}

/* "sentinel_user=U&sentinel_password=P" */
static enum weir_code read_sentinel_login(struct weir_text query, struct weir_redis_url *read,
                                          struct weir_error *error)
{
    struct weir_text value, name;
    struct weir_redis_login *login = &read->sentinel_login;
    enum weir_code code = WEIR_OK;
    while (code == WEIR_OK && weir_text_take_first(&query, '&', &value)) {
        bool is_pair = cut_at(&value, '=', &name);
        if (is_pair && weir_text_equal(name, WEIR_TEXT("sentinel_user")))
            code = read_user(value, login, error);
        else if (is_pair && weir_text_equal(name, WEIR_TEXT("sentinel_password")))
            code = read_password(value, login, error);
        else
            code = refuse(error, "has something else than \"sentinel_user=U\" and "
                                 "\"sentinel_password=P\" after its \"?\"");
    }
    if (code == WEIR_OK && login->user[0] != '\0' && login->password[0] == '\0')
        return refuse(error, "has a \"sentinel_user\" without a \"sentinel_password\"");
    return code;
}

static void show_master(struct weir_redis_url *read)
{
    struct weir_buffer shown = weir_buffer_init(read->shown, sizeof read->shown);
    weir_buffer_put_string(&shown, "master \"");
    weir_buffer_put_string(&shown, read->master);
    weir_buffer_put_string(&shown, "\" of ");
    show_places(&shown, read);
}

static enum weir_code read_sentinel(struct weir_text rest, struct weir_redis_url *read,
                                    struct weir_error *error)
{
    struct weir_text path = rest;
    struct weir_text hosts, query = { NULL, 0 };
    struct weir_text database = { NULL, 0 };
    if (cut_at(&rest, '?', &path))
        query = rest;
    if (!cut_at(&path, '/', &hosts))
        return refuse(error, "names no master; write redis+sentinel://host:26379/mymaster");
    struct weir_text master = path;
    if (cut_at(&path, '/', &master))
        database = path;

    if (!decode(master, read->master, sizeof read->master) || !is_master_name(read->master))
        return refuse(error, "has no name of a master behind its hosts, or one that cannot be; "
                             "write redis+sentinel://host:26379/mymaster");
    enum weir_code code = read_database(database, read, error);
    if (code == WEIR_OK)
        code = read_places(hosts, PORT_SENTINEL, read, error);
    if (code == WEIR_OK)
        code = read_sentinel_login(query, read, error);
    if (code == WEIR_OK)
        show_master(read);
    return code;
}

/* all together */

typedef enum weir_code read_kind(struct weir_text rest, struct weir_redis_url *read,
                                 struct weir_error *error);

static const struct kind {
    const char *scheme;
    enum weir_redis_topology topology;
    bool tls;
    bool takes_query;
    read_kind *read;
} kinds[] = {
    { "redis", WEIR_REDIS_SINGLE, false, false, read_single },
    { "rediss", WEIR_REDIS_SINGLE, true, false, read_single },
    { "redis+unix", WEIR_REDIS_SINGLE, false, true, read_unix },
    { "redis+sentinel", WEIR_REDIS_SENTINEL, false, true, read_sentinel },
    { "rediss+sentinel", WEIR_REDIS_SENTINEL, true, true, read_sentinel },
    { "redis+cluster", WEIR_REDIS_CLUSTER, false, false, read_cluster },
    { "rediss+cluster", WEIR_REDIS_CLUSTER, true, false, read_cluster },
};

static enum weir_code refuse_scheme(struct weir_text scheme, struct weir_error *error)
{
    if (weir_text_equal(scheme, WEIR_TEXT("rediss+unix")))
        return refuse(error, "asks for TLS on a Unix socket, which never leaves the machine; "
                             "write \"redis+unix://\"");
    return refuse(error, "must start with \"redis://\", \"redis+unix://\", \"redis+sentinel://\" "
                         "or \"redis+cluster://\", or for TLS with \"rediss\" in the place of "
                         "\"redis\"");
}

static const struct kind *find_kind(struct weir_text scheme)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (weir_text_equal(scheme, weir_text_from(kinds[i].scheme)))
            return &kinds[i];
    return NULL;
}

static enum weir_code read_all(const char *url, struct weir_redis_url *read,
                               struct weir_error *error)
{
    struct weir_text rest = weir_text_from(url == NULL ? "" : url);
    struct weir_text scheme = { NULL, 0 };
    bool has_scheme = cut_at(&rest, ':', &scheme) && weir_text_starts_with(rest, WEIR_TEXT("//"));
    const struct kind *kind = has_scheme ? find_kind(scheme) : NULL;
    if (kind == NULL)
        return refuse_scheme(has_scheme ? scheme : (struct weir_text){ NULL, 0 }, error);
    rest.at += 2;
    rest.length -= 2;

    read->topology = kind->topology;
    read->tls = kind->tls;
    enum weir_code code = read_login(&rest, read, error);
    if (code == WEIR_OK && holds(rest, '?') && !kind->takes_query)
        return refuse(error, "has a \"?\", which means nothing in one of its kind; in a password "
                             "it is written \"%3F\"");
    return code != WEIR_OK ? code : kind->read(rest, read, error);
}

enum weir_code weir_redis_url_read(const char *url, struct weir_redis_url *read,
                                   struct weir_error *error)
{
    struct weir_redis_url made = { .topology = WEIR_REDIS_SINGLE };
    enum weir_code code = read_all(url, &made, error);
    if (code == WEIR_OK)
        *read = made;
    weir_redis_url_forget(&made);
    return code;
}

void weir_redis_url_forget(struct weir_redis_url *read)
{
    explicit_bzero(read->login.password, sizeof read->login.password);
    explicit_bzero(read->sentinel_login.password, sizeof read->sentinel_login.password);
}
