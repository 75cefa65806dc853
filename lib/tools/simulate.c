/* weir simulate: whom a policy file would have refused of those who are in an access log. */
#include "tools/simulate.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "tools/progress.h"
#include "tools/tool.h"

struct simulate {
    const char *file, *format, *from, *to, *decisions;
    struct weir_tool_list mappings;
    uint64_t top;
    bool enforces, spreads, admits, is_json, is_checked;

    struct weir_access_reader *reader;
    struct weir_lines *lines;
    struct weir_policy *policy;
    bool counts_at_once, knows_devices; /* as the file had it */
    struct weir_replay *replay;
    struct weir_tally *tally;
    FILE *stream; /* of decisions */
    size_t log_count;
    struct weir_simulated simulated;
};

static const struct weir_tool_option options[] = {
    { .name = "policy",
      .value = "FILE",
      .help = "the policy file that is tried out",
      WEIR_TOOL_INTO(struct simulate, file) },
    { .name = "format",
      .value = "FORMAT",
      .help = "common, combined or json (each line as it looks)",
      WEIR_TOOL_INTO(struct simulate, format) },
    { .name = "map",
      .value = "NAME=MEMBER",
      .help = "where JSON lines have something: ip, method, path, request, time, duration,\n"
              "status, user, tenant, plan, api-key, cost, headers, header:NAME, field:NAME;\n"
              "may be given several times",
      WEIR_TOOL_INTO(struct simulate, mappings) },
    { .name = "from",
      .value = "TIME",
      .help = "leave out what came before: \"2026-03-04T05:06:07Z\", \"2026-03-04\"",
      WEIR_TOOL_INTO(struct simulate, from) },
    { .name = "to",
      .value = "TIME",
      .help = "leave out what came then, or later",
      WEIR_TOOL_INTO(struct simulate, to) },
    { .name = "enforce",
      .help = "as if no policy only watched, or were off",
      WEIR_TOOL_INTO(struct simulate, enforces) },
    { .name = "no-auth",
      .help = "let in who is not named in the log, where routes want an identity",
      WEIR_TOOL_INTO(struct simulate, admits) },
    { .name = "spread",
      .help = "spread the requests of a second evenly over it, if the log knows no less",
      WEIR_TOOL_INTO(struct simulate, spreads) },
    { .name = "top",
      .value = "N",
      .help = "show so many of those who were refused most (10)",
      WEIR_TOOL_INTO(struct simulate, top),
      .least = 1,
      .most = 1000000 },
    { .name = "decisions",
      .value = "FILE",
      .help = "write what became of each request, as lines of JSON",
      WEIR_TOOL_INTO(struct simulate, decisions) },
    { .name = "exit-code",
      .help = "end with 1 where somebody would be refused",
      WEIR_TOOL_INTO(struct simulate, is_checked) },
    { .name = "json",
      .help = "print the figures as JSON",
      WEIR_TOOL_INTO(struct simulate, is_json) },
};

static const struct weir_tool_usage usage = {
    .name = "simulate",
    .arguments = "LOG…",
    .least = 1,
    .most = WEIR_LOGS_MAX,
    .summary =
        "Sends the requests of access logs through a policy file, at the times that the logs have "
        "for them, and says who would have been refused, when, and how often. \"-\" is standard "
        "input. Connects to nothing.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .more = "weir simulate --policy candidate.json access.log\n"
            "zcat access.log.*.gz | weir simulate --policy candidate.json -\n"
            "\n"
            "Limits on requests at once are left out, and what a log does not hold counts for\n"
            "nothing: docs/cli.md says what can be replayed, and what cannot.\n"
            "\n"
            "Exit status: 0 it was simulated; 1 it could not be, or, with --exit-code, somebody\n"
            "would be refused; 2 the command line means nothing.",
};

/* notes */

void weir_simulate_note(struct weir_simulated *simulated, const char *format, ...)
{
    if (simulated->note_count == WEIR_NOTES_MAX)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(simulated->notes[simulated->note_count++], WEIR_NOTE_CHARS, format, args);
    va_end(args);
}

