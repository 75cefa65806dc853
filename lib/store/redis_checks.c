/* Checks as commands over a link, and their replies. */
#include <hiredis/sds.h>
#include <string.h>

#include "base/clock.h"
#include "store/redis_internal.h"

/* scripts */

struct weir_redis_script *weir_redis_first_script(struct weir_redis *redis)
{
    const struct weir_redis_shape lone_gcra = {
        .operation = WEIR_SPEND,
        .is_plain = true,
        .count = 1,
        .key_count = 1,
        .variants = { WEIR_REDIS_GCRA },
        .places = { WEIR_REDIS_ALONE },
    };
    return weir_redis_scripts_get(&redis->scripts, &lone_gcra);
}

bool weir_link_load(struct weir_redis_link *link, const struct weir_redis_script *script,
                    enum weir_redis_kind kind)
{
    return weir_redis_ask(link,
                          (struct weir_text[]){ WEIR_TEXT("SCRIPT"),
                                                WEIR_TEXT("LOAD"),
                                                { script->text, script->text_length } },
                          3, kind);
}

static bool is_loading(const struct weir_redis_link *link, const struct weir_redis_shape *shape)
{
    for (size_t i = 0; i < link->loading_count; i++) {
        size_t at = (link->loading_first + i) % WEIR_REDIS_SCRIPTS_MAX;
        if (memcmp(&link->loading[at], shape, sizeof *shape) == 0)
            return true;
    }
    return false;
}

/* Redis tells a script's hash in its own time; until then checks bring the script along. */
static void learn_hash(struct weir_redis_link *link, const struct weir_redis_script *script)
{
    if (link->loading_count == WEIR_REDIS_SCRIPTS_MAX || is_loading(link, &script->shape)
        || !weir_link_load(link, script, WEIR_REDIS_HASH))
        return;
    size_t at = (link->loading_first + link->loading_count++) % WEIR_REDIS_SCRIPTS_MAX;
    link->loading[at] = script->shape;
}

void weir_link_on_hash(struct weir_redis_link *link, const redisReply *reply)
{
    struct weir_redis_script *script =
        weir_redis_scripts_find(&link->redis->scripts, &link->loading[link->loading_first]);
    link->loading_first = (link->loading_first + 1) % WEIR_REDIS_SCRIPTS_MAX;
    link->loading_count--;
    if (script != NULL) /* else it was forgotten for others meanwhile */
        weir_redis_read_hash(reply, script->hash);
}

/* writing */

static uint64_t clock_us(const struct weir_redis *redis)
{
    if (redis->scripts.clock == WEIR_REDIS_CLOCK_OF_TEST)
        return weir_clock_now_us(&redis->test_clock);
    struct weir_clock clock = weir_clock_or_system(NULL);
    return weir_clock_now_us(&clock);
}

static void append_asking(struct weir_redis_link *link, struct weir_redis_command *command)
{
    char memory[32];
    struct weir_buffer asking = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_command(&asking, (struct weir_text[]){ WEIR_TEXT("ASKING") }, 1);
    weir_link_append(link, &asking);
    command->how |= WEIR_REDIS_OWES_ASKING;
}

/* `command` stands among those under way already. */
static void append_check(struct weir_redis_link *link, struct weir_redis_command *command)
{
    struct weir_redis *redis = link->redis;
    char memory[WEIR_REDIS_COMMAND_BYTES];
    struct weir_buffer out = weir_buffer_init(memory, sizeof memory);
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, command->check);
    struct weir_redis_script *script = weir_redis_scripts_get(&redis->scripts, &plan.shape);
    if (script == NULL) {
        weir_link_lose(link, "out of memory");
        return;
    }
    if ((command->how & WEIR_REDIS_WITH_ASKING) != 0)
        append_asking(link, command);
    bool is_known = script->hash[0] != '\0';
    bool is_whole = !is_known || (command->how & WEIR_REDIS_BY_WHOLE_TEXT) != 0;
    weir_redis_write_check(&out, script, is_whole ? WEIR_REDIS_BY_TEXT : WEIR_REDIS_BY_HASH,
                           redis->scripts.clock, clock_us(redis), &plan, command->check);
    weir_link_append(link, &out);
    if (!is_known)
        learn_hash(link, script);
}

