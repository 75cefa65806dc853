/* Leases over a store that answers when a test wants it to, and a clock that a test moves. */
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include <weir/calendar.h>

#include "limit/algorithm.h"
#include "limit/denied.h"
#include "limit/lease.h"
#include "limit/leases_internal.h"

#define SECOND  UINT64_C(1000000)
#define TIMEOUT UINT64_C(20000)
#define SUMS    64
#define PENDING 64

static uint64_t now_us;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

/* the store */

struct sum {
    char key[64];
    size_t key_length;
    struct weir_state state;
};

static struct {
    struct sum sums[SUMS];
    size_t sum_count;
    struct weir_check *pending[PENDING];
    size_t pending_count;
    size_t spends, settles; /* that were submitted */
    bool answers_at_once;
} store;

static uint64_t store_now(void)
{
    return 1800000000 * SECOND + now_us;
}

static void end_pending(size_t index, enum weir_store_result result);

static void store_submit(void *self, struct weir_check *check)
{
    (void)self;
    assert_true(store.pending_count < PENDING);
    assert_null(weir_check_fault(check));
    store.pending[store.pending_count++] = check;
    store.spends += check->operation == WEIR_SPEND;
    store.settles += check->operation == WEIR_SETTLE;
    if (store.answers_at_once)
        end_pending(store.pending_count - 1, WEIR_STORE_ANSWERED);
}

static const struct weir_store_type store_type = { .size = sizeof(struct weir_store_type),
                                                   .name = "by hand",
                                                   .submit = store_submit };

static struct sum *sum_of(const struct weir_spend *spend)
{
    for (size_t i = 0; i < store.sum_count; i++)
        if (store.sums[i].key_length == spend->key_length
            && memcmp(store.sums[i].key, spend->key, spend->key_length) == 0)
            return &store.sums[i];
    assert_true(store.sum_count < SUMS && spend->key_length < sizeof store.sums[0].key);
    struct sum *sum = &store.sums[store.sum_count++];
    memcpy(sum->key, spend->key, spend->key_length);
    sum->key_length = spend->key_length;
    return sum;
}

static void carry_out(struct weir_check *check)
{
    const struct weir_spend *spend = &check->spends[0];
    struct sum *sum = sum_of(spend);
    assert_int_equal(check->count, 1);
    if (check->operation == WEIR_SETTLE) {
        sum->state = weir_settle_state(spend, sum->state, store_now()).state;
        return;
    }
    struct weir_decision_step step = weir_decide(spend, sum->state, store_now());
    check->answers[0] = step.answer;
    check->now_us = store_now();
    sum->state = step.state;
}

static struct weir_check *take_pending(size_t index)
{
    assert_true(index < store.pending_count);
    struct weir_check *check = store.pending[index];
    store.pending_count--;
    memmove(store.pending + index, store.pending + index + 1,
            (store.pending_count - index) * sizeof store.pending[0]);
    return check;
}

static void end_pending(size_t index, enum weir_store_result result)
{
    struct weir_check *check = take_pending(index);
    check->result = result;
    snprintf(check->why, sizeof check->why, "by hand");
    if (result == WEIR_STORE_ANSWERED)
        carry_out(check);
    check->done(check);
}

/* The store decides it, and the answer stays away until tell(). */
static void decide_pending(size_t index)
{
    assert_true(index < store.pending_count);
    carry_out(store.pending[index]);
}

static void tell(size_t index)
{
    struct weir_check *check = take_pending(index);
    check->result = WEIR_STORE_ANSWERED;
    check->done(check);
}

static void answer_all(void)
{
    while (store.pending_count > 0)
        end_pending(0, WEIR_STORE_ANSWERED);
}

static struct weir_state state_of(const char *key)
{
    const struct weir_spend spend = { .key = key, .key_length = strlen(key) };
    return sum_of(&spend)->state;
}

/* requests */

struct request {
    struct weir_check check;
    struct weir_spend spends[2];
    struct weir_answer answers[2];
    bool is_over;
    unsigned place; /* in the order in which they ended */
};

static unsigned ended;

static void on_done(struct weir_check *check)
{
    struct request *request = check->owner;
    assert_false(request->is_over);
    request->is_over = true;
    request->place = ++ended;
}

static const struct weir_lease fifty = { .batch = 50, .low_water_ppm = 200000 };
static const struct weir_lease as_needed = { .low_water_ppm = 200000 };

static void set_spend(struct request *request, const char *key, uint64_t limit, uint64_t cost,
                      const struct weir_lease *lease)
{
    struct weir_spend *spend = &request->spends[request->check.count++];
    *spend =
        (struct weir_spend){ .cost = cost, .key = key, .key_length = strlen(key), .lease = lease };
    assert_int_equal(weir_rate_make(limit, 1000 * SECOND, 0, &spend->rate, NULL), WEIR_OK);
}

static void make(struct request *request)
{
    memset(request, 0, sizeof *request);
    request->check = (struct weir_check){ .spends = request->spends,
                                          .answers = request->answers,
                                          .wants_time = true,
                                          .done = on_done,
                                          .owner = request };
}

static struct weir_leases *leases;

/* As the limiter does: at once, when its units come, or without a lease. */
static void ask(struct request *request)
{
    if (weir_leases_decide(leases, &request->check)) {
        on_done(&request->check);
        return;
    }
    if (weir_leases_take(leases, &request->check))
        weir_leases_submit(leases, &request->check);
    else
        store_submit(NULL, &request->check);
}

static void ask_one(struct request *request, uint64_t cost)
{
    make(request);
    set_spend(request, "a", 1000, cost, &fifty);
    ask(request);
}

static bool is_allowed(const struct request *request)
{
    return request->is_over && request->check.result == WEIR_STORE_ANSWERED
           && request->answers[0].allowed
           && (request->check.count == 1 || request->answers[1].allowed);
}

static void fill(void)
{
    struct request first;
    ask_one(&first, 1);
    answer_all();
    assert_true(is_allowed(&first));
}

static void spend_here(unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        struct request request;
        ask_one(&request, 1);
        assert_true(is_allowed(&request));
    }
}

static uint64_t held(void)
{
    return weir_leases_numbers(leases).held;
}

static const struct weir_clock clock_by_hand = { read_clock, NULL };

