/* Signals and the library's own threads. */
#ifndef WEIR_BASE_SIGNALS_H
#define WEIR_BASE_SIGNALS_H

#include <signal.h>

/* Blocks all signals on this thread, and so on those that it starts, but for those that a fault of its
 * own raises, for which the application may have a handler. `before` is what pthread_sigmask() puts
 * back. */
void weir_signals_block(sigset_t *before);

#endif
