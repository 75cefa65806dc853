/* The log of decisions: one line for each, or for many alike. */
#include <weir/decisions.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/options.h"
#include "base/order.h"
#include "base/signals.h"
#include "observe/decision_text.h"

#define OPTIONS_FIRST                                                                              \
    (offsetof(struct weir_decision_log_options, clock) + sizeof(const struct weir_clock *))

#define INTERVAL_MS UINT64_C(10000)
#define KINDS       1024u
#define KINDS_MAX   65536u
#define OUTCOMES    16
#define SPREAD_BITS 4096 /* a power of two */
#define NEVER       UINT64_MAX
#define LINE_BYTES  (WEIR_DECISION_JSON_MAX + 128)

/* One of several decisions that become a line. */
struct sample {
    struct sample *next;
    uint64_t since_us; /* the time of the first of them */
    struct weir_recent_decision kept;
};

/* Decisions alike, of which the first was written. */
struct kind {
    uint64_t hash;
    uint64_t due_us;
    struct sample *sample; /* of those since then, with their number; NULL: there are none */
    struct kind *next;     /* in its bucket, or of those that are free                     */
    struct kind *later;    /* that is due next                                             */
};

/* Decisions of one outcome that there was no kind left for. */
struct others {
    uint64_t count;
    uint64_t since_us, until_us;
    enum weir_level level;
    uint64_t spread[SPREAD_BITS / 64]; /* a bit for each kind, by its hash */
};

struct weir_decision_log {
    void (*write)(void *write_self, enum weir_level level, const char *line, size_t length);
    void *write_self;
    uint64_t interval_us;
    enum weir_level level;
    bool every;
    struct weir_clock clock;
    uint8_t key[WEIR_HASH_KEY_BYTES];
    size_t bucket_mask;

    pthread_mutex_t mutex; /* guards the rest */
    struct kind *kinds, *free_kinds;
    struct kind **buckets;
    struct kind *first, *last; /* in the order in which they are due */
    struct others others[OUTCOMES];
    uint64_t others_due_us; /* NEVER: there are none */

    bool has_thread, is_ending;
    pthread_t thread;
    pthread_cond_t changed;
};

/* lines */

static void write_line(const struct weir_decision_log *log, enum weir_level level,
                       struct weir_buffer *line)
{
    weir_buffer_put_char(line, '}');
    const char *text = weir_buffer_string(line);
    if (text != NULL)
        log->write(log->write_self, level, text, line->length);
}

static void put_since(struct weir_buffer *line, uint64_t since_us)
{
    weir_buffer_put_string(line, ",\"since\":");
    weir_put_time(line, since_us);
}

/* `since_us` is 0 where it is one decision. */
static void write_decision(const struct weir_decision_log *log,
                           const struct weir_decision *decision, uint64_t since_us)
{
    char memory[LINE_BYTES];
    struct weir_buffer line = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_char(&line, '{');
    weir_decision_put(&line, decision);
    if (since_us > 0)
        put_since(&line, since_us);
    write_line(log, weir_decision_level(decision), &line);
}

static void write_sample(const struct weir_decision_log *log, const struct sample *sample)
{
    const struct weir_decision *decision = &sample->kept.decision;
    write_decision(log, decision, decision->count > 1 ? sample->since_us : 0);
}

/* Linear counting (Whang, Vander-Zanden, Taylor: A Linear-Time Probabilistic Counting Algorithm for
 * Database Applications, 1990): of the bits, those that no kind has hit tell how many there were. */
static uint64_t estimate_kinds(const struct others *others)
{
    unsigned clear = 0;
    for (size_t i = 0; i < SPREAD_BITS / 64; i++)
        clear += 64u - (unsigned)__builtin_popcountll(others->spread[i]);
    double share = clear == 0 ? 0.5 / SPREAD_BITS : (double)clear / SPREAD_BITS;
    return (uint64_t)lround(-SPREAD_BITS * 0.69314718055994531 * log2(share));
}

