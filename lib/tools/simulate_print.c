/* For people. */
#include <stdio.h>
#include <stdlib.h>

#include "policy/date.h"
#include "tools/simulate.h"
#include "tools/table.h"
#include "tools/tool.h"

#define SECOND_US     UINT64_C(1000000)
#define PERCENT_CHARS 32

const char *weir_simulate_moment(uint64_t time_us, char text[WEIR_MOMENT_CHARS])
{
    int64_t seconds = (int64_t)(time_us / SECOND_US), rest = seconds % WEIR_DAY_S;
    struct weir_date date = weir_date_of_day(seconds / WEIR_DAY_S);
    int length = snprintf(text, WEIR_MOMENT_CHARS, "%04u-%02u-%02uT%02u:%02u:%02u",
                          (unsigned)date.year, date.month, date.day, (unsigned)(rest / 3600),
                          (unsigned)(rest / 60 % 60), (unsigned)(rest % 60));
    uint64_t fraction_us = time_us % SECOND_US;
    if (fraction_us % 1000 != 0)
        length += snprintf(text + length, WEIR_MOMENT_CHARS - (size_t)length, ".%06u",
                           (unsigned)fraction_us);
    else if (fraction_us != 0)
        length += snprintf(text + length, WEIR_MOMENT_CHARS - (size_t)length, ".%03u",
                           (unsigned)(fraction_us / 1000));
    snprintf(text + length, WEIR_MOMENT_CHARS - (size_t)length, "Z");
    return text;
}

/* For a column of them: nobody reads the decimals there. */
static const char *second_of(uint64_t time_us, char text[WEIR_MOMENT_CHARS])
{
    return weir_simulate_moment(time_us - time_us % SECOND_US, text);
}

/* "12.3 %"; what is not nothing is never said to be, and what is not all neither. */
static const char *percent(uint64_t part, uint64_t whole, char text[PERCENT_CHARS])
{
    double share = whole == 0 ? 0 : 100.0 * (double)part / (double)whole;
    if (part > 0 && share < 0.1)
        return "<0.1 %";
    if (part < whole && share > 99.9)
        return ">99.9 %";
    snprintf(text, PERCENT_CHARS, "%.1f %%", share);
    return text;
}

/* A text that may be longer than a cell, or NULL. */
static const char *or_none(const char *text)
{
    return text == NULL || text[0] == '\0' ? "-" : text;
}

static int print_and_free(struct weir_tool_table *table)
{
    bool is_printed = table != NULL && weir_tool_table_print(table, "", stdout);
    weir_tool_table_free(table);
    return is_printed ? WEIR_TOOL_FINE : weir_tool_out_of_memory();
}

static void print_summary(const struct weir_simulated *simulated)
{
    const struct weir_lines_state *lines = simulated->lines;
    const struct weir_tally_count *all = &simulated->tally->all;
    char first[WEIR_MOMENT_CHARS], last[WEIR_MOMENT_CHARS], time[WEIR_TOOL_TIME_CHARS];
    char share[PERCENT_CHARS];
    printf("%llu requests in %s, from %s to %s.\n", (unsigned long long)all->requests,
           weir_tool_time((lines->last_us - lines->first_us) / SECOND_US, time),
           weir_simulate_moment(lines->first_us, first),
           weir_simulate_moment(lines->last_us, last));
    printf("%s%s would refuse %llu of them (%s)%s", weir_tool_style(stdout, WEIR_TOOL_BOLD),
           simulated->file, (unsigned long long)all->refused,
           percent(all->refused, all->requests, share), weir_tool_style(stdout, WEIR_TOOL_PLAIN));
    if (all->watched > 0)
        printf(", and %llu (%s) if it did not only watch there", (unsigned long long)all->watched,
               percent(all->watched, all->requests, share));
    printf(".\n");
}

/* Other ends than being refused by a limit. */
static int print_outcomes(const struct weir_tally *tally)
{
    static const char *const titles[] = { "OUTCOME", ">REQUESTS", ">SHARE" };
    struct weir_tool_table *table = weir_tool_table_new(titles, 3);
    char share[PERCENT_CHARS];
    for (size_t i = 0; table != NULL && i <= WEIR_BUSY; i++) {
        if (tally->outcomes[i] == 0)
            continue;
        weir_tool_table_put(table, "%s", weir_outcome_name((enum weir_outcome)i));
        weir_tool_table_put(table, "%llu", (unsigned long long)tally->outcomes[i]);
        weir_tool_table_put(table, "%s", percent(tally->outcomes[i], tally->all.requests, share));
    }
    printf("\n");
    return print_and_free(table);
}

