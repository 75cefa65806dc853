#include "admin/metrics_gather.h"

#include <weir/version.h>

#include "chain/chain_internal.h"
#include "policy/policy.h"
#include "store/store.h"

#define OF WEIR_METRIC_LABELS_OF

/* decisions and units: one family at a time, of all limits */

/* What is written of each limit. */
struct family {
    struct weir_metrics_text *text;
    enum weir_units_fate fate; /* of units */
};

/* Some are shown before they first happen, since the first step from nothing to 1 is one that
 * increase() does not see. */
static bool is_shown(const struct weir_limit_sums *sums, unsigned outcome, unsigned source)
{
    if (sums->decisions[outcome][source] > 0)
        return true;
    if (sums->policy[0] == '\0')
        return false;
    if (sums->is_limit)
        return source == WEIR_SOURCE_STORE
               && (outcome == WEIR_LIMITED || outcome == WEIR_SHADOW_LIMITED);
    if (sums->limit[0] != '\0')
        return false;
    return outcome == WEIR_ALLOWED
               ? source == WEIR_SOURCE_STORE
               : source == WEIR_SOURCE_NONE
                     && (outcome == WEIR_FAILED_OPEN || outcome == WEIR_FAILED_CLOSED);
}

static void put_decisions_of(void *self, const struct weir_limit_sums *sums)
{
    struct family *family = self;
    for (unsigned outcome = 0; outcome < WEIR_COUNTED_OUTCOMES; outcome++)
        for (unsigned source = 0; source < WEIR_SOURCES; source++) {
            if (!is_shown(sums, outcome, source))
                continue;
            weir_metrics_put(family->text,
                             OF({ "policy", sums->policy }, { "limit", sums->limit },
                                { "outcome", weir_outcome_name((enum weir_outcome)outcome) },
                                { "source", weir_source_name((enum weir_source)source) }),
                             sums->decisions[outcome][source]);
        }
}

static void put_units_of(void *self, const struct weir_limit_sums *sums)
{
    static const char *const stores[] = { "main", "fallback" };
    struct family *family = self;
    for (size_t i = 0; i < 2; i++) {
        uint64_t units = sums->units[family->fate][i];
        if (units > 0 || (i == 0 && sums->is_limit))
            weir_metrics_put(
                family->text,
                OF({ "policy", sums->policy }, { "limit", sums->limit }, { "store", stores[i] }),
                units);
    }
}

static void put_counts(struct weir_metrics_text *text, struct weir_counts *counts)
{
    static const struct weir_metric decisions = { WEIR_METRIC_COUNTER, "weir_decisions", NULL,
                                                  "Requests and calls by what became of them." };
    static const struct weir_metric units[WEIR_UNITS_FATES] = {
        { WEIR_METRIC_COUNTER, "weir_units_spent", NULL, "Units that requests took from a limit." },
        { WEIR_METRIC_COUNTER, "weir_units_returned", NULL,
          "Units that were given back to a limit: a request cost less, succeeded, or never ran." },
        { WEIR_METRIC_COUNTER, "weir_units_unsure", NULL,
          "Units that were to be taken or given back, when the store did not say whether they "
          "were." },
    };
    struct family family = { .text = text };
    weir_metrics_begin(text, &decisions);
    weir_counts_each(counts, put_decisions_of, &family);
    for (unsigned fate = 0; fate < WEIR_UNITS_FATES; fate++) {
        family.fate = (enum weir_units_fate)fate;
        weir_metrics_begin(text, &units[fate]);
        weir_counts_each(counts, put_units_of, &family);
    }
}

/* the store */

static void put_failures(struct weir_metrics_text *text, const struct weir_store_sums *sums)
{
    static const struct weir_metric failures = {
        WEIR_METRIC_COUNTER, "weir_store_failures", NULL,
        "Checks that the store did not decide: asked too long, not to be asked, or an error."
    };
    weir_metrics_begin(text, &failures);
    weir_metrics_put(text, OF({ "kind", "timeout" }), sums->failures[WEIR_STORE_TIMEOUT]);
    weir_metrics_put(text, OF({ "kind", "unavailable" }),
                     sums->failures[WEIR_STORE_UNAVAILABLE] + sums->failures[WEIR_STORE_CANCELLED]);
    weir_metrics_put(text, OF({ "kind", "error" }), sums->failures[WEIR_STORE_ERROR]);
}

static void put_breaker(struct weir_metrics_text *text, enum weir_breaker_state state)
{
    static const struct weir_metric breaker = {
        WEIR_METRIC_GAUGE, "weir_breaker_state", NULL,
        "1 for the state that the breaker before the store is in, 0 for the others."
    };
    weir_metrics_begin(text, &breaker);
    weir_metrics_put(text, OF({ "state", "closed" }), state == WEIR_BREAKER_CLOSED);
    weir_metrics_put(text, OF({ "state", "starting" }), state == WEIR_BREAKER_STARTING);
    weir_metrics_put(text, OF({ "state", "open" }), state == WEIR_BREAKER_OPEN);
    weir_metrics_put(text, OF({ "state", "probing" }), state == WEIR_BREAKER_PROBING);
}

