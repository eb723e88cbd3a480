/* SPDX-License-Identifier: Apache-2.0 */
#include "stdio_redirect.h"

#include <R_ext/Utils.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "error.h"

#define STDIO_PIECE (1 << 16)
#define STDIO_PIPE (1 << 20) /* bytes that a child may print before the reader reads, on Linux */

static _Noreturn void stdio_fail(const char *what) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = errno};
  snprintf(error.message, sizeof error.message, "%s failed: %s", what, strerror(errno));
  error_raise(RING_SYSTEM, &error);
}

SEXP stdio_open(void) {
  int ends[2];
  SEXP result = PROTECT(Rf_allocVector(INTSXP, 2)); /* which may fail, with nothing open yet */
  if (pipe(ends) != 0) stdio_fail("pipe()");
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  for (int i = 0; i < 2; i++) fcntl(ends[i], F_SETFD, FD_CLOEXEC);
#ifdef F_SETPIPE_SZ
  fcntl(ends[1], F_SETPIPE_SZ, STDIO_PIPE);
#endif
  for (int i = 0; i < 2; i++) INTEGER(result)[i] = ends[i];
  UNPROTECT(1);
  return result;
}

SEXP stdio_enter(SEXP pipe, SEXP parent) {
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
#endif
  if (getppid() != Rf_asInteger(parent)) raise(SIGKILL); /* it had ended before that */
  if (pipe == R_NilValue) return R_NilValue;
  dup2(INTEGER(pipe)[1], STDOUT_FILENO);
  dup2(INTEGER(pipe)[1], STDERR_FILENO);
  return stdio_close(pipe);
}

SEXP stdio_leave(void) {
  fflush(NULL);
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return R_NilValue; /* the pipe ends with this process */
  dup2(nowhere, STDOUT_FILENO);
  dup2(nowhere, STDERR_FILENO);
  close(nowhere);
  return R_NilValue;
}

/* NULL at the end. */
static SEXP stdio_piece(int descriptor) {
  uint8_t piece[STDIO_PIECE];
  ssize_t got = read(descriptor, piece, sizeof piece);
  if (got == 0) return R_NilValue;
  SEXP bytes = Rf_allocVector(RAWSXP, got > 0 ? got : 0);
  if (got > 0) memcpy(RAW(bytes), piece, (size_t)got);
  return bytes;
}

SEXP stdio_read(SEXP descriptors, SEXP seconds) {
  R_xlen_t count = XLENGTH(descriptors);
  struct pollfd *entries = (struct pollfd *)R_alloc((size_t)count, sizeof *entries);
  for (R_xlen_t i = 0; i < count; i++)
    entries[i] = (struct pollfd){.fd = INTEGER(descriptors)[i], .events = POLLIN};
  poll(entries, (nfds_t)count, (int)(1000 * Rf_asReal(seconds) + 0.5));
  R_CheckUserInterrupt(); /* R itself looks once in a thousand evaluations */
  SEXP result = PROTECT(Rf_allocVector(VECSXP, count));
  for (R_xlen_t i = 0; i < count; i++) SET_VECTOR_ELT(result, i, stdio_piece(entries[i].fd));
  UNPROTECT(1);
  return result;
}

SEXP stdio_write(SEXP descriptor, SEXP bytes, SEXP wait) {
  const uint8_t *rest = RAW(bytes);
  size_t left = (size_t)XLENGTH(bytes);
  struct pollfd entry = {.fd = Rf_asInteger(descriptor), .events = POLLOUT};
  struct sigaction ignored = {.sa_handler = SIG_IGN}, before;
  sigaction(SIGPIPE, &ignored, &before); /* R's handler raises an error */
  while (left > 0) {
    if (poll(&entry, 1, Rf_asLogical(wait) ? 100 : 0) == 0 && !Rf_asLogical(wait)) break;
    ssize_t put = write(entry.fd, rest, left);
    if (put < 0 && errno != EINTR && errno != EAGAIN) break;
    if (put < 0) continue;
    rest += put;
    left -= (size_t)put;
  }
  sigaction(SIGPIPE, &before, NULL);
  return R_NilValue;
}

SEXP stdio_close(SEXP descriptors) {
  for (R_xlen_t i = 0; i < XLENGTH(descriptors); i++) close(INTEGER(descriptors)[i]);
  return R_NilValue;
}
