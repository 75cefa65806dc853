#include "sentinel_by_hand.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 16

struct guest {
    int fd; /* -1: none */
    redisReader *reader;
    bool subscribes;
    bool is_ignored;
};

struct sentinel_by_hand {
    pthread_t thread;
    pthread_mutex_t mutex; /* of all that follows */
    int listener;
    unsigned port;
    struct guest guests[CLIENTS];
    char says[400];
    bool is_silent;
    bool is_away;
    bool stops;
    size_t asked;
};

/* saying */

/* The answers are short, so they go out whole or the guest is gone. */
static void tell(const struct guest *guest, const char *resp)
{
    ssize_t sent = send(guest->fd, resp, strlen(resp), MSG_NOSIGNAL);
    (void)sent;
}

static void say_bye(struct guest *guest)
{
    if (guest->fd < 0)
        return;
    close(guest->fd);
    redisReaderFree(guest->reader);
    *guest = (struct guest){ .fd = -1 };
}

static void tell_of_channel(const struct guest *guest, const char *what, const char *channel)
{
    char resp[200];
    snprintf(resp, sizeof resp, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n:%d\r\n", strlen(what), what,
             strlen(channel), channel, guest->subscribes);
    tell(guest, resp);
}

static void answer(struct sentinel_by_hand *sentinel, struct guest *guest, const char *command,
                   const char *argument)
{
    if (strcasecmp(command, "SUBSCRIBE") == 0 || strcasecmp(command, "UNSUBSCRIBE") == 0) {
        guest->subscribes = strcasecmp(command, "SUBSCRIBE") == 0;
        tell_of_channel(guest, guest->subscribes ? "subscribe" : "unsubscribe", argument);
    } else if (strcasecmp(command, "PING") == 0) {
        tell(guest, guest->subscribes ? "*2\r\n$4\r\npong\r\n$0\r\n\r\n" : "+PONG\r\n");
    } else if (guest->subscribes) {
        tell(guest, "-ERR Can't execute that: only SUBSCRIBE / UNSUBSCRIBE / PING are allowed\r\n");
    } else if (strcasecmp(command, "SENTINEL") == 0) {
        sentinel->asked++;
        guest->is_ignored = sentinel->says[0] == '\0';
        tell(guest, sentinel->says);
    } else {
        tell(guest, "+OK\r\n");
    }
}

/* listening */

