/* One connection to Redis, without waiting: the plain half of hiredis over a socket that does not
 * block. Its asynchronous half would make the program abort on a reply nobody asked for
 * (redisProcessCallbacks, 0.14.1), and allocates for each command. */
#include "store/redis_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"

/* Much more than one reply and one read can be. */
#define REPLY_BYTES_MAX 65536

/* Copies a reason, cut to the size that all of them have here. */
static void copy_why(char to[WEIR_REDIS_WHY_CHARS], const char *why)
{
    snprintf(to, WEIR_REDIS_WHY_CHARS, "%.*s", WEIR_REDIS_WHY_CHARS - 1, why);
}

void weir_redis_lose(struct weir_redis *redis, const char *why)
{
    if (redis->was_lost)
        return;
    redis->was_lost = true;
    copy_why(redis->lost_why, why);
}

/* Redis itself says why it will not do. */
static void refuse(struct weir_redis *redis, const char *what, const char *why)
{
    char text[WEIR_REDIS_WHY_CHARS];
    snprintf(text, sizeof text, "%.20s%.75s", what, why);
    redis->was_refused = true;
    weir_redis_lose(redis, text);
}

void weir_redis_close(struct weir_redis *redis)
{
    if (redis->context != NULL)
        redisFree(redis->context);
    redis->context = NULL;
    redis->stage = WEIR_REDIS_APART;
    redis->has_output = false;
    redis->was_lost = false;
    redis->loading_count = 0;
    weir_redis_scripts_forget_loading(&redis->scripts);
}

/* names and addresses */

static size_t print_addresses(struct weir_redis *redis, const struct addrinfo *found)
{
    size_t count = 0;
    for (; found != NULL && count < WEIR_REDIS_ADDRESSES_MAX; found = found->ai_next)
        if (getnameinfo(found->ai_addr, found->ai_addrlen, redis->addresses[count],
                        WEIR_REDIS_ADDRESS_CHARS, NULL, 0, NI_NUMERICHOST)
            == 0)
            count++;
    return count;
}

bool weir_redis_resolve(struct weir_redis *redis)
{
    redis->was_refused = false;
    redis->address_at = 0;
    redis->address_count = 1; /* a socket's path is its address */
    if (redis->url.host[0] == '\0')
        return true;

    const struct addrinfo wanted = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *found = NULL;
    int failure = getaddrinfo(redis->url.host, NULL, &wanted, &found);
    redis->address_count = failure == 0 ? print_addresses(redis, found) : 0;
    if (failure == 0)
        freeaddrinfo(found);
    if (redis->address_count == 0)
        snprintf(redis->lost_why, sizeof redis->lost_why, "its name cannot be resolved: %s",
                 failure == 0 ? "no address" : gai_strerror(failure));
    return redis->address_count > 0;
}

/* connecting */

static redisContext *begin(const struct weir_redis *redis)
{
    if (redis->url.host[0] == '\0')
        return redisConnectUnixNonBlock(redis->url.path);
    return redisConnectNonBlock(redis->addresses[redis->address_at], (int)redis->url.port);
}

static bool connect_here(struct weir_redis *redis, uint64_t now_us)
{
    redis->was_lost = redis->was_refused = false;
    redis->context = begin(redis);
    if (redis->context == NULL || redis->context->err != 0) {
        weir_redis_lose(redis, redis->context == NULL ? "out of memory" : redis->context->errstr);
        weir_redis_close(redis);
        return false;
    }
    fcntl(redis->context->fd, F_SETFD, FD_CLOEXEC);
    if (redis->url.host[0] != '\0')
        redisEnableKeepAlive(redis->context);
    redis->stage = WEIR_REDIS_CONNECTING;
    redis->stage_until_us = now_us + WEIR_REDIS_TRY_US;
    return true;
}

bool weir_redis_connect(struct weir_redis *redis, uint64_t now_us)
{
    for (; redis->address_at < redis->address_count; redis->address_at++)
        if (connect_here(redis, now_us))
            return true;
    return false;
}