static void open_leases_with(uint64_t budget_bytes, struct weir_denials *denials)
{
    const struct weir_leases_options options = { .type = &store_type,
                                                 .instances = 2,
                                                 .timeout_us = TIMEOUT,
                                                 .budget_bytes = budget_bytes,
                                                 .denials = denials,
                                                 .clock = &clock_by_hand };
    leases = weir_leases_new(&options);
    assert_non_null(leases);
}

static void open_leases(uint64_t budget_bytes)
{
    open_leases_with(budget_bytes, NULL);
}

static int set_up(void **state)
{
    (void)state;
    memset(&store, 0, sizeof store);
    now_us = 1000 * SECOND;
    ended = 0;
    open_leases(0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    now_us += 2 * SECOND;
    weir_leases_tend(leases);
    store.answers_at_once = true; /* freeing waits for all that it asks */
    answer_all();
    leases = weir_leases_free(leases);
    return 0;
}

/* blocks */

static void spends_a_block_without_asking(void **state)
{
    (void)state;
    fill();
    assert_int_equal(store.spends, 1);
    assert_int_equal(held(), 49);
    spend_here(38);
    assert_int_equal(store.spends, 1);
    assert_int_equal(store.pending_count, 0);
}

static void asks_for_the_next_block_at_low_water(void **state)
{
    (void)state;
    fill();
    spend_here(39);
    assert_int_equal(store.pending_count, 1);
    assert_int_equal(store.pending[0]->spends[0].cost, 50);
    spend_here(10); /* nobody waits for it */
    assert_int_equal(store.pending_count, 1);
    answer_all();
    assert_int_equal(held(), 50);
    assert_int_equal(store.spends, 2);
}

static void tells_what_the_limit_has_left(void **state)
{
    (void)state;
    struct request request;
    fill();
    ask_one(&request, 3);
    assert_int_equal(request.answers[0].remaining, 996);
    assert_int_equal(request.answers[0].reset_us, 4 * SECOND);
    assert_int_equal(request.check.now_us, store_now());
}

static void lets_all_of_a_line_in_by_one_call(void **state)
{
    (void)state;
    struct request requests[60];
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        ask_one(&requests[i], 1);
    assert_int_equal(store.pending_count, 1);
    answer_all(); /* fifty for the first; then ten are waited for, and forty come along */
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        assert_true(is_allowed(&requests[i]));
        assert_int_equal(requests[i].place, i + 1);
    }
    assert_int_equal(store.spends, 2);
    assert_int_equal(held(), 40);
}

static void never_holds_more_than_it_says(void **state)
{
    (void)state;
    fill();
    spend_here(39);
    answer_all();
    assert_int_equal(held(), 60);
}

static void takes_what_is_left_of_a_limit(void **state)
{
    (void)state;
    struct request requests[3];
    uint64_t allowed = 1;
    make(&requests[0]);
    set_spend(&requests[0], "a", 1000, 980, &fifty);
    ask(&requests[0]);
    answer_all();
    assert_true(is_allowed(&requests[0]));
    for (; allowed < 100; allowed++) {
        ask_one(&requests[1], 1);
        answer_all();
        if (!is_allowed(&requests[1]))
            break;
    }
    assert_int_equal(allowed - 1, 20); /* to the last unit */
    assert_true(requests[1].is_over);
    assert_int_equal(requests[1].check.result, WEIR_STORE_ANSWERED);
    assert_int_equal(requests[1].answers[0].retry_us, SECOND);
    assert_int_equal(requests[1].answers[0].remaining, 0);
    assert_int_equal(held(), 0);
}

/* Twenty requests at an exhausted key; returns how many calls that takes. */
static size_t calls_for_refusals(void)
{
    struct request requests[20];
    size_t before = store.spends;
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        ask_one(&requests[i], 1);
    answer_all();
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        assert_true(requests[i].is_over);
        assert_false(requests[i].answers[0].allowed);
        assert_int_equal(requests[i].answers[0].retry_us, SECOND);
    }
    return store.spends - before;
}

static void refuses_all_of_a_line_by_one_answer(void **state)
{
    (void)state;
    struct request full;
    make(&full);
    set_spend(&full, "a", 1000, 1000, &fifty);
    ask(&full);
    answer_all();
    assert_int_equal(calls_for_refusals(), 2); /* for a block, and then for the first in line */
    assert_int_equal(calls_for_refusals(), 1);
}

static void refuses_what_can_never_fit(void **state)
{
    (void)state;
    struct request request;
    fill();
    ask_one(&request, 1001);
    answer_all();
    assert_true(request.answers[0].impossible);
    assert_int_equal(held(), 49);
}

static void lets_in_who_waited_even_if_a_block_lasts_shorter_than_the_way(void **state)
{
    (void)state;
    struct request requests[8];
    for (size_t i = 0; i < COUNT_OF(requests); i++) {
        make(&requests[i]);
        set_spend(&requests[i], "a", 1000, 1, &fifty);
        weir_rate_make(1000000, SECOND, 0, &requests[i].spends[0].rate, NULL);
        ask(&requests[i]);
    }
    now_us += 500; /* a block of 50 is earned back in 50 µs */
    end_pending(0, WEIR_STORE_ANSWERED);
    assert_true(is_allowed(&requests[0]));
    now_us += 500;
    end_pending(0, WEIR_STORE_ANSWERED); /* the other seven stood in line by then */
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        assert_true(is_allowed(&requests[i]));
    assert_int_equal(held(), 0);
}

static void refuses_at_a_blocked_key(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_FIXED_WINDOW };
    static const char *const keys[] = { "a", "b", "c" };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct request requests[20];
        size_t before = store.spends;
        make(&requests[0]);
        set_spend(&requests[0], keys[i], 1000, 1, &fifty);
        sum_of(&requests[0].spends[0])->state = weir_state_blocked(store_now() + 30 * SECOND);
        for (size_t j = 0; j < COUNT_OF(requests); j++) {
            make(&requests[j]);
            set_spend(&requests[j], keys[i], 1000, 1 + j % 2, &fifty);
            requests[j].spends[0].algorithm = algorithms[i];
            ask(&requests[j]);
        }
        for (int calls = 0; calls < 10 && store.pending_count > 0; calls++)
            end_pending(0, WEIR_STORE_ANSWERED);
        for (size_t j = 0; j < COUNT_OF(requests); j++) {
            assert_true(requests[j].is_over);
            assert_int_equal(requests[j].check.result, WEIR_STORE_ANSWERED);
            assert_false(requests[j].answers[0].allowed);
            assert_int_equal(requests[j].answers[0].retry_us, 30 * SECOND);
        }
        assert_in_range(store.spends - before, 2, 4);
        make(&requests[0]);
        set_spend(&requests[0], keys[i], 1000, 0, &fifty);
        requests[0].spends[0].algorithm = algorithms[i];
        assert_false(weir_leases_decide(leases, &requests[0].check)); /* a look is the store's */
    }
}

