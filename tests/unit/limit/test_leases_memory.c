/* Leases when memory runs out: each allocation fails once, and every check ends all the same. */
#include "test.h"

#include "limit/lease.h"
#include "limit/leases.h"

/* wrapped by the linker */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static long left; /* allocations that succeed before one fails; negative: all do */
static bool has_failed;

static bool fails(void)
{
    bool is_this = left == 0;
    if (left >= 0)
        left--;
    has_failed = has_failed || is_this;
    return is_this;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

static uint64_t now_us = 1000000;

static uint64_t read_clock(void *self)
{
    (void)self;
    return now_us;
}

static void grant(void *self, struct weir_check *check)
{
    (void)self;
    check->result = WEIR_STORE_ANSWERED;
    if (check->operation == WEIR_SPEND)
        check->answers[0] =
            (struct weir_answer){ .allowed = true, .remaining = 900, .reset_us = 1000000000 };
    check->done(check);
}

static const struct weir_store_type store_type = { .size = sizeof(struct weir_store_type),
                                                   .name = "generous",
                                                   .submit = grant };

static void note_end(struct weir_check *check)
{
    ++*(unsigned *)check->owner;
}

/* Two limits, so that one may be there when the other has no memory. */
static void ask(struct weir_leases *leases)
{
    static const struct weir_lease batch = { .batch = 2, .low_water_ppm = 500000 };
    unsigned ended = 0;
    struct weir_answer answers[2] = { { 0 } };
    struct weir_spend spends[2] = {
        { .algorithm = WEIR_FIXED_WINDOW, .cost = 1, .key = "a", .key_length = 1, .lease = &batch },
        { .algorithm = WEIR_FIXED_WINDOW, .cost = 1, .key = "b", .key_length = 1, .lease = &batch },
    };
    struct weir_check check = {
        .spends = spends, .answers = answers, .count = 2, .done = note_end, .owner = &ended
    };
    for (size_t i = 0; i < 2; i++)
        weir_rate_make(1000, 1000000000, 0, &spends[i].rate, NULL);
    if (weir_leases_decide(leases, &check))
        return;
    if (!weir_leases_take(leases, &check))
        return; /* the store is asked as ever */
    weir_leases_submit(leases, &check);
    assert_int_equal(ended, 1);
    assert_true(
        check.result == WEIR_STORE_UNAVAILABLE
        || (check.result == WEIR_STORE_ANSWERED && answers[0].allowed && answers[1].allowed));
}

static void live(void)
{
    const struct weir_clock clock = { read_clock, NULL };
    const struct weir_leases_options options = {
        .type = &store_type, .instances = 1, .timeout_us = 20000, .clock = &clock
    };
    struct weir_leases *leases = weir_leases_new(&options);
    if (leases == NULL)
        return;
    for (int i = 0; i < 5; i++)
        ask(leases);
    now_us += 2000000;
    weir_leases_tend(leases);
    weir_leases_free(leases);
}

static void ends_every_check_when_memory_runs_out(void **state)
{
    (void)state;
    long allocations = 0;
    do {
        has_failed = false;
        left = allocations++;
        live();
        left = -1;
    } while (has_failed);
    assert_true(allocations > 75); /* 64 shards, keys, waiters and calls */
}

int main(void)
{
    left = -1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_every_check_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
