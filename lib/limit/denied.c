#include "limit/denied.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <weir/calendar.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "limit/algorithm.h"
#include "limit/combine.h"

#define SHARDS     64
#define BUCKETS    32 /* in each shard */
#define PLACES     8  /* in each bucket, which a plan may have any of */
#define KEY_TIMES  16384
#define RENEW_US   UINT64_C(100000)
#define NEVER_ENDS UINT64_MAX

/* An answer without what only matters to who is let through. */
struct kept_answer {
    uint64_t retry_us;
    uint64_t reset_us;
    uint32_t remaining;
    bool allowed;
    bool impossible;
};

struct denial {
    uint64_t hash;
    uint64_t asked_us; /* the store refused no earlier than this…                            */
    uint64_t noted_us; /* …and no later than this                                            */
    uint64_t ends_us;  /* who asks from here on may be let through…                          */
    uint64_t next_us;  /* …but one only in so long; 0: who knows                             */
    uint32_t key_time; /* where it is said when the key that it waits for was last relieved  */
    uint8_t worst;     /* the limit that it waits for                                        */
    uint8_t count;     /* of answers; 0: an empty place                                      */
    bool is_renewed;   /* somebody asks                                                      */
    struct kept_answer answers[WEIR_CHECK_LIMITS];
};

struct shard {
    _Alignas(64) pthread_mutex_t mutex;
    struct weir_denials_numbers numbers;
};

struct weir_denials {
    _Atomic uint64_t cap_us;
    _Atomic uint64_t renew_us; /* so long one asks for all */
    struct weir_clock clock;
    struct weir_clock wall_clock; /* where calendars say what day it is */
    uint8_t hash_key[WEIR_HASH_KEY_BYTES];
    _Atomic uint64_t latest_us;    /* no denial holds from here on: nothing need be hashed */
    _Atomic uint64_t forgotten_us; /* none that was asked for by then holds                */
    _Atomic uint64_t *key_times;   /* the same for the keys that hash to each of these     */
    struct denial *denials;        /* SHARDS times BUCKETS times PLACES                    */
    struct shard shards[SHARDS];
};

/* making them */

static uint64_t monotonic_us(void *self)
{
    (void)self;
    return weir_monotonic_us();
}

void weir_denials_set_cap(struct weir_denials *denials, uint64_t cap_us)
{
    atomic_store(&denials->cap_us, cap_us);
    atomic_store(&denials->renew_us, weir_earlier(cap_us, RENEW_US));
}

struct weir_denials *weir_denials_new(uint64_t cap_us, const struct weir_clock *clock)
{
    struct weir_denials *made = aligned_alloc(_Alignof(struct weir_denials), sizeof *made);
    if (made == NULL)
        return NULL;
    *made = (struct weir_denials){
        .clock = { .now_us = monotonic_us },
        .wall_clock = weir_clock_or_system(clock),
        .key_times = calloc(KEY_TIMES, sizeof *made->key_times),
        .denials = calloc((size_t)SHARDS * BUCKETS * PLACES, sizeof *made->denials),
    };
    if (clock != NULL && clock->now_us != NULL)
        made->clock = *clock;
    weir_denials_set_cap(made, cap_us);
    weir_hash_key(made->hash_key);
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_init(&made->shards[i].mutex,
                           NULL); /* cannot fail for a default one (glibc) */
    return made->key_times == NULL || made->denials == NULL ? weir_denials_free(made) : made;
}

struct weir_denials *weir_denials_free(struct weir_denials *denials)
{
    if (denials == NULL)
        return NULL;
    for (size_t i = 0; i < SHARDS; i++)
        pthread_mutex_destroy(&denials->shards[i].mutex);
    free(denials->denials);
    free(denials->key_times);
    free(denials);
    return NULL;
}

static void set_later(_Atomic uint64_t *time_us, uint64_t later_us)
{
    uint64_t was_us = atomic_load_explicit(time_us, memory_order_relaxed);
    while (was_us < later_us && !atomic_compare_exchange_weak(time_us, &was_us, later_us)) {
    }
}

/* finding one */

static void put_numbers(struct weir_buffer *bytes, const uint64_t *numbers, size_t count)
{
    weir_buffer_put(bytes, (struct weir_text){ (const char *)numbers, count * sizeof numbers[0] });
}

/* What a penalty says. */
static void put_penalty(struct weir_buffer *bytes, const struct weir_penalty *penalty)
{
    const uint64_t numbers[] = { penalty->after, penalty->ban_count, penalty->forget_us,
                                 penalty->extends };
    put_numbers(bytes, numbers, sizeof numbers / sizeof numbers[0]);
    put_numbers(bytes, penalty->bans_us, WEIR_BANS_MAX);
}

