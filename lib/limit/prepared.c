#include "limit/prepared.h"

#include <stdlib.h>

#include "limit/algorithm.h"

/* one ruleset */

/* Ends a text that began at `start`; at NULL: it did not fit. */
static struct weir_text text_since(const struct weir_buffer *texts, size_t start)
{
    if (texts->full)
        return (struct weir_text){ NULL, 0 };
    return (struct weir_text){ texts->at + start, texts->length - start };
}

static void prepare_slot(struct weir_prepared *prepared, const struct weir_policy *policy,
                         const struct weir_ruleset *ruleset, struct weir_buffer *texts)
{
    size_t start = texts->length;
    weir_buffer_put_string(texts, policy->store_prefix);
    weir_buffer_put_string(texts, ":{");
    prepared->after = WEIR_TEXT("");
    if (ruleset->slot_is_identity) {
        prepared->before = text_since(texts, start);
        start = texts->length;
    } else {
        weir_buffer_put_string(texts, ruleset->name);
    }
    weir_buffer_put_string(texts, "}:");
    weir_buffer_put_string(texts, ruleset->name);
    if (ruleset->slot_is_identity)
        prepared->after = text_since(texts, start);
    else
        prepared->before = text_since(texts, start);
}

/* What makes the sum another one: a counter of another window counts other units, and two plans at
 * once, or two versions of a file, would each undo what the other has written. */
static void put_kind(struct weir_buffer *texts, const struct weir_limit_rule *limit,
                     const struct weir_limit_numbers *numbers)
{
    weir_buffer_put_string(texts, weir_algorithm_tag(limit->algorithm));
    if (limit->algorithm == WEIR_FIXED_WINDOW || limit->algorithm == WEIR_SLIDING_COUNTER) {
        weir_buffer_put_char(texts, '-');
        weir_buffer_put_number(texts, numbers->rate.window_us / 1000);
        weir_buffer_put_string(texts, "ms");
    }
    if (numbers->plan != NULL) {
        weir_buffer_put_char(texts, '@');
        weir_buffer_put_string(texts, numbers->plan);
    }
}

static void put_tail(struct weir_buffer *texts, const struct weir_limit_rule *limit,
                     const struct weir_limit_numbers *numbers)
{
    weir_buffer_put_char(texts, ':');
    weir_buffer_put_string(texts, limit->name);
    weir_buffer_put_char(texts, ':');
    put_kind(texts, limit, numbers);
}

/* A penalty's name is that of its limit, and what no subject begins with. */
static void prepare_tails(struct weir_prepared_limit *prepared, const struct weir_limit_rule *limit,
                          const struct weir_limit_numbers *numbers, struct weir_buffer *texts)
{
    size_t start = texts->length;
    put_tail(texts, limit, numbers);
    prepared->tail = text_since(texts, start);
    if (limit->penalty == NULL)
        return;
    start = texts->length;
    put_tail(texts, limit, numbers);
    weir_buffer_put_char(texts, ':');
    weir_buffer_put_string(texts, weir_algorithm_tag(WEIR_PENALTY));
    prepared->penalty_tail = text_since(texts, start);
}

static void prepare_limit(struct weir_prepared_limit *prepared, const struct weir_limit_rule *limit,
                          const struct weir_plan *plan, struct weir_buffer *texts)
{
    struct weir_limit_numbers numbers;
    *prepared = (struct weir_prepared_limit){ .limits = weir_limit_rate_in(limit, plan, &numbers) };
    if (!prepared->limits)
        return;
    prepared->spend = (struct weir_spend){ .algorithm = limit->algorithm,
                                           .from_first = limit->from_first,
                                           .logs_refusals = limit->logs_refusals,
                                           .rate = numbers.rate,
                                           .calendar = numbers.calendar,
                                           .max_wait_us = limit->max_wait_us,
                                           .lease = limit->lease };
    prepare_tails(prepared, limit, &numbers, texts);
}

bool weir_prepare(struct weir_prepared *prepared, const struct weir_policy *policy,
                  const struct weir_ruleset *ruleset, const struct weir_plan *plan,
                  struct weir_buffer *texts)
{
    prepare_slot(prepared, policy, ruleset, texts);
    for (size_t i = 0; i < ruleset->limit_count; i++)
        prepare_limit(&prepared->limits[i], &ruleset->limits[i], plan, texts);
    return !texts->full;
}

/* all of a file */

/* One ruleset: for all plans alike, or for each of the policy's. */
struct entry {
    struct weir_prepared *plans; /* NULL: it is prepared for each request */
    size_t count;
    bool is_by_plan;
};

struct weir_prepared_set {
    const struct weir_policy *policy;
    struct weir_arena *arena;
    struct entry *entries; /* beside the policy's rulesets */
};

