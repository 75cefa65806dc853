/* Who has succeeded here before: found before the decision, remembered after a success. */
#include "limit/limiter_internal.h"

#include <string.h>

#include "base/clock.h"
#include "limit/known.h"

static uint64_t now_s(const struct weir_limiter *limiter)
{
    return weir_clock_now_us(&limiter->clock) / 1000000;
}

static struct weir_account account_of(const struct weir_limit_state *state)
{
    const struct weir_limit_known *known = state->known;
    return (struct weir_account){ .policy = state->edition->policy,
                                  .ruleset = known->ruleset,
                                  .subject = { known->account, known->account_length } };
}

/* finding */

/* Where the address is remembered. */
static bool set_memory(struct weir_limit_known *known, struct weir_request *request,
                       const struct weir_asker *asker)
{
    char memory[WEIR_KEY_MAX + 1];
    struct weir_buffer key = weir_buffer_init(memory, sizeof memory);
    const struct weir_text account = { known->account, known->account_length };
    known->memory = (struct weir_spend){ .algorithm = WEIR_GCRA };
    weir_rate_make(1, 1000000, 1, &known->memory.rate, NULL);
    if (!weir_plan_put_memory_key(&key, asker->policy, known->ruleset, account, known->network))
        return false;
    char *kept = weir_request_alloc(request, key.length);
    if (kept == NULL)
        return false;
    memcpy(kept, key.at, key.length);
    known->memory.key = kept;
    known->memory.key_length = key.length;
    return true;
}

bool weir_limiter_recognise(struct weir_limiter *limiter, struct weir_limit_state *state,
                            struct weir_request *request, const struct weir_asker *asker)
{
    const struct weir_known *rules = state->match.route->ruleset->known;
    struct weir_limit_known *known = weir_request_alloc(request, sizeof *known);
    if (known == NULL)
        return false;
    *known = (struct weir_limit_known){ .ruleset = state->match.route->ruleset };
    struct weir_buffer account = weir_buffer_init(known->account, sizeof known->account);
    if (!weir_subject_write(&rules->account, asker, &account))
        return true;
    known->account_length = account.length;
    if (rules->address_us > 0 && request->identity.client.family != WEIR_NO_ADDRESS) {
        weir_network_print(&request->identity.network, known->network);
        if (!set_memory(known, request, asker))
            return false;
    }
    state->known = known;
    const struct weir_account whose = account_of(state);
    known->has_cookie = weir_device_find(&whose, &request->facts, now_s(limiter), &known->device);
    return true;
}

bool weir_limiter_must_look(const struct weir_limit_state *state)
{
    return state->known != NULL && !state->known->has_cookie && state->known->memory.key != NULL;
}

struct weir_text weir_limiter_device(const struct weir_limit_state *state)
{
    const struct weir_limit_known *known = state->known;
    if (known != NULL && known->has_cookie)
        return weir_text_from(known->device.id);
    if (known != NULL && known->is_at_home)
        return weir_text_from(known->network);
    return (struct weir_text){ NULL, 0 };
}

/* remembering */

static void send_cookie(struct weir_limiter *limiter, struct weir_limit_state *state,
                        struct weir_reply *reply)
{
    char memory[WEIR_COOKIE_BYTES];
    struct weir_buffer cookie = weir_buffer_init(memory, sizeof memory);
    const struct weir_account account = account_of(state);
    struct weir_device *device = &state->known->device;
    uint64_t time_s = now_s(limiter);
    if (!state->known->has_cookie)
        weir_device_new(&account, time_s, device);
    else if (weir_device_is_old(&account, device, time_s))
        device->expires_s = time_s + account.ruleset->known->cookie_s;
    else
        return;
    weir_device_write(&account, device, time_s, &cookie);
    if (weir_buffer_string(&cookie) != NULL)
        weir_reply_add(reply, "Set-Cookie", memory);
}

/* A reply has room for so many lines more; the others' turn comes with the next success. */
#define EXPIRED_AT_ONCE 8

/* The browser of many accounts forgets the oldest. */
static void expire_surplus(const struct weir_limit_state *state, const struct weir_request *request,
                           struct weir_reply *reply)
{
    struct weir_text names[EXPIRED_AT_ONCE];
    const struct weir_account account = account_of(state);
    size_t count = weir_device_surplus(&account, &request->facts, names, EXPIRED_AT_ONCE);
    for (size_t i = 0; i < count; i++) {
        char memory[WEIR_COOKIE_BYTES];
        struct weir_buffer cookie = weir_buffer_init(memory, sizeof memory);
        weir_device_write_expired(&account, names[i], &cookie);
        if (weir_buffer_string(&cookie) != NULL)
            weir_reply_add(reply, "Set-Cookie", memory);
    }
}

void weir_limiter_remember(struct weir_limiter *limiter, struct weir_limit_state *state,
                           const struct weir_request *request, struct weir_reply *reply)
{
    struct weir_limit_known *known = state->known;
    if (known == NULL)
        return;
    send_cookie(limiter, state, reply);
    expire_surplus(state, request, reply);
    if (known->memory.key != NULL && !state->by_memory)
        weir_limiter_submit(limiter, state, WEIR_BLOCK, &known->memory, NULL, 1,
                            known->ruleset->known->address_us);
}
