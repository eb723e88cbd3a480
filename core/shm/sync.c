/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/sync.h"

#include <sched.h>

#include "base/background.h"
#include "base/counter.h"
#include "base/platform_memory.h"
#include "shm/shm_failure.h"

#define SYNC_YIELDS 50
#define SYNC_SPIN_NS UINT64_C(30000)
#define SYNC_ALERT_NS UINT64_C(200000)
#define SYNC_ALERT 4
#define SYNC_REFRESH (UINT32_C(1) << 24) /* calls */
#define SYNC_SERVE_NS UINT64_C(1000000)  /* between waits that begin with the service, at least */
#define SYNC_PENDING_MS 2                /* longest sleep while the service has work under way */

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Spins for as long as it pays; true once the flag has been published. Waking takes longer than the
 * usual spin, so after one sleep two ranks would put each other to sleep in turn. A successful spin
 * therefore postpones the next SYNC_ALERT sleeps. */
static bool sync_spin(ring_shm *shm, const _Atomic uint64_t *flag, uint32_t sequence) {
  bool own_core = shm->cores == RING_CORES_SUFFICE;
  int yields = shm->cores == RING_CORES_SHARED ? SYNC_YIELDS : 0;
  uint64_t begun = own_core ? ring_platform_now() : 0;
  uint64_t limit = shm->alert > 0 ? SYNC_ALERT_NS : SYNC_SPIN_NS;
  for (int tries = 0;; tries++) {
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) {
      shm->alert = SYNC_ALERT;
      return true;
    }
    if (!own_core) {
      if (tries >= yields) return false;
      sched_yield();
      continue;
    }
    ring_platform_pause();
    if (tries % 64 == 63 && ring_platform_now() - begun > limit) return false;
  }
}

/* Sleeps until this rank is woken, unless the flag has been published. */
static void sync_sleep(const ring_shm *shm, int index, const _Atomic uint64_t *flag,
                       uint32_t sequence, int milliseconds) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  uint64_t bit = UINT64_C(1) << shm->index;
  uint32_t wake = atomic_load_explicit(&rank_block->wake, memory_order_acquire);
  ring_shm_set_awaited(shm, index);
  atomic_fetch_or(&shm->control_block->sleeping, bit);
  if (!shm->fenced) ring_platform_barrier();
  atomic_thread_fence(memory_order_seq_cst);
  bool failed = atomic_load_explicit(&shm->control_block->failed, memory_order_acquire) != 0;
  if (!failed && !ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence))
    ring_platform_sleep(&rank_block->wake, wake, milliseconds);
  atomic_fetch_and(&shm->control_block->sleeping, ~bit);
}

static ring_status sync_wait_long(const ring_shm_call *call, const _Atomic uint64_t *flag,
                                  uint32_t sequence, int index) {
  ring_shm *shm = call->shm;
  ring_wait wait = *call->wait;
  ring_status status = RING_OK;
  if (sync_spin(shm, flag, sequence)) return RING_OK;
  if (shm->alert > 0) shm->alert--;
  ring_wait_begin(&wait);
  ring_timeline_record(shm->timeline, RING_EVENT_WAIT, true, call->call, shm->ranks[index], 0);
  if (wait.begun - shm->served > SYNC_SERVE_NS) {
    shm->served = wait.begun;
    shm->service.serve(shm->service.context);
  }
  while (status == RING_OK) {
    int slice = *shm->service.pending > 0 ? SYNC_PENDING_MS : ring_wait_slice(&wait);
    sync_sleep(shm, index, flag, sequence, ring_background_work(slice));
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) break;
    shm->service.serve(shm->service.context);
    status = ring_shm_check(call, index, &wait);
    /* A flag that a rank published before it failed or died is valid. */
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) {
      status = RING_OK;
      break;
    }
  }
  ring_shm_set_awaited(shm, -1);
  ring_counter_add(&shm->wait_ns, ring_platform_now() - wait.begun);
  ring_timeline_record(shm->timeline, RING_EVENT_WAIT, false, call->call, shm->ranks[index], 0);
  return status;
}

static inline ring_status sync_wait(const ring_shm_call *call, const _Atomic uint64_t *flag,
                                    uint32_t sequence, int index) {
  for (int tries = 0; tries < RING_SHM_TRIES; tries++) {
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence))
      return RING_OK;
    ring_platform_pause();
  }
  return sync_wait_long(call, flag, sequence, index);
}

ring_status ring_shm_await_slowly(const ring_shm_call *call, int index) {
  const ring_slot *slot = ring_shm_slot(call, index);
  uint32_t sequence = call->shm->sequence;
  ring_status status = RING_OK;
  if (!ring_shm_reached(atomic_load_explicit(&slot->flag, memory_order_acquire), sequence))
    status = sync_wait_long(call, &slot->flag, sequence, index);
  if (status != RING_OK) return status;
  call->shm->seen[index] = sequence - 1;
  if (atomic_load_explicit(&slot->flag, memory_order_relaxed) == call->flag) return RING_OK;
  return ring_shm_differs(call, index);
}

/* A rank that has failed or made another call also needs nothing more of this call, but has not
 * done its part of it. */
