#include "admin/keys.h"

#include <inttypes.h>
#include <string.h>

#include "admin/admin_json.h"
#include "admin/blocks.h"
#include "admin/explain_internal.h"
#include "base/clock.h"
#include "limit/label.h"
#include "limit/limiter_internal.h"

/* A subject's limits, with the keys that stand for them in the store. */
struct keys {
    const struct weir_edition *edition; /* held */
    struct weir_subject_plan planned;
    char memory[WEIR_PLAN_KEY_BYTES];

    /* as the store says, where it was asked */
    struct weir_answer seen[WEIR_CHECK_LIMITS];
    uint64_t now_us;
};

static enum weir_code out_of_memory(struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* Hands `made` out; NULL: memory ran out. */
static enum weir_code hand_out(json_t *made, json_t **body, struct weir_error *error)
{
    if (made == NULL)
        return out_of_memory(error);
    *body = made;
    return WEIR_OK;
}

/* keys */

static void finish_keys(struct keys *keys)
{
    weir_edition_leave(keys->edition);
}

/* `only_own`: those that weir_limiter_block() would change. To be finished, whatever it returns. */
static enum weir_code find_keys(struct keys *keys, struct weir_limiter *limiter,
                                const struct weir_subject *subject, bool only_own,
                                struct weir_error *error)
{
    keys->edition = weir_edition_take(&limiter->editions);
    keys->planned = (struct weir_subject_plan){ .looks = !only_own, .only_own = only_own };
    weir_plan_init(&keys->planned.plan, keys->memory, sizeof keys->memory);
    return weir_limiter_add_subject(keys->edition, subject, &keys->planned, error);
}

static void label_of(const struct keys *keys, size_t index, char label[WEIR_KEY_LABEL_CHARS])
{
    const struct weir_plan_of_checks *plan = &keys->planned.plan;
    struct weir_text subject = weir_subject_of_key(&plan->spends[index], keys->edition->policy,
                                                   plan->planned[index].ruleset);
    weir_subject_label(subject, NULL, label);
}

/* Penalties stand behind their limits, and are no limits. */
static bool is_limit(const struct keys *keys, size_t index)
{
    return keys->planned.plan.spends[index].algorithm != WEIR_PENALTY;
}

/* Labels of all limits, each once: "api_key:acme-free, tenant:acme". */
static json_t *label_all(const struct keys *keys)
{
    char memory[WEIR_CHECK_LIMITS * (WEIR_KEY_LABEL_CHARS + 2)];
    struct weir_buffer all = weir_buffer_init(memory, sizeof memory);
    memory[0] = '\0';
    for (size_t i = 0; i < keys->planned.plan.count; i++) {
        char label[WEIR_KEY_LABEL_CHARS];
        label_of(keys, i, label);
        if (!is_limit(keys, i) || strstr(memory, label) != NULL)
            continue;
        weir_buffer_put_string(&all, all.length == 0 ? "" : ", ");
        weir_buffer_put_string(&all, label);
        weir_buffer_string(&all);
    }
    const char *text = weir_buffer_string(&all);
    return json_string(text == NULL ? "" : text);
}

/* An array in which one of the items could not be put is none. */
static json_t *whole(json_t *list, bool is_whole)
{
    if (is_whole)
        return list;
    json_decref(list);
    return NULL;
}

/* Keys of limits as texts. */
static json_t *list_keys(const struct keys *keys)
{
    json_t *list = json_array();
    bool is_whole = true;
    for (size_t i = 0; i < keys->planned.plan.count; i++) {
        const struct weir_spend *spend = &keys->planned.plan.spends[i];
        json_t *text = is_limit(keys, i) ? json_stringn(spend->key, spend->key_length) : NULL;
        if (is_limit(keys, i))
            is_whole = json_array_append_new(list, text) == 0 && is_whole;
    }
    return whole(list, is_whole);
}

/* With what it takes to undo a block without the subject. */
static json_t *whole_key(const struct keys *keys, size_t index)
{
    const struct weir_spend *spend = &keys->planned.plan.spends[index];
    return json_pack("[s, s%, I, i]", keys->planned.plan.planned[index].limit->name, spend->key,
                     spend->key_length, (json_int_t)spend->group_length, (int)spend->algorithm);
}

static json_t *list_whole_keys(const struct keys *keys)
{
    json_t *list = json_array();
    bool is_whole = true;
    for (size_t i = 0; i < keys->planned.plan.count; i++)
        if (is_limit(keys, i))
            is_whole = json_array_append_new(list, whole_key(keys, i)) == 0 && is_whole;
    return whole(list, is_whole);
}

/* What was done, and to whom. */
static json_t *describe(const struct keys *keys, const struct weir_subject *subject)
{
    return json_pack("{s:s, s:s, s:o}", "policy", subject->policy, "limit",
                     subject->limit == NULL ? "all" : subject->limit, "key", label_all(keys));
}

/* the list of blocks */

/* The block of a key; NULL: none is listed. */
static const json_t *block_of(const json_t *blocks, const struct weir_spend *spend)
{
    const json_t *block;
    size_t index;
    json_array_foreach(blocks, index, block)
    {
        if (weir_block_has_key(block, spend->key, spend->key_length))
            return block;
    }
    return NULL;
}

/* Where the store keeps no texts nothing is listed. Of a list that cannot be read `why` says so, and
 * `blocks` stays NULL. */
static enum weir_code read_blocks(struct weir_limiter *limiter, json_t **blocks,
                                  struct weir_error *why, struct weir_error *error)
{
    uint64_t now_us;
    enum weir_code code = weir_blocks_read(limiter, blocks, &now_us, why);
    if (code == WEIR_OK || code == WEIR_E_STORE_ERROR)
        return WEIR_OK;
    if (code != WEIR_E_NOT_YET)
        return weir_error_set(error, code, NULL, "%s", why->text);
    *blocks = json_array();
    return *blocks == NULL ? out_of_memory(error) : WEIR_OK;
}

/* A block's time in words. */
static json_t *moment_of(const json_t *block, const char *name)
{
    json_int_t seconds = json_integer_value(json_object_get(block, name));
    return weir_admin_moment(seconds < 0 ? 0 : (uint64_t)seconds * 1000000);
}

/* A block as it is shown. */
static void make_shown(json_t *block)
{
    json_object_del(block, "keys");
    json_object_set_new(block, "until", moment_of(block, "until"));
    json_object_set_new(block, "at", moment_of(block, "at"));
}

/* looking */

/* What the store itself says of blocks and bans, of which a verdict has the numbers alone. */
static void look_closely(struct keys *keys, const struct weir_limiter *limiter)
{
    struct weir_check look = { .spends = keys->planned.plan.spends,
                               .answers = keys->seen,
                               .count = keys->planned.plan.count,
                               .wants_time = true };
    for (size_t i = 0; i < look.count; i++)
        keys->planned.plan.spends[i].cost = 0;
    if (look.count > 0)
        weir_explain_ask(limiter->store, &look);
    if (look.count > 0 && look.result == WEIR_STORE_ANSWERED)
        keys->now_us = look.now_us != 0 ? look.now_us : weir_clock_now_us(&limiter->clock);
    else
        memset(keys->seen, 0, sizeof keys->seen);
}

/* Of a limit with a penalty behind it. */
static void describe_ban(const struct keys *keys, size_t index, json_t *limit)
{
    size_t penalty = index + 1;
    if (penalty >= keys->planned.plan.count || is_limit(keys, penalty))
        return;
    uint64_t left_us = keys->seen[penalty].reset_us;
    json_object_set_new(limit, "banned", json_boolean(left_us > 0));
    if (left_us > 0)
        json_object_set_new(limit, "banned_until", weir_admin_moment(keys->now_us + left_us));
}

static json_t *describe_quota(const struct keys *keys, size_t index, const struct weir_quota *quota,
                              const json_t *blocks)
{
    char label[WEIR_KEY_LABEL_CHARS];
    const json_t *block = block_of(blocks, &keys->planned.plan.spends[index]);
    const struct weir_answer *seen = &keys->seen[index];
    bool is_known = blocks != NULL || seen->blocked;
    label_of(keys, index, label);
    json_t *is_blocked = is_known ? json_boolean(block != NULL || seen->blocked) : json_null();
    json_t *limit = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "name", quota->limit, "key",
                              label, "limit", (json_int_t)quota->quota, "remaining",
                              (json_int_t)quota->remaining, "window_s", (json_int_t)quota->window_s,
                              "reset_s", (json_int_t)quota->reset_s, "blocked", is_blocked);
    if (block != NULL)
        json_object_set_new(limit, "blocked_until", moment_of(block, "until"));
    else if (seen->blocked)
        json_object_set_new(limit, "blocked_until",
                            weir_admin_moment(keys->now_us + seen->reset_us));
    describe_ban(keys, index, limit);
    return limit;
}

