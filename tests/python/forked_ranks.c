/* SPDX-License-Identifier: Apache-2.0
 *
 * The launcher of sparkring-run as a library for the zygote (zygote.py): ranks are forked, and call a function of Python
 * in place of execvp(). The zygote calls with Python's lock held.
 */
#define execvp forked_ranks_become
#include "launch.c"

void (*forked_ranks_main)(void); /* which does not return */

void PyOS_BeforeFork(void);
void PyOS_AfterFork_Child(void);
void PyOS_AfterFork_Parent(void);

int forked_ranks_launch(int count, char **words) {
  PyOS_BeforeFork();
  int code = ring_command_line(count, words, "rank");
  PyOS_AfterFork_Parent();
  return code;
}

/* Undoes what exec undoes: handlers of signals, and descriptors that close. */
int forked_ranks_become(const char *file, char *const words[]) {
  (void)file, (void)words;
  for (int number = 1; number < NSIG; number++) {
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN)
      signal(number, SIG_DFL);
  }
  process_start_close(3, INT_MAX);
  PyOS_AfterFork_Child();
  forked_ranks_main();
  errno = ENOEXEC;
  return -1;
}
