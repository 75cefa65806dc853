/* How the files policy_json_*.c read a policy: places in the JSON, tables of members, errors that
 * name their place. */
#ifndef WEIR_POLICY_JSON_H
#define WEIR_POLICY_JSON_H

#include <jansson.h>

#include "base/buffer.h"
#include "policy/policy.h"
#include "policy/units.h"

/* A value in the file, and the way to it. */
struct weir_place {
    const struct weir_place *parent; /* NULL: this is the root                         */
    const char *name;                /* of an object's member; NULL: an array's item   */
    size_t index;                    /* of an array's item                             */
    json_t *value;                   /* borrowed; NULL: it is not there                */
};

#define WEIR_POINTER_BYTES 160 /* as in struct weir_error */

struct weir_files; /* policy_json_files.h */

/* What is being read, and where it goes. */
struct weir_reader {
    struct weir_policy *policy;
    const struct weir_place *root;
    const struct weir_files *files; /* that the root is made of                                  */
    const char *directory; /* of names of files; NULL: the current one                           */
    struct weir_error *error;
    json_t *preset_rates;  /* owned list: the rates that presets have put there                  */
    bool fold;             /* "case": "fold" at the top level                                    */
    bool is_of_other_file; /* the error's path is not one in this file                           */
};

/* Reads one value, which is there, into `into`. */
typedef enum weir_code weir_read_value(struct weir_reader *reader, const struct weir_place *place,
                                       void *into);

/* A member that an object may have. */
struct weir_member {
    const char *name;
    weir_read_value *read; /* NULL: somebody else reads it                               */
    bool is_needed;
};

/* A word that a value may be. */
struct weir_choice {
    const char *name;
    int value;
};

#define WEIR_COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* policy_json_place.c */

struct weir_place weir_place_member(const struct weir_place *object, const char *name);
struct weir_place weir_place_item(const struct weir_place *array, size_t index);

/* Writes the JSON Pointer (RFC 6901), or that of a parent where it is too long. */
const char *weir_place_pointer(const struct weir_place *place, char memory[WEIR_POINTER_BYTES]);

/* A value as a message shows it: quoted, cut, and without control characters. */
struct weir_shown {
    char text[96];
};
struct weir_shown weir_show(const json_t *value);

enum weir_code weir_refuse(const struct weir_reader *reader, const struct weir_place *place,
                           enum weir_code code, const char *format, ...) WEIR_PRINTF(4, 5);

/* "The value is 5; wanted is …": WEIR_E_TYPE, and WEIR_E_VALUE. */
enum weir_code weir_refuse_type(const struct weir_reader *reader, const struct weir_place *place,
                                const char *wanted);
enum weir_code weir_refuse_value(const struct weir_reader *reader, const struct weir_place *place,
                                 const char *wanted);
enum weir_code weir_refuse_memory(const struct weir_reader *reader);

/* policy_json_value.c */

/* Refuses what is no object, has other members, or lacks one that it needs; then reads those that
 * are there, in the table's order. "comment" is allowed in each. */
enum weir_code weir_read_members(struct weir_reader *reader, const struct weir_place *place,
                                 const struct weir_member *members, size_t count, void *into);

/* Reads one of several words; `chosen` gets its value. */
enum weir_code weir_read_choice(const struct weir_reader *reader, const struct weir_place *place,
                                const struct weir_choice *choices, size_t count, int *chosen);

enum weir_code weir_read_integer(const struct weir_reader *reader, const struct weir_place *place,
                                 uint64_t least, uint64_t most, uint64_t *number);
weir_read_value weir_read_bool; /* into a bool */

/* A string that is not empty, borrowed from the JSON. */
enum weir_code weir_read_text(const struct weir_reader *reader, const struct weir_place *place,
                              const char *wanted, struct weir_text *text);

/* A name of a policy, a limit or a plan: refuses what is no name. */
enum weir_code weir_check_name(const struct weir_reader *reader, const struct weir_place *place,
                               const char *name);

/* A copy that lives as long as the policy. */
enum weir_code weir_keep_text(const struct weir_reader *reader, struct weir_text text,
                              const char **kept);

/* A file's name as a path that can be opened: names are relative to the policy's folder. */
enum weir_code weir_keep_file_name(const struct weir_reader *reader, struct weir_text name,
                                   const char **path);

