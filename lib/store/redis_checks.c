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

static bool has_clock_of_test(const struct weir_redis_link *link)
{
    return link->redis->scripts.clock == WEIR_REDIS_CLOCK_OF_TEST;
}

/* Which is read once for each check, in the order in which they came. */
static uint64_t told_us(const struct weir_redis_link *link)
{
    return has_clock_of_test(link) ? weir_clock_now_us(&link->redis->test_clock) : 0;
}

static uint64_t clock_us(uint64_t told)
{
    struct weir_clock clock = weir_clock_or_system(NULL);
    return told > 0 ? told : weir_clock_now_us(&clock);
}

static size_t smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

static bool goes_by_slot(const struct weir_redis_link *link)
{
    return link->redis->url.topology == WEIR_REDIS_CLUSTER
           || link->redis->batcher.has_crossed_slots;
}

static void append_asking(struct weir_redis_link *link, struct weir_redis_command *command)
{
    char memory[32];
    struct weir_buffer asking = weir_buffer_init(memory, sizeof memory);
    weir_redis_write_command(&asking, (struct weir_text[]){ WEIR_TEXT("ASKING") }, 1);
    weir_link_append(link, &asking);
    command->how |= WEIR_REDIS_OWES_ASKING;
}

/* The items of a call with their checks. */
static void list_items(const struct weir_redis_batcher *batcher, const struct weir_redis_call *call,
                       struct weir_redis_item items[WEIR_REDIS_BATCH_CHECKS_MAX])
{
    for (size_t i = 0; i < call->count; i++) {
        const struct weir_redis_gathered *gathered = &batcher->items[call->at[i]];
        items[i] = (struct weir_redis_item){ &gathered->plan, gathered->command.check };
    }
}

static void append_call(struct weir_redis_link *link, const struct weir_redis_call *call)
{
    struct weir_redis *redis = link->redis;
    struct weir_redis_batcher *batcher = &redis->batcher;
    const struct weir_redis_gathered *first = &batcher->items[call->at[0]];
    struct weir_buffer out = weir_buffer_init(batcher->command, sizeof batcher->command);
    struct weir_redis_item items[WEIR_REDIS_BATCH_CHECKS_MAX];
    list_items(batcher, call, items);
    struct weir_redis_shape shape = first->plan.shape;
    shape.is_batch = call->count > 1;
    struct weir_redis_script *script = weir_redis_scripts_get(&redis->scripts, &shape);
    if (script == NULL) {
        weir_link_lose(link, "out of memory");
        return;
    }
    bool is_known = script->hash[0] != '\0';
    bool is_whole = !is_known || (first->command.how & WEIR_REDIS_BY_WHOLE_TEXT) != 0;
    enum weir_redis_by by = is_whole ? WEIR_REDIS_BY_TEXT : WEIR_REDIS_BY_HASH;
    if (shape.is_batch)
        weir_redis_write_batch(&out, script, by, redis->scripts.clock, clock_us(first->told_us),
                               items, call->count);
    else
        weir_redis_write_check(&out, script, by, redis->scripts.clock, clock_us(first->told_us),
                               items[0].plan, items[0].check);
    weir_link_append(link, &out);
    if (!is_known)
        learn_hash(link, script);
}

/* All its checks stand one behind the other among those under way. */
static void put_under_way(struct weir_redis_link *link, const struct weir_redis_call *call)
{
    for (size_t i = 0; i < call->count; i++) {
        struct weir_redis_gathered *item = &link->redis->batcher.items[call->at[i]];
        item->command.checks = i == 0 && !item->is_single ? (uint8_t)call->count : 0;
        weir_pending_put(&link->redis->pending, &link->under_way, &item->command);
    }
}

static void write_call(struct weir_redis_link *link, const struct weir_redis_call *call)
{
    uint8_t how = link->redis->batcher.items[call->at[0]].command.how;
    put_under_way(link, call);
    if ((how & WEIR_REDIS_WITH_ASKING) != 0)
        append_asking(link, weir_commands_at(&link->under_way, link->under_way.end - 1));
    append_call(link, call);
    weir_redis_batcher_count(&link->redis->batcher, call->count);
}

/* A server that reads nothing gets no more than so much. */
static bool can_append(const struct weir_redis_link *link)
{
    return link->stage == WEIR_LINK_OPEN && !link->was_lost && !link->holds
           && sdslen(link->context->obuf) < WEIR_REDIS_OUTPUT_BYTES_MAX
           && weir_commands_count(&link->under_way) < WEIR_REDIS_IN_FLIGHT_MAX;
}

/* Checks of different slots have nothing to wait for. */
static bool can_write(const struct weir_redis_link *link)
{
    return can_append(link) && (link->under_way.calls < WEIR_REDIS_CALLS_MAX || goes_by_slot(link));
}

