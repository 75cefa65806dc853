/* Access logs of web servers, line by line, as requests that could be asked again. */
#ifndef WEIR_TOOLS_ACCESS_LOG_H
#define WEIR_TOOLS_ACCESS_LOG_H

#include <weir/error.h>

#include "request/facts.h"

/* How a line is written. Common: NCSA's, of Apache and nginx: peer, ident, user, [time], "request",
 * status, bytes. Combined: the same, then "referer" and "user agent". JSON: an object. */
enum weir_access_format {
    WEIR_ACCESS_ANY, /* each line as it looks */
    WEIR_ACCESS_COMMON,
    WEIR_ACCESS_COMBINED,
    WEIR_ACCESS_JSON
};

/* What a log may say of a request; at NULL where it does not. */
enum weir_access_text {
    WEIR_ACCESS_PEER, /* an address, the other end of the connection */
    WEIR_ACCESS_METHOD,
    WEIR_ACCESS_TARGET, /* path and query, as the client wrote them */
    WEIR_ACCESS_USER,
    WEIR_ACCESS_TENANT,
    WEIR_ACCESS_PLAN,
    WEIR_ACCESS_API_KEY /* the public id */
};

#define WEIR_ACCESS_TEXTS       7
#define WEIR_ACCESS_HEADERS_MAX 32
#define WEIR_ACCESS_FIELDS_MAX  16

/* One line. Method and target are always there. */
struct weir_access_entry {
    uint64_t time_us;     /* since 1970                                      */
    bool is_whole_second; /* the log tells no more                           */
    unsigned status;      /* of the reply; 0: it does not say                */
    bool has_cost;        /* in units; else as the route says                */
    uint64_t cost;
    struct weir_text texts[WEIR_ACCESS_TEXTS];
    struct weir_line headers[WEIR_ACCESS_HEADERS_MAX];
    size_t header_count;
    struct weir_line fields[WEIR_ACCESS_FIELDS_MAX]; /* of the body, decoded */
    size_t field_count;
};

struct weir_access_reader;

/* NULL: memory ran out. */
struct weir_access_reader *weir_access_reader_new(enum weir_access_format format);

/* Accepts NULL; returns NULL. */
struct weir_access_reader *weir_access_reader_free(struct weir_access_reader *reader);

/* Says in which member of JSON lines something stands, instead of where it is looked for by itself:
 * "user=login_name", "header:X-Device=device.id", "field:username=name". The text is borrowed. Errors:
 * WEIR_E_VALUE: it is no such text; WEIR_E_MEMORY. */
enum weir_code weir_access_reader_map(struct weir_access_reader *reader, const char *mapping,
                                      struct weir_error *error);

/* Reads a line without its end, which is changed where escapes in it are decoded. The entry's texts
 * live until the next line is read, and as long as `line`. False: it is none, and `why` says so in a
 * few words. */
bool weir_access_read(struct weir_access_reader *reader, char *line, size_t length,
                      struct weir_access_entry *entry, const char **why);

/* Reads a time as logs write it: "10/Oct/2000:13:55:36 -0700", "2026-03-04T05:06:07.008Z" (without an
 * offset: UTC), "2026-03-04", or a number since 1970, in seconds with decimals, or in milliseconds,
 * microseconds or nanoseconds, as its size tells. From 1970 to 2199. Pure. */
bool weir_access_time(struct weir_text text, uint64_t *time_us, bool *is_whole_second);

#endif