static bool can_write(const struct weir_redis_link *link)
{
    return link->stage == WEIR_LINK_OPEN && !link->was_lost && !link->holds
           && sdslen(link->context->obuf) < WEIR_REDIS_OUTPUT_BYTES_MAX
           && weir_commands_count(&link->under_way) < WEIR_REDIS_IN_FLIGHT_MAX;
}

bool weir_link_give(struct weir_redis_link *link, const struct weir_redis_command *command)
{
    struct weir_pending *pending = &link->redis->pending;
    bool is_next = weir_commands_count(&link->waiting) == 0 && can_write(link);
    struct weir_redis_commands *row = is_next ? &link->under_way : &link->waiting;
    if (!weir_pending_put(pending, row, command))
        return false;
    if (is_next)
        append_check(link, weir_commands_at(row, row->end - 1));
    return true;
}

/* False: it could write, but has no memory to keep what would be under way. */
static bool write_waiting(struct weir_redis_link *link)
{
    while (weir_commands_count(&link->waiting) > 0 && can_write(link)) {
        struct weir_redis_command *command =
            weir_pending_move(&link->redis->pending, &link->waiting, &link->under_way);
        if (command != NULL)
            append_check(link, command);
        else if (weir_commands_count(&link->waiting) > 0)
            return false;
    }
    return true;
}

void weir_link_write(struct weir_redis_link *link)
{
    bool goes_on;
    do {
        goes_on = write_waiting(link);
        /* Before that, has_output is about what TLS has to say. */
        if (link->has_output && !link->was_lost && link->stage >= WEIR_LINK_GREETING)
            weir_link_flush(link);
    } while (goes_on && !link->has_output && weir_commands_count(&link->waiting) > 0
             && can_write(link));
}

/* replies */

/* Nothing was decided, so the check counts once. The whole text makes Redis remember. */
static void on_no_script(struct weir_redis_link *link, struct weir_redis_command *command)
{
    command->how |= WEIR_REDIS_BY_WHOLE_TEXT;
    if (!weir_redis_send_again(link->redis, link, command))
        weir_redis_end(command->check, WEIR_STORE_ERROR, "Redis forgets its scripts at once");
}

static void on_refusal(struct weir_redis_link *link, struct weir_redis_command *command,
                       enum weir_redis_meaning meaning, const redisReply *reply)
{
    const struct weir_redis_topology_type *topology = link->redis->topology;
    if (topology->on_refusal != NULL && topology->on_refusal(link, command, meaning, reply))
        return;
    if (meaning == WEIR_REDIS_UNFIT) {
        link->was_unfit = true;
        weir_link_refuse(link, "", command->check->why);
    } else {
        weir_link_on_answer(link, false);
        weir_redis_advice_on_slots(link);
        weir_link_report_error(link, command->check, true);
    }
    weir_redis_end(command->check, WEIR_STORE_ERROR, NULL);
}

static bool has_written(const struct weir_check *check)
{
    bool costs = check->operation != WEIR_SPEND;
    for (size_t i = 0; check->operation == WEIR_SPEND && i < check->count; i++) {
        if (!check->answers[i].allowed)
            return false;
        costs = costs || check->spends[i].cost > 0;
    }
    return costs;
}

void weir_link_on_check_reply(struct weir_redis_link *link, struct weir_redis_command *command,
                              const redisReply *reply)
{
    enum weir_redis_meaning meaning = weir_redis_read_answer(reply, command->check);
    switch (meaning) {
    case WEIR_REDIS_DECIDED:
        weir_link_on_answer(link, link->was_unfit && has_written(command->check));
        if (weir_errors_are_met(&link->errors) && has_written(command->check))
            weir_link_report_counted(link);
        weir_redis_end(command->check, WEIR_STORE_ANSWERED, "");
        return;
    case WEIR_REDIS_NO_SCRIPT:
        on_no_script(link, command);
        return;
    case WEIR_REDIS_REFUSED:
        weir_link_on_answer(link, false);
        weir_redis_advice_on_refusal(link, command->check);
        weir_link_report_error(link, command->check, false);
        weir_redis_end(command->check, WEIR_STORE_ERROR, NULL);
        return;
    case WEIR_REDIS_MOVED:
    case WEIR_REDIS_ASK:
    case WEIR_REDIS_TRY_AGAIN:
    case WEIR_REDIS_CLUSTER_DOWN:
    case WEIR_REDIS_UNFIT:
        on_refusal(link, command, meaning, reply);
        return;
    }
}
