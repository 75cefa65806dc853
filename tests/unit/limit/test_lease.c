/* The arithmetic of leases: tables, and a world of processes at random that share one limit. */
#include "test.h"

#include "limit/lease.h"
#include "limit/span.h"

#define SECOND UINT64_C(1000000)

static struct weir_spend spend_of(enum weir_algorithm algorithm, uint64_t limit, uint64_t window_us,
                                  uint64_t burst)
{
    struct weir_spend spend = { .algorithm = algorithm, .key = "k", .key_length = 1 };
    assert_int_equal(weir_rate_make(limit, window_us, burst, &spend.rate, NULL), WEIR_OK);
    return spend;
}

/* what is held */

static void learn(const struct weir_spend *spend, struct weir_lease_block *block, uint64_t units,
                  uint64_t asked_us, uint64_t remaining, uint64_t reset_us)
{
    const struct weir_answer answer = { .allowed = units > 0,
                                        .remaining = remaining,
                                        .reset_us = reset_us };
    const struct weir_lease_news news = { .answer = &answer,
                                          .units = units,
                                          .store_us = 1000 * SECOND + asked_us,
                                          .asked_us = asked_us,
                                          .told_us = asked_us };
    weir_lease_learn(spend, block, &news);
}

static void holds_no_more_than_the_store_has_not_earned_back(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t at_us, held;
    } rows[] = {
        { "at once", 100, 50 },
        { "a microsecond later", 101, 49 },
        { "after one interval", 1100, 49 },
        { "after ten and a half", 10600, 39 },
        { "with the last unit", 49100, 1 },
        { "just too late for it", 49101, 0 },
        { "long after", 9 * SECOND, 0 },
    };
    const struct weir_spend spend = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_lease_block block = { 0 };
        learn(&spend, &block, 50, 100, 950, 50000);
        weir_lease_lapse(&spend, &block, rows[i].at_us);
        if (block.held != rows[i].held)
            fail_msg("%s: %llu", rows[i].when, (unsigned long long)block.held);
    }
}

static void holds_on_while_what_it_has_spent_is_earned_back(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    struct weir_lease_block block = { 0 };
    learn(&spend, &block, 50, 100, 950, 50000);
    block.held -= 40;
    weir_lease_lapse(&spend, &block, 40100);
    assert_int_equal(block.held, 10);
    learn(&spend, &block, 50, 40100, 900, 60000);
    assert_int_equal(block.held, 60);
    weir_lease_lapse(&spend, &block, 90100);
    assert_int_equal(block.held, 10);
}

static void holds_units_of_a_window_until_it_ends(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 100, 10 * SECOND, 0);
    struct weir_lease_block block = { 0 };
    learn(&spend, &block, 30, 100, 70, 4 * SECOND);
    weir_lease_lapse(&spend, &block, 4 * SECOND + 99);
    assert_int_equal(block.held, 30);
    learn(&spend, &block, 30, 200, 40, 4 * SECOND - 50); /* a quicker answer: nearer to the truth */
    weir_lease_lapse(&spend, &block, 4 * SECOND + 149);
    assert_int_equal(block.held, 60);
    weir_lease_lapse(&spend, &block, 4 * SECOND + 150);
    assert_int_equal(block.held, 0);
    learn(&spend, &block, 10, 5 * SECOND, 90, 9 * SECOND);
    assert_int_equal(block.held, 10);
}

static void counts_time_from_the_question(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_FIXED_WINDOW, WEIR_GCRA };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        /* Both end after four seconds, since the question was asked. */
        const struct weir_spend spend = spend_of(algorithms[i], 10, 10 * SECOND, 0);
        const struct weir_answer answer = { .allowed = true, .reset_us = 4 * SECOND };
        const struct weir_lease_news news = {
            .answer = &answer, .units = 4, .asked_us = 100, .told_us = 3 * SECOND + 50
        };
        struct weir_lease_block block = { 0 };
        weir_lease_learn(&spend, &block, &news);
        assert_true(block.held > 0);
        weir_lease_lapse(&spend, &block, 4 * SECOND + 100);
        assert_int_equal(block.held, 0);
    }
}

