/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/durable_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define DURABLE_FILE_PIECE ((size_t)1 << 30) /* bytes that every system writes in one call */

static bool durable_file_put(int file, const uint8_t *rest, size_t left) {
  while (left > 0) {
    ssize_t put = write(file, rest, left < DURABLE_FILE_PIECE ? left : DURABLE_FILE_PIECE);
    if (put < 0 && errno != EINTR) return false;
    if (put < 0) continue;
    rest += put;
    left -= (size_t)put;
  }
  return true;
}

/* Whether the file is on the disk. A file system that cannot sync reports it, and counts as success. */
static bool durable_file_sync(int file) {
  return fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP || errno == ENOSYS;
}

/* Writes and syncs a file. Returns 0 or an errno. */
static int durable_file_fill(const char *path, const struct iovec *parts, int count) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return errno;
  bool written = true;
  for (int i = 0; written && i < count; i++)
    written = durable_file_put(file, parts[i].iov_base, parts[i].iov_len);
  int code = written && durable_file_sync(file) ? 0 : errno;
  if (close(file) != 0 && code == 0) code = errno;
  return code;
}

/* Syncs the directory, so that the new name is on the disk, too. Not all systems can open a directory. */
static void durable_file_sync_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_CLOEXEC);
  if (folder < 0) return;
  fsync(folder);
  close(folder);
}

int ring_durable_file_write(const char *folder, const char *name, const struct iovec *parts,
                            int count) {
  char begun[PATH_MAX], path[PATH_MAX];
  int begun_length = snprintf(begun, sizeof begun, "%s/new-%s", folder, name);
  int path_length = snprintf(path, sizeof path, "%s/%s", folder, name);
  if (begun_length >= PATH_MAX || path_length >= PATH_MAX) return ENAMETOOLONG;
  int code = durable_file_fill(begun, parts, count);
  if (code == 0 && rename(begun, path) != 0) code = errno;
  if (code != 0)
    unlink(begun);
  else
    durable_file_sync_folder(folder);
  return code;
}
