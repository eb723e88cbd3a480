/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bindings/checkpoint.h"
#include "bindings/durable_file.h"
#include "error.h"

static int64_t checkpoint_read(SEXP number) {
  return (int64_t)Rf_asReal(number);
}

SEXP checkpoint_name(SEXP number) {
  char name[RING_CHECKPOINT_NAME_BYTES];
  ring_checkpoint_name(checkpoint_read(number), name);
  return Rf_mkString(name);
}

SEXP checkpoint_numbers(SEXP names) {
  R_xlen_t count = XLENGTH(names);
  SEXP numbers = PROTECT(Rf_allocVector(REALSXP, count));
  for (R_xlen_t i = 0; i < count; i++) {
    int64_t number = ring_checkpoint_number(CHAR(STRING_ELT(names, i)));
    REAL(numbers)[i] = number >= 0 ? (double)number : NA_REAL;
  }
  UNPROTECT(1);
  return numbers;
}

SEXP checkpoint_is_old(SEXP number, SEXP newest) {
  return Rf_ScalarLogical(ring_checkpoint_is_old(checkpoint_read(number), checkpoint_read(newest)));
}

SEXP checkpoint_length(SEXP file) {
  size_t length;
  if (!ring_checkpoint_check(RAW(file), (size_t)XLENGTH(file), &length)) return R_NilValue;
  return Rf_ScalarReal((double)length);
}

static _Noreturn void checkpoint_fail(const char *folder, const char *name, int code) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = code};
  snprintf(error.message, sizeof error.message, "%s/%s cannot be written: %s", folder, name,
           strerror(code));
  error_raise(RING_SYSTEM, &error);
}

SEXP checkpoint_write(SEXP folder, SEXP number, SEXP state) {
  const char *path = Rf_translateChar(STRING_ELT(folder, 0));
  char name[RING_CHECKPOINT_NAME_BYTES];
  uint8_t trailer[RING_CHECKPOINT_TRAILER_BYTES];
  size_t length = (size_t)XLENGTH(state);
  ring_checkpoint_name(checkpoint_read(number), name);
  if (!ring_checkpoint_seal(RAW(state), length, trailer)) checkpoint_fail(path, name, EIO);
  const struct iovec parts[] = {{RAW(state), length}, {trailer, sizeof trailer}};
  int code = ring_durable_file_write(path, name, parts, 2);
  if (code != 0) checkpoint_fail(path, name, code);
  return R_NilValue;
}
