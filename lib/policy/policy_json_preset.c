/* "preset": a policy's limits come ready. They are written into the file's JSON before that is read,
 * so that a preset is nothing but text which its reader can print (docs/login.md). */
#include <string.h>

#include "base/buffer.h"
#include "policy/policy_json.h"
#include "policy/preset_texts.h"

#define FIELD_BYTES 300 /* "field:" and a name */

struct preset {
    const char *name;
    const char *json;
    const char *field;    /* what a file calls the field that is counted by      */
    const char *stand_in; /* for that field in the preset's text                 */
    const char *usual;    /* the field's name where the file does not say        */
};

static const struct preset presets[] = {
    { "login", weir_preset_login, "account", "field:ACCOUNT", "username" },
    { "otp-send", weir_preset_otp_send, "destination", "field:DESTINATION", "destination" },
    { "otp-verify", weir_preset_otp_verify, "account", "field:ACCOUNT", "destination" },
    { "password-reset", weir_preset_password_reset, "account", "field:ACCOUNT", "email" },
};

static void drop_json(json_t **json)
{
    json_decref(*json);
}

/* the field */

static bool is_stand_in(const json_t *value, const struct preset *preset)
{
    return json_is_string(value) && strcmp(json_string_value(value), preset->stand_in) == 0;
}

/* Puts the field in the place of its stand-in, wherever that stands; false: memory ran out. */
static bool fill_in(json_t *value, const struct preset *preset, const char *field)
{
    if (is_stand_in(value, preset))
        return json_string_set(value, field) == 0;
    const char *name;
    json_t *part;
    size_t index;
    if (json_is_object(value))
        json_object_foreach(value, name, part) if (!fill_in(part, preset, field)) return false;
    if (json_is_array(value))
        json_array_foreach(value, index, part) if (!fill_in(part, preset, field)) return false;
    return true;
}

struct fields {
    const struct preset *preset;
    struct weir_text name;
};

static enum weir_code read_field(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct fields *fields = into;
    return weir_read_text(reader, place, "the name of a field, such as \"email\"", &fields->name);
}

/* "fields": { "account": "email" } */
static enum weir_code read_fields(struct weir_reader *reader, const struct weir_place *policy,
                                  const struct preset *preset, struct weir_buffer *field)
{
    const struct weir_member members[] = { { preset->field, read_field, false } };
    const struct weir_place place = weir_place_member(policy, "fields");
    struct fields fields = { preset, weir_text_from(preset->usual) };
    enum weir_code code = place.value == NULL ? WEIR_OK
                                              : weir_read_members(reader, &place, members,
                                                                  WEIR_COUNT_OF(members), &fields);
    weir_buffer_put_string(field, "field:");
    weir_buffer_put(field, fields.name);
    if (code == WEIR_OK && weir_buffer_string(field) == NULL) {
        const struct weir_place name = weir_place_member(&place, preset->field);
        code = weir_refuse_value(reader, &name, "a name of at most 200 bytes");
    }
    return code;
}

/* What one says stays, and what only the other says is added, in objects inside of both too; false:
 * memory ran out. */
static bool add_missing(json_t *ours, json_t *theirs)
{
    const char *name;
    json_t *value;
    json_object_foreach(theirs, name, value)
    {
        json_t *known = json_object_get(ours, name);
        bool is_done = known == NULL ? json_object_set(ours, name, value) == 0
                       : json_is_object(known) && json_is_object(value) ? add_missing(known, value)
                                                                        : true;
        if (!is_done)
            return false;
    }
    return true;
}

/* limits */

/* The limit of that name in a list, or NULL; `index` is its place. */
static json_t *limit_named(const json_t *limits, const char *name, size_t *index)
{
    json_t *limit;
    for (*index = 0; *index < json_array_size(limits); ++*index) {
        limit = json_array_get(limits, *index);
        const char *theirs = json_string_value(json_object_get(limit, "name"));
        if (name != NULL && theirs != NULL && strcmp(theirs, name) == 0)
            return limit;
    }
    return NULL;
}

/* The file's limits come first, so that errors name their places in the file. One that is called as a
 * limit of the preset changes that one; what else the preset has follows. */
static bool merge_limits(json_t *ours, json_t *presets_own)
{
    size_t index, at;
    json_t *limit;
    json_array_foreach(ours, index, limit)
    {
        const char *name = json_string_value(json_object_get(limit, "name"));
        json_t *base = limit_named(presets_own, name, &at);
        if (base != NULL && (!add_missing(limit, base) || json_array_remove(presets_own, at) != 0))
            return false;
    }
    return json_array_extend(ours, presets_own) == 0;
}

/* Adds to a policy what the preset has and the file does not say. */
static bool merge(json_t *policy, json_t *preset)
{
    json_t *ours = json_object_get(policy, "limits");
    json_object_del(policy, "preset");
    json_object_del(policy, "fields");
    if (json_is_array(ours) && !merge_limits(ours, json_object_get(preset, "limits")))
        return false;
    return add_missing(policy, preset);
}

/* one policy */

/* The rates are told from those of the file by being the same values, not by what they say. */
static bool note_rates(struct weir_reader *reader, const json_t *preset)
{
    size_t index;
    json_t *limit;
    if (reader->preset_rates == NULL)
        reader->preset_rates = json_array();
    json_array_foreach(json_object_get(preset, "limits"), index, limit)
    {
        if (json_array_append(reader->preset_rates, json_object_get(limit, "rate")) != 0)
            return false;
    }
    return true;
}

bool weir_is_of_preset(const struct weir_reader *reader, const json_t *rate)
{
    for (size_t i = 0; i < json_array_size(reader->preset_rates); i++)
        if (json_array_get(reader->preset_rates, i) == rate)
            return true;
    return false;
}

static enum weir_code find_preset(const struct weir_reader *reader, const struct weir_place *place,
                                  const struct preset **preset)
{
    struct weir_choice choices[WEIR_COUNT_OF(presets)];
    for (size_t i = 0; i < WEIR_COUNT_OF(presets); i++)
        choices[i] = (struct weir_choice){ presets[i].name, (int)i };
    int chosen = 0;
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &chosen);
    *preset = &presets[chosen];
    return code;
}

static enum weir_code expand(struct weir_reader *reader, const struct weir_place *policy)
{
    const struct weir_place name = weir_place_member(policy, "preset");
    const struct preset *preset;
    char memory[FIELD_BYTES];
    struct weir_buffer field = weir_buffer_init(memory, sizeof memory);
    if (name.value == NULL)
        return WEIR_OK;
    enum weir_code code = find_preset(reader, &name, &preset);
    if (code == WEIR_OK)
        code = read_fields(reader, policy, preset, &field);
    if (code != WEIR_OK)
        return code;

    __attribute__((cleanup(drop_json))) json_t *made = json_loads(preset->json, 0, NULL);
    if (made == NULL || !fill_in(made, preset, weir_buffer_string(&field))
        || (reader->policy != NULL && !note_rates(reader, made)) || !merge(policy->value, made))
        return weir_refuse_memory(reader);
    return WEIR_OK;
}

enum weir_code weir_expand_presets(struct weir_reader *reader)
{
    const struct weir_place policies = weir_place_member(reader->root, "policies");
    const char *name;
    json_t *value;
    /* What has another shape is for the readers to refuse. */
    json_object_foreach(policies.value, name, value)
    {
        const struct weir_place policy = { &policies, name, 0, value };
        enum weir_code code = json_is_object(value) ? expand(reader, &policy) : WEIR_OK;
        if (code != WEIR_OK)
            return code;
    }
    return WEIR_OK;
}
