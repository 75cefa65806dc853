#include "tools/simulate_replay.h"

#include <stdlib.h>

#include "chain/chain_internal.h"
#include "limit/limiter_internal.h"
#include "tools/simulate_request.h"

/* Nothing is to be forgotten, so there are several keys for each request, and places enough between
 * them. Only what is used is taken. */
#define BYTES_LEAST       (UINT64_C(64) << 20)
#define BYTES_MOST        (UINT64_C(64) << 30)
#define BYTES_FOR_REQUEST UINT64_C(512)

struct weir_replay {
    const struct weir_policy *policy;
    const struct weir_api_key **keys; /* by their ids, in order */
    size_t key_count;
    uint64_t now_us;
    struct weir_store *store;
    struct weir_limiter *limiter;
    struct weir_chain *chain;
    struct weir_request *request; /* the last one, whose texts may still be looked at */
    const struct weir_access_entry *entry;
    struct weir_replayed *replayed;
};

/* preparing the policy */

static void prepare_ruleset(struct weir_ruleset *ruleset, bool enforces)
{
    ruleset->concurrency = NULL;
    for (size_t i = 0; i < ruleset->limit_count; i++)
        ruleset->limits[i].lease = NULL;
    if (!enforces)
        return;
    ruleset->mode = WEIR_ENFORCE;
    ruleset->enforce_ppm = WEIR_ENFORCE_ALL;
}

static void admit(struct weir_route *route)
{
    if (route->auth == WEIR_AUTH_REQUIRED)
        route->auth = WEIR_AUTH_OPTIONAL;
}

void weir_replay_prepare(struct weir_policy *policy, bool enforces, bool admits)
{
    policy->denial_cache_us = 0;
    if (enforces)
        policy->mode = WEIR_ENFORCE;
    for (size_t i = 0; i < policy->ruleset_count; i++)
        prepare_ruleset(&policy->rulesets[i], enforces);
    prepare_ruleset(&policy->guesses, enforces);
    for (size_t i = 0; admits && i < policy->route_count; i++)
        admit(&policy->routes[i]);
    if (admits)
        admit(&policy->fallback);
}

/* who asks */

static int compare_keys(const void *one, const void *other)
{
    const struct weir_api_key *const *first = one, *const *second = other;
    return strcmp((*first)->id, (*second)->id);
}

static bool index_keys(struct weir_replay *replay)
{
    const struct weir_keyring *ring = replay->policy->identity.keys;
    size_t count = ring == NULL ? 0 : weir_keyring_count(ring);
    if (count == 0)
        return true;
    replay->keys = calloc(count, sizeof(replay->keys[0]));
    if (replay->keys == NULL)
        return false;
    for (size_t i = 0; i < count; i++)
        replay->keys[i] = weir_keyring_at(ring, i);
    replay->key_count = count;
    qsort(replay->keys, count, sizeof(replay->keys[0]), compare_keys);
    return true;
}

static const struct weir_api_key *find_key(const struct weir_replay *replay, struct weir_text id)
{
    size_t first = 0, end = replay->key_count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        struct weir_text other = weir_text_from(replay->keys[middle]->id);
        size_t shorter = id.length < other.length ? id.length : other.length;
        int order = memcmp(id.at, other.at, shorter);
        if (order == 0 && id.length == other.length)
            return replay->keys[middle];
        bool is_behind = order > 0 || (order == 0 && id.length > other.length);
        first = is_behind ? middle + 1 : first;
        end = is_behind ? end : middle;
    }
    return NULL;
}

/* The application's word, here the log's, goes first, then the key's. */
static void name(struct weir_text *text, struct weir_text of_log, const char *of_key)
{
    if (of_log.length > 0)
        *text = of_log;
    else if (of_key != NULL && of_key[0] != '\0')
        *text = weir_text_from(of_key);
}

/* Stands behind weir_identify(), which finds what the request itself says. */
static enum weir_step say_who(void *self, struct weir_request *request)
{
    const struct weir_replay *replay = self;
    const struct weir_text *texts = replay->entry->texts;
    struct weir_identity *identity = &request->identity;
    struct weir_text id = texts[WEIR_ACCESS_API_KEY];
    if (id.at != NULL && replay->policy->identity.keys != NULL) {
        identity->api_key = find_key(replay, id);
        identity->api_key_unknown = identity->api_key == NULL;
    }
    const struct weir_api_key *key = identity->api_key;
    name(&identity->user, texts[WEIR_ACCESS_USER], key == NULL ? NULL : key->user);
    name(&identity->tenant, texts[WEIR_ACCESS_TENANT], key == NULL ? NULL : key->tenant);
    name(&identity->plan, texts[WEIR_ACCESS_PLAN], key == NULL ? NULL : key->plan);
    return WEIR_NEXT;
}

