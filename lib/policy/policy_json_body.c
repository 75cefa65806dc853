/* Bodies that are read because a limit counts by a field of theirs. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define BODY_LEAST_BYTES (UINT64_C(1) << 10)
#define BODY_MOST_BYTES  (UINT64_C(16) << 20)

enum weir_code weir_read_body_max(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    static const char *const wanted = "a number of bytes from \"1KiB\" to \"16MiB\", such as "
                                      "\"16KiB\"";
    struct weir_text text;
    uint64_t bytes = 0;
    enum weir_code code = weir_read_text(reader, place, wanted, &text);
    if (code != WEIR_OK)
        return code;
    if (!weir_bytes_parse(text, &bytes) || bytes < BODY_LEAST_BYTES || bytes > BODY_MOST_BYTES)
        return weir_refuse_value(reader, place, wanted);
    *(size_t *)into = (size_t)bytes;
    return WEIR_OK;
}

/* The fields of one policy while they are gathered. */
struct fields {
    struct weir_text names[WEIR_FIELDS_MAX];
    size_t count; /* above WEIR_FIELDS_MAX: there were more */
};

static void add_field(struct fields *fields, const struct weir_dimension *dimension)
{
    if (dimension->kind != WEIR_BY_FIELD || fields->count > WEIR_FIELDS_MAX)
        return;
    for (size_t i = 0; i < fields->count; i++)
        if (weir_text_equal(fields->names[i], dimension->name))
            return;
    if (fields->count < WEIR_FIELDS_MAX)
        fields->names[fields->count] = dimension->name;
    fields->count++;
}

static void add_fields(struct fields *fields, const struct weir_by *by)
{
    for (size_t i = 0; i < by->count; i++)
        for (size_t j = 0; j < by->parts[i].count; j++)
            add_field(fields, &by->parts[i].alternatives[j]);
}

static enum weir_code keep_fields(const struct weir_reader *reader, const struct fields *fields,
                                  struct weir_ruleset *ruleset)
{
    struct weir_text *kept =
        weir_arena_array(reader->policy->arena, fields->count, sizeof *ruleset->fields);
    if (kept == NULL)
        return weir_refuse_memory(reader);
    memcpy(kept, fields->names, fields->count * sizeof *kept);
    ruleset->fields = kept;
    ruleset->field_count = fields->count;
    return WEIR_OK;
}

enum weir_code weir_find_fields(const struct weir_reader *reader, const struct weir_place *place,
                                struct weir_ruleset *ruleset)
{
    struct fields fields = { .count = 0 };
    const struct weir_place limits = weir_place_member(place, "limits");
    const struct weir_place max = weir_place_member(place, "body_max");
    for (size_t i = 0; i < ruleset->limit_count; i++)
        add_fields(&fields, &ruleset->limits[i].by);
    if (ruleset->known != NULL)
        add_fields(&fields, &ruleset->known->account);
    if (fields.count > WEIR_FIELDS_MAX)
        return weir_refuse(reader, &limits, WEIR_E_VALUE,
                           "The limits count by more than %d fields of a body.", WEIR_FIELDS_MAX);
    if (fields.count == 0 && max.value != NULL)
        return weir_refuse(reader, &max, WEIR_E_VALUE,
                           "\"body_max\" is for bodies that are read, and no limit of this policy "
                           "counts by a field of one; leave it out, or count by \"field:NAME\".");
    if (ruleset->body_max_bytes == 0)
        ruleset->body_max_bytes = reader->policy->body_max_bytes;
    return fields.count == 0 ? WEIR_OK : keep_fields(reader, &fields, ruleset);
}
