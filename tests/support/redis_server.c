#include "redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 60

unsigned redis_server_hold_port(int *holder)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    const int on = 1;
    *holder = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*holder >= 0);
    /* Redis sets this too, so that it may bind what is bound here, where nobody listens. */
    assert_int_equal(setsockopt(*holder, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(*holder, (const struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(*holder, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

void redis_server_prepare(struct redis_server *server)
{
    const char *base = getenv("TMPDIR");
    snprintf(server->folder, sizeof server->folder, "%.50s/weir-redis-XXXXXX",
             base == NULL ? P_tmpdir : base);
    assert_non_null(mkdtemp(server->folder));
    snprintf(server->socket, sizeof server->socket, "%s/redis.socket", server->folder);
    server->port = redis_server_hold_port(&server->port_holder);
    snprintf(server->url, sizeof server->url, "redis+unix://%s", server->socket);
    snprintf(server->tcp_url, sizeof server->tcp_url, "redis://127.0.0.1:%u", server->port);
}

/* starting */

const char *redis_server_program(void)
{
    const char *named = getenv("WEIR_REDIS_SERVER");
    return named == NULL || named[0] == '\0' ? "redis-server" : named;
}

static void run_server(const struct redis_server *server, int output)
{
    char port[8];
    snprintf(port, sizeof port, "%u", server->port);
    const char *arguments[ARGUMENTS_MAX] = {
        redis_server_program(),
        "--port",
        port,
        "--bind",
        "127.0.0.1",
        "--unixsocket",
        server->socket,
        "--dir",
        server->folder,
        "--save",
        "",
        "--logfile",
        "",
        "--enable-debug-command",
        "yes",
        "--appendfsync",
        "always",
        "--appendonly",
        server->keeps_data ? "yes" : "no",
    };
    size_t count = 19;
    for (size_t i = 0; server->options != NULL && server->options[i] != NULL; i++)
        if (count + 1 < ARGUMENTS_MAX)
            arguments[count++] = server->options[i];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    char *texts[ARGUMENTS_MAX] = { NULL };
    for (size_t i = 0; i < count; i++)
        texts[i] = strdup(arguments[i]);
    execvp(texts[0], texts);
    perror(texts[0]);
    _exit(127);
}

/* Reads the server's log up to the line that says that it answers. */
static bool becomes_ready(int input)
{
    char log[16384];
    size_t length = 0;
    ssize_t got;
    while (length < sizeof log - 1
           && (got = read(input, log + length, sizeof log - 1 - length)) > 0) {
        length += (size_t)got;
        log[length] = '\0';
        if (strstr(log, "Ready to accept connections") != NULL)
            return true;
    }
    log[length] = '\0';
    print_error("%s did not start:\n%s\n", redis_server_program(), log);
    return false;
}

void redis_server_start(struct redis_server *server)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    server->pid = fork();
    assert_true(server->pid >= 0);
    if (server->pid == 0)
        run_server(server, ends[1]);
    close(ends[1]);
    bool is_ready = becomes_ready(ends[0]);
    close(ends[0]);
    assert_true(is_ready);
}

/* ending */

void redis_server_freeze(struct redis_server *server)
{
    int status;
    assert_int_equal(kill(server->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(server->pid, &status, WUNTRACED), server->pid);
    assert_true(WIFSTOPPED(status));
}

void redis_server_thaw(struct redis_server *server)
{
    assert_int_equal(kill(server->pid, SIGCONT), 0);
}

void redis_server_kill(struct redis_server *server)
{
    if (server->pid == 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

void redis_server_remove(struct redis_server *server)
{
    redis_server_kill(server);
    close(server->port_holder);
    nftw(server->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* asking */

static redisReply *ask(const struct redis_server *server, const char *format, va_list arguments)
{
    redisContext *context = redisConnectUnix(server->socket);
    assert_non_null(context);
    if (context->err != 0)
        fail_msg("%s: %s", server->socket, context->errstr);
    if (server->password != NULL)
        freeReplyObject(redisCommand(context, "AUTH %s", server->password));
    redisReply *reply = redisvCommand(context, format, arguments);
    assert_non_null(reply);
    redisFree(context);
    return reply;
}

redisReply *redis_server_ask(const struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    return reply;
}

void redis_server_do(const struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", format, reply->str);
    freeReplyObject(reply);
}

long long redis_server_number(const struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply = ask(server, format, arguments);
    va_end(arguments);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    long long number = reply->integer;
    freeReplyObject(reply);
    return number;
}