/* The policy may have been replaced since the limits were looked up: they are found by name. */
static json_t *describe_limits(const struct keys *keys, const struct weir_verdict *verdict,
                               const json_t *blocks)
{
    json_t *limits = json_array();
    for (size_t q = 0; q < verdict->quota_count; q++)
        for (size_t i = 0; i < keys->planned.plan.count; i++)
            if (is_limit(keys, i)
                && strcmp(keys->planned.plan.planned[i].limit->name, verdict->quotas[q].limit) == 0)
                json_array_append_new(limits, describe_quota(keys, i, &verdict->quotas[q], blocks));
    return limits;
}

static enum weir_code describe_look(const struct keys *keys, const struct weir_subject *subject,
                                    const struct weir_verdict *verdict, const json_t *blocks,
                                    const struct weir_error *why, json_t **body,
                                    struct weir_error *error)
{
    json_t *made = json_pack("{s:s, s:o}", "policy", subject->policy, "limits",
                             describe_limits(keys, verdict, blocks));
    if (made != NULL && verdict->outcome == WEIR_DENIED)
        json_object_set_new(made, "denied", json_true());
    if (made != NULL && blocks == NULL)
        json_object_set_new(made, "hint", weir_admin_string(why->text));
    return hand_out(made, body, error);
}

