/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

#define CHECKPOINT_PIECE ((size_t)1 << 30) /* bytes that every system writes in one call */

static _Noreturn void checkpoint_fail(const char *file, int code) {
  ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = code};
  snprintf(error.message, sizeof error.message, "%s cannot be written: %s", file, strerror(code));
  error_raise(RING_SYSTEM, &error);
}

/* Whether the file is on the disk. A file system that cannot sync says so, and counts as success. */
static bool checkpoint_sync(int file) {
  return fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS;
}

static bool checkpoint_put(int file, const uint8_t *rest, size_t left) {
  while (left > 0) {
    ssize_t put = write(file, rest, left < CHECKPOINT_PIECE ? left : CHECKPOINT_PIECE);
    if (put < 0 && errno != EINTR) return false;
    if (put < 0) continue;
    rest += put;
    left -= (size_t)put;
  }
  return checkpoint_sync(file);
}

/* Writes and syncs a file. Returns 0 or an errno. */
static int checkpoint_fill(const char *path, SEXP bytes) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  int code = checkpoint_put(file, RAW(bytes), (size_t)XLENGTH(bytes)) ? 0 : errno;
  if (close(file) != 0 && code == 0) code = errno;
  return code;
}

/* Syncs the directory, so that the new name is on the disk, too. Not all systems can open a
 * directory. */
static void checkpoint_sync_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

SEXP checkpoint_write(SEXP folder, SEXP begun, SEXP name, SEXP bytes) {
  const char *in = Rf_translateChar(STRING_ELT(folder, 0));
  const char *from = Rf_translateChar(STRING_ELT(begun, 0));
  const char *to = Rf_translateChar(STRING_ELT(name, 0));
  int code = checkpoint_fill(from, bytes);
  if (code == 0 && rename(from, to) != 0) code = errno;
  if (code != 0) {
    unlink(from);
    checkpoint_fail(to, code);
  }
  checkpoint_sync_folder(in);
  return R_NilValue;
}
