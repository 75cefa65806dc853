#include "client.h"

#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int client_connect(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const struct timeval patience = { .tv_sec = 20 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void client_send(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* a refusing server may close; what it said is read next */
        bytes += sent;
        length -= (size_t)sent;
    }
}

void client_send_text(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

/* Byte by byte, so that nothing of the next reply is taken. */
static bool read_line(int fd, char *line, size_t size)
{
    size_t length = 0;
    while (length + 1 < size && recv(fd, line + length, 1, 0) == 1) {
        if (line[length++] == '\n') {
            line[length] = '\0';
            return true;
        }
    }
    return false;
}

static bool read_exactly(int fd, size_t length, struct reply *reply)
{
    char piece[4096];
    while (length > 0) {
        ssize_t got = recv(fd, piece, length < sizeof piece ? length : sizeof piece, 0);
        if (got <= 0)
            return false;
        size_t room = sizeof reply->body - 1 - reply->body_length;
        size_t taken = (size_t)got < room ? (size_t)got : room;
        memcpy(reply->body + reply->body_length, piece, taken);
        reply->body_length += taken;
        length -= (size_t)got;
    }
    return true;
}

static bool read_chunks(int fd, struct reply *reply)
{
    char line[64];
    while (read_line(fd, line, sizeof line)) {
        size_t length = strtoul(line, NULL, 16);
        if (!read_exactly(fd, length, reply) || !read_line(fd, line, sizeof line))
            return false;
        if (length == 0)
            return true;
    }
    return false;
}

static bool read_head(int fd, struct reply *reply)
{
    size_t length = 0;
    do {
        size_t start = length;
        if (!read_line(fd, reply->head + start, sizeof reply->head - start))
            return false;
        length = start + strlen(reply->head + start);
        if (strcmp(reply->head + start, "\r\n") == 0)
            return true;
    } while (length + 1 < sizeof reply->head);
    return false;
}

static bool read_body(int fd, struct reply *reply)
{
    const char *length = reply_header(reply, "Content-Length");
    if (length != NULL)
        return read_exactly(fd, strtoul(length, NULL, 10), reply);
    if (reply_header(reply, "Transfer-Encoding") != NULL)
        return read_chunks(fd, reply);
    while (read_exactly(fd, 1, reply))
        continue;
    return true;
}

void client_read(int fd, bool is_head, struct reply *reply)
{
    memset(reply, 0, sizeof *reply);
    if (!read_head(fd, reply))
        return;
    unsigned status = (unsigned)strtoul(reply->head + strcspn(reply->head, " "), NULL, 10);
    bool has_body = !is_head && status >= 200 && status != 204 && status != 304;
    if (!has_body || read_body(fd, reply))
        reply->status = status;
}

void client_get(uint16_t port, const char *path, const char *lines, struct reply *reply)
{
    char request[2048];
    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n%s\r\n", path, lines);
    int fd = client_connect(port);
    client_send_text(fd, request);
    client_read(fd, false, reply);
    close(fd);
}

const char *reply_header(const struct reply *reply, const char *name)
{
    static _Thread_local char value[1024];
    size_t length = strlen(name);
    for (const char *line = strchr(reply->head, '\n'); line != NULL; line = strchr(line, '\n')) {
        line++;
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        line += length + 1;
        line += strspn(line, " ");
        snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\r\n"), line);
        return value;
    }
    return NULL;
}

bool client_sees_end(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, 0);
    return got == 0 || (got < 0 && errno != EAGAIN);
}
