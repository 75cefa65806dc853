/* Forms: a field that is found stands there once, in whichever way it is written. */
#include "fuzz_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* With the same field once more behind it, no body says what is meant. */
static void check_twice(const uint8_t *data, size_t size)
{
    static const char more[] = "&%75sername=x";
    char memory[8192], other[8192];
    if (size + sizeof more > 2048)
        return;
    memcpy(memory, data, size);
    memcpy(memory + size, more, sizeof more - 1);
    struct weir_body_field fields[BODY_FIELDS];
    bool has_name = body_read("application/x-www-form-urlencoded",
                              (struct weir_text){ (const char *)data, size }, fields, other)
                        == WEIR_BODY_READ
                    && fields[0].value.at != NULL;
    const struct weir_text twice = { memory, size + sizeof more - 1 };
    enum weir_body_reading reading =
        body_read("application/x-www-form-urlencoded", twice, fields, other);
    require(!has_name || reading == WEIR_BODY_BROKEN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (body_check("application/x-www-form-urlencoded", data, size) && size > 0)
        check_twice(data, size);
    return 0;
}
