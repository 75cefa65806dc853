/* What a wrapped example needs beside its three edits: a chain, a limiter in it if --policy names a
 * file, and an orderly end. */
#ifndef EXAMPLES_WRAPPING_H
#define EXAMPLES_WRAPPING_H

#include <weir/weir.h>

#include "running.h"

struct wrapping {
    struct weir_policy *policy;   /* NULL without --policy */
    struct weir_limiter *limiter; /* likewise              */
    struct weir_chain *chain;
};

/* Makes the chain. False: it cannot be made, which stderr says. */
bool wrapping_start(struct wrapping *wrapping, struct running *running);

/* Answers whoever still waits, stops the daemon, and frees everything. True: all were answered. */
bool wrapping_stop(struct wrapping *wrapping, const struct running *running,
                   struct MHD_Daemon *daemon);

#endif