static void put_limit(struct weir_tool_table *table, const struct weir_tally_limit *limit)
{
    char share[PERCENT_CHARS];
    const struct weir_tally_count *count = &limit->count;
    weir_tool_table_put(table, "%s", limit->ruleset->name);
    weir_tool_table_put(table, "%s", limit->limit->name);
    weir_tool_table_put(table, "%llu", (unsigned long long)count->requests);
    weir_tool_table_put(table, "%llu", (unsigned long long)count->refused);
    weir_tool_table_put(table, "%s", percent(count->refused, count->requests, share));
    weir_tool_table_put(table, "%llu", (unsigned long long)count->watched);
    weir_tool_table_put(table, "%llu", (unsigned long long)limit->keys);
    weir_tool_table_put(table, "%llu", (unsigned long long)limit->refused_keys);
}

/* Each limit of a policy that met anybody. */
static int print_limits(const struct weir_tally *tally)
{
    static const char *const titles[] = { "POLICY", "LIMIT",      ">REQUESTS", ">REFUSED",
                                          ">SHARE", ">IN SHADOW", ">KEYS",     ">REFUSED KEYS" };
    struct weir_tool_table *table = weir_tool_table_new(titles, 8);
    for (size_t i = 0; table != NULL && i < tally->policy_count; i++) {
        const struct weir_tally_policy *policy = &tally->policies[i];
        bool is_met = policy->ruleset != NULL && policy->count.requests > 0;
        for (size_t j = 0; is_met && j < policy->ruleset->limit_count; j++)
            put_limit(table, &policy->limits[j]);
    }
    printf("\n");
    return print_and_free(table);
}

static void put_key(struct weir_tool_table *table, const struct weir_tally_key *key)
{
    char share[PERCENT_CHARS], moment[WEIR_MOMENT_CHARS], time[WEIR_TOOL_TIME_CHARS];
    uint64_t refused = key->count.refused + key->count.watched;
    weir_tool_table_put(table, "%s", or_none(key->label));
    weir_tool_table_put(table, "%s", or_none(key->policy));
    weir_tool_table_put(table, "%s",
                        key->limit == NULL ? weir_outcome_name(key->outcome) : key->limit);
    weir_tool_table_put(table, "%llu", (unsigned long long)refused);
    weir_tool_table_put(table, "%llu", (unsigned long long)key->count.requests);
    weir_tool_table_put(table, "%s", percent(refused, key->count.requests, share));
    weir_tool_table_put(table, "%s", second_of(key->first_us, moment));
    weir_tool_table_put(table, "%s", second_of(key->last_us, moment));
    weir_tool_table_put(table, "%s",
                        key->retry_most_s == 0 ? "-" : weir_tool_time(key->retry_most_s, time));
}

static int print_keys(const struct weir_simulated *simulated)
{
    static const char *const titles[] = { "WHO",    "POLICY", "LIMIT", ">REFUSED",     ">OF",
                                          ">SHARE", "FIRST",  "LAST",  ">LONGEST WAIT" };
    size_t count;
    const struct weir_tally_key **top = weir_tally_top(simulated->tally, &count);
    struct weir_tool_table *table = weir_tool_table_new(titles, 9);
    for (size_t i = 0; top != NULL && table != NULL && i < count && i < simulated->top; i++)
        put_key(table, top[i]);
    free(top);
    printf("\n");
    int status = print_and_free(table);
    if (count > simulated->top)
        printf("and %zu more (--top %zu)\n", count - simulated->top, count);
    return top == NULL ? weir_tool_out_of_memory() : status;
}

static int print_times(const struct weir_tally *tally)
{
    static const char *const titles[] = { "FROM", ">REQUESTS", ">REFUSED", ">SHARE", ">IN SHADOW" };
    struct weir_tool_table *table = weir_tool_table_new(titles, 5);
    char share[PERCENT_CHARS], moment[WEIR_MOMENT_CHARS];
    for (size_t i = 0; table != NULL && i < tally->time_count; i++) {
        const struct weir_tally_count *count = &tally->times[i];
        weir_tool_table_put(table, "%s",
                            weir_simulate_moment(tally->first_us + i * tally->width_us, moment));
        weir_tool_table_put(table, "%llu", (unsigned long long)count->requests);
        weir_tool_table_put(table, "%llu", (unsigned long long)count->refused);
        weir_tool_table_put(table, "%s", percent(count->refused, count->requests, share));
        weir_tool_table_put(table, "%llu", (unsigned long long)count->watched);
    }
    printf("\n");
    return print_and_free(table);
}

int weir_simulate_print(const struct weir_simulated *simulated)
{
    const struct weir_tally *tally = simulated->tally;
    bool has_refused = tally->all.refused + tally->all.watched > 0;
    print_summary(simulated);
    int status = print_outcomes(tally);
    if (status == WEIR_TOOL_FINE)
        status = print_limits(tally);
    if (status == WEIR_TOOL_FINE && has_refused)
        status = print_keys(simulated);
    if (status == WEIR_TOOL_FINE && has_refused)
        status = print_times(tally);
    for (size_t i = 0; i < simulated->note_count; i++)
        weir_tool_complain("%s", simulated->notes[i]);
    return status;
}
