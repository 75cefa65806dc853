#include "store/redis_split.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "store/redis_shape.h"
#include "store/redis_slot.h"

enum phase {
    SPENDING, /* part after part                                    */
    LOOKING,  /* one has refused, and the others say what they hold */
    CHANGING  /* no decision: all parts at once                     */
};

/* The limits of one slot. */
struct part {
    struct weir_redis_split *split;
    size_t first; /* in the split's arrays */
    size_t count;
    struct weir_check check; /* what is asked now                                   */
    struct weir_check back;  /* what gives back                                     */
    bool is_spent;           /* let through, and not given back                     */
    bool would_pass;         /* let through once, given back or not                 */
    bool is_known;           /* `answers` hold                                      */
    bool is_under_way;       /* `check` is; under the mutex                         */
    unsigned submitting;     /* threads that are about to hand it over; likewise    */
};

/* A check, in memory of its own: to give back may take longer than the check lives. What is not under
 * the mutex belongs to whoever asks the next part, one thread at a time. */
struct weir_redis_split {
    struct weir_redis_splits *splits;
    struct weir_check *outer;
    uint64_t deadline_us;
    enum phase phase;
    size_t at;      /* the part that is asked */
    size_t refused; /* LOOKING: the one that refused */

    /* under the mutex */
    struct weir_redis_split *next, *previous;
    unsigned holders; /* the check until it is done, what gives back, and threads */
    bool is_cancelled;
    bool is_ending; /* `done` is called, by: */
    pthread_t ending_thread;
    unsigned backs_left; /* under way                                */
    bool looks_then;     /* when none is left                        */
    size_t left; /* CHANGING: parts that are not done, and the worst that came of the others: */
    enum weir_store_result result;
    char why[sizeof((struct weir_check *)NULL)->why];

    struct part parts[WEIR_CHECK_LIMITS];
    size_t part_count;
    uint8_t places[WEIR_CHECK_LIMITS]; /* where each of these stands in the check, `outer` */
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_spend looks[WEIR_CHECK_LIMITS];
    struct weir_spend backs[WEIR_CHECK_LIMITS];
    struct weir_answer answers[WEIR_CHECK_LIMITS];
    struct weir_answer looked[WEIR_CHECK_LIMITS];
    char keys[];
};

/* slots */

static void find_slots(const struct weir_check *check, unsigned slots[WEIR_CHECK_LIMITS])
{
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    for (size_t i = 0; i < check->count; i++)
        slots[i] = weir_redis_slot(plan.keys[plan.shape.key_of[i]]);
}

static bool share_slot(struct weir_text one, struct weir_text other)
{
    return weir_text_equal(weir_redis_slot_text(one), weir_redis_slot_text(other))
           || weir_redis_slot(one) == weir_redis_slot(other);
}

bool weir_redis_is_split(const struct weir_check *check)
{
    if (check->count < 2)
        return false;
    struct weir_redis_plan plan;
    weir_redis_plan_make(&plan, check);
    for (size_t i = 1; i < plan.shape.key_count; i++)
        if (!share_slot(plan.keys[0], plan.keys[i]))
            return true;
    return false;
}

/* memory */

static void link_in(struct weir_redis_split *split)
{
    struct weir_redis_splits *splits = split->splits;
    pthread_mutex_lock(&splits->mutex);
    split->holders = 1;
    split->next = splits->first;
    if (splits->first != NULL)
        splits->first->previous = split;
    splits->first = split;
    splits->count++;
    pthread_mutex_unlock(&splits->mutex);
}

/* Under the mutex. */
static void take_out(struct weir_redis_split *split)
{
    struct weir_redis_splits *splits = split->splits;
    if (split->previous == NULL)
        splits->first = split->next;
    else
        split->previous->next = split->next;
    if (split->next != NULL)
        split->next->previous = split->previous;
    pthread_cond_broadcast(&splits->ended);
}

static void hold(struct weir_redis_split *split)
{
    pthread_mutex_lock(&split->splits->mutex);
    split->holders++;
    pthread_mutex_unlock(&split->splits->mutex);
}

/* Under the mutex. */
static void let_go(struct weir_redis_split *split)
{
    struct weir_redis_splits *splits = split->splits;
    if (--split->holders > 0)
        return;
    free(split);
    splits->count--;
    pthread_cond_broadcast(&splits->ended);
}

static void release(struct weir_redis_split *split)
{
    pthread_mutex_t *mutex = &split->splits->mutex;
    pthread_mutex_lock(mutex);
    let_go(split);
    pthread_mutex_unlock(mutex);
}

