/* "client_ip", "api_keys", "user" and "tenant": how it is found who asks. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/suggest.h"
#include "policy/policy_json_files.h"
#include "policy/warnings.h"

#define HOPS_MAX        32
#define PLANS_SHOWN_MAX 64

/* "client_ip" */

static enum weir_code read_trusted(struct weir_reader *reader, const struct weir_place *place,
                                   struct weir_trust *trust)
{
    char pointer[WEIR_POINTER_BYTES];
    struct weir_text text;
    enum weir_code code =
        weir_read_text(reader, place, "a text such as \"10.0.0.0/8\" or \"loopback\"", &text);
    if (code != WEIR_OK)
        return code;

    size_t before = trust->network_count;
    weir_place_pointer(place, pointer);
    code = weir_trust_add(trust, text, pointer, reader->error);
    for (size_t i = before; i < trust->network_count && code == WEIR_OK; i++)
        code = weir_warn_of_trust(reader->policy, &trust->networks[i], pointer, reader->error);
    return code;
}

static enum weir_code read_trust(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    (void)into;
    struct weir_trust *trust = &reader->policy->identity.trust;
    uint64_t hops = 0;
    enum weir_code code = WEIR_OK;
    if (json_is_false(place->value))
        return WEIR_OK;
    if (json_is_true(place->value))
        return weir_refuse(
            reader, place, WEIR_E_VALUE,
            "The value is true, which would let every client choose its own "
            "address; wanted is a list of your proxies' addresses, or their number.");
    if (!json_is_number(place->value) && !json_is_array(place->value))
        return weir_refuse_type(reader, place,
                                "a list such as [\"loopback\", \"10.0.0.0/8\"], a number of "
                                "proxies, or false");
    if (json_is_number(place->value))
        code = weir_read_integer(reader, place, 0, HOPS_MAX, &hops);
    for (size_t i = 0; i < json_array_size(place->value) && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = read_trusted(reader, &item, trust);
    }
    trust->hops = (unsigned)hops;
    return code;
}

static enum weir_code read_forwarded_header(struct weir_reader *reader,
                                            const struct weir_place *place, void *into)
{
    (void)into;
    struct weir_identity_rules *rules = &reader->policy->identity;
    enum weir_code code = weir_read_header_name(reader, place, &rules->forwarded_header);
    if (weir_text_equal_fold(rules->forwarded_header, WEIR_TEXT("X-Forwarded-For")))
        rules->form = WEIR_X_FORWARDED_FOR;
    else if (weir_text_equal_fold(rules->forwarded_header, WEIR_TEXT("Forwarded")))
        rules->form = WEIR_FORWARDED;
    else
        rules->form = WEIR_ONE_ADDRESS;
    return code;
}

static enum weir_code read_prefix(const struct weir_reader *reader, const struct weir_place *place,
                                  uint64_t most, unsigned *prefix)
{
    uint64_t number = 0;
    enum weir_code code = weir_read_integer(reader, place, 1, most, &number);
    if (code == WEIR_OK)
        *prefix = (unsigned)number;
    return code;
}

static enum weir_code read_ipv4_prefix(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    (void)into;
    return read_prefix(reader, place, 32, &reader->policy->identity.prefixes.ipv4);
}

static enum weir_code read_ipv6_prefix(struct weir_reader *reader, const struct weir_place *place,
                                       void *into)
{
    (void)into;
    return read_prefix(reader, place, 128, &reader->policy->identity.prefixes.ipv6);
}

static enum weir_code read_nat64(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    (void)into;
    return weir_read_bool(reader, place, &reader->policy->identity.prefixes.nat64);
}

enum weir_code weir_read_client_ip(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    static const struct weir_member members[] = {
        { "trust", read_trust, false },
        { "header", read_forwarded_header, false },
        { "ipv4_prefix", read_ipv4_prefix, false },
        { "ipv6_prefix", read_ipv6_prefix, false },
        { "nat64", read_nat64, false },
    };
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), into);
}

/* "api_keys" */

static enum weir_code read_key_header(struct weir_reader *reader, const struct weir_place *place,
                                      void *into)
{
    (void)into;
    return weir_read_header_name(reader, place, &reader->policy->identity.api_key_header);
}

/* An error's pointer, line and column are of the keys file. */
static void blame_keys_file(struct weir_reader *reader)
{
    const json_t *keys = json_object_get(reader->root->value, "api_keys");
    snprintf(reader->error->file, sizeof reader->error->file, "%s",
             json_string_value(json_object_get(keys, "file")));
    reader->is_of_other_file = true;
}

