#include "tools/simulate_lines.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tools/progress.h"

#define SECOND_US   UINT64_C(1000000)
#define CHUNK_BYTES ((size_t)1 << 20)

/* A request as it is kept: this, the lengths of its header lines and fields, then all texts. */
struct packed {
    uint64_t cost;
    uint32_t line, log;
    uint16_t status;
    uint8_t header_count, field_count;
    bool has_cost;
    uint32_t lengths[WEIR_ACCESS_TEXTS]; /* ABSENT: at NULL */
};

#define ABSENT UINT32_MAX

struct ordered {
    uint64_t time_us;
    uint64_t number; /* in the order of reading */
    const struct packed *packed;
};

struct chunk {
    struct chunk *next;
    size_t used;
    char bytes[];
};

struct weir_lines {
    uint64_t from_us, to_us;
    struct weir_lines_state state;
    struct ordered *ordered;
    size_t room;
    bool is_in_order; /* as it was read */
    struct chunk *chunks;
    size_t chunk_bytes; /* of the newest */
    const char *logs[WEIR_LOGS_MAX];
    size_t log_count;
};

struct weir_lines *weir_lines_new(uint64_t from_us, uint64_t to_us)
{
    struct weir_lines *lines = calloc(1, sizeof *lines);
    if (lines == NULL)
        return NULL;
    lines->from_us = from_us;
    lines->to_us = to_us;
    lines->is_in_order = true;
    lines->state.has_whole_seconds = true;
    return lines;
}

struct weir_lines *weir_lines_free(struct weir_lines *lines)
{
    while (lines != NULL && lines->chunks != NULL) {
        struct chunk *chunk = lines->chunks;
        lines->chunks = chunk->next;
        free(chunk);
    }
    if (lines != NULL)
        free(lines->ordered);
    free(lines);
    return NULL;
}

/* packing */

static void *take_bytes(struct weir_lines *lines, size_t bytes)
{
    bytes = (bytes + 7) / 8 * 8;
    if (lines->chunks == NULL || lines->chunk_bytes - lines->chunks->used < bytes) {
        size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        struct chunk *chunk = malloc(sizeof *chunk + size);
        if (chunk == NULL)
            return NULL;
        *chunk = (struct chunk){ .next = lines->chunks };
        lines->chunks = chunk;
        lines->chunk_bytes = size;
    }
    void *taken = lines->chunks->bytes + lines->chunks->used;
    lines->chunks->used += bytes;
    return taken;
}

static size_t line_bytes(const struct weir_line *lines, size_t count)
{
    size_t bytes = 2 * count * sizeof(uint32_t);
    for (size_t i = 0; i < count; i++)
        bytes += lines[i].name.length + lines[i].value.length;
    return bytes;
}

static size_t packed_bytes(const struct weir_access_entry *entry)
{
    size_t bytes = sizeof(struct packed) + line_bytes(entry->headers, entry->header_count)
                   + line_bytes(entry->fields, entry->field_count);
    for (size_t i = 0; i < WEIR_ACCESS_TEXTS; i++)
        bytes += entry->texts[i].length;
    return bytes;
}

static char *put_text(char *to, struct weir_text text)
{
    if (text.length > 0)
        memcpy(to, text.at, text.length);
    return to + text.length;
}

static uint32_t *put_lengths(uint32_t *lengths, const struct weir_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        *lengths++ = (uint32_t)lines[i].name.length;
        *lengths++ = (uint32_t)lines[i].value.length;
    }
    return lengths;
}

static char *put_lines(char *to, const struct weir_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to = put_text(put_text(to, lines[i].name), lines[i].value);
    return to;
}

/* NULL: memory ran out. */
static const struct packed *pack(struct weir_lines *lines, const struct weir_access_entry *entry,
                                 uint64_t line)
{
    struct packed *packed = take_bytes(lines, packed_bytes(entry));
    if (packed == NULL)
        return NULL;
    *packed = (struct packed){ .cost = entry->cost,
                               .line = (uint32_t)line,
                               .log = (uint32_t)(lines->log_count - 1),
                               .status = (uint16_t)entry->status,
                               .header_count = (uint8_t)entry->header_count,
                               .field_count = (uint8_t)entry->field_count,
                               .has_cost = entry->has_cost };
    uint32_t *lengths = (uint32_t *)(packed + 1);
    lengths = put_lengths(lengths, entry->headers, entry->header_count);
    lengths = put_lengths(lengths, entry->fields, entry->field_count);
    char *to = (char *)lengths;
    for (size_t i = 0; i < WEIR_ACCESS_TEXTS; i++) {
        packed->lengths[i] = entry->texts[i].at == NULL ? ABSENT : (uint32_t)entry->texts[i].length;
        to = put_text(to, entry->texts[i]);
    }
    put_lines(put_lines(to, entry->headers, entry->header_count), entry->fields,
              entry->field_count);
    return packed;
}

