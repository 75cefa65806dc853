/* The explanation in a sentence or two, and what to look at next. */
#include "admin/explain_internal.h"
#include "limit/algorithm.h"
#include "limit/gcra.h"

/* the summary */

const char *weir_explain_limit(struct explaining *explaining, const struct weir_spend *spend)
{
    const char *rate = weir_explain_rate(explaining, spend);
    const char *name = weir_explain_algorithm(spend->algorithm);
    if (!weir_has_burst(spend->algorithm))
        return weir_explain_printf(explaining, "%s %s", name, rate);
    return weir_explain_printf(explaining, "%s %s, burst %llu", name, rate,
                               (unsigned long long)spend->rate.burst);
}

/* "next in 200 ms", "enough for the cost of 5 in 1.2 seconds", "all of it back within a minute" */
static const char *describe_wait(struct explaining *explaining, const struct explained_check *check)
{
    size_t i = check->combined.worst;
    const char *time = weir_explain_time(explaining, check->answers[i].retry_us);
    unsigned long long cost = check->cost;
    if (check->answers[i].impossible)
        return weir_explain_printf(explaining, "and it never holds the cost of %llu", cost);
    if (!check->is_retry_known[i])
        return weir_explain_printf(explaining, "all of it back within %s", time);
    if (cost <= 1)
        return weir_explain_printf(explaining, "next in %s", time);
    return weir_explain_printf(explaining, "enough for the cost of %llu in %s", cost, time);
}

/* "0 of 10 left, next in 200 ms", "blocked by an operator until …" */
static const char *describe_numbers(struct explaining *explaining,
                                    const struct explained_check *check)
{
    size_t i = check->combined.worst;
    const struct weir_spend *spend = &check->plan.spends[i];
    bool is_possible = !check->answers[i].impossible;
    if (is_possible && check->block_us[i] > 0 && check->block_us[i] >= check->ban_us[i])
        return weir_explain_block(explaining, check->now_us + check->block_us[i],
                                  check->block_us[i], weir_explain_block_of(explaining, spend));
    if (is_possible && check->ban_us[i] > 0)
        return weir_explain_ban(explaining, check->now_us + check->ban_us[i], check->ban_us[i]);
    return weir_explain_printf(
        explaining, "%llu of %llu left, %s", (unsigned long long)check->seen[i].remaining,
        (unsigned long long)weir_capacity(spend), describe_wait(explaining, check));
}

/* "policy api, limit burst (gcra 5/second, burst 10), key api_key:free-demo: 0 of 10 left, …" */
static const char *describe_refusal(struct explaining *explaining)
{
    const struct explained_check *check = &explaining->refusal;
    size_t i = check->combined.worst;
    const struct weir_planned *planned = &check->plan.planned[i];
    const struct weir_spend *spend = &check->plan.spends[i];
    return weir_explain_printf(
        explaining, "policy %s, limit %s (%s), key %s: %s", planned->ruleset->name,
        planned->limit->name, weir_explain_limit(explaining, spend),
        weir_explain_key(explaining, &planned->limit->by), describe_numbers(explaining, check));
}

static bool is_scarcer(const struct explained_check *check, size_t one, size_t other)
{
    uint64_t of_one = weir_capacity(&check->plan.spends[one]);
    uint64_t of_other = weir_capacity(&check->plan.spends[other]);
    return check->seen[one].remaining * of_other < check->seen[other].remaining * of_one;
}

/* The limit of which the smallest part is left; the count: there is none. */
static size_t find_scarcest(const struct explained_check *check)
{
    size_t scarcest = check->plan.count;
    for (size_t i = 0; i < check->plan.count; i++)
        if (scarcest == check->plan.count || is_scarcer(check, i, scarcest))
            scarcest = i;
    return scarcest;
}

static const char *describe_pass(struct explaining *explaining)
{
    const struct explained_check *check = &explaining->check;
    const struct weir_ruleset *ruleset = explaining->ruleset;
    if (ruleset == NULL)
        return "Let through: no policy limits this route.";
    if (explaining->is_exempt && explaining->listed != NULL)
        return weir_explain_printf(explaining, "Let through: an allow list names its %s.",
                                   explaining->listed);
    if (explaining->is_exempt)
        return weir_explain_printf(explaining, "Let through: policy %s is off.", ruleset->name);
    size_t i = find_scarcest(check);
    if (i == check->plan.count)
        return weir_explain_printf(explaining,
                                   "Let through: no limit of policy %s holds for this request.",
                                   ruleset->name);
    return weir_explain_printf(
        explaining,
        "Let through by policy %s; least is left of limit %s (%s), key %s: %llu of %llu.",
        ruleset->name, check->plan.planned[i].limit->name,
        weir_explain_limit(explaining, &check->plan.spends[i]),
        weir_explain_key(explaining, &check->plan.planned[i].limit->by),
        (unsigned long long)check->seen[i].remaining,
        (unsigned long long)weir_capacity(&check->plan.spends[i]));
}

