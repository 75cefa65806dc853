#include "policy/warnings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "policy/lease_units.h"

#define WARNINGS_MAX   100
#define LONG_WINDOW_US (UINT64_C(3600) * 1000000)
#define PATH_BYTES     160
#define LOG_UNITS_MAX  10000
#define SECRET_BYTES   16 /* 128 bits, were they random */

/* False: memory ran out. What is above WARNINGS_MAX is left out. */
static bool add(struct weir_policy *policy, enum weir_code code, const char *path,
                const char *format, ...) WEIR_PRINTF(4, 5);

static bool add(struct weir_policy *policy, enum weir_code code, const char *path,
                const char *format, ...)
{
    if (policy->warnings == NULL)
        policy->warnings = weir_arena_array(policy->arena, WARNINGS_MAX, sizeof *policy->warnings);
    if (policy->warnings == NULL || policy->warning_count == WARNINGS_MAX)
        return policy->warnings != NULL;

    struct weir_error *warning = &policy->warnings[policy->warning_count++];
    *warning = (struct weir_error){ .code = code };
    snprintf(warning->path, sizeof warning->path, "%s", path);
    va_list args;
    va_start(args, format);
    vsnprintf(warning->text, sizeof warning->text, format, args);
    va_end(args);
    return true;
}

/* login */

static bool holds_word(const char *text)
{
    static const char *const words[] = { "login",  "signin", "otp",  "password",
                                         "passwd", "reset",  "token" };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasestr(text, words[i]) != NULL)
            return true;
    return false;
}

bool weir_ruleset_guards_login(const struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    if (holds_word(ruleset->name) || ruleset->field_count > 0)
        return true;
    for (size_t i = 0; i < policy->route_count; i++)
        if (policy->routes[i].ruleset == ruleset && holds_word(policy->routes[i].match))
            return true;
    return false;
}

static bool opens(const struct weir_ruleset *ruleset)
{
    return ruleset->on_store_failure.timeout == WEIR_FAIL_OPEN
           || ruleset->on_store_failure.unavailable == WEIR_FAIL_OPEN
           || ruleset->on_store_failure.error == WEIR_FAIL_OPEN;
}

static bool warn_of_open(struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    char path[PATH_BYTES];
    if (!opens(ruleset) || !weir_ruleset_guards_login(policy, ruleset))
        return true;
    snprintf(path, sizeof path, "/policies/%s/on_store_failure", ruleset->name);
    return add(
        policy, WEIR_W_OPEN_ON_LOGIN, path,
        "The policy \"%s\" guards a login, a code or a reset, and lets everybody guess while "
        "the store fails; say \"closed\" or \"memory\".",
        ruleset->name);
}

/* costs */

/* The least that a limit can hold, and in which plan; false where it never limits. Limits of 0
 * keep everybody out on purpose. */
static bool least_capacity(const struct weir_policy *policy, const struct weir_limit_rule *limit,
                           uint64_t *capacity, const char **plan)
{
    struct weir_limit_numbers numbers;
    bool is_found = false;
    if (limit->source != WEIR_RATE_PLAN) {
        *plan = NULL;
        is_found = weir_limit_rate_in(limit, NULL, &numbers) && numbers.rate.burst > 0;
        if (is_found)
            *capacity = numbers.rate.burst;
        return is_found;
    }
    for (size_t i = 0; i < policy->plan_count; i++) {
        if (!weir_limit_rate_in(limit, &policy->plans[i], &numbers) || numbers.rate.burst == 0
            || (is_found && numbers.rate.burst >= *capacity))
            continue;
        is_found = true;
        *capacity = numbers.rate.burst;
        *plan = policy->plans[i].name;
    }
    return is_found;
}

static bool falls_back(const struct weir_ruleset *ruleset)
{
    return ruleset->on_store_failure.timeout == WEIR_FAIL_MEMORY
           || ruleset->on_store_failure.unavailable == WEIR_FAIL_MEMORY
           || ruleset->on_store_failure.error == WEIR_FAIL_MEMORY;
}

