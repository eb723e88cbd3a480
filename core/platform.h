/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between systems: the clock, the processors this process may use, and how to wait
 * for nanoseconds. Linux first, with portable ways beside it.
 */
#ifndef RING_PLATFORM_H
#define RING_PLATFORM_H

#include <pthread.h>
#include <stdint.h>

/* Nanoseconds of a clock that never jumps. */
uint64_t ring_platform_now(void);

/* How many processors this process may run on: its affinity mask, at least 1. */
int ring_platform_processors(void);

/* A condition variable, and waiting for it for some milliseconds at most. 0 or an errno. */
int ring_platform_condition_init(pthread_cond_t *condition);
void ring_platform_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  int milliseconds);

/* Starts a thread that no signal is delivered to. 0 or an errno. */
int ring_platform_thread(pthread_t *thread, void *(*function)(void *), void *arg);

/* A pipe whose ends close on exec: ends[0] is for reading. 0 or an errno. */
int ring_platform_pipe(int ends[2]);

/* Gives the other hardware thread of a core a few nanoseconds. */
static inline void ring_platform_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
