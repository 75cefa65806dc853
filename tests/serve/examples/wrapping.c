#include "wrapping.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define DRAIN_MS 2000

static void write_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    (void)level;
    fprintf(stderr, "weir: %s\n", text);
}

static bool complain(const struct weir_error *error, const char *file)
{
    char line[600];
    fprintf(stderr, "%s\n", weir_error_line(error, file, line, sizeof line));
    return false;
}

bool wrapping_start(struct wrapping *wrapping, struct running *running)
{
    *wrapping = (struct wrapping){ NULL, NULL, NULL };
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_log log = { write_line, NULL };
    if (weir_chain_new(WEIR_CHAIN_OPTIONS(.log = log), &wrapping->chain, &error) != WEIR_OK)
        return complain(&error, NULL);
    if (running->policy != NULL) {
        if (weir_policy_load(running->policy, &wrapping->policy, &error) != WEIR_OK
            || weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = wrapping->policy, .log = log),
                                &wrapping->limiter, &error)
                   != WEIR_OK)
            return complain(&error, running->policy);
        weir_chain_use(wrapping->chain, weir_limit(wrapping->limiter));
    }
    if (running->is_external) {
        running->wake_fd = weir_chain_wake_fd(wrapping->chain);
        running->wake_clear = weir_chain_wake_clear;
        running->chain = wrapping->chain;
    }
    return true;
}

static bool drain_by_hand(const struct wrapping *wrapping, const struct running *running,
                          struct MHD_Daemon *daemon)
{
    MHD_socket listener = MHD_quiesce_daemon(daemon);
    const time_t until = time(NULL) + 1 + DRAIN_MS / 1000;
    bool idle = weir_chain_drain(wrapping->chain, 0);
    while (!idle && time(NULL) < until) {
        running_round(running, daemon, -1, 20);
        idle = weir_chain_drain(wrapping->chain, 0);
    }
    MHD_stop_daemon(daemon);
    if (listener != MHD_INVALID_SOCKET)
        close(listener);
    return idle;
}

bool wrapping_stop(struct wrapping *wrapping, const struct running *running,
                   struct MHD_Daemon *daemon)
{
    bool answered = true;
    if (daemon != NULL)
        answered = running->is_external ? drain_by_hand(wrapping, running, daemon)
                                        : weir_stop_daemon(wrapping->chain, daemon, DRAIN_MS);
    wrapping->chain = weir_chain_free(wrapping->chain);
    wrapping->limiter = weir_limiter_free(wrapping->limiter);
    wrapping->policy = weir_policy_free(wrapping->policy);
    return answered;
}