static void asks_for_less_after_each_refusal(void **state)
{
    (void)state;
    struct request request;
    ask_one(&request, 1);
    for (uint64_t units = 50; units > 0; units /= 2) {
        assert_int_equal(store.pending_count, 1);
        assert_int_equal(store.pending[0]->spends[0].cost, units);
        struct weir_check *check = take_pending(0);
        check->answers[0] = (struct weir_answer){ .remaining = 900, .retry_us = 7 };
        check->result = WEIR_STORE_ANSWERED; /* a store that contradicts itself */
        check->done(check);
    }
    assert_true(request.is_over);
    assert_int_equal(request.answers[0].retry_us, 7);
}

static void takes_what_it_holds_into_account_when_the_store_refuses(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_FIXED_WINDOW };
    static const struct weir_lease ten = { .batch = 10, .low_water_ppm = 200000 };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct request request;
        uint64_t asked = 0, limit = 20;
        for (uint64_t cost = 1; asked < limit; cost = asked < 12 ? 1 : 5) {
            make(&request);
            set_spend(&request, i == 0 ? "a" : "b", limit, cost, &ten);
            request.spends[0].algorithm = algorithms[i];
            ask(&request);
            answer_all();
            if (!is_allowed(&request))
                break;
            asked += cost;
            assert_int_equal(request.answers[0].remaining, limit - asked);
        }
        assert_int_equal(asked, 17);
        assert_int_equal(request.answers[0].remaining, 3);
        if (algorithms[i] == WEIR_GCRA)
            assert_int_equal(request.answers[0].retry_us, 2 * 1000 * SECOND / 20);
    }
}

/* what fails */

static void ends_who_waits_with_the_failure_of_the_store(void **state)
{
    (void)state;
    struct request requests[2];
    ask_one(&requests[0], 1);
    ask_one(&requests[1], 1);
    end_pending(0, WEIR_STORE_ERROR);
    for (size_t i = 0; i < 2; i++) {
        assert_true(requests[i].is_over);
        assert_int_equal(requests[i].check.result, WEIR_STORE_ERROR);
        assert_string_equal(requests[i].check.why, "by hand");
    }
}

static void spends_on_while_the_store_is_away(void **state)
{
    (void)state;
    fill();
    spend_here(39);
    end_pending(0, WEIR_STORE_UNAVAILABLE);
    spend_here(10);
    assert_int_equal(store.pending_count, 0); /* it is not asked at every request */
    struct request request;
    ask_one(&request, 1);
    end_pending(0, WEIR_STORE_TIMEOUT);
    assert_int_equal(request.check.result, WEIR_STORE_TIMEOUT);
}

static void waits_no_longer_than_the_deadline(void **state)
{
    (void)state;
    struct request request, later;
    ask_one(&request, 1);
    now_us += TIMEOUT / 2;
    ask_one(&later, 1);
    now_us += TIMEOUT / 2;
    weir_leases_tend(leases);
    assert_false(request.is_over); /* the store has its own deadline, and looks more closely */
    now_us += TIMEOUT / 4;
    weir_leases_tend(leases);
    assert_true(request.is_over);
    assert_int_equal(request.check.result, WEIR_STORE_TIMEOUT);
    assert_false(later.is_over);
    answer_all();
    assert_true(is_allowed(&later));
}

static void waits_for_a_second_call_no_longer_than_for_one(void **state)
{
    (void)state;
    struct request request, later;
    ask_one(&request, 30);
    now_us += 1000;
    ask_one(&later, 30);
    now_us += TIMEOUT / 2;
    end_pending(0, WEIR_STORE_ANSWERED); /* fifty, of which the first takes thirty */
    assert_true(is_allowed(&request));
    assert_int_equal(store.pending_count, 1);
    now_us += TIMEOUT / 2 - 1;
    weir_leases_tend(leases);
    assert_false(later.is_over);
    now_us += 1;
    weir_leases_tend(leases);
    assert_true(later.is_over);
    assert_int_equal(later.check.result, WEIR_STORE_TIMEOUT);
    answer_all();
}

static void ends_a_check_that_is_cancelled(void **state)
{
    (void)state;
    struct request requests[3];
    for (size_t i = 0; i < 3; i++)
        ask_one(&requests[i], 1);
    weir_leases_cancel(leases, &requests[1].check);
    assert_true(requests[1].is_over);
    assert_int_equal(requests[1].check.result, WEIR_STORE_CANCELLED);
    answer_all();
    weir_leases_cancel(leases, &requests[0].check);
    assert_true(is_allowed(&requests[0]));
    assert_true(is_allowed(&requests[2]));
    assert_int_equal(held(), 48);
}

/* giving back */

static void gives_back_what_is_idle_within_a_second(void **state)
{
    (void)state;
    fill();
    now_us += SECOND / 2;
    weir_leases_tend(leases);
    assert_int_equal(store.settles, 0);
    now_us += SECOND / 2;
    weir_leases_tend(leases);
    assert_int_equal(store.settles, 1);
    answer_all();
    assert_int_equal(held(), 0);
    assert_int_equal(weir_leases_numbers(leases).given_back, 49);
    /* One was spent, and that has been earned back since. */
    assert_int_equal(state_of("a").first, store_now());
}

static void asks_again_about_a_key_that_it_knows_old_news_of(void **state)
{
    (void)state;
    struct request request;
    fill();
    now_us += SECOND - 1;
    ask_one(&request, 1);
    assert_int_equal(store.settles, 1); /* first goes back what is held */
    assert_int_equal(store.pending[0]->operation, WEIR_SETTLE);
    assert_false(request.is_over);
    answer_all();
    assert_true(is_allowed(&request));
    assert_int_equal(request.answers[0].remaining, 998);
}

