/* What the store refuses beside its sums: keys that are blocked, and those that a penalty bans. The store
 * says that a key is; by whom and why stands in the list of blocks. */
#include <string.h>

#include "admin/admin_json.h"
#include "admin/blocks.h"
#include "admin/explain_internal.h"
#include "limit/label.h"

/* Clocks differ, and a block's moments are whole seconds. */
#define ABOUT_US 3000000

/* reading the list */

void weir_explain_read_blocks(struct explaining *explaining)
{
    struct weir_error why = WEIR_NO_ERROR;
    uint64_t now_us;
    if (explaining->blocks != NULL || explaining->blocks_why != NULL)
        return;
    if (weir_blocks_read(explaining->limiter, &explaining->blocks, &now_us, &why) != WEIR_OK)
        explaining->blocks_why = weir_explain_printf(explaining, "%s", why.text);
}

const json_t *weir_explain_block_of(struct explaining *explaining, const struct weir_spend *spend)
{
    const json_t *block;
    size_t index;
    weir_explain_read_blocks(explaining);
    json_array_foreach(explaining->blocks, index, block)
    {
        if (weir_block_has_key(block, spend->key, spend->key_length))
            return block;
    }
    return NULL;
}

/* the key of a decision */

/* The key that was sent says whose user it is, and so how the user is shown. */
static void identify(const struct weir_policy *policy, const char *client,
                     struct weir_identity *who)
{
    const struct weir_keyring *keys = policy->identity.keys;
    size_t count = client == NULL || keys == NULL ? 0 : weir_keyring_count(keys);
    *who = (struct weir_identity){ .api_key = NULL };
    for (size_t i = 0; i < count && who->api_key == NULL; i++)
        if (strcmp(weir_keyring_at(keys, i)->id, client) == 0)
            who->api_key = weir_keyring_at(keys, i);
    if (who->api_key != NULL)
        who->user = weir_text_from(who->api_key->user);
}

static bool is_key_of(const struct explaining *explaining, const json_t *key,
                      const struct weir_ruleset *ruleset, const struct weir_decision *decision)
{
    char label[WEIR_KEY_LABEL_CHARS];
    struct weir_identity who;
    const json_t *text = json_array_get(key, 1);
    json_int_t group = json_integer_value(json_array_get(key, 2));
    const struct weir_spend spend = { .key = json_string_value(text),
                                      .key_length = json_string_length(text),
                                      .group_length = group < 0 ? 0 : (size_t)group };
    if (strcmp(json_string_value(json_array_get(key, 0)), decision->limit) != 0
        || spend.group_length > spend.key_length)
        return false;
    identify(explaining->policy, decision->client, &who);
    weir_subject_label(weir_subject_of_key(&spend, explaining->policy, ruleset), &who, label);
    return strcmp(label, decision->key) == 0;
}

static bool is_of(const struct explaining *explaining, const json_t *block,
                  const struct weir_ruleset *ruleset, const struct weir_decision *decision)
{
    const json_t *key;
    size_t index;
    if (strcmp(json_string_value(json_object_get(block, "policy")), ruleset->name) != 0)
        return false;
    json_array_foreach(json_object_get(block, "keys"), index, key)
    {
        if (is_key_of(explaining, key, ruleset, decision))
            return true;
    }
    return false;
}

const json_t *weir_explain_block_of_decision(struct explaining *explaining,
                                             const struct weir_ruleset *ruleset,
                                             const struct weir_decision *decision)
{
    const json_t *block;
    size_t index;
    if (ruleset == NULL || decision->limit == NULL || decision->key == NULL)
        return NULL;
    weir_explain_read_blocks(explaining);
    json_array_foreach(explaining->blocks, index, block)
    {
        if (is_of(explaining, block, ruleset, decision))
            return block;
    }
    return NULL;
}

/* What was refused before the block, or for another reason, waits for something else. */
bool weir_explain_has_refused(const json_t *block, const struct weir_decision *decision)
{
    uint64_t until_us = (uint64_t)json_integer_value(json_object_get(block, "until")) * 1000000;
    uint64_t waits_until_us = decision->time_us + decision->retry_us;
    return decision->retry_us > 0 && waits_until_us < until_us + ABOUT_US
           && waits_until_us + ABOUT_US > until_us;
}