static enum weir_code keys_failed(struct weir_reader *reader, const struct weir_place *place,
                                  enum weir_code code, const struct weir_error *why)
{
    if (code == WEIR_E_MEMORY)
        return weir_refuse_memory(reader);
    if (code == WEIR_E_FILE || code == WEIR_E_SYSTEM)
        return weir_refuse(reader, place, code, "%s", why->text);
    weir_error_set(reader->error, code, why->path, "%s", why->text);
    if (!reader->files->is_first_error)
        return code;
    reader->error->line = why->line;
    reader->error->column = why->column;
    blame_keys_file(reader);
    return code;
}

static enum weir_code read_key_file(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    (void)into;
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_text name;
    const char *path = NULL;
    enum weir_code code =
        weir_read_text(reader, place, "the name of a file such as \"api-keys.json\"", &name);
    if (code == WEIR_OK)
        code = weir_keep_file_name(reader, name, &path);
    if (code != WEIR_OK)
        return code;
    struct weir_file_stamp *stamp = &reader->policy->stamps[reader->policy->file_count];
    reader->policy->files[reader->policy->file_count++] = path;
    code = weir_keyring_load(path, stamp, &reader->policy->identity.keys, &error);
    return code == WEIR_OK ? code : keys_failed(reader, place, code, &error);
}

static enum weir_code read_guesses(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    (void)into;
    struct weir_limit_rule *limit = reader->policy->guesses.limits;
    struct weir_written_rate written;
    enum weir_code code = weir_read_rate(reader, place, &written);
    if (code != WEIR_OK)
        return code;
    if (written.kind == WEIR_WRITTEN_PLAN)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The value is \"plan\", and who guesses has none; wanted is a rate such "
                           "as \"20/minute\".");
    if (written.months > 0)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "Guesses are not counted by the calendar; wanted is a rate such as "
                           "\"20/minute\", or \"30days\" for a month.");
    limit->source = WEIR_RATE_UNLIMITED;
    if (written.kind == WEIR_WRITTEN_UNLIMITED)
        return WEIR_OK;
    limit->source = WEIR_RATE_OWN;
    return weir_make_rate(reader, place, &written, 0, &limit->rate);
}

enum weir_code weir_read_api_keys(struct weir_reader *reader, const struct weir_place *place,
                                  void *into)
{
    static const struct weir_member members[] = {
        { "header", read_key_header, false },
        { "file", read_key_file, true },
        { "guesses", read_guesses, false },
    };
    reader->policy->identity.api_key_header = WEIR_TEXT("X-API-Key");
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), into);
}

/* the plans that keys have */

static bool is_plan(const struct weir_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->plan_count; i++)
        if (strcmp(policy->plans[i].name, name) == 0)
            return true;
    return false;
}

static const char *suggest_plan(const struct weir_policy *policy, const char *name)
{
    const char *names[PLANS_SHOWN_MAX];
    size_t count = policy->plan_count < PLANS_SHOWN_MAX ? policy->plan_count : PLANS_SHOWN_MAX;
    for (size_t i = 0; i < count; i++)
        names[i] = policy->plans[i].name;
    const char *meant = weir_suggest(weir_text_from(name), names, count);
    return meant != NULL ? meant : names[0];
}

static enum weir_code refuse_key(struct weir_reader *reader, size_t index,
                                 const struct weir_api_key *key)
{
    const struct weir_place file = { NULL, NULL, 0, NULL };
    const struct weir_place keys = { &file, "keys", 0, NULL };
    const struct weir_place at = { &keys, NULL, index, NULL };
    const struct weir_place plan = { &at, "plan", 0, NULL };
    weir_refuse(
        reader, &plan, WEIR_E_REFERENCE,
        "The key \"%s\" has the plan \"%.80s\", which the policy's \"plans\" does not have; "
        "did you mean \"%s\"?",
        key->id, key->plan, suggest_plan(reader->policy, key->plan));
    if (reader->files->is_first_error)
        blame_keys_file(reader);
    return WEIR_E_REFERENCE;
}

enum weir_code weir_check_key_plans(struct weir_reader *reader)
{
    const struct weir_keyring *keys = reader->policy->identity.keys;
    /* Without "plans" a plan is a word to count by, and no more. */
    if (keys == NULL || reader->policy->plan_count == 0)
        return WEIR_OK;
    for (size_t i = 0; i < weir_keyring_count(keys); i++) {
        const struct weir_api_key *key = weir_keyring_at(keys, i);
        if (key->plan[0] != '\0' && !is_plan(reader->policy, key->plan))
            return refuse_key(reader, i, key);
    }
    return WEIR_OK;
}

/* "user" and "tenant" */

static const struct weir_member header_only[] = { { "header", weir_read_header_name, true } };

enum weir_code weir_read_user(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    (void)into;
    return weir_read_members(reader, place, header_only, WEIR_COUNT_OF(header_only),
                             &reader->policy->identity.user_header);
}

enum weir_code weir_read_tenant(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    (void)into;
    return weir_read_members(reader, place, header_only, WEIR_COUNT_OF(header_only),
                             &reader->policy->identity.tenant_header);
}