/* A file with very many plans and policies has more combinations than are worth the memory. */
#define PREPARED_MAX 2048

static bool is_by_plan(const struct weir_ruleset *ruleset)
{
    for (size_t i = 0; i < ruleset->limit_count; i++)
        if (ruleset->limits[i].source == WEIR_RATE_PLAN)
            return true;
    return false;
}

static bool copy_text(struct weir_arena *arena, struct weir_text *text)
{
    if (text->at == NULL)
        return true;
    text->at = weir_arena_copy(arena, *text);
    return text->at != NULL;
}

/* Prepares with texts that last. */
static bool prepare_to_keep(struct weir_prepared_set *set, const struct weir_ruleset *ruleset,
                            const struct weir_plan *plan, struct weir_prepared *prepared)
{
    char memory[WEIR_PREPARED_BYTES];
    struct weir_buffer texts = weir_buffer_init(memory, sizeof memory);
    if (!weir_prepare(prepared, set->policy, ruleset, plan, &texts))
        return false;
    bool is_kept =
        copy_text(set->arena, &prepared->before) && copy_text(set->arena, &prepared->after);
    for (size_t i = 0; i < ruleset->limit_count && is_kept; i++)
        is_kept = copy_text(set->arena, &prepared->limits[i].tail)
                  && copy_text(set->arena, &prepared->limits[i].penalty_tail);
    return is_kept;
}

static bool prepare_entry(struct weir_prepared_set *set, const struct weir_ruleset *ruleset,
                          struct entry *entry)
{
    entry->plans = weir_arena_array(set->arena, entry->count, sizeof *entry->plans);
    if (entry->plans == NULL)
        return false;
    for (size_t i = 0; i < entry->count; i++) {
        const struct weir_plan *plan = entry->is_by_plan ? &set->policy->plans[i] : NULL;
        if (!prepare_to_keep(set, ruleset, plan, &entry->plans[i]))
            return false;
    }
    return true;
}

static bool prepare_all(struct weir_prepared_set *set)
{
    const struct weir_policy *policy = set->policy;
    size_t left = PREPARED_MAX;
    for (size_t i = 0; i < policy->ruleset_count; i++) {
        const struct weir_ruleset *ruleset = &policy->rulesets[i];
        struct entry *entry = &set->entries[i];
        entry->is_by_plan = policy->plan_count > 0 && is_by_plan(ruleset);
        entry->count = entry->is_by_plan ? policy->plan_count : 1;
        if (entry->count > left)
            continue;
        left -= entry->count;
        if (!prepare_entry(set, ruleset, entry))
            return false;
    }
    return true;
}

struct weir_prepared_set *weir_prepared_new(const struct weir_policy *policy)
{
    struct weir_prepared_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return NULL;
    set->policy = policy;
    set->arena = weir_arena_new();
    if (set->arena != NULL)
        set->entries = weir_arena_array(set->arena, policy->ruleset_count, sizeof *set->entries);
    return set->entries != NULL && prepare_all(set) ? set : weir_prepared_free(set);
}

struct weir_prepared_set *weir_prepared_free(struct weir_prepared_set *set)
{
    if (set != NULL)
        weir_arena_free(set->arena);
    free(set);
    return NULL;
}

const struct weir_prepared *weir_prepared_find(const struct weir_prepared_set *set,
                                               const struct weir_ruleset *ruleset,
                                               struct weir_text plan)
{
    if (set == NULL)
        return NULL;
    /* A ruleset that is not one of the file's, such as that for guesses, lies elsewhere. */
    size_t index =
        ((uintptr_t)ruleset - (uintptr_t)set->policy->rulesets) / sizeof *set->policy->rulesets;
    if (index >= set->policy->ruleset_count || set->entries[index].plans == NULL)
        return NULL;
    const struct entry *entry = &set->entries[index];
    return entry->is_by_plan ? &entry->plans[weir_policy_plan(set->policy, plan)->index]
                             : &entry->plans[0];
}

bool weir_prepared_each(struct weir_prepared_set *set,
                        bool (*each)(void *self, const struct weir_limit_rule *limit,
                                     struct weir_prepared_limit *prepared,
                                     struct weir_arena *arena),
                        void *self)
{
    for (size_t i = 0; i < set->policy->ruleset_count; i++) {
        const struct weir_ruleset *ruleset = &set->policy->rulesets[i];
        const struct entry *entry = &set->entries[i];
        for (size_t n = 0; entry->plans != NULL && n < entry->count * ruleset->limit_count; n++) {
            size_t limit = n % ruleset->limit_count;
            struct weir_prepared_limit *prepared =
                &entry->plans[n / ruleset->limit_count].limits[limit];
            if (prepared->limits && !each(self, &ruleset->limits[limit], prepared, set->arena))
                return false;
        }
    }
    return true;
}
