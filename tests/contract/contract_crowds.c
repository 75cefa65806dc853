/* Many at once. */
#include "contract_cases.h"

#include <pthread.h>
#include <time.h>

#define THREADS_MAX 16

/* asking from many threads, and noting what was answered when */

struct event {
    uint64_t start_ns;
    uint64_t end_ns;
    uint64_t cost;
    struct weir_answer answer;
    bool is_answered;
    bool passed; /* the whole plan */
};

struct crowd {
    struct weir_store *stores[3];
    size_t store_count;
    const struct contract_plan *plan;
    unsigned each;
    uint64_t cost_max; /* above 1: costs are mixed */
    struct event *events;
    pthread_barrier_t start;
};

struct member {
    struct crowd *crowd;
    size_t index;
};

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Asserts would leave the thread by a jump; what went wrong shows in the events. */
static void ask_once(const struct crowd *crowd, struct weir_store *asked, uint64_t cost,
                     struct event *event)
{
    struct contract_plan plan = *crowd->plan;
    for (size_t i = 0; crowd->cost_max > 1 && i < plan.check.count; i++)
        plan.spends[i].cost = cost;
    event->cost = plan.spends[0].cost;
    event->start_ns = monotonic_ns();
    contract_submit_plan(asked, &plan);
    event->end_ns = monotonic_ns();
    event->is_answered = plan.check.result == WEIR_STORE_ANSWERED;
    event->passed = event->is_answered;
    for (size_t i = 0; i < plan.check.count; i++)
        event->passed = event->passed && plan.answers[i].allowed;
    event->answer = plan.answers[0];
}

static void *crowd_member(void *self)
{
    const struct member *member = self;
    struct crowd *crowd = member->crowd;
    struct weir_store *mine = crowd->stores[member->index % crowd->store_count];
    uint64_t chance = member->index + 1;
    pthread_barrier_wait(&crowd->start);
    for (unsigned n = 0; n < crowd->each; n++) {
        chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407u;
        ask_once(crowd, mine, 1 + (chance >> 33) % (crowd->cost_max + (crowd->cost_max == 0)),
                 &crowd->events[member->index * crowd->each + n]);
    }
    return NULL;
}

/* Lets `threads` ask `each` times; the events are the caller's to free. */
static struct event *run_crowd(const struct contract_plan *plan, size_t threads, unsigned each,
                               uint64_t cost_max)
{
    struct crowd crowd = { .plan = plan, .each = each, .cost_max = cost_max };
    crowd.store_count = factory->handles_share ? COUNT_OF(crowd.stores) : 1;
    crowd.stores[0] = store;
    for (size_t i = 1; i < crowd.store_count; i++)
        crowd.stores[i] = factory->open(factory->self);
    crowd.events = calloc(threads * each, sizeof crowd.events[0]);
    assert_non_null(crowd.events);
    pthread_barrier_init(&crowd.start, NULL, (unsigned)threads);

    pthread_t ids[THREADS_MAX];
    struct member members[THREADS_MAX];
    assert_true(threads <= THREADS_MAX);
    for (size_t i = 0; i < threads; i++) {
        members[i] = (struct member){ &crowd, i };
        assert_int_equal(pthread_create(&ids[i], NULL, crowd_member, &members[i]), 0);
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);

    pthread_barrier_destroy(&crowd.start);
    for (size_t i = 1; i < crowd.store_count; i++)
        weir_store_free(crowd.stores[i]);
    return crowd.events;
}

unsigned let_through(const struct contract_plan *plan, size_t threads, unsigned each)
{
    struct event *events = run_crowd(plan, threads, each, 0);
    unsigned through = 0;
    bool are_answered = true;
    for (size_t i = 0; i < threads * each; i++) {
        through += events[i].passed;
        are_answered = are_answered && events[i].is_answered;
    }
    free(events);
    assert_true(are_answered);
    return through;
}

/* counting */

static void never_lets_more_through_than_the_limit(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "crowd", 100, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct contract_plan plan = { .spends = { kinds[i].spend }, .check.count = 1 };
        assert_int_equal(let_through(&plan, 8, 25), 100);
    }
}

static void lets_one_of_three_take_the_last_unit(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct kind kinds[KINDS];
        new_kinds(kinds, "last", 10, 366 * DAY);
        for (size_t i = 0; i < KINDS; i++) {
            assert_true(ask(&kinds[i].spend, 9).allowed);
            struct contract_plan plan = { .spends = { kinds[i].spend }, .check.count = 1 };
            assert_int_equal(let_through(&plan, 3, 1), 1);
        }
    }
}

