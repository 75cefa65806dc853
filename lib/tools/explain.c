/* weir explain: why a described request would be answered as it would, by a policy file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/explain.h"
#include "policy/policy.h"
#include "tools/tool.h"

#define LINES_MAX   128
#define REQUEST_MAX (1024 * 1024)

struct explain {
    const char *file, *store;
    const char *request;
    const char *method, *path, *peer;
    const char *user, *tenant, *plan;
    struct weir_tool_list headers, fields;
    uint64_t cost;
    bool is_live, is_json, is_checked;

    char *text; /* of the request's file */
    struct weir_line lines[LINES_MAX];
    struct weir_line values[WEIR_TOOL_LIST_MAX];
    struct weir_described described;
};

static const struct weir_tool_option options[] = {
    { .name = "policy",
      .value = "FILE",
      .help = "the policy file",
      WEIR_TOOL_INTO(struct explain, file) },
    { .name = "method",
      .value = "METHOD",
      .help = "of the request (GET)",
      WEIR_TOOL_INTO(struct explain, method) },
    { .name = "path",
      .value = "PATH",
      .help = "of the request, as a client writes it: \"/v1/search?q=gate\"",
      WEIR_TOOL_INTO(struct explain, path) },
    { .name = "peer",
      .value = "ADDRESS",
      .help = "the other end of its connection, a proxy or the client itself; \"unix\"\n"
              "for a Unix socket (127.0.0.1)",
      WEIR_TOOL_INTO(struct explain, peer) },
    { .name = "header",
      .value = "NAME:VALUE",
      .help = "a header line; may be given several times, in their order",
      WEIR_TOOL_INTO(struct explain, headers) },
    { .name = "field",
      .value = "NAME=VALUE",
      .help = "a field of its body; may be given several times",
      WEIR_TOOL_INTO(struct explain, fields) },
    { .name = "user",
      .value = "USER",
      .help = "the user whom the application's own authentication finds",
      WEIR_TOOL_INTO(struct explain, user) },
    { .name = "tenant",
      .value = "TENANT",
      .help = "likewise the tenant",
      WEIR_TOOL_INTO(struct explain, tenant) },
    { .name = "plan",
      .value = "PLAN",
      .help = "likewise the plan",
      WEIR_TOOL_INTO(struct explain, plan) },
    { .name = "cost",
      .value = "UNITS",
      .help = "what it costs, in place of what its route says",
      .most = WEIR_UNITS_MAX,
      WEIR_TOOL_INTO(struct explain, cost) },
    { .name = "request",
      .value = "FILE",
      .help = "read the request from a file, as it is sent; \"-\" is standard input",
      WEIR_TOOL_INTO(struct explain, request) },
    { .name = "live",
      .help = "ask the file's store what has been spent; nothing is spent by that",
      WEIR_TOOL_INTO(struct explain, is_live) },
    { .name = "store",
      .value = "URL",
      .help = "ask this store, and not the file's",
      WEIR_TOOL_INTO(struct explain, store) },
    { .name = "exit-code",
      .help = "end with 1 where the request would be refused",
      WEIR_TOOL_INTO(struct explain, is_checked) },
    { .name = "json",
      .help = "print the explanation as JSON",
      WEIR_TOOL_INTO(struct explain, is_json) },
};

static const struct weir_tool_usage usage = {
    .name = "explain",
    .arguments = "",
    .summary =
        "Walks a request through a policy file as a server would, and says at each step what was "
        "found: the client's address through its proxies, who asks, the route, the limits with "
        "what is left of them, the answer and its headers. Spends nothing. Without --live it is "
        "as if nothing had been spent before.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .more =
        "weir explain --policy policy.json --path /v1/search?q=gate --peer 10.0.0.1 \\\n"
        "    --header 'X-Forwarded-For: 203.0.113.7' --header 'X-API-Key: …' --live\n"
        "\n"
        "API keys that are given do not appear in the output; their public ids do.\n"
        "\n"
        "Exit status: 0 it was explained; 1 it could not be, or, with --exit-code, the request\n"
        "would be refused; 2 the command line means nothing.",
};

/* the request */

/* Splits "NAME: VALUE"; false: there is no separator. */
static bool split(const char *item, char separator, struct weir_line *line)
{
    struct weir_text rest = weir_text_from(item);
    if (!weir_text_take_first(&rest, separator, &line->name) || rest.at == NULL
        || line->name.length == 0)
        return false;
    line->value = rest;
    return true;
}

/* The whole stream, ended by a NUL; NULL: it is too long, cannot be read, or memory ran out. */
static char *read_all(FILE *stream, size_t *length)
{
    char *text = malloc(REQUEST_MAX + 1);
    if (text == NULL)
        return NULL;
    *length = fread(text, 1, REQUEST_MAX + 1, stream);
    if (ferror(stream) == 0 && *length <= REQUEST_MAX) {
        text[*length] = '\0';
        return text;
    }
    errno = ferror(stream) != 0 ? errno : EFBIG;
    free(text);
    return NULL;
}

