/* SPDX-License-Identifier: Apache-2.0 */
#include "base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/epoll.h>
#endif

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define PLATFORM_PATH 4096

uint64_t ring_platform_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int platform_group_quota(const char *root, const char *group, int most) {
  char path[2 * PLATFORM_PATH];
  long long quota = 0, period = 0;
  snprintf(path, sizeof path, "%s%s/cpu.max", root, group);
  FILE *file = fopen(path, "r");
  if (file == NULL) return most;
  bool limited = fscanf(file, "%lld %lld", &quota, &period) == 2 && quota > 0 && period > 0;
  fclose(file);
  if (!limited || quota / period >= most) return most;
  return (int)((quota + period - 1) / period);
}

int ring_platform_quota(const char *root, const char *group, int most) {
  char path[PLATFORM_PATH];
  snprintf(path, sizeof path, "%s", group);
  for (;;) {
    most = platform_group_quota(root, path, most);
    char *last = strrchr(path, '/');
    if (last == NULL) return most;
    *last = '\0';
  }
}

#ifdef __linux__

int ring_platform_processors(void) {
  char line[PLATFORM_PATH] = "";
  bool found = false;
  cpu_set_t set;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int most = online < 1 ? 1 : (int)online;
  if (sched_getaffinity(0, sizeof set, &set) == 0) most = CPU_COUNT(&set);
  FILE *file = fopen("/proc/self/cgroup", "r");
  if (file == NULL) return most;
  while (!found && fgets(line, sizeof line, file) != NULL) found = strncmp(line, "0::", 3) == 0;
  fclose(file);
  line[strcspn(line, "\n")] = '\0';
  return found ? ring_platform_quota("/sys/fs/cgroup", line + 3, most) : most;
}

void ring_platform_affinity(uint64_t mask[RING_PROCESSOR_WORDS]) {
  cpu_set_t set;
  memset(mask, 0, RING_PROCESSOR_WORDS * sizeof *mask);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return;
  for (size_t i = 0; i < RING_PROCESSOR_WORDS * 64; i++)
    if (CPU_ISSET(i, &set)) mask[i / 64] |= UINT64_C(1) << i % 64;
}

#else

void ring_platform_affinity(uint64_t mask[RING_PROCESSOR_WORDS]) {
  memset(mask, 0, RING_PROCESSOR_WORDS * sizeof *mask);
}

int ring_platform_processors(void) {
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online < 1 ? 1 : (int)online;
}

#endif

size_t ring_platform_cache(void) {
  long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
  return bytes > 0 ? (size_t)bytes : (size_t)16 * 1024 * 1024;
}

static _Atomic unsigned platform_generation;

/* The new parent of an orphan (init, or a subreaper) is an ancestor: it was there when the parent was,
 * so it has another number. */
static pid_t platform_parent;

static void platform_begin(void) {
  platform_parent = getppid();
  atomic_fetch_add_explicit(&platform_generation, 1, memory_order_relaxed);
}

__attribute__((constructor)) static void platform_load(void) {
  pthread_atfork(NULL, NULL, platform_begin);
  platform_begin();
}

unsigned ring_platform_process(void) {
  return atomic_load_explicit(&platform_generation, memory_order_relaxed);
}

bool ring_platform_forked(void) {
  return ring_platform_process() != 1;
}

bool ring_platform_orphaned(long *parent) {
  *parent = (long)platform_parent;
  return getppid() != platform_parent;
}

/* macOS cannot choose the clock of a condition; a clock that jumps delays one wait there. */
#ifdef __APPLE__
#define PLATFORM_CONDITION_CLOCK CLOCK_REALTIME
#else
#define PLATFORM_CONDITION_CLOCK CLOCK_MONOTONIC
#endif

int ring_platform_condition_init(pthread_cond_t *condition) {
  pthread_condattr_t attributes;
  int code = pthread_condattr_init(&attributes);
  if (code != 0) return code;
#ifndef __APPLE__
  code = pthread_condattr_setclock(&attributes, PLATFORM_CONDITION_CLOCK);
#endif
  if (code == 0) code = pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
  return code;
}

