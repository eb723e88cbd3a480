/* SPDX-License-Identifier: Apache-2.0 */
#include "guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process_start.h"
#include "process_tree.h"

enum { CONTROL, OUTPUT, ERRORS, PMI = GUARDIAN_PMI, DESCRIPTORS };

/* Gives the descriptors of the job the lowest numbers, and closes all others. */
static void guardian_arrange(const guardian_job *job) {
  int given[DESCRIPTORS] = {[CONTROL] = job->control,
                            [OUTPUT] = job->outputs[0],
                            [ERRORS] = job->outputs[1],
                            [PMI] = job->pmi};
  for (int i = 0; i < DESCRIPTORS; i++) given[i] = fcntl(given[i], F_DUPFD, DESCRIPTORS);
  for (int i = 0; i < DESCRIPTORS; i++) dup2(given[i], i);
  process_start_close_from(DESCRIPTORS, -1);
}

/* Sends how the program ended. An R package must not call _exit(), so a signal ends the process. */
static _Noreturn void guardian_exit(guardian_end end) {
  while (write(CONTROL, &end, sizeof end) < 0 && errno == EINTR)
    continue; /* or the rank has ended */
  for (;;) raise(SIGKILL);
}

/* Runs in the child that becomes the program. */
static void guardian_prepare(const void *unused) {
  (void)unused;
  int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0) close(CONTROL);
  if (nothing >= 0) dup2(nothing, 0);
}

/* 0 or an errno. */
static int guardian_start(const guardian_job *job, pid_t *program) {
  process_start start = {.command = job->command,
                         .prepare = guardian_prepare,
                         .descriptors = DESCRIPTORS,
                         .mask = job->mask};
  for (char *const *entry = job->environment; *entry; entry++)
    if (strchr(*entry, '=') ? putenv(*entry) != 0 : unsetenv(*entry) != 0) return errno;
  if (job->directory && chdir(job->directory) != 0) return errno;
  return process_start_run(&start, program);
}

static void guardian_on_child(int number) {
  (void)number; /* ends pselect() */
}

/* Waits for the end of the program, and reaps orphans of its descendants. False: the rank ends the
 * program. */
static bool guardian_wait(pid_t program, int *status) {
  struct sigaction action = {.sa_handler = guardian_on_child};
  sigset_t waiting; /* SIGCHLD comes only while pselect() waits */
  sigaction(SIGCHLD, &action, NULL);
  sigfillset(&waiting);
  sigdelset(&waiting, SIGCHLD);
  for (;;) {
    fd_set control;
    pid_t ended;
    while ((ended = waitpid(-1, status, WNOHANG)) > 0)
      if (ended == program) return true;
    FD_ZERO(&control);
    FD_SET(CONTROL, &control);
    if (pselect(CONTROL + 1, &control, NULL, NULL, NULL, &waiting) > 0) return false;
  }
}

_Noreturn void guard(const guardian_job *job) {
  guardian_end end = {0};
  pid_t program = 0;
  setsid();
  process_tree_adopt(true);
  guardian_arrange(job);
  end.error = guardian_start(job, &program);
  if (end.error != 0) guardian_exit(end);
  close(GUARDIAN_PMI);
  bool ended = guardian_wait(program, &end.status);
  kill(-program, SIGKILL);
  process_tree_kill();
  if (!ended) end.status = SIGKILL;
  guardian_exit(end);
}
