/* SPDX-License-Identifier: Apache-2.0
 *
 * The system: clock, processors, processes, threads, and memory that processes share. Linux comes first,
 * with a portable way beside it. A function without a portable way reports that, and its caller does
 * without.
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

/* ---- Memory that processes share ---------------------------------------------------------- */

/* A descriptor of `bytes` of zeroed memory without a name, which takes space only where it is
 * written; or -errno. */
int ring_platform_memory(size_t bytes);

/* Whether a descriptor that another process passed is such memory, sealed at that length. Memory that
 * could shrink would kill the process that touches it (SIGBUS). */
bool ring_platform_memory_is(int fd, uint64_t bytes);

/* Another open file description of the same memory, which can hold locks of its own; or -errno. */
int ring_platform_memory_again(int fd);

/* Allocates the pages of a part that is about to be used. False when there are none: touching the part
 * would kill the process (SIGBUS). True where the system does not report it. */
bool ring_platform_memory_reserve(int fd, size_t at, size_t bytes);

/* Frees pages; their content is lost. */
void ring_platform_memory_drop(int fd, size_t at, size_t bytes);

/* Locks byte `index` until the descriptor is closed, at the latest by the death of its process; and
 * whether another descriptor holds that lock. */
bool ring_platform_hold(int fd, int index);
bool ring_platform_held(int fd, int index);

/* Sleeps while *word is `value`, for at most `milliseconds`; wakes all sleepers of a word (futex). */
void ring_platform_sleep(_Atomic uint32_t *word, uint32_t value, int milliseconds);
void ring_platform_wake(_Atomic uint32_t *word);

/* When all processes have registered with success, a barrier in one process orders its loads and stores
 * as if each other process had issued a full fence at that moment (membarrier, global expedited). */
bool ring_platform_register_barrier(void);
void ring_platform_barrier(void);

/* Reads memory that another process has filled, before this process writes it: a write fault maps one
 * page, a read fault also maps the pages around. */
static inline void ring_platform_touch(const void *memory, size_t bytes) {
  const volatile uint8_t *from = memory;
  for (size_t at = 0; at < bytes; at += 64 * 1024) (void)from[at];
  if (bytes > 0) (void)from[bytes - 1];
}

/* Pages of zeroed memory for secrets; NULL without memory. No core file contains them and, where the
 * system supports that, a forked child finds zeros there. */
void *ring_platform_pages(size_t bytes);
void ring_platform_pages_free(void *pages, size_t bytes);

/* memcpy past the caches, for bytes that will not be read soon. ring_platform_stream_end makes them
 * visible to other processors before any later store. */
void ring_platform_stream(void *to, const void *from, size_t bytes);
void ring_platform_stream_end(void);

#endif
