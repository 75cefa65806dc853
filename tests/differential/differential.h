/* Runs random worlds against a store and the model at once, and compares every answer.
 *
 * WEIR_STEPS=n   so many decisions of each algorithm (a tenth of the program's own number, which is
 *                the default, where a sanitizer is at work)
 * WEIR_SEED=n    the first world's seed; the others follow from it
 * WEIR_WORLD=n   the one world of that seed, told step by step
 *
 * When an answer is wrong, the world's seed and step are printed, and then the shortest story that
 * still goes wrong. */
#ifndef TESTS_DIFFERENTIAL_DIFFERENTIAL_H
#define TESTS_DIFFERENTIAL_DIFFERENTIAL_H

#include "world.h"

struct differential {
    const char *name;
    uint64_t steps;           /* decisions of each algorithm, unless WEIR_STEPS says it      */
    size_t at_once;           /* worlds that are under way together                          */
    bool believes_steps_back; /* the store's clock goes back when it is told so              */
    bool forgets;             /* what has expired is gone, where time never goes back        */

    /* Prepares what a new world asks, in world->store; NULL: there is nothing to do. */
    void (*open)(struct world *world);
    void (*close)(struct world *world);

    /* Asks world->check, whose `done` is the runner's. The store's time is world->told_us. */
    void (*submit)(struct world *world);
};

/* Returns 0 if all was as the model says, as main() wants it. */
int differential_run(const struct differential *run);

#endif
