/* Whether the client has succeeded here before, as far as the policy asks for that. */
#include "admin/explain_internal.h"
#include "base/clock.h"

/* A look at the address: while it is remembered, its key is blocked. A store that fails knows nobody. */
static bool is_at_home(const struct explaining *explaining, const struct weir_ruleset *ruleset,
                       struct weir_text account, const char *network)
{
    char memory[WEIR_KEY_MAX + 1];
    struct weir_buffer key = weir_buffer_init(memory, sizeof memory);
    struct weir_spend spend = { .algorithm = WEIR_GCRA };
    struct weir_answer answer = { .allowed = false };
    struct weir_check look = { .spends = &spend, .answers = &answer, .count = 1 };
    weir_rate_make(1, 1000000, 1, &spend.rate, NULL);
    if (!weir_plan_put_memory_key(&key, explaining->policy, ruleset, account, network))
        return false;
    spend.key = key.at;
    spend.key_length = key.length;
    weir_explain_ask(explaining->limiter->store, &look);
    return look.result == WEIR_STORE_ANSWERED && answer.remaining == 0;
}

void weir_explain_recognise(struct explaining *explaining, const struct weir_ruleset *ruleset)
{
    char memory[WEIR_SUBJECT_MAX + 1];
    const struct weir_asker asker = weir_explain_asker(explaining);
    const struct weir_identity *who = &explaining->identity;
    struct weir_buffer subject = weir_buffer_init(memory, sizeof memory);
    if (!weir_subject_write(&ruleset->known->account, &asker, &subject))
        return;
    const struct weir_account account = { explaining->policy, ruleset, weir_buffer_text(&subject) };
    uint64_t now_s = weir_clock_now_us(&explaining->limiter->clock) / 1000000;
    if (weir_device_find(&account, &explaining->facts, now_s, &explaining->device)) {
        explaining->known = weir_text_from(explaining->device.id);
        return;
    }
    if (ruleset->known->address_us == 0 || who->client.family == WEIR_NO_ADDRESS
        || explaining->described->is_empty)
        return;
    const char *network = weir_explain_network(explaining, &who->network);
    if (is_at_home(explaining, ruleset, account.subject, network))
        explaining->known = weir_text_from(network);
}
