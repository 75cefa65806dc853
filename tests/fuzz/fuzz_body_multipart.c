/* Multipart forms. The first line of the input is what stands behind the type in Content-Type. */
#include <stdio.h>

#include "fuzz_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char type[200];
    const uint8_t *line = size == 0 ? NULL : memchr(data, '\n', size);
    if (line == NULL || line - data > 120)
        return 0;
    snprintf(type, sizeof type, "multipart/form-data;%.*s", (int)(line - data), (const char *)data);
    body_check(type, line + 1, size - (size_t)(line + 1 - data));
    return 0;
}