static void put_store(struct weir_metrics_text *text, struct weir_limiter *limiter)
{
    static const struct weir_metric up = { WEIR_METRIC_GAUGE, "weir_store_up", NULL,
                                           "1 while the store answers." };
    static const struct weir_metric latency = {
        WEIR_METRIC_HISTOGRAM, "weir_store_latency_seconds", "seconds",
        "From asking the store to its answer, or to giving up; without what was decided unasked."
    };
    static const struct weir_metric late = {
        WEIR_METRIC_COUNTER, "weir_store_late_answers", NULL,
        "Answers of the store to checks that had been given up: it has decided them."
    };
    struct weir_store_sums sums = weir_counts_of_store(limiter->counts);
    struct weir_store_state state;
    weir_store_state(limiter->store, &state);
    weir_metrics_begin(text, &up);
    weir_metrics_put(text, OF({ "store", state.name }), state.answering);
    put_breaker(text, state.breaker);
    put_failures(text, &sums);
    weir_metrics_put_one(text, &late, weir_store_numbers(limiter->store).late_answers);
    weir_metrics_begin(text, &latency);
    weir_metrics_put_histogram(text, &sums.latency);
}

/* what this process holds */

static void put_memory_of(struct weir_metrics_text *text, const struct weir_metric *metric,
                          const struct weir_store_numbers numbers[2],
                          uint64_t (*value)(const struct weir_store_numbers *numbers))
{
    weir_metrics_begin(text, metric);
    if (numbers[0].is_memory)
        weir_metrics_put(text, OF({ "store", "main" }), value(&numbers[0]));
    if (numbers[1].is_memory)
        weir_metrics_put(text, OF({ "store", "fallback" }), value(&numbers[1]));
}

static uint64_t bytes_of(const struct weir_store_numbers *numbers)
{
    return numbers->bytes;
}

static uint64_t keys_of(const struct weir_store_numbers *numbers)
{
    return numbers->keys;
}

static uint64_t evictions_of(const struct weir_store_numbers *numbers)
{
    return numbers->evictions;
}

static void put_memory(struct weir_metrics_text *text, const struct weir_limiter *limiter)
{
    static const struct weir_metric bytes = { WEIR_METRIC_GAUGE, "weir_memory_bytes", "bytes",
                                              "Memory of the sums that this process keeps." };
    static const struct weir_metric keys = {
        WEIR_METRIC_GAUGE, "weir_memory_keys", NULL,
        "Keys that this process keeps sums of, some of which may have expired."
    };
    static const struct weir_metric evictions = {
        WEIR_METRIC_COUNTER, "weir_memory_evictions", NULL,
        "Keys that were forgotten before their time, for lack of memory."
    };
    const struct weir_store *fallback = limiter->fallback;
    struct weir_store_numbers numbers[2] = { weir_store_numbers(limiter->store) };
    if (fallback != NULL)
        numbers[1] = weir_store_numbers(fallback);
    put_memory_of(text, &bytes, numbers, bytes_of);
    put_memory_of(text, &keys, numbers, keys_of);
    put_memory_of(text, &evictions, numbers, evictions_of);
}

static void put_leases(struct weir_metrics_text *text, struct weir_limiter *limiter)
{
    static const struct weir_metric held = {
        WEIR_METRIC_GAUGE, "weir_lease_units_held", NULL,
        "Units that this process has taken from the store and nobody has spent yet."
    };
    static const struct weir_metric taken = { WEIR_METRIC_COUNTER, "weir_lease_units_taken", NULL,
                                              "Units that were taken ahead of their use." };
    static const struct weir_metric returned = {
        WEIR_METRIC_COUNTER, "weir_lease_units_returned", NULL,
        "Of those, units that were given back to the store unspent."
    };
    static const struct weir_metric stranded = {
        WEIR_METRIC_COUNTER, "weir_lease_units_stranded", NULL,
        "Of those, units that lapsed unspent: nobody could use them."
    };
    static const struct weir_metric unsure = {
        WEIR_METRIC_COUNTER, "weir_lease_units_unsure", NULL,
        "Units that were to be taken or given back, when the store did not say whether they were."
    };
    static const struct weir_metric calls = { WEIR_METRIC_COUNTER, "weir_lease_calls", NULL,
                                              "Questions to the store for a block of units." };
    const struct weir_leases_numbers numbers = weir_leases_numbers(limiter->leases);
    weir_metrics_put_one(text, &held, numbers.held);
    weir_metrics_put_one(text, &taken, numbers.taken);
    weir_metrics_put_one(text, &returned, numbers.given_back);
    weir_metrics_put_one(text, &stranded, numbers.stranded);
    weir_metrics_put_one(text, &unsure, numbers.unsure);
    weir_metrics_put_one(text, &calls, numbers.calls);
}

static void put_denials(struct weir_metrics_text *text, struct weir_limiter *limiter)
{
    static const struct weir_metric denials = {
        WEIR_METRIC_COUNTER, "weir_denials", NULL,
        "Refusals that were repeated without asking the store."
    };
    weir_metrics_put_one(text, &denials, weir_denials_numbers(limiter->denials).replayed);
}