static void write_others(const struct weir_decision_log *log, size_t outcome,
                         const struct others *others)
{
    char memory[512];
    struct weir_buffer line = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_string(&line, "{\"time\":");
    weir_put_time(&line, others->until_us);
    weir_put_member(&line, "level", others->level == WEIR_WARNING ? "warning" : "info", 16);
    weir_put_member(&line, "decision", weir_outcome_name((enum weir_outcome)outcome), 32);
    weir_put_member(&line, "text", "Too many kinds at a time to tell these apart.", 64);
    weir_buffer_put_string(&line, ",\"kinds\":");
    weir_buffer_put_number(&line, estimate_kinds(others));
    weir_buffer_put_string(&line, ",\"count\":");
    weir_buffer_put_number(&line, others->count);
    put_since(&line, others->since_us);
    write_line(log, others->level, &line);
}

/* kinds; the mutex is locked */

static struct kind **bucket_of(struct weir_decision_log *log, uint64_t hash)
{
    return &log->buckets[hash & log->bucket_mask];
}

static struct kind *find_kind(struct weir_decision_log *log, uint64_t hash)
{
    struct kind *kind = *bucket_of(log, hash);
    while (kind != NULL && kind->hash != hash)
        kind = kind->next;
    return kind;
}

static void append(struct weir_decision_log *log, struct kind *kind, uint64_t due_us)
{
    kind->due_us = due_us;
    kind->later = NULL;
    *(log->first == NULL ? &log->first : &log->last->later) = kind;
    log->last = kind;
}

/* False: all are taken. */
static bool add_kind(struct weir_decision_log *log, uint64_t hash, uint64_t now_us)
{
    struct kind *kind = log->free_kinds;
    if (kind == NULL)
        return false;
    log->free_kinds = kind->next;
    struct kind **bucket = bucket_of(log, hash);
    *kind = (struct kind){ .hash = hash, .next = *bucket };
    *bucket = kind;
    append(log, kind, now_us + log->interval_us);
    return true;
}

static void drop_kind(struct weir_decision_log *log, struct kind *kind)
{
    struct kind **at = bucket_of(log, kind->hash);
    while (*at != kind)
        at = &(*at)->next;
    *at = kind->next;
    kind->next = log->free_kinds;
    log->free_kinds = kind;
}

/* Counts a decision whose like was written; false: memory ran out. */
static bool count_again(struct kind *kind, const struct weir_decision *decision)
{
    uint64_t before = 0;
    if (kind->sample == NULL) {
        kind->sample = malloc(sizeof *kind->sample);
        if (kind->sample == NULL)
            return false;
        kind->sample->since_us = decision->time_us;
        kind->sample->kept.sequence = 0;
        weir_decision_copy(&kind->sample->kept, decision);
    } else {
        before = kind->sample->kept.decision.count;
    }
    kind->sample->kept.decision.count = before + weir_larger(decision->count, 1);
    kind->sample->kept.decision.time_us = decision->time_us;
    return true;
}