static void welcome(struct sentinel_by_hand *sentinel)
{
    int fd = accept4(sentinel->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    for (size_t i = 0; fd >= 0 && !sentinel->is_away && i < CLIENTS; i++)
        if (sentinel->guests[i].fd < 0) {
            sentinel->guests[i] = (struct guest){ .fd = fd, .reader = redisReaderCreate() };
            return;
        }
    if (fd >= 0)
        close(fd);
}

static void listen_to(struct sentinel_by_hand *sentinel, struct guest *guest)
{
    char bytes[4096];
    ssize_t got = recv(guest->fd, bytes, sizeof bytes, 0);
    if (got <= 0) {
        say_bye(guest);
        return;
    }
    if (sentinel->is_silent)
        return;
    void *command = NULL;
    redisReaderFeed(guest->reader, bytes, (size_t)got);
    while (redisReaderGetReply(guest->reader, &command) == REDIS_OK && command != NULL) {
        const redisReply *words = command;
        if (words->type == REDIS_REPLY_ARRAY && words->elements > 0 && !guest->is_ignored)
            answer(sentinel, guest, words->element[0]->str,
                   words->elements > 1 ? words->element[1]->str : "");
        freeReplyObject(command);
        command = NULL;
    }
}

static void *live(void *self)
{
    struct sentinel_by_hand *sentinel = self;
    for (bool stops = false; !stops;) {
        struct pollfd sources[CLIENTS + 1] = { { .fd = sentinel->listener, .events = POLLIN } };
        pthread_mutex_lock(&sentinel->mutex);
        for (size_t i = 0; i < CLIENTS; i++)
            sources[i + 1] = (struct pollfd){ .fd = sentinel->guests[i].fd, .events = POLLIN };
        pthread_mutex_unlock(&sentinel->mutex);
        poll(sources, CLIENTS + 1, 10);

        pthread_mutex_lock(&sentinel->mutex);
        if (sources[0].revents != 0)
            welcome(sentinel);
        for (size_t i = 0; i < CLIENTS; i++)
            if (sources[i + 1].revents != 0 && sentinel->guests[i].fd == sources[i + 1].fd)
                listen_to(sentinel, &sentinel->guests[i]);
        stops = sentinel->stops;
        pthread_mutex_unlock(&sentinel->mutex);
    }
    return NULL;
}

/* making and freeing */

static void open_listener(struct sentinel_by_hand *sentinel)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    sentinel->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(sentinel->listener >= 0);
    assert_int_equal(bind(sentinel->listener, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(sentinel->listener, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(listen(sentinel->listener, CLIENTS), 0);
    sentinel->port = ntohs(address.sin_port);
}

struct sentinel_by_hand *sentinel_by_hand_new(void)
{
    struct sentinel_by_hand *sentinel = calloc(1, sizeof *sentinel);
    assert_non_null(sentinel);
    for (size_t i = 0; i < CLIENTS; i++)
        sentinel->guests[i].fd = -1;
    snprintf(sentinel->says, sizeof sentinel->says, "*-1\r\n");
    assert_int_equal(pthread_mutex_init(&sentinel->mutex, NULL), 0);
    open_listener(sentinel);
    assert_int_equal(pthread_create(&sentinel->thread, NULL, live, sentinel), 0);
    return sentinel;
}

void sentinel_by_hand_free(struct sentinel_by_hand *sentinel)
{
    pthread_mutex_lock(&sentinel->mutex);
    sentinel->stops = true;
    pthread_mutex_unlock(&sentinel->mutex);
    pthread_join(sentinel->thread, NULL);
    for (size_t i = 0; i < CLIENTS; i++)
        say_bye(&sentinel->guests[i]);
    close(sentinel->listener);
    pthread_mutex_destroy(&sentinel->mutex);
    free(sentinel);
}

unsigned sentinel_by_hand_port(const struct sentinel_by_hand *sentinel)
{
    return sentinel->port;
}

/* what a test may want */

void sentinel_by_hand_say(struct sentinel_by_hand *sentinel, const char *resp)
{
    pthread_mutex_lock(&sentinel->mutex);
    snprintf(sentinel->says, sizeof sentinel->says, "%s", resp);
    pthread_mutex_unlock(&sentinel->mutex);
}

void sentinel_by_hand_name(struct sentinel_by_hand *sentinel, unsigned port)
{
    char digits[12], resp[80];
    snprintf(digits, sizeof digits, "%u", port);
    snprintf(resp, sizeof resp, "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n", strlen(digits), digits);
    sentinel_by_hand_say(sentinel, resp);
}

void sentinel_by_hand_publish(struct sentinel_by_hand *sentinel, const char *resp)
{
    pthread_mutex_lock(&sentinel->mutex);
    for (size_t i = 0; i < CLIENTS; i++)
        if (sentinel->guests[i].fd >= 0 && sentinel->guests[i].subscribes)
            tell(&sentinel->guests[i], resp);
    pthread_mutex_unlock(&sentinel->mutex);
}

void sentinel_by_hand_switch(struct sentinel_by_hand *sentinel, unsigned port)
{
    char text[80], resp[200];
    snprintf(text, sizeof text, "mymaster 127.0.0.1 1 127.0.0.1 %u", port);
    snprintf(resp, sizeof resp, "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
             strlen(text), text);
    sentinel_by_hand_publish(sentinel, resp);
}

void sentinel_by_hand_hush(struct sentinel_by_hand *sentinel, bool is_silent)
{
    pthread_mutex_lock(&sentinel->mutex);
    sentinel->is_silent = is_silent;
    pthread_mutex_unlock(&sentinel->mutex);
}

void sentinel_by_hand_leave(struct sentinel_by_hand *sentinel, bool is_away)
{
    pthread_mutex_lock(&sentinel->mutex);
    sentinel->is_away = is_away;
    for (size_t i = 0; is_away && i < CLIENTS; i++)
        say_bye(&sentinel->guests[i]);
    pthread_mutex_unlock(&sentinel->mutex);
}

size_t sentinel_by_hand_asked(struct sentinel_by_hand *sentinel)
{
    pthread_mutex_lock(&sentinel->mutex);
    size_t asked = sentinel->asked;
    pthread_mutex_unlock(&sentinel->mutex);
    return asked;
}

static size_t count_guests(struct sentinel_by_hand *sentinel, bool only_subscribers)
{
    size_t count = 0;
    pthread_mutex_lock(&sentinel->mutex);
    for (size_t i = 0; i < CLIENTS; i++)
        count +=
            sentinel->guests[i].fd >= 0 && (sentinel->guests[i].subscribes || !only_subscribers);
    pthread_mutex_unlock(&sentinel->mutex);
    return count;
}

size_t sentinel_by_hand_guests(struct sentinel_by_hand *sentinel)
{
    return count_guests(sentinel, false);
}

size_t sentinel_by_hand_subscribers(struct sentinel_by_hand *sentinel)
{
    return count_guests(sentinel, true);
}
