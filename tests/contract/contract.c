#include "contract_cases.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <weir/calendar.h>

#include "base/clock.h"

const struct contract_factory *factory;
struct weir_store *store;

/* asking */

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    unsigned calls;
};

static void on_done(struct weir_check *check)
{
    struct waiter *waiter = check->owner;
    pthread_mutex_lock(&waiter->mutex);
    waiter->calls++;
    pthread_cond_signal(&waiter->woken);
    pthread_mutex_unlock(&waiter->mutex);
}

void contract_submit(struct weir_store *asked, struct weir_check *check)
{
    struct waiter waiter = { .calls = 0 };
    pthread_mutex_init(&waiter.mutex, NULL);
    pthread_cond_init(&waiter.woken, NULL);
    check->done = on_done;
    check->owner = &waiter;

    asked->type->submit(asked->self, check);
    pthread_mutex_lock(&waiter.mutex);
    while (waiter.calls == 0)
        pthread_cond_wait(&waiter.woken, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    assert_int_equal(waiter.calls, 1);

    pthread_cond_destroy(&waiter.woken);
    pthread_mutex_destroy(&waiter.mutex);
}

void contract_submit_plan(struct weir_store *asked, struct contract_plan *plan)
{
    plan->check.spends = plan->spends;
    plan->check.answers = plan->answers;
    contract_submit(asked, &plan->check);
}

void submit_answered(struct weir_store *asked, struct contract_plan *plan)
{
    contract_submit_plan(asked, plan);
    if (plan->check.result != WEIR_STORE_ANSWERED)
        print_error("    no answer: %s\n", plan->check.why);
    assert_int_equal(plan->check.result, WEIR_STORE_ANSWERED);
}

struct weir_answer contract_spend(struct weir_store *asked, const struct weir_spend *spend)
{
    struct contract_plan plan = { .spends = { *spend }, .check.count = 1 };
    submit_answered(asked, &plan);
    return plan.answers[0];
}

void contract_await_answers(struct weir_store *asked)
{
    static struct weir_spend looks[8];
    const uint64_t start_us = weir_monotonic_us();
    for (size_t i = 0; i < COUNT_OF(looks); i++) {
        struct weir_check check = { .result = WEIR_STORE_CANCELLED };
        if (looks[i].key == NULL)
            looks[i] = contract_gcra("first", 1, SECOND, 0);
        looks[i].cost = 0;
        while (check.result != WEIR_STORE_ANSWERED) {
            struct weir_answer answer;
            check = (struct weir_check){ .spends = &looks[i], .answers = &answer, .count = 1 };
            contract_submit(asked, &check);
            assert_true(weir_monotonic_us() - start_us < MINUTE);
        }
    }
}

struct weir_answer ask(const struct weir_spend *spend, uint64_t cost)
{
    struct weir_spend other = *spend;
    other.cost = cost;
    return contract_spend(store, &other);
}

struct weir_answer look(const struct weir_spend *spend)
{
    struct weir_answer answer = ask(spend, 0);
    assert_true(answer.allowed);
    return answer;
}

static void carry_out(enum weir_operation operation, const struct weir_spend *spend,
                      uint64_t block_us)
{
    struct contract_plan plan = {
        .spends = { *spend },
        .check = { .operation = operation, .count = 1, .block_us = block_us },
    };
    submit_answered(store, &plan);
}

void spend_to_settle(struct weir_spend *spend, uint64_t cost)
{
    struct contract_plan plan = { .spends = { *spend },
                                  .check = { .wants_time = true, .count = 1 } };
    plan.spends[0].cost = cost;
    submit_answered(store, &plan);
    assert_true(plan.answers[0].allowed);
    spend->reserved = cost;
    spend->decided_us = plan.check.now_us + plan.answers[0].after_us;
    spend->full_us = spend->decided_us + plan.answers[0].reset_us;
}

void settle(const struct weir_spend *spent, uint64_t actual)
{
    struct weir_spend spend = *spent;
    spend.cost = actual;
    carry_out(WEIR_SETTLE, &spend, 0);
}

void reset(const struct weir_spend *spend)
{
    carry_out(WEIR_RESET, spend, 0);
}

void block(const struct weir_spend *spend, uint64_t block_us)
{
    carry_out(WEIR_BLOCK, spend, block_us);
}

/* keys and rates */

/* A number that no other run has. */
static uint64_t this_run(void)
{
    static uint64_t run;
    if (run == 0) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        run = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + (uint64_t)getpid();
    }
    return run;
}

/* Keeps a key until the program ends: the two texts around a number that no other has. */
static const char *keep_key(const char *before, const char *after)
{
    static char keys[8192][112];
    static size_t count;
    assert_true(count < COUNT_OF(keys));
    int length = snprintf(keys[count], sizeof keys[0], "contract-%s%llx-%zu%s", before,
                          (unsigned long long)this_run(), count, after);
    assert_in_range(length, 1, sizeof keys[0] - 1);
    return keys[count++];
}

struct weir_spend new_spend(const char *name, enum weir_algorithm algorithm, uint64_t limit,
                            uint64_t window_us, uint64_t burst)
{
    struct weir_spend spend = { .algorithm = algorithm, .cost = 1 };
    char after[48];
    snprintf(after, sizeof after, "-%s", name);
    spend.key = keep_key("", after);
    spend.key_length = strlen(spend.key);
    struct weir_error error = WEIR_NO_ERROR;
    enum weir_code code = weir_rate_make(limit, window_us, burst, &spend.rate, &error);
    assert_string_equal(error.text, "");
    assert_int_equal(code, WEIR_OK);
    return spend;
}