/* A cost that fits the limit, but not the share of it that the fallback on memory gives. */
static bool warn_of_share(struct weir_policy *policy, const struct weir_route *route,
                          const struct weir_limit_rule *limit, uint64_t capacity)
{
    char path[PATH_BYTES] = "/default/cost";
    if (!falls_back(route->ruleset) || route->cost <= 1
        || route->cost <= weir_limit_share(limit, capacity, policy->instances))
        return true;
    if (route != &policy->fallback)
        snprintf(path, sizeof path, "/routes/%td/cost", route - policy->routes);
    return add(policy, WEIR_W_COST_ABOVE_CAPACITY, path,
               "A cost of %llu fits the limit \"%s\" of the policy \"%s\", but not the share of "
               "it that one of %u instances has when the store fails: it is answered 503 then. "
               "Lower the cost, raise the burst, or choose another on_store_failure.",
               (unsigned long long)route->cost, limit->name, route->ruleset->name,
               policy->instances);
}

static bool warn_of_cost(struct weir_policy *policy, const struct weir_route *route,
                         const struct weir_limit_rule *limit, uint64_t capacity, const char *plan)
{
    char path[PATH_BYTES] = "/default/cost";
    if (route->cost <= capacity)
        return warn_of_share(policy, route, limit, capacity);
    if (route != &policy->fallback)
        snprintf(path, sizeof path, "/routes/%td/cost", route - policy->routes);
    return add(policy, WEIR_W_COST_ABOVE_CAPACITY, path,
               "A cost of %llu never fits the limit \"%s\" of the policy \"%s\", which holds "
               "%llu%s%s%s; lower the cost, or raise the limit or its burst.",
               (unsigned long long)route->cost, limit->name, route->ruleset->name,
               (unsigned long long)capacity, plan == NULL ? "" : " in the plan \"",
               plan == NULL ? "" : plan, plan == NULL ? "" : "\"");
}

/* A share is rounded up where rounding down would let nobody in. The figures of presets are known to
 * bear it. */
static bool warn_of_rounding(struct weir_policy *policy, const struct weir_ruleset *ruleset,
                             const struct weir_limit_rule *limit, uint64_t capacity)
{
    char path[PATH_BYTES];
    unsigned instances = policy->instances;
    uint64_t share = weir_limit_share(limit, capacity, instances);
    if (!falls_back(ruleset) || limit->is_of_preset || share * instances <= 2 * capacity)
        return true;
    snprintf(path, sizeof path, "/policies/%s/limits/%td/rate", ruleset->name,
             limit - ruleset->limits);
    return add(policy, WEIR_W_SHARE_ROUNDED_UP, path,
               "While the store fails, each of %u instances lets %llu of the limit \"%s\" through, "
               "as less would let nobody in: together %llu, where the limit is %llu. Raise it, or "
               "choose another on_store_failure.",
               instances, (unsigned long long)share, limit->name,
               (unsigned long long)(share * instances), (unsigned long long)capacity);
}

static bool warn_of_costs(struct weir_policy *policy, const struct weir_ruleset *ruleset,
                          const struct weir_limit_rule *limit)
{
    uint64_t capacity = 0;
    const char *plan = NULL;
    if (!least_capacity(policy, limit, &capacity, &plan))
        return true;
    bool ok = warn_of_rounding(policy, ruleset, limit, capacity);
    for (size_t i = 0; i < policy->route_count && ok; i++)
        if (policy->routes[i].ruleset == ruleset)
            ok = warn_of_cost(policy, &policy->routes[i], limit, capacity, plan);
    if (ok && policy->fallback.ruleset == ruleset)
        ok = warn_of_cost(policy, &policy->fallback, limit, capacity, plan);
    return ok;
}

/* long windows */