static void tells_what_a_single_bucket_would(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_TOKEN_BUCKET, 10, SECOND, 100);
    struct weir_lease_block block = { 0 };
    learn(&spend, &block, 50, SECOND, 50, 5 * SECOND);
    block.held -= 1;
    struct weir_answer answer = weir_lease_answer(&spend, &block, SECOND);
    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 99);
    assert_int_equal(answer.reset_us, SECOND / 10);
    answer = weir_lease_answer(&spend, &block, SECOND + SECOND / 10);
    assert_int_equal(answer.remaining, 100);
    assert_int_equal(answer.reset_us, 0);
    assert_int_equal(weir_lease_store_us(&spend, &block, SECOND + 7), 1001 * SECOND + 7);
}

static void tells_what_is_left_of_a_window(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 100, 10 * SECOND, 0);
    struct weir_lease_block block = { 0 };
    learn(&spend, &block, 30, SECOND, 60, 4 * SECOND);
    block.held -= 5;
    struct weir_answer answer = weir_lease_answer(&spend, &block, 2 * SECOND);
    assert_int_equal(answer.remaining, 85);
    assert_int_equal(answer.reset_us, 3 * SECOND);
    block.held = 0;
    answer = weir_lease_answer(&spend, &block, 6 * SECOND);
    assert_int_equal(answer.remaining, 100);
    assert_int_equal(answer.reset_us, 0);
    /* The store's clock, as told to a settlement, stays in the window that was decided in. */
    assert_int_equal(weir_lease_store_us(&spend, &block, 6 * SECOND), 1005 * SECOND - 1);
}

static void gives_back_all_that_is_held(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    struct weir_lease_block block = { 0 };
    struct weir_spend settled;
    learn(&spend, &block, 50, 100, 950, 50000);
    block.held -= 20;
    weir_lease_give_up(&spend, &block, block.held, &settled);
    assert_int_equal(settled.reserved, 30);
    assert_int_equal(settled.cost, 0);
    assert_int_equal(settled.decided_us, 1000 * SECOND + 100);
    assert_int_equal(settled.full_us, 1000 * SECOND + 50100);
    assert_int_equal(block.held, 0);
    assert_int_equal(block.end_us, 20100);
    assert_int_equal(weir_lease_answer(&spend, &block, 100).remaining, 980);
}

static void takes_back_what_time_has_not_earned_since(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t after_us, cost, held;
    } rows[] = {
        { "all, at once", 0, 0, 50 },
        { "half, at once", 0, 10, 40 },
        { "all, when half is earned", 10000, 0, 40 },
        { "a quarter, when half is earned", 10000, 15, 35 },
        { "all, when all is earned", 20000, 0, 30 },
        { "all, much later", 30000, 0, 20 },
    };
    const struct weir_spend spend = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct weir_lease_block block = { 0 };
        learn(&spend, &block, 50, 100, 950, 50000);
        block.held -= 20;
        struct weir_spend settled = spend;
        settled.reserved = 20;
        settled.cost = rows[i].cost;
        settled.decided_us = weir_lease_store_us(&spend, &block, 100);
        assert_true(weir_lease_return(&settled, &block, 100 + rows[i].after_us));
        if (block.held != rows[i].held)
            fail_msg("%s: %llu", rows[i].when, (unsigned long long)block.held);
    }
}