static void lets_a_crowd_spend_whole_plans_only(void **state)
{
    (void)state;
    struct kind large[KINDS], small[KINDS];
    new_kinds(large, "plans", 300, 366 * DAY);
    new_kinds(small, "plans", 120, 366 * DAY);
    for (size_t first = 0; first + 4 <= KINDS; first += 4) {
        struct contract_plan plan = { .check.count = 8 };
        for (size_t i = 0; i < 4; i++) {
            plan.spends[2 * i] = large[first + i].spend;
            plan.spends[2 * i + 1] = small[first + i].spend;
        }
        assert_int_equal(let_through(&plan, 8, 20), 120);
        for (size_t i = 0; i < 8; i++)
            assert_int_equal(look(&plan.spends[i]).remaining, i % 2 == 0 ? 180 : 0);
    }
}

/* histories */

/* What was spent before and with an event, as its answer says. */
static uint64_t spent_after(const struct event *event, uint64_t limit)
{
    return limit - event->answer.remaining;
}

static int compare_events(const void *one, const void *other)
{
    const struct event *left = one, *right = other;
    if (left->answer.remaining != right->answer.remaining)
        return left->answer.remaining > right->answer.remaining ? -1 : 1;
    return (left->passed < right->passed) - (left->passed > right->passed);
}

/* While nothing comes back, what is left tells the order in which requests were decided: each that
 * passed found exactly what the one before it had left. An order that explains all answers must also
 * be one that time allows: nobody is decided after someone who had not begun when he was done. */
static void assert_history_is_linear(struct event *events, size_t count, uint64_t limit)
{
    qsort(events, count, sizeof events[0], compare_events);
    uint64_t spent = 0, latest_start_ns = 0;
    for (size_t i = 0; i < count; i++) {
        const struct event *event = &events[i];
        assert_true(event->is_answered);
        if (event->passed) {
            assert_int_equal(spent_after(event, limit), spent + event->cost);
            spent += event->cost;
        } else {
            assert_int_equal(spent_after(event, limit), spent);
            assert_true(spent + event->cost > limit);
        }
        assert_true(event->end_ns >= latest_start_ns);
        /* Refusals at one level may stand in any order among themselves. */
        if (event->passed && event->start_ns > latest_start_ns)
            latest_start_ns = event->start_ns;
    }
    assert_true(spent <= limit);
}

/* A refusal lies after the one whose sum it saw, and before the next that passed. */
static void assert_refusals_lie_between(const struct event *events, size_t count)
{
    uint64_t latest_refused_start_ns = 0;
    for (size_t i = 0; i < count; i++) {
        if (events[i].passed)
            assert_true(events[i].end_ns >= latest_refused_start_ns);
        else if (events[i].start_ns > latest_refused_start_ns)
            latest_refused_start_ns = events[i].start_ns;
    }
}

static void answers_a_crowd_as_if_one_came_after_the_other(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "linear", 600, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        print_message("    %s\n", kinds[i].name);
        /* Every third plan has another limit beside it. */
        struct contract_plan plan = { .spends = { kinds[i].spend }, .check.count = 1 };
        if (i % 3 == 0) {
            plan.spends[1] = contract_gcra("beside", 100000, 366 * DAY, 0);
            plan.check.count = 2;
        }
        enum { THREADS = 6, EACH = 60 };
        struct event *events = run_crowd(&plan, THREADS, EACH, 5);
        assert_history_is_linear(events, (size_t)THREADS * EACH, 600);
        assert_refusals_lie_between(events, (size_t)THREADS * EACH);
        free(events);
    }
}

/* B22: windows end while a crowd hits them; each lets exactly its number through. */
static void counts_exactly_while_windows_end(void **state)
{
    (void)state;
    need_time_of_ours();
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_FIXED_WINDOW, WEIR_SLIDING_LOG };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct weir_spend spend = new_spend("ending", algorithms[i], 50, SECOND, 0);
        struct contract_plan plan = { .spends = { spend }, .check.count = 1 };
        pass_until_left(SECOND, SECOND);
        for (int round = 0; round < 20; round++) {
            assert_int_equal(let_through(&plan, 8, 10), 50);
            pass_us(SECOND);
        }
    }
}