static void note_lines(struct weir_simulated *simulated)
{
    const struct weir_lines_state *lines = simulated->lines;
    if (lines->bad > 0) {
        const struct weir_bad_line *first = &lines->first_bad[0];
        weir_simulate_note(simulated,
                           "%llu of %llu lines are left out; the first is %.100s:%llu: %s.",
                           (unsigned long long)lines->bad, (unsigned long long)lines->lines,
                           first->place.log, (unsigned long long)first->place.line, first->why);
    }
    for (size_t i = 1; i < lines->first_bad_count; i++)
        weir_simulate_note(simulated, "%.100s:%llu: %s.", lines->first_bad[i].place.log,
                           (unsigned long long)lines->first_bad[i].place.line,
                           lines->first_bad[i].why);
    if (lines->outside > 0)
        weir_simulate_note(simulated, "%llu requests are outside of --from and --to.",
                           (unsigned long long)lines->outside);
}

static void note_times(const struct simulate *simulate, struct weir_simulated *simulated)
{
    if (simulated->lines->has_whole_seconds && !simulate->spreads
        && simulated->tally->all.requests > 1)
        weir_simulate_note(simulated,
                           "The log tells whole seconds only, so what came in one second came at "
                           "once; --spread spreads it over the second.");
}

/* What a limit counts by may not be in a log. */
static void note_unmet(struct weir_simulated *simulated)
{
    const struct weir_tally *tally = simulated->tally;
    for (size_t i = 0; i < tally->policy_count; i++) {
        const struct weir_tally_policy *policy = &tally->policies[i];
        size_t count = policy->ruleset == NULL || policy->count.requests == 0
                           ? 0
                           : policy->ruleset->limit_count;
        for (size_t j = 0; j < count; j++)
            if (policy->limits[j].count.requests == 0)
                weir_simulate_note(simulated,
                                   "The limit \"%s\" of the policy \"%s\" met no request: what it "
                                   "counts by is not in the log.",
                                   policy->limits[j].limit->name, policy->ruleset->name);
    }
}

static void note_unknown(const struct simulate *simulate, struct weir_simulated *simulated)
{
    const struct weir_tally *tally = simulated->tally;
    uint64_t unknown = tally->outcomes[WEIR_UNAUTHENTICATED];
    if (unknown > 0)
        weir_simulate_note(simulated,
                           "%llu requests are refused because their routes want an identity, and "
                           "the log has none; --no-auth lets them in, counted by address.",
                           (unsigned long long)unknown);
    if (tally->turned_away > 0)
        weir_simulate_note(simulated,
                           "%llu requests were answered 429 when they came; whoever had not been "
                           "refused then might have asked less often.",
                           (unsigned long long)tally->turned_away);
    if (simulate->counts_at_once)
        weir_simulate_note(simulated, "Limits on requests at once are left out.");
    if (simulate->knows_devices)
        weir_simulate_note(simulated,
                           "A log has no cookies, so nobody is known by a device of his.");
    uint64_t evictions = weir_replay_numbers(simulate->replay).evictions;
    if (evictions > 0)
        weir_simulate_note(simulated,
                           "The memory for sums was full: %llu were forgotten, so that more "
                           "would be refused than this says.",
                           (unsigned long long)evictions);
}

/* reading */

static bool read_format(const char *name, enum weir_access_format *format)
{
    static const char *const names[] = { [WEIR_ACCESS_COMMON] = "common",
                                         [WEIR_ACCESS_COMBINED] = "combined",
                                         [WEIR_ACCESS_JSON] = "json" };
    *format = WEIR_ACCESS_ANY;
    for (size_t i = WEIR_ACCESS_COMMON; name != NULL && i <= WEIR_ACCESS_JSON; i++)
        if (strcmp(names[i], name) == 0)
            *format = (enum weir_access_format)i;
    return name == NULL || *format != WEIR_ACCESS_ANY;
}

static bool read_time(const char *text, uint64_t otherwise, uint64_t *time_us)
{
    bool is_whole_second;
    *time_us = otherwise;
    return text == NULL || weir_access_time(weir_text_from(text), time_us, &is_whole_second);
}

/* Makes what lines are read by, and what they go to. */
static int open_reader(struct simulate *simulate)
{
    enum weir_access_format format;
    uint64_t from_us, to_us;
    struct weir_error error = WEIR_NO_ERROR;
    if (!read_format(simulate->format, &format))
        return weir_tool_misused(
            &usage, "--format is \"%.60s\"; wanted is common, combined or json.", simulate->format);
    if (!read_time(simulate->from, 0, &from_us))
        return weir_tool_misused(&usage, "--from is \"%.60s\", which is no time.", simulate->from);
    if (!read_time(simulate->to, UINT64_MAX, &to_us))
        return weir_tool_misused(&usage, "--to is \"%.60s\", which is no time.", simulate->to);
    simulate->reader = weir_access_reader_new(format);
    simulate->lines = weir_lines_new(from_us, to_us);
    if (simulate->reader == NULL || simulate->lines == NULL)
        return weir_tool_out_of_memory();
    for (size_t i = 0; i < simulate->mappings.count; i++)
        if (weir_access_reader_map(simulate->reader, simulate->mappings.items[i], &error)
            != WEIR_OK)
            return weir_tool_misused(&usage, "--map: %s", error.text);
    return WEIR_TOOL_FINE;
}