static const uint32_t *get_lines(const uint32_t *lengths, struct weir_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lines[i].name.length = *lengths++;
        lines[i].value.length = *lengths++;
    }
    return lengths;
}

static const char *point_lines(const char *at, struct weir_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        lines[i].name.at = at;
        lines[i].value.at = at + lines[i].name.length;
        at = lines[i].value.at + lines[i].value.length;
    }
    return at;
}

static void unpack(const struct packed *packed, struct weir_access_entry *entry)
{
    entry->status = packed->status;
    entry->has_cost = packed->has_cost;
    entry->cost = packed->cost;
    entry->header_count = packed->header_count;
    entry->field_count = packed->field_count;
    const uint32_t *lengths = (const uint32_t *)(packed + 1);
    lengths = get_lines(lengths, entry->headers, entry->header_count);
    lengths = get_lines(lengths, entry->fields, entry->field_count);
    const char *at = (const char *)lengths;
    for (size_t i = 0; i < WEIR_ACCESS_TEXTS; i++) {
        bool is_there = packed->lengths[i] != ABSENT;
        entry->texts[i] =
            (struct weir_text){ is_there ? at : NULL, is_there ? packed->lengths[i] : 0 };
        at += entry->texts[i].length;
    }
    point_lines(point_lines(at, entry->headers, entry->header_count), entry->fields,
                entry->field_count);
}

/* keeping */

static bool has_room(struct weir_lines *lines)
{
    if (lines->state.count < lines->room)
        return true;
    size_t room = lines->room == 0 ? 4096 : lines->room * 2;
    struct ordered *ordered = realloc(lines->ordered, room * sizeof *ordered);
    if (ordered == NULL)
        return false;
    lines->ordered = ordered;
    lines->room = room;
    return true;
}

/* False: memory ran out. */
static bool keep(struct weir_lines *lines, const struct weir_access_entry *entry, uint64_t line)
{
    struct weir_lines_state *state = &lines->state;
    if (entry->time_us < lines->from_us || entry->time_us >= lines->to_us) {
        state->outside++;
        return true;
    }
    const struct packed *packed = pack(lines, entry, line);
    if (packed == NULL || !has_room(lines))
        return false;
    size_t number = state->count++;
    if (number > 0 && entry->time_us < lines->ordered[number - 1].time_us)
        lines->is_in_order = false;
    lines->ordered[number] = (struct ordered){ entry->time_us, number, packed };
    state->has_whole_seconds = state->has_whole_seconds && entry->is_whole_second;
    state->has_costs = state->has_costs || entry->has_cost;
    state->has_fields = state->has_fields || entry->field_count > 0;
    return true;
}

static void note_bad(struct weir_lines *lines, const char *name, uint64_t line, const char *why)
{
    struct weir_lines_state *state = &lines->state;
    state->bad++;
    if (state->first_bad_count < WEIR_BAD_LINES_MAX)
        state->first_bad[state->first_bad_count++] = (struct weir_bad_line){ { name, line }, why };
}

/* reading */

struct input {
    FILE *stream;
    char *buffer; /* of WEIR_LOG_LINE_BYTES */
    size_t start, end;
    uint64_t bytes; /* read so far */
    bool is_over;
};

/* Moves what is left to the front, and reads on behind it. */
static void refill(struct input *input)
{
    memmove(input->buffer, input->buffer + input->start, input->end - input->start);
    input->end -= input->start;
    input->start = 0;
    size_t count =
        fread(input->buffer + input->end, 1, WEIR_LOG_LINE_BYTES - input->end, input->stream);
    input->end += count;
    input->bytes += count;
    input->is_over = count == 0;
}

/* Drops the rest of a line that is too long. */
static void skip_line(struct input *input)
{
    char *newline = NULL;
    while (newline == NULL && !input->is_over) {
        input->start = input->end;
        refill(input);
        newline = memchr(input->buffer, '\n', input->end);
    }
    input->start = newline == NULL ? input->end : (size_t)(newline - input->buffer) + 1;
}

/* Takes the next line, its end dropped; false: there is none. `is_too_long`: its beginning. */
static bool next_line(struct input *input, char **line, size_t *length, bool *is_too_long)
{
    char *newline = NULL;
    size_t seen = 0;
    for (;;) {
        char *from = input->buffer + input->start + seen;
        newline = memchr(from, '\n', input->end - input->start - seen);
        seen = input->end - input->start;
        if (newline != NULL || input->is_over || seen == WEIR_LOG_LINE_BYTES)
            break;
        refill(input);
    }
    *line = input->buffer + input->start;
    *length = newline == NULL ? seen : (size_t)(newline - *line);
    *is_too_long = newline == NULL && seen == WEIR_LOG_LINE_BYTES;
    input->start += newline == NULL ? seen : *length + 1;
    if (*is_too_long)
        skip_line(input);
    if (*length > 0 && (*line)[*length - 1] == '\r')
        --*length;
    return newline != NULL || seen > 0;
}