/* B28: what one connection sends in a row is decided in that order. */

struct row_of_checks {
    pthread_mutex_t mutex;
    pthread_cond_t all;
    unsigned left;
};

static void on_row_done(struct weir_check *check)
{
    struct row_of_checks *row = check->owner;
    pthread_mutex_lock(&row->mutex);
    if (--row->left == 0)
        pthread_cond_signal(&row->all);
    pthread_mutex_unlock(&row->mutex);
}

static void decides_in_the_order_of_asking(void **state)
{
    (void)state;
    struct kind kinds[KINDS];
    new_kinds(kinds, "order", 3, 366 * DAY);
    for (size_t i = 0; i < KINDS; i++) {
        struct row_of_checks row = { .left = 5 };
        pthread_mutex_init(&row.mutex, NULL);
        pthread_cond_init(&row.all, NULL);
        struct contract_plan plans[5];
        for (size_t n = 0; n < 5; n++) {
            plans[n] = (struct contract_plan){ .spends = { kinds[i].spend } };
            plans[n].check = (struct weir_check){ .spends = plans[n].spends,
                                                  .answers = plans[n].answers,
                                                  .count = 1,
                                                  .done = on_row_done,
                                                  .owner = &row };
        }
        for (size_t n = 0; n < 5; n++)
            store->type->submit(store->self, &plans[n].check);
        pthread_mutex_lock(&row.mutex);
        while (row.left > 0)
            pthread_cond_wait(&row.all, &row.mutex);
        pthread_mutex_unlock(&row.mutex);
        pthread_cond_destroy(&row.all);
        pthread_mutex_destroy(&row.mutex);
        for (size_t n = 0; n < 5; n++)
            assert_int_equal(plans[n].answers[0].allowed, n < 3);
    }
}

/* A check's memory may go at once */

struct crowd_of_freed {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    unsigned calls;
};

struct heap_check {
    struct contract_plan plan;
    struct crowd_of_freed *freed;
};

static void on_done_free(struct weir_check *check)
{
    struct heap_check *mine = check->owner;
    struct crowd_of_freed *freed = mine->freed;
    memset(mine, 0xa5, sizeof *mine);
    free(mine);
    pthread_mutex_lock(&freed->mutex);
    freed->calls++;
    pthread_cond_signal(&freed->woken);
    pthread_mutex_unlock(&freed->mutex);
}

static void touches_a_check_no_more_after_done(void **state)
{
    (void)state;
    struct weir_spend spends[2] = { contract_gcra("freed", 1000, 366 * DAY, 0),
                                    new_spend("freed", WEIR_SLIDING_LOG, 1000, ENDLESS, 0) };
    struct crowd_of_freed freed = { .calls = 0 };
    pthread_mutex_init(&freed.mutex, NULL);
    pthread_cond_init(&freed.woken, NULL);

    enum { CHECKS = 100 };
    for (unsigned n = 0; n < CHECKS; n++) {
        struct heap_check *mine = calloc(1, sizeof *mine);
        assert_non_null(mine);
        memcpy(mine->plan.spends, spends, sizeof spends);
        mine->plan.check = (struct weir_check){ .spends = mine->plan.spends,
                                                .answers = mine->plan.answers,
                                                .count = 2,
                                                .done = on_done_free,
                                                .owner = mine };
        mine->freed = &freed;
        store->type->submit(store->self, &mine->plan.check);
    }
    pthread_mutex_lock(&freed.mutex);
    while (freed.calls < CHECKS)
        pthread_cond_wait(&freed.woken, &freed.mutex);
    pthread_mutex_unlock(&freed.mutex);
    pthread_cond_destroy(&freed.woken);
    pthread_mutex_destroy(&freed.mutex);
    assert_int_equal(look(&spends[0]).remaining, 1000 - CHECKS);
    assert_int_equal(look(&spends[1]).remaining, 1000 - CHECKS);
}

static const struct CMUnitTest tests[] = {
    CASE(never_lets_more_through_than_the_limit),
    CASE(lets_one_of_three_take_the_last_unit),
    CASE(lets_a_crowd_spend_whole_plans_only),
    CASE(answers_a_crowd_as_if_one_came_after_the_other),
    CASE(counts_exactly_while_windows_end),
    CASE(decides_in_the_order_of_asking),
    CASE(touches_a_check_no_more_after_done),
};

const struct contract_group contract_crowds = GROUP("crowds", tests);