static int read_request(struct explain *explain)
{
    if (explain->request == NULL)
        return WEIR_TOOL_FINE;
    struct weir_error error = WEIR_NO_ERROR;
    bool is_input = strcmp(explain->request, "-") == 0;
    FILE *stream = is_input ? stdin : fopen(explain->request, "rb");
    size_t length = 0;
    if (stream != NULL)
        explain->text = read_all(stream, &length);
    if (explain->text == NULL)
        weir_tool_complain("%s: %s.", explain->request, strerror(errno));
    if (stream != NULL && !is_input)
        fclose(stream);
    if (explain->text == NULL)
        return WEIR_TOOL_FOUND;
    const struct weir_text text = { explain->text, length };
    if (weir_described_read(text, explain->lines, LINES_MAX, &explain->described, &error)
        == WEIR_OK)
        return WEIR_TOOL_FINE;
    weir_tool_complain_of(&error, explain->request);
    return WEIR_TOOL_FOUND;
}

static int add_headers(struct explain *explain)
{
    struct weir_described *described = &explain->described;
    described->headers = explain->lines;
    for (size_t i = 0; i < explain->headers.count; i++) {
        struct weir_line *line = &explain->lines[described->header_count];
        if (described->header_count == LINES_MAX)
            return weir_tool_misused(&usage, "There are more than %d header lines.", LINES_MAX);
        if (!split(explain->headers.items[i], ':', line))
            return weir_tool_misused(&usage, "--header is \"%.60s\"; wanted is NAME:VALUE.",
                                     explain->headers.items[i]);
        line->value = weir_text_trim(line->value);
        described->header_count++;
    }
    return WEIR_TOOL_FINE;
}

static int add_fields(struct explain *explain)
{
    for (size_t i = 0; i < explain->fields.count; i++)
        if (!split(explain->fields.items[i], '=', &explain->values[i]))
            return weir_tool_misused(&usage, "--field is \"%.60s\"; wanted is NAME=VALUE.",
                                     explain->fields.items[i]);
    explain->described.fields = explain->values;
    explain->described.field_count = explain->fields.count;
    return WEIR_TOOL_FINE;
}

static void set_text(struct weir_text *text, const char *given)
{
    if (given != NULL)
        *text = weir_text_from(given);
}

static int describe(struct explain *explain)
{
    struct weir_described *described = &explain->described;
    int status = read_request(explain);
    if (status == WEIR_TOOL_FINE)
        status = add_headers(explain);
    if (status == WEIR_TOOL_FINE)
        status = add_fields(explain);
    set_text(&described->method, explain->method);
    set_text(&described->target, explain->path);
    set_text(&described->user, explain->user);
    set_text(&described->tenant, explain->tenant);
    set_text(&described->plan, explain->plan);
    described->peer = explain->peer;
    described->has_cost = explain->cost != UINT64_MAX;
    described->cost = explain->cost;
    described->is_empty = !explain->is_live;
    return status;
}

/* explaining */

static bool would_be_refused(const json_t *explanation)
{
    return json_object_get(json_object_get(explanation, "verdict"), "status") != NULL;
}

static int show(const struct explain *explain, json_t *explanation)
{
    bool is_refused = would_be_refused(explanation);
    int status = WEIR_TOOL_FINE;
    if (explain->is_json) {
        status = weir_tool_print_json(explanation);
    } else {
        weir_explain_print(explanation, stdout);
        json_decref(explanation);
    }
    return status == WEIR_TOOL_FINE && explain->is_checked && is_refused ? WEIR_TOOL_FOUND : status;
}

static int explain_by(const struct explain *explain, struct weir_limiter *limiter)
{
    struct weir_error error = WEIR_NO_ERROR;
    json_t *explanation = weir_explain(limiter, &explain->described, &error);
    if (explanation != NULL)
        return show(explain, explanation);
    weir_tool_complain_of(&error, NULL);
    return WEIR_TOOL_FOUND;
}

/* A store that is not to be asked is one in this process, whatever the file names. */
static int explain_with(const struct explain *explain, const struct weir_policy *policy)
{
    const char *url = explain->is_live ? explain->store : "memory:";
    if (explain->is_live && !weir_tool_may_ask(url == NULL ? policy->store_url : url))
        return WEIR_TOOL_FOUND;
    struct weir_store *store = weir_tool_open_store(policy, url, explain->file);
    if (store == NULL)
        return WEIR_TOOL_FOUND;
    struct weir_limiter *limiter = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    int status = WEIR_TOOL_FOUND;
    if (weir_limiter_new(WEIR_LIMITER_OPTIONS(.policy = policy, .store = store), &limiter, &error)
        == WEIR_OK)
        status = explain_by(explain, limiter);
    else
        weir_tool_complain_of(&error, explain->file);
    weir_limiter_free(limiter);
    weir_store_free(store);
    return status;
}

static int explain_all(struct explain *explain)
{
    struct weir_policy *policy = weir_tool_load(explain->file);
    if (policy == NULL)
        return WEIR_TOOL_FOUND;
    int status = describe(explain);
    if (status == WEIR_TOOL_FINE)
        status = explain_with(explain, policy);
    weir_policy_free(policy);
    free(explain->text);
    return status;
}

int weir_tool_explain(int count, char **arguments)
{
    struct explain explain = { .cost = UINT64_MAX };
    struct weir_tool_arguments operands;
    int status;
    if (!weir_tool_read(&usage, count, arguments, &explain, &operands, &status))
        return status;
    if (explain.file == NULL)
        return weir_tool_misused(&usage, "There is no --policy FILE.");
    if (explain.path == NULL && explain.request == NULL)
        return weir_tool_misused(&usage, "There is no --path PATH, and no --request FILE.");
    if (explain.store != NULL && !explain.is_live)
        return weir_tool_misused(&usage, "--store goes with --live.");
    return explain_all(&explain);
}
