/* docs/errors.md has a section for each code. */
#include "test.h"

#include <weir/error.h>

/* The page, with a line end before it; its memory is the caller's. */
static char *read_page(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/errors.md", getenv("WEIR_DOCS"));
    FILE *file = fopen(path, "r");
    if (file == NULL)
        fail_msg("%s cannot be read", path);
    size_t size = 1 << 20;
    char *text = malloc(size);
    assert_non_null(text);
    text[0] = '\n';
    size_t length = fread(text + 1, 1, size - 2, file);
    text[length + 1] = '\0';
    fclose(file);
    return text;
}

static void explains_each_code_in_a_section_of_its_own(void **state)
{
    (void)state;
    char *page = read_page();
    for (int code = WEIR_OK + 1; code < WEIR_CODE_COUNT; code++) {
        char heading[64];
        snprintf(heading, sizeof heading, "\n### %s\n", weir_code_name((enum weir_code)code));
        char *section = strstr(page, heading);
        if (section == NULL)
            fail_msg("%s has no section", weir_code_name((enum weir_code)code));
        char *next = strstr(section + strlen(heading), "\n#");
        if (next != NULL)
            *next = '\0';
        if (strstr(section, weir_code_meaning((enum weir_code)code)) == NULL)
            fail_msg("%s does not say: %s", heading, weir_code_meaning((enum weir_code)code));
        if (strstr(section, "**Do:**") == NULL)
            fail_msg("%s does not say what to do", heading);
        if (next != NULL)
            *next = '\n';
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(explains_each_code_in_a_section_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