/* One plan's numbers for the limits of a policy; a window of 0 where one does not limit. */
struct numbers {
    struct weir_rate rates[WEIR_CHECK_LIMITS];
};

static void read_numbers(const struct weir_ruleset *ruleset, const struct weir_plan *plan,
                         struct numbers *numbers)
{
    for (size_t i = 0; i < ruleset->limit_count; i++) {
        struct weir_limit_numbers found;
        bool limits = weir_limit_rate_in(&ruleset->limits[i], plan, &found);
        numbers->rates[i] = limits ? found.rate : (struct weir_rate){ .window_us = 0 };
    }
}

/* What can be spent at once: of a leaky bucket no more than moves up within the longest wait. */
static uint64_t spent_at_once(const struct weir_limit_rule *limit, const struct weir_rate *rate)
{
    if (limit->algorithm != WEIR_LEAKY_BUCKET || limit->max_wait_us == 0 || rate->limit == 0)
        return rate->burst;
    /* No overflow: a minute in parts of at most 10^9, and a window at most. */
    uint64_t interval_parts = rate->interval_us * rate->parts + rate->interval_part;
    uint64_t places = limit->max_wait_us * rate->parts / interval_parts + 1;
    return places < rate->burst ? places : rate->burst;
}

/* A limit is fine with a short one beside it, or when it holds only a part of what its window
 * brings. */
static bool is_alone(const struct weir_ruleset *ruleset, const struct numbers *numbers,
                     size_t index)
{
    const struct weir_rate *rate = &numbers->rates[index];
    if (rate->window_us < LONG_WINDOW_US || rate->limit <= 1
        || spent_at_once(&ruleset->limits[index], rate) <= rate->limit / 10)
        return false;
    for (size_t i = 0; i < ruleset->limit_count; i++)
        if (numbers->rates[i].window_us > 0 && numbers->rates[i].window_us <= rate->window_us / 10)
            return false;
    return true;
}

static void note_alone(const struct weir_ruleset *ruleset, const struct weir_plan *plan,
                       bool alone[WEIR_CHECK_LIMITS])
{
    struct numbers numbers;
    read_numbers(ruleset, plan, &numbers);
    for (size_t i = 0; i < ruleset->limit_count; i++)
        alone[i] = alone[i] || is_alone(ruleset, &numbers, i);
}

static bool warn_of_windows(struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    char path[PATH_BYTES];
    bool alone[WEIR_CHECK_LIMITS] = { false };
    bool ok = true;
    if (policy->plan_count == 0)
        note_alone(ruleset, NULL, alone);
    for (size_t i = 0; i < policy->plan_count; i++)
        note_alone(ruleset, &policy->plans[i], alone);
    for (size_t i = 0; i < ruleset->limit_count && ok; i++) {
        snprintf(path, sizeof path, "/policies/%s/limits/%zu/rate", ruleset->name, i);
        if (alone[i])
            ok = add(policy, WEIR_W_LONG_WINDOW_ALONE, path,
                     "All of the limit \"%s\" can be spent at once, and then there is nothing for "
                     "an hour or more; add a limit of a tenth of its window or less%s.",
                     ruleset->limits[i].name,
                     weir_has_burst(ruleset->limits[i].algorithm) ? ", or give it a small \"burst\""
                                                                  : "");
    }
    return ok;
}

/* what costs more, or holds less, than it seems */

/* The numbers of a limit that the plan at `index` gives; false where it does not limit. A limit that
 * takes nothing from plans has its own at 0. */
static bool numbers_at(const struct weir_policy *policy, const struct weir_limit_rule *limit,
                       size_t index, struct weir_limit_numbers *numbers)
{
    bool is_planned = limit->source == WEIR_RATE_PLAN;
    return weir_limit_rate_in(limit, is_planned ? &policy->plans[index] : NULL, numbers);
}

static size_t numbers_count(const struct weir_policy *policy, const struct weir_limit_rule *limit)
{
    return limit->source == WEIR_RATE_PLAN ? policy->plan_count : 1;
}