static void adds_up_what_is_left_of_units_that_come_back(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    struct weir_lease_block block = { 0 };
    learn(&spend, &block, 50, 100, 950, 50000);
    block.held -= 20;
    struct weir_spend settled = spend;
    settled.reserved = 1;
    settled.decided_us = weir_lease_store_us(&spend, &block, 100);
    assert_true(weir_lease_return(&settled, &block, 600)); /* half of it is earned by now */
    assert_int_equal(block.held, 30);
    assert_true(weir_lease_return(&settled, &block, 600));
    assert_int_equal(block.held, 31);
    assert_true(weir_lease_return(&settled, &block, 5000));
    assert_int_equal(block.held, 31);
}

static void leaves_units_of_another_window_to_the_store(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 100, 10 * SECOND, 0);
    struct weir_lease_block block = { 0 };
    struct weir_spend settled = spend;
    learn(&spend, &block, 30, SECOND, 60, 4 * SECOND);
    block.held -= 5;
    settled.reserved = 5;
    settled.decided_us = weir_lease_store_us(&spend, &block, 2 * SECOND);
    assert_true(weir_lease_return(&settled, &block, 3 * SECOND));
    assert_int_equal(block.held, 30);
    learn(&spend, &block, 30, 5 * SECOND, 70, 10 * SECOND);
    assert_false(weir_lease_return(&settled, &block, 6 * SECOND));
    assert_int_equal(block.held, 30);
}

static void takes_back_units_of_the_window_that_it_knows_only(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t decided_us, after_us;
        bool is_taken;
    } rows[] = {
        { "when the window was first heard of", 1001 * SECOND, 0, true },
        { "before that", 1001 * SECOND - 1, 0, false },
        { "at the end of the window", 1005 * SECOND - 1, 0, true },
        { "in the next one, by a clock that is ahead of ours", 1005 * SECOND, 0, false },
        { "in it, and settled just in time", 1002 * SECOND, 4 * SECOND - 1, true },
        { "in it, and settled too late", 1002 * SECOND, 4 * SECOND, false },
    };
    const struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 100, 10 * SECOND, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (uint64_t spent = 5; spent <= 30; spent += 25) { /* some is held still, or nothing */
            struct weir_lease_block block = { 0 };
            learn(&spend, &block, 30, SECOND, 60, 4 * SECOND);
            block.held -= spent;
            struct weir_spend settled = spend;
            settled.reserved = 5;
            settled.decided_us = rows[i].decided_us;
            bool is_taken = weir_lease_return(&settled, &block, SECOND + rows[i].after_us);
            if (is_taken != rows[i].is_taken || (is_taken && block.held != 35 - spent))
                fail_msg("%s: %llu", rows[i].when, (unsigned long long)block.held);
        }
    }
}

static void drops_units_of_a_window_that_is_over_by_the_clock_of_the_store(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_FIXED_WINDOW, 100, 10 * SECOND, 0);
    struct weir_lease_block block = { 0 };
    learn(&spend, &block, 30, SECOND, 60, 4 * SECOND);
    const struct weir_answer answer = { .allowed = true, .remaining = 90, .reset_us = 10 * SECOND };
    const struct weir_lease_news news = { .answer = &answer,
                                          .units = 10,
                                          .store_us = 1005 * SECOND,
                                          .asked_us = 5 * SECOND - 2000,
                                          .told_us = 5 * SECOND - 1000 };
    weir_lease_learn(&spend, &block, &news);
    assert_int_equal(block.held, 10);
}

static void leaves_units_that_it_did_not_take_to_the_store(void **state)
{
    (void)state;
    const struct weir_spend spend = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    struct weir_lease_block block = { 0 };
    struct weir_spend settled = spend;
    learn(&spend, &block, 10, 100, 900, 100000);
    settled.reserved = 50;
    settled.decided_us = weir_lease_store_us(&spend, &block, 100);
    assert_false(weir_lease_return(&settled, &block, 200));
    assert_int_equal(block.held, 9);
}

