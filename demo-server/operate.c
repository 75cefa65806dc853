#include "operate.h"

#include <stdlib.h>
#include <string.h>

#include <weir/metrics.h>

/* As the command line says it: "127.0.0.1:8080", "localhost:0", "[::1]:8080". Should a name be another
 * machine's after all, the library does not serve an API without a token there. */
static bool is_this_machine(const char *where)
{
    static const char *const starts[] = { "127.", "localhost:", "[::1]:" };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
        if (strncmp(where, starts[i], strlen(starts[i])) == 0)
            return true;
    return false;
}

static bool is_wanted(const struct demo_options *options, const char *token)
{
    switch (options->operating) {
    case DEMO_OPERATING_ALWAYS:
        return true;
    case DEMO_OPERATING_NEVER:
        return false;
    case DEMO_OPERATING_AUTO:
        break;
    }
    return token != NULL || is_this_machine(options->listen);
}

enum weir_code demo_operate_add(struct weir_chain *chain, struct weir_limiter *limiter,
                                const struct demo_options *options, const struct weir_log *log,
                                struct weir_admin **admin, struct weir_error *error)
{
    const char *token = getenv("WEIR_ADMIN_TOKEN");
    if (!is_wanted(options, token))
        return WEIR_OK;
    enum weir_code code = weir_admin_new(
        WEIR_ADMIN_OPTIONS(.limiter = limiter, .token = token, .log = *log), admin, error);
    if (code != WEIR_OK)
        return code;
    /* Names of policies, and how much is refused, are not for everybody, nor behind a proxy. */
    code = weir_chain_use_at(chain, "/metrics", weir_admin_guard(*admin));
    if (code == WEIR_OK)
        code = weir_chain_use_at(chain, "/metrics", weir_metrics(limiter));
    if (code == WEIR_OK)
        code = weir_chain_use_at(chain, "/admin", weir_admin(*admin));
    return code == WEIR_OK ? code : weir_error_set(error, code, NULL, "The chain cannot be built.");
}
