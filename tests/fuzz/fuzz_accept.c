/* Accept fields of anybody who reaches the metrics: OpenMetrics is never given to who does not name it. */
#include <stdlib.h>
#include <string.h>

#include "admin/metrics_accept.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool names_it(struct weir_text accept)
{
    static const struct weir_text name = { "openmetrics-text", 16 };
    for (size_t i = 0; i + name.length <= accept.length; i++)
        if (weir_text_equal_fold((struct weir_text){ accept.at + i, name.length }, name))
            return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct weir_text accept = { (const char *)data, size };
    if (weir_metrics_accept(accept) == WEIR_METRICS_OPEN && !names_it(accept))
        abort();
    return 0;
}
