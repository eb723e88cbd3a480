/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launch/process_tree.h"

/* Runs in the child: becomes the supervisor. An R package must not call _exit(), so a signal ends the process. */
static _Noreturn void launcher_become(const ring_supervision *supervision, int mine) {
  close(mine);
  int code = ring_supervise(supervision);
  while (write(RING_SUPERVISOR_LIFELINE, &code, sizeof code) < 0 && errno == EINTR) continue;
  for (;;) raise(SIGKILL);
}

/* Forks the supervisor, with the signals blocked that it handles. `mask` is for the ranks. 0 or an errno. */
static int launcher_fork(const ring_job *job, const sigset_t *mask, ring_launcher *launcher) {
  int ends[2];
  ring_supervision supervision = {.job = job, .launcher = getpid(), .mask = *mask};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return errno;
  for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  supervision.lifeline = ends[1];
  pid_t process = fork();
  if (process == 0) launcher_become(&supervision, ends[0]);
  int error = process < 0 ? errno : 0;
  close(ends[1]);
  if (error != 0) close(ends[0]);
  *launcher = (ring_launcher){process, ends[0]};
  return error;
}

static void launcher_block(sigset_t *blocked, sigset_t *before) {
  ring_supervisor_signals(blocked);
  sigaddset(blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, blocked, before);
}

int ring_launcher_start(const ring_job *job, ring_launcher *launcher) {
  sigset_t blocked, before;
  launcher_block(&blocked, &before);
  int error = launcher_fork(job, &before, launcher);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return error;
}

/* The exit code that the supervisor has reported, or of SIGKILL when it could not. */
static int launcher_code(const ring_launcher *launcher) {
  int code;
  return read(launcher->lifeline, &code, sizeof code) == sizeof code ? code : 128 + SIGKILL;
}

bool ring_launcher_ended(const ring_launcher *launcher, int *code) {
  if (waitpid(launcher->supervisor, NULL, WNOHANG) == 0) return false;
  *code = launcher_code(launcher);
  return true;
}

static void launcher_on_child(int number) {
  (void)number; /* waitpid() finds no child where SIGCHLD is ignored */
}

/* Waits for the supervisor, and sends it the blocked signals except those that were blocked before. No signal between
 * a look and a wait is lost. */
static void launcher_wait(pid_t supervisor, sigset_t blocked, const sigset_t *before) {
  int number;
  for (int i = 1; i < NSIG; i++)
    if (i != SIGCHLD && sigismember(before, i) == 1) sigdelset(&blocked, i);
  while (waitpid(supervisor, NULL, WNOHANG) == 0)
    if (sigwait(&blocked, &number) == 0 && number != SIGCHLD) kill(supervisor, number);
}

int ring_launcher_run(const ring_job *job) {
  struct sigaction action = {.sa_handler = launcher_on_child};
  sigset_t blocked, before;
  ring_launcher launcher;
  pid_t *spared = ring_process_tree_children();
  ring_process_tree_adopt();
  sigaction(SIGCHLD, &action, NULL);
  launcher_block(&blocked, &before);
  int error = launcher_fork(job, &before, &launcher), code = 1;
  if (error == 0) {
    launcher_wait(launcher.supervisor, blocked, &before);
    ring_process_tree_kill(spared);
    code = launcher_code(&launcher);
    close(launcher.lifeline);
  } else {
    dprintf(2, "sparkring-run: cannot run the job: %s\n", strerror(error));
  }
  free(spared);
  return code;
}
