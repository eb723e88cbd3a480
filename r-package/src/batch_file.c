/* SPDX-License-Identifier: Apache-2.0 */
#include "batch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "record_batch.h"

#define BATCH_FILE_PIECE (1 << 16)

static _Noreturn void batch_file_failed(const char *what) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = errno};
  snprintf(error.message, sizeof error.message, "the file of this rank's rows cannot be %s: %s",
           what, strerror(errno));
  error_raise(RING_SYSTEM, &error);
}

SEXP batch_file_open(SEXP path) {
  const char *name = Rf_translateChar(STRING_ELT(path, 0));
  int file = open(name, O_RDONLY | O_CLOEXEC);
  if (file < 0) batch_file_failed("opened");
  unlink(name);
  return Rf_ScalarInteger(file);
}

/* Reads `size` bytes, or up to the end of the file. Returns their number. */
static size_t batch_file_bytes(int file, char *bytes, size_t size, off_t at) {
  size_t got = 0;
  while (got < size) {
    ssize_t some = pread(file, bytes + got, size - got, at + (off_t)got);
    if (some < 0 && errno == EINTR) continue;
    if (some < 0) batch_file_failed("read");
    if (some == 0) break;
    got += (size_t)some;
  }
  return got;
}

/* The length of the line that begins at `at`, without its end: a newline that is not behind a return. */
static size_t batch_file_line(int file, off_t at) {
  static char piece[BATCH_FILE_PIECE + 1];
  piece[0] = 0;
  for (size_t length = 0;;) {
    size_t got = batch_file_bytes(file, piece + 1, BATCH_FILE_PIECE, at + (off_t)length);
    const char *stop = piece + 1 + got, *end = piece;
    while ((end = memchr(end + 1, '\n', (size_t)(stop - end - 1))) != NULL)
      if (end[-1] != '\r') return length + (size_t)(end - piece - 1);
    length += got;
    if (got < BATCH_FILE_PIECE) return length;
    piece[0] = stop[-1];
  }
}

/* Joins the parts of a line: removes each return and what is behind it. Returns the new length. */
static size_t batch_file_join(char *line, size_t length) {
  char *to = line;
  for (const char *from = line, *stop = line + length; from < stop;) {
    const char *end = memchr(from, '\r', (size_t)(stop - from));
    size_t part = (size_t)((end != NULL ? end : stop) - from);
    memmove(to, from, part);
    to += part;
    from = end != NULL && stop - end > 2 ? end + 2 : stop;
  }
  *to = 0;
  return (size_t)(to - line);
}

/* The columns of a line: the first row, the row behind the last, and the batch. `message` is memory for the batch. */
static SEXP batch_file_columns(char *line, size_t length, SEXP kinds, uint8_t *message) {
  char *end;
  int64_t from = strtoll(line, &end, 10);
  int64_t to = strtoll(end, &end, 10);
  end += strspn(end, " ");
  size_t left = length - (size_t)(end - line);
  if (left > INT32_MAX)
    Rf_error("the rows of this rank cannot be read: a batch of them has %.1f GiB, and R takes 1.5: "
             "lower "
             "spark.sql.execution.arrow.maxRecordsPerBatch",
             (double)left / 4 * 3 / (1 << 30));
  int size = left % 4 != 0 ? -1 : EVP_DecodeBlock(message, (const unsigned char *)end, (int)left);
  if (size < 0)
    Rf_error("the rows of this rank cannot be read: a line of their file is not of Spark");
  return record_batch_columns(message, (size_t)size, kinds, from, to);
}

SEXP batch_file_read(SEXP descriptor, SEXP offset, SEXP kinds, SEXP buffer) {
  int file = Rf_asInteger(descriptor);
  off_t at = (off_t)Rf_asReal(offset);
  size_t length;
  char newline;
  while ((length = batch_file_line(file, at)) == 0) {
    if (batch_file_bytes(file, &newline, 1, at) == 0) return R_NilValue;
    at++;
  }
  size_t decoded = length / 4 * 3;
  R_xlen_t needed = (R_xlen_t)(decoded + length + 1); /* the batch, and the line behind it */
  PROTECT(buffer =
              Rf_xlength(buffer) < needed ? Rf_allocVector(RAWSXP, needed + needed / 4) : buffer);
  char *text = (char *)RAW(buffer) + decoded;
  text[batch_file_bytes(file, text, length, at)] = 0;
  SEXP result = PROTECT(Rf_allocVector(VECSXP, 3));
  size_t joined = batch_file_join(text, length);
  SET_VECTOR_ELT(result, 0, batch_file_columns(text, joined, kinds, RAW(buffer)));
  SET_VECTOR_ELT(result, 1, Rf_ScalarReal((double)at + (double)length + 1));
  SET_VECTOR_ELT(result, 2, buffer);
  UNPROTECT(2);
  return result;
}

SEXP batch_file_close(SEXP descriptor) {
  close(Rf_asInteger(descriptor));
  return R_NilValue;
}