static bool warn_of_log(struct weir_policy *policy, const struct weir_limit_rule *limit,
                        const char *path)
{
    struct weir_limit_numbers numbers;
    uint64_t most = 0;
    for (size_t i = 0; i < numbers_count(policy, limit); i++)
        if (numbers_at(policy, limit, i, &numbers) && numbers.rate.limit > most)
            most = numbers.rate.limit;
    if (limit->algorithm != WEIR_SLIDING_LOG || most <= LOG_UNITS_MAX)
        return true;
    return add(policy, WEIR_W_LARGE_LOG, path,
               "The log of the limit \"%s\" keeps up to %llu entries for each key; use "
               "sliding-counter, which keeps two numbers and is near enough, or gcra, which keeps "
               "one and also bounds bursts.",
               limit->name, (unsigned long long)most);
}

/* A burst of the limit's own number was most likely not chosen, so it is none that misleads. */
static bool warn_of_queue(struct weir_policy *policy, const struct weir_limit_rule *limit,
                          const char *path)
{
    for (size_t i = 0; i < numbers_count(policy, limit); i++) {
        struct weir_limit_numbers numbers;
        if (limit->algorithm != WEIR_LEAKY_BUCKET || !numbers_at(policy, limit, i, &numbers)
            || numbers.rate.burst == numbers.rate.limit)
            continue;
        uint64_t places = spent_at_once(limit, &numbers.rate);
        if (places < numbers.rate.burst)
            return add(policy, WEIR_W_QUEUE_OUT_OF_REACH, path,
                       "The queue of the limit \"%s\" has %llu places, and who comes behind the "
                       "first %llu would wait longer than \"max_wait\" allows and is refused; "
                       "lower \"burst\", or raise \"max_wait\".",
                       limit->name, (unsigned long long)numbers.rate.burst,
                       (unsigned long long)places);
    }
    return true;
}

static bool warn_of_algorithms(struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    char path[PATH_BYTES];
    bool ok = true;
    for (size_t i = 0; i < ruleset->limit_count && ok; i++) {
        snprintf(path, sizeof path, "/policies/%s/limits/%zu/algorithm", ruleset->name, i);
        ok = warn_of_log(policy, &ruleset->limits[i], path)
             && warn_of_queue(policy, &ruleset->limits[i], path);
    }
    return ok;
}

/* leases */

/* A block that is worth less time is gone before the store has answered twice. */
#define BLOCK_LEAST_US UINT64_C(10000)

/* So much of a limit may stay unused without anybody noticing. */
#define BOUND_PART 10

static bool counts_windows(const struct weir_limit_rule *limit)
{
    return limit->algorithm == WEIR_FIXED_WINDOW;
}

/* False where there is nothing to warn of. */
static bool is_too_short(const struct weir_limit_rule *limit, const struct weir_rate *rate,
                         uint64_t *block_us)
{
    uint64_t batch = limit->lease->batch < rate->burst ? limit->lease->batch : rate->burst;
    *block_us = batch * rate->interval_us + batch * rate->interval_part / rate->parts;
    return !counts_windows(limit) && limit->lease->batch > 0 && *block_us < BLOCK_LEAST_US;
}

static bool warn_of_short(struct weir_policy *policy, const struct weir_limit_rule *limit,
                          const char *path)
{
    for (size_t i = 0; i < numbers_count(policy, limit); i++) {
        struct weir_limit_numbers numbers;
        uint64_t block_us;
        if (numbers_at(policy, limit, i, &numbers) && numbers.rate.limit > 0
            && is_too_short(limit, &numbers.rate, &block_us))
            return add(policy, WEIR_W_LEASE_TOO_SHORT, path,
                       "A block of %llu of the limit \"%s\" is earned back in %llu us, and what is "
                       "not spent by then is gone; say \"auto\", or a batch that lasts for 10 ms "
                       "or more.",
                       (unsigned long long)limit->lease->batch, limit->name,
                       (unsigned long long)block_us);
    }
    return true;
}

