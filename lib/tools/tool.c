#include "tools/tool.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "policy/policy.h"

#define LINE_BYTES  1024
#define MEANT_BYTES 128
#define NAMES_MAX   64
#define TIMEOUT_MS  2000 /* people wait so long before they think that it hangs */
#define HELP_COLUMN 22
#define WIDTH       92

/* texts of others */

void weir_tool_make_harmless(char *text)
{
    struct weir_text rest = { text, strlen(text) };
    char *to = text;
    while (rest.length > 0) {
        size_t length = weir_utf8_length(rest);
        bool is_bad = length == 0 || weir_is_control(rest.at, length);
        length = length == 0 ? 1 : length;
        if (is_bad) {
            *to++ = '?';
        } else {
            memmove(to, rest.at, length);
            to += length;
        }
        rest.at += length;
        rest.length -= length;
    }
    *to = '\0';
}

/* New lines are of the format, and no text has one. */
void weir_tool_print(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    size_t length = strlen(line);
    bool has_end = length > 0 && line[length - 1] == '\n';
    line[has_end ? length - 1 : length] = '\0';
    weir_tool_make_harmless(line);
    printf("%s%s", line, has_end ? "\n" : "");
}

json_t *weir_tool_json_text(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value == NULL ? strdup(text) : NULL;
    if (copy == NULL)
        return value;
    weir_tool_make_harmless(copy);
    value = json_string(copy);
    free(copy);
    return value;
}

/* messages */

void weir_tool_complain(const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    weir_tool_make_harmless(line);
    fflush(stdout); /* so that both come in their order where they go to one place */
    fprintf(stderr, "weir: %s\n", line);
}

void weir_tool_complain_of(const struct weir_error *error, const char *file)
{
    char line[LINE_BYTES];
    weir_tool_complain("%s", weir_error_line(error, file, line, sizeof line));
}

void weir_tool_complain_of_store(const struct weir_error *error, struct weir_limiter *limiter)
{
    struct weir_store_state state;
    weir_limiter_state(limiter, &state);
    bool knows_why = !state.answering && state.why[0] != '\0';
    /* Once is enough. */
    if (!knows_why || strstr(error->text, state.why) == NULL)
        weir_tool_complain_of(error, NULL);
    if (knows_why)
        weir_tool_complain("The store, %s at %s, does not answer: %s.", state.name,
                           state.server[0] == '\0' ? "no known place" : state.server, state.why);
}

int weir_tool_misused(const struct weir_tool_usage *usage, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    weir_tool_complain("%s: %s \"weir %s --help\" says what can be.", usage->name, line,
                       usage->name);
    return WEIR_TOOL_MISUSED;
}

const char *weir_tool_did_you_mean(const char *word, const char *prefix, const char *const *known,
                                   size_t count, char *text, size_t size)
{
    const char *meant = weir_suggest(weir_text_from(word), known, count);
    text[0] = '\0';
    if (meant != NULL)
        snprintf(text, size, "; did you mean \"%s%s\"?", prefix, meant);
    return text;
}

int weir_tool_out_of_memory(void)
{
    weir_tool_complain("Out of memory.");
    return WEIR_TOOL_FOUND;
}

/* help */

/* Prints `text` with its lines broken at blanks; each but the first one starts with `indent` spaces. */
static void print_wrapped(const char *text, size_t column, size_t indent, FILE *out)
{
    while (*text != '\0') {
        size_t word = strcspn(text, " \n");
        if (column > indent && column + 1 + word > WIDTH)
            column = 0;
        if (column == 0)
            fprintf(out, "\n%*s", (int)indent, "");
        else if (column > indent)
            fputc(' ', out);
        column = column == 0 ? indent : column > indent ? column + 1 : column;
        fwrite(text, 1, word, out);
        column += word;
        text += word;
        if (*text == '\n')
            column = 0;
        text += *text != '\0';
    }
    fputc('\n', out);
}

static void print_option(const char *name, const char *value, const char *help, FILE *out)
{
    int length =
        fprintf(out, "  --%s%s%s", name, value == NULL ? "" : " ", value == NULL ? "" : value);
    size_t column = length < 0 ? 0 : (size_t)length;
    if (column + 2 > HELP_COLUMN)
        column = 0;
    else
        column += (size_t)fprintf(out, "%*s", (int)(HELP_COLUMN - column), "");
    print_wrapped(help, column, HELP_COLUMN, out);
}

void weir_tool_print_help(const struct weir_tool_usage *usage, FILE *out)
{
    fprintf(out, "usage: weir %s %s%s%s\n", usage->name, "[OPTION…]",
            usage->arguments[0] == '\0' ? "" : " ", usage->arguments);
    print_wrapped(usage->summary, 0, 0, out);
    fputc('\n', out);
    for (size_t i = 0; i < usage->option_count; i++)
        print_option(usage->options[i].name, usage->options[i].value, usage->options[i].help, out);
    print_option("help", NULL, "print this, and end", out);
    if (usage->more != NULL)
        fprintf(out, "\n%s\n", usage->more);
}

/* reading options */

