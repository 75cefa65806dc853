#include "tools/simulate_tally.h"

#include <stdlib.h>

#include "base/arena.h"

#define SECOND_US  UINT64_C(1000000)
#define ROOM_FIRST 1024

bool weir_is_refused(enum weir_outcome outcome)
{
    return outcome != WEIR_ALLOWED && outcome != WEIR_SHADOW_LIMITED && outcome != WEIR_FAILED_OPEN;
}

/* making it */

/* The width of the stretches of time: one that people count in. */
static void divide_time(struct weir_tally *tally, uint64_t first_us, uint64_t last_us)
{
    static const uint32_t widths_s[] = { 1,     2,     5,     10,    15,     30,     60,
                                         120,   300,   600,   900,   1800,   3600,   7200,
                                         10800, 21600, 43200, 86400, 172800, 604800, 2592000 };
    const size_t last = sizeof widths_s / sizeof widths_s[0] - 1;
    for (size_t i = 0;; i++) {
        /* Longer ones than these are many of the last. */
        uint64_t times = i < last ? 1 : i - last + 1;
        tally->width_us = widths_s[i < last ? i : last] * times * SECOND_US;
        tally->first_us = first_us - first_us % tally->width_us;
        tally->time_count = (size_t)((last_us - tally->first_us) / tally->width_us) + 1;
        if (tally->time_count <= WEIR_TALLY_TIMES)
            return;
    }
}

static bool add_policy(struct weir_tally *tally, const struct weir_ruleset *ruleset)
{
    struct weir_tally_policy *policy = &tally->policies[tally->policy_count++];
    size_t count = ruleset == NULL ? 0 : ruleset->limit_count;
    policy->ruleset = ruleset;
    policy->limits = calloc(count + 1, sizeof policy->limits[0]);
    for (size_t i = 0; policy->limits != NULL && i < count; i++)
        policy->limits[i] =
            (struct weir_tally_limit){ .ruleset = ruleset, .limit = &ruleset->limits[i] };
    return policy->limits != NULL;
}

static bool add_policies(struct weir_tally *tally)
{
    const struct weir_policy *policy = tally->policy;
    tally->policies = calloc(policy->ruleset_count + 2, sizeof tally->policies[0]);
    bool is_added = tally->policies != NULL;
    for (size_t i = 0; is_added && i < policy->ruleset_count; i++)
        is_added = add_policy(tally, &policy->rulesets[i]);
    return is_added && add_policy(tally, &policy->guesses) && add_policy(tally, NULL);
}

struct weir_tally *weir_tally_new(const struct weir_policy *policy, uint64_t first_us,
                                  uint64_t last_us)
{
    struct weir_tally *tally = calloc(1, sizeof *tally);
    if (tally == NULL)
        return NULL;
    tally->policy = policy;
    tally->labels = weir_arena_new();
    tally->room = ROOM_FIRST;
    tally->keys = calloc(tally->room, sizeof tally->keys[0]);
    weir_hash_key(tally->hash_key);
    divide_time(tally, first_us, last_us);
    bool is_made = tally->labels != NULL && tally->keys != NULL && add_policies(tally);
    return is_made ? tally : weir_tally_free(tally);
}

struct weir_tally *weir_tally_free(struct weir_tally *tally)
{
    if (tally == NULL)
        return NULL;
    for (size_t i = 0; tally->keys != NULL && i < tally->room; i++)
        free(tally->keys[i].key);
    for (size_t i = 0; i < tally->policy_count; i++)
        free(tally->policies[i].limits);
    free(tally->keys);
    free(tally->policies);
    weir_arena_free(tally->labels);
    free(tally);
    return NULL;
}

/* keys */

static size_t place_of(const struct weir_tally_place *places, size_t room, uint64_t hash,
                       struct weir_text text)
{
    size_t at = (size_t)hash & (room - 1);
    while (places[at].key != NULL
           && !(places[at].hash == hash && places[at].key->length == text.length
                && memcmp(places[at].key->bytes, text.at, text.length) == 0))
        at = (at + 1) & (room - 1);
    return at;
}

static bool grow(struct weir_tally *tally)
{
    size_t room = tally->room * 2;
    struct weir_tally_place *places = calloc(room, sizeof *places);
    if (places == NULL)
        return false;
    for (size_t i = 0; i < tally->room; i++) {
        if (tally->keys[i].key == NULL)
            continue;
        size_t at = (size_t)tally->keys[i].hash & (room - 1);
        while (places[at].key != NULL)
            at = (at + 1) & (room - 1);
        places[at] = tally->keys[i];
    }
    free(tally->keys);
    tally->keys = places;
    tally->room = room;
    return true;
}

/* The key, which is made if it is new; NULL: memory ran out. */
static struct weir_tally_key *find_key(struct weir_tally *tally, struct weir_text text)
{
    uint64_t hash = weir_hash64(text, tally->hash_key);
    size_t at = place_of(tally->keys, tally->room, hash, text);
    if (tally->keys[at].key != NULL)
        return tally->keys[at].key;
    if (tally->key_count + 1 > tally->room / 2) {
        if (!grow(tally))
            return NULL;
        at = place_of(tally->keys, tally->room, hash, text);
    }
    struct weir_tally_key *key = malloc(sizeof *key + text.length);
    if (key == NULL)
        return NULL;
    *key = (struct weir_tally_key){ .length = text.length };
    memcpy(key->bytes, text.at, text.length);
    tally->keys[at] = (struct weir_tally_place){ hash, key };
    tally->key_count++;
    return key;
}

/* counting */