/* "auto" alone is a choice of weir's, and the log says what it comes to. */
static bool warn_of_bound(struct weir_policy *policy, const struct weir_limit_rule *limit,
                          const char *path)
{
    uint64_t capacity = 0;
    const char *plan = NULL;
    const struct weir_lease *lease = limit->lease;
    if ((lease->batch == 0 && lease->share_ppm == 0)
        || !least_capacity(policy, limit, &capacity, &plan))
        return true;
    uint64_t bound = weir_lease_bound(lease, capacity, policy->instances);
    if (bound <= capacity / BOUND_PART)
        return true;
    return add(policy, WEIR_W_LEASE_BOUND, path,
               "With %u instances up to %llu of the %llu units of the limit \"%s\"%s%s%s may lie "
               "unused for a second, and a client be refused that much early; take a smaller "
               "%s, or \"auto\".",
               policy->instances, (unsigned long long)bound, (unsigned long long)capacity,
               limit->name, plan == NULL ? "" : " in the plan \"", plan == NULL ? "" : plan,
               plan == NULL ? "" : "\"", lease->batch > 0 ? "batch" : "share");
}

/* One that is not leased makes a call for each request, whatever the others hold. */
static bool warn_of_part(struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    char path[PATH_BYTES];
    const struct weir_limit_rule *leased = NULL, *strict = NULL;
    for (size_t i = 0; i < ruleset->limit_count; i++)
        *(ruleset->limits[i].lease != NULL ? &leased : &strict) = &ruleset->limits[i];
    if (leased == NULL || strict == NULL)
        return true;
    snprintf(path, sizeof path, "/policies/%s/limits/%td", ruleset->name, strict - ruleset->limits);
    return add(policy, WEIR_W_LEASED_IN_PART, path,
               "The limit \"%s\" of the policy \"%s\" is not leased, so that each request that it "
               "applies to asks the store about all of them, and the lease of \"%s\" saves "
               "nothing; lease it too, or none.",
               strict->name, ruleset->name, leased->name);
}

static bool warn_of_leases(struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    char path[PATH_BYTES];
    bool ok = warn_of_part(policy, ruleset);
    for (size_t i = 0; i < ruleset->limit_count && ok; i++) {
        snprintf(path, sizeof path, "/policies/%s/limits/%zu/lease", ruleset->name, i);
        if (ruleset->limits[i].lease != NULL)
            ok = warn_of_short(policy, &ruleset->limits[i], path)
                 && warn_of_bound(policy, &ruleset->limits[i], path);
    }
    return ok;
}

static bool warn_of_unbounded(struct weir_policy *policy)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < policy->ruleset_count; i++)
        for (size_t j = 0; j < policy->rulesets[i].limit_count; j++) {
            if (policy->rulesets[i].limits[j].lease == NULL)
                continue;
            snprintf(path, sizeof path, "/policies/%s/limits/%zu/lease", policy->rulesets[i].name,
                     j);
            return add(policy, WEIR_W_LEASE_WITHOUT_INSTANCES, path,
                       "How much leases may leave unused depends on how many processes hold some; "
                       "set \"instances\" to their number.");
        }
    return true;
}

/* routes */

static bool hides_method(const struct weir_route *earlier, const struct weir_route *later)
{
    /* Preflights pass over routes for any method, and reach one that names OPTIONS. */
    if (earlier->method.at == NULL)
        return !weir_text_equal(later->method, WEIR_TEXT("OPTIONS"));
    return weir_text_equal(earlier->method, later->method)
           || (weir_text_equal(earlier->method, WEIR_TEXT("GET"))
               && weir_text_equal(later->method, WEIR_TEXT("HEAD")));
}