static void forgets_keys_that_nobody_uses(void **state)
{
    (void)state;
    fill();
    assert_int_equal(weir_leases_numbers(leases).keys, 1);
    assert_true(weir_leases_tend(leases) <= now_us + SECOND / 5);
    now_us += SECOND;
    assert_int_equal(weir_leases_tend(leases), UINT64_MAX);
    answer_all();
    assert_int_equal(weir_leases_numbers(leases).keys, 0);
    assert_int_equal(weir_leases_numbers(leases).bytes, 0);
}

static void gives_back_what_is_held_at_the_end(void **state)
{
    (void)state;
    fill();
    store.answers_at_once = true;
    leases = weir_leases_free(leases);
    assert_int_equal(state_of("a").first, store_now() + SECOND);
    open_leases(0);
}

static void gives_back_by_the_numbers_that_it_took_by(void **state)
{
    (void)state;
    struct request request;
    fill();
    make(&request);
    set_spend(&request, "a", 500, 60, &fifty); /* the limit was lowered */
    assert_false(weir_leases_decide(leases, &request.check));
    assert_false(weir_leases_take(leases, &request.check));
    assert_int_equal(store.settles, 1);
    assert_int_equal(store.pending[0]->spends[0].rate.limit, 1000);
    answer_all();
    assert_int_equal(state_of("a").first, store_now() + SECOND);
}

static void gives_all_back_when_it_is_flushed(void **state)
{
    (void)state;
    fill();
    store.answers_at_once = true;
    weir_leases_flush(leases);
    assert_int_equal(held(), 0);
    assert_int_equal(state_of("a").first, store_now() + SECOND);
    fill(); /* and goes on, with the numbers of the next check */
    assert_int_equal(held(), 49);
}

static void ends_denials_of_what_it_gives_back(void **state)
{
    (void)state;
    struct request full;
    struct weir_denial_question question;
    struct weir_denials *denials = weir_denials_new(SECOND, &clock_by_hand);
    weir_leases_free(leases);
    open_leases_with(0, denials);
    fill();
    make(&full);
    set_spend(&full, "a", 1000, 980, NULL); /* another process holds nothing: it would be let in */
    assert_false(weir_denials_replay(denials, &full.check, &question));
    store_submit(NULL, &full.check);
    answer_all();
    assert_false(full.answers[0].allowed);
    weir_denials_note(denials, &full.check, &question);
    now_us += SECOND * 9 / 10;
    assert_true(weir_denials_replay(denials, &full.check, &question));
    weir_leases_tend(leases);
    answer_all();
    assert_int_equal(held(), 0);
    assert_false(weir_denials_replay(denials, &full.check, &question));
    leases = weir_leases_free(leases);
    weir_denials_free(denials);
    open_leases(0);
}

static void holds_no_more_than_it_says_when_a_crowd_has_gone(void **state)
{
    (void)state;
    struct request requests[60], first;
    ask_one(&first, 1);
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        ask_one(&requests[i], 10);
    end_pending(0, WEIR_STORE_ANSWERED); /* four of the crowd have theirs, and 560 are asked for */
    for (size_t i = 0; i < COUNT_OF(requests); i++)
        weir_leases_cancel(leases, &requests[i].check);
    answer_all();
    assert_int_equal(held(), 60);
    struct weir_leases_numbers numbers = weir_leases_numbers(leases);
    assert_int_equal(numbers.given_back, numbers.taken - 60 - 1 - 40);
    spend_here(49); /* and the low water is that of a block */
    assert_int_equal(store.pending_count, 0);
    spend_here(1);
    assert_int_equal(store.pending_count, 1);
}

static void leaves_to_the_store_what_is_more_than_it_may_hold(void **state)
{
    (void)state;
    struct request request;
    fill();
    ask_one(&request, 100);
    answer_all();
    assert_int_equal(held(), 49);
    struct weir_spend settled = request.spends[0];
    settled.reserved = 100;
    settled.cost = 88;
    settled.decided_us = request.check.now_us;
    settled.full_us = settled.decided_us + request.answers[0].reset_us;
    assert_int_equal(weir_leases_settle(leases, &settled, 1), 1);
    settled.cost = 89;
    assert_int_equal(weir_leases_settle(leases, &settled, 1), 0);
    assert_int_equal(held(), 60);
}

/* Answers what is under way at each turn of a flush, after somebody has asked for more. */
static void *ask_and_answer(void *self)
{
    struct request *more = self;
    unsigned turn = 0;
    for (size_t turns = 0; turns < 2;) {
        pthread_mutex_lock(&leases->mutex);
        bool has_turned = leases->turn != turn;
        turn = leases->turn;
        pthread_mutex_unlock(&leases->mutex);
        if (!has_turned) {
            sched_yield();
            continue;
        }
        make(&more[turns]);
        set_spend(&more[turns], turns == 0 ? "x" : "y", 1000, 1, &fifty);
        ask(&more[turns++]);
        do /* once the last of a turn is answered, the flush goes on */
            end_pending(0, WEIR_STORE_ANSWERED);
        while (turns == 2 && store.pending_count > 1);
    }
    return NULL;
}

static void is_flushed_while_others_ask_on(void **state)
{
    (void)state;
    struct request more[2];
    pthread_t other;
    fill();
    spend_here(39);
    assert_int_equal(store.pending_count, 1);
    pthread_create(&other, NULL, ask_and_answer, more);
    weir_leases_flush(leases);
    pthread_join(other, NULL);
    assert_int_equal(store.pending_count, 1); /* the last one of the others */
    assert_true(is_allowed(&more[0]));
    assert_false(more[1].is_over);
    answer_all();
}

static void evicts_what_was_asked_for_least_lately(void **state)
{
    (void)state;
    static char keys[40][8];
    weir_leases_free(leases);
    open_leases(1); /* no key fits, but for the one that is asked for */
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        struct request request;
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        make(&request);
        set_spend(&request, keys[i], 1000, 1, &fifty);
        ask(&request);
        answer_all();
        assert_true(is_allowed(&request));
    }
    struct weir_leases_numbers numbers = weir_leases_numbers(leases);
    assert_true(numbers.evicted > 0);
    assert_int_equal(numbers.evicted + numbers.keys, COUNT_OF(keys));
    assert_int_equal(numbers.given_back, 49 * numbers.evicted);
    size_t spent_once = 0;
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        spent_once += state_of(keys[i]).first == store_now() + SECOND;
    assert_int_equal(spent_once, numbers.evicted);
}

