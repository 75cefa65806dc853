/* weir bench: how many decisions a second a policy file makes of its store, and how long each takes. */
#include "tools/bench.h"

#include <string.h>

#include "policy/policy.h"
#include "tools/table.h"
#include "tools/tool.h"

#define NAMES_MAX 256

struct bench {
    const char *file;
    const char *store;
    const char *name;
    const char *plan;
    uint64_t clients, threads, seconds, requests, cost;
    bool is_json;

    struct weir_policy *policy;
    struct weir_limiter *limiter;
    struct weir_tool_table *table;
    json_t *results;
    uint64_t failed;
};

static const struct weir_tool_option options[] = {
    { .name = "policy",
      .value = "FILE",
      .help = "the policy file",
      WEIR_TOOL_INTO(struct bench, file) },
    { .name = "name",
      .value = "POLICY",
      .help = "only this one of its policies (all, one after the other)",
      WEIR_TOOL_INTO(struct bench, name) },
    { .name = "store",
      .value = "URL",
      .help = "ask this store, and not the file's",
      WEIR_TOOL_INTO(struct bench, store) },
    { .name = "plan",
      .value = "PLAN",
      .help = "the plan that the clients have (the file's default)",
      WEIR_TOOL_INTO(struct bench, plan) },
    { .name = "threads",
      .value = "N",
      .help = "so many requests at once, each on a thread that waits for its answer (2)",
      WEIR_TOOL_INTO(struct bench, threads),
      .least = 1,
      .most = WEIR_BENCH_THREADS_MAX },
    { .name = "clients",
      .value = "N",
      .help = "so many different clients, picked at random (1000)",
      WEIR_TOOL_INTO(struct bench, clients),
      .least = 1,
      .most = WEIR_BENCH_CLIENTS_MAX },
    { .name = "seconds",
      .value = "N",
      .help = "so long for each policy (3)",
      WEIR_TOOL_INTO(struct bench, seconds),
      .least = 1,
      .most = 3600 },
    { .name = "requests",
      .value = "N",
      .help = "stop after so many for each policy, if that is sooner",
      WEIR_TOOL_INTO(struct bench, requests),
      .least = 1,
      .most = 1000000000 },
    { .name = "cost",
      .value = "N",
      .help = "units that each request costs (1)",
      WEIR_TOOL_INTO(struct bench, cost),
      .least = 1,
      .most = WEIR_UNITS_MAX },
    { .name = "json", .help = "print the figures as JSON", WEIR_TOOL_INTO(struct bench, is_json) },
};

static const struct weir_tool_usage usage = {
    .name = "bench",
    .arguments = "",
    .summary =
        "Decides made-up requests by the policies of a file as fast as it can, and says how many "
        "that were in a second and how long each took. Without HTTP: what is measured is the "
        "limiter and its store.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .more =
        "In Redis all keys start with \"" WEIR_BENCH_PREFIX
        ":\" whatever prefix the file has; they are removed\n"
        "afterwards, and expire if that fails. The load is real: not for a Redis that others wait "
        "for.\n"
        "\n"
        "Exit status: 0 done; 1 it could not be done, or the store failed meanwhile; 2 the "
        "command\n"
        "line means nothing.",
};

/* printing */

static double us(uint64_t ns)
{
    return (double)ns / 1000;
}

static double per_second(const struct weir_bench_result *result)
{
    return result->ns == 0 ? 0 : (double)result->decisions * 1e9 / (double)result->ns;
}

static void put_row(struct weir_tool_table *table, const char *name,
                    const struct weir_bench_result *result)
{
    static const struct {
        uint64_t part, whole;
    } points[] = { { 1, 2 }, { 9, 10 }, { 99, 100 }, { 999, 1000 }, { 1, 1 } };
    weir_tool_table_put(table, "%s", name);
    weir_tool_table_put(table, "%.0f", per_second(result));
    weir_tool_table_put(table, "%llu", (unsigned long long)result->allowed);
    weir_tool_table_put(table, "%llu", (unsigned long long)result->refused);
    weir_tool_table_put(table, "%llu", (unsigned long long)result->failed);
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        weir_tool_table_put(
            table, "%.1f",
            us(weir_latencies_at(&result->latencies, points[i].part, points[i].whole)));
}

static json_t *result_json(const char *name, const struct weir_bench_result *result)
{
    const struct weir_latencies *took = &result->latencies;
    return json_pack("{s:s, s:I, s:f, s:f, s:I, s:I, s:I, s:{s:f, s:f, s:f, s:f, s:f}}", "name",
                     name, "decisions", (json_int_t)result->decisions, "seconds",
                     (double)result->ns / 1e9, "per_s", per_second(result), "allowed",
                     (json_int_t)result->allowed, "refused", (json_int_t)result->refused, "failed",
                     (json_int_t)result->failed, "latency_us", "p50",
                     us(weir_latencies_at(took, 1, 2)), "p90", us(weir_latencies_at(took, 9, 10)),
                     "p99", us(weir_latencies_at(took, 99, 100)), "p99.9",
                     us(weir_latencies_at(took, 999, 1000)), "max", us(took->most_ns));
}