static const char *describe_unauthenticated(const struct explaining *explaining)
{
    if (explaining->identity.api_key_unknown)
        return "Refused with 401: the route asks for an identity, and the API key that was sent is "
               "in "
               "no keys file.";
    return "Refused with 401: the route asks for an identity, and nothing in the request says who "
           "asks.";
}

/* What would be refused, or is. */
static const char *describe_reason(struct explaining *explaining, enum weir_outcome outcome)
{
    if (outcome == WEIR_DENIED)
        return weir_explain_printf(explaining, "a deny list, which names its %s",
                                   explaining->listed);
    if (outcome == WEIR_UNREADABLE)
        return "the policy: limits count by fields of the body, and it cannot be read";
    return describe_refusal(explaining);
}

static const char *describe_failure(struct explaining *explaining)
{
    const char *what = explaining->is_refused ? "Refused with 503" : "Let through uncounted";
    return weir_explain_printf(explaining,
                               "%s: the store failed (%s), and that is what policy %s says then.",
                               what, explaining->check.why, explaining->ruleset->name);
}

static const char *summarise(struct explaining *explaining)
{
    switch (explaining->outcome) {
    case WEIR_ALLOWED:
    case WEIR_BUSY:
        break;
    case WEIR_LIMITED:
    case WEIR_IMPOSSIBLE:
        return weir_explain_printf(explaining, "Refused by %s.%s", describe_refusal(explaining),
                                   explaining->status == 0 ? " The application is left to say so."
                                                           : "");
    case WEIR_SHADOW_LIMITED:
        return weir_explain_printf(explaining,
                                   "Let through, since it is only watched; else refused by %s.",
                                   describe_reason(explaining, explaining->would));
    case WEIR_UNAUTHENTICATED:
        return describe_unauthenticated(explaining);
    case WEIR_FAILED_OPEN:
    case WEIR_FAILED_CLOSED:
        return describe_failure(explaining);
    case WEIR_UNREADABLE:
        if (explaining->facts.path.at == NULL)
            return "Refused with 400: its path cannot be normalised.";
        return weir_explain_printf(explaining, "Refused with %u by %s.", explaining->status,
                                   describe_reason(explaining, WEIR_UNREADABLE));
    case WEIR_DENIED:
        return weir_explain_printf(explaining, "Refused with 403 by %s.",
                                   describe_reason(explaining, WEIR_DENIED));
    }
    return describe_pass(explaining);
}

void weir_explain_tell_summary(struct explaining *explaining)
{
    weir_explain_put_string(explaining, explaining->root, "summary", summarise(explaining));
}

/* hints: the address */

/* 10/8, 172.16/12, 192.168/16 (RFC 1918), 100.64/10 (RFC 6598), loopback, link-local, fc00::/7. */
static bool is_inner(const struct weir_address *address)
{
    static const char *const blocks[] = { "10.0.0.0/8",    "172.16.0.0/12", "192.168.0.0/16",
                                          "100.64.0.0/10", "127.0.0.0/8",   "169.254.0.0/16",
                                          "::1/128",       "fe80::/10",     "fc00::/7" };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        struct weir_network network;
        if (weir_block_read(weir_text_from(blocks[i]), &network) == NULL
            && weir_network_contains(&network, address))
            return true;
    }
    return false;
}

