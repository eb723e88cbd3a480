/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "error.h"

#define CAPTURE_PIECE (1 << 16)
#define CAPTURE_CHILDREN 256
#define CAPTURE_ROOM                                                                               \
  (1 << 20) /* bytes that a child may be ahead of who reads, where Linux lets it */

static _Noreturn void capture_fail(const char *what) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = errno};
  snprintf(error.message, sizeof error.message, "%s failed: %s", what, strerror(errno));
  error_raise(RING_SYSTEM, &error);
}

SEXP capture_open(void) {
  int ends[2];
  SEXP result = PROTECT(Rf_allocVector(INTSXP, 2)); /* which may fail, with nothing open yet */
  if (pipe(ends) != 0) capture_fail("pipe()");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
#ifdef F_SETPIPE_SZ
  fcntl(ends[1], F_SETPIPE_SZ, CAPTURE_ROOM);
#endif
  for (int i = 0; i < 2; i++) INTEGER(result)[i] = ends[i];
  UNPROTECT(1);
  return result;
}

SEXP capture_enter(SEXP pipe, SEXP parent) {
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#endif
  if (getppid() != Rf_asInteger(parent)) raise(SIGKILL); /* it had ended before that */
  if (pipe == R_NilValue) return R_NilValue;
  dup2(INTEGER(pipe)[1], STDOUT_FILENO);
  dup2(INTEGER(pipe)[1], STDERR_FILENO);
  return capture_close(pipe);
}

SEXP capture_leave(void) {
  fflush(NULL);
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return R_NilValue; /* the pipe ends with this process */
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
  return R_NilValue;
}

SEXP capture_become(SEXP command) {
  R_xlen_t length = XLENGTH(command);
  char **words = (char **)R_alloc((size_t)length + 1, sizeof *words);
  for (R_xlen_t i = 0; i < length; i++) words[i] = (char *)CHAR(STRING_ELT(command, i));
  words[length] = NULL;
  execv(words[0], words);
  capture_fail(words[0]);
}

/* NULL at the end. */
static SEXP capture_piece(int descriptor) {
  uint8_t piece[CAPTURE_PIECE];
  ssize_t got = read(descriptor, piece, sizeof piece);
  if (got == 0) return R_NilValue;
  SEXP bytes = Rf_allocVector(RAWSXP, got > 0 ? got : 0);
  if (got > 0) memcpy(RAW(bytes), piece, (size_t)got);
  return bytes;
}

SEXP capture_read(SEXP descriptors, SEXP seconds) {
  R_xlen_t count = XLENGTH(descriptors);
  struct pollfd *entries = (struct pollfd *)R_alloc((size_t)count, sizeof *entries);
  for (R_xlen_t i = 0; i < count; i++)
    entries[i] = (struct pollfd){.fd = INTEGER(descriptors)[i], .events = POLLIN};
  poll(entries, (nfds_t)count, (int)(1000 * Rf_asReal(seconds) + 0.5));
  SEXP result = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t i = 0; i < count; i++) SET_VECTOR_ELT(result, i, capture_piece(entries[i].fd));
  UNPROTECT(1);
  return result;
}

SEXP capture_write(SEXP descriptor, SEXP bytes, SEXP wait) {
  const uint8_t *rest = RAW(bytes);
  size_t left = (size_t)XLENGTH(bytes);
  struct pollfd entry = {.fd = Rf_asInteger(descriptor), .events = POLLOUT};
  while (left > 0) {
    if (poll(&entry, 1, Rf_asLogical(wait) ? 100 : 0) == 0 && !Rf_asLogical(wait)) break;
    ssize_t put = write(entry.fd, rest, left);
    if (put < 0 && errno != EINTR && errno != EAGAIN) break;
    if (put < 0) continue;
    rest += put;
    left -= (size_t)put;
  }
  return R_NilValue;
}

SEXP capture_close(SEXP descriptors) {
  for (R_xlen_t i = 0; i < XLENGTH(descriptors); i++) close(INTEGER(descriptors)[i]);
  return R_NilValue;
}

SEXP capture_kill(SEXP process) {
  pid_t number = (pid_t)Rf_asInteger(process);
  if (number <= 1) return R_NilValue;
  kill(-number, SIGKILL);
  kill(number, SIGKILL); /* which may not have made its group yet */
  return R_NilValue;
}

static struct {
  volatile sig_atomic_t process; /* 0: free */
  volatile sig_atomic_t code;    /* of waitid(); 0 until the child has ended */
  volatile sig_atomic_t status;
} capture_ends[CAPTURE_CHILDREN];

static struct sigaction capture_previous;

/* parallel reaps its children in a handler of SIGCHLD, and drops how they ended. */
static void capture_note_ends(void) {
  for (int i = 0; i < CAPTURE_CHILDREN; i++) {
    siginfo_t end = {0};
    if (capture_ends[i].process == 0 || capture_ends[i].code != 0) continue;
    int options = WEXITED | WNOHANG | WNOWAIT;
    if (waitid(P_PID, (id_t)capture_ends[i].process, &end, options) != 0 || end.si_pid == 0)
      continue;
    capture_ends[i].status = end.si_status;
    capture_ends[i].code = end.si_code;
  }
}

static void capture_on_child(int number, siginfo_t *info, void *context) {
  int saved = errno;
  capture_note_ends();
  errno = saved;
  if (capture_previous.sa_flags & SA_SIGINFO)
    capture_previous.sa_sigaction(number, info, context);
  else if (capture_previous.sa_handler != SIG_DFL && capture_previous.sa_handler != SIG_IGN)
    capture_previous.sa_handler(number);
}

SEXP capture_watch(SEXP process) {
  struct sigaction action;
  sigaction(SIGCHLD, NULL, &action);
  if (!(action.sa_flags & SA_SIGINFO) || action.sa_sigaction != capture_on_child) {
    capture_previous = action;
    action.sa_flags |= SA_SIGINFO;
    action.sa_sigaction = capture_on_child;
    sigaction(SIGCHLD, &action, NULL);
  }
  for (int i = 0; i < CAPTURE_CHILDREN; i++) {
    if (capture_ends[i].process != 0) continue;
    capture_ends[i].code = 0;
    capture_ends[i].process = Rf_asInteger(process);
    break;
  }
  return R_NilValue;
}

SEXP capture_end(SEXP process) {
  for (int i = 0; i < CAPTURE_CHILDREN; i++) {
    if (capture_ends[i].process != Rf_asInteger(process)) continue;
    int code = capture_ends[i].code, status = capture_ends[i].status;
    capture_ends[i].process = 0;
    if (code != 0) return Rf_ScalarInteger(code == CLD_EXITED ? status : -status);
  }
  return Rf_ScalarInteger(NA_INTEGER);
}

SEXP capture_gone(SEXP process) {
  capture_note_ends();
  siginfo_t end = {0};
  int code = waitid(P_PID, (id_t)Rf_asInteger(process), &end, WEXITED | WNOHANG | WNOWAIT);
  return Rf_ScalarLogical(code != 0 || end.si_pid != 0);
}

SEXP capture_parent(void) {
  return Rf_ScalarInteger((int)getppid());
}
