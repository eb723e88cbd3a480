/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between systems: the clock, processors, processes and the memory that they share.
 * Linux first, with portable ways beside it; where there is none, a function says so and its caller
 * does without.
 */
#ifndef RING_PLATFORM_H
#define RING_PLATFORM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nanoseconds of a clock that never jumps. */
uint64_t ring_platform_now(void);

/* How many processors this process may use: its affinity mask and, on Linux, the quota of its control
 * group; at least 1. */
int ring_platform_processors(void);

/* The least of `most` and what the quotas of a control group, and of those that it lies within, come
 * to in whole processors, rounded up (cpu.max of cgroup v2). `root` is where groups are mounted. */
int ring_platform_quota(const char *root, const char *group, int most);

/* Bytes of the last-level cache, or what is common where the system does not tell. */
size_t ring_platform_cache(void);

/* A number that a forked child has another one of. Without a system call. */
unsigned ring_platform_process(void);

/* Whether the process that started this one has ended: its parent when the library was loaded or, in
 * a forked child, when it was forked. *parent becomes its number, 0 in another namespace of them. */
bool ring_platform_orphaned(long *parent);

/* A condition variable, and waiting for it for some milliseconds at most. 0 or an errno. */
int ring_platform_condition_init(pthread_cond_t *condition);
void ring_platform_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  int milliseconds);

/* Starts a thread that no signal is delivered to. 0 or an errno. */
int ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg);

/* A pipe whose ends close on exec: ends[0] is for reading. 0 or an errno. */
int ring_platform_pipe(int ends[2]);

/* A descriptor to sleep on in place of several: it turns readable while one that it watches is ready
 * or broken. -ENOSYS where there is no such thing (`watches` is false): it is Linux's epoll. */
bool ring_platform_watches(void);
int ring_platform_watcher(void);

/* Watches one more descriptor, for its breaking alone; false when the system lacks memory. */
bool ring_platform_watch(int watcher, int fd);

/* Watches it for POLLIN and POLLOUT, or what of them `events` has, from now on. */
void ring_platform_watch_for(int watcher, int fd, short events);

/* Gives the other hardware thread of a core a few nanoseconds. */
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

/* Whether a descriptor that another process passed is such memory, of that length for good: who touched
 * what is not there any more would be killed. */
bool ring_platform_memory_is(int fd, uint64_t bytes);

/* Another descriptor of the same memory that can hold locks of its own; or -errno. */
int ring_platform_memory_again(int fd);

/* Takes the pages of a part that is about to be used. Where there are none for it, false: whoever
 * touched it would be killed (SIGBUS). True, too, where the system cannot tell. */
bool ring_platform_memory_reserve(int fd, size_t at, size_t bytes);

/* Gives pages back; what they held is lost. */
void ring_platform_memory_drop(int fd, size_t at, size_t bytes);

/* Marks byte `index` as held by this descriptor until that is closed, be it by the death of its
 * process; and whether another descriptor holds it. */
bool ring_platform_hold(int fd, int index);
bool ring_platform_held(int fd, int index);

/* Sleeps while *word is `value`, for `milliseconds` at most; wakes all that do. */
void ring_platform_sleep(_Atomic uint32_t *word, uint32_t value, int milliseconds);
void ring_platform_wake(_Atomic uint32_t *word);

/* Where `register` was true in all processes, `barrier` in one of them orders its loads and stores
 * as if each of the others had issued a full fence at that moment (membarrier, global expedited). */
bool ring_platform_register_barrier(void);
void ring_platform_barrier(void);

/* Before this process writes memory that another one has filled: where a write makes the system map
 * one page, a read makes it map those around, too. */
static inline void ring_platform_touch(const void *memory, size_t bytes) {
  const volatile uint8_t *from = memory;
  for (size_t at = 0; at < bytes; at += 64 * 1024) (void)from[at];
  if (bytes > 0) (void)from[bytes - 1];
}

/* Pages of zeroed memory for secrets, NULL when there are none: no core file has them and, where the
 * system can do that, a forked child finds zeros there. */
void *ring_platform_pages(size_t bytes);
void ring_platform_pages_free(void *pages, size_t bytes);

/* memcpy past the caches, for what will not be read soon; ring_platform_stream_end makes it visible
 * to others before any later store. */
void ring_platform_stream(void *to, const void *from, size_t bytes);
void ring_platform_stream_end(void);

#endif
