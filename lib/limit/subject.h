/* Whose sum a limit keeps: the text that stands for a client in a key. */
#ifndef WEIR_LIMIT_SUBJECT_H
#define WEIR_LIMIT_SUBJECT_H

#include "policy/policy.h"
#include "request/body_fields.h"

/* Longer subjects are replaced by a hash of themselves. */
#define WEIR_SUBJECT_MAX 160

/* A value that code without a request names itself: {"query:q", "gate"}. */
struct weir_named_value {
    struct weir_text dimension; /* "header", "param", "query", "field"                    */
    struct weir_text name;      /* letter case aside for headers                          */
    struct weir_text text;
};

struct weir_prepared_set;

/* What there is to count by: of a request, or of code without one. */
struct weir_asker {
    const struct weir_policy *policy;
    const struct weir_identity *identity;

    /* of a request; NULL without one */
    const struct weir_facts *facts;
    const struct weir_match *match;
    const struct weir_body_field *fields; /* of its body, those that are wanted */
    size_t field_count;
    struct weir_text device; /* at NULL: it is not known */

    /* without a request */
    struct weir_text route; /* at NULL: none */
    const struct weir_named_value *values;
    size_t value_count;

    /* Of the policy; NULL: all is worked out for this asker. */
    const struct weir_prepared_set *prepared;
};

/* Writes the subject, "api_key=acme-free" or "ip=203.0.113.7/32&user=…"; false: a dimension is
 * absent or empty, so the limit does not apply. Parts are escaped, so that no two lists of values
 * give the same text. Addresses, key ids, plans, routes, and tenants that look like ids stand as
 * they are; users and everything a client sends are hashed with the policy's secret. Pure. */
bool weir_subject_write(const struct weir_by *by, const struct weir_asker *asker,
                        struct weir_buffer *subject);

/* Whether a tenant or a plan stands in keys as it is: it looks like the name that somebody gave it, and
 * not like something that a person typed. Pure. */
bool weir_is_public_id(struct weir_text text);

/* Whether one of the values that make the subject is of one of these kinds: bits 1 << enum
 * weir_dimension_kind. Pure. */
bool weir_subject_has(const struct weir_by *by, const struct weir_asker *asker, unsigned kinds);

#endif
