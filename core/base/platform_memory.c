/* SPDX-License-Identifier: Apache-2.0 */
#include "base/platform_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

#define PLATFORM_RESERVE ((size_t)1024 * 1024)
#define PLATFORM_MUCH ((size_t)256 * 1024 * 1024)
#define PLATFORM_INTERRUPTS 100 /* of one step, until it is left open whether it has pages */

#ifdef __linux__

/* The C library has memfd_create since glibc 2.27; wheels are made for older ones (scripts/wheels). */
#if defined(__GLIBC__) && !__GLIBC_PREREQ(2, 27)
static int platform_memfd_create(const char *name, unsigned flags) {
  return (int)syscall(SYS_memfd_create, name, flags);
}
#define memfd_create platform_memfd_create
#endif

int ring_platform_memory(size_t bytes) {
  struct rlimit limit;
  /* A file beyond the limit would not only fail: the process would get SIGXFSZ. */
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) return -EFBIG;
  int fd = memfd_create("sparkring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -errno;
  /* Truncating the memory would kill the processes that touch it. */
  if (ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    return fd;
  int code = errno;
  close(fd);
  return -code;
}

bool ring_platform_memory_is(int fd, uint64_t bytes) {
  struct stat status;
  const int fixed = F_SEAL_SHRINK | F_SEAL_GROW;
  int seals = fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & fixed) == fixed && fstat(fd, &status) == 0 &&
         (uint64_t)status.st_size == bytes;
}

int ring_platform_memory_again(int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int again = open(path, O_RDWR | O_CLOEXEC);
  return again < 0 ? -errno : again;
}

/* Whether there may be `bytes` of memory. Trying could get processes killed where there is not. */
static bool platform_has(size_t bytes) {
  char line[128];
  unsigned long long kilobytes = 0;
  bool found = false;
  FILE *file = fopen("/proc/meminfo", "r");
  if (file == NULL) return true;
  while (!found && fgets(line, sizeof line, file) != NULL)
    found = sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1;
  fclose(file);
  return !found || bytes / 1024 < kilobytes;
}

/* Allocates in steps: a signal undoes the step that it interrupts, and a profiler sends one every ms. */
bool ring_platform_memory_reserve(int fd, size_t at, size_t bytes) {
  size_t end = at + bytes;
  if (bytes >= PLATFORM_MUCH && !platform_has(bytes)) return false;
  for (int interrupted = 0; at < end && interrupted < PLATFORM_INTERRUPTS;) {
    size_t step = end - at < PLATFORM_RESERVE ? end - at : PLATFORM_RESERVE;
    if (fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)step) == 0) {
      at += step;
      interrupted = 0;
      continue;
    }
    if (errno != EINTR) return errno != ENOSPC && errno != ENOMEM && errno != EDQUOT;
    interrupted++;
  }
  return true;
}

void ring_platform_memory_drop(int fd, size_t at, size_t bytes) {
  (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)bytes);
}

/* Locks of the open file description: unlike those of a process, threads can have one each. */
static bool platform_lock(int fd, int command, int index, struct flock *lock) {
  *lock =
      (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)index, .l_len = 1};
  return fcntl(fd, command, lock) == 0;
}

bool ring_platform_hold(int fd, int index) {
  struct flock lock;
  return platform_lock(fd, F_OFD_SETLK, index, &lock);
}

bool ring_platform_held(int fd, int index) {
  struct flock lock;
  return platform_lock(fd, F_OFD_GETLK, index, &lock) && lock.l_type != F_UNLCK;
}

void ring_platform_sleep(_Atomic uint32_t *word, uint32_t value, int milliseconds) {
  struct timespec limit = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void ring_platform_wake(_Atomic uint32_t *word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool ring_platform_register_barrier(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void ring_platform_barrier(void) {
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

#else

int ring_platform_memory(size_t bytes) {
  (void)bytes;
  return -ENOSYS;
}

bool ring_platform_memory_is(int fd, uint64_t bytes) {
  (void)fd, (void)bytes;
  return false;
}

int ring_platform_memory_again(int fd) {
  (void)fd;
  return -ENOSYS;
}

bool ring_platform_memory_reserve(int fd, size_t at, size_t bytes) {
  (void)fd, (void)at, (void)bytes;
  return true;
}

void ring_platform_memory_drop(int fd, size_t at, size_t bytes) {
  (void)fd, (void)at, (void)bytes;
}

bool ring_platform_hold(int fd, int index) {
  (void)fd, (void)index;
  return false;
}

bool ring_platform_held(int fd, int index) {
  (void)fd, (void)index;
  return false;
}

void ring_platform_sleep(_Atomic uint32_t *word, uint32_t value, int milliseconds) {
  (void)word, (void)value, (void)milliseconds;
  sched_yield();
}

void ring_platform_wake(_Atomic uint32_t *word) {
  (void)word;
}

bool ring_platform_register_barrier(void) {
  return false;
}

void ring_platform_barrier(void) {
  atomic_thread_fence(memory_order_seq_cst);
}

#endif