/* All that the store's answer depends on, but for the state that it keeps; nothing of it may be
 * mistaken for something else. It is by value, since what stood at an address may be another's soon: a
 * calendar is the window that it makes of today. */
static void put_spend(const struct weir_denials *denials, struct weir_buffer *bytes,
                      const struct weir_spend *spend)
{
    struct weir_window window = { 0, 0 };
    if (spend->calendar != NULL)
        window = weir_calendar_window(spend->calendar, weir_clock_now_us(&denials->wall_clock));
    const uint64_t numbers[] = {
        spend->algorithm,      spend->from_first,      spend->rate.limit,
        spend->rate.window_us, spend->rate.burst,      spend->max_wait_us,
        spend->cost,           window.start_us,        window.end_us,
        spend->key_length,     spend->penalty != NULL,
    };
    put_numbers(bytes, numbers, sizeof numbers / sizeof numbers[0]);
    if (spend->penalty != NULL)
        put_penalty(bytes, spend->penalty);
    weir_buffer_put(bytes, (struct weir_text){ spend->key, spend->key_length });
}

/* So many bytes are put for a spend, at most. */
#define SPEND_BYTES (WEIR_KEY_MAX + (15 + WEIR_BANS_MAX) * sizeof(uint64_t))

/* False: it is no plan that a store takes. */
static bool hash_plan(const struct weir_denials *denials, const struct weir_check *check,
                      uint64_t *hash)
{
    char memory[WEIR_CHECK_LIMITS * SPEND_BYTES + 1];
    struct weir_buffer bytes = weir_buffer_init(memory, sizeof memory);
    if (check->count == 0 || check->count > WEIR_CHECK_LIMITS)
        return false;
    for (size_t i = 0; i < check->count; i++)
        put_spend(denials, &bytes, &check->spends[i]);
    *hash = weir_hash64(weir_buffer_text(&bytes), denials->hash_key);
    return !bytes.full;
}

static uint32_t key_time_of(const struct weir_denials *denials, const struct weir_spend *spend)
{
    const struct weir_text key = { spend->key, spend->key_length };
    return (uint32_t)(weir_hash64(key, denials->hash_key) % KEY_TIMES);
}

static struct shard *shard_of(struct weir_denials *denials, uint64_t hash)
{
    return &denials->shards[hash % SHARDS];
}

static struct denial *bucket_of(const struct weir_denials *denials, uint64_t hash)
{
    size_t bucket = hash % SHARDS * BUCKETS + hash / SHARDS % BUCKETS;
    return &denials->denials[bucket * PLACES];
}

/* NULL: there is none, or it says nothing any more. */
static struct denial *find(const struct weir_denials *denials, uint64_t hash)
{
    struct denial *bucket = bucket_of(denials, hash);
    for (size_t i = 0; i < PLACES; i++)
        if (bucket[i].count > 0 && bucket[i].hash == hash)
            return &bucket[i];
    return NULL;
}

/* Whether an answer to what was asked then still says how things are, as far as this process knows. */
static bool is_true(struct weir_denials *denials, uint64_t asked_us, uint32_t key_time)
{
    uint64_t all_us = atomic_load_explicit(&denials->forgotten_us, memory_order_relaxed);
    uint64_t key_us = atomic_load_explicit(&denials->key_times[key_time], memory_order_relaxed);
    return asked_us > all_us && asked_us > key_us;
}

/* repeating it */

/* What the limit would say so much later, if nobody else had spent meanwhile. */
static struct weir_answer answer_after(const struct weir_spend *spend,
                                       const struct kept_answer *kept, uint64_t later_us)
{
    struct weir_answer answer = { .allowed = kept->allowed,
                                  .impossible = kept->impossible,
                                  .remaining = kept->remaining };
    if (kept->retry_us > later_us)
        answer.retry_us = kept->retry_us - later_us;
    if (kept->reset_us > later_us)
        answer.reset_us = kept->reset_us - later_us;
    if (kept->retry_us > 0 && answer.retry_us == 0) {
        answer.allowed = true; /* by this limit: another one goes on refusing */
        answer.remaining = spend->cost;
    }
    if (kept->reset_us > 0 && answer.reset_us == 0 && answer.retry_us == 0)
        answer.remaining = weir_capacity(spend);
    return answer;
}