enum weir_code weir_keys_look(struct weir_limiter *limiter, const struct weir_subject *subject,
                              json_t **body, struct weir_error *error)
{
    struct keys keys;
    struct weir_verdict verdict;
    struct weir_error why = WEIR_NO_ERROR;
    json_t *blocks = NULL;
    enum weir_code code = find_keys(&keys, limiter, subject, false, error);
    if (code == WEIR_OK)
        code = weir_limiter_peek(limiter, subject, 1, &verdict, error);
    if (code == WEIR_OK)
        code = read_blocks(limiter, &blocks, &why, error);
    if (code == WEIR_OK)
        look_closely(&keys, limiter);
    if (code == WEIR_OK)
        code = describe_look(&keys, subject, &verdict, blocks, &why, body, error);
    json_decref(blocks);
    finish_keys(&keys);
    return code;
}

/* naming */

enum weir_code weir_keys_name(struct weir_limiter *limiter, const struct weir_subject *subject,
                              json_t **body, struct weir_error *error)
{
    struct keys keys;
    enum weir_code code = find_keys(&keys, limiter, subject, true, error);
    if (code == WEIR_OK)
        code = hand_out(describe(&keys, subject), body, error);
    finish_keys(&keys);
    return code;
}

/* resetting */

/* Takes keys out of the list, where there is one. */
static enum weir_code unlist(struct weir_limiter *limiter, const json_t *keys, size_t *count,
                             struct weir_error *error)
{
    enum weir_code code = weir_blocks_remove(limiter, keys, count, error);
    return code == WEIR_E_NOT_YET ? WEIR_OK : code;
}

/* `made` with how many blocks have ended. NULL: memory ran out. */
static json_t *add_unblocked(json_t *made, size_t count)
{
    if (made != NULL
        && json_object_set_new(made, "unblocked", json_integer((json_int_t)count)) == 0)
        return made;
    json_decref(made);
    return NULL;
}

/* What was done all the same, with what has kept the list as it was. */
static json_t *add_hint(json_t *made, const struct weir_error *error)
{
    json_t *hint = json_pack("{s:n, s:o}", "unblocked", "hint", weir_admin_string(error->text));
    bool is_whole = made != NULL && json_object_update(made, hint) == 0;
    json_decref(hint);
    if (is_whole)
        return made;
    json_decref(made);
    return NULL;
}

/* Once the sums are forgotten that is what has been done, whatever becomes of the list. */
static json_t *forget_blocks(struct weir_limiter *limiter, const struct keys *keys,
                             const struct weir_subject *subject)
{
    struct weir_error why = WEIR_NO_ERROR;
    json_t *made = describe(keys, subject), *texts = list_keys(keys);
    size_t count = 0;
    enum weir_code code =
        texts == NULL ? out_of_memory(&why) : unlist(limiter, texts, &count, &why);
    json_decref(texts);
    return code == WEIR_OK ? add_unblocked(made, count) : add_hint(made, &why);
}

enum weir_code weir_keys_reset(struct weir_limiter *limiter, const struct weir_subject *subject,
                               json_t **body, struct weir_error *error)
{
    struct keys keys;
    enum weir_code code = find_keys(&keys, limiter, subject, true, error);
    if (code == WEIR_OK)
        code = weir_limiter_reset(limiter, subject, error);
    if (code == WEIR_OK)
        code = hand_out(forget_blocks(limiter, &keys, subject), body, error);
    finish_keys(&keys);
    return code;
}

