/* SPDX-License-Identifier: Apache-2.0
 *
 * The system: clock, processors, processes and threads. Linux comes first, with a portable way beside
 * it. A function without a portable way reports that, and its caller does without.
 */
#ifndef RING_BASE_PLATFORM_H
#define RING_BASE_PLATFORM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of a clock that never jumps. */
uint64_t ring_platform_now(void);

/* How many processors this process may use: its affinity mask and, on Linux, the quota of its control
 * group. At least 1. */
int ring_platform_processors(void);

/* The processors of this thread's affinity mask, one bit each; zeros where they are not known. */
#define RING_PROCESSOR_WORDS 16
void ring_platform_affinity(uint64_t mask[RING_PROCESSOR_WORDS]);

/* The least of `most` and of the quotas of a control group and its ancestors, in whole processors, rounded
 * up (cpu.max of cgroup v2). `root` is the mount point of the groups. */
int ring_platform_quota(const char *root, const char *group, int most);

/* Bytes of the last-level cache; a common size where the system does not report it. */
size_t ring_platform_cache(void);

/* A number of this process, which differs in a forked child. Makes no system call. */
unsigned ring_platform_process(void);

/* Whether this process was forked after it had loaded this library. */
bool ring_platform_forked(void);

/* Whether the parent of this process has ended. The parent is that of the moment when the library was
 * loaded or, in a forked child, of the fork. *parent becomes its pid, 0 in another pid namespace. */
bool ring_platform_orphaned(long *parent);

/* A condition variable, and a wait for it of at most `milliseconds`. 0 or an errno. */
int ring_platform_condition_init(pthread_cond_t *condition);
void ring_platform_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  int milliseconds);
void ring_platform_condition_wait_ns(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                     uint64_t nanoseconds);

/* Starts a thread that no signal is delivered to. 0 or an errno. */
int ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg);

/* A pipe whose ends close on exec: ends[0] is for reading. 0 or an errno. */
int ring_platform_pipe(int ends[2]);

/* A descriptor to sleep on in place of several. It is readable while a watched descriptor is ready or
 * broken. Linux's epoll; elsewhere -ENOSYS, and ring_platform_watches() is false. */
bool ring_platform_watches(void);
int ring_platform_watcher(void);

/* Watches one more descriptor, for errors only. False without memory. */
bool ring_platform_watch(int watcher, int fd);

/* Watches the descriptor for the events of POLLIN and POLLOUT that `events` has, from now on. */
void ring_platform_watch_for(int watcher, int fd, short events);

/* Leaves the core to its other hardware thread for a few nanoseconds. */
static inline void ring_platform_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

/* Fetches a line of memory that is about to be written. */
static inline void ring_platform_prefetch(const void *line) {
#if defined(                                                                                       \
    __x86_64__) /* prefetchw, which compilers only give for newer processors than they target */
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#elif defined(__GNUC__)
  __builtin_prefetch(line, 1);
#endif
}

/* ---- Memory ------------------------------------------------------------------------------- */

/* Pages of zeroed memory for secrets; NULL without memory. No core file contains them and, where the
 * system supports that, a forked child finds zeros there. */
void *ring_platform_pages(size_t bytes);
void ring_platform_pages_free(void *pages, size_t bytes);

/* memcpy past the caches, for bytes that will not be read soon. ring_platform_stream_end makes them
 * visible to other processors before any later store. */
void ring_platform_stream(void *to, const void *from, size_t bytes);
void ring_platform_stream_end(void);

#endif
