/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/command_line.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launcher.h"
#include "sparkring.h"

#define USAGE                                                                                      \
  "usage: sparkring-run -n SIZE [--timeout SECONDS] [--ports FIRST-LAST] [--encryption]"           \
  " [--timeline DIR] [--] command ...\n       sparkring-run --version\n"

static const char help[] = USAGE
    "\n"
    "Start the ranks of a sparkring job on this machine.\n\n"
    "  -n, --size SIZE      number of ranks\n"
    "  --timeout SECONDS    time limit of the rendezvous of all ranks\n"
    "  --ports FIRST-LAST   ports to listen on\n"
    "  --encryption         encrypt what the ranks send through sockets\n"
    "  --timeline DIR       directory for the timelines of the ranks\n"
    "  -h, --help           print this text\n"
    "  --version            print the version of sparkring\n\n"
    "Each line of output begins with the rank, as in '[2] epoch 1'. When a rank fails, the other\n"
    "ranks are ended, and the exit code is that of the failed rank (128 + number for a signal).\n"
    "Rank 0 has the standard input. Signals are passed on to all ranks.\n";

enum { TIMEOUT = 256, PORTS, ENCRYPTION, TIMELINE, VERSION, VARIABLES = 5, RUN = -1, INVALID = 2 };

static const struct option command_line_options[] = {
    {"size", required_argument, NULL, 'n'},          {"timeout", required_argument, NULL, TIMEOUT},
    {"ports", required_argument, NULL, PORTS},       {"encryption", no_argument, NULL, ENCRYPTION},
    {"timeline", required_argument, NULL, TIMELINE}, {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, VERSION},         {NULL, 0, NULL, 0},
};

typedef struct command_line {
  int size;
  char *variables[VARIABLES]; /* "NAME=value" by option, one of each; ends with NULL */
  int options[VARIABLES];     /* that have set them */
} command_line;

/* Returns INVALID. */
static int command_line_refuse(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  dprintf(2, USAGE "sparkring-run: error: ");
  vdprintf(2, format, arguments);
  dprintf(2, "\n");
  va_end(arguments);
  return INVALID;
}

static int command_line_fail(void) {
  dprintf(2, "sparkring-run: cannot run the job: %s\n", strerror(errno));
  return 1;
}

/* Keeps a variable of the ranks, in place of that of an earlier option of the same kind. RUN, or an exit code. */
static int command_line_set(command_line *line, int option, const char *name, const char *folder,
                            const char *value) {
  size_t length = strlen(name) + strlen(folder) + strlen(value) + 3;
  int place = 0;
  while (line->options[place] != 0 && line->options[place] != option) place++;
  free(line->variables[place]);
  line->variables[place] = malloc(length);
  line->options[place] = option;
  if (line->variables[place] == NULL) return command_line_fail();
  snprintf(line->variables[place], length, "%s=%s%s%s", name, folder, *folder ? "/" : "", value);
  return RUN;
}

/* The directory may be relative to that of this process. */
static int command_line_set_timeline(command_line *line, const char *directory) {
  char folder[PATH_MAX] = "";
  if (directory[0] != '/' && getcwd(folder, sizeof folder) == NULL) return command_line_fail();
  return command_line_set(line, TIMELINE, "SPARKRING_TIMELINE", folder, directory);
}

static int command_line_set_size(command_line *line, const char *text) {
  long size = strlen(text) < 10 ? strtol(text, NULL, 10) : 0;
  if (size < 1 || text[strspn(text, "0123456789")] != '\0')
    return command_line_refuse("argument -n/--size: '%s' is not 1 or more", text);
  line->size = (int)size;
  return RUN;
}

/* Takes an option of getopt_long(), which the word `word` has begun. RUN, or an exit code. */
static int command_line_take(command_line *line, int option, const char *word) {
  switch (option) {
  case 'n':
    return command_line_set_size(line, optarg);
  case TIMEOUT:
    return command_line_set(line, option, "SPARKRING_TIMEOUT", "", optarg);
  case PORTS:
    return command_line_set(line, option, "SPARKRING_PORTS", "", optarg);
  case ENCRYPTION:
    return command_line_set(line, option, "SPARKRING_ENCRYPTION", "", "1");
  case TIMELINE:
    return command_line_set_timeline(line, optarg);
  case 'h':
    return write(1, help, sizeof help - 1) < 0 ? 1 : 0;
  case VERSION:
    dprintf(1, "sparkring %s\n", RING_VERSION);
    return 0;
  case ':':
    return command_line_refuse("argument %s: expected one argument", word);
  default:
    return command_line_refuse("unrecognized arguments: %s", word);
  }
}

/* RUN, or an exit code. The command begins at words[optind]. */
static int command_line_read(command_line *line, int count, char **words, const char *example) {
  int option, result = RUN;
  optind = 1;
  opterr = 0;
  for (int word = 1; result == RUN; word = optind) {
    option = getopt_long(count, words, "+:n:h", command_line_options, NULL);
    if (option == -1) break;
    result = command_line_take(line, option, words[word]);
  }
  if (result != RUN) return result;
  if (line->size == 0)
    return command_line_refuse("the following arguments are required: -n/--size");
  if (optind < count) return RUN;
  return command_line_refuse("the command is missing, as in: sparkring-run -n 4 %s", example);
}

int ring_command_line(int count, char **words, const char *example) {
  command_line line = {0};
  int code = command_line_read(&line, count, words, example);
  if (code == RUN) {
    ring_job job = {.command = words + optind,
                    .variables = line.variables,
                    .size = line.size,
                    .input = true,
                    .outputs = {1, 2}};
    code = ring_launcher_run(&job);
  }
  for (int i = 0; i < VARIABLES; i++) free(line.variables[i]);
  return code;
}
