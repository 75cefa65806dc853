#include "redis_sentinel.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Shorter, and a busy machine would bring failovers that no test asked for. */
#define DOWN_AFTER_MS 1000

/* A failover that has not ended after so long is begun again. */
#define FAILOVER_TIMEOUT_MS 2000

#define WAIT_S 60

/* time */

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void pause_a_moment(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

static void pick_ports(struct sentinel_group *group)
{
    for (size_t i = 0; i < SENTINELS; i++)
        group->sentinels[i].port = redis_server_hold_port(&group->sentinels[i].port_holder);
    snprintf(group->places, sizeof group->places, "127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u",
             group->sentinels[0].port, group->sentinels[1].port, group->sentinels[2].port);
}

/* the servers */

static const char *announced(const struct sentinel_group *group)
{
    return group->announces_names ? "localhost" : "127.0.0.1";
}

static void set_options(struct sentinel_group *group, size_t index)
{
    const char **options = group->options[index];
    size_t count = 0;
    /* A replica is to follow as soon as it asks. */
    const char *always[] = { "--repl-diskless-sync-delay", "0", "--replica-announce-ip",
                             announced(group) };
    for (size_t i = 0; i < COUNT_OF(always); i++)
        options[count++] = always[i];
    if (group->password != NULL) {
        options[count++] = "--requirepass";
        options[count++] = group->password;
        options[count++] = "--masterauth";
        options[count++] = group->password;
    }
    if (index > 0) {
        options[count++] = "--replicaof";
        options[count++] = announced(group);
        options[count++] = group->port_of_first;
    }
    group->servers[index].options = options;
    group->servers[index].password = group->password;
}

static void start_servers(struct sentinel_group *group)
{
    for (size_t i = 0; i < SENTINEL_SERVERS; i++)
        redis_server_prepare(&group->servers[i]);
    snprintf(group->port_of_first, sizeof group->port_of_first, "%u", group->servers[0].port);
    for (size_t i = 0; i < SENTINEL_SERVERS; i++) {
        set_options(group, i);
        redis_server_start(&group->servers[i]);
    }
}

/* the Sentinels */

static void write_id(FILE *file, const char *before, size_t index)
{
    fprintf(file, "%s%040zx\n", before, index + 1);
}

/* What a Sentinel would find out by itself within some seconds stands there from the start. */
static void write_file(const struct sentinel_group *group, size_t index)
{
    const struct sentinel *own = &group->sentinels[index];
    FILE *file = fopen(own->file, "w");
    assert_non_null(file);
    fprintf(file, "port %u\nbind 127.0.0.1\ndir %s\nlogfile \"%s.log\"\n", own->port, group->folder,
            own->file);
    if (group->sentinel_password != NULL)
        fprintf(file, "requirepass \"%s\"\nsentinel sentinel-pass \"%s\"\n",
                group->sentinel_password, group->sentinel_password);
    if (group->sentinel_user != NULL)
        fprintf(file, "user %s\n", group->sentinel_user);
    write_id(file, "sentinel myid ", index);
    if (group->announces_names)
        fprintf(file, "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n");
    fprintf(file,
            "sentinel monitor " SENTINEL_MASTER " %s %u 2\n"
            "sentinel down-after-milliseconds " SENTINEL_MASTER " %u\n"
            "sentinel failover-timeout " SENTINEL_MASTER " %d\n",
            announced(group), group->servers[0].port,
            group->down_after_ms == 0 ? DOWN_AFTER_MS : group->down_after_ms, FAILOVER_TIMEOUT_MS);
    if (group->password != NULL)
        fprintf(file, "sentinel auth-pass " SENTINEL_MASTER " %s\n", group->password);
    for (size_t i = 1; i < SENTINEL_SERVERS; i++)
        fprintf(file, "sentinel known-replica " SENTINEL_MASTER " %s %u\n", announced(group),
                group->servers[i].port);
    for (size_t i = 0; i < SENTINELS; i++)
        if (i != index) {
            fprintf(file, "sentinel known-sentinel " SENTINEL_MASTER " 127.0.0.1 %u ",
                    group->sentinels[i].port);
            write_id(file, "", i);
        }
    assert_int_equal(fclose(file), 0);
}

static bool answers(const struct sentinel_group *group, size_t index)
{
    redisReply *reply = sentinel_ask(group, index, "PING");
    bool is_there = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    return is_there;
}

void sentinel_start(struct sentinel_group *group, size_t index)
{
    struct sentinel *own = &group->sentinels[index];
    const char *program = redis_server_program();
    own->pid = fork();
    assert_true(own->pid >= 0);
    if (own->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(nowhere, STDOUT_FILENO);
        execlp(program, program, own->file, "--sentinel", (char *)NULL);
        perror(program);
        _exit(127);
    }
    time_t start_s = now_s();
    while (!answers(group, index)) {
        assert_true(now_s() - start_s < WAIT_S);
        pause_a_moment();
    }
}

void sentinel_kill(struct sentinel_group *group, size_t index)
{
    struct sentinel *own = &group->sentinels[index];
    if (own->pid == 0)
        return;
    kill(own->pid, SIGKILL);
    waitpid(own->pid, NULL, 0);
    own->pid = 0;
}

void sentinel_freeze(struct sentinel_group *group, size_t index)
{
    int status;
    assert_int_equal(kill(group->sentinels[index].pid, SIGSTOP), 0);
    assert_int_equal(waitpid(group->sentinels[index].pid, &status, WUNTRACED),
                     group->sentinels[index].pid);
}

void sentinel_thaw(struct sentinel_group *group, size_t index)
{
    assert_int_equal(kill(group->sentinels[index].pid, SIGCONT), 0);
}

/* asking */

/* A connection over TCP that gives up on whoever is silent. */
static redisContext *connect_to(unsigned port, const char *password)
{
    const struct timeval patience = { .tv_sec = 1 };
    redisContext *context = redisConnectWithTimeout("127.0.0.1", (int)port, patience);
    if (context == NULL || context->err != 0) {
        if (context != NULL)
            redisFree(context);
        return NULL;
    }
    redisSetTimeout(context, patience);
    redisReply *reply = password == NULL ? NULL : redisCommand(context, "AUTH %s", password);
    if (reply != NULL)
        freeReplyObject(reply);
    return context;
}

static redisReply *ask(unsigned port, const char *password, const char *format, va_list arguments)
{
    redisContext *context = connect_to(port, password);
    if (context == NULL)
        return NULL;
    redisReply *reply = redisvCommand(context, format, arguments);
    redisFree(context);
    return reply;
}

redisReply *sentinel_ask(const struct sentinel_group *group, size_t index, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply =
        ask(group->sentinels[index].port, group->sentinel_password, format, arguments);
    va_end(arguments);
    return reply;
}

static redisReply *ask_server(const struct redis_server *server, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    redisReply *reply =
        server->pid == 0 ? NULL : ask(server->port, server->password, format, arguments);
    va_end(arguments);
    return reply;
}

/* who is what */

/* A server's own word: "master" or "slave"; "": it says nothing. */
static void read_role(const struct redis_server *server, char role[16], bool *is_connected)
{
    role[0] = '\0';
    *is_connected = false;
    redisReply *reply = ask_server(server, "ROLE");
    if (reply == NULL)
        return;
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements > 0)
        snprintf(role, 16, "%s", reply->element[0]->str);
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 5)
        *is_connected = strcmp(reply->element[3]->str, "connected") == 0;
    freeReplyObject(reply);
}