static size_t key_bytes(const struct weir_check *check)
{
    size_t bytes = 0;
    for (size_t i = 0; i < check->count; i++)
        bytes += check->spends[i].key_length;
    return bytes;
}

static void copy_spends(struct weir_redis_split *split)
{
    char *key = split->keys;
    for (size_t i = 0; i < split->outer->count; i++) {
        struct weir_spend *spend = &split->spends[i];
        *spend = split->outer->spends[split->places[i]];
        memcpy(key, spend->key, spend->key_length);
        spend->key = key;
        key += spend->key_length;
        split->looks[i] = *spend;
        split->looks[i].cost = 0;
    }
}

/* By slot, and in a slot as they stood: what follows its limit keeps following it. */
static void sort_by_slot(struct weir_redis_split *split, const unsigned slots[WEIR_CHECK_LIMITS])
{
    for (size_t i = 0; i < split->outer->count; i++) {
        size_t at = i;
        for (; at > 0 && slots[split->places[at - 1]] > slots[i]; at--)
            split->places[at] = split->places[at - 1];
        split->places[at] = (uint8_t)i;
    }
}

static void on_part_done(struct weir_check *check);

static void make_parts(struct weir_redis_split *split, const unsigned slots[WEIR_CHECK_LIMITS])
{
    for (size_t i = 0; i < split->outer->count; i++) {
        bool is_new = i == 0 || slots[split->places[i]] != slots[split->places[i - 1]];
        if (is_new)
            split->parts[split->part_count++] = (struct part){ .split = split, .first = i };
        split->parts[split->part_count - 1].count++;
    }
}

static struct weir_redis_split *make(struct weir_redis_splits *splits, struct weir_check *check,
                                     uint64_t deadline_us)
{
    struct weir_redis_split *split = calloc(1, sizeof *split + key_bytes(check));
    if (split == NULL)
        return NULL;
    split->splits = splits;
    split->outer = check;
    split->deadline_us = deadline_us;
    unsigned slots[WEIR_CHECK_LIMITS];
    find_slots(check, slots);
    sort_by_slot(split, slots);
    make_parts(split, slots);
    copy_spends(split);
    link_in(split);
    return split;
}

/* the end */

static void end_check(struct weir_check *check, enum weir_store_result result, const char *why)
{
    check->result = result;
    snprintf(check->why, sizeof check->why, "%s", why);
    check->done(check);
}

static void end(struct weir_redis_split *split, enum weir_store_result result, const char *why)
{
    pthread_mutex_t *mutex = &split->splits->mutex;
    pthread_mutex_lock(mutex);
    split->is_ending = true;
    split->ending_thread = pthread_self();
    pthread_mutex_unlock(mutex);
    end_check(split->outer, result, why);
    pthread_mutex_lock(mutex);
    take_out(split);
    let_go(split);
    pthread_mutex_unlock(mutex);
}

static void end_answered(struct weir_redis_split *split, uint64_t now_us)
{
    static const struct weir_answer unknown = { .allowed = true };
    struct weir_check *outer = split->outer;
    for (size_t i = 0; i < split->part_count; i++) {
        const struct part *part = &split->parts[i];
        for (size_t at = part->first; at < part->first + part->count; at++)
            outer->answers[split->places[at]] = part->is_known ? split->answers[at] : unknown;
    }
    outer->now_us = now_us;
    end(split, WEIR_STORE_ANSWERED, "");
}

/* giving back */

static void look_on(struct weir_redis_split *split);

/* Whether what was given back last is what the looks have waited for. Under the mutex. */
static bool may_look_now(struct weir_redis_split *split)
{
    bool may = split->looks_then && split->backs_left == 0;
    split->looks_then = split->looks_then && !may;
    return may;
}

static void on_given_back(struct weir_check *back)
{
    struct weir_redis_split *split = back->owner;
    pthread_mutex_lock(&split->splits->mutex);
    split->backs_left--;
    bool looks = may_look_now(split);
    pthread_mutex_unlock(&split->splits->mutex);
    if (looks)
        look_on(split);
    release(split);
}

/* Redis may have to ask for a script first, so a look that is sent after may still come before. */
static void look_when_given_back(struct weir_redis_split *split)
{
    pthread_mutex_lock(&split->splits->mutex);
    split->looks_then = true;
    bool looks = may_look_now(split);
    pthread_mutex_unlock(&split->splits->mutex);
    if (looks)
        look_on(split);
}

