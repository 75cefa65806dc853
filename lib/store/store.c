#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"

/* The size of a store's type in the first release: nothing smaller was ever compiled. */
#define STORE_TYPE_FIRST (offsetof(struct weir_store_type, free) + sizeof(void (*)(void *)))

#define STORE_URL_PATH "/store/url"

enum weir_code weir_store_new(const struct weir_store_type *type, void *self,
                              struct weir_store **store, struct weir_error *error)
{
    if (type == NULL || store == NULL || type->size < STORE_TYPE_FIRST || type->name == NULL
        || type->submit == NULL || type->free == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A store's type needs its size, a name, submit and free.");
    if (!type->answers_inline && type->cancel == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "The store \"%s\" does not answer inline, so it needs cancel.",
                              type->name);

    struct weir_store *made = malloc(sizeof *made);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    *made = (struct weir_store){ .type = type, .self = self };
    *store = made;
    return WEIR_OK;
}

struct weir_store *weir_store_free(struct weir_store *store)
{
    if (store == NULL)
        return NULL;
    store->type->free(store->self);
    free(store);
    return NULL;
}

void weir_store_state(struct weir_store *store, struct weir_store_state *state)
{
    *state = (struct weir_store_state){ .answering = true };
    if (store->type->state != NULL)
        store->type->state(store->self, state);
    state->name = store->type->name;
}

struct weir_store_numbers weir_store_numbers(const struct weir_store *store)
{
    struct weir_store_numbers numbers = { .is_memory = false };
    if (store->numbers != NULL)
        store->numbers(store->self, &numbers);
    return numbers;
}

/* opening by URL */

/* Nothing after the scheme is ever repeated in an error: it may be a password. */
static enum weir_code unknown_url(struct weir_error *error)
{
    return weir_error_set(error, WEIR_E_VALUE, STORE_URL_PATH,
                          "The store's URL must be \"memory:\", \"redis://host:port/db\", "
                          "\"redis+unix:///path\", \"redis+sentinel://host,host/master\" or "
                          "\"redis+cluster://host,host\".");
}

static bool is_redis(struct weir_text url)
{
    static const char *const schemes[] = { "redis://",         "redis+unix://",
                                           "rediss://",        "redis+sentinel://",
                                           "redis+cluster://", "rediss+sentinel://",
                                           "rediss+cluster://" };
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (weir_text_starts_with(url, weir_text_from(schemes[i])))
            return true;
    return false;
}

static enum weir_code check_options(const struct weir_store_options *options,
                                    struct weir_error *error)
{
    struct weir_store_options ours;
    return weir_options_take(&ours, sizeof ours, options, WEIR_STORE_OPTIONS_FIRST,
                             "WEIR_STORE_OPTIONS", error);
}

enum weir_code weir_store_open(const char *url, const struct weir_store_options *options,
                               struct weir_store **store, struct weir_error *error)
{
    if (url == NULL || store == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "A store needs a URL and a place.");
    enum weir_code code = check_options(options, error);
    if (code != WEIR_OK)
        return code;

    struct weir_text text = weir_text_from(url);
    if (weir_text_equal(text, WEIR_TEXT("memory:")))
        return weir_store_new_memory(options, store, error);
    if (is_redis(text))
        return weir_store_new_redis(url, options, store, error);
    return unknown_url(error);
}
