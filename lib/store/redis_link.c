/* One connection to Redis, without waiting: the plain half of hiredis over a socket that does not
 * block. Its asynchronous half would make the program abort on a reply nobody asked for
 * (redisProcessCallbacks, 0.14.1), and allocates for each command. */
#include "store/redis_link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "store/redis_internal.h"

/* A reply and its elements, all arrays in it together: much more than any can be… */
#define REPLY_BYTES_MAX    65536
#define REPLY_ELEMENTS_MAX 1024

/* …but for the map of a cluster of many nodes whose slots lie scattered. */
#define MAP_BYTES_MAX    (8 * 1024 * 1024)
#define MAP_ELEMENTS_MAX (512 * 1024)

/* Of what has come so much is read in one go, a buffer of hiredis's (16 KiB) each: more than the
 * answers to all commands under way. */
#define READS_MAX 64

void weir_link_close(struct weir_redis_link *link)
{
    if (link->context != NULL)
        redisFree(link->context);
    link->context = NULL;
    link->session = NULL; /* it went with the context */
    link->stage = WEIR_LINK_APART;
    link->has_output = false;
    link->holds = false;
    link->was_lost = false;
    link->loading_count = 0;
    weir_pending_forget(&link->redis->pending, &link->under_way);
}

/* connecting */

static bool is_unix(const struct weir_redis_link *link)
{
    return link->place.host[0] == '\0';
}

static redisContext *begin(const struct weir_redis_link *link)
{
    if (is_unix(link))
        return redisConnectUnixNonBlock(link->redis->url.path);
    return redisConnectNonBlock(link->addresses.at[link->address_at], (int)link->place.port);
}

static bool expects_map(const struct weir_redis_link *link)
{
    return link->redis->url.topology == WEIR_REDIS_CLUSTER;
}

/* Memory for an array's elements is taken when their number is announced, before any has come. */
static void *make_array(const redisReadTask *task, weir_redis_element_count count)
{
    struct weir_redis_link *link = task->privdata;
    const size_t most = expects_map(link) ? MAP_ELEMENTS_MAX : REPLY_ELEMENTS_MAX;
    if (count > 0 && (size_t)count > most - link->reply_elements)
        return NULL;
    link->reply_elements += count > 0 ? (size_t)count : 0;
    return link->make_array(task, count);
}

static void bound_replies(struct weir_redis_link *link)
{
    redisReader *reader = link->context->reader;
    link->reply_bytes = link->reply_elements = 0;
    link->reply_makers = *reader->fn;
    link->make_array = link->reply_makers.createArray;
    link->reply_makers.createArray = make_array;
    reader->fn = &link->reply_makers;
    reader->privdata = link;
}

static bool connect_here(struct weir_redis_link *link, uint64_t now_us)
{
    link->was_lost = link->was_refused = false;
    link->advice = (struct weir_advice_asked){ 0 };
    link->context = begin(link);
    if (link->context == NULL || link->context->err != 0) {
        weir_link_lose(link, link->context == NULL ? "out of memory" : link->context->errstr);
        weir_link_close(link);
        return false;
    }
    bound_replies(link);
    fcntl(link->context->fd, F_SETFD, FD_CLOEXEC);
    if (!is_unix(link))
        redisEnableKeepAlive(link->context);
    link->stage = WEIR_LINK_CONNECTING;
    link->stage_until_us = now_us + WEIR_REDIS_TRY_US;
    return true;
}

bool weir_link_connect(struct weir_redis_link *link, uint64_t now_us)
{
    for (; link->address_at < link->addresses.count; link->address_at++)
        if (connect_here(link, now_us))
            return true;
    return false;
}

/* The handshake is driven here and not in hiredis's first read or write, so that what it waits for
 * is polled for. */
static void secure(struct weir_redis_link *link, enum weir_redis_tls_step step, const char *why,
                   uint64_t now_us)
{
    switch (step) {
    case WEIR_REDIS_TLS_DONE:
        link->has_output = false;
        weir_link_greet(link, now_us);
        return;
    case WEIR_REDIS_TLS_READS:
    case WEIR_REDIS_TLS_WRITES:
        link->has_output = step == WEIR_REDIS_TLS_WRITES;
        return;
    case WEIR_REDIS_TLS_FAILED:
        weir_link_lose(link, why);
        return;
    }
}

static void begin_to_secure(struct weir_redis_link *link, uint64_t now_us)
{
    char why[WEIR_REDIS_WHY_CHARS];
    link->stage = WEIR_LINK_SECURING;
    link->stage_until_us = now_us + WEIR_REDIS_TRY_US;
    /* The certificate must be for the host that was asked for, whatever its address. */
    enum weir_redis_tls_step step = weir_redis_tls_begin(
        link->redis->tls, link->context, link->place.host, &link->session, why, sizeof why);
    secure(link, step, why, now_us);
}

static void go_on_to_secure(struct weir_redis_link *link, uint64_t now_us)
{
    char why[WEIR_REDIS_WHY_CHARS];
    secure(link, weir_redis_tls_go_on(link->session, why, sizeof why), why, now_us);
}

/* Writes why hiredis could not read or write. */
static void explain(const struct weir_redis_link *link, char why[WEIR_REDIS_WHY_CHARS])
{
    if (link->session != NULL)
        weir_redis_tls_explain(link->context, why, WEIR_REDIS_WHY_CHARS);
    else
        snprintf(why, WEIR_REDIS_WHY_CHARS, "%.*s", WEIR_REDIS_WHY_CHARS - 1,
                 link->context->errstr);
}

