#include "store/redis_commands.h"

#include <stdlib.h>

#define CAPACITY_MIN 64

void weir_commands_init(struct weir_redis_commands *commands, size_t limit, uint16_t link,
                        bool drops_ended)
{
    *commands =
        (struct weir_redis_commands){ .limit = limit, .link = link, .drops_ended = drops_ended };
}

void weir_commands_finish(struct weir_redis_commands *commands)
{
    free(commands->at);
    commands->at = NULL;
    commands->capacity = 0;
    commands->first = commands->end = commands->calls = 0;
}

/* Puts a command into a place, of which its check must know. */
static void settle_at(struct weir_redis_command *place, const struct weir_redis_command *command)
{
    *place = *command;
    if (command->check != NULL)
        command->check->store[WEIR_CHECK_PLACE] = place;
}

static void drop_ended(struct weir_redis_commands *commands)
{
    size_t to = commands->first;
    for (size_t from = commands->first; from != commands->end; from++) {
        struct weir_redis_command *command = weir_commands_at(commands, from);
        if (command->check == NULL)
            continue;
        if (to != from)
            settle_at(weir_commands_at(commands, to), command);
        to++;
    }
    commands->end = to;
}

static bool grow(struct weir_redis_commands *commands)
{
    struct weir_redis_commands larger = *commands;
    larger.capacity = commands->capacity == 0 ? CAPACITY_MIN : commands->capacity * 2;
    larger.at = calloc(larger.capacity, sizeof *larger.at);
    if (larger.at == NULL)
        return false;
    for (size_t place = commands->first; place != commands->end; place++)
        settle_at(weir_commands_at(&larger, place), weir_commands_at(commands, place));
    free(commands->at);
    *commands = larger;
    return true;
}

bool weir_commands_make_room(struct weir_redis_commands *commands)
{
    if (weir_commands_count(commands) < commands->capacity)
        return true;
    if (commands->drops_ended)
        drop_ended(commands);
    bool is_crowded =
        weir_commands_count(commands) > commands->capacity / 2 || commands->capacity == 0;
    if (is_crowded && commands->capacity < commands->limit)
        grow(commands); /* without memory for more, what is left must do */
    return weir_commands_count(commands) < commands->capacity;
}

size_t weir_commands_room(struct weir_redis_commands *commands, size_t wanted)
{
    while (commands->capacity - weir_commands_count(commands) < wanted
           && commands->capacity < commands->limit && grow(commands))
        ;
    return commands->capacity - weir_commands_count(commands);
}

void weir_commands_push(struct weir_redis_commands *commands,
                        const struct weir_redis_command *command)
{
    struct weir_redis_command placed = *command;
    placed.link = commands->link;
    commands->calls += placed.checks > 0;
    settle_at(weir_commands_at(commands, commands->end++), &placed);
}

void weir_commands_push_first(struct weir_redis_commands *commands,
                              const struct weir_redis_command *command)
{
    struct weir_redis_command placed = *command;
    placed.link = commands->link;
    settle_at(weir_commands_at(commands, --commands->first), &placed);
}