static void count_other(struct weir_decision_log *log, const struct weir_decision *decision,
                        uint64_t hash, uint64_t now_us)
{
    struct others *others = &log->others[(unsigned)decision->outcome % OUTCOMES];
    if (others->count == 0) {
        others->since_us = decision->time_us;
        others->level = WEIR_INFO;
    }
    if (log->others_due_us == NEVER)
        log->others_due_us = now_us + log->interval_us;
    others->count += weir_larger(decision->count, 1);
    others->until_us = decision->time_us;
    if (weir_decision_level(decision) > others->level)
        others->level = weir_decision_level(decision);
    size_t bit = hash % SPREAD_BITS;
    others->spread[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* what is due */

static uint64_t next_due_us(const struct weir_decision_log *log)
{
    return weir_earlier(log->first == NULL ? NEVER : log->first->due_us, log->others_due_us);
}

/* Takes the samples of the kinds that are due; a kind without one is over. */
static struct sample *take_samples(struct weir_decision_log *log, uint64_t now_us)
{
    struct sample *samples = NULL, **end = &samples;
    while (log->first != NULL && log->first->due_us <= now_us) {
        struct kind *kind = log->first;
        struct sample *sample = kind->sample;
        log->first = kind->later;
        if (sample == NULL || now_us == NEVER)
            drop_kind(log, kind);
        else
            append(log, kind, now_us + log->interval_us);
        kind->sample = NULL;
        if (sample == NULL)
            continue;
        sample->next = NULL;
        *end = sample;
        end = &sample->next;
    }
    return samples;
}

static void take_others(struct weir_decision_log *log, uint64_t now_us,
                        struct others others[OUTCOMES])
{
    memset(others, 0, sizeof log->others);
    if (log->others_due_us > now_us)
        return;
    memcpy(others, log->others, sizeof log->others);
    memset(log->others, 0, sizeof log->others);
    log->others_due_us = NEVER;
}

/* Writes what is due by `now_us`; NEVER: all there is. The mutex is not locked. */
static void write_due(struct weir_decision_log *log, uint64_t now_us)
{
    struct others others[OUTCOMES];
    pthread_mutex_lock(&log->mutex);
    struct sample *samples = take_samples(log, now_us);
    take_others(log, now_us, others);
    pthread_mutex_unlock(&log->mutex);
    while (samples != NULL) {
        struct sample *sample = samples;
        samples = sample->next;
        write_sample(log, sample);
        free(sample);
    }
    for (size_t i = 0; i < OUTCOMES; i++)
        if (others[i].count > 0)
            write_others(log, i, &others[i]);
}

void weir_decision_log_tick(struct weir_decision_log *log)
{
    write_due(log, weir_clock_now_us(&log->clock));
}

/* adding */

/* A failure of the store is nobody's in particular, and one line is enough for all who meet it. */
static const char *whose(const struct weir_decision *decision)
{
    bool is_nobodys = decision->outcome == WEIR_FAILED_OPEN
                      || decision->outcome == WEIR_FAILED_CLOSED
                      || decision->outcome == WEIR_ALLOWED;
    return decision->key != NULL || is_nobodys ? decision->key : decision->client;
}

static uint64_t hash_kind(const struct weir_decision_log *log, const struct weir_decision *decision)
{
    char memory[1024];
    const char *const texts[] = { decision->policy, decision->limit, whose(decision),
                                  decision->failure };
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    weir_buffer_put_char(&text, (char)decision->outcome);
    weir_buffer_put_char(&text, (char)decision->would);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i] != NULL)
            weir_buffer_put(&text, (struct weir_text){ texts[i], strnlen(texts[i], 255) });
        weir_buffer_put_char(&text, '\0');
    }
    return weir_hash64(weir_buffer_text(&text), log->key);
}

/* Counts a decision; true: it is one to be written now. */
static bool count(struct weir_decision_log *log, const struct weir_decision *decision,
                  uint64_t now_us)
{
    uint64_t hash = hash_kind(log, decision);
    pthread_mutex_lock(&log->mutex);
    struct kind *kind = find_kind(log, hash);
    bool is_idle = next_due_us(log) == NEVER, is_first = kind == NULL;
    bool writes = is_first ? add_kind(log, hash, now_us) : !count_again(kind, decision);
    if (is_first && !writes)
        count_other(log, decision, hash, now_us);
    if (is_idle)
        pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->mutex);
    return writes;
}

void weir_decision_log_add(void *self, const struct weir_decision *decision)
{
    struct weir_decision_log *log = self;
    if (weir_decision_level(decision) < log->level)
        return;
    if (log->every) {
        write_decision(log, decision, 0);
        return;
    }
    uint64_t now_us = weir_clock_now_us(&log->clock);
    if (!log->has_thread)
        write_due(log, now_us);
    if (count(log, decision, now_us))
        write_decision(log, decision, 0);
}

/* the thread */

/* Kinds that are due one soon after the other are written together. */
static struct timespec wake_time(const struct weir_decision_log *log, uint64_t due_us)
{
    uint64_t at_us = due_us + log->interval_us / 20;
    return (struct timespec){ .tv_sec = (time_t)(at_us / 1000000),
                              .tv_nsec = (long)(at_us % 1000000) * 1000 };
}

static void *tend(void *self)
{
    struct weir_decision_log *log = self;
    pthread_mutex_lock(&log->mutex);
    while (!log->is_ending) {
        uint64_t due_us = next_due_us(log);
        if (due_us == NEVER) {
            pthread_cond_wait(&log->changed, &log->mutex);
        } else if (due_us > weir_monotonic_us()) {
            const struct timespec until = wake_time(log, due_us);
            pthread_cond_timedwait(&log->changed, &log->mutex, &until);
        } else {
            pthread_mutex_unlock(&log->mutex);
            write_due(log, weir_monotonic_us());
            pthread_mutex_lock(&log->mutex);
        }
    }
    pthread_mutex_unlock(&log->mutex);
    return NULL;
}

