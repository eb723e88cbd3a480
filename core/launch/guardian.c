/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/process_start.h"
#include "launch/process_tree.h"

enum { CONTROL, OUTPUT, ERRORS, PMI = RING_GUARDIAN_PMI, DESCRIPTORS };

/* Fails when the rank has ended. */
static void guardian_send(int kind, int value) {
  ring_guardian_event event = {kind, value};
  while (write(CONTROL, &event, sizeof event) < 0 && errno == EINTR) continue;
}

/* Runs in the child that becomes the program. The rank learns the pid before the program runs: if the guardian is
 * killed, the rank ends the program's group. */
static void guardian_prepare(const void *unused) {
  (void)unused;
  guardian_send(RING_GUARDIAN_STARTED, getpid());
  int nothing = open("/dev/null", O_RDONLY);
  if (nothing < 0) close(CONTROL);
  if (nothing >= 0) dup2(nothing, 0);
}

/* False: the rank has the reason. */
static bool guardian_start(const ring_guardian_job *job, pid_t *program) {
  ring_process_start start = {.command = job->command,
                              .prepare = guardian_prepare,
                              .descriptors = DESCRIPTORS,
                              .mask = job->mask};
  char number[16];
  snprintf(number, sizeof number, "%d", RING_GUARDIAN_PMI);
  if (job->directory != NULL && chdir(job->directory) != 0) {
    guardian_send(RING_GUARDIAN_NO_DIRECTORY, errno);
    return false;
  }
  int error = ring_process_start_set(job->variables);
  if (error == 0 && setenv("PMI_FD", number, 1) != 0) error = errno;
  if (error == 0) error = ring_process_start_run(&start, program);
  if (error != 0) guardian_send(RING_GUARDIAN_FAILED, error);
  return error == 0;
}

static void guardian_on_child(int number) {
  (void)number; /* ends pselect() */
}

/* Waits for the end of a child, and reaps orphans. False: the rank ends the program, or the parent of this process has
 * ended. A child that the rank has forked may keep the connection open, so the kernel sends SIGCHLD for the end of the
 * parent, too. */
static bool guardian_wait(pid_t child, pid_t parent, int *status) {
  sigset_t waiting; /* SIGCHLD comes only while pselect() waits */
  sigfillset(&waiting);
  sigdelset(&waiting, SIGCHLD);
  for (;;) {
    fd_set control;
    pid_t ended;
    while ((ended = waitpid(-1, status, WNOHANG)) > 0)
      if (ended == child) return true;
    if (getppid() != parent) return false;
    FD_ZERO(&control);
    FD_SET(CONTROL, &control);
    if (pselect(CONTROL + 1, &control, NULL, NULL, NULL, &waiting) > 0) return false;
  }
}

static void guardian_watch(void) {
  struct sigaction action = {.sa_handler = guardian_on_child};
  sigaction(SIGCHLD, &action, NULL);
  ring_process_tree_adopt();
  ring_process_tree_watch_parent(SIGCHLD);
}

/* Ends this process by SIGTERM, which is blocked until now: no other process can have sent it. */
static _Noreturn void guardian_end(void) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_UNBLOCK, &end, NULL);
  for (;;) raise(SIGTERM);
}

/* Runs in the inner process. */
static _Noreturn void guardian_run(const ring_guardian_job *job, pid_t outer) {
  pid_t program = 0;
  int status = 0;
  guardian_watch();
  if (guardian_start(job, &program)) {
    close(RING_GUARDIAN_PMI);
    if (guardian_wait(program, outer, &status)) guardian_send(RING_GUARDIAN_ENDED, status);
    kill(-program, SIGKILL);
  }
  ring_process_tree_kill(NULL);
  guardian_end();
}

bool ring_guard(const ring_guardian_job *job) {
  int descriptors[DESCRIPTORS] = {[CONTROL] = job->control,
                                  [OUTPUT] = job->outputs[0],
                                  [ERRORS] = job->outputs[1],
                                  [PMI] = job->pmi};
  int status = 0;
  pid_t outer = getpid();
  setsid();
  guardian_watch();
  ring_process_start_arrange(descriptors, DESCRIPTORS);
  pid_t inner = fork();
  if (inner == 0) guardian_run(job, outer);
  if (inner < 0) guardian_send(RING_GUARDIAN_FAILED, errno);
  close(RING_GUARDIAN_PMI);
  bool ended = inner > 0 && guardian_wait(inner, job->rank, &status);
  ring_process_tree_kill(NULL);
  return !ended || (WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}
