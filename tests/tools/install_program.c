/* The smallest program that uses weir, for check_install and check_subproject. */
#include <stdio.h>

#include <weir/weir.h>

int main(void)
{
    struct weir_error error = WEIR_NO_ERROR;
    struct weir_chain *chain = NULL;
    if (weir_chain_new(NULL, &chain, &error) != WEIR_OK) {
        fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    weir_chain_free(chain);
    puts(weir_version());
    return 0;
}
