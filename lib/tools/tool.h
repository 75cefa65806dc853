/* What the subcommands of the program `weir` share: options, messages, exit statuses, JSON. */
#ifndef WEIR_TOOLS_TOOL_H
#define WEIR_TOOLS_TOOL_H

#include <stdio.h>

#include <jansson.h>
#include <weir/limiter.h>
#include <weir/policy.h>
#include <weir/store.h>

/* How the program ends. */
enum weir_tool_status {
    WEIR_TOOL_FINE = 0,
    WEIR_TOOL_FOUND = 1,  /* errors were found, or what was asked for could not be done */
    WEIR_TOOL_MISUSED = 2 /* the command line means nothing                             */
};

/* options */

#define WEIR_TOOL_LIST_MAX 64

/* Where an option that may be given several times goes. */
struct weir_tool_list {
    const char *items[WEIR_TOOL_LIST_MAX];
    size_t count;
};

enum weir_tool_kind { WEIR_TOOL_FLAG, WEIR_TOOL_TEXT, WEIR_TOOL_NUMBER, WEIR_TOOL_LIST };

/* One option. It is read into a member of the subcommand's own struct, whose type says what it
 * takes: bool nothing, const char * a text, uint64_t a number, struct weir_tool_list a text each
 * time. */
struct weir_tool_option {
    const char *name;  /* without its "--"                                      */
    const char *value; /* what its value is, for the help: "FILE"; NULL: none   */
    const char *help;  /* what it is for; a new line at each '\n'               */
    enum weir_tool_kind kind;
    size_t offset;
    uint64_t least, most; /* of a number */
};

/* The last members of a weir_tool_option: WEIR_TOOL_INTO(struct given, member). */
#define WEIR_TOOL_INTO(type, member)                                                               \
    .kind = _Generic(((type *)0)->member, bool                                                     \
                     : WEIR_TOOL_FLAG, const char *                                                \
                     : WEIR_TOOL_TEXT, uint64_t                                                    \
                     : WEIR_TOOL_NUMBER, struct weir_tool_list                                     \
                     : WEIR_TOOL_LIST),                                                            \
    .offset = offsetof(type, member)

/* A subcommand's command line, from which it is read and its help is printed. The man page and the
 * completions say the same; a test compares them. */
struct weir_tool_usage {
    const char *name;      /* as it is typed behind "weir": "check", "keys look" */
    const char *arguments; /* what stands behind its options: "FILE…"; "": nothing */
    size_t least, most;    /* so many of these                                   */
    const char *summary;   /* what it does, in a few whole sentences             */
    const struct weir_tool_option *options; /* --help, which each has, is not among them */
    size_t option_count;
    const char *more; /* said below the options: examples, exit statuses; NULL: nothing */
};

/* What was given besides options. */
struct weir_tool_arguments {
    char **at;
    size_t count;
};

/* Reads a command line: `arguments[0]` is the subcommand's name. Options and arguments may be mixed,
 * "--name=value" is "--name value", and all behind "--" are arguments. `given` is the subcommand's
 * struct, with its defaults in it; `operands` is made of `arguments`, which is reordered.
 *
 * True: go on. False: end with `*status`, since help was asked for, or the line means nothing and
 * that has been said. */
bool weir_tool_read(const struct weir_tool_usage *usage, int count, char **arguments, void *given,
                    struct weir_tool_arguments *operands, int *status);

void weir_tool_print_help(const struct weir_tool_usage *usage, FILE *out);

/* A subcommand, in a file of its name; weir.c has the table. Returns an enum weir_tool_status. */
typedef int weir_tool_command(int count, char **arguments);

weir_tool_command weir_tool_check, weir_tool_explain, weir_tool_simulate, weir_tool_keys,
    weir_tool_bench;

/* texts of others */

/* Puts '?' in the place of what could steer a terminal, and of what is no UTF-8. */
void weir_tool_make_harmless(char *text);

/* Prints on standard output, with '?' in the place of what could steer a terminal. */
void weir_tool_print(const char *format, ...) WEIR_PRINTF(1, 2);

/* A text that may have been cut in the middle of a character, or is a name of a file: what is no
 * UTF-8 becomes '?'. NULL: memory ran out. */
json_t *weir_tool_json_text(const char *text);

/* messages, one line each on standard error, with "weir: " in front */

void weir_tool_complain(const char *format, ...) WEIR_PRINTF(1, 2);

/* An error of the library's, about a file or, at NULL, about nothing that has a name. */
void weir_tool_complain_of(const struct weir_error *error, const char *file);

/* The same of an error that a limiter's store is at the bottom of: with what the store knows of it. */
void weir_tool_complain_of_store(const struct weir_error *error, struct weir_limiter *limiter);

/* A line, and where to find out what is right. Returns WEIR_TOOL_MISUSED. */
int weir_tool_misused(const struct weir_tool_usage *usage, const char *format, ...)
    WEIR_PRINTF(2, 3);

/* "; did you mean \"--policy\"?" into `text`, with `prefix` in front of the name that is close; ""
 * where none is. Returns `text`. */
const char *weir_tool_did_you_mean(const char *word, const char *prefix, const char *const *known,
                                   size_t count, char *text, size_t size);

/* output */

enum weir_tool_style {
    WEIR_TOOL_PLAIN,
    WEIR_TOOL_BOLD,
    WEIR_TOOL_RED,
    WEIR_TOOL_YELLOW,
    WEIR_TOOL_GREEN
};

/* Whether a stream goes to a terminal, and takes colours: not where NO_COLOR is set and not empty,
 * nor on a terminal that is "dumb". */
bool weir_tool_is_terminal(FILE *out);
bool weir_tool_has_colour(FILE *out);

/* What turns a style on; "" where there are no colours. WEIR_TOOL_PLAIN turns all off. */
const char *weir_tool_style(FILE *out, enum weir_tool_style style);

/* "3 d 4 h", "2 min 5 s", "45 s": the two largest units that it takes. */
#define WEIR_TOOL_TIME_CHARS 32
const char *weir_tool_time(uint64_t seconds, char text[WEIR_TOOL_TIME_CHARS]);

/* Prints JSON with an indentation, and drops the reference, which may be NULL where memory has run
 * out: then that is said. Returns an enum weir_tool_status. */
int weir_tool_print_json(json_t *value);

/* Says that memory has run out. Returns WEIR_TOOL_FOUND. */
int weir_tool_out_of_memory(void);

/* the library */

/* Reads a policy file; says what is wrong with it and returns NULL. Its warnings are not said. */
struct weir_policy *weir_tool_load(const char *file);

/* The options of the policy's store for a program that connects, asks and ends: there is more time
 * for an answer than on a server, since connecting is part of it. */
struct weir_store_options weir_tool_store_options(const struct weir_policy *policy);

/* Whether a store of that URL can be asked what servers keep in it; says so if not. */
bool weir_tool_may_ask(const char *url);

/* Opens the policy's store, or the one of another `url` (NULL: none). Says what is wrong and returns
 * NULL. Nothing is connected yet. */
struct weir_store *weir_tool_open_store(const struct weir_policy *policy, const char *url,
                                        const char *file);

#endif
