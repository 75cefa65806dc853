/* Reloads a policy when one of its files changes.
 *
 * What is watched are folders, and not files: who replaces a file by another leaves the old one behind
 * under the watch, and Kubernetes swaps a symbolic link beside it. An event only says that it is time
 * to look; whether anything has changed is told by the files themselves. */
#include <weir/watch.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "admin/watched_files.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/order.h"
#include "base/signals.h"
#include "limit/limiter_internal.h"

#define WATCH_OPTIONS_FIRST (offsetof(struct weir_watch_options, quiet_ms) + sizeof(uint32_t))
#define QUIET_MS            100u
/* Nobody tells of changes on a file system of another machine, or of a folder that is swapped as a
 * whole. */
#define LOOK_AGAIN_MS 10000
#define TRY_AGAIN_MS  500 /* at first */
#define EVENTS                                                                                     \
    (IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO  \
     | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

struct weir_watch {
    struct weir_limiter *limiter;
    char *file; /* as it was named by the options, or by the limiter */
    struct weir_log log;
    int quiet_ms;
    int inotify_fd;
    int stop_fd;
    pthread_t thread;
    bool has_thread;

    /* the thread's own */
    struct weir_watched_files files;
    int *folders; /* what inotify calls them */
    size_t folder_count;
    /* A reload failed, and not because of the files: it is tried again at this monotonic time, and then
     * after twice as long. 0: it did not. */
    uint64_t again_us;
    uint64_t again_ms;
};

/* folders */

struct folders {
    int *watched;
    size_t count, room;
};

static bool has_folder(const int *folders, size_t count, int folder)
{
    for (size_t i = 0; i < count; i++)
        if (folders[i] == folder)
            return true;
    return false;
}

/* Watches the folder that a path lies in; one that is not there is looked for again later. */
static void add_folder(const struct weir_watch *watch, struct folders *folders, const char *path)
{
    char *folder = strdup(path);
    if (folder == NULL || folders->count == folders->room) {
        free(folder);
        return;
    }
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder ? 1 : 0] = '\0';
    int watched = inotify_add_watch(watch->inotify_fd, slash == NULL ? "." : folder, EVENTS);
    if (watched >= 0 && !has_folder(folders->watched, folders->count, watched))
        folders->watched[folders->count++] = watched;
    free(folder);
}

/* Where the file is named, and, behind symbolic links, where it lies. */
static void add_folders_of(const struct weir_watch *watch, struct folders *folders,
                           const char *path)
{
    add_folder(watch, folders, path);
    char *real = realpath(path, NULL);
    if (real != NULL)
        add_folder(watch, folders, real);
    free(real);
}

/* Watches the folders of the files as they are now, and no others. Where memory runs out some may be
 * missing until it looks again. */
static void watch_folders(struct weir_watch *watch)
{
    struct folders folders = { .room = 2 * watch->files.count };
    folders.watched = calloc(folders.room, sizeof *folders.watched);
    if (folders.watched == NULL)
        return;
    for (size_t i = 0; i < watch->files.count; i++)
        add_folders_of(watch, &folders, watch->files.files[i].path);
    for (size_t i = 0; i < watch->folder_count; i++)
        if (!has_folder(folders.watched, folders.count, watch->folders[i]))
            inotify_rm_watch(watch->inotify_fd, watch->folders[i]);
    free(watch->folders);
    watch->folders = folders.watched;
    watch->folder_count = folders.count;
}

/* files */

/* Those of the policy in force; false: memory ran out. */
static bool gather(const struct weir_watch *watch, struct weir_watched_files *files)
{
    const struct weir_edition *edition = weir_edition_take(&watch->limiter->editions);
    bool is_whole = weir_watched_files_add_policy(files, edition->policy)
                    && weir_watched_files_add(files, watch->file);
    weir_edition_leave(edition);
    return is_whole;
}

/* The same at the start, where the policy in force is the limiter's first, and may have been read long
 * ago, from files that are others by now. */
