/* What somebody who misspelt a name probably meant. */
#ifndef WEIR_BASE_SUGGEST_H
#define WEIR_BASE_SUGGEST_H

#include "base/text.h"

/* The known name that is nearest to `word`, or NULL if none is close: more than a third of its
 * letters (but always one) would have to be added, dropped, replaced or swapped with a neighbour
 * (the "optimal string alignment" distance). Letter case does not count; of several that are
 * equally near the first is taken. Words and names above 64 bytes are close to nothing. Pure. */
const char *weir_suggest(struct weir_text word, const char *const *known, size_t count);

#endif