/* Those that were lifted; what is written of them is forgotten here. */
struct lifted {
    struct weir_redis_command at[WEIR_REDIS_GATHERED_MAX];
    size_t count;
    size_t gathered_from; /* the first of them that is in the batcher, with those behind it   */
};

/* What has had its time from a test is written in any case. */
static bool goes_on(const struct weir_redis_link *link)
{
    return can_append(link) || has_clock_of_test(link);
}

/* Writes what was gathered, as far as that goes. */
static void write_gathered(struct weir_redis_link *link, struct lifted *lifted)
{
    struct weir_redis_batcher *batcher = &link->redis->batcher;
    struct weir_redis_call call;
    while (goes_on(link) && weir_redis_batcher_next(batcher, &call)) {
        for (size_t i = 0; i < call.count; i++)
            lifted->at[lifted->gathered_from + call.at[i]].check = NULL;
        write_call(link, &call);
    }
    weir_redis_batcher_clear(batcher);
}

static void put_back_unwritten(struct weir_redis_link *link, const struct lifted *lifted)
{
    for (size_t i = lifted->count; i > 0; i--)
        if (lifted->at[i - 1].check != NULL)
            weir_commands_push_first(&link->waiting, &lifted->at[i - 1]);
}

static void write_lifted(struct weir_redis_link *link, struct lifted *lifted)
{
    struct weir_redis_batcher *batcher = &link->redis->batcher;
    weir_redis_batcher_clear(batcher);
    lifted->gathered_from = 0;
    for (size_t i = 0; i < lifted->count && goes_on(link); i++) {
        uint64_t told = told_us(link);
        if (weir_redis_batcher_add(batcher, &lifted->at[i], goes_by_slot(link), told))
            continue;
        write_gathered(link, lifted);
        lifted->gathered_from = i;
        weir_redis_batcher_add(batcher, &lifted->at[i], goes_by_slot(link), told);
    }
    write_gathered(link, lifted);
    put_back_unwritten(link, lifted);
}

/* It is written at the end of the round, with what has come by then. */
bool weir_link_give(struct weir_redis_link *link, const struct weir_redis_command *command)
{
    return weir_pending_put(&link->redis->pending, &link->waiting, command);
}

/* False: it could write, but has no memory to keep what would be under way. */
static bool write_waiting(struct weir_redis_link *link)
{
    while (weir_commands_count(&link->waiting) > 0 && can_write(link)) {
        struct lifted lifted;
        lifted.count = weir_pending_lift_for(
            &link->redis->pending, &link->waiting, &link->under_way, lifted.at,
            smaller(weir_commands_count(&link->waiting), WEIR_REDIS_GATHERED_MAX));
        if (lifted.count > 0)
            write_lifted(link, &lifted);
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
    if (check->operation == WEIR_EXCHANGE)
        return check->exchange->text != NULL;
    for (size_t i = 0; check->operation == WEIR_SPEND && i < check->count; i++) {
        if (!check->answers[i].allowed)
            return false;
        costs = costs || check->spends[i].cost > 0;
    }
    return costs;
}

static void on_answer(struct weir_redis_link *link, struct weir_redis_command *command,
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

/* An error that the keys of a call have together: they lie together no more, or never did, or one
 * of them may not be touched. Each can be asked for. */
static bool is_apart(const redisReply *reply)
{
    static const char *const words[] = { "TRYAGAIN", "CROSSSLOT", "NOPERM" };
    if (reply == NULL || reply->type != REDIS_REPLY_ERROR || reply->str == NULL)
        return false;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strncmp(reply->str, words[i], strlen(words[i])) == 0)
            return true;
    return false;
}

static void on_apart(struct weir_redis_link *link, struct weir_redis_command *command,
                     const redisReply *reply)
{
    if (reply->str[0] == 'C')
        link->redis->batcher.has_crossed_slots = true;
    command->how |= WEIR_REDIS_BY_ITSELF;
    if (!weir_redis_send_again(link->redis, link, command))
        on_answer(link, command, reply);
}

static void on_part(struct weir_redis_link *link, struct weir_redis_command *command,
                    const redisReply *reply, size_t item, size_t count)
{
    if (command->check == NULL) { /* it is done already: at its deadline, or cancelled */
        atomic_fetch_add_explicit(&link->redis->voice->late_answers, 1, memory_order_relaxed);
        return;
    }
    struct weir_redis_part part;
    if (count > 1 && is_apart(reply))
        on_apart(link, command, reply);
    else
        on_answer(link, command, weir_redis_reply_part(reply, command->check, item, count, &part));
}

void weir_link_on_check_reply(struct weir_redis_link *link, struct weir_redis_command *command,
                              const redisReply *reply)
{
    size_t count = command->checks > 1 ? command->checks : 1;
    command->checks = 0;
    on_part(link, command, reply, 0, count);
    for (size_t item = 1; item < count; item++) {
        struct weir_redis_command next;
        if (weir_pending_take_replied(&link->redis->pending, &link->under_way, &next))
            on_part(link, &next, reply, item, count);
    }
}