/* concurrency */

static void put_slots_of(struct weir_metrics_text *text, const struct weir_edition *edition,
                         const struct weir_metric *metric,
                         uint64_t (*value)(const struct weir_slots_numbers *numbers))
{
    weir_metrics_begin(text, metric);
    for (size_t i = 0; i < edition->policy->adaptive_count; i++) {
        const struct weir_slots *slots = edition->groups[i]->slots;
        struct weir_slots_numbers numbers = weir_slots_numbers(slots);
        weir_metrics_put(text, OF({ "group", weir_slots_name(slots) }), value(&numbers));
    }
}

static uint64_t slots_limit(const struct weir_slots_numbers *numbers)
{
    return numbers->limit;
}

static uint64_t slots_in_flight(const struct weir_slots_numbers *numbers)
{
    return numbers->in_flight;
}

static uint64_t slots_refused(const struct weir_slots_numbers *numbers)
{
    return numbers->refused;
}

static void put_concurrency(struct weir_metrics_text *text, struct weir_limiter *limiter)
{
    static const struct weir_metric limit = {
        WEIR_METRIC_GAUGE, "weir_slots_limit", NULL,
        "Requests that the back end of a group is found to take at once."
    };
    static const struct weir_metric in_flight = { WEIR_METRIC_GAUGE, "weir_slots_in_flight", NULL,
                                                  "Requests that it has now." };
    static const struct weir_metric refused = {
        WEIR_METRIC_COUNTER, "weir_slots_refused", NULL,
        "Requests that were turned away because it had as many as it takes."
    };
    static const struct weir_metric counted = {
        WEIR_METRIC_GAUGE, "weir_counted_requests_in_flight", NULL,
        "Requests under way that count towards a fixed number for each key."
    };
    const struct weir_edition *edition = weir_edition_take(&limiter->editions);
    put_slots_of(text, edition, &limit, slots_limit);
    put_slots_of(text, edition, &in_flight, slots_in_flight);
    put_slots_of(text, edition, &refused, slots_refused);
    weir_edition_leave(edition);
    struct weir_key_counts *keys = limiter->key_counts;
    weir_metrics_put_one(text, &counted,
                         keys == NULL ? 0 : weir_key_counts_numbers(keys).in_flight);
}

/* the policy */

static void put_policy(struct weir_metrics_text *text, struct weir_limiter *limiter)
{
    static const struct weir_metric reloads = {
        WEIR_METRIC_COUNTER, "weir_policy_reloads", NULL,
        "Attempts to replace the policy that is in force, by how they ended."
    };
    static const struct weir_metric is_good = {
        WEIR_METRIC_GAUGE, "weir_policy_last_reload_successful", NULL,
        "0 if the last attempt failed, and the policy of before stays in force."
    };
    static const struct weir_metric generation = {
        WEIR_METRIC_GAUGE, "weir_policy_generation", NULL,
        "How many policies have been in force since the start, with this one."
    };
    static const struct weir_metric loaded = {
        WEIR_METRIC_GAUGE, "weir_policy_loaded_timestamp_seconds", "seconds",
        "When the policy that is in force came into force, since 1970."
    };
    struct weir_reload_state state;
    weir_limiter_reload_state(limiter, &state);
    weir_metrics_begin(text, &reloads);
    weir_metrics_put(text, OF({ "result", "success" }), state.successes);
    weir_metrics_put(text, OF({ "result", "failure" }), state.failures);
    weir_metrics_put_one(text, &is_good, state.last_ok);
    weir_metrics_put_one(text, &generation, state.generation);
    weir_metrics_begin(text, &loaded);
    weir_metrics_put_time(text, NULL, state.loaded_us);
}

static void put_chain(struct weir_metrics_text *text, struct weir_chain *chain)
{
    static const struct weir_metric waiting = {
        WEIR_METRIC_GAUGE, "weir_parked_requests", NULL,
        "Requests that wait for the store's answer or for their turn, and hold no thread."
    };
    static const struct weir_metric most = { WEIR_METRIC_GAUGE, "weir_parked_requests_limit", NULL,
                                             "How many may." };
    weir_metrics_put_one(text, &waiting, weir_chain_parked(chain));
    weir_metrics_put_one(text, &most, chain->parking.size);
}

void weir_metrics_gather(struct weir_metrics_text *text, struct weir_limiter *limiter,
                         struct weir_chain *chain)
{
    static const struct weir_metric build = { WEIR_METRIC_INFO, "weir_build", NULL,
                                              "Which weir this is." };
    weir_metrics_begin(text, &build);
    weir_metrics_put(text, OF({ "version", weir_version() }), 1);
    put_counts(text, limiter->counts);
    put_denials(text, limiter);
    put_store(text, limiter);
    put_memory(text, limiter);
    put_leases(text, limiter);
    put_concurrency(text, limiter);
    put_chain(text, chain);
    put_policy(text, limiter);
    weir_metrics_end(text);
}
