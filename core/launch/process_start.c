/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "launch/process_tree.h"

#define PROCESS_START_DESCRIPTORS 65536L /* at most so many are closed one by one */

static void process_start_close(int first, int last) {
#ifdef SYS_close_range
  if (first > last || syscall(SYS_close_range, (unsigned)first, (unsigned)last, 0U) == 0) return;
#endif
  long most = sysconf(_SC_OPEN_MAX);
  if (most <= 0 || most > PROCESS_START_DESCRIPTORS) most = PROCESS_START_DESCRIPTORS;
  for (int other = first; other <= last && other < most; other++) close(other);
}

void ring_process_start_arrange(int *given, int count) {
  for (int i = 0; i < count; i++) given[i] = fcntl(given[i], F_DUPFD, count);
  for (int i = 0; i < count; i++) dup2(given[i], i);
  process_start_close(count, INT_MAX);
}

int ring_process_start_set(char *const *variables) {
  for (; variables != NULL && *variables != NULL; variables++)
    if (strchr(*variables, '=') ? putenv(*variables) != 0 : unsetenv(*variables) != 0) return errno;
  return 0;
}

/* Runs in the child: becomes the program, or writes errno to `failure`. */
static _Noreturn void process_start_become(const ring_process_start *start, pid_t parent,
                                           int failure) {
  setpgid(0, 0);
  ring_process_tree_watch_parent(SIGKILL);
  if (getppid() != parent) raise(SIGKILL);
  start->prepare(start->data);
  process_start_close(start->descriptors, failure - 1);
  process_start_close(failure + 1, INT_MAX);
  for (int i = 0; i < 3; i++) signal((const int[]){SIGCHLD, SIGPIPE, SIGXFSZ}[i], SIG_DFL);
  sigprocmask(SIG_SETMASK, &start->mask, NULL);
  execvp(start->command[0], start->command);
  int error = errno;
  for (ssize_t put = write(failure, &error, sizeof error);; put = 0)
    raise(put < 0 ? SIGABRT : SIGKILL);
}

/* The errno by which the child could not become the program; 0: it has closed the pipe by exec. */
static int process_start_failure(int pipe) {
  int error;
  ssize_t got;
  do got = read(pipe, &error, sizeof error);
  while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

int ring_process_start_run(const ring_process_start *start, pid_t *process) {
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
    error = process_start_failure(failure[0]);
  }
  close(failure[0]);
  return error;
}
