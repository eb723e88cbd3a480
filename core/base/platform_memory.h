/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that processes share, and how they wait and order their accesses there. Linux comes first, as
 * in platform.h.
 */
#ifndef RING_BASE_PLATFORM_MEMORY_H
#define RING_BASE_PLATFORM_MEMORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