/* writing */

static void flush(struct weir_redis *redis, uint64_t now_us)
{
    int is_all = 0;
    if (redisBufferWrite(redis->context, &is_all) == REDIS_OK) {
        redis->has_output = !is_all;
        return;
    }
    /* A server that closes right away may have said why ("max number of clients reached"). */
    char why[WEIR_REDIS_WHY_CHARS];
    copy_why(why, redis->context->errstr);
    redis->context->err = 0;
    weir_redis_on_readable(redis, now_us);
    weir_redis_lose(redis, why);
}

static void append(struct weir_redis *redis, const struct weir_buffer *command)
{
    if (command->full
        || redisAppendFormattedCommand(redis->context, command->at, command->length) != REDIS_OK)
        weir_redis_lose(redis, "out of memory");
    redis->has_output = true;
}

static void ask(struct weir_redis *redis, const struct weir_text *arguments, size_t count)
{
    char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer command = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_command(&command, arguments, count);
    append(redis, &command);
    explicit_bzero(memory, command.length);
}

static void ask_to_load(struct weir_redis *redis, const struct weir_redis_script *script)
{
    ask(redis,
        (struct weir_text[]){
            WEIR_TEXT("SCRIPT"), WEIR_TEXT("LOAD"), { script->text, script->text_length } },
        3);
}

/* Redis tells a script's hash in its own time; until then checks bring the script along. */
static void learn_hash(struct weir_redis *redis, struct weir_redis_script *script)
{
    if (script->is_loading || redis->loading_count == WEIR_REDIS_SCRIPTS_MAX
        || !weir_pending_send_own(&redis->pending))
        return;
    size_t at = (redis->loading_first + redis->loading_count++) % WEIR_REDIS_SCRIPTS_MAX;
    redis->loading[at] = script->shape;
    script->is_loading = true;
    ask_to_load(redis, script);
}

static void on_hash(struct weir_redis *redis, const redisReply *reply)
{
    struct weir_redis_script *script =
        weir_redis_scripts_find(&redis->scripts, &redis->loading[redis->loading_first]);
    redis->loading_first = (redis->loading_first + 1) % WEIR_REDIS_SCRIPTS_MAX;
    redis->loading_count--;
    if (script == NULL)
        return; /* forgotten for others meanwhile */
    script->is_loading = false;
    weir_redis_read_hash(reply, script->hash);
}

static uint64_t clock_us(const struct weir_redis *redis)
{
    if (redis->scripts.clock == WEIR_REDIS_CLOCK_OF_TEST)
        return weir_clock_now_us(&redis->test_clock);
    struct weir_clock clock = weir_clock_or_system(NULL);
    return weir_clock_now_us(&clock);
}

static void append_check(struct weir_redis *redis, const struct weir_check *check,
                         enum weir_redis_by by)
{
    char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer command = weir_buffer_init(memory, sizeof memory);
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    struct weir_redis_script *script = weir_redis_scripts_get(&redis->scripts, &plan.shape);
    if (script == NULL) {
        weir_redis_lose(redis, "out of memory");
        return;
    }
    bool is_known = script->hash[0] != '\0';
    weir_redis_write_check(&command, script, is_known ? by : WEIR_REDIS_BY_TEXT,
                           redis->scripts.clock, clock_us(redis), &plan, check);
    append(redis, &command);
    if (!is_known)
        learn_hash(redis, script);
}

void weir_redis_send(struct weir_redis *redis)
{
    struct weir_check *check;
    if (redis->stage != WEIR_REDIS_OPEN)
        return;
    while (!redis->was_lost && (check = weir_pending_send(&redis->pending)) != NULL)
        append_check(redis, check, WEIR_REDIS_BY_HASH);
    if (redis->has_output && !redis->was_lost)
        flush(redis, weir_monotonic_us());
}

/* greeting */