static void hold_for_back(struct weir_redis_split *split)
{
    pthread_mutex_lock(&split->splits->mutex);
    split->holders++;
    split->backs_left++;
    pthread_mutex_unlock(&split->splits->mutex);
}

static void give_back(struct part *part, uint64_t deadline_us)
{
    struct weir_redis_split *split = part->split;
    struct weir_spend *backs = &split->backs[part->first];
    size_t count = 0;
    for (size_t i = part->first; i < part->first + part->count; i++) {
        if (split->spends[i].cost == 0 || split->spends[i].penalty != NULL)
            continue;
        backs[count] = split->looks[i];
        backs[count].reserved = split->spends[i].cost;
        backs[count].decided_us = part->check.now_us;
        backs[count++].full_us = part->check.now_us + split->answers[i].reset_us;
    }
    part->is_spent = false;
    if (count == 0)
        return;
    part->back = (struct weir_check){ .operation = WEIR_SETTLE,
                                      .spends = backs,
                                      .count = count,
                                      .done = on_given_back,
                                      .owner = split };
    const struct weir_redis_splits_inner *inner = &split->splits->inner;
    hold_for_back(split);
    inner->submit(inner->self, &part->back, deadline_us);
}

static void give_all_back(struct weir_redis_split *split, uint64_t deadline_us)
{
    for (size_t i = 0; i < split->part_count; i++)
        if (split->parts[i].is_spent)
            give_back(&split->parts[i], deadline_us);
}

/* For what nobody waits for. */
static uint64_t later_us(const struct weir_redis_split *split)
{
    return weir_monotonic_us() + split->splits->inner.timeout_us;
}

static void fail(struct weir_redis_split *split, enum weir_store_result result, const char *why)
{
    give_all_back(split, later_us(split));
    end(split, result, why);
}

/* asking a part */

/* Under the mutex. Somebody who is about to hand the part over will see the same. */
static bool must_be_cancelled(const struct part *part)
{
    return part->split->is_cancelled && part->is_under_way && part->submitting == 0;
}

static bool begin_to_submit(struct part *part)
{
    struct weir_redis_split *split = part->split;
    pthread_mutex_lock(&split->splits->mutex);
    bool may = !split->is_cancelled;
    if (may) {
        part->is_under_way = true;
        part->submitting++;
        split->holders++;
    }
    pthread_mutex_unlock(&split->splits->mutex);
    return may;
}

/* False: the whole check is cancelled. Else the part may be done, and all of it, before this
 * returns. */
static bool ask(struct part *part, enum weir_operation operation, const struct weir_spend *spends,
                struct weir_answer *answers)
{
    struct weir_redis_split *split = part->split;
    pthread_mutex_t *mutex = &split->splits->mutex;
    const struct weir_redis_splits_inner *inner = &split->splits->inner;
    if (!begin_to_submit(part))
        return false;
    part->check = (struct weir_check){ .operation = operation,
                                       .wants_time = true,
                                       .spends = spends,
                                       .answers = answers,
                                       .count = part->count,
                                       .block_us = split->outer->block_us,
                                       .done = on_part_done,
                                       .owner = part };
    inner->submit(inner->self, &part->check, split->deadline_us);
    pthread_mutex_lock(mutex);
    part->submitting--;
    bool must_cancel = must_be_cancelled(part);
    pthread_mutex_unlock(mutex);
    if (must_cancel)
        inner->cancel(inner->self, &part->check);
    release(split);
    return true;
}

static void ask_or_fail(struct part *part, const struct weir_spend *spends,
                        struct weir_answer *answers)
{
    if (!ask(part, WEIR_SPEND, &spends[part->first], &answers[part->first]))
        fail(part->split, WEIR_STORE_CANCELLED, "cancelled");
}

static void ask_to_spend(struct part *part)
{
    ask_or_fail(part, part->split->spends, part->split->answers);
}

static void ask_to_look(struct part *part)
{
    ask_or_fail(part, part->split->looks, part->split->looked);
}

/* what the others hold, once one has refused */

static bool all_allowed(const struct part *part)
{
    const struct weir_answer *answers = &part->split->answers[part->first];
    for (size_t i = 0; i < part->count; i++)
        if (!answers[i].allowed)
            return false;
    return true;
}

static void end_refused(struct weir_redis_split *split)
{
    end_answered(split, split->parts[split->refused].check.now_us);
}

