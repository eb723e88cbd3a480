/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "error.h"
#include "launch/command_line.h"
#include "launch/launcher.h"

static _Noreturn void launcher_fail(const char *what, int error_number) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = error_number};
  snprintf(error.message, sizeof error.message, "%s failed: %s", what, strerror(error_number));
  error_raise(RING_SYSTEM, &error);
}

static char **launcher_words(SEXP strings) {
  R_xlen_t length = XLENGTH(strings);
  char **result = (char **)R_alloc((size_t)length + 1, sizeof *result);
  for (R_xlen_t i = 0; i < length; i++) result[i] = (char *)CHAR(STRING_ELT(strings, i));
  result[length] = NULL;
  return result;
}

static void launcher_close_pipes(int pipes[][2], int count) {
  for (int i = 0; i < count; i++) close(pipes[i][0]), close(pipes[i][1]);
}

/* Pipes of the output and of the errors. */
static void launcher_make_pipes(int pipes[2][2]) {
  for (int i = 0; i < 2; i++) {
    if (pipe(pipes[i]) != 0) {
      int error = errno;
      launcher_close_pipes(pipes, i);
      launcher_fail("pipe()", error);
    }
    for (int end = 0; end < 2; end++) fcntl(pipes[i][end], F_SETFD, FD_CLOEXEC);
    fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
  }
}

SEXP launcher_start(SEXP command, SEXP environment, SEXP size, SEXP input) {
  int pipes[2][2];
  ring_launcher launcher;
  ring_job job = {.command = launcher_words(command),
                  .variables = launcher_words(environment),
                  .size = Rf_asInteger(size),
                  .input = Rf_asLogical(input)};
  SEXP result = PROTECT(Rf_allocVector(INTSXP, 4)); /* which may fail, with nothing open yet */
  launcher_make_pipes(pipes);
  for (int i = 0; i < 2; i++) job.outputs[i] = pipes[i][1];
  int error = ring_launcher_start(&job, &launcher);
  if (error != 0) {
    launcher_close_pipes(pipes, 2);
    launcher_fail("fork()", error);
  }
  INTEGER(result)[0] = launcher.supervisor;
  INTEGER(result)[1] = launcher.lifeline;
  for (int i = 0; i < 2; i++) {
    close(pipes[i][1]);
    INTEGER(result)[2 + i] = pipes[i][0];
  }
  UNPROTECT(1);
  return result;
}

SEXP launcher_code(SEXP process, SEXP lifeline) {
  const ring_launcher launcher = {(pid_t)Rf_asInteger(process), Rf_asInteger(lifeline)};
  int code;
  return ring_launcher_ended(&launcher, &code) ? Rf_ScalarInteger(code) : R_NilValue;
}

SEXP launcher_close_lifeline(SEXP lifeline) {
  shutdown(Rf_asInteger(lifeline), SHUT_WR);
  return R_NilValue;
}

SEXP launcher_signal(SEXP process, SEXP number) {
  if (Rf_asInteger(process) > 1) kill((pid_t)Rf_asInteger(process), Rf_asInteger(number));
  return R_NilValue;
}

SEXP launcher_command_line(SEXP words) {
  char **all = launcher_words(words);
  return Rf_ScalarInteger(ring_command_line((int)XLENGTH(words), all, "Rscript train.R"));
}