/* The name of a header line, into a struct weir_text. */
weir_read_value weir_read_header_name;

/* policy_json_environment.c */

/* The longest value with its variables filled in, and a NUL. */
#define WEIR_EXPANDED_MAX ((size_t)4096)

/* Where in a URL a variable's value is percent-encoded: in its login, which ends at `until`, and
 * behind its question mark at `from`; at NULL neither. */
struct weir_escaped {
    const char *until, *from;
};

/* Puts `source` with each "${NAME}" replaced by what the environment holds; a NUL ends it. */
enum weir_code weir_expand(const struct weir_reader *reader, const struct weir_place *place,
                           struct weir_text source, const struct weir_escaped *escaped,
                           struct weir_buffer *text);

/* policy_json_url.c */

weir_read_value weir_read_store_url; /* into the policy */

/* Puts a store's URL without its passwords. */
void weir_put_masked_url(struct weir_buffer *shown, struct weir_text url);

/* What stands for a secret where that is not shown. */
#define WEIR_MASK "***"

/* Whether a text is the name of a variable and nothing else: "${NAME}". */
bool weir_is_variable(struct weir_text text);

/* policy_json_rate.c */

enum weir_code weir_read_rate(const struct weir_reader *reader, const struct weir_place *place,
                              struct weir_written_rate *rate);

/* Makes a rate of what was written and a burst (0: none); errors are at `place`. */
enum weir_code weir_make_rate(const struct weir_reader *reader, const struct weir_place *place,
                              const struct weir_written_rate *written, uint64_t burst,
                              struct weir_rate *rate);
weir_read_value weir_read_burst; /* into a uint64_t */

/* As the file writes it. */
const char *weir_algorithm_word(enum weir_algorithm algorithm);

#define WEIR_HAVE_BURSTS      "\"burst\" is for gcra, token-bucket and leaky-bucket, and "
#define WEIR_NO_BURST         WEIR_HAVE_BURSTS "this limit is a %s; leave it out."
#define WEIR_NO_BURST_IN_PLAN WEIR_HAVE_BURSTS "the limit \"%s\" is a %s; leave it out."

/* policy_json_calendar.c */

/* Where a limit's windows begin. */
struct weir_windows {
    const char *limit;   /* its name                                 */
    const char *zone;    /* NULL: on the clock                       */
    unsigned anchor_day; /* of windows of months; 0: it is not said  */
};

/* The name of a time zone, which must be there; the copy lives as long as the policy. */
enum weir_code weir_read_zone(const struct weir_reader *reader, const struct weir_place *place,
                              const char **zone);

/* The calendar, kept by the policy, of a window that is `window_us` long, or `months` if not 0; NULL
 * where its edges are the clock's. Refuses, at `place`, windows that the zone's calendar lacks. */
enum weir_code weir_find_calendar(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct weir_windows *windows, uint64_t window_us,
                                  unsigned months, const struct weir_calendar **calendar);

/* The sections of the file; each reads into reader->policy. */

weir_read_value weir_read_store;           /* policy_json_store.c    */
weir_read_value weir_read_secret;          /* policy_json_store.c    */
weir_read_value weir_read_client_ip;       /* policy_json_identity.c */
weir_read_value weir_read_api_keys;        /* policy_json_identity.c */
weir_read_value weir_read_user;            /* policy_json_identity.c */
weir_read_value weir_read_tenant;          /* policy_json_identity.c */
weir_read_value weir_read_headers;         /* policy_json_headers.c  */
weir_read_value weir_read_plans;           /* policy_json_plans.c    */
weir_read_value weir_read_default_plan;    /* policy_json_plans.c    */
weir_read_value weir_read_policies;        /* policy_json_limits.c   */
weir_read_value weir_read_mode;            /* policy_json_mode.c; into an enum weir_mode   */
weir_read_value weir_read_enforce_percent; /* policy_json_mode.c; into a struct weir_ruleset */
weir_read_value weir_read_by;              /* policy_json_by.c; into a struct weir_by      */
weir_read_value weir_read_by_of_head;      /* the same, of what is known without a body    */
weir_read_value weir_read_count;           /* policy_json_count.c; into a struct weir_count */
weir_read_value weir_read_known;           /* policy_json_known.c; into a pointer to one   */
weir_read_value weir_read_retry_after;     /* policy_json_retry.c; into a struct weir_retry_rule */
weir_read_value weir_read_penalty;         /* policy_json_penalty.c; into a pointer to one */
weir_read_value weir_read_concurrency;     /* policy_json_concurrency.c; into a pointer to one */
weir_read_value weir_read_routes;          /* policy_json_routes.c   */
weir_read_value weir_read_default;         /* policy_json_routes.c   */
weir_read_value weir_read_case;            /* policy_json_routes.c; into a bool: fold      */