static void takes_back_what_a_request_did_not_cost(void **state)
{
    (void)state;
    struct request request;
    fill();
    ask_one(&request, 30);
    struct weir_spend settled = request.spends[0];
    settled.reserved = 30;
    settled.cost = 10;
    settled.decided_us = request.check.now_us;
    settled.full_us = settled.decided_us + request.answers[0].reset_us;
    assert_int_equal(weir_leases_settle(leases, &settled, 1), 0);
    assert_int_equal(held(), 39);
    settled.cost = 35;
    assert_int_equal(weir_leases_settle(leases, &settled, 1), 1); /* more is the store's business */
    weir_leases_drop(leases, &settled, 1);
    settled.cost = 10;
    assert_int_equal(weir_leases_settle(leases, &settled, 1), 1); /* nothing to put it back to */
}

static void tells_of_what_a_request_has_cost_more(void **state)
{
    (void)state;
    static const enum weir_algorithm algorithms[] = { WEIR_GCRA, WEIR_TOKEN_BUCKET,
                                                      WEIR_FIXED_WINDOW };
    static const char *const keys[] = { "a", "b", "c" };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        struct request request, next;
        make(&request);
        set_spend(&request, keys[i], 1000, 5, &fifty);
        request.spends[0].algorithm = algorithms[i];
        ask(&request);
        answer_all();
        struct weir_spend settled = request.spends[0];
        settled.reserved = 5;
        settled.cost = 8;
        settled.decided_us = request.check.now_us;
        settled.full_us = settled.decided_us + request.answers[0].reset_us;
        assert_int_equal(weir_leases_settle(leases, &settled, 1), 1);
        make(&next);
        set_spend(&next, keys[i], 1000, 1, &fifty);
        next.spends[0].algorithm = algorithms[i];
        ask(&next);
        assert_true(is_allowed(&next));
        assert_int_equal(next.answers[0].remaining, 991);
        if (algorithms[i] != WEIR_FIXED_WINDOW)
            assert_int_equal(next.answers[0].reset_us, 9 * SECOND);
    }
}

static void drops_what_it_holds_of_a_key_that_is_reset(void **state)
{
    (void)state;
    struct request request;
    fill();
    weir_leases_drop(leases, request.spends, 0);
    assert_int_equal(held(), 49);
    spend_here(39);
    make(&request);
    set_spend(&request, "a", 1000, 1, &fifty);
    weir_leases_drop(leases, request.spends, 1);
    assert_int_equal(held(), 0);
    answer_all(); /* the early block may be of before, and does not count */
    assert_int_equal(held(), 0);
    ask(&request);
    answer_all();
    assert_true(is_allowed(&request));
}

/* several limits */

static void ask_two(struct request *request, uint64_t limit, uint64_t other_limit)
{
    make(request);
    set_spend(request, "a", limit, 1, &fifty);
    set_spend(request, "b", other_limit, 1, &fifty);
    ask(request);
}

static void spends_all_limits_or_none(void **state)
{
    (void)state;
    struct request request;
    uint64_t allowed = 0;
    for (; allowed < 200; allowed++) {
        ask_two(&request, 1000, 60);
        answer_all();
        if (!is_allowed(&request))
            break;
    }
    assert_int_equal(allowed, 60);
    assert_true(request.answers[0].allowed);
    assert_int_equal(request.answers[0].remaining, 940);
    assert_false(request.answers[1].allowed);
    assert_int_equal(request.answers[1].retry_us, 1000 * SECOND / 60 + 1);
}

static void asks_for_all_limits_that_lack_units_at_once(void **state)
{
    (void)state;
    struct request request;
    ask_two(&request, 1000, 1000);
    assert_int_equal(store.pending_count, 2);
    end_pending(1, WEIR_STORE_ANSWERED);
    assert_false(request.is_over);
    end_pending(0, WEIR_STORE_ANSWERED);
    assert_true(is_allowed(&request));
    assert_int_equal(held(), 98);
}

static void returns_what_was_set_apart_when_another_limit_fails(void **state)
{
    (void)state;
    struct request request;
    ask_two(&request, 1000, 1000);
    end_pending(1, WEIR_STORE_ANSWERED);
    assert_int_equal(held(), 49); /* and one for the request */
    end_pending(0, WEIR_STORE_UNAVAILABLE);
    assert_int_equal(request.check.result, WEIR_STORE_UNAVAILABLE);
    assert_int_equal(held(), 50);
}

static void tells_when_it_decided_though_the_key_was_reset_meanwhile(void **state)
{
    (void)state;
    struct request request;
    ask_two(&request, 1000, 1000);
    end_pending(1, WEIR_STORE_ANSWERED);
    uint64_t granted_us = store_now();
    weir_leases_drop(leases, request.spends, 1);
    now_us += 7;
    end_pending(0, WEIR_STORE_ANSWERED);
    assert_true(is_allowed(&request));
    assert_int_equal(request.check.now_us + request.answers[0].after_us, granted_us);
    assert_int_equal(request.check.now_us + request.answers[1].after_us, store_now());
}

static void returns_only_what_time_has_not_earned_back_meanwhile(void **state)
{
    (void)state;
    struct request both, other;
    make(&both);
    set_spend(&both, "a", 1000, 1, &fifty);
    set_spend(&both, "b", 1000, 1, &fifty);
    weir_rate_make(1000, 100 * SECOND, 0, &both.spends[0].rate, NULL); /* ten a second */
    ask(&both);
    end_pending(1, WEIR_STORE_ANSWERED);
    now_us += SECOND / 10;
    make(&other);
    set_spend(&other, "a", 1000, 1, &fifty);
    other.spends[0].rate = both.spends[0].rate;
    ask(&other);
    assert_true(is_allowed(&other));
    assert_int_equal(held(), 48);
    end_pending(0, WEIR_STORE_UNAVAILABLE);
    assert_true(both.is_over);
    assert_int_equal(held(), 48);
}

static void leaves_several_quiet_limits_to_one_call(void **state)
{
    (void)state;
    struct request request;
    make(&request);
    set_spend(&request, "a", 1000, 1, &as_needed);
    set_spend(&request, "b", 1000, 1, &as_needed);
    assert_false(weir_leases_decide(leases, &request.check));
    assert_false(weir_leases_take(leases, &request.check));
    assert_true(weir_leases_take(leases, &request.check)); /* a second one at once: not so quiet */
}

