#include "differential.h"

#include <inttypes.h>
#include <pthread.h>
#include <time.h>

#include "limit/algorithm.h"

#define ALGORITHMS (WEIR_PENALTY + 1)

/* Sanitizers make all of it several times slower. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWER 10
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWER 10
#endif
#endif
#ifndef SLOWER
#define SLOWER 1
#endif

/* A story is told again at most so often to make it shorter. */
#define SHRINKS_MAX 3000

static const struct differential *run;

/* asking */

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t none;
    size_t count;
} under_way = { .mutex = PTHREAD_MUTEX_INITIALIZER, .none = PTHREAD_COND_INITIALIZER };

static void on_done(struct weir_check *check)
{
    (void)check;
    pthread_mutex_lock(&under_way.mutex);
    if (--under_way.count == 0)
        pthread_cond_signal(&under_way.none);
    pthread_mutex_unlock(&under_way.mutex);
}

static void submit(struct world *world, const struct step *step)
{
    world->check = (struct weir_check){
        .operation = step->operation,
        .wants_time = step->wants_time,
        .spends = step->spends,
        .answers = world->got,
        .count = step->count,
        .block_us = step->block_us,
        .done = on_done,
    };
    memset(world->got, 0xa5, sizeof world->got);
    pthread_mutex_lock(&under_way.mutex);
    under_way.count++;
    pthread_mutex_unlock(&under_way.mutex);
    run->submit(world);
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&under_way.mutex);
    while (under_way.count > 0)
        pthread_cond_wait(&under_way.none, &under_way.mutex);
    pthread_mutex_unlock(&under_way.mutex);
}

/* telling */

static void tell_answer(const char *who, const struct weir_answer *answer)
{
    printf("      %s %s%s, remaining %" PRIu64 ", retry %" PRIu64 ", reset %" PRIu64
           ", wait %" PRIu64 "\n",
           who, answer->allowed ? "allowed" : "refused", answer->impossible ? " impossible" : "",
           answer->remaining, answer->retry_us, answer->reset_us, answer->wait_us);
}

static void tell_penalty(size_t limit, const struct weir_spend *spend)
{
    const struct weir_penalty *penalty = spend->penalty;
    printf("    [%zu]%s penalty after %" PRIu32 ":", limit,
           spend->group_length > 0 ? " grouped" : "", penalty->after);
    for (uint32_t i = 0; i < penalty->ban_count; i++)
        printf(" %" PRIu64, penalty->bans_us[i]);
    printf(", forgotten after %" PRIu64 "%s\n", penalty->forget_us,
           penalty->extends ? ", extends" : "");
}

static void tell_spend(size_t limit, const struct weir_spend *spend, bool settles)
{
    const struct weir_rate *rate = &spend->rate;
    if (spend->algorithm == WEIR_PENALTY) {
        tell_penalty(limit, spend);
        return;
    }
    printf("    [%zu]%s %s %" PRIu64 " in %" PRIu64 " us, burst %" PRIu64 ", cost %" PRIu64, limit,
           spend->group_length > 0 ? " grouped" : "", weir_algorithm_tag(spend->algorithm),
           rate->limit, rate->window_us, rate->burst, spend->cost);
    if (spend->from_first)
        printf(", from first");
    if (spend->calendar != NULL)
        printf(", on a calendar");
    if (spend->max_wait_us > 0)
        printf(", max_wait %" PRIu64, spend->max_wait_us);
    if (spend->logs_refusals)
        printf(", logs refusals");
    if (settles)
        printf(", reserved %" PRIu64 " at %" PRIu64 " until %" PRIu64, spend->reserved,
               spend->decided_us, spend->full_us);
    printf("\n");
}

static void tell_step(const struct world *world, const struct step *step)
{
    static const char *const names[] = { "spend", "settle", "reset", "block" };
    printf("  %zu: at %" PRIu64 " (%+" PRId64 " us): %s", world->step_count - 1, world->now_us,
           step->pause_us, names[step->operation]);
    if (step->operation == WEIR_BLOCK)
        printf(" for %" PRIu64 " us", step->block_us);
    printf("%s\n", step->wants_time ? ", wants time" : "");
    for (size_t i = 0; i < step->count; i++)
        tell_spend(step->limits[i], &step->spends[i], step->operation == WEIR_SETTLE);
}

/* comparing */

static bool is_same(const struct weir_answer *one, const struct weir_answer *other)
{
    return one->allowed == other->allowed && one->impossible == other->impossible
           && one->remaining == other->remaining && one->retry_us == other->retry_us
           && one->reset_us == other->reset_us && one->wait_us == other->wait_us;
}

