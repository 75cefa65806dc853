/* One request as plain data; a test can make one without a socket. */
#ifndef WEIR_REQUEST_FACTS_H
#define WEIR_REQUEST_FACTS_H

#include "base/text.h"

struct sockaddr;

/* A header line or a query argument. */
struct weir_line {
    struct weir_text name;
    struct weir_text value;
};

struct weir_facts {
    struct weir_text method;
    struct weir_text target; /* as the server gave it, percent-decoded or not                    */
    struct weir_text path;   /* normalised; at NULL where that cannot be done                    */
    const struct weir_line *headers; /* one for each line, in the order received, names as sent  */
    size_t header_count;
    const struct weir_line *queries; /* decoded, in order                                        */
    size_t query_count;
    const struct sockaddr *peer; /* NULL: none                                                   */
    bool has_body;
    bool is_http_1_0; /* or older                                                      */
};

/* The value of the first header line of that name, letter case aside; at NULL: there is none. */
struct weir_text weir_facts_header(const struct weir_facts *facts, struct weir_text name);

/* The value of the first query argument of exactly that name; at NULL: there is none. */
struct weir_text weir_facts_query(const struct weir_facts *facts, struct weir_text name);

#endif