struct weir_spend changed(const struct weir_spend *spend, uint64_t limit, uint64_t window_us,
                          uint64_t burst)
{
    struct weir_spend other = *spend;
    assert_int_equal(weir_rate_make(limit, window_us, burst, &other.rate, NULL), WEIR_OK);
    return other;
}

struct weir_spend in_group(const struct weir_spend *spend, const char *group)
{
    struct weir_spend other = *spend;
    char before[80];
    int length = snprintf(before, sizeof before, "{%s}:", group);
    assert_in_range(length, 1, sizeof before - 1);
    other.key = keep_key(before, "");
    other.key_length = strlen(other.key);
    other.group_length = strlen("contract-") + (size_t)length - 1;
    return other;
}

struct weir_spend contract_gcra(const char *name, uint64_t limit, uint64_t window_us,
                                uint64_t burst)
{
    return new_spend(name, WEIR_GCRA, limit, window_us, burst);
}

struct weir_spend contract_window(const char *name, uint64_t limit, uint64_t window_us)
{
    return new_spend(name, WEIR_FIXED_WINDOW, limit, window_us, 0);
}

struct weir_spend window_from_first(const char *name, uint64_t limit, uint64_t window_us)
{
    struct weir_spend spend = contract_window(name, limit, window_us);
    spend.from_first = true;
    return spend;
}

/* kinds */

/* Made once, and kept until the program ends. */
static const struct weir_calendar *years(void)
{
    static struct weir_calendar *calendar;
    if (calendar == NULL)
        assert_int_equal(
            weir_calendar_new(WEIR_CALENDAR_OPTIONS(.unit = WEIR_CALENDAR_YEAR), &calendar, NULL),
            WEIR_OK);
    return calendar;
}

void new_kinds(struct kind kinds[KINDS], const char *name, uint64_t limit, uint64_t window_us)
{
    static const struct {
        const char *name;
        enum weir_algorithm algorithm;
        bool from_first, has_calendar;
        uint64_t max_wait_us;
    } rows[] = {
        { "gcra", WEIR_GCRA, false, false, 0 },
        { "token bucket", WEIR_TOKEN_BUCKET, false, false, 0 },
        { "leaky bucket", WEIR_LEAKY_BUCKET, false, false, 0 },
        { "leaky bucket with a queue", WEIR_LEAKY_BUCKET, false, false, WEIR_BURST_MAX_US },
        { "fixed window", WEIR_FIXED_WINDOW, false, false, 0 },
        { "fixed window from the first", WEIR_FIXED_WINDOW, true, false, 0 },
        { "fixed window on the calendar", WEIR_FIXED_WINDOW, false, true, 0 },
        { "sliding counter", WEIR_SLIDING_COUNTER, false, false, 0 },
        { "sliding log", WEIR_SLIDING_LOG, false, false, 0 },
    };
    _Static_assert(KINDS == 2 * COUNT_OF(rows), "each alone and in a group");
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t length_us = rows[i].has_calendar ? ENDLESS : window_us;
        struct weir_spend spend = new_spend(name, rows[i].algorithm, limit, length_us, 0);
        spend.from_first = rows[i].from_first;
        spend.calendar = rows[i].has_calendar ? years() : NULL;
        spend.max_wait_us = rows[i].max_wait_us;
        kinds[2 * i] = (struct kind){ rows[i].name, spend };
        kinds[2 * i + 1] = (struct kind){ rows[i].name, in_group(&spend, spend.key) };
    }
}

/* time */

bool time_is_ours(void)
{
    return factory->pass_us != NULL;
}

void need_time_of_ours(void)
{
    if (!time_is_ours())
        skip();
}

static void sleep_us(uint64_t us)
{
    struct timespec pause = { (time_t)(us / SECOND), (long)(us % SECOND) * 1000 };
    while (nanosleep(&pause, &pause) != 0)
        continue;
}

void pass_us(uint64_t us)
{
    if (time_is_ours())
        factory->pass_us(factory->self, us);
    else
        sleep_us(us);
}

void pass_until_left(uint64_t window_us, uint64_t left_us)
{
    struct weir_spend clock = contract_window("clock", 1, window_us);
    uint64_t now_left_us = ask(&clock, 1).reset_us;
    pass_us(now_left_us >= left_us ? now_left_us - left_us : now_left_us + window_us - left_us);
}

void assert_left(uint64_t us, uint64_t exact_us, uint64_t most_late_us)
{
    if (time_is_ours())
        assert_int_equal(us, exact_us);
    else
        assert_in_range(us, exact_us > most_late_us ? exact_us - most_late_us : 0, exact_us);
}

bool ttl_is_known(void)
{
    return factory->ttl_us != NULL;
}

uint64_t ttl_us(const struct weir_spend *spend)
{
    return factory->ttl_us(factory->self, store, spend);
}

/* running */

int open_store(void **state)
{
    (void)state;
    store = factory->open(factory->self);
    return store == NULL;
}

int free_store(void **state)
{
    (void)state;
    store = weir_store_free(store);
    return 0;
}

int contract_run(const struct contract_factory *made_by)
{
    static const struct contract_group *const groups[] = {
        &contract_limits,  &contract_time,   &contract_plans,   &contract_corrections,
        &contract_penalty, &contract_crowds, &contract_reports, &contract_texts,
    };
    factory = made_by;
    int failed = 0;
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        char name[96];
        snprintf(name, sizeof name, "%s: %s", factory->name, groups[i]->name);
        print_message("  %s\n", name);
        /* What the macros of cmocka call, which want an array. */
        failed += _cmocka_run_group_tests(name, groups[i]->tests, groups[i]->count, NULL, NULL);
    }
    return failed;
}
