/* weir: the program for those who operate a server with weir in it, and for the machines that check
 * its policy files. Each subcommand is a function in a file of its name. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <weir/version.h>

#include "tools/tool.h"

static const struct command {
    const char *name;
    const char *does;
    weir_tool_command *run;
} commands[] = {
    { "check", "say what is wrong with policy files, for people and for build machines",
      weir_tool_check },
    { "explain", "say what becomes of a request, and why", weir_tool_explain },
    { "simulate", "say whom a policy file would have refused of those in access logs",
      weir_tool_simulate },
    { "keys", "look at what clients have left, reset them, and block them", weir_tool_keys },
    { "bench", "measure how many decisions a second a policy file makes of its store",
      weir_tool_bench },
};

#define COMMANDS (sizeof commands / sizeof commands[0])

static void print_help(FILE *out)
{
    fputs("usage: weir COMMAND [OPTION…] [ARGUMENT…]\n"
          "\n"
          "Looks at the limits that servers with weir keep, and at the files that say what they "
          "are.\n"
          "\n",
          out);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].does);
    fputs("\n"
          "  --help     print this, and end; \"weir help COMMAND\" tells of one command\n"
          "  --version  print the version, and end\n"
          "\n"
          "Exit status: 0 all is well; 1 something is wrong, or could not be done; 2 the command "
          "line\n"
          "means nothing.\n",
          out);
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse(const char *name)
{
    const char *names[COMMANDS + 1] = { "help" };
    char meant[128];
    for (size_t i = 0; i < COMMANDS; i++)
        names[i + 1] = commands[i].name;
    weir_tool_did_you_mean(name, "weir ", names, COMMANDS + 1, meant, sizeof meant);
    weir_tool_complain("There is no %s \"%.60s\"%s \"weir --help\" lists the commands.",
                       name[0] == '-' ? "option" : "command", name, meant[0] == '\0' ? "." : meant);
    return WEIR_TOOL_MISUSED;
}

/* "weir help keys look" is "weir keys look --help". */
static int help(int count, char **arguments)
{
    static char option[] = "--help";
    if (count == 1) {
        print_help(stdout);
        return WEIR_TOOL_FINE;
    }
    const struct command *command = find(arguments[1]);
    if (command == NULL)
        return refuse(arguments[1]);
    /* The words move one place to the front, and the last one's is the option's. */
    for (int i = 1; i < count; i++)
        arguments[i - 1] = arguments[i];
    arguments[count - 1] = option;
    return command->run(count, arguments);
}

static int run(int count, char **arguments)
{
    if (count == 0) {
        print_help(stderr);
        return WEIR_TOOL_MISUSED;
    }
    const char *name = arguments[0];
    if (strcmp(name, "--version") == 0) {
        printf("weir %s\n", weir_version());
        return WEIR_TOOL_FINE;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(count, arguments);
    const struct command *command = find(name);
    return command == NULL ? refuse(name) : command->run(count, arguments);
}

/* A reader who has seen enough, as "head" has, is no fault. */
static bool is_closed_pipe(void)
{
    struct pollfd output = { .fd = STDOUT_FILENO, .events = POLLOUT };
    return poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

static int finish(int status)
{
    bool is_written = fflush(stdout) == 0 && ferror(stdout) == 0;
    if (is_written || is_closed_pipe())
        return status;
    weir_tool_complain("The output cannot be written in full.");
    return status == WEIR_TOOL_FINE ? WEIR_TOOL_FOUND : status;
}

int main(int count, char **arguments)
{
    signal(SIGPIPE,
           SIG_IGN); /* of a closed output finish() hears, and of a closed socket the store */
    return finish(count < 1 ? run(0, arguments) : run(count - 1, arguments + 1));
}