/* blocking */

static enum weir_code check_text(const char *what, const char *text, struct weir_error *error)
{
    if (text == NULL)
        return WEIR_OK;
    if (strlen(text) > WEIR_KEYS_REASON_MAX)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "The %s has %zu bytes; wanted are %d at "
                              "most.",
                              what, strlen(text), WEIR_KEYS_REASON_MAX);
    struct weir_text rest = weir_text_from(text);
    while (rest.length > 0) {
        size_t length = weir_utf8_length(rest);
        if (length == 0 || weir_is_control(rest.at, length))
            return weir_error_set(error, WEIR_E_VALUE, NULL, "The %s has %s at byte %zu.", what,
                                  length == 0 ? "what is no UTF-8" : "a control character",
                                  (size_t)(rest.at - text) + 1);
        rest.at += length;
        rest.length -= length;
    }
    return WEIR_OK;
}

static enum weir_code check_block(const struct keys *keys, uint64_t seconds, const char *reason,
                                  const char *by, struct weir_error *error)
{
    const uint64_t most = WEIR_BURST_MAX_US / 1000000;
    if (seconds == 0 || seconds > most)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "A block of %" PRIu64 " seconds cannot be; wanted are 1 to %" PRIu64
                              ".",
                              seconds, most);
    if (keys->planned.plan.count == 0)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "No limit of the policy is the subject's own; name what it is "
                              "counted by, or a limit.");
    enum weir_code code = check_text("reason", reason, error);
    return code == WEIR_OK ? check_text("name", by, error) : code;
}

static enum weir_code make_block(const struct keys *keys, const struct weir_subject *subject,
                                 const char *reason, const char *by, json_t **block,
                                 struct weir_error *error)
{
    json_t *made = describe(keys, subject), *texts = list_whole_keys(keys);
    if (made == NULL || texts == NULL || json_object_set(made, "keys", texts) != 0) {
        json_decref(made);
        json_decref(texts);
        return out_of_memory(error);
    }
    json_decref(texts);
    if (reason != NULL)
        json_object_set_new(made, "reason", json_string(reason));
    json_object_set_new(made, "by", json_string(by));
    *block = made;
    return WEIR_OK;
}

/* What is listed and not blocked would be a lie, so it is taken back as far as that goes. */
static enum weir_code block_listed(struct weir_limiter *limiter, const struct keys *keys,
                                   const struct weir_subject *subject, uint64_t seconds,
                                   struct weir_error *error)
{
    enum weir_code code = weir_limiter_block(limiter, subject, seconds, error);
    if (code == WEIR_OK)
        return code;
    json_t *texts = list_keys(keys);
    if (texts != NULL)
        weir_blocks_remove(limiter, texts, NULL, NULL);
    json_decref(texts);
    return code;
}

enum weir_code weir_keys_block(struct weir_limiter *limiter, const struct weir_subject *subject,
                               uint64_t seconds, const char *reason, const char *by, json_t **body,
                               struct weir_error *error)
{
    struct keys keys;
    json_t *block = NULL;
    enum weir_code code = find_keys(&keys, limiter, subject, true, error);
    if (code == WEIR_OK)
        code = check_block(&keys, seconds, reason, by, error);
    if (code == WEIR_OK)
        code = make_block(&keys, subject, reason, by, &block, error);
    if (code == WEIR_OK)
        code = weir_blocks_add(limiter, block, seconds, error);
    if (code == WEIR_OK)
        code = block_listed(limiter, &keys, subject, seconds, error);
    finish_keys(&keys);
    if (code != WEIR_OK) {
        json_decref(block);
        return code;
    }
    make_shown(block);
    *body = block;
    return WEIR_OK;
}

/* unblocking */

/* A key of the list as a spend, which is only forgotten: its rate does not matter. */
static bool read_key(const json_t *key, struct weir_spend *spend)
{
    const json_t *text = json_array_get(key, 1);
    json_int_t group = json_integer_value(json_array_get(key, 2));
    json_int_t algorithm = json_integer_value(json_array_get(key, 3));
    *spend = (struct weir_spend){ .key = json_string_value(text),
                                  .key_length = json_string_length(text) };
    if (group < 0 || (size_t)group > spend->key_length || algorithm < 0 || algorithm >= WEIR_PENALTY
        || spend->key_length == 0 || spend->key_length > WEIR_KEY_MAX)
        return false;
    spend->group_length = (size_t)group;
    spend->algorithm = (enum weir_algorithm)algorithm;
    return weir_rate_make(1, 1000000, 1, &spend->rate, NULL) == WEIR_OK;
}