/* The server that a Sentinel names. */
static size_t named_by(const struct sentinel_group *group, size_t index)
{
    redisReply *reply =
        group->sentinels[index].pid == 0
            ? NULL
            : sentinel_ask(group, index, "SENTINEL get-master-addr-by-name %s", SENTINEL_MASTER);
    size_t named = SENTINEL_NONE;
    if (reply != NULL && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
        for (size_t i = 0; i < SENTINEL_SERVERS; i++)
            if (group->servers[i].port == (unsigned)atoi(reply->element[1]->str))
                named = i;
    if (reply != NULL)
        freeReplyObject(reply);
    return named;
}

size_t sentinel_group_master(const struct sentinel_group *group)
{
    size_t votes[SENTINEL_SERVERS] = { 0 };
    size_t voters = 0;
    for (size_t i = 0; i < SENTINELS; i++) {
        size_t named = named_by(group, i);
        if (named == SENTINEL_NONE)
            continue;
        voters++;
        votes[named]++;
    }
    for (size_t i = 0; i < SENTINEL_SERVERS; i++) {
        char role[16];
        bool is_connected;
        if (votes[i] * 2 <= voters)
            continue;
        read_role(&group->servers[i], role, &is_connected);
        return strcmp(role, "master") == 0 ? i : SENTINEL_NONE;
    }
    return SENTINEL_NONE;
}

size_t sentinel_group_wait_for_other(const struct sentinel_group *group, size_t old)
{
    time_t start_s = now_s();
    for (;;) {
        size_t master = sentinel_group_master(group);
        if (master != SENTINEL_NONE && master != old)
            return master;
        assert_true(now_s() - start_s < WAIT_S);
        pause_a_moment();
    }
}

/* One field of SENTINEL MASTER. */
static void read_field(const struct sentinel_group *group, size_t index, const char *name,
                       char value[64])
{
    value[0] = '\0';
    redisReply *reply = sentinel_ask(group, index, "SENTINEL MASTER %s", SENTINEL_MASTER);
    if (reply == NULL)
        return;
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2)
        if (strcmp(reply->element[i]->str, name) == 0)
            snprintf(value, 64, "%s", reply->element[i + 1]->str);
    freeReplyObject(reply);
}