/* telling */

static const char *moment_of(struct explaining *explaining, uint64_t time_us)
{
    json_t *moment = weir_admin_moment(time_us);
    const char *text = weir_explain_printf(
        explaining, "%s", json_string_value(moment) == NULL ? "" : json_string_value(moment));
    json_decref(moment);
    return text;
}

static uint64_t seconds_of(const json_t *block, const char *name)
{
    json_int_t seconds = json_integer_value(json_object_get(block, name));
    return seconds > 0 ? (uint64_t)seconds * 1000000 : 0;
}

static const char *text_of(const json_t *block, const char *name)
{
    return json_string_value(json_object_get(block, name));
}

void weir_explain_put_block(struct explaining *explaining, json_t *told, uint64_t until_us,
                            const json_t *block)
{
    static const char *const names[] = { "id", "limit", "reason", "by" };
    weir_explain_put_bool(explaining, told, "blocked", true);
    weir_explain_put_string(explaining, told, "blocked_until", moment_of(explaining, until_us));
    if (block == NULL) {
        weir_explain_put(explaining, told, "block", json_null());
        return;
    }
    json_t *row = weir_explain_put_object(explaining, told, "block");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        weir_explain_put_string(explaining, row, names[i], text_of(block, names[i]));
    weir_explain_put_string(explaining, row, "at", moment_of(explaining, seconds_of(block, "at")));
    weir_explain_put_string(explaining, row, "until",
                            moment_of(explaining, seconds_of(block, "until")));
}

void weir_explain_put_ban(struct explaining *explaining, json_t *told, uint64_t until_us)
{
    weir_explain_put_bool(explaining, told, "banned", true);
    weir_explain_put_string(explaining, told, "banned_until", moment_of(explaining, until_us));
}

const char *weir_explain_block(struct explaining *explaining, uint64_t until_us, uint64_t left_us,
                               const json_t *block)
{
    const char *reason = block == NULL ? NULL : text_of(block, "reason");
    bool is_given = reason != NULL && reason[0] != '\0';
    return weir_explain_printf(
        explaining, "blocked%s until %s, in %s%s%s", block == NULL ? "" : " by an operator",
        moment_of(explaining, until_us), weir_explain_time(explaining, left_us),
        is_given ? ": " : "", is_given ? reason : "");
}

const char *weir_explain_ban(struct explaining *explaining, uint64_t until_us, uint64_t left_us)
{
    return weir_explain_printf(explaining, "banned by its penalty until %s, in %s",
                               moment_of(explaining, until_us),
                               weir_explain_time(explaining, left_us));
}

/* hints */

void weir_explain_hint_at_block(struct explaining *explaining, const char *limit,
                                const json_t *block)
{
    if (block != NULL) {
        weir_explain_hint(
            explaining,
            "The key of limit %s has been blocked by %s at %s: whatever it has left, it is refused "
            "until %s. POST /admin/unblock or weir keys unblock, with the id %s, ends that sooner.",
            limit, text_of(block, "by") == NULL ? "an operator" : text_of(block, "by"),
            moment_of(explaining, seconds_of(block, "at")),
            moment_of(explaining, seconds_of(block, "until")), text_of(block, "id"));
        return;
    }
    weir_explain_hint(explaining,
                      "The key of limit %s is blocked, and %s%s. POST /admin/reset or weir keys "
                      "reset lets it in again.",
                      limit,
                      explaining->blocks_why == NULL
                          ? "no operator's block is listed for it: the application has done it"
                          : "the list of blocks cannot be read: ",
                      explaining->blocks_why == NULL ? "" : explaining->blocks_why);
}

void weir_explain_hint_at_ban(struct explaining *explaining, const char *limit)
{
    weir_explain_hint(explaining,
                      "The penalty of limit %s has banned the key, since it went on while it was "
                      "refused. POST /admin/reset or weir keys reset ends that sooner.",
                      limit);
}