ring_status ring_shm_await_finish(const ring_shm_call *call, int index) {
  ring_shm *shm = call->shm;
  const _Atomic uint64_t *done = &ring_shm_rank_block(shm, index)->done;
  ring_status status = sync_wait(call, done, shm->sequence, index);
  if (status != RING_OK) return status;
  uint64_t flag = atomic_load_explicit(done, memory_order_acquire);
  bool finished = flag == call->flag || (uint32_t)(flag >> 32) != shm->sequence;
  if (!finished) return ring_shm_left(call, index, flag);
  shm->seen[index] = shm->sequence;
  return RING_OK;
}

static bool sync_await_start(ring_shm *shm, int index, uint32_t number, uint64_t deadline) {
  const _Atomic uint64_t *flag = &ring_shm_rank_block(shm, index)->started;
  if (sync_spin(shm, flag, number)) return true;
  while (ring_platform_now() < deadline) {
    sync_sleep(shm, index, flag, number, 1);
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), number)) return true;
    if (atomic_load(&shm->control_block->failed) != 0) return true;
  }
  return false;
}

bool ring_shm_await_starts(ring_shm *shm, uint32_t number, uint64_t nanoseconds) {
  uint64_t deadline = ring_platform_now() + nanoseconds;
  bool started = true;
  for (int i = 0; started && i < shm->size; i++)
    if (i != shm->index) started = sync_await_start(shm, i, number, deadline);
  ring_shm_set_awaited(shm, -1);
  return started;
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Multiplies and folds: it detects mistakes, not malice. */
static uint64_t sync_digest(uint64_t before, const uint64_t words[RING_CALL_WORDS]) {
  uint64_t digest = before ^ words[0] * UINT64_C(0x9e3779b97f4a7c15) ^
                    (words[1] + 1) * UINT64_C(0xbf58476d1ce4e5b9) ^
                    (words[2] + 1) * UINT64_C(0x94d049bb133111eb) ^
                    (words[3] + 1) * UINT64_C(0xd6e8feb86659fd93);
  digest *= UINT64_C(0xff51afd7ed558ccd);
  return digest ^ digest >> 32;
}

/* Waits until a rank has finished the call of `depth` calls ago. A rank that has published a call
 * has finished the call before. A rank that is behind is awaited until it has caught up by a
 * quarter of `depth`, for which it does not need this rank: a look or a sleep in every call would
 * slow both down. */
static ring_status sync_wait_free(const ring_shm_call *call, uint32_t depth, int index) {
  ring_shm *shm = call->shm;
  const ring_slot *slots = ring_shm_rank_block(shm, index)->slots;
  uint32_t last = shm->sequence - 1, nearer = shm->sequence - depth + depth / 4;
  uint64_t flag = atomic_load_explicit(&slots[last % RING_SLOTS].flag, memory_order_acquire);
  if (ring_shm_reached(flag, last)) {
    shm->seen[index] = last - 1;
    return RING_OK;
  }
  ring_status status = sync_wait(call, &slots[nearer % RING_SLOTS].flag, nearer, index);
  if (status == RING_OK) shm->seen[index] = nearer - 1;
  return status;
}

/* Waits until all ranks have finished the call of `depth` calls ago. */
static ring_status sync_settle(const ring_shm_call *call, uint32_t depth) {
  ring_shm *shm = call->shm;
  uint32_t freed = shm->sequence - depth, least = shm->sequence - 1;
  for (int i = 0; i < shm->size; i++) {
    if (i == shm->index) continue;
    ring_status status = RING_OK;
    if ((int32_t)(shm->seen[i] - freed) < 0) status = sync_wait_free(call, depth, i);
    if (status != RING_OK) return status;
    if ((int32_t)(shm->seen[i] - least) < 0) least = shm->seen[i];
  }
  shm->settled = least;
  return RING_OK;
}

/* Only large calls store `done`. After 2^31 other calls their numbers wrap, and the old `done`
 * would compare as that of a future call. */
static void sync_refresh(const ring_shm *shm) {
  uint64_t last = (uint64_t)(shm->sequence - 1) << 32 | (uint32_t)shm->digest;
  atomic_store_explicit(&ring_shm_rank_block(shm, shm->index)->done, last, memory_order_release);
}

ring_status ring_shm_begin(ring_shm *shm, const ring_call *call, uint32_t depth,
                           const ring_wait *wait, ring_error *error, ring_shm_call *begun) {
  ring_status status = RING_OK;
  uint32_t sequence = ++shm->sequence;
  uint64_t words[RING_CALL_WORDS];
  if (sequence % SYNC_REFRESH == 0) sync_refresh(shm);
  ring_shm_pack(call, words);
  shm->digest = sync_digest(shm->digest, words);
  uint64_t flag = (uint64_t)sequence << 32 | (uint32_t)shm->digest;
  *begun = (ring_shm_call){shm, call, wait, flag, error};
  ring_shm_announce_words(shm, words);
  if (ring_shm_failed(shm, NULL, error)) return error->status;
  if ((int32_t)(shm->settled - (sequence - depth)) < 0) status = sync_settle(begun, depth);
  ring_shm_store_words(ring_shm_rank_block(shm, shm->index)->slot_calls[sequence % RING_SLOTS],
                       words);
  if (shm->description != NULL) ring_shm_describe(shm, sequence, call->digest);
  return status;
}