struct reading {
    const struct weir_tool_usage *usage;
    char **arguments;
    int count;
    int next;
    int kept; /* arguments that are no options, moved to the front */
    void *given;
    bool wants_help;
};

static bool refuse_unknown(const struct reading *reading, const char *name)
{
    const char *names[NAMES_MAX] = { "help" };
    char meant[MEANT_BYTES];
    size_t count = 1;
    for (size_t i = 0; i < reading->usage->option_count && count < NAMES_MAX; i++)
        names[count++] = reading->usage->options[i].name;
    weir_tool_did_you_mean(name, "--", names, count, meant, sizeof meant);
    weir_tool_misused(reading->usage, "There is no option \"--%.60s\"%s", name,
                      meant[0] == '\0' ? "." : meant);
    return false;
}

static const struct weir_tool_option *find(const struct weir_tool_usage *usage,
                                           struct weir_text name)
{
    for (size_t i = 0; i < usage->option_count; i++)
        if (weir_text_equal(name, weir_text_from(usage->options[i].name)))
            return &usage->options[i];
    return NULL;
}

static bool take_number(const struct reading *reading, const struct weir_tool_option *option,
                        const char *value, uint64_t *number)
{
    uint64_t read = 0;
    if (weir_text_to_number(weir_text_from(value), &read) && read >= option->least
        && read <= option->most) {
        *number = read;
        return true;
    }
    weir_tool_misused(reading->usage, "--%s is \"%.60s\"; wanted is a number from %llu to %llu.",
                      option->name, value, (unsigned long long)option->least,
                      (unsigned long long)option->most);
    return false;
}

static bool take_item(const struct reading *reading, const struct weir_tool_option *option,
                      const char *value, struct weir_tool_list *list)
{
    if (list->count == WEIR_TOOL_LIST_MAX) {
        weir_tool_misused(reading->usage, "There are more than %d of --%s.", WEIR_TOOL_LIST_MAX,
                          option->name);
        return false;
    }
    list->items[list->count++] = value;
    return true;
}

static bool store_value(const struct reading *reading, const struct weir_tool_option *option,
                        const char *value)
{
    void *member = (char *)reading->given + option->offset;
    switch (option->kind) {
    case WEIR_TOOL_FLAG:
        *(bool *)member = true;
        return true;
    case WEIR_TOOL_TEXT:
        *(const char **)member = value;
        return true;
    case WEIR_TOOL_NUMBER:
        return take_number(reading, option, value, member);
    case WEIR_TOOL_LIST:
        return take_item(reading, option, value, member);
    }
    return false;
}

/* The option's value: what stands behind its '=', else the next argument. */
static bool find_value(struct reading *reading, const struct weir_tool_option *option,
                       const char *behind, const char **value)
{
    bool is_flag = option->kind == WEIR_TOOL_FLAG;
    if (is_flag && behind != NULL) {
        weir_tool_misused(reading->usage, "--%s takes no value, but there is \"%.60s\".",
                          option->name, behind);
        return false;
    }
    *value = behind;
    if (is_flag || behind != NULL)
        return true;
    if (reading->next == reading->count) {
        weir_tool_misused(reading->usage, "Nothing follows --%s; wanted is %s.", option->name,
                          option->value);
        return false;
    }
    *value = reading->arguments[reading->next++];
    return true;
}

/* `text` is an option without its "--". */
static bool take_option(struct reading *reading, const char *text)
{
    struct weir_text rest = weir_text_from(text);
    struct weir_text name;
    weir_text_take_first(&rest, '=', &name);
    if (weir_text_equal(name, WEIR_TEXT("help"))) {
        reading->wants_help = true;
        return true;
    }
    const struct weir_tool_option *option = find(reading->usage, name);
    const char *value;
    if (option == NULL)
        return refuse_unknown(reading, text);
    return find_value(reading, option, rest.at, &value) && store_value(reading, option, value);
}

static bool take_argument(struct reading *reading)
{
    char *argument = reading->arguments[reading->next++];
    if (strcmp(argument, "-h") == 0) {
        reading->wants_help = true;
        return true;
    }
    if (strncmp(argument, "--", 2) == 0)
        return take_option(reading, argument + 2);
    if (argument[0] == '-' && argument[1] != '\0') {
        weir_tool_misused(reading->usage,
                          "There is no option \"%.60s\"; options start with \"--\".", argument);
        return false;
    }
    reading->arguments[reading->kept++] = argument;
    return true;
}

static bool take_all(struct reading *reading)
{
    while (reading->next < reading->count && !reading->wants_help) {
        if (strcmp(reading->arguments[reading->next], "--") == 0)
            break;
        if (!take_argument(reading))
            return false;
    }
    if (reading->next < reading->count)
        reading->next++;
    while (reading->next < reading->count)
        reading->arguments[reading->kept++] = reading->arguments[reading->next++];
    return true;
}