static enum weir_code gather_first(struct weir_watch *watch, struct weir_error *error)
{
    struct weir_file_stamp stamp;
    char *file = NULL;
    bool is_whole = true;
    /* Where the policy does not know its file, the limiter does. */
    if (weir_limiter_file(watch->limiter, &file, &stamp, NULL) == WEIR_OK
        && strcmp(file, watch->file) == 0)
        is_whole = weir_watched_files_add_read(&watch->files, file, &stamp);
    free(file);
    return is_whole && gather(watch, &watch->files)
               ? WEIR_OK
               : weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* And those that a policy would have been read from, if there were nothing wrong with it: one of them
 * is at fault. */
static bool gather_failed(const struct weir_watch *watch, const struct weir_error *error,
                          struct weir_watched_files *files)
{
    if (!weir_watched_files_add_named(files, watch->file))
        return false;
    if (error->file[0] == '\0')
        return true;
    char *culprit = weir_path_beside(watch->file, error->file);
    bool is_whole = culprit != NULL && weir_watched_files_add(files, culprit)
                    && weir_watched_files_add_named(files, culprit);
    free(culprit);
    return is_whole;
}

/* Watches what the reload has left behind. A file that was looked at before the reload is as it was
 * then: if it has changed since, that is still to be seen. */
static void watch_files(struct weir_watch *watch, const struct weir_error *error,
                        const struct timespec *began)
{
    struct weir_watched_files files = { NULL, 0, 0 };
    bool has_failed = error->code != WEIR_OK;
    if (!gather(watch, &files) || (has_failed && !gather_failed(watch, error, &files))) {
        weir_watched_files_finish(&files);
        weir_log_line(&watch->log, WEIR_WARNING,
                      "Files that the policy names newly are not watched: out of memory.");
        return;
    }
    weir_watched_files_keep_stamps(&files, &watch->files, has_failed, began);
    weir_watched_files_finish(&watch->files);
    watch->files = files;
    watch_folders(watch);
}

/* What lacks memory or descriptors now may have them in a moment, and no file will tell. */
static void plan_again(struct weir_watch *watch, enum weir_code code)
{
    uint64_t twice_ms = 2 * watch->again_ms;
    watch->again_us = 0;
    if (code != WEIR_E_MEMORY && code != WEIR_E_SYSTEM) {
        watch->again_ms = 0;
        return;
    }
    watch->again_ms = twice_ms == 0 ? TRY_AGAIN_MS : weir_smaller(twice_ms, LOOK_AGAIN_MS);
    watch->again_us = weir_monotonic_us() + watch->again_ms * 1000;
}

static void look(struct weir_watch *watch)
{
    /* First the folders, which may be others by now, then the files: what changes after this is told. */
    watch_folders(watch);
    bool is_due = watch->again_us > 0 && weir_monotonic_us() >= watch->again_us;
    if (!weir_watched_files_look(&watch->files) && !is_due)
        return;
    struct weir_error error = WEIR_NO_ERROR;
    struct timespec began;
    /* The clock by which the kernel stamps files. */
    clock_gettime(CLOCK_REALTIME_COARSE, &began);
    weir_policy_reload(watch->limiter, watch->file, &error);
    watch_files(watch, &error, &began);
    plan_again(watch, error.code);
}

/* the thread */

enum signal { NOTHING, A_CHANGE, THE_END };

static enum signal await(const struct weir_watch *watch, int wait_ms)
{
    struct pollfd fds[] = { { .fd = watch->stop_fd, .events = POLLIN },
                            { .fd = watch->inotify_fd, .events = POLLIN } };
    if (poll(fds, 2, wait_ms) <= 0)
        return NOTHING;
    return fds[0].revents != 0 ? THE_END : A_CHANGE;
}

static void drain(const struct weir_watch *watch)
{
    char events[4096];
    while (read(watch->inotify_fd, events, sizeof events) > 0) {
    }
}

/* Waits until whoever writes has finished, but not for ever. */
static enum signal settle(const struct weir_watch *watch)
{
    uint64_t until_us = weir_monotonic_us() + (uint64_t)watch->quiet_ms * 10 * 1000;
    enum signal signal = A_CHANGE;
    while (signal == A_CHANGE && weir_monotonic_us() < until_us) {
        drain(watch);
        signal = await(watch, watch->quiet_ms);
    }
    return signal;
}

static int wait_ms(const struct weir_watch *watch)
{
    return watch->again_us == 0 ? LOOK_AGAIN_MS : (int)watch->again_ms + 1;
}

static void *run(void *self)
{
    struct weir_watch *watch = self;
    enum signal signal = A_CHANGE; /* the policy may have been read long ago */
    for (;;) {
        if (signal == A_CHANGE)
            signal = settle(watch);
        if (signal == THE_END)
            return NULL;
        look(watch);
        signal = await(watch, wait_ms(watch));
    }
}

/* starting and ending */

static enum weir_code refuse_system(struct weir_error *error, const char *what)
{
    return weir_error_set(error, WEIR_E_SYSTEM, NULL,
                          "The policy's files cannot be watched: %s: %s.", what, strerror(errno));
}

static enum weir_code start_thread(struct weir_watch *watch, struct weir_error *error)
{
    sigset_t before;
    weir_signals_block(&before);
    errno = pthread_create(&watch->thread, NULL, run, watch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    watch->has_thread = errno == 0;
    return watch->has_thread ? WEIR_OK : refuse_system(error, "there is no thread");
}

static enum weir_code start(struct weir_watch *watch, struct weir_error *error)
{
    watch->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (watch->inotify_fd < 0)
        return refuse_system(error, "there is no inotify (see fs.inotify.max_user_instances)");
    watch->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (watch->stop_fd < 0)
        return refuse_system(error, "there is no eventfd");
    enum weir_code code = gather_first(watch, error);
    if (code != WEIR_OK)
        return code;
    watch_folders(watch);
    if (watch->folder_count == 0)
        return refuse_system(error, "no folder can be (see fs.inotify.max_user_watches)");
    return start_thread(watch, error);
}

static enum weir_code take(struct weir_watch *watch, const struct weir_watch_options *options,
                           struct weir_error *error)
{
    watch->limiter = options->limiter;
    watch->log = options->log;
    watch->quiet_ms = (int)(options->quiet_ms == 0 ? QUIET_MS : options->quiet_ms);
    watch->inotify_fd = watch->stop_fd = -1;
    if (options->file == NULL)
        return weir_limiter_file(options->limiter, &watch->file, NULL, error);
    watch->file = strdup(options->file);
    return watch->file != NULL ? WEIR_OK
                               : weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

enum weir_code weir_watch_new(const struct weir_watch_options *options, struct weir_watch **watch,
                              struct weir_error *error)
{
    struct weir_watch_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, WATCH_OPTIONS_FIRST,
                                            "WEIR_WATCH_OPTIONS", error);
    if (code != WEIR_OK)
        return code;
    if (ours.limiter == NULL || ours.quiet_ms > 60000)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              ours.limiter == NULL ? "There is no limiter."
                                                   : "A quiet time of more than a minute is none.");
    struct weir_watch *made = calloc(1, sizeof *made);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    code = take(made, &ours, error);
    if (code == WEIR_OK)
        code = start(made, error);
    if (code != WEIR_OK) {
        weir_watch_free(made);
        return code;
    }
    *watch = made;
    return WEIR_OK;
}

static void stop_thread(struct weir_watch *watch)
{
    static const uint64_t once = 1;
    if (!watch->has_thread)
        return;
    ssize_t written = write(watch->stop_fd, &once, sizeof once); /* of 8 bytes it does not fail */
    (void)written;
    pthread_join(watch->thread, NULL);
}

struct weir_watch *weir_watch_free(struct weir_watch *watch)
{
    if (watch == NULL)
        return NULL;
    stop_thread(watch);
    if (watch->inotify_fd >= 0)
        close(watch->inotify_fd);
    if (watch->stop_fd >= 0)
        close(watch->stop_fd);
    weir_watched_files_finish(&watch->files);
    free(watch->folders);
    free(watch->file);
    free(watch);
    return NULL;
}