/* Compares what the store said to the step that it was asked last; `tells`: in words. */
static bool is_right(struct world *world, const struct step *step, bool tells)
{
    struct weir_answer want[WEIR_CHECK_LIMITS] = { { .allowed = false } };
    world_expect(world, step, want);
    if (tells)
        tell_step(world, step);
    if (world->check.result != WEIR_STORE_ANSWERED) {
        if (tells)
            printf("      no answer: %s\n", world->check.why);
        return false;
    }
    bool is_all_right = true;
    if (step->operation == WEIR_SPEND && step->wants_time)
        is_all_right = world->check.now_us == world->now_us;
    if (tells && !is_all_right)
        printf("      decided at %" PRIu64 "\n", world->check.now_us);
    for (size_t i = 0; i < step->count && step->operation == WEIR_SPEND; i++) {
        bool is_answer_right = is_same(&world->got[i], &want[i]);
        is_all_right = is_all_right && is_answer_right;
        if (tells)
            tell_answer("got ", &world->got[i]);
        if (tells && !is_answer_right)
            tell_answer("WANT", &want[i]);
    }
    return is_all_right;
}

/* a story told again, shorter and shorter */

/* Repeats the steps of `story` in a new world; false: one of them goes wrong, and is the last that
 * `again` has. */
static bool goes_well(struct world *again, const struct world *story, bool tells)
{
    world_begin_again(again, story);
    if (run->open != NULL)
        run->open(again);
    bool is_well = true;
    for (size_t i = 0; i < story->step_count && is_well; i++) {
        const struct step *step = world_repeat(again, &story->steps[i]);
        submit(again, step);
        wait_for_all();
        is_well = is_right(again, step, tells);
    }
    if (run->close != NULL)
        run->close(again);
    world_finish(again);
    return is_well;
}

/* Leaves out `count` steps, but not the time that they took. */
static bool leave_out(struct world *shorter, const struct world *story, size_t first, size_t count)
{
    if (first + count >= story->step_count)
        return false;
    world_begin_again(shorter, story);
    int64_t pause_us = 0;
    for (size_t i = 0; i < story->step_count; i++) {
        pause_us += story->steps[i].pause_us;
        if (i >= first && i < first + count)
            continue;
        struct step *step = &shorter->steps[shorter->step_count++];
        *step = story->steps[i];
        step->pause_us = pause_us;
        pause_us = 0;
    }
    return true;
}

/* A limit that its penalty stands behind has to stay. */
static bool may_leave_out(const struct step *step, size_t which)
{
    return step->count > 1 && which < step->count
           && (which + 1 == step->count || step->spends[which + 1].algorithm != WEIR_PENALTY);
}

static bool leave_out_limit(struct world *shorter, const struct world *story, size_t index,
                            size_t which)
{
    if (!may_leave_out(&story->steps[index], which))
        return false;
    world_begin_again(shorter, story);
    shorter->step_count = story->step_count;
    memcpy(shorter->steps, story->steps, story->step_count * sizeof story->steps[0]);
    struct step *step = &shorter->steps[index];
    step->count--;
    for (size_t i = which; i < step->count; i++) {
        step->limits[i] = step->limits[i + 1];
        step->spends[i] = step->spends[i + 1];
        step->penalties[i] = step->penalties[i + 1];
    }
    return true;
}

static void copy_steps(struct world *to, const struct world *from)
{
    to->step_count = from->step_count;
    memmove(to->steps, from->steps, from->step_count * sizeof from->steps[0]);
}

/* Makes the story as short as it gets; it ends with the step that goes wrong. */
static void shrink(struct world *story)
{
    static struct world shorter, again;
    unsigned tries = 0;
    for (size_t count = story->step_count / 2; count > 0; count /= 2)
        for (size_t first = 0; first < story->step_count && tries < SHRINKS_MAX;) {
            if (leave_out(&shorter, story, first, count) && tries++ < SHRINKS_MAX
                && !goes_well(&again, &shorter, false)) {
                shorter.step_count = again.step_count;
                copy_steps(story, &shorter);
            } else
                first += count;
        }
    for (size_t i = story->step_count; i > 0; i--)
        for (size_t which = 0; which < WEIR_CHECK_LIMITS && tries < SHRINKS_MAX;) {
            if (leave_out_limit(&shorter, story, i - 1, which) && tries++ < SHRINKS_MAX
                && !goes_well(&again, &shorter, false)) {
                shorter.step_count = again.step_count;
                copy_steps(story, &shorter);
            } else
                which++;
        }
}