static void add(struct weir_tally_count *count, enum weir_outcome outcome)
{
    count->requests++;
    count->refused += weir_is_refused(outcome);
    count->watched += outcome == WEIR_SHADOW_LIMITED;
}

/* Somebody is refused here. False: memory ran out. */
static bool note_refusal(struct weir_tally *tally, struct weir_tally_key *key, uint64_t time_us,
                         const struct weir_replayed *replayed)
{
    if (key->label == NULL) {
        const char *label = replayed->key[0] != '\0' ? replayed->key : replayed->client;
        key->label = weir_arena_copy(tally->labels, weir_text_from(label));
        key->policy = replayed->policy;
        key->limit = replayed->limit;
        key->outcome = replayed->would;
        key->first_us = time_us;
    }
    key->last_us = time_us;
    if (replayed->retry_s > key->retry_most_s)
        key->retry_most_s = replayed->retry_s;
    return key->label != NULL;
}

/* Says whether it is this limit that has refused. False: memory ran out. */
static bool count_limit(struct weir_tally *tally, struct weir_tally_limit *limit,
                        struct weir_text text, uint64_t time_us,
                        const struct weir_replayed *replayed, bool *has_refused)
{
    struct weir_tally_key *key = find_key(tally, text);
    if (key == NULL)
        return false;
    *has_refused = replayed->limit != NULL && strcmp(limit->limit->name, replayed->limit) == 0
                   && strcmp(limit->ruleset->name, replayed->policy) == 0;
    enum weir_outcome outcome = *has_refused ? replayed->outcome : WEIR_ALLOWED;
    limit->keys += key->count.requests == 0;
    limit->refused_keys += *has_refused && key->label == NULL;
    add(&limit->count, outcome);
    add(&key->count, outcome);
    return !*has_refused || note_refusal(tally, key, time_us, replayed);
}

/* A client that was refused, but not by a limit. */
static bool count_client(struct weir_tally *tally, uint64_t time_us,
                         const struct weir_replayed *replayed)
{
    char memory[WEIR_KEY_LABEL_CHARS + 512];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_string(&text, weir_outcome_name(replayed->would));
    weir_buffer_put(&text, (struct weir_text){ "", 1 });
    weir_buffer_put_string(&text, replayed->client);
    weir_buffer_put(&text, (struct weir_text){ "", 1 });
    weir_buffer_put_string(&text, replayed->policy == NULL ? "" : replayed->policy);
    struct weir_tally_key *key = find_key(tally, weir_buffer_text(&text));
    if (key == NULL)
        return false;
    add(&key->count, replayed->outcome);
    return note_refusal(tally, key, time_us, replayed);
}

static struct weir_tally_policy *policy_of(struct weir_tally *tally,
                                           const struct weir_ruleset *ruleset)
{
    const struct weir_policy *policy = tally->policy;
    if (ruleset == NULL)
        return &tally->policies[policy->ruleset_count + 1];
    if (ruleset == &policy->guesses)
        return &tally->policies[policy->ruleset_count];
    return &tally->policies[ruleset - policy->rulesets];
}

/* What became of it at each limit that it met, or without one. */
static bool count_keys(struct weir_tally *tally, struct weir_tally_policy *policy, uint64_t time_us,
                       const struct weir_replayed *replayed)
{
    bool is_told = replayed->outcome == WEIR_ALLOWED || replayed->outcome == WEIR_FAILED_OPEN;
    for (size_t i = 0; i < replayed->asked_count; i++) {
        const struct weir_limit_rule *rule = replayed->asked[i].limit;
        struct weir_tally_limit *limit = &policy->limits[rule - replayed->ruleset->limits];
        bool has_refused = false;
        if (!count_limit(tally, limit, replayed->asked[i].key, time_us, replayed, &has_refused))
            return false;
        is_told = is_told || has_refused;
    }
    return is_told || count_client(tally, time_us, replayed);
}

bool weir_tally_add(struct weir_tally *tally, uint64_t time_us, unsigned status,
                    const struct weir_replayed *replayed)
{
    struct weir_tally_policy *policy = policy_of(tally, replayed->ruleset);
    add(&tally->all, replayed->outcome);
    add(&policy->count, replayed->outcome);
    add(&tally->times[(time_us - tally->first_us) / tally->width_us], replayed->outcome);
    tally->outcomes[replayed->outcome]++;
    tally->turned_away += status == 429;
    return count_keys(tally, policy, time_us, replayed);
}

/* the most */

static int compare(const void *one, const void *other)
{
    const struct weir_tally_key *const *first = one, *const *second = other;
    const struct weir_tally_count *ours = &(*first)->count, *theirs = &(*second)->count;
    if (ours->refused != theirs->refused)
        return ours->refused > theirs->refused ? -1 : 1;
    if (ours->watched != theirs->watched)
        return ours->watched > theirs->watched ? -1 : 1;
    if ((*first)->first_us != (*second)->first_us)
        return (*first)->first_us < (*second)->first_us ? -1 : 1;
    return strcmp((*first)->label, (*second)->label);
}

const struct weir_tally_key **weir_tally_top(const struct weir_tally *tally, size_t *count)
{
    const struct weir_tally_key **top = calloc(tally->key_count + 1, sizeof(top[0]));
    *count = 0;
    if (top == NULL)
        return NULL;
    for (size_t i = 0; i < tally->room; i++)
        if (tally->keys[i].key != NULL && tally->keys[i].key->label != NULL)
            top[(*count)++] = tally->keys[i].key;
    qsort(top, *count, sizeof(top[0]), compare);
    return top;
}