static void answers_for_its_own_spending_only(void **state)
{
    (void)state;
    struct weir_spend settled = spend_of(WEIR_GCRA, 1000, SECOND, 1000);
    settled.reserved = 20;
    settled.decided_us = 1000;
    settled.full_us = 500000;
    weir_lease_bound_settlement(&settled);
    assert_int_equal(settled.full_us, 21000);
    settled.full_us = 500000;
    settled.cost = 30;
    weir_lease_bound_settlement(&settled);
    assert_int_equal(settled.full_us, 500000); /* charged more, the later the worse */
}

/* how many */

static void sizes_blocks_to_what_a_key_needs(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint64_t batch, requests_per_s, units_per_s;
        uint32_t share_ppm;
        enum weir_algorithm algorithm;
        uint64_t size;
    } rows[] = {
        { "a batch is a batch", 50, 0, 0, 0, WEIR_GCRA, 50 },
        { "but not above what there is", 5000, 0, 0, 0, WEIR_GCRA, 1000 },
        { "a quiet key", 0, 39, 39, 0, WEIR_GCRA, 1 },
        { "one that is not quiet", 0, 40, 40, 0, WEIR_GCRA, 5 },
        { "a busy one", 0, 1000, 1000, 0, WEIR_GCRA, 50 },
        { "one above its share", 0, 100000, 100000, 0, WEIR_GCRA, 83 },
        { "a share of its own", 0, 100000, 100000, 200000, WEIR_GCRA, 200 },
        { "few large costs are quiet", 0, 10, 1000, 0, WEIR_GCRA, 1 },
        { "units of a window do not lapse", 0, 40, 40, 0, WEIR_FIXED_WINDOW, 2 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct weir_lease lease = { .batch = rows[i].batch, .share_ppm = rows[i].share_ppm };
        struct weir_spend spend =
            spend_of(rows[i].algorithm, 100, SECOND, rows[i].algorithm == WEIR_GCRA ? 1000 : 0);
        if (rows[i].algorithm == WEIR_FIXED_WINDOW)
            spend = spend_of(WEIR_FIXED_WINDOW, 1000, 10 * SECOND, 0);
        spend.lease = &lease;
        const struct weir_lease_demand demand = { .requests_per_s = rows[i].requests_per_s,
                                                  .units_per_s = rows[i].units_per_s };
        uint64_t size = weir_lease_size(&spend, 3, &demand);
        if (size != rows[i].size)
            fail_msg("%s: %llu", rows[i].what, (unsigned long long)size);
    }
}

static void measures_what_is_asked_for(void **state)
{
    (void)state;
    struct weir_lease_demand demand = { 0 };
    weir_lease_note(&demand, 5, 10 * SECOND);
    assert_int_equal(demand.requests_per_s, 0);
    assert_int_equal(demand.units, 5);
    weir_lease_note(&demand, 5, 10 * SECOND + 20000);
    weir_lease_note(&demand, 1, 10 * SECOND + 100000);
    assert_int_equal(demand.requests_per_s, 20);
    assert_int_equal(demand.units_per_s, 100);
    assert_int_equal(demand.units, 1);
    weir_lease_note(&demand, 1, 20 * SECOND + 100000);
    assert_int_equal(demand.units_per_s, 0);
}