static void ask_auth(struct weir_redis *redis)
{
    struct weir_text arguments[3] = { WEIR_TEXT("AUTH") };
    size_t count = 1;
    if (redis->url.user[0] != '\0')
        arguments[count++] = weir_text_from(redis->url.user);
    arguments[count++] = weir_text_from(redis->url.password);
    ask(redis, arguments, count);
}

static void ask_select(struct weir_redis *redis)
{
    char digits[16];
    snprintf(digits, sizeof digits, "%u", redis->url.database);
    ask(redis, (struct weir_text[]){ WEIR_TEXT("SELECT"), weir_text_from(digits) }, 2);
}

static void await_next_greeting(struct weir_redis *redis, enum weir_redis_greeting next)
{
    while (!redis->greets[next])
        next++;
    redis->greeted = next;
}

/* The commonest script: if Redis takes this one, it takes scripts. */
static struct weir_redis_script *first_script(struct weir_redis *redis)
{
    const struct weir_redis_shape lone_gcra = {
        .operation = WEIR_SPEND,
        .is_plain = true,
        .count = 1,
        .key_count = 1,
        .variants = { WEIR_REDIS_GCRA },
        .places = { WEIR_REDIS_ALONE },
    };
    return weir_redis_scripts_get(&redis->scripts, &lone_gcra);
}

static void ask_script(struct weir_redis *redis)
{
    const struct weir_redis_script *script = first_script(redis);
    if (script == NULL)
        weir_redis_lose(redis, "out of memory");
    else
        ask_to_load(redis, script);
}

static void ping(struct weir_redis *redis, uint64_t now_us)
{
    /* A server that takes longer for this than a check may take is no use. */
    redis->stage = WEIR_REDIS_PINGING;
    redis->stage_until_us = now_us + redis->timeout_us;
    ask(redis, (struct weir_text[]){ WEIR_TEXT("PING") }, 1);
    flush(redis, now_us);
}

static void on_script(struct weir_redis *redis, const redisReply *reply, const char *text,
                      uint64_t now_us)
{
    struct weir_redis_script *script = first_script(redis);
    if (script == NULL)
        weir_redis_lose(redis, "out of memory");
    else if (!weir_redis_read_hash(reply, script->hash))
        refuse(redis, "", text);
    else
        ping(redis, now_us);
}

static void greet(struct weir_redis *redis, uint64_t now_us)
{
    redis->greets[WEIR_REDIS_AUTH] = redis->url.password[0] != '\0';
    redis->greets[WEIR_REDIS_SELECT] = redis->url.database > 0;
    redis->greets[WEIR_REDIS_SCRIPT] = true;
    if (redis->greets[WEIR_REDIS_AUTH])
        ask_auth(redis);
    if (redis->greets[WEIR_REDIS_SELECT])
        ask_select(redis);
    ask_script(redis);
    await_next_greeting(redis, WEIR_REDIS_AUTH);
    redis->stage = WEIR_REDIS_GREETING;
    flush(redis, now_us);
}

/* Redis may repeat the arguments of what it does not understand, so of its text only the first word
 * goes into the log. */
static void refuse_auth(struct weir_redis *redis, const char *text)
{
    char why[40];
    bool has_no_password = strncmp(text, "ERR AUTH <password> called", 26) == 0;
    snprintf(why, sizeof why, "%.*s", (int)strcspn(text, " "), text);
    refuse(redis, "AUTH refused: ", has_no_password ? "that server has no password" : why);
}

static void on_greeting(struct weir_redis *redis, const redisReply *reply, uint64_t now_us)
{
    char text[WEIR_REDIS_WHY_CHARS];
    weir_redis_read_error(reply, text, sizeof text);
    bool is_status = reply->type == REDIS_REPLY_STATUS;
    switch (redis->greeted) {
    case WEIR_REDIS_AUTH:
        if (!is_status)
            refuse_auth(redis, text);
        await_next_greeting(redis, WEIR_REDIS_SELECT);
        return;
    case WEIR_REDIS_SELECT:
        if (!is_status)
            refuse(redis, "SELECT refused: ", text);
        await_next_greeting(redis, WEIR_REDIS_SCRIPT);
        return;
    case WEIR_REDIS_SCRIPT:
        on_script(redis, reply, text, now_us);
        return;
    case WEIR_REDIS_GREETINGS:
        break;
    }
}

