/* SPDX-License-Identifier: Apache-2.0
 *
 * The command line of sparkring-run.
 */
#ifndef RING_LAUNCH_COMMAND_LINE_H
#define RING_LAUNCH_COMMAND_LINE_H

/* Runs what the words ask for: words[0] is the name of the program, and words[count] NULL. `example` is a command for
 * the error of a missing one. Returns the exit code: that of the job, 2 for words that are not valid, 0 for --help and
 * --version. */
int ring_command_line(int count, char **words, const char *example);

#endif
