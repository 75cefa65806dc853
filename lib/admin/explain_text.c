/* An explanation for people: the steps in order, then what comes of them. */
#include <string.h>

#include "admin/explain.h"

/* What a client has sent must not move the cursor, or worse. */
static void put_text(FILE *stream, const char *text)
{
    struct weir_text rest = weir_text_from(text);
    while (rest.length > 0) {
        size_t length = weir_utf8_length(rest);
        bool is_harmless = length > 0 && !weir_is_control(rest.at, length);
        length = length == 0 ? 1 : length;
        fwrite(is_harmless ? rest.at : "?", is_harmless ? length : 1, 1, stream);
        rest.at += length;
        rest.length -= length;
    }
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text == NULL ? "" : text;
}

static bool has(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return value != NULL && !json_is_null(value);
}

static long long number_of(const json_t *object, const char *name)
{
    return (long long)json_integer_value(json_object_get(object, name));
}

static void put_label(FILE *stream, const char *label)
{
    fprintf(stream, "%-9s ", label);
}

/* the address */

static void put_hop(FILE *stream, const json_t *hop)
{
    const char *speaker = has(hop, "speaker") ? text_of(hop, "speaker") : "a Unix socket";
    put_label(stream, "");
    fputs(speaker, stream);
    fputs(json_is_true(json_object_get(hop, "trusted")) ? " is trusted" : " is not trusted",
          stream);
    if (has(hop, "said")) {
        fputs(", and says ", stream);
        put_text(stream, text_of(hop, "said"));
        if (!json_is_true(json_object_get(hop, "believed")))
            fputs(", which is no address there", stream);
    } else if (json_is_true(json_object_get(hop, "trusted"))) {
        fputs(", and says no more", stream);
    }
    fputc('\n', stream);
}

static void put_address(FILE *stream, const json_t *address)
{
    size_t index;
    const json_t *hop;
    if (address == NULL)
        return;
    put_label(stream, "address");
    if (has(address, "client"))
        fprintf(stream, "%s, counted as %s, from %s\n", text_of(address, "client"),
                text_of(address, "counted_as"), text_of(address, "from"));
    else
        fputs("none\n", stream);
    json_array_foreach(json_object_get(address, "hops"), index, hop) put_hop(stream, hop);
}

/* identity, lists, route */

static void put_identity(FILE *stream, const json_t *identity)
{
    static const char *const names[] = { "user", "tenant", "plan" };
    if (identity == NULL)
        return;
    put_label(stream, "identity");
    if (has(identity, "api_key"))
        fprintf(stream, "API key %s", text_of(identity, "api_key"));
    else if (json_is_true(json_object_get(identity, "api_key_unknown")))
        fputs("an unknown API key", stream);
    else
        fputs("no API key", stream);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (has(identity, names[i])) {
            fprintf(stream, ", %s ", names[i]);
            put_text(stream, text_of(identity, names[i]));
        }
    if (has(identity, "default_plan"))
        fprintf(stream, ", plan %s by default", text_of(identity, "default_plan"));
    fputc('\n', stream);
}

static void put_lists(FILE *stream, const json_t *lists)
{
    size_t index;
    const json_t *list;
    json_array_foreach(lists, index, list)
    {
        put_label(stream, index == 0 ? "lists" : "");
        fprintf(stream, "%s of %s: ", text_of(list, "says"), text_of(list, "of"));
        if (has(list, "names"))
            fprintf(stream, "names its %s\n", text_of(list, "names"));
        else
            fputs("does not name it\n", stream);
    }
}

static void put_route(FILE *stream, const json_t *route)
{
    size_t index;
    const json_t *tried;
    if (route == NULL)
        return;
    json_array_foreach(json_object_get(route, "tried"), index, tried)
    {
        put_label(stream, index == 0 ? "routes" : "");
        fprintf(stream, "%s: %s\n", text_of(tried, "match"),
                has(tried, "why_not") ? text_of(tried, "why_not") : "matches");
    }
    put_label(stream, "route");
    fprintf(stream, "%s: auth %s, policy %s, cost %lld\n", text_of(route, "match"),
            text_of(route, "auth"), has(route, "policy") ? text_of(route, "policy") : "none",
            number_of(route, "cost"));
}

/* limits */

static void put_policy(FILE *stream, const json_t *policy)
{
    if (!json_is_object(policy))
        return;
    double percent = json_number_value(json_object_get(policy, "enforce_percent"));
    put_label(stream, "policy");
    fprintf(stream, "%s, mode %s", text_of(policy, "name"), text_of(policy, "mode"));
    if (percent < 100)
        fprintf(stream, " for %g %% of clients", percent);
    if (strcmp(text_of(policy, "mode"), text_of(policy, "here")) != 0)
        fprintf(stream, ", here %s", text_of(policy, "here"));
    fprintf(stream, ", cost %lld\n", number_of(policy, "cost"));
}

static void put_time(FILE *stream, long long time_us)
{
    if (time_us >= 1000000)
        fprintf(stream, "%.1f s", (double)time_us / 1e6);
    else
        fprintf(stream, "%lld ms", (time_us + 999) / 1000);
}

static void put_block(FILE *stream, const json_t *limit)
{
    const json_t *block = json_object_get(limit, "block");
    if (has(limit, "banned"))
        fprintf(stream, ", banned by its penalty until %s", text_of(limit, "banned_until"));
    if (!has(limit, "blocked"))
        return;
    fprintf(stream, ", blocked until %s", text_of(limit, "blocked_until"));
    if (has(block, "by")) {
        fputs(" by ", stream);
        put_text(stream, text_of(block, "by"));
    }
    if (text_of(block, "reason")[0] != '\0') {
        fputs(" (", stream);
        put_text(stream, text_of(block, "reason"));
        fputc(')', stream);
    }
}