static bool warn_of_hidden(struct weir_policy *policy, size_t index)
{
    char path[PATH_BYTES];
    const struct weir_route *later = &policy->routes[index];
    for (size_t i = 0; i < index; i++) {
        const struct weir_route *earlier = &policy->routes[i];
        if (!hides_method(earlier, later)
            || !weir_pattern_hides(&earlier->pattern, &later->pattern))
            continue;
        bool is_elsewhere = strcmp(earlier->file, later->file) != 0;
        snprintf(path, sizeof path, "/routes/%zu/match", index);
        return add(policy, WEIR_W_ROUTE_HIDDEN, path,
                   "\"%.80s\" never matches, since \"%.80s\" at /routes/%zu%s%.60s comes first and "
                   "takes all of it; put it before that route.",
                   later->match, earlier->match, earlier->index, is_elsewhere ? " of " : "",
                   !is_elsewhere              ? ""
                   : earlier->file[0] == '\0' ? "the first file"
                                              : earlier->file);
    }
    return true;
}

/* proxies */

static bool is_private(const struct weir_network *network)
{
    const uint8_t *bytes = network->address.bytes;
    if (network->address.family == WEIR_IPV4)
        return network->prefix >= 8 && (bytes[0] == 10 || bytes[0] == 127);
    return (network->prefix >= 7 && (bytes[0] & 0xFE) == 0xFC)
           || (network->prefix >= 10 && bytes[0] == 0xFE && (bytes[1] & 0xC0) == 0x80);
}

enum weir_code weir_warn_of_trust(struct weir_policy *policy, const struct weir_network *network,
                                  const char *path, struct weir_error *error)
{
    char text[WEIR_NETWORK_CHARS];
    unsigned widest = network->address.family == WEIR_IPV4 ? 8 : 16;
    if (network->prefix > widest || is_private(network))
        return WEIR_OK;
    weir_network_print(network, text);
    if (add(policy, WEIR_W_TRUSTS_EVERYONE, path,
            "%s covers a good part of the Internet, and everybody in it can choose the address "
            "that is counted; name your proxies only.",
            text))
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

enum weir_code weir_warn_of_allowed(struct weir_policy *policy, const struct weir_network *network,
                                    const char *path, struct weir_error *error)
{
    char text[WEIR_NETWORK_CHARS];
    weir_network_print(network, text);
    if (network->prefix > 0
        || add(policy, WEIR_W_ALLOWS_EVERYONE, path,
               "%s is every address there is, so that no limit holds for anybody; name those that "
               "you mean, or leave the limits out.",
               text))
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

enum weir_code weir_warn_of_secret(struct weir_policy *policy, size_t length,
                                   struct weir_error *error)
{
    /* How long it is exactly is nobody's business. */
    if (length >= SECRET_BYTES
        || add(policy, WEIR_W_WEAK_SECRET, "/secret",
               "The secret has fewer than %d bytes, so that whoever has a cookie or a key that was "
               "made with it can find it by trying; take 32 random bytes (openssl rand -hex 32).",
               SECRET_BYTES))
        return WEIR_OK;
    return weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

/* the store */

static bool is_memory(const struct weir_policy *policy)
{
    return strcmp(policy->store_url, "memory:") == 0;
}

static bool warn_of_instances(struct weir_policy *policy)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < policy->ruleset_count; i++) {
        if (!falls_back(&policy->rulesets[i]))
            continue;
        snprintf(path, sizeof path, "/policies/%s/on_store_failure", policy->rulesets[i].name);
        return add(policy, WEIR_W_MEMORY_WITHOUT_INSTANCES, path,
                   "While the store fails, each process lets all of the limit through; set "
                   "\"instances\" to the number of processes, and each takes its share.");
    }
    return true;
}

static bool is_told_by_client(const struct weir_by *by)
{
    for (size_t i = 0; i < by->count; i++)
        for (size_t j = 0; j < by->parts[i].count; j++) {
            enum weir_dimension_kind kind = by->parts[i].alternatives[j].kind;
            if (kind == WEIR_BY_USER || kind == WEIR_BY_HEADER || kind == WEIR_BY_QUERY
                || kind == WEIR_BY_PARAM || kind == WEIR_BY_FIELD)
                return true;
        }
    return false;
}

static bool warn_of_secret(struct weir_policy *policy)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < policy->ruleset_count; i++)
        for (size_t j = 0; j < policy->rulesets[i].limit_count; j++) {
            if (!is_told_by_client(&policy->rulesets[i].limits[j].by))
                continue;
            snprintf(path, sizeof path, "/policies/%s/limits/%zu/by", policy->rulesets[i].name, j);
            return add(policy, WEIR_W_NO_SECRET, path,
                       "Users, headers and the like are hashed before they go into the shared "
                       "store, but whoever reads it can guess them without a secret; set "
                       "\"secret\", such as \"${WEIR_SECRET}\", the same in each process.");
        }
    return true;
}

