#include "request/target.h"

static size_t decode_into(struct weir_text encoded, bool plus_is_blank, char *decoded)
{
    size_t length = 0;
    for (size_t i = 0; i < encoded.length; i++) {
        int c = weir_percent_byte((struct weir_text){ encoded.at + i, encoded.length - i });
        char plain = plus_is_blank && encoded.at[i] == '+' ? ' ' : encoded.at[i];
        decoded[length++] = c < 0 ? plain : (char)c;
        i += c < 0 ? 0 : 2;
    }
    decoded[length] = '\0';
    return length;
}

/* With a NUL behind it; at NULL: there was none, or memory ran out. */
static struct weir_text decode(struct weir_text encoded, bool plus_is_blank,
                               const struct weir_target_memory *memory)
{
    char *decoded = encoded.at == NULL ? NULL : memory->alloc(memory->owner, encoded.length + 1);
    size_t length = decoded == NULL ? 0 : decode_into(encoded, plus_is_blank, decoded);
    return (struct weir_text){ decoded, length };
}

static size_t count_pairs(struct weir_text query)
{
    size_t count = 1;
    for (size_t i = 0; i < query.length; i++)
        count += query.at[i] == '&';
    return count;
}

static bool read_queries(struct weir_text query, const struct weir_target_memory *memory,
                         struct weir_facts *facts)
{
    struct weir_text pair;
    size_t count = 0;
    if (query.length == 0)
        return true;
    struct weir_line *lines = memory->alloc(memory->owner, count_pairs(query) * sizeof *lines);
    while (lines != NULL && weir_text_take_first(&query, '&', &pair)) {
        struct weir_text value = pair, name;
        if (!weir_text_take_first(&value, '=', &name) || name.length == 0)
            continue;
        struct weir_line line = { decode(name, true, memory), decode(value, true, memory) };
        if (line.name.at == NULL || (value.at != NULL && line.value.at == NULL))
            return false;
        lines[count++] = line;
    }
    facts->queries = lines;
    facts->query_count = count;
    return lines != NULL;
}

bool weir_target_read(struct weir_text whole, const struct weir_target_memory *memory,
                      struct weir_facts *facts)
{
    struct weir_text path;
    if (!weir_text_take_first(&whole, '?', &path))
        path = WEIR_TEXT("");
    struct weir_text target = decode(path, false, memory);
    facts->target = weir_text_from(target.at);
    return target.at != NULL && read_queries(whole, memory, facts);
}