static int read_log(struct simulate *simulate, const char *name)
{
    struct weir_error error = WEIR_NO_ERROR;
    bool is_input = strcmp(name, "-") == 0;
    FILE *stream = is_input ? stdin : fopen(name, "rb");
    if (stream == NULL) {
        weir_tool_complain("%s: %s.", name, strerror(errno));
        return WEIR_TOOL_FOUND;
    }
    enum weir_code code = weir_lines_read(simulate->lines, simulate->reader, stream, name, &error);
    if (!is_input)
        fclose(stream);
    if (code == WEIR_OK)
        return WEIR_TOOL_FINE;
    weir_tool_complain_of(&error, name);
    return WEIR_TOOL_FOUND;
}

/* A log without requests has no span of time, either. */
static int refuse_empty(struct simulate *simulate)
{
    const struct weir_lines_state *lines = simulate->simulated.lines;
    note_lines(&simulate->simulated);
    weir_tool_complain("There is no request to simulate: %s.",
                       lines->lines == 0     ? "the log is empty"
                       : lines->outside == 0 ? "no line of the log is one"
                                             : "none is between --from and --to");
    for (size_t i = 0; i < simulate->simulated.note_count; i++)
        weir_tool_complain("%s", simulate->simulated.notes[i]);
    return WEIR_TOOL_FOUND;
}

static int read_logs(struct simulate *simulate, const struct weir_tool_arguments *logs)
{
    int status = open_reader(simulate);
    for (size_t i = 0; status == WEIR_TOOL_FINE && i < logs->count; i++)
        status = read_log(simulate, logs->at[i]);
    if (status != WEIR_TOOL_FINE)
        return status;
    simulate->log_count = logs->count;
    simulate->simulated.lines = weir_lines_state(simulate->lines);
    weir_lines_order(simulate->lines, simulate->spreads);
    return simulate->simulated.lines->count == 0 ? refuse_empty(simulate) : WEIR_TOOL_FINE;
}

/* replaying */

static void put_member(struct weir_buffer *line, const char *name, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return;
    weir_buffer_put_string(line, ",\"");
    weir_buffer_put_string(line, name);
    weir_buffer_put_string(line, "\":\"");
    weir_buffer_put_json(line, weir_text_from(value));
    weir_buffer_put_string(line, "\"");
}

static void put_number(struct weir_buffer *line, const char *name, uint64_t number)
{
    weir_buffer_put_string(line, name);
    weir_buffer_put_number(line, number);
}

static void write_decision(const struct simulate *simulate, const struct weir_access_entry *entry,
                           const struct weir_line_place *place,
                           const struct weir_replayed *replayed)
{
    char memory[4096];
    struct weir_buffer line = weir_buffer_init(memory, sizeof memory);
    put_number(&line, "{\"line\":", place->line);
    if (simulate->log_count > 1)
        put_member(&line, "log", place->log);
    put_number(&line, ",\"time_us\":", entry->time_us);
    put_member(&line, "outcome", weir_outcome_name(replayed->outcome));
    if (replayed->would != replayed->outcome)
        put_member(&line, "would", weir_outcome_name(replayed->would));
    put_member(&line, "policy", replayed->policy);
    put_member(&line, "limit", replayed->limit);
    put_member(&line, "key", replayed->key);
    put_member(&line, "client", replayed->client);
    if (replayed->retry_s > 0)
        put_number(&line, ",\"retry_s\":", replayed->retry_s);
    weir_buffer_put_string(&line, "}\n");
    fwrite(line.at, 1, line.length, simulate->stream);
}