static void look_on(struct weir_redis_split *split)
{
    if (split->at == split->refused)
        split->at++;
    if (split->at < split->part_count)
        ask_to_look(&split->parts[split->at]);
    else
        end_refused(split);
}

/* Whether a part holds less than what is asked of it: then only a spending tells how long to wait. */
static bool is_short(const struct part *part)
{
    const struct weir_redis_split *split = part->split;
    for (size_t i = part->first; i < part->first + part->count; i++)
        if (split->spends[i].cost > split->looked[i].remaining)
            return true;
    return false;
}

static void on_looked(struct part *part)
{
    struct weir_redis_split *split = part->split;
    if (!part->would_pass && is_short(part)) {
        ask_to_spend(part);
        return;
    }
    for (size_t i = part->first; i < part->first + part->count; i++)
        split->answers[i] = split->looked[i];
    part->is_known = true;
    split->at++;
    look_on(split);
}

static void on_spent_after_all(struct part *part)
{
    struct weir_redis_split *split = part->split;
    if (all_allowed(part)) {
        part->would_pass = true;
        give_back(part, split->deadline_us);
        look_when_given_back(split);
        return;
    }
    part->is_known = true;
    split->at++;
    look_on(split);
}

static void on_part_looked(struct part *part)
{
    struct weir_redis_split *split = part->split;
    if (part->check.result != WEIR_STORE_ANSWERED)
        end_refused(split);
    else if (part->check.answers == &split->looked[part->first])
        on_looked(part);
    else
        on_spent_after_all(part);
}

/* spending */

/* Each part has been decided by its own server's time. */
static void tell_times(struct weir_redis_split *split, uint64_t now_us)
{
    for (size_t i = 0; i < split->part_count; i++) {
        const struct part *part = &split->parts[i];
        for (size_t at = part->first; at < part->first + part->count; at++)
            split->answers[at].after_us = part->check.now_us - now_us;
    }
}

static uint64_t earliest_us(const struct weir_redis_split *split)
{
    uint64_t now_us = UINT64_MAX;
    for (size_t i = 0; i < split->part_count; i++)
        if (split->parts[i].check.now_us < now_us)
            now_us = split->parts[i].check.now_us;
    return now_us;
}

/* What is given back before the looks has no more time than they have: there must be some left. */
static bool has_time_to_look(const struct weir_redis_split *split)
{
    return weir_monotonic_us() + split->splits->inner.timeout_us / 4 <= split->deadline_us;
}

static void on_refused(struct weir_redis_split *split)
{
    for (size_t i = 0; i < split->at; i++)
        split->parts[i].is_known = false;
    split->refused = split->at;
    if (!has_time_to_look(split)) {
        give_all_back(split, later_us(split));
        end_refused(split);
        return;
    }
    split->phase = LOOKING;
    split->at = 0;
    give_all_back(split, split->deadline_us);
    look_when_given_back(split);
}

static void on_part_spent(struct part *part)
{
    struct weir_redis_split *split = part->split;
    if (part->check.result != WEIR_STORE_ANSWERED) {
        fail(split, part->check.result, part->check.why);
        return;
    }
    part->is_known = true;
    if (!all_allowed(part)) {
        on_refused(split);
        return;
    }
    part->is_spent = part->would_pass = true;
    if (++split->at < split->part_count) {
        ask_to_spend(&split->parts[split->at]);
        return;
    }
    uint64_t now_us = earliest_us(split);
    tell_times(split, now_us);
    end_answered(split, now_us);
}

/* changing */

static void on_part_changed(struct part *part, enum weir_store_result result, const char *why)
{
    struct weir_redis_split *split = part->split;
    pthread_mutex_lock(&split->splits->mutex);
    bool is_worse = result > split->result;
    if (is_worse) {
        split->result = result;
        snprintf(split->why, sizeof split->why, "%s", why);
    }
    bool is_last = --split->left == 0;
    pthread_mutex_unlock(&split->splits->mutex);
    if (is_last)
        end(split, split->result, split->why);
}

static void change_all(struct weir_redis_split *split)
{
    enum weir_operation operation = split->outer->operation;
    split->phase = CHANGING;
    split->result = WEIR_STORE_ANSWERED;
    split->left = split->part_count;
    hold(split);
    for (size_t i = 0; i < split->part_count; i++)
        if (!ask(&split->parts[i], operation, &split->spends[split->parts[i].first], NULL))
            on_part_changed(&split->parts[i], WEIR_STORE_CANCELLED, "cancelled");
    release(split);
}

/* all of it */