static void leaves_quiet_keys_to_the_store(void **state)
{
    (void)state;
    struct request request;
    for (int i = 0; i < 5; i++) {
        make(&request);
        set_spend(&request, "a", 1000, 1, &as_needed);
        assert_false(weir_leases_decide(leases, &request.check));
        assert_false(weir_leases_take(leases, &request.check));
        now_us += SECOND / 10;
    }
    size_t strict = 0;
    for (int i = 0; i < 200; i++) {
        make(&request);
        set_spend(&request, "a", 1000, 1, &as_needed);
        if (!weir_leases_decide(leases, &request.check)) {
            bool is_taken = weir_leases_take(leases, &request.check);
            strict += !is_taken;
            if (is_taken)
                weir_leases_submit(leases, &request.check);
        }
        answer_all();
        now_us += 500;
    }
    assert_in_range(strict, 1, 2);
    assert_true(store.spends < 30); /* for 200 requests in a tenth of a second */
}

/* the edges of windows */

#define WINDOW      (SECOND / 2) /* of those that are not a day */
#define BEFORE_EDGE (SECOND / 10)
#define PER_WINDOW  100

/* A day of a zone, whose clocks are set forward in the second of these, a window from the first request,
 * and one on the clock. */
static const struct edge {
    const char *zone;
    uint64_t from_us; /* the test begins somewhat later */
    bool from_first;
} edges[] = {
    { "Europe/Berlin", UINT64_C(1800000000) * SECOND, false },
    { "Europe/Berlin", UINT64_C(1806193800) * SECOND, false }, /* 28 March 2027, 00:30 */
    { "Pacific/Kiritimati", UINT64_C(1800000000) * SECOND, false },
    { NULL, 0, true },
    { NULL, 0, false },
};

static const struct edge *edge;
static struct weir_calendar *calendar;
static uint64_t edge_us; /* by the clock of the leases */

static void add_window(struct request *request, const char *key, uint64_t cost)
{
    set_spend(request, key, PER_WINDOW, cost, &fifty);
    struct weir_spend *spend = &request->spends[request->check.count - 1];
    weir_rate_make(PER_WINDOW, calendar == NULL ? WINDOW : 86400 * SECOND, 0, &spend->rate, NULL);
    spend->algorithm = WEIR_FIXED_WINDOW;
    spend->calendar = calendar;
    spend->from_first = edge->from_first;
}

static void ask_in_window(struct request *request)
{
    make(request);
    add_window(request, "a", 1);
    ask(request);
}

/* Starts a WINDOW before an edge, with nothing held and all sums at nothing. */
static void stand_before(const struct edge *wanted)
{
    edge = wanted;
    memset(&store, 0, sizeof store);
    calendar = NULL;
    now_us += 10 * SECOND;
    if (edge->zone != NULL) {
        assert_int_equal(
            weir_calendar_new(WEIR_CALENDAR_OPTIONS(.zone = edge->zone), &calendar, NULL), WEIR_OK);
        now_us += edge->from_us - 1800000000 * SECOND;
        now_us += weir_calendar_window(calendar, store_now()).end_us - store_now() - WINDOW;
    } else if (!edge->from_first) {
        now_us -= now_us % WINDOW;
    }
    edge_us = now_us + WINDOW;
    open_leases(0);
}

static void leave(void)
{
    now_us += 2 * SECOND;
    weir_leases_tend(leases);
    store.answers_at_once = true;
    answer_all();
    leases = weir_leases_free(leases);
    calendar = weir_calendar_free(calendar);
}

static void for_each_edge(void (*play)(void))
{
    leases = weir_leases_free(leases);
    for (size_t i = 0; i < COUNT_OF(edges); i++) {
        uint64_t before_us = now_us;
        stand_before(&edges[i]);
        play();
        leave();
        now_us = before_us;
    }
    open_leases(0);
}

/* What was let through after the edge was taken after it, to the unit. */
static void check_new_window(uint64_t let_through)
{
    struct weir_state sum = state_of("a");
    assert_int_equal(sum.low, let_through + held());
    assert_true(sum.first >= 1800000000 * SECOND + edge_us);
}

/* Ten of fifty are left, and a call is under way. */
static void spend_down_to_a_refill(void)
{
    struct request request;
    for (int i = 0; i < 40; i++) {
        ask_in_window(&request);
        if (i == 0) {
            answer_all();
            now_us = edge_us - BEFORE_EDGE;
        }
        assert_true(is_allowed(&request));
    }
    assert_int_equal(held(), 10);
    assert_int_equal(store.pending_count, 1);
}

static void cross_with_a_refill_of_before(void)
{
    struct request late;
    spend_down_to_a_refill();
    decide_pending(0);
    now_us = edge_us;
    assert_int_equal(held(), 0);
    ask_in_window(&late);
    assert_false(late.is_over);
    tell(0); /* units of the window that is over */
    assert_false(late.is_over);
    assert_int_equal(held(), 0);
    answer_all();
    assert_true(is_allowed(&late));
    assert_int_equal(late.answers[0].remaining, PER_WINDOW - 1);
    check_new_window(1);
}

static void spends_no_units_of_a_window_in_the_next(void **state)
{
    (void)state;
    for_each_edge(cross_with_a_refill_of_before);
}

static void cross_with_a_refill_of_after(void)
{
    struct request late;
    spend_down_to_a_refill();
    now_us = edge_us;
    ask_in_window(&late);
    assert_false(late.is_over);
    end_pending(0, WEIR_STORE_ANSWERED);
    assert_true(is_allowed(&late));
    assert_int_equal(store.pending_count, 0);
    check_new_window(1);
}

static void spends_a_block_of_the_next_window_at_once(void **state)
{
    (void)state;
    for_each_edge(cross_with_a_refill_of_after);
}

static void cross_in_the_place_of_another(void)
{
    struct request first, late;
    ask_in_window(&first);
    decide_pending(0);
    weir_leases_cancel(leases, &first.check);
    now_us = edge_us;
    ask_in_window(&late);
    tell(0);
    assert_false(late.is_over);
    answer_all();
    assert_true(is_allowed(&late));
    check_new_window(1);
}

static void gives_what_somebody_left_behind_to_nobody_who_came_later(void **state)
{
    (void)state;
    for_each_edge(cross_in_the_place_of_another);
}