static void on_pong(struct weir_redis *redis, const redisReply *reply)
{
    char text[WEIR_REDIS_WHY_CHARS];
    weir_redis_read_error(reply, text, sizeof text);
    if (reply->type != REDIS_REPLY_STATUS) {
        refuse(redis, "PING refused: ", text);
        return;
    }
    redis->stage = WEIR_REDIS_OPEN;
    weir_redis_on_open(redis);
}

/* replies to checks */

static void on_check_reply(struct weir_redis *redis, const redisReply *reply)
{
    struct weir_check *check;
    switch (weir_pending_take_replied(&redis->pending, &check)) {
    case WEIR_PENDING_TO_NONE:
        weir_redis_lose(redis, "a reply that nobody asked for");
        return;
    case WEIR_PENDING_TO_OWN:
        on_hash(redis, reply);
        return;
    case WEIR_PENDING_TO_CHECK:
        break;
    }
    if (check == NULL)
        return; /* done already: at its deadline, or cancelled */

    switch (weir_redis_read_answer(reply, check)) {
    case WEIR_REDIS_DECIDED:
        weir_redis_on_answer(redis);
        weir_redis_end(check, WEIR_STORE_ANSWERED, "");
        return;
    case WEIR_REDIS_NO_SCRIPT:
        /* Nothing was decided, so the check counts once. The whole text makes Redis remember. */
        weir_pending_send_again(&redis->pending, check);
        append_check(redis, check, WEIR_REDIS_BY_TEXT);
        return;
    case WEIR_REDIS_UNFIT:
        redis->was_unfit = true;
        refuse(redis, "", check->why);
        weir_redis_end(check, WEIR_STORE_ERROR, NULL);
        return;
    case WEIR_REDIS_REFUSED:
        weir_breaker_answered(&redis->breaker);
        weir_redis_end(check, WEIR_STORE_ERROR, NULL);
        return;
    }
}

/* reading */

static void on_reply(struct weir_redis *redis, const redisReply *reply, uint64_t now_us)
{
    switch (redis->stage) {
    case WEIR_REDIS_GREETING:
        on_greeting(redis, reply, now_us);
        return;
    case WEIR_REDIS_PINGING:
        on_pong(redis, reply);
        return;
    case WEIR_REDIS_OPEN:
        on_check_reply(redis, reply);
        return;
    case WEIR_REDIS_APART:
    case WEIR_REDIS_CONNECTING:
        return;
    }
}

void weir_redis_on_readable(struct weir_redis *redis, uint64_t now_us)
{
    redisContext *context = redis->context;
    if (redisBufferRead(context) != REDIS_OK) {
        weir_redis_lose(redis, context->errstr);
        return;
    }
    while (!redis->was_lost) {
        void *reply = NULL;
        if (redisReaderGetReply(context->reader, &reply) != REDIS_OK)
            weir_redis_lose(redis, "what it sends is not Redis's protocol");
        if (reply == NULL)
            break;
        on_reply(redis, reply, now_us);
        freeReplyObject(reply);
    }
    /* hiredis waits for the end of a reply however long it gets. */
    if (context->reader->len > REPLY_BYTES_MAX)
        weir_redis_lose(redis, "a reply without end");
}

static void on_connected(struct weir_redis *redis, uint64_t now_us)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    if (getsockopt(redis->context->fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0)
        failure = errno;
    if (failure == 0) {
        greet(redis, now_us);
        return;
    }
    char why[WEIR_REDIS_WHY_CHARS];
    weir_redis_lose(redis, strerror_r(failure, why, sizeof why));
}

void weir_redis_on_writable(struct weir_redis *redis, uint64_t now_us)
{
    if (redis->stage == WEIR_REDIS_CONNECTING)
        on_connected(redis, now_us);
    else
        flush(redis, now_us);
}
