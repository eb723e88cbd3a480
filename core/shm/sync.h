/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting and publishing in shared memory.
 *
 * A call in shared memory has a number and a digest of the signatures of all calls up to it. A rank
 * publishes by storing both as the flag of its slot, after its payload: a few bytes behind the
 * flag, more in a staging buffer. Other ranks wait for the number and compare the digest. A
 * difference in a call that waits for no rank (the root of a broadcast) shows in the next call that
 * waits.
 *
 * A slot is reused RING_SLOTS calls later and a staging buffer RING_STAGING_BUFFERS calls later,
 * once every rank is known to have finished the call that used it. So a root with a short payload
 * runs far ahead.
 *
 * A waiter spins for as long as a sleep would cost (Karlin et al., 1991), then sleeps on a futex.
 * With fewer processors than ranks it yields instead of spinning. A sleeper sets its bit in the
 * control block and the rank for which it waits, issues a membarrier, looks at the flag once more
 * and sleeps; the publisher looks at the bits and wakes. Because of the membarrier publishing needs
 * no fence. A sleep ends after 100 ms at the latest, to check for failures (shm_failure.h) and to
 * run the wait service.
 *
 *   waits          on      until                           woken by
 *   a sleeper      wake    the flag of the awaited rank    ring_shm_store of that rank: it sees the bit, or the sleeper
 *                          is published                    sees the flag
 *   a sleeper      wake    a rank has failed               ring_shm_wake_all: `failed` is set before the count changes
 *
 * The sleeper reads the count `wake` before it sets its bit. A wake-up changes the count, so the futex does not sleep
 * on a wake-up that came between.
 *
 * Threads: one thread of a rank at a time; the communicator sees to that.
 */
#ifndef RING_SHM_SYNC_H
#define RING_SHM_SYNC_H

#include "base/platform.h"
#include "shm/control_block.h"

#define RING_SHM_TRIES 20 /* looks at a flag before a waiter asks how long to spin */

/* Begins a call, once all ranks have finished the call `depth` calls before. RING_SLOTS frees this
 * rank's slot; RING_STAGING_BUFFERS frees its slot and its staging buffer. */
ring_status ring_shm_begin(ring_shm *shm, const ring_call *call, uint32_t depth,
                           const ring_wait *wait, ring_error *error, ring_shm_call *begun);

/* Stores a flag and wakes the ranks that sleep for it. */
static inline void ring_shm_store(const ring_shm *shm, _Atomic uint64_t *where, uint64_t flag) {
  atomic_store_explicit(where, flag, memory_order_release);
  if (shm->fenced)
    atomic_thread_fence(memory_order_seq_cst);
  else
    atomic_signal_fence(memory_order_seq_cst);
  uint64_t sleeping = atomic_load_explicit(&shm->control_block->sleeping, memory_order_relaxed);
  if (sleeping != 0) ring_shm_wake(shm, sleeping);
}

/* Publishes this rank's slot of the call. */
static inline void ring_shm_publish(const ring_shm_call *call) {
  ring_shm_store(call->shm, &ring_shm_slot(call, call->shm->index)->flag, call->flag);
}

/* Publishes that this rank needs nothing more of the call. */
static inline void ring_shm_finish(const ring_shm_call *call) {
  ring_shm_store(call->shm, &ring_shm_rank_block(call->shm, call->shm->index)->done, call->flag);
}

/* Waits until another rank has published its slot of the call: spins, then sleeps. */
ring_status ring_shm_await_slowly(const ring_shm_call *call, int index);

static inline ring_status ring_shm_await(const ring_shm_call *call, int index) {
  const ring_slot *slot = ring_shm_slot(call, index);
  for (int tries = 0; tries < RING_SHM_TRIES; tries++) {
    if (atomic_load_explicit(&slot->flag, memory_order_acquire) == call->flag) {
      call->shm->seen[index] = call->shm->sequence - 1;
      return RING_OK;
    }
    ring_platform_pause();
  }
  return ring_shm_await_slowly(call, index);
}

/* Publishes that this rank has started call `number` of the communicator, which need not run yet. */
static inline void ring_shm_publish_start(const ring_shm *shm, uint32_t number) {
  ring_shm_store(shm, &ring_shm_rank_block(shm, shm->index)->started, (uint64_t)number << 32);
}

/* Waits for at most `nanoseconds` until all ranks have started call `number`. Returns whether they have,
 * or true once the group has failed. */
bool ring_shm_await_starts(ring_shm *shm, uint32_t number, uint64_t nanoseconds);

/* Waits until another rank needs nothing more of the call. */
ring_status ring_shm_await_finish(const ring_shm_call *call, int index);

#endif