static void cross_with_units_set_apart(void)
{
    struct request both, late;
    make(&both);
    add_window(&both, "a", 1);
    add_window(&both, "b", 1);
    ask(&both);
    end_pending(1, WEIR_STORE_ANSWERED);
    now_us = edge_us;
    ask_in_window(&late);
    end_pending(1, WEIR_STORE_ANSWERED);
    assert_true(is_allowed(&late));
    assert_int_equal(held(), 49);
    end_pending(0, WEIR_STORE_UNAVAILABLE);
    assert_true(both.is_over);
    assert_int_equal(held(), 49);
    check_new_window(1);
}

static void returns_nothing_to_the_next_window(void **state)
{
    (void)state;
    for_each_edge(cross_with_units_set_apart);
}

/* who leases what */

static void leaves_alone_what_is_not_leased(void **state)
{
    (void)state;
    struct request request;
    fill();
    make(&request);
    set_spend(&request, "a", 1000, 1, &fifty);
    set_spend(&request, "c", 1000, 1, NULL);
    assert_false(weir_leases_decide(leases, &request.check));
    assert_false(weir_leases_take(leases, &request.check));
    request.check.count = 1;
    request.check.operation = WEIR_RESET;
    assert_false(weir_leases_decide(leases, &request.check));
    assert_false(weir_leases_take(NULL, &request.check));
    assert_int_equal(weir_leases_settle(NULL, request.spends, 2), 2);
}

static void answers_looks_from_fresh_news(void **state)
{
    (void)state;
    struct request look;
    make(&look);
    set_spend(&look, "a", 1000, 0, &fifty);
    assert_false(weir_leases_decide(leases, &look.check));
    assert_false(weir_leases_take(leases, &look.check)); /* the store is asked as ever */
    fill();
    assert_true(weir_leases_decide(leases, &look.check));
    assert_int_equal(look.answers[0].remaining, 999);
    assert_int_equal(held(), 49);
    now_us += SECOND;
    assert_false(weir_leases_decide(leases, &look.check));
}

/* threads: those who ask, the one that tends, and the store's */

#define CALLERS 4
#define ROUNDS  20000

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct weir_check *waiting[CALLERS * 2 + 64];
    size_t count;
    bool stops;
    uint64_t used; /* of one window that never ends */
} crowd = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void crowd_submit(void *self, struct weir_check *check)
{
    (void)self;
    pthread_mutex_lock(&crowd.mutex);
    crowd.waiting[crowd.count++] = check;
    pthread_cond_broadcast(&crowd.changed);
    pthread_mutex_unlock(&crowd.mutex);
}

static void crowd_decide(struct weir_check *check)
{
    const struct weir_spend *spend = &check->spends[0];
    check->result = WEIR_STORE_ANSWERED;
    if (check->operation == WEIR_SETTLE) {
        crowd.used -= spend->reserved - spend->cost;
        return;
    }
    bool fits = crowd.used + spend->cost <= spend->rate.limit;
    crowd.used += fits ? spend->cost : 0;
    check->answers[0] = (struct weir_answer){ .allowed = fits,
                                              .remaining = spend->rate.limit - crowd.used,
                                              .retry_us = fits ? 0 : 1000 * SECOND,
                                              .reset_us = 1000 * SECOND };
    check->now_us = 1000 * SECOND;
}

static void *crowd_answer(void *self)
{
    (void)self;
    pthread_mutex_lock(&crowd.mutex);
    while (!crowd.stops || crowd.count > 0) {
        if (crowd.count == 0) {
            pthread_cond_wait(&crowd.changed, &crowd.mutex);
            continue;
        }
        struct weir_check *check = crowd.waiting[--crowd.count];
        crowd_decide(check);
        pthread_mutex_unlock(&crowd.mutex);
        check->done(check);
        pthread_mutex_lock(&crowd.mutex);
    }
    pthread_mutex_unlock(&crowd.mutex);
    return NULL;
}

static const struct weir_store_type crowd_type = { .size = sizeof(struct weir_store_type),
                                                   .name = "a crowd's",
                                                   .submit = crowd_submit };

struct caller {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    bool has_ended;
    uint64_t allowed;
};

static void on_called(struct weir_check *check)
{
    struct caller *caller = check->owner;
    pthread_mutex_lock(&caller->mutex);
    caller->has_ended = true;
    pthread_cond_signal(&caller->ended);
    pthread_mutex_unlock(&caller->mutex);
}

static void call_once(struct caller *caller, unsigned number)
{
    struct weir_answer answer = { 0 };
    struct weir_spend spend = {
        .algorithm = WEIR_FIXED_WINDOW, .cost = 1, .key = "a", .key_length = 1, .lease = &fifty
    };
    struct weir_check check = {
        .spends = &spend, .answers = &answer, .count = 1, .done = on_called, .owner = caller
    };
    weir_rate_make(CALLERS * ROUNDS / 2, 2000 * SECOND, 0, &spend.rate, NULL);
    caller->has_ended = false;
    if (!weir_leases_decide(leases, &check)) {
        assert_true(weir_leases_take(leases, &check));
        weir_leases_submit(leases, &check);
        if (number % 7 == 0)
            weir_leases_cancel(leases, &check);
        pthread_mutex_lock(&caller->mutex);
        while (!caller->has_ended)
            pthread_cond_wait(&caller->ended, &caller->mutex);
        pthread_mutex_unlock(&caller->mutex);
    }
    caller->allowed += check.result == WEIR_STORE_ANSWERED && answer.allowed;
    if (check.result == WEIR_STORE_ANSWERED && !answer.allowed)
        sched_yield();
}

static void *call_often(void *self)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        call_once(self, i);
    return NULL;
}

static void never_lets_a_crowd_have_more_than_the_limit(void **state)
{
    (void)state;
    struct caller callers[CALLERS];
    pthread_t threads[CALLERS], answering;
    weir_leases_free(leases);
    crowd.used = 0;
    crowd.stops = false;
    const struct weir_leases_options options = { .type = &crowd_type,
                                                 .instances = 1,
                                                 .timeout_us = 20 * SECOND };
    leases = weir_leases_new(&options);
    pthread_create(&answering, NULL, crowd_answer, NULL);
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i] = (struct caller){ .mutex = PTHREAD_MUTEX_INITIALIZER,
                                      .ended = PTHREAD_COND_INITIALIZER };
        pthread_create(&threads[i], NULL, call_often, &callers[i]);
    }
    uint64_t allowed = 0;
    for (size_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        allowed += callers[i].allowed;
    }
    uint64_t held_now = held();
    leases = weir_leases_free(leases);
    pthread_mutex_lock(&crowd.mutex);
    crowd.stops = true;
    pthread_cond_broadcast(&crowd.changed);
    pthread_mutex_unlock(&crowd.mutex);
    pthread_join(answering, NULL);
    assert_true(allowed <= CALLERS * ROUNDS / 2);
    assert_true(allowed + held_now >= CALLERS * ROUNDS / 2 - 60);
    assert_int_equal(crowd.used, allowed); /* what was not spent went back */
    open_leases(0);
}