static bool warn_of_store(struct weir_policy *policy, const struct weir_written *written)
{
    if (is_memory(policy) && policy->instances > 1
        && !add(
            policy, WEIR_W_PER_PROCESS, "/instances",
            "There are %u instances, and the memory store counts in each of them alone, so that "
            "clients get up to %u times each limit; use Redis, or lower the limits.",
            policy->instances, policy->instances))
        return false;
    if (!written->has_instances
        && (!warn_of_instances(policy) || (!is_memory(policy) && !warn_of_unbounded(policy))))
        return false;
    return is_memory(policy) || written->has_secret || warn_of_secret(policy);
}

/* requests at once */

static bool warn_of_slots(struct weir_policy *policy, const struct weir_ruleset *ruleset)
{
    char path[PATH_BYTES];
    const struct weir_concurrency *rule = ruleset->concurrency;
    if (rule == NULL || rule->fixed == 0 || policy->instances == 1)
        return true;
    snprintf(path, sizeof path, "/policies/%s/concurrency/fixed", ruleset->name);
    return add(policy, WEIR_W_SLOTS_PER_PROCESS, path,
               "There are %u instances, and each counts the requests under way for itself, so that "
               "a client gets up to %llu in all; write the share of one instance.",
               policy->instances, (unsigned long long)rule->fixed * policy->instances);
}

/* all of it */

static bool warn_of_rulesets(struct weir_policy *policy)
{
    bool ok = true;
    for (size_t i = 0; i < policy->ruleset_count && ok; i++) {
        const struct weir_ruleset *ruleset = &policy->rulesets[i];
        ok = warn_of_open(policy, ruleset) && warn_of_windows(policy, ruleset)
             && warn_of_slots(policy, ruleset) && warn_of_algorithms(policy, ruleset)
             && warn_of_leases(policy, ruleset);
        for (size_t j = 0; j < ruleset->limit_count && ok; j++)
            ok = warn_of_costs(policy, ruleset, &ruleset->limits[j]);
    }
    return ok;
}

enum weir_code weir_warn_of_percent(struct weir_policy *policy, const struct weir_ruleset *ruleset,
                                    struct weir_error *error)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/policies/%s/enforce_percent", ruleset->name);
    bool ok = add(policy, WEIR_W_PERCENT_UNUSED, path,
                  "The policy's mode is not \"enforce\", so there is nothing to enforce for a part "
                  "of the clients; take \"mode\" out, or this.");
    return ok ? WEIR_OK : weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}

enum weir_code weir_policy_warn(struct weir_policy *policy, const struct weir_written *written,
                                struct weir_error *error)
{
    bool ok = warn_of_store(policy, written) && warn_of_rulesets(policy);
    for (size_t i = 0; i < policy->route_count && ok; i++)
        ok = warn_of_hidden(policy, i);
    return ok ? WEIR_OK : weir_error_set(error, WEIR_E_MEMORY, NULL, "Out of memory.");
}
