/* Whether a policy holds for a client: its mode, and its "enforce_percent". */
#include <endian.h>

#include "base/hash.h"
#include "limit/limiter_internal.h"

#define NAME_MAX_BYTES 64

enum weir_mode weir_limiter_mode(const struct weir_edition *edition,
                                 const struct weir_ruleset *ruleset)
{
    return edition->policy->mode != WEIR_ENFORCE ? edition->policy->mode : ruleset->mode;
}

/* Who a client is, whatever limits count by: so it has one fate in all of them. */
static const struct weir_by client = { .count = 1,
                                       .parts[0] = { .count = 4,
                                                     .alternatives = { { .kind = WEIR_BY_API_KEY },
                                                                       { .kind = WEIR_BY_USER },
                                                                       { .kind = WEIR_BY_TENANT },
                                                                       { .kind = WEIR_BY_IP } } } };

/* The client's place among a million, for this policy: the same in all processes, since it is made of
 * nothing that is drawn. Keyed with the secret, so that nobody can look for a name with a good place. */
static uint32_t place_of(const struct weir_policy *policy, const struct weir_ruleset *ruleset,
                         const struct weir_identity *identity)
{
    char memory[NAME_MAX_BYTES + 1 + WEIR_SUBJECT_MAX + 1];
    struct weir_buffer text = weir_buffer_init(memory, sizeof memory);
    const struct weir_asker asker = { .policy = policy, .identity = identity };
    _Static_assert(WEIR_HASH_KEY_BYTES <= WEIR_SECRET_BYTES, "the secret is a key");
    weir_buffer_put_string(&text, ruleset->name);
    weir_buffer_put_char(&text, ' ');
    weir_subject_write(&client, &asker, &text); /* who is nobody has a place as well */
    uint64_t hash = weir_hash64(weir_buffer_text(&text), policy->secret);
    return (uint32_t)(le64toh(hash) % WEIR_ENFORCE_ALL);
}

enum weir_mode weir_limiter_mode_for(const struct weir_edition *edition,
                                     const struct weir_ruleset *ruleset,
                                     const struct weir_identity *identity)
{
    enum weir_mode mode = weir_limiter_mode(edition, ruleset);
    if (mode != WEIR_ENFORCE || ruleset->enforce_ppm == WEIR_ENFORCE_ALL)
        return mode;
    return place_of(edition->policy, ruleset, identity) < ruleset->enforce_ppm ? WEIR_ENFORCE
                                                                               : WEIR_SHADOW;
}

void weir_limiter_find_mode(struct weir_limit_state *state, const struct weir_request *request)
{
    const struct weir_ruleset *ruleset = state->match.route->ruleset;
    if (ruleset == NULL || ruleset->enforce_ppm == WEIR_ENFORCE_ALL)
        return;
    state->is_spared =
        weir_limiter_mode(state->edition, ruleset) == WEIR_ENFORCE
        && weir_limiter_mode_for(state->edition, ruleset, &request->identity) == WEIR_SHADOW;
}

enum weir_mode weir_limiter_mode_here(const struct weir_limit_state *state,
                                      const struct weir_ruleset *ruleset)
{
    return state->is_spared && ruleset == state->match.route->ruleset
               ? WEIR_SHADOW
               : weir_limiter_mode(state->edition, ruleset);
}

void weir_limiter_watch(struct weir_limiter *limiter, struct weir_limit_state *state,
                        struct weir_request *request, enum weir_outcome would,
                        const struct weir_combined *verdict)
{
    state->would = would;
    weir_limiter_report(limiter, state, request, WEIR_SHADOW_LIMITED, verdict);
}