static void repeat(const struct denial *denial, struct weir_check *check, uint64_t now_us)
{
    uint64_t later_us = now_us > denial->noted_us ? now_us - denial->noted_us : 0;
    for (size_t i = 0; i < check->count; i++) {
        struct kept_answer kept = denial->answers[i];
        if (i == denial->worst && now_us >= denial->ends_us) {
            kept.retry_us += denial->next_us; /* the one who asks is let through */
            kept.reset_us += denial->next_us;
        }
        check->answers[i] = answer_after(&check->spends[i], &kept, later_us);
    }
    check->result = WEIR_STORE_ANSWERED;
    check->now_us = 0;
}

/* Whether it says anything at all about this moment. */
static bool holds(struct weir_denials *denials, const struct denial *denial, uint64_t now_us)
{
    if (now_us < denial->asked_us || !is_true(denials, denial->asked_us, denial->key_time)
        || now_us - denial->asked_us >= denials->cap_us + denials->renew_us)
        return false;
    uint64_t alone_us = weir_earlier(denial->next_us, denials->renew_us);
    return now_us < denial->ends_us || now_us - denial->ends_us < alone_us;
}

/* Under the shard's lock: whether to refuse, or to ask, perhaps for all. */
static bool refuses(struct weir_denials *denials, struct denial *denial, uint64_t now_us,
                    struct weir_denial_question *question)
{
    if (denial == NULL || !holds(denials, denial, now_us))
        return false;
    if (now_us < denial->ends_us && now_us - denial->asked_us < denials->cap_us)
        return true;
    question->renews = !denial->is_renewed;
    question->hash = denial->hash;
    denial->is_renewed = true;
    return !question->renews;
}

bool weir_denials_replay(struct weir_denials *denials, struct weir_check *check,
                         struct weir_denial_question *question)
{
    uint64_t hash;
    *question = (struct weir_denial_question){ 0 };
    if (denials == NULL)
        return false;
    uint64_t now_us = weir_clock_now_us(&denials->clock);
    question->asked_us = now_us;
    if (now_us >= atomic_load_explicit(&denials->latest_us, memory_order_relaxed)
        || !hash_plan(denials, check, &hash))
        return false;

    struct shard *shard = shard_of(denials, hash);
    pthread_mutex_lock(&shard->mutex);
    struct denial *denial = find(denials, hash);
    bool is_denied = refuses(denials, denial, now_us, question);
    if (is_denied)
        repeat(denial, check, now_us);
    shard->numbers.replayed += is_denied;
    shard->numbers.renewed += question->renews;
    pthread_mutex_unlock(&shard->mutex);
    if (is_denied)
        question->asked_us = 0;
    return is_denied;
}

/* keeping one */

/* Whether another attempt would leave all as it is, and how long so. */
static bool is_repeatable(const struct weir_check *check, const struct weir_combined *verdict,
                          uint64_t *holds_us)
{
    *holds_us = verdict->impossible ? NEVER_ENDS : verdict->retry_us;
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spend = &check->spends[i];
        const struct weir_answer *answer = &check->answers[i];
        if (spend->logs_refusals)
            return false;
        if (spend->algorithm != WEIR_PENALTY)
            continue;
        /* Outside of a ban, or where attempts extend it, the next one may be a violation. */
        if (answer->allowed || spend->penalty->extends)
            return false;
        *holds_us = weir_earlier(*holds_us, answer->retry_us);
    }
    return *holds_us > 0;
}

/* The plan's own place; else one that is empty; else that of what was asked first. */
static struct denial *choose_place(struct weir_denials *denials, uint64_t hash, bool *pushes)
{
    struct denial *own = find(denials, hash), *bucket = bucket_of(denials, hash);
    *pushes = false;
    if (own != NULL)
        return own;
    struct denial *first = &bucket[0];
    for (size_t i = 0; i < PLACES; i++) {
        if (bucket[i].count == 0)
            return &bucket[i];
        if (bucket[i].asked_us < first->asked_us)
            first = &bucket[i];
    }
    *pushes = true;
    return first;
}

static struct kept_answer keep_answer(const struct weir_answer *answer)
{
    return (struct kept_answer){
        .retry_us = answer->allowed || answer->impossible ? 0 : answer->retry_us,
        .reset_us = answer->reset_us,
        .remaining =
            (uint32_t)(answer->remaining < WEIR_UNITS_MAX ? answer->remaining : WEIR_UNITS_MAX),
        .allowed = answer->allowed,
        .impossible = answer->impossible,
    };
}

static void keep(struct weir_denials *denials, const struct weir_check *check,
                 const struct denial *made)
{
    struct shard *shard = shard_of(denials, made->hash);
    bool pushes;
    pthread_mutex_lock(&shard->mutex);
    struct denial *place = choose_place(denials, made->hash, &pushes);
    bool is_newer = place->hash != made->hash || place->asked_us < made->asked_us
                    || place->asked_us > made->noted_us;
    if (is_newer) {
        shard->numbers.pushed +=
            pushes
            && made->noted_us < weir_earlier(place->asked_us + denials->cap_us, place->ends_us);
        shard->numbers.noted++;
        *place = *made;
        for (size_t i = 0; i < check->count; i++)
            place->answers[i] = keep_answer(&check->answers[i]);
    }
    pthread_mutex_unlock(&shard->mutex);
}