static void on_part_done(struct weir_check *check)
{
    struct part *part = check->owner;
    struct weir_redis_split *split = part->split;
    pthread_mutex_lock(&split->splits->mutex);
    part->is_under_way = false;
    pthread_mutex_unlock(&split->splits->mutex);
    switch (split->phase) {
    case SPENDING:
        on_part_spent(part);
        return;
    case LOOKING:
        on_part_looked(part);
        return;
    case CHANGING:
        on_part_changed(part, check->result, check->why);
        return;
    }
}

/* What one shard cannot decide is not begun with another. */
static bool all_ready(const struct weir_redis_splits *splits, const struct weir_check *check)
{
    unsigned slots[WEIR_CHECK_LIMITS];
    find_slots(check, slots);
    for (size_t i = 0; i < check->count; i++)
        if (!splits->inner.is_ready(splits->inner.self, slots[i]))
            return false;
    return true;
}

void weir_redis_split_submit(struct weir_redis_splits *splits, struct weir_check *check,
                             uint64_t deadline_us)
{
    bool spends = check->operation == WEIR_SPEND;
    if (spends && !all_ready(splits, check)) {
        end_check(check, WEIR_STORE_UNAVAILABLE, "not connected");
        return;
    }
    struct weir_redis_split *split = make(splits, check, deadline_us);
    if (split == NULL)
        end_check(check, WEIR_STORE_ERROR, "out of memory");
    else if (spends)
        ask_to_spend(&split->parts[0]);
    else
        change_all(split);
}

/* cancelling */

/* Under the mutex, which is let go in between. */
static void cancel(struct weir_redis_split *split)
{
    struct weir_redis_splits *splits = split->splits;
    bool would_look = split->looks_then;
    split->is_cancelled = true;
    split->looks_then = false;
    split->holders++;
    if (would_look) {
        pthread_mutex_unlock(&splits->mutex);
        fail(split, WEIR_STORE_CANCELLED, "cancelled");
        pthread_mutex_lock(&splits->mutex);
    }
    for (size_t i = 0; i < split->part_count; i++) {
        if (!must_be_cancelled(&split->parts[i]))
            continue;
        pthread_mutex_unlock(&splits->mutex);
        splits->inner.cancel(splits->inner.self, &split->parts[i].check);
        pthread_mutex_lock(&splits->mutex);
    }
    let_go(split);
}

static bool is_ending_here(const struct weir_redis_split *split)
{
    return split->is_ending && pthread_equal(split->ending_thread, pthread_self()) != 0;
}

/* Under the mutex. One that calls `done` right here has ended as far as this thread can tell. */
static struct weir_redis_split *find(const struct weir_redis_splits *splits,
                                     const struct weir_check *check)
{
    struct weir_redis_split *split = splits->first;
    while (split != NULL && (split->outer != check || is_ending_here(split)))
        split = split->next;
    return split;
}

bool weir_redis_split_cancel(struct weir_redis_splits *splits, struct weir_check *check)
{
    struct weir_redis_split *split;
    bool was_found = false;
    pthread_mutex_lock(&splits->mutex);
    while ((split = find(splits, check)) != NULL) {
        was_found = true;
        if (split->is_cancelled || split->is_ending)
            pthread_cond_wait(&splits->ended, &splits->mutex);
        else
            cancel(split);
    }
    pthread_mutex_unlock(&splits->mutex);
    return was_found;
}

/* making and closing */

bool weir_redis_splits_init(struct weir_redis_splits *splits,
                            const struct weir_redis_splits_inner *inner)
{
    *splits = (struct weir_redis_splits){ .inner = *inner };
    if (pthread_mutex_init(&splits->mutex, NULL) != 0)
        return false;
    if (pthread_cond_init(&splits->ended, NULL) == 0)
        return true;
    pthread_mutex_destroy(&splits->mutex);
    return false;
}

void weir_redis_splits_close(struct weir_redis_splits *splits)
{
    pthread_mutex_lock(&splits->mutex);
    while (splits->count > 0) {
        struct weir_redis_split *split = splits->first;
        while (split != NULL && (split->is_cancelled || split->is_ending))
            split = split->next;
        if (split != NULL)
            cancel(split);
        else
            pthread_cond_wait(&splits->ended, &splits->mutex);
    }
    pthread_mutex_unlock(&splits->mutex);
}

void weir_redis_splits_finish(struct weir_redis_splits *splits)
{
    pthread_cond_destroy(&splits->ended);
    pthread_mutex_destroy(&splits->mutex);
}
