#include "policy/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/date.h"

#define NAME_MAX_BYTES 64
#define FILE_MAX_BYTES 65536
#define PATH_BYTES     4096

#define REPEAT_S (WEIR_DAYS_OF_400_YEARS * WEIR_DAY_S)

static enum weir_code out_of_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

void weir_zone_finish(struct weir_zone *zone)
{
    free(zone->changes);
    *zone = (struct weir_zone){ 0 };
}

/* what time it is */

/* The last change that is not after `at_s`; the first is never after anything. */
static size_t find_change(const struct weir_zone *zone, int64_t at_s)
{
    size_t low = 0, high = zone->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (zone->changes[middle].since_s <= at_s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* How much to take off a time so that it is one that `changes` reaches. */
static int64_t whole_repeats_s(const struct weir_zone *zone, int64_t at_s)
{
    int64_t past_s = at_s - zone->repeats_from_s;
    return past_s < REPEAT_S ? 0 : past_s - past_s % REPEAT_S;
}

int32_t weir_zone_offset_s(const struct weir_zone *zone, int64_t at_s)
{
    return zone->changes[find_change(zone, at_s - whole_repeats_s(zone, at_s))].offset_s;
}

int64_t weir_zone_day_start_s(const struct weir_zone *zone, int64_t day)
{
    /* No clock shows the day before `earliest_s`. */
    int64_t earliest_s = day * WEIR_DAY_S - WEIR_ZONE_OFFSET_MAX_S;
    int64_t repeats_s = whole_repeats_s(zone, earliest_s);
    int64_t midnight_s = day * WEIR_DAY_S - repeats_s;
    size_t at = find_change(zone, earliest_s - repeats_s);
    for (;; at++) {
        const struct weir_zone_change *change = &zone->changes[at];
        int64_t first_s = midnight_s - change->offset_s;
        if (first_s < change->since_s)
            first_s = change->since_s; /* the change itself skipped midnight */
        if (at + 1 == zone->count || first_s < change[1].since_s)
            return first_s + repeats_s;
    }
}

/* finding the file */

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
           || (c != '\0' && strchr("+-_/.", c) != NULL);
}

/* A name becomes part of a path, and must not lead out of the folder. */
static bool is_name(const char *name)
{
    size_t length = 0;
    while (length <= NAME_MAX_BYTES && is_name_char(name[length]))
        length++;
    return length > 0 && length <= NAME_MAX_BYTES && name[length] == '\0' && name[0] != '/'
           && strstr(name, "..") == NULL;
}

static const char *zones_folder(void)
{
    const char *folder = secure_getenv("TZDIR");
    return folder == NULL || folder[0] == '\0' ? "/usr/share/zoneinfo" : folder;
}

/* "europe/berlin" is "Europe/Berlin", and "utc" is "UTC". */
static void capitalise(const char *name, bool is_whole, char other[NAME_MAX_BYTES + 1])
{
    bool is_first = true;
    size_t i = 0;
    for (; name[i] != '\0' && i < NAME_MAX_BYTES; i++) {
        bool is_lower = name[i] >= 'a' && name[i] <= 'z';
        other[i] = is_lower && (is_first || is_whole) ? (char)(name[i] - 'a' + 'A') : name[i];
        is_first = name[i] == '/' || name[i] == '_' || name[i] == '-';
    }
    other[i] = '\0';
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && access(path, F_OK) == 0;
}

static enum weir_code refuse_unknown(const char *name, const char *folder, struct weir_error *error)
{
    char other[NAME_MAX_BYTES + 1];
    if (!is_there(folder, "."))
        return weir_error_set(error, WEIR_E_FILE, NULL,
                              "The time zone \"%s\" cannot be read: there is no folder "
                              "\"%.120s\"; install the package tzdata.",
                              name, folder);
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        capitalise(name, is_whole == 1, other);
        if (strcmp(other, name) != 0 && is_there(folder, other))
            return weir_error_set(error, WEIR_E_REFERENCE, NULL,
                                  "There is no time zone \"%s\"; did you mean \"%s\"?", name,
                                  other);
    }
    return weir_error_set(error, WEIR_E_REFERENCE, NULL,
                          "There is no time zone \"%s\" in \"%.80s\"; wanted is a name of the IANA "
                          "database, such as \"Europe/Berlin\" (Debian keeps old names in the "
                          "package tzdata-legacy).",
                          name, folder);
}

static enum weir_code refuse_file(const char *name, const char *why, struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_FILE, NULL, "The time zone \"%s\" cannot be read: %s.",
                          name, why);
}

/* reading it */

static void close_file(int *file)
{
    if (*file >= 0)
        close(*file);
}

static void free_bytes(char **bytes)
{
    free(*bytes);
}

/* Reads to the end, or until `size` bytes are full; false with errno. */
static bool read_whole(int file, char *bytes, size_t size, size_t *length)
{
    *length = 0;
    while (*length < size) {
        ssize_t got = read(file, bytes + *length, size - *length);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        *length += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* Whatever else a path may name would block, or never end. */
static bool is_plain_file(int file)
{
    struct stat status;
    return fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

static enum weir_code read_file(const char *name, int file, struct weir_zone *zone,
                                struct weir_error *error)
{
    size_t length;
    if (!is_plain_file(file))
        return refuse_file(name, "it is a folder or something else that is no file", error);
    __attribute__((cleanup(free_bytes))) char *bytes = malloc(FILE_MAX_BYTES + 1);
    if (bytes == NULL)
        return out_of_memory(error);
    if (!read_whole(file, bytes, FILE_MAX_BYTES + 1, &length))
        return refuse_file(name, strerror(errno), error);
    if (length > FILE_MAX_BYTES)
        return refuse_file(name, "its file is larger than 64 KiB", error);
    return weir_zone_read(name, (struct weir_text){ bytes, length }, zone, error);
}

static enum weir_code make_utc(struct weir_zone *zone, struct weir_error *error)
{
    struct weir_zone_change *changes = malloc(sizeof *changes);
    if (changes == NULL)
        return out_of_memory(error);
    changes[0] = (struct weir_zone_change){ INT64_MIN, 0 };
    *zone = (struct weir_zone){ .changes = changes, .count = 1 };
    return WEIR_OK;
}

enum weir_code weir_zone_load(const char *name, struct weir_zone *zone, struct weir_error *error)
{
    char path[PATH_BYTES];
    const char *folder = zones_folder();
    if (strcmp(name, "UTC") == 0)
        return make_utc(zone, error);
    if (!is_name(name))
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "\"%.80s\" is no name of a time zone; wanted are 1 to 64 of the "
                              "characters A-Z a-z 0-9 + - _ / . as in \"Europe/Berlin\".",
                              name);
    int path_length = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (path_length < 0 || (size_t)path_length >= sizeof path)
        return refuse_file(name, "its path, with TZDIR, is too long", error);

    __attribute__((cleanup(close_file))) int file =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 && (errno == ENOENT || errno == ENOTDIR))
        return refuse_unknown(name, folder, error);
    if (file < 0)
        return refuse_file(name, strerror(errno), error);
    return read_file(name, file, zone, error);
}
