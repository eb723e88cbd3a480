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
#ifdef __linux__
#include <sys/prctl.h>
#endif

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

/* Fails when the rank has ended. */
static void guardian_send(guardian_event event) {
  while (write(CONTROL, &event, sizeof event) < 0 && errno == EINTR) continue;
}

/* Runs in the child that becomes the program. The rank learns the pid before the program runs: if the
 * guardian is killed, the rank ends the program's group. */
static void guardian_prepare(const void *unused) {
  (void)unused;
  guardian_send((guardian_event){GUARDIAN_STARTED, getpid()});
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
 * program, or has ended. A child that the rank has forked may keep the connection open, so Linux
 * sends SIGCHLD for the end of the rank, too. */
static bool guardian_wait(pid_t program, pid_t rank, int *status) {
  struct sigaction action = {.sa_handler = guardian_on_child};
  sigset_t waiting; /* SIGCHLD comes only while pselect() waits */
  sigaction(SIGCHLD, &action, NULL);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGCHLD, 0, 0, 0);
#endif
  sigfillset(&waiting);
  sigdelset(&waiting, SIGCHLD);
  for (;;) {
    fd_set control;
    pid_t ended;
    while ((ended = waitpid(-1, status, WNOHANG)) > 0)
      if (ended == program) return true;
    if (getppid() != rank) return false;
    FD_ZERO(&control);
    FD_SET(CONTROL, &control);
    if (pselect(CONTROL + 1, &control, NULL, NULL, NULL, &waiting) > 0) return false;
  }
}

/* Starts the program, waits for its end, and ends its descendants. */
static void guardian_run(const guardian_job *job) {
  pid_t program = 0;
  int status = 0, error = guardian_start(job, &program);
  if (error != 0) {
    guardian_send((guardian_event){GUARDIAN_FAILED, error});
    return;
  }
  close(GUARDIAN_PMI);
  bool ended = guardian_wait(program, job->rank, &status);
  if (ended) guardian_send((guardian_event){GUARDIAN_ENDED, status});
  kill(-program, SIGKILL);
  process_tree_kill();
}

/* An R package must not call _exit(), so a signal ends the process. */
_Noreturn void guard(const guardian_job *job) {
  setsid();
  process_tree_adopt(true);
  guardian_arrange(job);
  guardian_run(job);
  for (;;) raise(SIGKILL);
}