static void put_left(FILE *stream, const json_t *limit)
{
    if (!has(limit, "remaining"))
        return;
    fprintf(stream, ": %lld of %lld left", number_of(limit, "remaining"),
            number_of(limit, "quota"));
    if (number_of(limit, "reset_us") > 0) {
        fputs(", all in ", stream);
        put_time(stream, number_of(limit, "reset_us"));
    }
    put_block(stream, limit);
    if (json_is_true(json_object_get(limit, "passes"))) {
        fputs(", passes", stream);
        return;
    }
    fputs(", refuses", stream);
    bool is_exact = has(limit, "retry_us");
    if (!is_exact && !has(limit, "retry_most_us"))
        return;
    fputs(is_exact ? ", passes in " : ", passes within ", stream);
    put_time(stream, number_of(limit, is_exact ? "retry_us" : "retry_most_us"));
}

static void put_limit(FILE *stream, const json_t *limit)
{
    fprintf(stream, "%s, by %s: ", text_of(limit, "name"), text_of(limit, "by"));
    if (!json_is_true(json_object_get(limit, "applies"))) {
        fprintf(stream, "does not hold, %s\n", text_of(limit, "why_not"));
        return;
    }
    put_text(stream, text_of(limit, "key"));
    fprintf(stream, ", %s %s", text_of(limit, "algorithm"), text_of(limit, "rate"));
    if (has(limit, "burst"))
        fprintf(stream, " burst %lld", number_of(limit, "burst"));
    if (has(limit, "plan"))
        fprintf(stream, " (plan %s)", text_of(limit, "plan"));
    put_left(stream, limit);
    fputc('\n', stream);
}

static void put_limits(FILE *stream, const json_t *limits)
{
    size_t index;
    const json_t *limit;
    json_array_foreach(limits, index, limit)
    {
        put_label(stream, index == 0 ? "limits" : "");
        put_limit(stream, limit);
    }
}

/* Of a request that was refused it is not kept how many were under way: as many as there may be. */
static void put_group(FILE *stream, const json_t *concurrency)
{
    fprintf(stream, "back end %s, ", text_of(concurrency, "group"));
    if (has(concurrency, "group_under_way"))
        fprintf(stream, "%lld of %lld under way", number_of(concurrency, "group_under_way"),
                number_of(concurrency, "group_limit"));
    else
        fprintf(stream, "%lld requests", number_of(concurrency, "group_limit"));
}

static void put_concurrency(FILE *stream, const json_t *concurrency)
{
    if (concurrency == NULL)
        return;
    put_label(stream, "at once");
    if (has(concurrency, "at_once"))
        fprintf(stream, "%lld requests by %s%s", number_of(concurrency, "at_once"),
                text_of(concurrency, "by"), has(concurrency, "group") ? "; " : "");
    if (has(concurrency, "group"))
        put_group(stream, concurrency);
    fputs(has(concurrency, "passes") ? ": refuses\n" : " (not judged here)\n", stream);
}

/* the end */

static void put_answer(FILE *stream, const json_t *verdict)
{
    size_t index;
    const json_t *line;
    put_label(stream, "answer");
    if (has(verdict, "status"))
        fprintf(stream, "%lld, %s\n", number_of(verdict, "status"), text_of(verdict, "outcome"));
    else
        fprintf(stream, "the application's own, %s\n", text_of(verdict, "outcome"));
    json_array_foreach(json_object_get(verdict, "headers"), index, line)
    {
        put_label(stream, "");
        fprintf(stream, "%s: ", json_string_value(json_array_get(line, 0)));
        put_text(stream, json_string_value(json_array_get(line, 1)));
        fputc('\n', stream);
    }
}

static void put_hints(FILE *stream, const json_t *hints)
{
    size_t index;
    const json_t *hint;
    json_array_foreach(hints, index, hint)
    {
        fputs(index == 0 ? "\nLook at:\n  - " : "  - ", stream);
        put_text(stream, json_string_value(hint));
        fputc('\n', stream);
    }
}

static void put_state(FILE *stream, const json_t *state)
{
    if (state == NULL)
        return;
    put_label(stream, "state");
    if (json_is_true(json_object_get(state, "as_if_empty")))
        fputs("as if nothing had been spent\n", stream);
    else if (has(state, "failure"))
        fprintf(stream, "%s does not answer: %s\n", text_of(state, "store"),
                text_of(state, "failure"));
    else
        fprintf(stream, "as the store has it (%s)\n", text_of(state, "store"));
}

void weir_explain_print(const json_t *explanation, FILE *stream)
{
    const json_t *request = json_object_get(explanation, "request");
    put_label(stream, "request");
    put_text(stream, text_of(request, "method"));
    fputc(' ', stream);
    put_text(stream, has(request, "path") ? text_of(request, "path")
                                          : "(a path that cannot be normalised)");
    fputc('\n', stream);
    put_address(stream, json_object_get(explanation, "address"));
    put_identity(stream, json_object_get(explanation, "identity"));
    put_lists(stream, json_object_get(explanation, "lists"));
    put_route(stream, json_object_get(explanation, "route"));
    put_policy(stream, json_object_get(explanation, "policy"));
    put_limits(stream, json_object_get(explanation, "limits"));
    put_concurrency(stream, json_object_get(explanation, "concurrency"));
    put_state(stream, json_object_get(explanation, "state"));
    put_answer(stream, json_object_get(explanation, "verdict"));
    fputc('\n', stream);
    put_text(stream, text_of(explanation, "summary"));
    fputc('\n', stream);
    put_hints(stream, json_object_get(explanation, "hints"));
}
