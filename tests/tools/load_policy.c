/* Loads a policy file with the public functions alone and says what came of it, for check_docs.
 *
 * Usage: load_policy FILE. Prints "ok" or the error, then the warnings; exits 0 or 1. */
#include <stdio.h>

#include <weir/error.h>
#include <weir/policy.h>

int main(int count, char **arguments)
{
    if (count != 2)
        return 2;

    char line[640];
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_policy *policy = NULL;
    if (weir_policy_load(arguments[1], &policy, &error) != WEIR_OK) {
        puts(weir_error_line(&error, NULL, line, sizeof line));
        return 1;
    }

    puts("ok");
    for (size_t i = 0; i < weir_policy_warning_count(policy); i++)
        puts(weir_error_line(weir_policy_warning(policy, i), NULL, line, sizeof line));
    weir_policy_free(policy);
    return 0;
}