/* Whether a limit earns its units one by one, so that when a wait is over there is room for one. At
 * the end of a block all of it is there, and only then is the wait as long as until all of it is. */
static bool earns_one_by_one(const struct weir_spend *spend, const struct weir_answer *answer)
{
    bool earns = spend->algorithm == WEIR_GCRA || spend->algorithm == WEIR_TOKEN_BUCKET
                 || spend->algorithm == WEIR_LEAKY_BUCKET;
    bool may_be_blocked =
        answer->reset_us <= answer->retry_us && spend->cost < weir_capacity(spend);
    return earns && !may_be_blocked;
}

/* So long after somebody is let through the next one is, at the earliest; 0: there is no telling. */
static uint64_t next_after(const struct weir_check *check, size_t worst)
{
    const struct weir_spend *spend = &check->spends[worst];
    for (size_t i = 0; i < check->count; i++)
        if (check->spends[i].algorithm == WEIR_PENALTY)
            return 0; /* attempts after a ban may count */
    return earns_one_by_one(spend, &check->answers[worst]) ? spend->cost * spend->rate.interval_us
                                                           : 0;
}

/* The one who asked for all has been let through. Where that was to be expected the next one asks;
 * else others need not be refused any more. */
static void let_in(struct weir_denials *denials, const struct weir_denial_question *question)
{
    struct shard *shard = shard_of(denials, question->hash);
    pthread_mutex_lock(&shard->mutex);
    struct denial *denial = find(denials, question->hash);
    if (denial != NULL && question->asked_us >= denial->ends_us)
        denial->is_renewed = false;
    else if (denial != NULL && denial->asked_us < question->asked_us)
        denial->count = 0;
    pthread_mutex_unlock(&shard->mutex);
}

void weir_denials_note(struct weir_denials *denials, const struct weir_check *check,
                       const struct weir_denial_question *question)
{
    if (denials == NULL || question->asked_us == 0 || check->result != WEIR_STORE_ANSWERED
        || check->operation != WEIR_SPEND)
        return;
    const struct weir_combined verdict = weir_combine(check->answers, check->count);
    uint64_t holds_us;
    struct denial made = { .asked_us = question->asked_us,
                           .worst = (uint8_t)verdict.worst,
                           .count = (uint8_t)check->count };
    if (verdict.allowed && question->renews)
        let_in(denials, question);
    if (verdict.allowed || !is_repeatable(check, &verdict, &holds_us)
        || !hash_plan(denials, check, &made.hash))
        return;

    made.noted_us = weir_clock_now_us(&denials->clock);
    made.ends_us = holds_us == NEVER_ENDS ? NEVER_ENDS : made.asked_us + holds_us;
    made.next_us = next_after(check, verdict.worst);
    made.key_time = key_time_of(denials, &check->spends[verdict.worst]);
    keep(denials, check, &made);
    set_later(&denials->latest_us, made.asked_us + denials->cap_us + denials->renew_us);
}

/* ending them */

void weir_denials_forget(struct weir_denials *denials, const struct weir_check *check)
{
    if (denials == NULL)
        return;
    for (size_t i = 0; i < check->count; i++) {
        const struct weir_spend *spend = &check->spends[i];
        bool relieves = check->operation == WEIR_RESET
                        || (check->operation == WEIR_SETTLE && spend->cost < spend->reserved);
        if (relieves)
            set_later(&denials->key_times[key_time_of(denials, spend)],
                      weir_clock_now_us(&denials->clock));
    }
}

void weir_denials_forget_all(struct weir_denials *denials)
{
    if (denials != NULL)
        set_later(&denials->forgotten_us, weir_clock_now_us(&denials->clock));
}

struct weir_denials_numbers weir_denials_numbers(struct weir_denials *denials)
{
    struct weir_denials_numbers sum = { 0 };
    for (size_t i = 0; i < SHARDS && denials != NULL; i++) {
        struct shard *shard = &denials->shards[i];
        pthread_mutex_lock(&shard->mutex);
        sum.replayed += shard->numbers.replayed;
        sum.noted += shard->numbers.noted;
        sum.renewed += shard->numbers.renewed;
        sum.pushed += shard->numbers.pushed;
        pthread_mutex_unlock(&shard->mutex);
    }
    return sum;
}
