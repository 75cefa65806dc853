/* "allow" and "deny": clients that are let through, or kept out, by name. */
#include <string.h>

#include "base/arena.h"
#include "base/suggest.h"
#include "policy/policy_json.h"
#include "policy/warnings.h"

#define ITEMS_MAX      1024
#define KEYS_SHOWN_MAX 64

/* A list while it is read. */
struct draft {
    struct weir_client_list *list;
    bool allows;
};

/* Refuses what is no list, or one that is too long for each request to be looked for in it. */
static enum weir_code check_size(const struct weir_reader *reader, const struct weir_place *place)
{
    if (!json_is_array(place->value))
        return weir_refuse_type(reader, place, "a list");
    if (json_array_size(place->value) > ITEMS_MAX)
        return weir_refuse(reader, place, WEIR_E_VALUE,
                           "The list has %zu items; wanted are at most %d.",
                           json_array_size(place->value), ITEMS_MAX);
    return WEIR_OK;
}

/* addresses */

static enum weir_code read_network(const struct weir_reader *reader, const struct weir_place *place,
                                   bool allows, struct weir_network *network)
{
    char pointer[WEIR_POINTER_BYTES];
    struct weir_text text;
    enum weir_code code =
        weir_read_text(reader, place, "a text such as \"10.0.0.0/8\" or \"2001:db8::1\"", &text);
    if (code != WEIR_OK)
        return code;
    const char *why = weir_block_read(text, network);
    if (why != NULL)
        return weir_refuse(reader, place, WEIR_E_VALUE, "The value is %s: %s.",
                           weir_show(place->value).text, why);
    if (!allows)
        return WEIR_OK;
    return weir_warn_of_allowed(reader->policy, network, weir_place_pointer(place, pointer),
                                reader->error);
}

static enum weir_code read_networks(struct weir_reader *reader, const struct weir_place *place,
                                    void *into)
{
    const struct draft *draft = into;
    struct weir_client_list *list = draft->list;
    size_t count = json_array_size(place->value);
    enum weir_code code = check_size(reader, place);
    if (code != WEIR_OK)
        return code;
    list->networks = weir_arena_array(reader->policy->arena, count, sizeof *list->networks);
    if (list->networks == NULL)
        return weir_refuse_memory(reader);
    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = read_network(reader, &item, draft->allows, &list->networks[i]);
        list->network_count = i + 1;
    }
    return code;
}

/* names */

static enum weir_code read_names(const struct weir_reader *reader, const struct weir_place *place,
                                 struct weir_names *names)
{
    size_t count = json_array_size(place->value);
    enum weir_code code = check_size(reader, place);
    if (code != WEIR_OK)
        return code;
    names->names = weir_arena_array(reader->policy->arena, count, sizeof(const char *));
    if (names->names == NULL)
        return weir_refuse_memory(reader);
    for (size_t i = 0; i < count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        struct weir_text name;
        code = weir_read_text(reader, &item, "a name", &name);
        if (code == WEIR_OK)
            code = weir_keep_text(reader, name, &names->names[i]);
        if (code == WEIR_OK)
            names->count = i + 1;
    }
    return code;
}

static enum weir_code read_tenants(struct weir_reader *reader, const struct weir_place *place,
                                   void *into)
{
    const struct draft *draft = into;
    return read_names(reader, place, &draft->list->tenants);
}

static enum weir_code read_users(struct weir_reader *reader, const struct weir_place *place,
                                 void *into)
{
    const struct draft *draft = into;
    return read_names(reader, place, &draft->list->users);
}

/* keys, by their ids: one that is misspelt would keep nobody out */

static bool is_key(const struct weir_keyring *keys, const char *id)
{
    for (size_t i = 0; i < weir_keyring_count(keys); i++)
        if (strcmp(weir_keyring_at(keys, i)->id, id) == 0)
            return true;
    return false;
}

static enum weir_code refuse_key(const struct weir_reader *reader, const struct weir_place *place,
                                 const struct weir_keyring *keys, const char *id)
{
    const char *ids[KEYS_SHOWN_MAX];
    size_t count = weir_keyring_count(keys);
    count = count < KEYS_SHOWN_MAX ? count : KEYS_SHOWN_MAX;
    for (size_t i = 0; i < count; i++)
        ids[i] = weir_keyring_at(keys, i)->id;
    const char *meant = weir_suggest(weir_text_from(id), ids, count);
    return weir_refuse(reader, place, WEIR_E_REFERENCE, "\"%.60s\" is no id in the keys file%s%s%s",
                       id, meant == NULL ? "." : "; did you mean \"", meant == NULL ? "" : meant,
                       meant == NULL ? "" : "\"?");
}

static enum weir_code check_has_keys(const struct weir_reader *reader,
                                     const struct weir_place *place)
{
    if (reader->policy->identity.keys != NULL)
        return WEIR_OK;
    return weir_refuse(reader, place, WEIR_E_REFERENCE,
                       "There are no keys to name; add \"api_keys\", with a file of them.");
}

enum weir_code weir_check_key_id(const struct weir_reader *reader, const struct weir_place *place,
                                 const char *id)
{
    const struct weir_keyring *keys = reader->policy->identity.keys;
    enum weir_code code = check_has_keys(reader, place);
    return code == WEIR_OK && !is_key(keys, id) ? refuse_key(reader, place, keys, id) : code;
}

static enum weir_code read_keys(struct weir_reader *reader, const struct weir_place *place,
                                void *into)
{
    const struct draft *draft = into;
    struct weir_names *ids = &draft->list->api_keys;
    enum weir_code code = read_names(reader, place, ids);
    if (code == WEIR_OK)
        code = check_has_keys(reader, place);
    for (size_t i = 0; i < ids->count && code == WEIR_OK; i++) {
        const struct weir_place item = weir_place_item(place, i);
        code = weir_check_key_id(reader, &item, ids->names[i]);
    }
    return code;
}

/* the lists */

static enum weir_code read_list(struct weir_reader *reader, const struct weir_place *place,
                                bool allows, const struct weir_client_list **list)
{
    static const struct weir_member members[] = {
        { "ip", read_networks, false },
        { "api_key", read_keys, false },
        { "tenant", read_tenants, false },
        { "user", read_users, false },
    };
    struct weir_client_list *made = weir_arena_array(reader->policy->arena, 1, sizeof *made);
    if (made == NULL)
        return weir_refuse_memory(reader);
    struct draft draft = { made, allows };
    *list = made;
    return weir_read_members(reader, place, members, WEIR_COUNT_OF(members), &draft);
}

enum weir_code weir_read_allow(struct weir_reader *reader, const struct weir_place *place,
                               void *into)
{
    struct weir_access *access = into;
    return read_list(reader, place, true, &access->allow);
}

enum weir_code weir_read_deny(struct weir_reader *reader, const struct weir_place *place,
                              void *into)
{
    struct weir_access *access = into;
    return read_list(reader, place, false, &access->deny);
}