static int print_results(struct bench *bench)
{
    struct weir_store_state state;
    weir_limiter_state(bench->limiter, &state);
    if (bench->is_json) {
        json_t *results = bench->results;
        bench->results = NULL;
        return weir_tool_print_json(json_pack("{s:s, s:s, s:I, s:I, s:o}", "store", state.name,
                                              "server", state.server, "threads",
                                              (json_int_t)bench->threads, "clients",
                                              (json_int_t)bench->clients, "policies", results));
    }
    printf("store %s%s%s, %llu threads, %llu clients; times in microseconds\n\n", state.name,
           state.server[0] == '\0' ? "" : " at ", state.server, (unsigned long long)bench->threads,
           (unsigned long long)bench->clients);
    return weir_tool_table_print(bench->table, "", stdout) ? WEIR_TOOL_FINE
                                                           : weir_tool_out_of_memory();
}

/* running */

static bool run_policy(struct bench *bench, const struct weir_ruleset *ruleset)
{
    struct weir_bench_result result = { .decisions = 0 };
    struct weir_error error = WEIR_NO_ERROR;
    const struct weir_bench_order order = { .limiter = bench->limiter,
                                            .policy = bench->policy,
                                            .ruleset = ruleset,
                                            .plan = bench->plan,
                                            .clients = bench->clients,
                                            .threads = bench->threads,
                                            .seconds = bench->seconds,
                                            .requests = bench->requests,
                                            .cost = bench->cost };
    if (!weir_bench_run(&order, &result, &error)) {
        weir_tool_complain_of_store(&error, bench->limiter);
        return false;
    }
    bench->failed += result.failed;
    put_row(bench->table, ruleset->name, &result);
    json_array_append_new(bench->results, result_json(ruleset->name, &result));
    return true;
}

static int run_policies(struct bench *bench)
{
    bool is_done = true;
    for (size_t i = 0; i < bench->policy->ruleset_count && is_done; i++) {
        const struct weir_ruleset *ruleset = &bench->policy->rulesets[i];
        if (bench->name == NULL ? ruleset->limit_count > 0
                                : strcmp(bench->name, ruleset->name) == 0)
            is_done = run_policy(bench, ruleset);
        is_done = is_done && !weir_bench_is_interrupted();
    }
    if (!is_done && !weir_bench_is_interrupted())
        return WEIR_TOOL_FOUND;
    int status = print_results(bench);
    if (bench->failed == 0)
        return status;
    weir_tool_complain("The store failed %llu times: no answer came, or it was none.",
                       (unsigned long long)bench->failed);
    return WEIR_TOOL_FOUND;
}

static int check_names(const struct bench *bench)
{
    const char *names[NAMES_MAX], *plans[NAMES_MAX];
    const struct weir_policy *policy = bench->policy;
    char meant[128];
    size_t count = 0, plan_count = 0;
    bool is_there = bench->name == NULL, has_plan = bench->plan == NULL;
    for (; count < policy->ruleset_count && count < NAMES_MAX; count++) {
        names[count] = policy->rulesets[count].name;
        is_there = is_there || strcmp(names[count], bench->name) == 0;
    }
    for (; plan_count < policy->plan_count && plan_count < NAMES_MAX; plan_count++) {
        plans[plan_count] = policy->plans[plan_count].name;
        has_plan = has_plan || strcmp(plans[plan_count], bench->plan) == 0;
    }
    if (is_there && has_plan)
        return WEIR_TOOL_FINE;
    const char *wrong = is_there ? bench->plan : bench->name;
    weir_tool_did_you_mean(wrong, "", is_there ? plans : names, is_there ? plan_count : count,
                           meant, sizeof meant);
    weir_tool_complain("%s has no %s \"%.60s\"%s", bench->file, is_there ? "plan" : "policy", wrong,
                       meant[0] == '\0' ? "." : meant);
    return WEIR_TOOL_FOUND;
}

static int bench_store(struct bench *bench, struct weir_store *store)
{
    static const char *const titles[] = { "POLICY",  ">DECISIONS/S", ">ALLOWED", ">REFUSED",
                                          ">FAILED", ">P50",         ">P90",     ">P99",
                                          ">P99.9",  ">MAX" };
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = bench->policy, .store = store),
                         &bench->limiter, &error)
        != WEIR_OK) {
        weir_tool_complain_of(&error, bench->file);
        return WEIR_TOOL_FOUND;
    }
    bench->table = weir_tool_table_new(titles, sizeof titles / sizeof titles[0]);
    bench->results = json_array();
    int status = bench->table == NULL || bench->results == NULL ? weir_tool_out_of_memory()
                                                                : run_policies(bench);
    json_decref(bench->results);
    weir_tool_table_free(bench->table);
    weir_limiter_free(bench->limiter);
    return status;
}

static int bench_policy(struct bench *bench)
{
    int status = check_names(bench);
    if (status != WEIR_TOOL_FINE)
        return status;
    /* No key of a server's is touched, and none is found where these have been left. */
    bench->policy->store_prefix = WEIR_BENCH_PREFIX;
    struct weir_store *store = weir_tool_open_store(bench->policy, bench->store, bench->file);
    if (store == NULL)
        return WEIR_TOOL_FOUND;
    status = bench_store(bench, store);
    weir_store_free(store);
    return status;
}

int weir_tool_bench(int count, char **arguments)
{
    struct bench bench = { .clients = 1000, .threads = 2, .seconds = 3, .cost = 1 };
    struct weir_tool_arguments operands;
    int status;
    if (!weir_tool_read(&usage, count, arguments, &bench, &operands, &status))
        return status;
    if (bench.file == NULL)
        return weir_tool_misused(&usage, "Wanted is --policy FILE.");
    bench.policy = weir_tool_load(bench.file);
    if (bench.policy == NULL)
        return WEIR_TOOL_FOUND;
    status = bench_policy(&bench);
    weir_policy_free(bench.policy);
    return status;
}
