/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/token_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

enum { TOKEN_BYTES = 32 };

/* False, with errno. */
static bool token_file_draw(char token[2 * TOKEN_BYTES + 1]) {
  unsigned char random[TOKEN_BYTES];
  int source = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (source < 0) return false;
  ssize_t got = read(source, random, sizeof random);
  if (got >= 0 && got != sizeof random) errno = EIO;
  close(source);
  for (int i = 0; i < TOKEN_BYTES; i++) snprintf(token + 2 * i, 3, "%02x", random[i]);
  return got == sizeof random;
}

/* Makes a file on disk, of which file->path is the name. -1, with errno. */
static int token_file_make(ring_token_file *file) {
  const char *folder = getenv("TMPDIR");
  int length = snprintf(file->path, sizeof file->path, "%s/sparkring-XXXXXX",
                        folder != NULL && folder[0] != '\0' ? folder : "/tmp");
  if (length < (int)sizeof file->path) return mkstemp(file->path);
  errno = ENAMETOOLONG;
  return -1;
}

/* On Linux a file without a name: in memory or, where that is forbidden, on disk. -1, with errno. */
static int token_file_create(ring_token_file *file) {
#ifdef __linux__
  int descriptor = -1;
#ifdef SYS_memfd_create /* the C library has no function for it before glibc 2.27 */
  descriptor = (int)syscall(SYS_memfd_create, "sparkring token", 1U /* MFD_CLOEXEC */);
#endif
  if (descriptor < 0) {
    descriptor = token_file_make(file);
    if (descriptor >= 0) unlink(file->path);
  }
  snprintf(file->path, sizeof file->path, "/proc/%d/fd/%d", (int)getpid(), descriptor);
  return descriptor;
#else
  return token_file_make(file);
#endif
}

bool ring_token_file_open(ring_token_file *file) {
  char token[2 * TOKEN_BYTES + 1];
  file->descriptor = token_file_create(file);
  if (file->descriptor < 0) return false;
  fcntl(file->descriptor, F_SETFD, FD_CLOEXEC);
  return token_file_draw(token) && fchmod(file->descriptor, 0400) == 0 &&
         write(file->descriptor, token, 2 * (size_t)TOKEN_BYTES) == 2 * TOKEN_BYTES;
}

void ring_token_file_close(ring_token_file *file) {
#ifndef __linux__
  unlink(file->path);
#endif
  close(file->descriptor);
}
