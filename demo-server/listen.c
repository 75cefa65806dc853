#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 511

/* getaddrinfo() would cut a larger number down to 16 bits (glibc). */
static bool is_port(const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && number <= 65535;
}

/* Splits "host:port" or "[host]:port" at its last colon. */
static bool split(const char *where, char *host, size_t size, const char **port)
{
    const char *colon = strrchr(where, ':');
    if (colon == NULL || colon == where || !is_port(colon + 1))
        return false;
    size_t length = (size_t)(colon - where);
    bool has_brackets = where[0] == '[' && colon[-1] == ']';
    if (has_brackets) {
        where++;
        length -= 2;
    }
    if (length == 0 || length >= size || (!has_brackets && memchr(where, ':', length) != NULL))
        return false;
    memcpy(host, where, length);
    host[length] = '\0';
    *port = colon + 1;
    return true;
}

static bool bind_and_listen(int listener, const struct sockaddr *address, socklen_t length)
{
    const int on = 1, off = 0;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->sa_family == AF_INET6)
        setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    return bind(listener, address, length) == 0 && listen(listener, BACKLOG) == 0;
}

static enum weir_code open_socket(const char *where, const struct sockaddr *address,
                                  socklen_t length, int *listener, struct weir_error *error)
{
    int made = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (made >= 0 && bind_and_listen(made, address, length)) {
        *listener = made;
        return WEIR_OK;
    }
    weir_error_set(error, WEIR_E_SYSTEM, NULL,
                   "Cannot listen on %s: %s. --listen 127.0.0.1:0 takes a free port.", where,
                   strerror(errno));
    if (made >= 0)
        close(made);
    return WEIR_E_SYSTEM;
}

static void write_url(int listener, char url[DEMO_URL_BYTES])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
    if (getsockname(listener, (struct sockaddr *)&address, &length) == 0)
        getnameinfo((struct sockaddr *)&address, length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    bool has_colons = strchr(host, ':') != NULL;
    snprintf(url, DEMO_URL_BYTES, "http://%s%.64s%s:%.8s", has_colons ? "[" : "", host,
             has_colons ? "]" : "", port);
}

static enum weir_code listen_internet(const char *where, int *listener, char url[DEMO_URL_BYTES],
                                      struct weir_error *error)
{
    char host[256];
    const char *port;
    if (!split(where, host, sizeof host, &port))
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "--listen is \"%s\"; ADDR:PORT is wanted, such as 127.0.0.1:8080, "
                              "[::1]:8080 or unix:/path.",
                              where);

    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                                    .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
    struct addrinfo *found;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed != 0)
        return weir_error_set(error, WEIR_E_VALUE, NULL, "--listen is \"%s\": %s.", where,
                              gai_strerror(failed));
    enum weir_code code = open_socket(where, found->ai_addr, found->ai_addrlen, listener, error);
    freeaddrinfo(found);
    if (code == WEIR_OK)
        write_url(*listener, url);
    return code;
}

static enum weir_code listen_unix(const char *path, int *listener, char url[DEMO_URL_BYTES],
                                  struct weir_error *error)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (path[0] == '\0' || strlen(path) >= sizeof address.sun_path)
        return weir_error_set(error, WEIR_E_VALUE, NULL, "A Unix socket's path has 1 to %zu bytes.",
                              sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);

    /* What an earlier run left behind; anything but a socket is not ours to remove. */
    struct stat old;
    if (lstat(path, &old) == 0 && S_ISSOCK(old.st_mode))
        unlink(path);
    snprintf(url, DEMO_URL_BYTES, "unix:%s", path);
    return open_socket(path, (const struct sockaddr *)&address, sizeof address, listener, error);
}

enum weir_code demo_listen(const char *where, int *listener, char url[DEMO_URL_BYTES],
                           struct weir_error *error)
{
    if (strncmp(where, "unix:", 5) == 0)
        return listen_unix(where + 5, listener, url, error);
    return listen_internet(where, listener, url, error);
}