/* What does not belong at the top level, or to a route. */

weir_read_value weir_refuse_concurrency;     /* policy_json_concurrency.c */
weir_read_value weir_refuse_enforce_percent; /* policy_json_mode.c        */

/* What can only be read or checked when the sections are there. */

enum weir_code weir_read_failure_rules(struct weir_reader *reader); /* policy_json_failure.c */
enum weir_code weir_set_cookie_paths(struct weir_reader *reader);   /* policy_json_known.c    */
enum weir_code weir_check_key_plans(struct weir_reader *reader);    /* policy_json_identity.c */
enum weir_code weir_check_concurrency(struct weir_reader *reader);  /* policy_json_concurrency.c */

/* policy_json_preset.c: writes the limits of presets out in the JSON of "policies"; what has not the
 * shape of policies stays as it is. Errors: WEIR_E_TYPE, _VALUE, _UNKNOWN_KEY, _MEMORY. */
enum weir_code weir_expand_presets(struct weir_reader *reader);

/* Whether that very value has come out of a preset. Pure. */
bool weir_is_of_preset(const struct weir_reader *reader, const json_t *rate);

/* policy_json_expand.c: the file's JSON as text, ended by a newline, with its presets written out and
 * its secrets hidden; for free(). Changes the JSON. */
enum weir_code weir_policy_print(struct weir_reader *reader, char **text);

/* policy_json_known.c: refuses limits that are about devices in a policy that knows none, and the other
 * way round. */
enum weir_code weir_check_known(const struct weir_reader *reader, const struct weir_place *place,
                                const struct weir_ruleset *ruleset);

/* policy_json_body.c */

weir_read_value weir_read_body_max; /* into a size_t */

/* Finds the fields of bodies that the limits of a policy at `place` count by. */
enum weir_code weir_find_fields(const struct weir_reader *reader, const struct weir_place *place,
                                struct weir_ruleset *ruleset);

/* policy_json_lists.c: "allow" and "deny", both into a struct weir_access */

weir_read_value weir_read_allow;
weir_read_value weir_read_deny;

/* Refuses what is no id in the keys file; once "api_keys" has been read. */
enum weir_code weir_check_key_id(const struct weir_reader *reader, const struct weir_place *place,
                                 const char *id);

/* policy_json_success.c */

weir_read_value weir_read_on_success; /* into a struct weir_limit_rule */

/* Refuses, at the places of a policy's limits, what a stranger could clear by logging in, and finds
 * the limits that others are forgiven by. */
enum weir_code weir_check_on_success(const struct weir_reader *reader,
                                     const struct weir_place *limits, struct weir_ruleset *ruleset);

/* policy_json_limits.c: whether one of the parts of `by` is the same as a part of another. */
bool weir_by_has_part(const struct weir_by *by, const struct weir_by *other, size_t part);

/* policy_json_lease.c */

weir_read_value weir_read_lease; /* into a pointer to one */

/* Refuses, at the place of a limit that has its numbers, a lease of what cannot be leased. */
enum weir_code weir_check_lease(const struct weir_reader *reader, const struct weir_place *limit,
                                const struct weir_limit_rule *rule);

/* policy_json_limit.c */
enum weir_code weir_read_limit(struct weir_reader *reader, const struct weir_place *place,
                               struct weir_limit_rule *rule);

/* A limit whose rate is "plan", at `limit`, finds its numbers and calendars in every plan;
 * policy_json_plans.c. */
enum weir_code weir_set_plans(const struct weir_reader *reader, const struct weir_place *limit,
                              const struct weir_windows *windows, struct weir_limit_rule *rule);

/* policy_json_where.c: line and column, from 1, of what a JSON Pointer points to in a text that is
 * JSON; of a member, where its name starts. False: it cannot be found. Pure. */
bool weir_json_locate(struct weir_text json, const char *pointer, int *line, int *column);

#endif