static bool start_thread(struct weir_decision_log *log)
{
    sigset_t before;
    weir_signals_block(&before);
    log->has_thread = pthread_create(&log->thread, NULL, tend, log) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return log->has_thread;
}

/* coming and going */

static uint64_t monotonic_us(void *self)
{
    (void)self;
    return weir_monotonic_us();
}

static bool make_tables(struct weir_decision_log *log, size_t count)
{
    size_t buckets = 1;
    while (buckets < count)
        buckets *= 2;
    log->bucket_mask = buckets - 1;
    log->kinds = calloc(count, sizeof *log->kinds);
    log->buckets = calloc(buckets, sizeof *log->buckets);
    for (size_t i = 0; log->kinds != NULL && i < count; i++) {
        log->kinds[i].next = log->free_kinds;
        log->free_kinds = &log->kinds[i];
    }
    return log->kinds != NULL && log->buckets != NULL;
}

static void take_options(struct weir_decision_log *log,
                         const struct weir_decision_log_options *options)
{
    log->write = options->write;
    log->write_self = options->write_self;
    log->interval_us = (options->interval_ms == 0 ? INTERVAL_MS : options->interval_ms) * 1000;
    log->level = options->level;
    log->every = options->every;
    log->clock =
        options->clock != NULL ? *options->clock : (struct weir_clock){ .now_us = monotonic_us };
    log->others_due_us = NEVER;
    weir_hash_key(log->key);
}

static enum weir_code check(const struct weir_decision_log_options *options,
                            struct weir_error *error)
{
    if (options->write == NULL)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "A decision log needs a function to write its lines with.");
    if (options->kinds > KINDS_MAX)
        return weir_error_set(error, WEIR_E_VALUE, NULL,
                              "%u kinds are too many; wanted are 1 to %u.",
                              (unsigned)options->kinds, KINDS_MAX);
    if ((unsigned)options->level > WEIR_ERROR)
        return weir_error_set(error, WEIR_E_VALUE, NULL, "%u is no enum weir_level.",
                              (unsigned)options->level);
    return WEIR_OK;
}

static void init_locks(struct weir_decision_log *log)
{
    /* None of these fails (glibc). */
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&log->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&log->mutex, NULL);
}

enum weir_code weir_decision_log_new(const struct weir_decision_log_options *options,
                                     struct weir_decision_log **log, struct weir_error *error)
{
    struct weir_decision_log_options ours;
    enum weir_code code = weir_options_take(&ours, sizeof ours, options, OPTIONS_FIRST,
                                            "WEIR_DECISION_LOG_OPTIONS", error);
    if (code == WEIR_OK)
        code = check(&ours, error);
    if (code != WEIR_OK)
        return code;
    struct weir_decision_log *made = calloc(1, sizeof *made);
    if (made == NULL || !weir_hash_start()) {
        free(made);
        return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    }
    init_locks(made);
    take_options(made, &ours);
    if (!make_tables(made, ours.kinds == 0 ? KINDS : ours.kinds))
        code = weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
    else if (ours.clock == NULL && !ours.every && !start_thread(made))
        code = weir_error_set(error, WEIR_E_SYSTEM, NULL, "The decision log lacks a thread.");
    if (code == WEIR_OK)
        *log = made;
    else
        weir_decision_log_free(made);
    return code;
}

static void end_thread(struct weir_decision_log *log)
{
    if (!log->has_thread)
        return;
    pthread_mutex_lock(&log->mutex);
    log->is_ending = true;
    pthread_cond_signal(&log->changed);
    pthread_mutex_unlock(&log->mutex);
    pthread_join(log->thread, NULL);
}

struct weir_decision_log *weir_decision_log_free(struct weir_decision_log *log)
{
    if (log == NULL)
        return NULL;
    end_thread(log);
    write_due(log, NEVER);
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->mutex);
    free(log->kinds);
    free(log->buckets);
    free(log);
    return NULL;
}
