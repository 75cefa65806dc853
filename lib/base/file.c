#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

/* stamps */

struct weir_file_stamp weir_file_stamp(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return (struct weir_file_stamp){ .device = 0 };
    /* The inode's time and not the contents': that one cannot be set back. */
    return (struct weir_file_stamp){ .device = status.st_dev,
                                     .number = status.st_ino,
                                     .bytes = (uint64_t)status.st_size,
                                     .changed_s = status.st_ctim.tv_sec,
                                     .changed_ns = status.st_ctim.tv_nsec };
}

bool weir_file_stamp_is_same(const struct weir_file_stamp *one, const struct weir_file_stamp *other)
{
    return one->device == other->device && one->number == other->number
           && one->bytes == other->bytes && one->changed_s == other->changed_s
           && one->changed_ns == other->changed_ns;
}

/* what goes wrong */

static bool is_of_the_moment(int why)
{
    return why == EMFILE || why == ENFILE || why == ENOMEM || why == EINTR || why == EAGAIN
           || why == EIO || why == ESTALE || why == ETIMEDOUT;
}

enum weir_code weir_file_failed(const char *path, struct weir_error *error)
{
    return weir_error_set(error, is_of_the_moment(errno) ? WEIR_E_SYSTEM : WEIR_E_FILE, NULL,
                          "\"%.200s\" cannot be read: %s.", path, strerror(errno));
}

static enum weir_code refuse_kind(const char *path, mode_t mode, struct weir_error *error)
{
    errno = EISDIR;
    if (S_ISDIR(mode))
        return weir_file_failed(path, error);
    return weir_error_set(error, WEIR_E_FILE, NULL,
                          "\"%.200s\" cannot be read: it is a %s, and wanted is a file.", path,
                          S_ISFIFO(mode) ? "pipe" : "device");
}

/* opening */

/* Whether that is a pipe that stands in no folder; then who reads may wait for who writes. */
static bool is_own_pipe(int descriptor, mode_t mode)
{
    struct statfs system;
    return S_ISFIFO(mode) && fstatfs(descriptor, &system) == 0 && system.f_type == PIPEFS_MAGIC
           && fcntl(descriptor, F_SETFL, O_RDONLY) == 0;
}

static enum weir_code check_kind(const char *path, int descriptor, struct weir_error *error)
{
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return weir_file_failed(path, error);
    if (!S_ISREG(status.st_mode) && !is_own_pipe(descriptor, status.st_mode))
        return refuse_kind(path, status.st_mode, error);
    return WEIR_OK;
}

enum weir_code weir_file_open(const char *path, FILE **file, struct weir_file_stamp *stamp,
                              struct weir_error *error)
{
    /* Before it is opened: should it change in between, then it seems to have changed since, and whoever
     * watches it reads it once more. By its name, since not every file system says the same of both. */
    if (stamp != NULL)
        *stamp = weir_file_stamp(path);
    /* Opened as a file is, a pipe would wait for somebody to write. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return weir_file_failed(path, error);
    enum weir_code code = check_kind(path, descriptor, error);
    *file = code == WEIR_OK ? fdopen(descriptor, "r") : NULL;
    if (code == WEIR_OK && *file == NULL)
        code = weir_file_failed(path, error);
    if (code != WEIR_OK)
        close(descriptor);
    return code;
}
