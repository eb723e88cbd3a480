/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "error.h"
#include "launch/guardian.h"
#include "launch/process_end.h"
#include "pmi.h"

/* For the guardian to end the descendants. It may be stopped, as by a debugger. */
#define GRACE_MS 5000

enum { CONTROL, OUTPUT, ERRORS, PIPES };

static _Noreturn void program_fail(const char *what, int code) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = code};
  snprintf(error.message, sizeof error.message, "cannot start a program: %s failed: %s", what,
           strerror(code));
  error_raise(RING_SYSTEM, &error);
}

static char **program_strings(SEXP strings) {
  R_xlen_t length = XLENGTH(strings);
  char **result = (char **)R_alloc((size_t)length + 1, sizeof *result);
  for (R_xlen_t i = 0; i < length; i++)
    result[i] = (char *)Rf_translateChar(STRING_ELT(strings, i));
  result[length] = NULL;
  return result;
}

static void program_close_pipes(int pipes[][2], int count) {
  for (int i = 0; i < count; i++) close(pipes[i][0]), close(pipes[i][1]);
}

/* The connection, and pipes of the output and of the errors; the guardian's ends last. 0 or an
 * errno. */
static int program_make_pipes(int pipes[][2]) {
  for (int i = 0; i < PIPES; i++) {
    if ((i == CONTROL ? socketpair(AF_UNIX, SOCK_STREAM, 0, pipes[i]) : pipe(pipes[i])) != 0) {
      int code = errno;
      program_close_pipes(pipes, i);
      return code;
    }
    for (int end = 0; end < 2; end++) fcntl(pipes[i][end], F_SETFD, FD_CLOEXEC);
    fcntl(pipes[i][0], F_SETFL, O_NONBLOCK);
  }
  return 0;
}

/* Forks the guardian. A fork replaces the server's own descriptor, so the job has a copy. */
static pid_t program_fork(ring_guardian_job *job, int pipes[][2]) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &job->mask);
  pid_t process = fork();
  int code = errno;
  if (process == 0) {
    job->control = pipes[CONTROL][1];
    for (int i = 0; i < 2; i++) job->outputs[i] = pipes[OUTPUT + i][1];
    ring_guard(job);
    for (;;) raise(SIGKILL); /* an R package must not call _exit() */
  }
  sigprocmask(SIG_SETMASK, &job->mask, NULL);
  errno = code;
  return process;
}

SEXP program_start(SEXP pmi, SEXP command, SEXP environment, SEXP directory) {
  ring_pmi *server = pmi_of(pmi);
  int pipes[PIPES][2];
  ring_guardian_job job = {
      .rank = getpid(),
      .command = program_strings(command),
      .variables = program_strings(environment),
      .directory = directory == R_NilValue ? NULL : Rf_translateChar(STRING_ELT(directory, 0))};
  SEXP result =
      PROTECT(Rf_allocVector(INTSXP, 1 + PIPES)); /* which may fail, with nothing open yet */
  int code = program_make_pipes(pipes);
  if (code != 0) program_fail("pipe()", code);
  job.pmi = fcntl(ring_pmi_fd(server), F_DUPFD_CLOEXEC, 0);
  pid_t process = job.pmi < 0 ? -1 : program_fork(&job, pipes);
  code = errno;
  if (job.pmi >= 0) close(job.pmi);
  if (process < 0) {
    program_close_pipes(pipes, PIPES);
    program_fail(job.pmi < 0 ? "fcntl()" : "fork()", code);
  }
  ring_pmi_started(server);
  INTEGER(result)[0] = process;
  for (int i = 0; i < PIPES; i++) {
    close(pipes[i][1]);
    INTEGER(result)[1 + i] = pipes[i][0];
  }
  UNPROTECT(1);
  return result;
}

/* How a program has failed, or NULL. */
static const char *program_failure(ring_guardian_event event, char *text, size_t capacity) {
  if (event.kind == RING_GUARDIAN_STARTED || event.value == 0) return NULL;
  if (event.kind != RING_GUARDIAN_ENDED) return strerror(event.value);
  return ring_process_end_describe(event.value, text, capacity);
}

SEXP program_event(SEXP control) {
  static const char *const kinds[] = {"started", "ended", "failed", "no directory"};
  const char *names[] = {"kind", "value", "text", ""};
  ring_guardian_event event = {0};
  char text[128];
  ssize_t got = read(Rf_asInteger(control), &event, sizeof event);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return R_NilValue;
  bool whole = got == sizeof event;
  const char *failure = whole ? program_failure(event, text, sizeof text) : NULL;
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(whole ? kinds[event.kind] : "lost"));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(event.value));
  if (failure) SET_VECTOR_ELT(list, 2, Rf_mkString(failure));
  UNPROTECT(1);
  return list;
}

SEXP program_stop(SEXP guardian, SEXP control) {
  pid_t process = (pid_t)Rf_asInteger(guardian);
  shutdown(Rf_asInteger(control), SHUT_RDWR); /* a forked child may hold it, too */
  close(Rf_asInteger(control));
  for (int waited = 0; waitpid(process, NULL, WNOHANG) == 0; waited++) {
    if (waited == GRACE_MS) kill(process, SIGKILL);
    poll(NULL, 0, 1);
  }
  return R_NilValue;
}
