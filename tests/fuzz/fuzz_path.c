/* Paths: whatever is sent, what comes out is normalised, and stays as it is when normalised again.
 * The first byte chooses the form of the target and the size of the buffer. */
#include <stdlib.h>
#include <string.h>

#include "request/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool holds_string(struct weir_text text, const char *string)
{
    return memmem(text.at, text.length, string, strlen(string)) != NULL;
}

static bool ends_with(struct weir_text text, const char *string)
{
    size_t length = strlen(string);
    return text.length >= length && memcmp(text.at + text.length - length, string, length) == 0;
}

static void check_form(struct weir_text path)
{
    require(path.length >= 1 && path.at[0] == '/');
    require(memchr(path.at, '\0', path.length) == NULL);
    require(!holds_string(path, "//"));
    require(!holds_string(path, "/./") && !holds_string(path, "/../"));
    require(!ends_with(path, "/.") && !ends_with(path, "/.."));
    require(path.length == 1 || !ends_with(path, "/"));
}

static void check_again(struct weir_text path)
{
    char memory[4096];
    struct weir_buffer again = weir_buffer_init(memory, sizeof memory);
    require(weir_path_normalise(path, WEIR_PATH_DECODED, &again));
    require(weir_text_equal(weir_buffer_text(&again), path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char memory[2048];
    if (size == 0)
        return 0;

    enum weir_path_form form = data[0] % 2 == 0 ? WEIR_PATH_DECODED : WEIR_PATH_ENCODED;
    struct weir_text target = { (const char *)data + 1, size - 1 };
    struct weir_buffer path =
        weir_buffer_init(memory, data[0] < 128 ? sizeof memory : (size_t)data[0] - 127);
    if (!weir_path_normalise(target, form, &path))
        return 0;
    require(weir_buffer_string(&path) != NULL);
    require(path.length <= (target.length > 0 ? target.length : 1));
    check_form(weir_buffer_text(&path));
    check_again(weir_buffer_text(&path));
    return 0;
}