/* Ends the whole block, in the store and in the list. */
static enum weir_code end_block(struct weir_limiter *limiter, const json_t *block, size_t *count,
                                struct weir_error *error)
{
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    json_t *texts = json_array();
    const json_t *key;
    size_t index, known = 0;
    json_array_foreach(json_object_get(block, "keys"), index, key)
    {
        if (read_key(key, &spends[known]))
            known++;
        json_array_append(texts, json_array_get(key, 1));
    }
    enum weir_code code = texts == NULL ? out_of_memory(error) : WEIR_OK;
    if (code == WEIR_OK && known > 0)
        code = weir_limiter_change_keys(limiter, WEIR_RESET, spends, known, 0, error);
    size_t removed = 0;
    if (code == WEIR_OK)
        code = weir_blocks_remove(limiter, texts, &removed, error);
    *count += removed;
    json_decref(texts);
    return code;
}

/* Ends the blocks that `is_meant`. */
static enum weir_code end_blocks(struct weir_limiter *limiter, const json_t *blocks,
                                 bool (*is_meant)(const json_t *block, const void *self),
                                 const void *self, json_t *described, json_t **body,
                                 struct weir_error *error)
{
    const json_t *block;
    size_t index, count = 0, met = 0;
    enum weir_code code = WEIR_OK;
    json_array_foreach(blocks, index, block)
    {
        if (code != WEIR_OK || !is_meant(block, self))
            continue;
        met++;
        code = end_block(limiter, block, &count, error);
        for (size_t i = 0; i < 3; i++) {
            const char *name = ((const char *const[]){ "policy", "limit", "key" })[i];
            json_object_set(described, name, json_object_get(block, name));
        }
    }
    if (code == WEIR_OK && met == 0)
        code = weir_error_set(error, WEIR_E_REFERENCE, NULL, "The list has no such block.");
    if (code == WEIR_OK)
        return hand_out(add_unblocked(described, count), body, error);
    json_decref(described);
    return code;
}

/* `self` is a struct keys. */
static bool has_one_of(const json_t *block, const void *self)
{
    const struct keys *keys = self;
    for (size_t i = 0; i < keys->planned.plan.count; i++) {
        const struct weir_spend *spend = &keys->planned.plan.spends[i];
        if (is_limit(keys, i) && weir_block_has_key(block, spend->key, spend->key_length))
            return true;
    }
    return false;
}

enum weir_code weir_keys_unblock(struct weir_limiter *limiter, const struct weir_subject *subject,
                                 json_t **body, struct weir_error *error)
{
    struct keys keys;
    json_t *blocks = NULL;
    uint64_t now_us;
    enum weir_code code = find_keys(&keys, limiter, subject, true, error);
    if (code == WEIR_OK)
        code = weir_blocks_read(limiter, &blocks, &now_us, error);
    if (code == WEIR_OK)
        code = end_blocks(limiter, blocks, has_one_of, &keys, json_object(), body, error);
    json_decref(blocks);
    finish_keys(&keys);
    return code;
}

/* `self` is the id. */
static bool has_id(const json_t *block, const void *self)
{
    return strcmp(json_string_value(json_object_get(block, "id")), self) == 0;
}

enum weir_code weir_keys_unblock_id(struct weir_limiter *limiter, const char *id, json_t **body,
                                    struct weir_error *error)
{
    json_t *blocks = NULL;
    uint64_t now_us;
    enum weir_code code = weir_blocks_read(limiter, &blocks, &now_us, error);
    if (code == WEIR_OK)
        code = end_blocks(limiter, blocks, has_id, id, json_object(), body, error);
    json_decref(blocks);
    return code;
}

/* listing */

enum weir_code weir_keys_list(struct weir_limiter *limiter, json_t **body, struct weir_error *error)
{
    json_t *blocks = NULL, *list = json_array();
    uint64_t now_us = 0;
    bool is_whole = true;
    enum weir_code code = weir_blocks_read(limiter, &blocks, &now_us, error);
    for (size_t i = json_array_size(blocks); i-- > 0;) {
        json_t *block = json_array_get(blocks, i);
        json_int_t until = json_integer_value(json_object_get(block, "until"));
        make_shown(block);
        json_object_set_new(block, "left_s", json_integer(until - (json_int_t)(now_us / 1000000)));
        is_whole = json_array_append(list, block) == 0 && is_whole;
    }
    json_decref(blocks);
    list = whole(list, is_whole && code == WEIR_OK);
    return code == WEIR_OK ? hand_out(json_pack("{s:o}", "blocks", list), body, error) : code;
}