static void on_connected(struct weir_redis_link *link, uint64_t now_us)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(link->context->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    if (failure == 0) {
        if (link->redis->tls != NULL && !is_unix(link))
            begin_to_secure(link, now_us);
        else
            weir_link_greet(link, now_us);
        return;
    }
    char why[WEIR_REDIS_WHY_CHARS];
    weir_link_lose(link, strerror_r(failure, why, sizeof why));
}

/* reading */

static void on_reply(struct weir_redis_link *link, const redisReply *reply, uint64_t now_us)
{
    struct weir_redis *redis = link->redis;
    const struct weir_redis_topology_type *topology = redis->topology;
    if (link->role == WEIR_LINK_ASKS && topology->on_message != NULL
        && topology->on_message(link, reply, now_us))
        return;

    struct weir_redis_command command;
    if (!weir_pending_take_replied(&redis->pending, &link->under_way, &command)) {
        weir_link_lose(link, "a reply that nobody asked for");
        return;
    }
    enum weir_redis_kind kind = (enum weir_redis_kind)command.kind;
    if (kind == WEIR_REDIS_CHECK) {
        weir_link_on_check_reply(link, &command, reply);
    } else if (kind == WEIR_REDIS_HASH) {
        weir_link_on_hash(link, reply);
    } else if (kind < WEIR_REDIS_HASH) {
        weir_link_on_greeting(link, kind, reply, now_us);
    } else if (kind >= WEIR_REDIS_TO_ADVICE) {
        weir_redis_advice_on_reply(link, (enum weir_advice_question)(kind - WEIR_REDIS_TO_ADVICE),
                                   reply);
    } else if (kind >= WEIR_REDIS_TO_TOPOLOGY) {
        topology->on_reply(link, kind, reply, now_us);
    }
}

static void take_replies(struct weir_redis_link *link, uint64_t now_us)
{
    redisReader *reader = link->context->reader;
    while (!link->was_lost) {
        void *reply = NULL;
        if (redisReaderGetReply(reader, &reply) != REDIS_OK)
            weir_link_lose(link, "what it sends is not Redis's protocol");
        if (reply == NULL)
            return;
        link->reply_bytes = reader->len - reader->pos;
        link->reply_elements = 0;
        on_reply(link, reply, now_us);
        freeReplyObject(reply);
    }
}

/* False: nothing has come. */
static bool read_more(struct weir_redis_link *link, uint64_t now_us)
{
    const redisReader *reader = link->context->reader;
    size_t before = reader->len;
    if (redisBufferRead(link->context) != REDIS_OK) {
        char why[WEIR_REDIS_WHY_CHARS];
        explain(link, why);
        weir_link_lose(link, why);
        return false;
    }
    bool has_come = reader->len > before;
    link->reply_bytes += reader->len - before;
    take_replies(link, now_us);
    /* hiredis waits for the end of a reply however long it gets. */
    if (link->reply_bytes > (expects_map(link) ? MAP_BYTES_MAX : REPLY_BYTES_MAX))
        weir_link_lose(link, "a reply without end");
    return has_come;
}

void weir_link_read(struct weir_redis_link *link, uint64_t now_us)
{
    for (size_t reads = 0; reads < READS_MAX && !link->was_lost; reads++)
        if (!read_more(link, now_us))
            return;
}

/* writing */

void weir_link_flush(struct weir_redis_link *link)
{
    int is_all = 0;
    if (redisBufferWrite(link->context, &is_all) == REDIS_OK) {
        link->has_output = !is_all;
        return;
    }
    /* A server that closes right away may have said why ("max number of clients reached"). */
    char why[WEIR_REDIS_WHY_CHARS];
    explain(link, why);
    link->context->err = 0;
    read_more(link, weir_monotonic_us());
    weir_link_lose(link, why);
}

void weir_link_append(struct weir_redis_link *link, const struct weir_buffer *command)
{
    if (command->full
        || redisAppendFormattedCommand(link->context, command->at, command->length) != REDIS_OK)
        weir_link_lose(link, "out of memory");
    link->has_output = true;
}

bool weir_redis_ask(struct weir_redis_link *link, const struct weir_text *arguments, size_t count,
                    enum weir_redis_kind kind)
{
    const struct weir_redis_command own = { .kind = (uint8_t)kind };
    if (link->stage < WEIR_LINK_GREETING || link->was_lost
        || !weir_pending_put(&link->redis->pending, &link->under_way, &own))
        return false;
    char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer command = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_command(&command, arguments, count);
    weir_link_append(link, &command);
    explicit_bzero(memory, command.length); /* it may hold a password */
    return true;
}

/* polling */

short weir_link_events(const struct weir_redis_link *link)
{
    if (link->stage == WEIR_LINK_CONNECTING)
        return POLLOUT;
    return link->has_output ? POLLIN | POLLOUT : POLLIN;
}

void weir_link_on_events(struct weir_redis_link *link, short events, uint64_t now_us)
{
    const short trouble = POLLERR | POLLHUP;
    if (link->stage == WEIR_LINK_CONNECTING) {
        if ((events & (POLLOUT | trouble)) != 0)
            on_connected(link, now_us);
        return;
    }
    if (link->stage == WEIR_LINK_SECURING) {
        go_on_to_secure(link, now_us);
        return;
    }
    /* Reading goes first: what came in time must not be found late. */
    if ((events & (POLLIN | trouble)) != 0)
        read_more(link, now_us);
    else if ((events & POLLOUT) != 0)
        weir_link_flush(link);
}