static bool check_count(const struct weir_tool_usage *usage,
                        const struct weir_tool_arguments *operands)
{
    if (operands->count >= usage->least && operands->count <= usage->most)
        return true;
    if (operands->count < usage->least)
        weir_tool_misused(usage, "Wanted is \"weir %s %s\".", usage->name, usage->arguments);
    else
        weir_tool_misused(usage, "There is \"%.60s\" too many.", operands->at[usage->most]);
    return false;
}

bool weir_tool_read(const struct weir_tool_usage *usage, int count, char **arguments, void *given,
                    struct weir_tool_arguments *operands, int *status)
{
    struct reading reading = {
        .usage = usage, .arguments = arguments, .count = count, .next = 1, .given = given
    };
    *status = WEIR_TOOL_MISUSED;
    if (!take_all(&reading))
        return false;
    if (reading.wants_help) {
        weir_tool_print_help(usage, stdout);
        *status = WEIR_TOOL_FINE;
        return false;
    }
    *operands = (struct weir_tool_arguments){ arguments, (size_t)reading.kept };
    return check_count(usage, operands);
}

/* output */

bool weir_tool_is_terminal(FILE *out)
{
    return isatty(fileno(out)) == 1;
}

bool weir_tool_has_colour(FILE *out)
{
    const char *unwanted = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return (unwanted == NULL || unwanted[0] == '\0') && terminal != NULL
           && strcmp(terminal, "dumb") != 0 && weir_tool_is_terminal(out);
}

const char *weir_tool_style(FILE *out, enum weir_tool_style style)
{
    static const char *const sequences[] = { [WEIR_TOOL_PLAIN] = "\033[0m",
                                             [WEIR_TOOL_BOLD] = "\033[1m",
                                             [WEIR_TOOL_RED] = "\033[31m",
                                             [WEIR_TOOL_YELLOW] = "\033[33m",
                                             [WEIR_TOOL_GREEN] = "\033[32m" };
    return weir_tool_has_colour(out) ? sequences[style] : "";
}

const char *weir_tool_time(uint64_t seconds, char text[WEIR_TOOL_TIME_CHARS])
{
    static const struct {
        const char *name;
        uint64_t seconds;
    } units[] = { { "d", 86400 }, { "h", 3600 }, { "min", 60 }, { "s", 1 } };
    size_t first = 0;
    while (first < 3 && seconds < units[first].seconds)
        first++;
    uint64_t rest = seconds % units[first].seconds;
    int length = snprintf(text, WEIR_TOOL_TIME_CHARS, "%llu %s",
                          (unsigned long long)(seconds / units[first].seconds), units[first].name);
    if (first < 3 && rest >= units[first + 1].seconds)
        snprintf(text + length, WEIR_TOOL_TIME_CHARS - (size_t)length, " %llu %s",
                 (unsigned long long)(rest / units[first + 1].seconds), units[first + 1].name);
    return text;
}

int weir_tool_print_json(json_t *value)
{
    char *text =
        value == NULL
            ? NULL
            : json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    json_decref(value);
    if (text == NULL)
        return weir_tool_out_of_memory();
    puts(text);
    free(text);
    return WEIR_TOOL_FINE;
}

/* the library */

struct weir_policy *weir_tool_load(const char *file)
{
    struct weir_policy *policy = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (weir_policy_load(file, &policy, &error) == WEIR_OK)
        return policy;
    weir_tool_complain_of(&error, file);
    return NULL;
}

struct weir_store_options weir_tool_store_options(const struct weir_policy *policy)
{
    uint32_t timeout_ms = policy->store_timeout_ms;
    return *WEIR_STORE_OPTIONS(.timeout_ms = timeout_ms > TIMEOUT_MS ? timeout_ms : TIMEOUT_MS,
                               .memory_bytes = policy->store_memory_bytes,
                               .connections = policy->store_connections,
                               .tls_ca_file = policy->store_tls.ca_file,
                               .tls_cert_file = policy->store_tls.cert_file,
                               .tls_key_file = policy->store_tls.key_file,
                               .tls_server_name = policy->store_tls.server_name);
}

/* The file's settings for TLS are for its own store; with a URL without TLS they are an error. */
static void drop_tls(struct weir_store_options *options)
{
    options->tls_ca_file = NULL;
    options->tls_cert_file = NULL;
    options->tls_key_file = NULL;
    options->tls_server_name = NULL;
}

bool weir_tool_may_ask(const char *url)
{
    if (strcmp(url, "memory:") != 0)
        return true;
    weir_tool_complain("The store is memory, which each server keeps to itself: ask its admin API "
                       "(docs/admin.md).");
    return false;
}

struct weir_store *weir_tool_open_store(const struct weir_policy *policy, const char *url,
                                        const char *file)
{
    struct weir_store_options options = weir_tool_store_options(policy);
    struct weir_store *store = NULL;
    struct weir_error error = WEIR_NO_ERROR;
    if (url != NULL && !weir_text_starts_with(weir_text_from(url), WEIR_TEXT("rediss")))
        drop_tls(&options);
    if (weir_store_open(url == NULL ? policy->store_url : url, &options, &store, &error) == WEIR_OK)
        return store;
    weir_tool_complain_of(&error, url == NULL ? file : "--store");
    return NULL;
}
