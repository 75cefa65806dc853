/* A world: a few keys, a clock, and a random story of what is asked of them. What is asked next
 * depends on what the model answered before, so that waits and edges are met to the microsecond. */
#ifndef TESTS_DIFFERENTIAL_WORLD_H
#define TESTS_DIFFERENTIAL_WORLD_H

#include "test.h"

#include <weir/store.h>

#include "model.h"

#define WORLD_STEPS_MAX 300

/* One thing that is asked. Keys are pointers into the world's limits. */
struct step {
    enum weir_operation operation;
    int64_t pause_us; /* what the clock does before; below 0: it is set back */
    uint64_t block_us;
    bool wants_time;
    size_t count;
    size_t limits[WEIR_CHECK_LIMITS]; /* which of the world's the spends are for */
    struct weir_spend spends[WEIR_CHECK_LIMITS];
    struct weir_penalty penalties[WEIR_CHECK_LIMITS]; /* of the spends that are penalties */
};

/* What was let through, to settle. */
struct taken {
    uint64_t units;
    uint64_t decided_us;
    uint64_t full_us;
    bool is_settled; /* at most once */
};

/* A limit, or a penalty, which stands behind its limit. */
struct limit {
    char key[96];
    struct weir_spend spend; /* as the next plan has it */
    struct weir_penalty penalty;
    struct model_sum sum;
    struct weir_answer last;
    uint64_t last_cost;
    uint64_t block_ends_us; /* the last one */
    struct taken taken[4];
    size_t taken_count;
};

struct world {
    uint64_t seed;
    uint64_t random;
    bool is_steady; /* time never goes back for the store…       */
    bool is_misled; /* …though its clock is told to now and then */
    bool forgets;   /* what has expired may be gone              */
    bool wants_time;
    bool is_over;
    uint64_t told_us; /* what the clock says                              */
    uint64_t now_us;  /* what the store makes of it: time never goes back */
    size_t count;
    size_t single; /* the limit that is asked alone (but for its penalty) at times */
    struct limit limits[WEIR_CHECK_LIMITS];
    struct step steps[WORLD_STEPS_MAX];
    size_t step_count;

    /* of the step under way */
    struct weir_check check;
    struct weir_answer got[WEIR_CHECK_LIMITS];
    void *store;
};

/* Begins the world of this seed. `believes_steps_back`: the store's clock does go back when it is
 * told so. `forgets`: where time never goes back, the store drops what has expired. */
void world_begin(struct world *world, uint64_t seed, bool believes_steps_back, bool forgets);

/* The same limits, new and under other keys, with no steps yet. */
void world_begin_again(struct world *world, const struct world *like);

void world_finish(struct world *world);

/* Thinks of the next step, adds it and moves the clock. */
struct step *world_next(struct world *world);

/* Adds a step of another world and moves the clock. */
struct step *world_repeat(struct world *world, const struct step *step);

/* Lets the model take the step, for what it answers. */
void world_expect(struct world *world, const struct step *step, struct weir_answer *answers);

#endif
