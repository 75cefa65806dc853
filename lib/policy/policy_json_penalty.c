/* "penalty": bans for a key that its limit refuses again and again. */
#include "base/arena.h"
#include "policy/policy_json.h"

#define WANTED_BANS "a list of 1 to 8 durations, such as [\"1m\", \"5m\", \"15m\", \"1h\"]"
#define WANTED_BAN  "a duration from \"1ms\" to \"366d\", such as \"5m\""

static enum weir_code read_after(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    struct weir_penalty *penalty = into;
    uint64_t after = 0;
    enum weir_code code = weir_read_integer(reader, place, 1, WEIR_PENALTY_AFTER_MAX, &after);
    penalty->after = (uint32_t)after;
    return code;
}

/* One above 0. */
static enum weir_code read_duration(const struct weir_reader *reader,
                                    const struct weir_place *place, uint64_t *duration_us)
{
    struct weir_text text;
    enum weir_code code = weir_read_text(reader, place, WANTED_BAN, &text);
    if (code == WEIR_OK && (!weir_duration_parse(text, duration_us) || *duration_us == 0))
        return weir_refuse_value(reader, place, WANTED_BAN);
    return code;
}

static enum weir_code read_ban(const struct weir_reader *reader, const struct weir_place *place,
                               struct weir_penalty *penalty)
{
    uint64_t ban_us = 0;
    enum weir_code code = read_duration(reader, place, &ban_us);
    if (code != WEIR_OK)
        return code;
    if (penalty->ban_count > 0 && ban_us < penalty->bans_us[penalty->ban_count - 1])
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The ban of %s is shorter than the one before it; wanted are bans that "
                           "stay the same or grow.",
                           weir_show(place->value).text);
    penalty->bans_us[penalty->ban_count++] = ban_us;
    return WEIR_OK;
}

static enum weir_code read_bans(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    size_t count = json_array_size(place->value);
    enum weir_code code = WEIR_OK;
    if (!json_is_array(place->value))
        return weir_refuse_type(reader, place, WANTED_BANS);
    if (count == 0 || count > WEIR_BANS_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE, "The list has %zu bans; wanted are 1 to 8.",
                           count);
    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = read_ban(reader, &item, into);
    }
    return code;
}

static uint64_t longest_us(const struct weir_penalty *penalty)
{
    return penalty->bans_us[penalty->ban_count - 1];
}

static enum weir_code read_forget(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct weir_penalty *penalty = into;
    enum weir_code code = read_duration(reader, place, &penalty->forget_us);
    if (code == WEIR_OK && penalty->forget_us < longest_us(penalty))
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "%s is shorter than the longest ban; wanted is a time at least as long, "
                           "or what brought the ban would be forgotten first.",
                           weir_show(place->value).text);
    return code;
}

static enum weir_code read_extend(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    struct weir_penalty *penalty = into;
    return weir_read_bool(reader, place, &penalty->extends);
}

enum weir_code weir_read_penalty(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    static const struct weir_member members[] = {
        { "after", read_after, true },
        { "ban", read_bans, true },
        { "forget", read_forget, false }, /* behind "ban" */
        { "extend", read_extend, false },
    };
    struct weir_penalty *penalty = weir_arena_array(reader->policy->arena, 1, sizeof *penalty);
    if (penalty == NULL)
        return weir_refuse_memory(reader);
    enum weir_code code =
        weir_read_members(reader, place, members, WEIR_COUNT_OF(members), penalty);
    if (code != WEIR_OK)
        return code;
    if (penalty->forget_us == 0)
        penalty->forget_us = longest_us(penalty) > WEIR_DAY_US ? longest_us(penalty) : WEIR_DAY_US;
    *(const struct weir_penalty **)into = penalty;
    return WEIR_OK;
}
