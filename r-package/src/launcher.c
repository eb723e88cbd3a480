/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "process_tree.h"
#include "supervisor.h"

static _Noreturn void launcher_fail(const char *what, int error_number) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = error_number};
  snprintf(error.message, sizeof error.message, "%s failed: %s", what, strerror(error_number));
  error_raise(RING_SYSTEM, &error);
}

/* Sets the environment of the supervisor, which the ranks inherit. */
static void launcher_set_environment(SEXP environment) {
  for (R_xlen_t i = 0; i < XLENGTH(environment); i++)
    putenv((char *)CHAR(STRING_ELT(environment, i)));
  unsetenv("SPARKRING_ROOT_ADDRESS");
  unsetenv("SPARKRING_TOKEN");
  setenv("PYTHONUNBUFFERED", "1", 0); /* lines come when they are printed */
}

static char **launcher_words(SEXP command) {
  R_xlen_t length = XLENGTH(command);
  char **result = (char **)R_alloc((size_t)length + 1, sizeof *result);
  for (R_xlen_t i = 0; i < length; i++) result[i] = (char *)CHAR(STRING_ELT(command, i));
  result[length] = NULL;
  return result;
}

static void launcher_close_pipes(int pipes[][2], int count) {
  for (int i = 0; i < count; i++) close(pipes[i][0]), close(pipes[i][1]);
}

/* The lifeline, and pipes of the output and of the errors; the supervisor's ends last. */
static void launcher_make_pipes(int pipes[][2], int count) {
  for (int i = 0; i < count; i++) {
    if ((i == 0 ? socketpair(AF_UNIX, SOCK_STREAM, 0, pipes[i]) : pipe(pipes[i])) != 0) {
      int error = errno;
      launcher_close_pipes(pipes, i);
      launcher_fail("pipe()", error);
    }
    for (int end = 0; end < 2; end++) fcntl(pipes[i][end], F_SETFD, FD_CLOEXEC);
  }
}

SEXP launcher_start(SEXP command, SEXP environment, SEXP size, SEXP token, SEXP input,
                    SEXP direct) {
  int pipes[3][2], count = Rf_asLogical(direct) ? 1 : 3;
  supervisor_job job = {.command = launcher_words(command),
                        .size = Rf_asInteger(size),
                        .token = CHAR(STRING_ELT(token, 0)),
                        .input = Rf_asLogical(input),
                        .outputs = {1, 2}};
  sigset_t forwarded;
  SEXP result = PROTECT(Rf_allocVector(INTSXP, 4)); /* which may fail, with nothing open yet */
  launcher_make_pipes(pipes, count);
  supervisor_signals(&forwarded);
  sigaddset(&forwarded, SIGCHLD);
  sigprocmask(SIG_BLOCK, &forwarded, &job.mask);
  pid_t process = fork();
  if (process == 0) {
    job.lifeline = pipes[0][1];
    for (int i = 0; i < count; i++) close(pipes[i][0]);
    for (int i = 1; i < count; i++) job.outputs[i - 1] = pipes[i][1];
    launcher_set_environment(environment);
    supervise(&job);
  }
  int error = errno;
  sigprocmask(SIG_SETMASK, &job.mask, NULL);
  if (process < 0) {
    launcher_close_pipes(pipes, count);
    launcher_fail("fork()", error);
  }
  INTEGER(result)[0] = process;
  for (int i = 0; i < 3; i++) {
    INTEGER(result)[1 + i] = i < count ? pipes[i][0] : NA_INTEGER;
    if (i < count) close(pipes[i][1]), fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
  }
  UNPROTECT(1);
  return result;
}

/* The exit code that the supervisor has reported, or of SIGKILL when it could not. */
static SEXP launcher_reported_code(SEXP lifeline) {
  int code;
  bool whole = read(Rf_asInteger(lifeline), &code, sizeof code) == sizeof code;
  return Rf_ScalarInteger(whole ? code : 128 + SIGKILL);
}

SEXP launcher_code(SEXP process, SEXP lifeline) {
  if (waitpid((pid_t)Rf_asInteger(process), NULL, WNOHANG) == 0) return R_NilValue;
  return launcher_reported_code(lifeline);
}

static volatile sig_atomic_t supervisor;

static void launcher_forward(int number) {
  int error = errno;
  if (supervisor > 0) kill((pid_t)supervisor, number);
  errno = error;
}

SEXP launcher_wait(SEXP process, SEXP lifeline) {
  struct sigaction action = {.sa_handler = launcher_forward, .sa_flags = SA_RESTART}, before[NSIG];
  sigset_t forwarded;
  supervisor = Rf_asInteger(process);
  supervisor_signals(&forwarded);
  process_tree_adopt(true);
  for (int number = 1; number < NSIG; number++)
    if (sigismember(&forwarded, number) == 1) sigaction(number, &action, &before[number]);
  while (waitpid((pid_t)supervisor, NULL, 0) < 0 && errno == EINTR) continue;
  supervisor = 0;
  process_tree_kill();
  for (int number = 1; number < NSIG; number++)
    if (sigismember(&forwarded, number) == 1) sigaction(number, &before[number], NULL);
  return launcher_reported_code(lifeline);
}

SEXP launcher_close_lifeline(SEXP lifeline) {
  shutdown(Rf_asInteger(lifeline), SHUT_WR);
  return R_NilValue;
}

SEXP launcher_signal(SEXP process, SEXP number) {
  if (Rf_asInteger(process) > 1) kill((pid_t)Rf_asInteger(process), Rf_asInteger(number));
  return R_NilValue;
}
