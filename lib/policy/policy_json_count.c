/* "count": what a request takes from a limit, by the status of its reply. */
#include <string.h>

#include "base/arena.h"
#include "policy/policy_json.h"

#define STATUSES_MAX 64

/* "401", or "4xx"; 0: it is neither. */
static unsigned status_of(const char *name)
{
    if (strlen(name) != 3 || name[0] < '1' || name[0] > '5')
        return 0;
    unsigned class = (unsigned)(name[0] - '0');
    if (strcmp(name + 1, "xx") == 0)
        return class;
    if (name[1] < '0' || name[1] > '9' || name[2] < '0' || name[2] > '9')
        return 0;
    return class * 100 + (unsigned)(name[1] - '0') * 10 + (unsigned)(name[2] - '0');
}

static enum weir_code read_entry(const struct weir_reader *reader, const struct weir_place *place,
                                 struct weir_status_units *entry)
{
    uint64_t units = 0;
    entry->status = status_of(place->name);
    if (entry->status == 0)
        return weir_refuse(reader, place, WEIR_E_UNKNOWN_KEY,
                           "\"%.60s\" is no status; wanted is one from \"100\" to \"599\", or a "
                           "class from \"1xx\" to \"5xx\".",
                           place->name);
    enum weir_code code = weir_read_integer(reader, place, 0, WEIR_STATUS_UNITS_MAX, &units);
    entry->units = (unsigned)units;
    return code;
}

static enum weir_code read_table(const struct weir_reader *reader, const struct weir_place *place,
                                 struct weir_count *count)
{
    const char *name;
    json_t *value;
    size_t entries = json_object_size(place->value);
    if (json_object_get(place->value, "comment") != NULL)
        entries--;
    if (entries == 0 || entries > STATUSES_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The table has %zu statuses; wanted are 1 to 64.", entries);
    count->table = weir_arena_array(reader->policy->arena, entries, sizeof *count->table);
    if (count->table == NULL)
        return weir_refuse_memory(reader);

    json_object_foreach(place->value, name, value)
    {
        const struct weir_place at = { place, name, 0, value };
        if (strcmp(name, "comment") == 0)
            continue;
        enum weir_code code = read_entry(reader, &at, &count->table[count->table_count++]);
        if (code != WEIR_OK)
            return code;
    }
    count->kind = WEIR_COUNT_TABLE;
    return WEIR_OK;
}

enum weir_code weir_read_count(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    static const struct weir_choice choices[] = {
        { "all", WEIR_COUNT_ALL },
        { "failures", WEIR_COUNT_FAILURES },
        { "successes", WEIR_COUNT_SUCCESSES },
    };
    struct weir_count *count = into;
    int kind = WEIR_COUNT_ALL;
    if (json_is_object(place->value))
        return read_table(reader, place, count);
    if (!json_is_string(place->value))
        return weir_refuse_type(reader, place,
                                "\"all\", \"failures\", \"successes\", or a table such as "
                                "{\"401\": 2, \"5xx\": 0}");
    enum weir_code code = weir_read_choice(reader, place, choices, WEIR_COUNT_OF(choices), &kind);
    count->kind = (enum weir_count_kind)kind;
    return code;
}