/* A Sentinel that has nothing to do. */
static bool is_content(const struct sentinel_group *group, size_t index, size_t master)
{
    char flags[64], others[64], replicas[64];
    read_field(group, index, "flags", flags);
    read_field(group, index, "num-other-sentinels", others);
    read_field(group, index, "num-slaves", replicas);
    return strcmp(flags, "master") == 0 && strcmp(others, "2") == 0 && strcmp(replicas, "2") == 0
           && named_by(group, index) == master;
}

static bool is_whole(const struct sentinel_group *group)
{
    size_t master = sentinel_group_master(group);
    if (master == SENTINEL_NONE)
        return false;
    for (size_t i = 0; i < SENTINELS; i++)
        if (!is_content(group, i, master))
            return false;
    for (size_t i = 0; i < SENTINEL_SERVERS; i++) {
        char role[16];
        bool is_connected;
        read_role(&group->servers[i], role, &is_connected);
        if (i != master && (strcmp(role, "slave") != 0 || !is_connected))
            return false;
    }
    return true;
}

static void wait_until_whole(const struct sentinel_group *group)
{
    time_t start_s = now_s();
    while (!is_whole(group)) {
        assert_true(now_s() - start_s < WAIT_S);
        pause_a_moment();
    }
}

void sentinel_group_replicate(const struct sentinel_group *group)
{
    size_t master = sentinel_group_master(group);
    assert_true(master != SENTINEL_NONE);
    redisContext *context = connect_to(group->servers[master].port, group->password);
    assert_non_null(context);
    /* WAIT looks at what its own connection wrote, so it has to write something. */
    freeReplyObject(redisCommand(context, "SET replicated 1"));
    time_t start_s = now_s();
    for (long long received = 0; received < 2;) {
        redisReply *reply = redisCommand(context, "WAIT 2 900");
        assert_non_null(reply);
        received = reply->integer;
        freeReplyObject(reply);
        assert_true(now_s() - start_s < WAIT_S);
    }
    redisFree(context);
}

void sentinel_group_fail_over(const struct sentinel_group *group)
{
    time_t start_s = now_s();
    /* A Sentinel that has just started does not know yet which replica would do. */
    for (bool is_begun = false; !is_begun; pause_a_moment()) {
        redisReply *reply = sentinel_ask(group, 0, "SENTINEL FAILOVER %s", SENTINEL_MASTER);
        is_begun = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        if (reply != NULL)
            freeReplyObject(reply);
        assert_true(now_s() - start_s < WAIT_S);
    }
}

/* all of it */

/* In the first server's, so that it goes with that. */
static void make_folder(struct sentinel_group *group)
{
    snprintf(group->folder, sizeof group->folder, "%s/s", group->servers[0].folder);
    assert_int_equal(mkdir(group->folder, 0700), 0);
    for (size_t i = 0; i < SENTINELS; i++)
        snprintf(group->sentinels[i].file, sizeof group->sentinels[i].file, "%s/%zu.conf",
                 group->folder, i);
}

void sentinel_group_start(struct sentinel_group *group)
{
    start_servers(group);
    make_folder(group);
    pick_ports(group);
    for (size_t i = 0; i < SENTINELS; i++)
        write_file(group, i);
    for (size_t i = 0; i < SENTINELS; i++)
        sentinel_start(group, i);
    wait_until_whole(group);
}

void sentinel_group_heal(struct sentinel_group *group)
{
    for (size_t i = 0; i < SENTINEL_SERVERS; i++) {
        if (group->servers[i].pid == 0)
            redis_server_start(&group->servers[i]);
        redis_server_thaw(&group->servers[i]);
    }
    for (size_t i = 0; i < SENTINELS; i++) {
        if (group->sentinels[i].pid == 0)
            sentinel_start(group, i);
        sentinel_thaw(group, i);
    }
    wait_until_whole(group);
}

void sentinel_group_remove(struct sentinel_group *group)
{
    for (size_t i = 0; i < SENTINELS; i++) {
        sentinel_kill(group, i);
        close(group->sentinels[i].port_holder);
    }
    for (size_t i = 0; i < SENTINEL_SERVERS; i++)
        redis_server_remove(&group->servers[i]);
}

const char *sentinel_group_url(const struct sentinel_group *group, const char *login,
                               const char *rest, char *url, size_t size)
{
    snprintf(url, size, "redis+sentinel://%s%s%s/" SENTINEL_MASTER "%s", login == NULL ? "" : login,
             login == NULL ? "" : "@", group->places, rest == NULL ? "" : rest);
    return url;
}
