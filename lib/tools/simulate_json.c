/* For programs. */
#include <stdlib.h>

#include "admin/admin_json.h"
#include "tools/simulate.h"
#include "tools/tool.h"

static json_t *moment(uint64_t time_us)
{
    char text[WEIR_MOMENT_CHARS];
    return json_string(weir_simulate_moment(time_us, text));
}

static void put_number(json_t *object, const char *name, uint64_t number)
{
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

static void put_count(json_t *object, const struct weir_tally_count *count)
{
    put_number(object, "requests", count->requests);
    put_number(object, "refused", count->refused);
    put_number(object, "shadow", count->watched);
}

/* Drops what it is given if memory has run out for the array. */
static void append(json_t *array, json_t *value)
{
    json_array_append_new(array, value);
}

static json_t *lines_json(const struct weir_lines_state *lines)
{
    json_t *object = json_object(), *bad = json_array();
    put_number(object, "read", lines->lines);
    put_number(object, "bad", lines->bad);
    put_number(object, "outside", lines->outside);
    for (size_t i = 0; i < lines->first_bad_count; i++) {
        const struct weir_bad_line *line = &lines->first_bad[i];
        append(bad, json_pack("{s:o, s:I, s:s}", "log", weir_admin_string(line->place.log), "line",
                              (json_int_t)line->place.line, "why", line->why));
    }
    json_object_set_new(object, "first_bad", bad);
    return object;
}

static json_t *outcomes_json(const struct weir_tally *tally)
{
    json_t *object = json_object();
    for (size_t i = 0; i <= WEIR_BUSY; i++)
        put_number(object, weir_outcome_name((enum weir_outcome)i), tally->outcomes[i]);
    return object;
}

static json_t *limits_json(const struct weir_tally_policy *policy)
{
    json_t *array = json_array();
    for (size_t i = 0; i < policy->ruleset->limit_count; i++) {
        const struct weir_tally_limit *limit = &policy->limits[i];
        json_t *object = json_pack("{s:s}", "name", limit->limit->name);
        put_count(object, &limit->count);
        put_number(object, "keys", limit->keys);
        put_number(object, "refused_keys", limit->refused_keys);
        append(array, object);
    }
    return array;
}

static json_t *policies_json(const struct weir_tally *tally)
{
    json_t *array = json_array();
    for (size_t i = 0; i < tally->policy_count; i++) {
        const struct weir_tally_policy *policy = &tally->policies[i];
        if (policy->ruleset == NULL || policy->count.requests == 0)
            continue;
        json_t *object = json_pack("{s:s}", "name", policy->ruleset->name);
        put_count(object, &policy->count);
        json_object_set_new(object, "limits", limits_json(policy));
        append(array, object);
    }
    return array;
}

static json_t *key_json(const struct weir_tally_key *key)
{
    json_t *object =
        json_pack("{s:o, s:s?, s:s?, s:s}", "key", weir_admin_string(key->label), "policy",
                  key->policy, "limit", key->limit, "outcome", weir_outcome_name(key->outcome));
    put_count(object, &key->count);
    json_object_set_new(object, "first", moment(key->first_us));
    json_object_set_new(object, "last", moment(key->last_us));
    put_number(object, "retry_most_s", key->retry_most_s);
    return object;
}

static json_t *keys_json(const struct weir_simulated *simulated, size_t *count)
{
    const struct weir_tally_key **top = weir_tally_top(simulated->tally, count);
    json_t *array = top == NULL ? NULL : json_array();
    for (size_t i = 0; top != NULL && i < *count && i < simulated->top; i++)
        append(array, key_json(top[i]));
    free(top);
    return array;
}

static json_t *times_json(const struct weir_tally *tally)
{
    json_t *array = json_array();
    for (size_t i = 0; i < tally->time_count; i++) {
        json_t *object = json_pack("{s:o}", "from", moment(tally->first_us + i * tally->width_us));
        put_count(object, &tally->times[i]);
        append(array, object);
    }
    return array;
}

static json_t *notes_json(const struct weir_simulated *simulated)
{
    json_t *array = json_array();
    for (size_t i = 0; i < simulated->note_count; i++)
        append(array, weir_admin_string(simulated->notes[i]));
    return array;
}

int weir_simulate_print_json(const struct weir_simulated *simulated)
{
    const struct weir_tally *tally = simulated->tally;
    size_t key_count;
    json_t *root =
        json_pack("{s:o, s:o, s:o, s:o}", "policy", weir_admin_string(simulated->file), "lines",
                  lines_json(simulated->lines), "from", moment(simulated->lines->first_us), "to",
                  moment(simulated->lines->last_us));
    json_t *keys = keys_json(simulated, &key_count);
    if (root == NULL || keys == NULL) {
        json_decref(root);
        json_decref(keys);
        return weir_tool_out_of_memory();
    }
    put_count(root, &tally->all);
    put_number(root, "answered_429", tally->turned_away);
    json_object_set_new(root, "outcomes", outcomes_json(tally));
    json_object_set_new(root, "policies", policies_json(tally));
    put_number(root, "refused_keys", key_count);
    json_object_set_new(root, "keys", keys);
    json_object_set_new(root, "times", times_json(tally));
    json_object_set_new(root, "notes", notes_json(simulated));
    return weir_tool_print_json(root);
}