/* the application, the cost, the clock */

/* A status that no reply can have is that of a client that hung up (nginx's 499 aside): it is as if all
 * had gone well. */
static enum weir_step answer(void *self, struct weir_request *request)
{
    const struct weir_replay *replay = self;
    unsigned status = replay->entry->status;
    bool is_status = status >= 200 && status <= 599;
    return weir_reply_bytes(request, is_status ? status : 200, NULL, NULL, 0) ? WEIR_DONE
                                                                              : WEIR_FAIL;
}

static uint64_t cost_of(void *self, struct weir_request *request, uint64_t route_cost)
{
    (void)request;
    const struct weir_access_entry *entry = ((struct weir_replay *)self)->entry;
    return entry->has_cost ? entry->cost : route_cost;
}

static uint64_t read_clock(void *self)
{
    return ((struct weir_replay *)self)->now_us;
}

static void copy_label(char to[WEIR_KEY_LABEL_CHARS], const char *label)
{
    size_t length = label == NULL ? 0 : strnlen(label, WEIR_KEY_LABEL_CHARS - 1);
    if (length > 0)
        memcpy(to, label, length);
    to[length] = '\0';
}

static void note_decision(void *self, const struct weir_decision *decision)
{
    struct weir_replayed *replayed = ((struct weir_replay *)self)->replayed;
    replayed->outcome = decision->outcome;
    replayed->would = decision->would;
    replayed->policy = decision->policy;
    replayed->limit = decision->limit;
    replayed->retry_s = decision->retry_s;
    copy_label(replayed->key, decision->key);
}

/* making it */

static uint64_t memory_bytes(size_t requests)
{
    uint64_t bytes = BYTES_LEAST + requests * BYTES_FOR_REQUEST;
    return bytes < BYTES_MOST ? bytes : BYTES_MOST;
}

static enum weir_code open_limiter(struct weir_replay *replay, size_t requests,
                                   struct weir_error *error)
{
    const struct weir_clock clock = { read_clock, replay };
    const struct weir_store_options *options =
        WEIR_STORE_OPTIONS(.memory_bytes = memory_bytes(requests), .clock = &clock);
    enum weir_code code = weir_store_open("memory:", options, &replay->store, error);
    if (code != WEIR_OK)
        return code;
    return weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = replay->policy, .store = replay->store,
                                                 .clock = &clock, .on_decision = note_decision,
                                                 .decision_self = replay, .cost = cost_of,
                                                 .cost_self = replay, .instance = "simulate"),
                            &replay->limiter, error);
}

static enum weir_code open_chain(struct weir_replay *replay, struct weir_error *error)
{
    enum weir_code code =
        weir_chain_new(WEIR_CHAIN_OPTIONS(.parked_max = 1), &replay->chain, error);
    if (code == WEIR_OK)
        code = weir_chain_use(replay->chain, weir_identify(replay->limiter));
    if (code == WEIR_OK)
        code = weir_chain_use(
            replay->chain, WEIR_MIDDLEWARE(.name = "log", .self = replay, .on_request = say_who));
    if (code == WEIR_OK)
        code = weir_chain_use(replay->chain, weir_limit(replay->limiter));
    if (code == WEIR_OK)
        code = weir_chain_any(replay->chain, "*", answer, replay);
    return code == WEIR_OK ? code : weir_error_set(error, code, NULL, "The chain is not made.");
}

enum weir_code weir_replay_new(const struct weir_policy *policy, size_t requests,
                               struct weir_replay **replay, struct weir_error *error)
{
    struct weir_replay *made = calloc(1, sizeof *made);
    if (made == NULL)
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    made->policy = policy;
    enum weir_code code = index_keys(made) ? WEIR_OK : WEIR_E_MEMORY;
    if (code != WEIR_OK)
        weir_error_set(error, code, NULL, "Out of memory.");
    if (code == WEIR_OK)
        code = open_limiter(made, requests, error);
    if (code == WEIR_OK)
        code = open_chain(made, error);
    if (code == WEIR_OK)
        *replay = made;
    else
        weir_replay_free(made);
    return code;
}