static int replay_all(struct simulate *simulate)
{
    size_t count = simulate->simulated.lines->count;
    struct weir_progress progress = weir_progress_begin("simulating", count);
    struct weir_access_entry entry;
    struct weir_line_place place;
    struct weir_replayed replayed;
    bool is_done = true;
    for (size_t i = 0; is_done && i < count; i++) {
        weir_lines_get(simulate->lines, i, &entry, &place);
        is_done = weir_replay_request(simulate->replay, &entry, &replayed)
                  && weir_tally_add(simulate->tally, entry.time_us, entry.status, &replayed);
        if (is_done && simulate->stream != NULL)
            write_decision(simulate, &entry, &place, &replayed);
        weir_progress_step(&progress, i);
    }
    weir_progress_end(&progress);
    return is_done ? WEIR_TOOL_FINE : weir_tool_out_of_memory();
}

static int close_decisions(struct simulate *simulate)
{
    if (simulate->stream == NULL)
        return WEIR_TOOL_FINE;
    bool is_written = ferror(simulate->stream) == 0;
    is_written = fclose(simulate->stream) == 0 && is_written;
    simulate->stream = NULL;
    if (is_written)
        return WEIR_TOOL_FINE;
    weir_tool_complain("%s cannot be written in full.", simulate->decisions);
    return WEIR_TOOL_FOUND;
}

/* What the file says that is left out. */
static void look_at_policy(struct simulate *simulate)
{
    const struct weir_policy *policy = simulate->policy;
    for (size_t i = 0; i < policy->ruleset_count; i++) {
        simulate->counts_at_once |= policy->rulesets[i].concurrency != NULL;
        simulate->knows_devices |= policy->rulesets[i].known != NULL;
    }
}

static int open_replay(struct simulate *simulate)
{
    const struct weir_lines_state *lines = simulate->simulated.lines;
    struct weir_error error = WEIR_NO_ERROR;
    look_at_policy(simulate);
    weir_replay_prepare(simulate->policy, simulate->enforces, simulate->admits);
    if (weir_replay_new(simulate->policy, lines->count, &simulate->replay, &error) != WEIR_OK) {
        weir_tool_complain_of(&error, simulate->file);
        return WEIR_TOOL_FOUND;
    }
    simulate->tally = weir_tally_new(simulate->policy, lines->first_us, lines->last_us);
    simulate->simulated.tally = simulate->tally;
    if (simulate->tally == NULL)
        return weir_tool_out_of_memory();
    if (simulate->decisions == NULL)
        return WEIR_TOOL_FINE;
    simulate->stream = fopen(simulate->decisions, "wb");
    if (simulate->stream != NULL)
        return WEIR_TOOL_FINE;
    weir_tool_complain("%s: %s.", simulate->decisions, strerror(errno));
    return WEIR_TOOL_FOUND;
}

static int show(struct simulate *simulate)
{
    struct weir_simulated *simulated = &simulate->simulated;
    simulated->file = simulate->file;
    simulated->top = (size_t)simulate->top;
    note_lines(simulated);
    note_times(simulate, simulated);
    note_unknown(simulate, simulated);
    note_unmet(simulated);
    int status =
        simulate->is_json ? weir_simulate_print_json(simulated) : weir_simulate_print(simulated);
    bool is_refused = simulate->tally->all.refused > 0;
    return status == WEIR_TOOL_FINE && simulate->is_checked && is_refused ? WEIR_TOOL_FOUND
                                                                          : status;
}

static int simulate_all(struct simulate *simulate, const struct weir_tool_arguments *logs)
{
    simulate->policy = weir_tool_load(simulate->file);
    if (simulate->policy == NULL)
        return WEIR_TOOL_FOUND;
    int status = read_logs(simulate, logs);
    if (status == WEIR_TOOL_FINE)
        status = open_replay(simulate);
    if (status == WEIR_TOOL_FINE)
        status = replay_all(simulate);
    int written = close_decisions(simulate);
    if (status == WEIR_TOOL_FINE)
        status = written;
    return status == WEIR_TOOL_FINE ? show(simulate) : status;
}

int weir_tool_simulate(int count, char **arguments)
{
    struct simulate simulate = { .top = 10 };
    struct weir_tool_arguments logs;
    int status;
    if (!weir_tool_read(&usage, count, arguments, &simulate, &logs, &status))
        return status;
    if (simulate.file == NULL)
        return weir_tool_misused(&usage, "There is no --policy FILE.");
    status = simulate_all(&simulate, &logs);
    weir_tally_free(simulate.tally);
    weir_replay_free(simulate.replay);
    weir_policy_free(simulate.policy);
    weir_lines_free(simulate.lines);
    weir_access_reader_free(simulate.reader);
    return status;
}