/* False: memory ran out. */
static bool read_line(struct weir_lines *lines, struct weir_access_reader *reader, char *line,
                      size_t length, uint64_t number)
{
    struct weir_access_entry entry;
    const char *why = NULL;
    const char *name = lines->logs[lines->log_count - 1];
    lines->state.lines++;
    if (weir_access_read(reader, line, length, &entry, &why))
        return keep(lines, &entry, number);
    note_bad(lines, name, number, why);
    return true;
}

static enum weir_code read_lines(struct weir_lines *lines, struct weir_access_reader *reader,
                                 struct input *input, struct weir_progress *progress,
                                 struct weir_error *error)
{
    char *line;
    size_t length;
    bool is_too_long, is_kept = true;
    const char *name = lines->logs[lines->log_count - 1];
    for (uint64_t number = 1; is_kept && next_line(input, &line, &length, &is_too_long); number++) {
        if (number == 1 && length >= 2 && memcmp(line, "\x1f\x8b", 2) == 0)
            return weir_error_set(error, WEIR_E_VALUE, NULL,
                                  "It is compressed; wanted is \"zcat %.60s | weir simulate -\".",
                                  name);
        if (is_too_long) {
            lines->state.lines++;
            note_bad(lines, name, number, "it is longer than a megabyte");
        } else if (length > 0) {
            is_kept = read_line(lines, reader, line, length, number);
        }
        weir_progress_step(progress, progress->total > 0 ? input->bytes : lines->state.lines);
    }
    if (!is_kept)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    return ferror(input->stream) == 0
               ? WEIR_OK
               : weir_error_set(error, WEIR_E_FILE, NULL, "%s.", strerror(errno));
}

static uint64_t size_of(FILE *stream)
{
    struct stat about;
    bool is_file = fstat(fileno(stream), &about) == 0 && S_ISREG(about.st_mode);
    return is_file ? (uint64_t)about.st_size : 0;
}

enum weir_code weir_lines_read(struct weir_lines *lines, struct weir_access_reader *reader,
                               FILE *stream, const char *name, struct weir_error *error)
{
    struct input input = { .stream = stream, .buffer = malloc(WEIR_LOG_LINE_BYTES) };
    if (input.buffer == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    if (lines->log_count == WEIR_LOGS_MAX) {
        free(input.buffer);
        return weir_error_set(error, WEIR_E_VALUE, NULL, "There are more than %d logs.",
                              WEIR_LOGS_MAX);
    }
    lines->logs[lines->log_count++] = name;
    struct weir_progress progress = weir_progress_begin("reading", size_of(stream));
    enum weir_code code = read_lines(lines, reader, &input, &progress, error);
    weir_progress_end(&progress);
    free(input.buffer);
    return code;
}

/* order */

static int compare(const void *one, const void *other)
{
    const struct ordered *first = one, *second = other;
    if (first->time_us != second->time_us)
        return first->time_us < second->time_us ? -1 : 1;
    return first->number < second->number ? -1 : 1;
}

static void spread(struct ordered *ordered, size_t count)
{
    for (size_t first = 0; first < count;) {
        size_t next = first;
        while (next < count && ordered[next].time_us == ordered[first].time_us)
            next++;
        bool is_whole = ordered[first].time_us % SECOND_US == 0;
        for (size_t i = first; is_whole && i < next; i++)
            ordered[i].time_us += (i - first) * SECOND_US / (next - first);
        first = next;
    }
}

void weir_lines_order(struct weir_lines *lines, bool spreads)
{
    struct weir_lines_state *state = &lines->state;
    if (!lines->is_in_order)
        qsort(lines->ordered, state->count, sizeof lines->ordered[0], compare);
    if (spreads && state->has_whole_seconds)
        spread(lines->ordered, state->count);
    lines->is_in_order = true;
    if (state->count > 0) {
        state->first_us = lines->ordered[0].time_us;
        state->last_us = lines->ordered[state->count - 1].time_us;
    }
}

const struct weir_lines_state *weir_lines_state(const struct weir_lines *lines)
{
    return &lines->state;
}

void weir_lines_get(const struct weir_lines *lines, size_t index, struct weir_access_entry *entry,
                    struct weir_line_place *place)
{
    const struct ordered *ordered = &lines->ordered[index];
    entry->time_us = ordered->time_us;
    unpack(ordered->packed, entry);
    *place = (struct weir_line_place){ lines->logs[ordered->packed->log], ordered->packed->line };
}
