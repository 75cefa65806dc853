#include "kept_log.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"

#define WAIT_US UINT64_C(60000000)

static struct {
    pthread_mutex_t mutex;
    struct {
        enum weir_level level;
        char text[512];
    } lines[200];
    size_t count;
} kept = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void keep_line(void *self, enum weir_level level, const char *text)
{
    (void)self;
    pthread_mutex_lock(&kept.mutex);
    if (kept.count < COUNT_OF(kept.lines)) {
        kept.lines[kept.count].level = level;
        snprintf(kept.lines[kept.count++].text, sizeof kept.lines[0].text, "%s", text);
    }
    if (getenv("WEIR_TEST_LOG") != NULL)
        print_message("    log: %s\n", text);
    pthread_mutex_unlock(&kept.mutex);
}

struct weir_log kept_log(void)
{
    return (struct weir_log){ .write = keep_line };
}

size_t kept_lines(const char *part)
{
    size_t found = 0;
    pthread_mutex_lock(&kept.mutex);
    for (size_t i = 0; i < kept.count; i++)
        found += strstr(kept.lines[i].text, part) != NULL;
    pthread_mutex_unlock(&kept.mutex);
    return found;
}

size_t kept_lines_of(enum weir_level level, const char *line)
{
    size_t found = 0;
    pthread_mutex_lock(&kept.mutex);
    for (size_t i = 0; i < kept.count; i++)
        found += kept.lines[i].level == level && strcmp(kept.lines[i].text, line) == 0;
    pthread_mutex_unlock(&kept.mutex);
    return found;
}

void kept_forget(void)
{
    pthread_mutex_lock(&kept.mutex);
    kept.count = 0;
    pthread_mutex_unlock(&kept.mutex);
}

void kept_print(void)
{
    pthread_mutex_lock(&kept.mutex);
    for (size_t i = 0; i < kept.count; i++)
        print_error("    log: %s\n", kept.lines[i].text);
    pthread_mutex_unlock(&kept.mutex);
}

uint64_t kept_wait_for(const char *part)
{
    uint64_t start_us = weir_monotonic_us();
    while (kept_lines(part) == 0) {
        if (weir_monotonic_us() - start_us > WAIT_US) {
            kept_print();
            fail_msg("waited in vain for a line with \"%s\"", part);
        }
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return weir_monotonic_us() - start_us;
}