static void tell_failure(const struct world *world)
{
    static struct world story, again;
    printf("%s: world %" PRIu64 " goes wrong at step %zu; WEIR_WORLD=%" PRIu64 " repeats it\n",
           run->name, world->seed, world->step_count - 1, world->seed);
    world_begin_again(&story, world);
    copy_steps(&story, world);
    if (goes_well(&again, &story, false)) {
        printf("  but when it is told again it goes well\n");
        return;
    }
    story.step_count = again.step_count;
    shrink(&story);
    printf("  in short:\n");
    goes_well(&again, &story, true);
}

/* one world, and many */

static uint64_t number_from(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static int run_one(uint64_t seed)
{
    static struct world world;
    world_begin(&world, seed, run->believes_steps_back, run->forgets);
    if (run->open != NULL)
        run->open(&world);
    bool is_well = true;
    while (!world.is_over && is_well) {
        const struct step *step = world_next(&world);
        submit(&world, step);
        wait_for_all();
        is_well = is_right(&world, step, true);
    }
    if (!is_well)
        tell_failure(&world);
    if (run->close != NULL)
        run->close(&world);
    world_finish(&world);
    return !is_well;
}

struct tally {
    uint64_t seed; /* of the next world */
    uint64_t decisions[ALGORITHMS];
    uint64_t others; /* settled, reset, blocked */
    uint64_t checks;
    unsigned failures;
};

static void count_step(struct tally *tally, const struct step *step)
{
    tally->checks++;
    for (size_t i = 0; i < step->count; i++) {
        tally->decisions[step->spends[i].algorithm] += step->operation == WEIR_SPEND;
        tally->others += step->operation != WEIR_SPEND;
    }
}

static bool is_enough(const struct tally *tally, uint64_t steps)
{
    for (size_t i = 0; i < ALGORITHMS; i++)
        if (tally->decisions[i] < steps)
            return false;
    return true;
}

static void end_world(struct world *world)
{
    if (run->close != NULL)
        run->close(world);
    world_finish(world);
    world->is_over = true;
    world->step_count = 0;
}

/* Every world takes a step: all ask, and then all compare. */
static void take_steps(struct world *worlds, struct tally *tally)
{
    for (size_t i = 0; i < run->at_once; i++) {
        if (worlds[i].step_count == 0) {
            world_begin(&worlds[i], tally->seed++, run->believes_steps_back, run->forgets);
            if (run->open != NULL)
                run->open(&worlds[i]);
        }
        submit(&worlds[i], world_next(&worlds[i]));
    }
    wait_for_all();
    for (size_t i = 0; i < run->at_once; i++) {
        struct world *world = &worlds[i];
        const struct step *step = &world->steps[world->step_count - 1];
        count_step(tally, step);
        bool is_well = is_right(world, step, false);
        if (!is_well && ++tally->failures <= 3)
            tell_failure(world);
        if (!is_well || world->is_over)
            end_world(world);
    }
}

static void tell_tally(const struct tally *tally, uint64_t first_seed)
{
    printf("%s: WEIR_SEED=%" PRIu64 ", %" PRIu64 " checks, %" PRIu64 " corrections;", run->name,
           first_seed, tally->checks, tally->others);
    for (size_t i = 0; i < ALGORITHMS; i++)
        printf(" %s %" PRIu64, weir_algorithm_tag((enum weir_algorithm)i), tally->decisions[i]);
    printf("; %u worlds went wrong\n", tally->failures);
}

int differential_run(const struct differential *what)
{
    run = what;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (getenv("WEIR_WORLD") != NULL)
        return run_one(number_from("WEIR_WORLD", 0));

    uint64_t first_seed = number_from("WEIR_SEED", (uint64_t)time(NULL) * 10000000);
    uint64_t steps = number_from("WEIR_STEPS", run->steps / SLOWER);
    printf("%s: WEIR_SEED=%" PRIu64 "\n", run->name, first_seed);
    struct world *worlds = calloc(run->at_once, sizeof *worlds);
    assert_non_null(worlds);
    struct tally tally = { .seed = first_seed };
    while (!is_enough(&tally, steps) && tally.failures < 3)
        take_steps(worlds, &tally);
    for (size_t i = 0; i < run->at_once; i++)
        if (worlds[i].step_count > 0)
            end_world(&worlds[i]);
    free(worlds);
    tell_tally(&tally, first_seed);
    return tally.failures > 0;
}