static void asks_for_what_the_store_can_spare(void **state)
{
    (void)state;
    static const struct {
        const char *when;
        uint64_t block, spare, waiting, first, units;
    } rows[] = {
        { "there is plenty", 50, 1000, 1, 1, 50 },
        { "more wait than a block has", 50, 1000, 64, 1, 64 },
        { "there is little left", 50, 20, 1, 1, 10 },
        { "all that is left is waited for", 50, 20, 64, 1, 20 },
        { "the first needs more than is left", 50, 20, 64, 30, 30 },
        { "there is nothing left", 50, 0, 64, 1, 1 },
        { "nobody waits", 50, 1000, 0, 0, 50 },
        { "nobody waits for the last one", 50, 1, 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t units =
            weir_lease_ask(rows[i].block, rows[i].spare, rows[i].waiting, rows[i].first);
        if (units != rows[i].units)
            fail_msg("%s: %llu", rows[i].when, (unsigned long long)units);
    }
}

static void says_how_much_may_be_held(void **state)
{
    (void)state;
    const struct weir_lease batch = { .batch = 50, .low_water_ppm = 200000 };
    const struct weir_lease automatic = { .low_water_ppm = 200000 };
    assert_int_equal(weir_lease_low_water(&batch, 50), 10);
    assert_int_equal(weir_lease_bound(&batch, 1000, 3), 180);
    assert_int_equal(weir_lease_bound(&batch, 100, 3), 100);
    assert_int_equal(weir_lease_most_units(&automatic, 1000, 3), 83);
    assert_int_equal(weir_lease_most_units(&automatic, 5, 3), 1);
    assert_int_equal(weir_lease_bound(&automatic, 1000, 3), 297);
}

static void holds_nothing_of_a_limit_of_zero(void **state)
{
    (void)state;
    const struct weir_lease lease = { .batch = 50 }, automatic = { .batch = 0 };
    struct weir_spend spend = spend_of(WEIR_GCRA, 0, SECOND, 0);
    struct weir_lease_block block = { 0 };
    const struct weir_lease_demand demand = { .requests_per_s = 1000, .units_per_s = 1000 };
    spend.lease = &lease;
    assert_int_equal(weir_lease_size(&spend, 1, &demand), 1);
    spend.lease = &automatic;
    assert_int_equal(weir_lease_size(&spend, 1, &demand), 1);
    learn(&spend, &block, 0, 100, 0, 0);
    assert_int_equal(weir_lease_answer(&spend, &block, SECOND).remaining, 0);
}

/* a world at random */

static uint64_t seed;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

#define PROCESSES 4
#define ADMITTED  400

struct admission {
    uint64_t at_us, units;
};

/* A process: its lease, a call that is under way, and a request that waits for it. */
struct process {
    struct weir_lease_block block;
    uint64_t clock_us; /* its own clock is so far ahead */
    enum { IDLE, ASKING, TELLING } stage;
    uint64_t due_us, asked_us, store_us, units, waiting;
    struct weir_answer answer;
    struct weir_spend back; /* on its way to the store; none: reserved is 0 */
    uint64_t back_due_us;
};

static struct world {
    struct weir_spend spend;
    struct weir_state store;
    uint64_t now_us, store_ahead_us;
    struct process processes[PROCESSES];
    struct admission admitted[ADMITTED];
    size_t count;
    uint64_t spent_here;
} world;

static uint64_t store_now(void)
{
    return world.now_us + world.store_ahead_us;
}

static void admit(uint64_t at_us, uint64_t units)
{
    assert_true(world.count < ADMITTED);
    world.admitted[world.count++] = (struct admission){ at_us, units };
}

static void decide(struct process *process)
{
    struct weir_spend asked = world.spend;
    asked.cost = process->units;
    struct weir_decision_step step = weir_decide(&asked, world.store, store_now());
    if (step.answer.allowed)
        world.store = step.state;
    process->answer = step.answer;
    process->store_us = world.now_us;
    process->stage = TELLING;
    process->due_us = world.now_us + draw(300);
}

static void be_told(struct process *process)
{
    uint64_t at_once = 0;
    process->stage = IDLE;
    if (process->answer.allowed && process->waiting > 0) {
        at_once = process->waiting;
        admit(process->store_us, at_once);
    }
    const struct weir_lease_news news = {
        .answer = &process->answer,
        .units = process->answer.allowed ? process->units : 0,
        .at_once = at_once,
        .store_us = process->store_us + world.store_ahead_us,
        .asked_us = process->asked_us,
        .told_us = world.now_us + process->clock_us,
    };
    weir_lease_learn(&world.spend, &process->block, &news);
}

static void correct(struct weir_spend *settled)
{
    world.store = weir_settle_state(settled, world.store, store_now()).state;
    settled->reserved = 0;
}

static void ask(struct process *process, uint64_t waiting, uint64_t units)
{
    process->stage = ASKING;
    process->waiting = waiting;
    process->units = units;
    process->asked_us = world.now_us + process->clock_us;
    process->due_us = world.now_us + draw(300);
}

/* A request; some turn out to cost nothing, at once or a little later. */
static void want(struct process *process)
{
    uint64_t local_us = world.now_us + process->clock_us, cost = 1 + draw(3);
    weir_lease_lapse(&world.spend, &process->block, local_us);
    if (process->block.held < cost) {
        if (process->stage == IDLE)
            ask(process, cost, cost + draw(12));
        return;
    }
    process->block.held -= cost;
    world.spent_here += cost;
    admit(world.now_us, cost);
    if (draw(4) > 0)
        return;
    struct weir_spend settled = world.spend;
    settled.reserved = cost;
    settled.decided_us = weir_lease_store_us(&world.spend, &process->block, local_us);
    settled.full_us = settled.decided_us + process->block.reset_us;
    uint64_t later_us = draw(2) * draw(2 * world.spend.rate.interval_us + 10);
    uint64_t before = process->block.held;
    if (weir_lease_return(&settled, &process->block, local_us + later_us)) {
        /* What came back was never spent; what time has earned meanwhile stays so. */
        uint64_t back = process->block.held > before ? process->block.held - before : 0;
        world.admitted[world.count - 1].units -= back;
    }
    world.now_us += later_us;
}

static void give_up(struct process *process)
{
    uint64_t local_us = world.now_us + process->clock_us;
    weir_lease_lapse(&world.spend, &process->block, local_us);
    if (process->back.reserved > 0 || process->block.held == 0)
        return;
    weir_lease_give_up(&world.spend, &process->block, 1 + draw(process->block.held),
                       &process->back);
    process->back_due_us = world.now_us + draw(300);
}

static void act(struct process *process)
{
    switch (draw(12)) {
    case 0:
        give_up(process);
        break;
    case 1: /* killed, and started again */
        process->block = (struct weir_lease_block){ 0 };
        process->stage = IDLE;
        break;
    case 2:
        if (process->stage == IDLE)
            ask(process, 0, 1 + draw(12));
        break;
    default:
        want(process);
    }
}

/* What is due comes first, in its order. */
static bool do_due(void)
{
    struct process *first = NULL;
    bool is_back = false;
    uint64_t due_us = UINT64_MAX;
    for (struct process *process = world.processes; process < world.processes + PROCESSES;
         process++) {
        if (process->stage != IDLE && process->due_us < due_us) {
            first = process;
            due_us = process->due_us;
            is_back = false;
        }
        if (process->back.reserved > 0 && process->back_due_us < due_us) {
            first = process;
            due_us = process->back_due_us;
            is_back = true;
        }
    }
    if (first == NULL || due_us > world.now_us)
        return false;
    if (is_back)
        correct(&first->back);
    else if (first->stage == ASKING)
        decide(first);
    else
        be_told(first);
    return true;
}

static void run(enum weir_algorithm algorithm, uint64_t limit, uint64_t window_us, uint64_t burst)
{
    world = (struct world){ .now_us = 100 * SECOND, .store_ahead_us = draw(1000 * SECOND) };
    world.spend = spend_of(algorithm, limit, window_us, burst);
    for (size_t i = 0; i < PROCESSES; i++)
        world.processes[i].clock_us = draw(50 * SECOND);
    uint64_t pace_us = 2 + draw(2 * window_us / limit + 2);
    while (world.count < ADMITTED - 2 - PROCESSES && world.now_us < 400 * SECOND) {
        while (do_due())
            ;
        act(&world.processes[draw(PROCESSES)]);
        world.now_us += draw(pace_us) * (draw(40) == 0 ? 30 : 1);
    }
}

static int by_time(const void *one, const void *other)
{
    const struct admission *first = one, *second = other;
    return (first->at_us > second->at_us) - (first->at_us < second->at_us);
}

/* In no interval whatever is more admitted than the burst and what is earned in it. */
static void check_intervals(void)
{
    const struct weir_rate *rate = &world.spend.rate;
    qsort(world.admitted, world.count, sizeof world.admitted[0], by_time);
    for (size_t i = 0; i < world.count; i++) {
        uint64_t units = 0;
        for (size_t j = i; j < world.count; j++) {
            units += world.admitted[j].units;
            uint64_t earned_us = world.admitted[j].at_us - world.admitted[i].at_us;
            assert_true((weir_wide)units * weir_interval_parts(rate)
                        <= (weir_wide)weir_burst_parts(rate) + (weir_wide)earned_us * rate->parts);
        }
    }
}

static void admits_what_one_bucket_would_in_every_interval(void **state)
{
    (void)state;
    seed = 88172645463325252;
    uint64_t spent_here = 0;
    for (int i = 0; i < 1500; i++) {
        uint64_t limit = 1 + draw(50), burst = 3 + draw(40);
        uint64_t window_us = 1000 + draw(200000);
        run(draw(2) == 0 ? WEIR_GCRA : WEIR_TOKEN_BUCKET, limit, window_us, burst);
        check_intervals();
        spent_here += world.spent_here;
    }
    assert_true(spent_here > 50000); /* the leases were of use */
}

static void admits_no_more_than_the_limit_in_a_window(void **state)
{
    (void)state;
    seed = 1181783497276652981;
    for (int i = 0; i < 1500; i++) {
        /* Some windows last hardly longer than a question and its answer. */
        uint64_t limit = 3 + draw(60), window_us = 400 + draw(draw(2) == 0 ? 3000 : 200000);
        run(WEIR_FIXED_WINDOW, limit, window_us, 0);
        qsort(world.admitted, world.count, sizeof world.admitted[0], by_time);
        uint64_t window = 0, units = 0;
        for (size_t j = 0; j < world.count; j++) {
            uint64_t at = (world.admitted[j].at_us + world.store_ahead_us) / window_us;
            units = at == window ? units + world.admitted[j].units : world.admitted[j].units;
            window = at;
            assert_true(units <= limit);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_no_more_than_the_store_has_not_earned_back),
        cmocka_unit_test(holds_on_while_what_it_has_spent_is_earned_back),
        cmocka_unit_test(holds_units_of_a_window_until_it_ends),
        cmocka_unit_test(counts_time_from_the_question),
        cmocka_unit_test(tells_what_a_single_bucket_would),
        cmocka_unit_test(tells_what_is_left_of_a_window),
        cmocka_unit_test(gives_back_all_that_is_held),
        cmocka_unit_test(takes_back_what_time_has_not_earned_since),
        cmocka_unit_test(adds_up_what_is_left_of_units_that_come_back),
        cmocka_unit_test(leaves_units_of_another_window_to_the_store),
        cmocka_unit_test(takes_back_units_of_the_window_that_it_knows_only),
        cmocka_unit_test(drops_units_of_a_window_that_is_over_by_the_clock_of_the_store),
        cmocka_unit_test(leaves_units_that_it_did_not_take_to_the_store),
        cmocka_unit_test(answers_for_its_own_spending_only),
        cmocka_unit_test(sizes_blocks_to_what_a_key_needs),
        cmocka_unit_test(measures_what_is_asked_for),
        cmocka_unit_test(asks_for_what_the_store_can_spare),
        cmocka_unit_test(says_how_much_may_be_held),
        cmocka_unit_test(holds_nothing_of_a_limit_of_zero),
        cmocka_unit_test(admits_what_one_bucket_would_in_every_interval),
        cmocka_unit_test(admits_no_more_than_the_limit_in_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
