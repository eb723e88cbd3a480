/* SPDX-License-Identifier: Apache-2.0 */
#include "process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define DESCRIPTORS 65536L /* at most so many are closed */

void process_start_close_from(int first, int kept) {
  long most = sysconf(_SC_OPEN_MAX);
  for (int other = first; other < (most > 0 && most < DESCRIPTORS ? most : DESCRIPTORS); other++)
    if (other != kept) close(other);
}

/* Runs in the child: becomes the program, or writes errno to `failure`. */
static _Noreturn void process_start_become(const process_start *start, pid_t parent, int failure) {
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#endif
  if (getppid() != parent) raise(SIGKILL);
  start->prepare(start->data);
  process_start_close_from(start->descriptors, failure);
  signal(SIGCHLD, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &start->mask, NULL);
  execvp(start->command[0], start->command);
  int error = errno;
  for (ssize_t put = write(failure, &error, sizeof error);; put = 0)
    raise(put < 0 ? SIGABRT : SIGKILL);
}

int process_start_run(const process_start *start, pid_t *process) {
  int failure[2], error = 0;
  pid_t parent = getpid();
  *process = 0;
  if (pipe(failure) != 0) return errno;
  for (int i = 0; i < 2; i++) fcntl(failure[i], F_SETFD, FD_CLOEXEC);
  pid_t child = fork();
  if (child == 0) process_start_become(start, parent, failure[1]);
  if (child < 0) error = errno;
  close(failure[1]);
  if (child > 0) {
    *process = child;
    setpgid(child, child); /* as the child does, because either may be first */
    if (read(failure[0], &error, sizeof error) != sizeof error) error = 0;
  }
  close(failure[0]);
  return error;
}