void ring_platform_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     uint64_t nanoseconds) {
  struct timespec until;
  clock_gettime(PLATFORM_CONDITION_CLOCK, &until);
  nanoseconds += (uint64_t)until.tv_nsec;
  until.tv_sec += (time_t)(nanoseconds / 1000000000);
  until.tv_nsec = (long)(nanoseconds % 1000000000);
  pthread_cond_timedwait(condition, mutex, &until);
}

void ring_platform_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  int milliseconds) {
  ring_platform_condition_wait_ns(condition, mutex, (uint64_t)milliseconds * 1000000);
}

int ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg) {
  sigset_t all, before;
  sigfillset(&all);
  int code = pthread_sigmask(SIG_SETMASK, &all, &before);
  if (code != 0) return code;
  code = pthread_create(thread, NULL, function, arg);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return code;
}

int ring_platform_pipe(int ends[2]) {
#ifdef __linux__
  return pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
#else
  if (pipe(ends) != 0) return errno;
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  return 0;
#endif
}

#ifdef __linux__

/* Some containers forbid it. */
bool ring_platform_watches(void) {
  int watcher = epoll_create1(EPOLL_CLOEXEC);
  if (watcher >= 0) close(watcher);
  return watcher >= 0 || (errno != ENOSYS && errno != EPERM);
}

int ring_platform_watcher(void) {
  int watcher = epoll_create1(EPOLL_CLOEXEC);
  return watcher < 0 ? -errno : watcher;
}

bool ring_platform_watch(int watcher, int fd) {
  struct epoll_event event = {0};
  return epoll_ctl(watcher, EPOLL_CTL_ADD, fd, &event) == 0;
}

void ring_platform_watch_for(int watcher, int fd, short events) {
  struct epoll_event event = {.events = (events & POLLIN ? (uint32_t)EPOLLIN : 0) |
                                        (events & POLLOUT ? (uint32_t)EPOLLOUT : 0)};
  epoll_ctl(watcher, EPOLL_CTL_MOD, fd, &event);
}

#else

bool ring_platform_watches(void) {
  return false;
}

int ring_platform_watcher(void) {
  return -ENOSYS;
}

bool ring_platform_watch(int watcher, int fd) {
  (void)watcher;
  (void)fd;
  return false;
}

void ring_platform_watch_for(int watcher, int fd, short events) {
  (void)watcher;
  (void)fd;
  (void)events;
}

#endif

/* ---- Memory for secrets ------------------------------------------------------------------- */

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

/* MADV_WIPEONFORK is of Linux 4.14; an older one refuses it. */
void *ring_platform_pages(size_t bytes) {
  void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return NULL;
#ifdef MADV_DONTDUMP
  madvise(pages, bytes, MADV_DONTDUMP);
#endif
#ifdef MADV_WIPEONFORK
  madvise(pages, bytes, MADV_WIPEONFORK);
#endif
  return pages;
}

void ring_platform_pages_free(void *pages, size_t bytes) {
  munmap(pages, bytes);
}

/* ---- Stores past the caches --------------------------------------------------------------- */

#ifdef __SSE2__

void ring_platform_stream(void *to, const void *from, size_t bytes) {
  uint8_t *target = to;
  const uint8_t *source = from;
  size_t head = -(uintptr_t)target & 15;
  if (head > bytes) head = bytes;
  memcpy(target, source, head);
  size_t at = head;
  for (; bytes - at >= 64; at += 64) {
    __m128i a = _mm_loadu_si128((const __m128i *)(source + at));
    __m128i b = _mm_loadu_si128((const __m128i *)(source + at + 16));
    __m128i c = _mm_loadu_si128((const __m128i *)(source + at + 32));
    __m128i d = _mm_loadu_si128((const __m128i *)(source + at + 48));
    _mm_stream_si128((__m128i *)(target + at), a);
    _mm_stream_si128((__m128i *)(target + at + 16), b);
    _mm_stream_si128((__m128i *)(target + at + 32), c);
    _mm_stream_si128((__m128i *)(target + at + 48), d);
  }
  memcpy(target + at, source + at, bytes - at);
}

void ring_platform_stream_end(void) {
  _mm_sfence();
}

#else

void ring_platform_stream(void *to, const void *from, size_t bytes) {
  memcpy(to, from, bytes);
}

void ring_platform_stream_end(void) {
}

#endif