static void end_request(struct weir_replay *replay)
{
    if (replay->request != NULL)
        weir_request_end(replay->request);
    replay->request = NULL;
}

struct weir_replay *weir_replay_free(struct weir_replay *replay)
{
    if (replay == NULL)
        return NULL;
    end_request(replay);
    weir_chain_free(replay->chain);
    weir_limiter_free(replay->limiter);
    weir_store_free(replay->store);
    free(replay->keys);
    free(replay);
    return NULL;
}

/* replaying */

/* Runs it to its reply; false: memory ran out. */
static bool run(struct weir_replay *replay, struct weir_request *request)
{
    for (;;) {
        enum weir_run result = weir_run(request);
        if (result == WEIR_RUN_REPLY) {
            weir_run_reply_hooks(request, &request->reply);
            return request->reply.status != 0;
        }
        /* A leaky bucket has given it a moment, which it need not wait for: nobody looks at the clock
         * between now and then. */
        if (result == WEIR_RUN_WAIT)
            weir_parking_wake_due(&replay->chain->parking, UINT64_MAX);
        else if (result != WEIR_RUN_BODY || !weir_replay_give_body(request, replay->entry))
            return false;
    }
}

static void note_asked(const struct weir_limit_state *state, struct weir_replayed *replayed)
{
    const struct weir_check *check = &state->check;
    bool has_decided = check->result == WEIR_STORE_ANSWERED && state->ruleset != NULL;
    replayed->ruleset = state->ruleset;
    for (size_t i = 0; has_decided && i < check->count; i++) {
        replayed->asked[i].limit = state->planned[i].limit;
        replayed->asked[i].key =
            (struct weir_text){ check->spends[i].key, check->spends[i].key_length };
        replayed->asked_count++;
    }
}

/* Logs and metrics of a server show a user by a hash. Here the name is in the log that somebody is about
 * to look at. */
static void name_user(char label[WEIR_KEY_LABEL_CHARS], struct weir_text user)
{
    char *hash = user.at == NULL ? NULL : strstr(label, "user#");
    if (hash == NULL || (hash != label && hash[-1] != ' '))
        return;
    char memory[WEIR_KEY_LABEL_CHARS];
    struct weir_buffer named = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put(&named, (struct weir_text){ label, (size_t)(hash - label) });
    weir_buffer_put_string(&named, "user:");
    weir_buffer_put(&named, user);
    weir_buffer_put_string(&named, hash + strcspn(hash, " "));
    if (weir_buffer_string(&named) != NULL)
        memcpy(label, memory, named.length + 1);
}

static void note_client(const struct weir_replay *replay, const struct weir_request *request,
                        struct weir_replayed *replayed)
{
    struct weir_client client;
    weir_client_of(&request->identity, replay->policy, &client);
    weir_client_label(&client, replay->policy, replayed->client);
    name_user(replayed->client, replay->entry->texts[WEIR_ACCESS_USER]);
    name_user(replayed->key, replay->entry->texts[WEIR_ACCESS_USER]);
}

bool weir_replay_request(struct weir_replay *replay, const struct weir_access_entry *entry,
                         struct weir_replayed *replayed)
{
    end_request(replay);
    replay->entry = entry;
    replay->replayed = replayed;
    replay->now_us = entry->time_us;
    replayed->outcome = replayed->would = WEIR_ALLOWED;
    replayed->policy = replayed->limit = NULL;
    replayed->retry_s = 0;
    replayed->key[0] = replayed->client[0] = '\0';
    replayed->asked_count = 0;
    struct weir_request *request = replay->request = weir_replay_make(replay->chain, entry);
    if (request == NULL || !run(replay, request))
        return false;
    const struct weir_limit_state *state = weir_request_slot(request, replay->limiter);
    note_asked(state, replayed);
    if (replayed->policy == NULL && replayed->ruleset != NULL)
        replayed->policy = replayed->ruleset->name;
    if (replayed->outcome != WEIR_ALLOWED)
        note_client(replay, request, replayed);
    replayed->status = request->reply.status;
    return true;
}

struct weir_store_numbers weir_replay_numbers(const struct weir_replay *replay)
{
    return weir_store_numbers(replay->store);
}
