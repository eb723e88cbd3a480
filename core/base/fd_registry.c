/* SPDX-License-Identifier: Apache-2.0
 *
 * They are kept as bits, so that a forked child finds them without memory or lists that could be torn.
 * The lock is held while one is made or closed, and across a fork: no child has one that it does not
 * know of, or takes a number for one that has another owner by then.
 */
#include "base/fd_registry.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

/* As many as Linux gives a process unless fs.nr_open is raised. Children keep their copies of
 * descriptors beyond. The bits take memory where one has been set. */
#define DESCRIPTOR_WORDS (1024 * 1024 / 64)

static pthread_mutex_t fd_lock = PTHREAD_MUTEX_INITIALIZER; /* never held at a fork */
static uint64_t fd_words[DESCRIPTOR_WORDS];
static int fd_end; /* of the words that may have bits */

void ring_fd_begin(void) {
  pthread_mutex_lock(&fd_lock);
}

static void fd_unlock(void) {
  pthread_mutex_unlock(&fd_lock);
}

void ring_fd_add(int fd) {
  if (fd < 0 || fd / 64 >= DESCRIPTOR_WORDS) return;
  fd_words[fd / 64] |= UINT64_C(1) << fd % 64;
  if (fd / 64 >= fd_end) fd_end = fd / 64 + 1;
}

int ring_fd_end(int fd) {
  ring_fd_add(fd);
  fd_unlock();
  return fd;
}

/* Shared memory takes long to close and is never registered, so it is closed without the lock. */
void ring_fd_close(int fd) {
  bool known = false;
  ring_fd_begin();
  if (fd / 64 < fd_end) {
    uint64_t *word = &fd_words[fd / 64], bit = UINT64_C(1) << fd % 64;
    known = (*word & bit) != 0;
    *word &= ~bit;
  }
  if (known) close(fd);
  fd_unlock();
  if (!known) close(fd);
}

/* ---- In a forked child -------------------------------------------------------------------- */

/* The first at `from` or after it; -1 when there is none. */
static int fd_next(int from) {
  int at = from / 64;
  uint64_t word = at < fd_end ? fd_words[at] & (UINT64_MAX << from % 64) : 0;
  while (word == 0 && ++at < fd_end) word = fd_words[at];
  return word != 0 ? at * 64 + __builtin_ctzll(word) : -1;
}

static int fd_idle(void) {
  return socket(AF_UNIX, SOCK_STREAM, 0);
}

/* Where all numbers are taken, the first has to make room. Without any descriptor to put in their
 * place they are kept: what the child opens next would have their numbers, and be closed for them. */
static void fd_give_up(void) {
  int first = fd_next(0);
  if (first < 0) return;
  int idle = fd_idle();
  if (idle < 0) {
    close(first);
    idle = fd_idle();
  }
  for (int fd = first; fd >= 0 && idle >= 0; fd = fd_next(fd + 1)) {
    if (fd != idle) dup2(idle, fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  if (idle >= 0 && idle != first) close(idle);
}

/* May only call what a signal handler may. What remains is ordinary: the child's own children keep
 * it. */
static void fd_forked(void) {
  int code = errno;
  fd_give_up();
  for (int i = 0; i < fd_end; i++) fd_words[i] = 0;
  fd_end = 0;
  fd_unlock();
  errno = code;
}

__attribute__((constructor)) static void fd_load(void) {
  pthread_atfork(ring_fd_begin, fd_unlock, fd_forked);
}