/* the numbers */

/* A thousand units take 1000 s, so each unit that is held lapses a second after the one before it. */
static void counts_what_lapses(void **state)
{
    (void)state;
    fill();
    now_us += 30 * SECOND; /* nobody has tended it */
    struct weir_leases_numbers numbers = weir_leases_numbers(leases);
    assert_int_equal(numbers.taken, 50);
    assert_int_equal(numbers.held + numbers.stranded, 49);
    assert_int_equal(numbers.held, 20);
    assert_int_equal(numbers.unsure, 0);
}

static void counts_what_lapsed_of_keys_that_are_gone(void **state)
{
    (void)state;
    fill();
    now_us += 30 * SECOND;
    weir_leases_tend(leases);
    answer_all();
    now_us += 3600 * SECOND;
    weir_leases_tend(leases);
    struct weir_leases_numbers numbers = weir_leases_numbers(leases);
    assert_int_equal(numbers.keys, 0);
    assert_int_equal(numbers.stranded, 29);
    assert_int_equal(numbers.taken, 1 + numbers.stranded + numbers.given_back);
}

static void is_unsure_of_a_block_that_the_store_did_not_answer(void **state)
{
    (void)state;
    struct request request;
    ask_one(&request, 1);
    end_pending(0, WEIR_STORE_TIMEOUT);
    struct weir_leases_numbers numbers = weir_leases_numbers(leases);
    assert_int_equal(numbers.unsure, 50);
    assert_int_equal(numbers.taken, 0);
}

static void is_unsure_of_what_the_store_may_not_have_taken_back(void **state)
{
    (void)state;
    fill();
    now_us += 2 * SECOND;
    weir_leases_tend(leases);
    assert_int_equal(store.pending_count, 1);
    uint64_t units = store.pending[0]->spends[0].reserved;
    assert_true(units > 0);
    end_pending(0, WEIR_STORE_UNAVAILABLE);
    assert_int_equal(weir_leases_numbers(leases).unsure, units);
}

int main(void)
{
#define LEASES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LEASES_TEST(spends_a_block_without_asking),
        LEASES_TEST(asks_for_the_next_block_at_low_water),
        LEASES_TEST(tells_what_the_limit_has_left),
        LEASES_TEST(lets_all_of_a_line_in_by_one_call),
        LEASES_TEST(never_holds_more_than_it_says),
        LEASES_TEST(takes_what_is_left_of_a_limit),
        LEASES_TEST(refuses_all_of_a_line_by_one_answer),
        LEASES_TEST(refuses_what_can_never_fit),
        LEASES_TEST(lets_in_who_waited_even_if_a_block_lasts_shorter_than_the_way),
        LEASES_TEST(refuses_at_a_blocked_key),
        LEASES_TEST(asks_for_less_after_each_refusal),
        LEASES_TEST(takes_what_it_holds_into_account_when_the_store_refuses),
        LEASES_TEST(ends_who_waits_with_the_failure_of_the_store),
        LEASES_TEST(spends_on_while_the_store_is_away),
        LEASES_TEST(waits_no_longer_than_the_deadline),
        LEASES_TEST(waits_for_a_second_call_no_longer_than_for_one),
        LEASES_TEST(ends_a_check_that_is_cancelled),
        LEASES_TEST(gives_back_what_is_idle_within_a_second),
        LEASES_TEST(asks_again_about_a_key_that_it_knows_old_news_of),
        LEASES_TEST(forgets_keys_that_nobody_uses),
        LEASES_TEST(gives_back_what_is_held_at_the_end),
        LEASES_TEST(gives_back_by_the_numbers_that_it_took_by),
        LEASES_TEST(gives_all_back_when_it_is_flushed),
        LEASES_TEST(ends_denials_of_what_it_gives_back),
        LEASES_TEST(holds_no_more_than_it_says_when_a_crowd_has_gone),
        LEASES_TEST(leaves_to_the_store_what_is_more_than_it_may_hold),
        LEASES_TEST(is_flushed_while_others_ask_on),
        LEASES_TEST(evicts_what_was_asked_for_least_lately),
        LEASES_TEST(takes_back_what_a_request_did_not_cost),
        LEASES_TEST(tells_of_what_a_request_has_cost_more),
        LEASES_TEST(drops_what_it_holds_of_a_key_that_is_reset),
        LEASES_TEST(spends_all_limits_or_none),
        LEASES_TEST(asks_for_all_limits_that_lack_units_at_once),
        LEASES_TEST(returns_what_was_set_apart_when_another_limit_fails),
        LEASES_TEST(tells_when_it_decided_though_the_key_was_reset_meanwhile),
        LEASES_TEST(returns_only_what_time_has_not_earned_back_meanwhile),
        LEASES_TEST(leaves_several_quiet_limits_to_one_call),
        LEASES_TEST(leaves_quiet_keys_to_the_store),
        LEASES_TEST(spends_no_units_of_a_window_in_the_next),
        LEASES_TEST(spends_a_block_of_the_next_window_at_once),
        LEASES_TEST(gives_what_somebody_left_behind_to_nobody_who_came_later),
        LEASES_TEST(returns_nothing_to_the_next_window),
        LEASES_TEST(leaves_alone_what_is_not_leased),
        LEASES_TEST(answers_looks_from_fresh_news),
        LEASES_TEST(never_lets_a_crowd_have_more_than_the_limit),
        LEASES_TEST(counts_what_lapses),
        LEASES_TEST(counts_what_lapsed_of_keys_that_are_gone),
        LEASES_TEST(is_unsure_of_a_block_that_the_store_did_not_answer),
        LEASES_TEST(is_unsure_of_what_the_store_may_not_have_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