/* A header that proxies write, and which is there; NULL: none is. */
static const char *forwarding_header(const struct weir_facts *facts)
{
    static const char *const names[] = { "X-Forwarded-For", "Forwarded", "X-Real-IP",
                                         "CF-Connecting-IP", "True-Client-IP" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (weir_facts_header(facts, weir_text_from(names[i])).length > 0)
            return names[i];
    return NULL;
}

/* A trusted proxy says who asks, but not in the header that is consulted. */
static void hint_at_header(struct explaining *explaining, const char *present)
{
    const struct weir_text header = explaining->policy->identity.forwarded_header;
    const char *network = weir_explain_network(explaining, &explaining->identity.network);
    const char *what =
        network == NULL
            ? "no address is known, and no limit by address holds"
            : weir_explain_printf(explaining, "the proxy's address %s is counted", network);
    weir_explain_hint(explaining, "The request has %s, but \"client_ip\".\"header\" is %.*s: %s.",
                      present, WEIR_TEXT_ARGS(header), what);
}

static void hint_at_proxies(struct explaining *explaining)
{
    const struct weir_identity_rules *rules = &explaining->policy->identity;
    const struct weir_hop *last = &explaining->hops.hop[explaining->hops.count - 1];
    const char *present = forwarding_header(&explaining->facts);
    struct weir_text consulted = weir_facts_header(&explaining->facts, rules->forwarded_header);
    if (is_inner(&last->speaker) && !last->is_trusted
        && (present != NULL || explaining->hops.count > 1))
        weir_explain_hint(
            explaining,
            "%s is a private address, and \"client_ip\".\"trust\" does not cover it: if "
            "it is a proxy of yours, everybody behind it is counted as %s.",
            weir_explain_address(explaining, &last->speaker),
            weir_explain_network(explaining, &explaining->identity.network));
    else if (last->is_trusted && present != NULL && explaining->hops.count == 1
             && consulted.length == 0)
        hint_at_header(explaining, present);
    else if (last->is_trusted && last->entry.length > 0 && !last->is_believed)
        weir_explain_hint(explaining,
                          "What the trusted %s forwards is no address, so the walk ends there.",
                          explaining->hops.count == 1 ? "peer" : "proxy");
}

static void hint_at_keys(struct explaining *explaining)
{
    const struct weir_identity *who = &explaining->identity;
    const struct weir_identity_rules *rules = &explaining->policy->identity;
    if (who->api_key_unknown)
        weir_explain_hint(
            explaining, "The API key that was sent is in no keys file: it is mistyped, revoked, or "
                        "of another environment; what it costs is counted by address.");
    if (rules->keys == NULL
        && weir_facts_header(&explaining->facts, WEIR_TEXT("X-API-Key")).length > 0)
        weir_explain_hint(explaining, "The request has X-API-Key, but the policy file names no "
                                      "\"api_keys\": nobody is identified by it.");
}

/* hints: a limit */

static bool counts_only(const struct weir_limit_rule *limit, const struct weir_asker *asker,
                        enum weir_dimension_kind kind)
{
    return limit->by.count == 1 && weir_subject_has(&limit->by, asker, 1u << kind);
}

static void hint_at_sharing(struct explaining *explaining, const struct weir_limit_rule *limit)
{
    const struct weir_asker asker = weir_explain_asker(explaining);
    const struct weir_identity *who = &explaining->identity;
    const char *network = weir_explain_network(explaining, &who->network);
    if (counts_only(limit, &asker, WEIR_BY_IP))
        weir_explain_hint(
            explaining,
            "Limit %s counts by address: all who share %s (a NAT, an office, a proxy) "
            "share it%s.",
            limit->name, network, who->api_key == NULL ? "" : ", whatever key they send");
    if (counts_only(limit, &asker, WEIR_BY_API_KEY))
        weir_explain_hint(
            explaining,
            "Limit %s counts by API key: all programs that use the key %s share it, from "
            "whatever address.",
            limit->name, who->api_key->id);
    if (counts_only(limit, &asker, WEIR_BY_TENANT))
        weir_explain_hint(explaining, "Limit %s counts by tenant: all keys of %.*s share it.",
                          limit->name, WEIR_TEXT_ARGS(who->tenant));
    if (counts_only(limit, &asker, WEIR_BY_GLOBAL))
        weir_explain_hint(explaining, "Limit %s is one for all clients together.", limit->name);
}

static unsigned whole_bits(const struct weir_address *address)
{
    return address->family == WEIR_IPV4 ? 32 : 128;
}

static void hint_at_network(struct explaining *explaining, const struct weir_limit_rule *limit)
{
    const struct weir_asker asker = weir_explain_asker(explaining);
    const struct weir_identity *who = &explaining->identity;
    if (!weir_subject_has(&limit->by, &asker, 1u << WEIR_BY_IP)
        || who->network.prefix == whole_bits(&who->network.address))
        return;
    weir_explain_hint(explaining, "%s is counted with all of its network, %s.",
                      weir_explain_address(explaining, &who->client),
                      weir_explain_network(explaining, &who->network));
}

void weir_explain_hint_at_burst(struct explaining *explaining, const struct weir_spend *spend)
{
    const struct weir_rate *rate = &spend->rate;
    if (!weir_has_burst(spend->algorithm) || rate->limit == 0 || rate->burst >= rate->limit)
        return;
    weir_explain_hint(
        explaining,
        "%s is 1 unit in %s on average, but at most %llu at once: requests that come "
        "in bursts are refused above that, though the sum of the window is not reached.",
        weir_explain_rate(explaining, spend),
        weir_explain_time(explaining, weir_gcra_span(rate, 1).us), (unsigned long long)rate->burst);
}

static void hint_at_cost(struct explaining *explaining, size_t i)
{
    const struct weir_spend *spend = &explaining->check.plan.spends[i];
    uint64_t capacity = weir_capacity(spend);
    if (explaining->cost > 1 && explaining->cost <= capacity)
        weir_explain_hint(explaining,
                          "The request costs %llu units: what limit %s holds is enough for %llu of "
                          "its kind at once.",
                          (unsigned long long)explaining->cost,
                          explaining->check.plan.planned[i].limit->name,
                          (unsigned long long)(capacity / explaining->cost));
}

void weir_explain_hint_at_penalty(struct explaining *explaining, const char *limit)
{
    weir_explain_hint(explaining,
                      "Limit %s has a penalty: who asks again and again while it is refused is "
                      "banned for longer.",
                      limit);
}

static void hint_at_window(struct explaining *explaining, size_t i)
{
    const struct weir_spend *spend = &explaining->check.plan.spends[i];
    const struct weir_limit_rule *limit = explaining->check.plan.planned[i].limit;
    if (spend->algorithm == WEIR_FIXED_WINDOW && !spend->from_first)
        weir_explain_hint(explaining,
                          "Limit %s counts in windows that begin on the clock, for all clients at "
                          "the same moment: who waits for that comes back with all others.",
                          limit->name);
    if (limit->penalty != NULL)
        weir_explain_hint_at_penalty(explaining, limit->name);
    if (spend->logs_refusals)
        weir_explain_hint(explaining,
                          "Limit %s counts refused requests, too: each lengthens the wait.",
                          limit->name);
}

/* hints: where it is counted */

static void hint_at_store(struct explaining *explaining)
{
    struct weir_store_state state;
    weir_store_state(explaining->limiter->store, &state);
    if (explaining->check.plan.count == 0 || explaining->described->is_empty)
        return;
    if (strcmp(state.name, "memory") == 0 && explaining->policy->instances > 1)
        weir_explain_hint(explaining,
                          "Sums are kept in this process: each instance counts for itself.");
    if (explaining->check.by_memory)
        weir_explain_hint(explaining,
                          "The store does not answer: this process decides with its share of "
                          "each limit, one of %u.",
                          explaining->policy->instances);
}

/* False: the limit's own numbers are what refuses. */
static bool hint_at_blocks(struct explaining *explaining, size_t i)
{
    const struct explained_check *check = &explaining->check;
    const char *limit = check->plan.planned[i].limit->name;
    if (check->block_us[i] > 0)
        weir_explain_hint_at_block(explaining, limit,
                                   weir_explain_block_of(explaining, &check->plan.spends[i]));
    if (check->ban_us[i] > 0)
        weir_explain_hint_at_ban(explaining, limit);
    return check->block_us[i] > 0 || check->ban_us[i] > 0;
}

static void hint_at_limit(struct explaining *explaining, size_t i)
{
    const struct explained_check *check = &explaining->check;
    const struct weir_limit_rule *limit = check->plan.planned[i].limit;
    bool is_blocked = hint_at_blocks(explaining, i);
    if (!is_blocked)
        weir_explain_hint_at_burst(explaining, &check->plan.spends[i]);
    if (check->combined.allowed || check->answers[i].impossible)
        return;
    hint_at_sharing(explaining, limit);
    hint_at_network(explaining, limit);
    if (is_blocked)
        return;
    hint_at_cost(explaining, i);
    hint_at_window(explaining, i);
}

void weir_explain_tell_hints(struct explaining *explaining)
{
    const struct explained_check *check = &explaining->check;
    hint_at_proxies(explaining);
    hint_at_keys(explaining);
    for (size_t i = 0; i < check->plan.count; i++) {
        if (check->combined.allowed || !check->answers[i].allowed)
            hint_at_limit(explaining, i);
    }
    hint_at_store(explaining);
}
