#include "base/options.h"

#include <string.h>

static bool is_zero(const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

enum weir_code weir_options_take(void *ours, size_t ours_size, const void *theirs,
                                 size_t first_size, const char *macro, struct weir_error *error)
{
    memset(ours, 0, ours_size);
    size_t size = 0;
    if (theirs != NULL)
        memcpy(&size, theirs, sizeof size);
    if (theirs != NULL && size < first_size)
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL, "Options were not made with %s.",
                              macro);
    if (size > ours_size && !is_zero((const unsigned char *)theirs + ours_size, size - ours_size))
        return weir_error_set(error, WEIR_E_ARGUMENT, NULL,
                              "%s asks for more than this version offers.", macro);

    if (theirs != NULL)
        memcpy(ours, theirs, size < ours_size ? size : ours_size);
    memcpy(ours, &ours_size, sizeof ours_size);
    return WEIR_OK;
}
