/* Who waits in place, and for how long: chain/in_place.h. */
#include "test.h"

#include <stdatomic.h>

#include "chain/chain_internal.h"
#include "chain/mhd_worker.h"
#include "store/store.h"

/* how long may be waited */

static void waits_only_when_nothing_is_left_to_do(void **state)
{
    (void)state;
    static const struct {
        const char *label;
        uint64_t turn, left_at, woken_at;
        size_t moving;
        bool has_loop;
        uint64_t wait_us;
    } rows[] = {
        { "nothing but waiting requests", 100, 10, 10, 0, false, 1000 },
        { "one is in the middle of something", 100, 10, 10, 1, false, 100 },
        { "a reply is to be written in the next round", 100, 99, 10, 1, false, 0 },
        { "…or in the one after, as far as turns tell", 100, 98, 10, 1, false, 0 },
        { "it has had its rounds, and is a long one", 100, 97, 10, 1, false, 100 },
        { "it has been written", 100, 99, 10, 0, false, 1000 },
        { "a connection has news", 100, 10, 99, 0, false, 0 },
        { "…which is fetched by now, but not served", 100, 10, 98, 0, false, 0 },
        { "…and served", 100, 10, 97, 0, false, 1000 },
        { "a loop has served all that it has fetched", 100, 10, 99, 0, true, 1000 },
        { "…but a reply", 100, 99, 10, 1, true, 0 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct weir_worker worker = { .turn = rows[i].turn,
                                            .left_at = rows[i].left_at,
                                            .woken_at = rows[i].woken_at,
                                            .moving = rows[i].moving,
                                            .has_loop = rows[i].has_loop };
        uint64_t wait_us = weir_in_place_patience_us(&worker);
        if (wait_us != rows[i].wait_us)
            print_message("    %s\n", rows[i].label);
        assert_int_equal(wait_us, rows[i].wait_us);
    }
}

/* several stores */

struct weir_lane {
    bool is_over;
    unsigned drives;
    int fd;
    uint64_t wait_us;
};

static bool note_drive(struct weir_lane *lane, int fd, uint64_t wait_us)
{
    lane->drives++;
    lane->fd = fd;
    lane->wait_us = wait_us;
    return fd >= 0;
}

static unsigned open_count;

static struct weir_lane *open_lane(void *self)
{
    open_count++;
    return self;
}

static void close_lane(struct weir_lane *lane)
{
    assert_true(lane->is_over || open_count > 0);
    open_count--;
}

static bool is_over(const struct weir_lane *lane)
{
    return lane->is_over;
}

static bool is_ready(const struct weir_lane *lane)
{
    return !lane->is_over;
}

static bool look(struct weir_lane *lane)
{
    return !lane->is_over;
}

static void submit(struct weir_lane *lane, struct weir_check *check)
{
    (void)lane;
    check->done(check);
}

static const struct weir_lane_type noting = {
    .open = open_lane,
    .close = close_lane,
    .is_over = is_over,
    .look = look,
    .submit = submit,
    .drive = note_drive,
    .is_ready = is_ready,
};

static void drives_all_lanes_and_waits_at_one(void **state)
{
    (void)state;
    struct weir_lane lanes[3] = { { .fd = -2 }, { .fd = -2 }, { .fd = -2 } };
    struct weir_worker worker = { .events = 77, .lane_count = 3, .turn = 5 };
    for (size_t i = 0; i < 3; i++)
        worker.lanes[i] =
            (struct weir_worker_lane){ .type = &noting, .lane = &lanes[i], .staying = i % 2 == 0 };
    atomic_store(&worker.staying, 2);

    assert_true(weir_in_place_turn(&worker, 1000));
    assert_int_equal(lanes[0].drives, 1);
    assert_int_equal(lanes[0].fd, -1);
    assert_int_equal(lanes[0].wait_us, 1); /* it is read */
    assert_int_equal(lanes[1].drives, 0);
    assert_int_equal(lanes[2].fd, 77);
    assert_int_equal(lanes[2].wait_us, 100); /* the other one may have something any time */
    assert_int_equal(worker.woken_at, 5);

    worker.lanes[2].staying = 0;
    weir_in_place_turn(&worker, 1000);
    assert_int_equal(lanes[0].fd, 77);
    assert_int_equal(lanes[0].wait_us, 1000);
    weir_in_place_turn(&worker, 0);
    assert_int_equal(lanes[0].wait_us, 0);
    assert_int_equal(lanes[2].drives, 1);
}

/* A request of its own for each check, on the worker. */
static bool asks(struct weir_chain *chain, struct weir_worker *worker,
                 const struct weir_store *store)
{
    struct weir_check check = { .count = 0 };
    struct weir_request request = {
        .chain = chain, .worker = worker, .can_stay = true, .may_wait = true
    };
    bool has_asked = weir_in_place_ask(&request, store, &check);
    assert_int_equal(request.is_answered, has_asked);
    weir_in_place_ends(&request);
    return has_asked;
}

static void gives_the_place_of_a_store_that_is_gone_to_another(void **state)
{
    (void)state;
    struct weir_chain *chain = NULL;
    assert_int_equal(weir_chain_new(NULL, &chain, NULL), WEIR_OK);
    struct weir_worker *worker = weir_in_place_worker(chain, &noting, 77, false);
    struct weir_lane lanes[WEIR_WORKER_LANES_MAX + 1] = { { .is_over = false } };
    struct weir_store stores[WEIR_WORKER_LANES_MAX + 1];
    for (size_t i = 0; i <= WEIR_WORKER_LANES_MAX; i++) {
        stores[i] = (struct weir_store){ .lanes = &noting, .lanes_self = &lanes[i] };
        assert_int_equal(asks(chain, worker, &stores[i]), i < WEIR_WORKER_LANES_MAX);
    }
    assert_int_equal(open_count, WEIR_WORKER_LANES_MAX);

    lanes[1].is_over = true;
    assert_true(asks(chain, worker, &stores[WEIR_WORKER_LANES_MAX]));
    assert_int_equal(open_count, WEIR_WORKER_LANES_MAX);

    /* A new store where an old one stood. */
    struct weir_lane anew = { .is_over = false };
    lanes[2].is_over = true;
    stores[2].lanes_self = &anew;
    assert_true(asks(chain, worker, &stores[2]));
    assert_int_equal(worker->lane_count, WEIR_WORKER_LANES_MAX);
    weir_chain_free(chain);
    assert_int_equal(open_count, 0);
}

/* what it rests on */

static void finds_that_libmicrohttpd_does_what_it_takes(void **state)
{
    (void)state;
    assert_true(weir_mhd_probe());
    assert_true(weir_mhd_probe());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_only_when_nothing_is_left_to_do),
        cmocka_unit_test(drives_all_lanes_and_waits_at_one),
        cmocka_unit_test(gives_the_place_of_a_store_that_is_gone_to_another),
        cmocka_unit_test(finds_that_libmicrohttpd_does_what_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
