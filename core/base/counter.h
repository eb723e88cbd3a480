/* SPDX-License-Identifier: Apache-2.0
 *
 * Counters: one thread at a time adds to a counter, and any thread may read it meanwhile.
 */
#ifndef RING_BASE_COUNTER_H
#define RING_BASE_COUNTER_H

#include <stdint.h>

static inline void ring_counter_add(uint64_t *counter, uint64_t more) {
  __atomic_store_n(counter, *counter + more, __ATOMIC_RELAXED);
}

static inline uint64_t ring_counter_read(const uint64_t *counter) {
  return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

#endif
