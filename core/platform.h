/* SPDX-License-Identifier: Apache-2.0
 *
 * What differs between systems: the clock, the processors this process may use, and how to wait
 * for nanoseconds. Linux first, with portable ways beside it.
 */
#ifndef RING_PLATFORM_H
#define RING_PLATFORM_H

#include <stdint.h>

/* Nanoseconds of a clock that never jumps. */
uint64_t ring_platform_now(void);

/* How many processors this process may run on: its affinity mask, at least 1. */
int ring_platform_processors(void);

/* Gives the other hardware thread of a core a few nanoseconds. */
static inline void ring_platform_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

#endif
