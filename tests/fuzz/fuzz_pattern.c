/* Path patterns: "pattern\npattern\npath". What a pattern that hides another says of itself must
 * hold for every path. */
#include <stdlib.h>
#include <string.h>

#include "policy/pattern.h"
#include "request/path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static bool matches(const struct weir_pattern *pattern, struct weir_text path)
{
    struct weir_params params;
    if (!weir_pattern_match(pattern, path, &params))
        return false;
    require(params.count <= WEIR_PARAMS_MAX);
    require((params.rest.at != NULL) == pattern->rest);
    for (size_t i = 0; i < params.count; i++) {
        struct weir_text name, value;
        weir_params_at(&params, i, &name, &value);
        require(value.length > 0 && memchr(value.at, '/', value.length) == NULL);
        require(weir_params_get(&params, name).at == value.at);
    }
    return true;
}

static void check(const struct weir_pattern *one, const struct weir_pattern *other,
                  struct weir_text target)
{
    char memory[4096];
    struct weir_buffer path = weir_buffer_init(memory, sizeof memory);
    require(weir_pattern_hides(one, one));
    if (!weir_path_normalise(target, WEIR_PATH_DECODED, &path))
        return;
    struct weir_text normal = weir_buffer_text(&path);
    bool hidden = matches(other, normal);
    if (weir_pattern_hides(one, other) && hidden)
        require(matches(one, normal));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[1024];
    struct weir_pattern one, other;
    if (size == 0 || size >= sizeof text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    char *second = strchr(text, '\n');
    char *path = second == NULL ? NULL : strchr(second + 1, '\n');
    if (path == NULL)
        return 0;
    *second++ = '\0';
    *path++ = '\0';

    bool fold = size % 2 == 0;
    if (weir_pattern_compile(text, fold, &one, NULL, NULL) != WEIR_OK)
        return 0;
    if (weir_pattern_compile(second, size % 3 == 0, &other, NULL, NULL) == WEIR_OK) {
        check(&one, &other, weir_text_from(path));
        weir_pattern_finish(&other);
    }
    weir_pattern_finish(&one);
    return 0;
}
