/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/shm_group.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/platform.h"
#include "transport/socket.h"

#define SHM_YIELDS 50
#define SHM_SPIN_NS UINT64_C(30000)
#define SHM_ALERT_NS UINT64_C(200000)
#define SHM_ALERT 4
#define SHM_REFRESH (UINT32_C(1) << 24) /* calls */
#define SHM_ANSWER_NS UINT64_C(1000000) /* how often strangers are answered, at most */
#define SHM_GUEST_MS 2 /* between turns of a handshake with somebody at the listener */

/* ---- Saying ------------------------------------------------------------------------------- */

static void shm_pack(const ring_call *call, uint64_t words[RING_CALL_WORDS]) {
  words[0] = (uint64_t)call->sequence << 32 | (uint64_t)call->dtype << 16 |
             (uint64_t)call->op << 8 | call->collective;
  words[1] = (uint32_t)call->root;
  words[2] = call->count;
  words[3] = call->digest;
}

static ring_call shm_unpack(const uint64_t words[RING_CALL_WORDS]) {
  return (ring_call){.collective = (uint8_t)words[0],
                     .op = (uint8_t)(words[0] >> 8),
                     .dtype = (uint8_t)(words[0] >> 16),
                     .sequence = (uint32_t)(words[0] >> 32),
                     .root = (int32_t)words[1],
                     .count = words[2],
                     .digest = words[3]};
}

static void shm_store(_Atomic uint64_t *to, const uint64_t words[RING_CALL_WORDS]) {
  for (size_t i = 0; i < RING_CALL_WORDS; i++)
    atomic_store_explicit(&to[i], words[i], memory_order_relaxed);
}

static ring_call shm_load(const _Atomic uint64_t *from) {
  uint64_t words[RING_CALL_WORDS];
  for (size_t i = 0; i < RING_CALL_WORDS; i++)
    words[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
  return shm_unpack(words);
}

/* A sequence lock (Lameter, 2005): readers see all of it or wait report. */
static void shm_say(const ring_shm *shm, const uint64_t words[RING_CALL_WORDS]) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  uint64_t version = atomic_load_explicit(&rank_block->announced, memory_order_relaxed);
  atomic_store_explicit(&rank_block->announced, version + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  shm_store(rank_block->call, words);
  atomic_store_explicit(&rank_block->announced, version + 2, memory_order_release);
}

void ring_shm_announce(const ring_shm *shm, const ring_call *call) {
  uint64_t words[RING_CALL_WORDS];
  shm_pack(call, words);
  shm_say(shm, words);
}

void ring_shm_show(const ring_shm *shm, int index) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  if (index >= 0)
    atomic_store_explicit(&rank_block->looked, ring_platform_now(), memory_order_relaxed);
  atomic_store_explicit(&rank_block->awaits, index + 1, memory_order_relaxed);
}

void ring_shm_retire(const ring_shm *shm) {
  static const uint64_t nothing[RING_CALL_WORDS];
  shm_say(shm, nothing);
}

bool ring_shm_heard(const ring_shm *shm, int index, ring_call *call) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
  uint64_t version = atomic_load_explicit(&rank_block->announced, memory_order_acquire);
  *call = shm_load(rank_block->call);
  atomic_thread_fence(memory_order_acquire);
  return version % 2 == 0 &&
         atomic_load_explicit(&rank_block->announced, memory_order_relaxed) == version;
}

ring_call ring_shm_said(const ring_shm *shm, int index, uint32_t sequence) {
  return shm_load(ring_shm_rank_block(shm, index)->said[sequence % RING_SLOTS]);
}

/* In words, for a rank that runs ahead may write to one while another rank reads it. */
static void shm_describe(const ring_shm *shm, uint32_t sequence, uint64_t digest) {
  uint64_t words[RING_DESCRIPTION_BYTES / 8];
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  uint32_t at = sequence % RING_DESCRIPTIONS;
  memcpy(words, shm->description, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    atomic_store_explicit(&rank_block->descriptions[at].text[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&rank_block->descriptions[at].digest, digest, memory_order_relaxed);
}

void ring_shm_description(const ring_shm *shm, int index, uint64_t digest,
                          char text[RING_DESCRIPTION_BYTES]) {
  uint64_t words[RING_DESCRIPTION_BYTES / 8];
  ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
  int at = 0;
  text[0] = '\0';
  while (at < RING_DESCRIPTIONS &&
         atomic_load_explicit(&rank_block->descriptions[at].digest, memory_order_relaxed) != digest)
    at++;
  if (digest == 0 || at == RING_DESCRIPTIONS) return;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    words[i] = atomic_load_explicit(&rank_block->descriptions[at].text[i], memory_order_relaxed);
  memcpy(text, words, sizeof words);
  text[RING_DESCRIPTION_BYTES - 1] = '\0';
}

void ring_shm_wake(const ring_shm *shm, uint64_t sleeping) {
  while (sleeping != 0) {
    int index = __builtin_ctzll(sleeping);
    if (index >= shm->size) return; /* nobody: the control block has been overwritten */
    ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
    sleeping &= sleeping - 1;
    if (atomic_load_explicit(&rank_block->awaits, memory_order_relaxed) != shm->index + 1) continue;
    atomic_fetch_add_explicit(&rank_block->wake, 1, memory_order_release);
    ring_platform_wake(&rank_block->wake);
  }
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Tries for as long as it pays; true when the flag has come. Being woken takes longer than the usual
 * trial, so two ranks of which one had to sleep would from then on put each other to sleep in turn:
 * after a wait that trying ended, the next few sleeps come later. */
static bool shm_spin(ring_shm *shm, const _Atomic uint64_t *flag, uint32_t sequence) {
  bool own_core = shm->cores == RING_CORES_SUFFICE;
  int yields = shm->cores == RING_CORES_SHARED ? SHM_YIELDS : 0;
  uint64_t begun = own_core ? ring_platform_now() : 0;
  uint64_t limit = shm->alert > 0 ? SHM_ALERT_NS : SHM_SPIN_NS;
  for (int tries = 0;; tries++) {
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) {
      shm->alert = SHM_ALERT;
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

/* Sleeps until this rank is woken, unless the flag has come. */
static void shm_sleep(const ring_shm *shm, int index, const _Atomic uint64_t *flag,
                      uint32_t sequence, int milliseconds) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  uint64_t bit = UINT64_C(1) << shm->index;
  uint32_t wake = atomic_load_explicit(&rank_block->wake, memory_order_acquire);
  ring_shm_show(shm, index);
  atomic_fetch_or(&shm->control_block->sleeping, bit);
  if (!shm->fenced) ring_platform_barrier();
  atomic_thread_fence(memory_order_seq_cst);
  bool failed = atomic_load_explicit(&shm->control_block->failed, memory_order_acquire) != 0;
  if (!failed && !ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence))
    ring_platform_sleep(&rank_block->wake, wake, milliseconds);
  atomic_fetch_and(&shm->control_block->sleeping, ~bit);
}

static ring_status shm_wait_long(const ring_shm_call *call, const _Atomic uint64_t *flag,
                                 uint32_t sequence, int index) {
  ring_shm *shm = call->shm;
  ring_wait wait = *call->wait;
  ring_status status = RING_OK;
  if (shm_spin(shm, flag, sequence)) return RING_OK;
  if (shm->alert > 0) shm->alert--;
  ring_wait_begin(&wait);
  if (wait.begun - shm->answered > SHM_ANSWER_NS) {
    shm->answered = wait.begun;
    ring_peers_answer(shm->peers, &shm->poll_set);
  }
  while (status == RING_OK) {
    int slice = shm->peers->acceptor.pending_count > 0 ? SHM_GUEST_MS : ring_wait_slice(&wait);
    shm_sleep(shm, index, flag, sequence, slice);
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) break;
    status = ring_shm_check(call, index, &wait);
    /* What a rank said before it failed or died counts. */
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) {
      status = RING_OK;
      break;
    }
  }
  ring_shm_show(shm, -1);
  __atomic_store_n(&shm->wait_ns, shm->wait_ns + (ring_platform_now() - wait.begun),
                   __ATOMIC_RELAXED);
  return status;
}

static inline ring_status shm_wait(const ring_shm_call *call, const _Atomic uint64_t *flag,
                                   uint32_t sequence, int index) {
  for (int tries = 0; tries < RING_SHM_TRIES; tries++) {
    if (ring_shm_reached(atomic_load_explicit(flag, memory_order_acquire), sequence))
      return RING_OK;
    ring_platform_pause();
  }
  return shm_wait_long(call, flag, sequence, index);
}

ring_status ring_shm_await_slowly(const ring_shm_call *call, int index) {
  const ring_slot *slot = ring_shm_slot(call, index);
  uint32_t sequence = call->shm->sequence;
  ring_status status = RING_OK;
  if (!ring_shm_reached(atomic_load_explicit(&slot->flag, memory_order_acquire), sequence))
    status = shm_wait_long(call, &slot->flag, sequence, index);
  if (status != RING_OK) return status;
  call->shm->seen[index] = sequence - 1;
  if (atomic_load_explicit(&slot->flag, memory_order_relaxed) == call->flag) return RING_OK;
  return ring_shm_differs(call, index);
}

/* Who has failed, or made another call, needs nothing more of this one either, but has not done its
 * part of it. */
ring_status ring_shm_await_finish(const ring_shm_call *call, int index) {
  ring_shm *shm = call->shm;
  const _Atomic uint64_t *done = &ring_shm_rank_block(shm, index)->done;
  ring_status status = shm_wait(call, done, shm->sequence, index);
  if (status != RING_OK) return status;
  uint64_t flag = atomic_load_explicit(done, memory_order_acquire);
  bool finished = flag == call->flag || (uint32_t)(flag >> 32) != shm->sequence;
  if (!finished) return ring_shm_left(call, index, flag);
  shm->seen[index] = shm->sequence;
  return RING_OK;
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Multiplies and folds: for a difference that comes from mistakes, not from malice. */
static uint64_t shm_digest(uint64_t before, const uint64_t words[RING_CALL_WORDS]) {
  uint64_t digest = before ^ words[0] * UINT64_C(0x9e3779b97f4a7c15) ^
                    (words[1] + 1) * UINT64_C(0xbf58476d1ce4e5b9) ^
                    (words[2] + 1) * UINT64_C(0x94d049bb133111eb) ^
                    (words[3] + 1) * UINT64_C(0xd6e8feb86659fd93);
  digest *= UINT64_C(0xff51afd7ed558ccd);
  return digest ^ digest >> 32;
}

/* Waits until a rank has finished the call of `depth` calls ago. Who has published a call has
 * finished the one before. A rank that is behind is waited for until it has come a quarter of the way,
 * which it can without this one: to look or to sleep every time would slow both down. */
static ring_status shm_wait_free(const ring_shm_call *call, uint32_t depth, int index) {
  ring_shm *shm = call->shm;
  const ring_slot *slots = ring_shm_rank_block(shm, index)->slots;
  uint32_t last = shm->sequence - 1, nearer = shm->sequence - depth + depth / 4;
  uint64_t flag = atomic_load_explicit(&slots[last % RING_SLOTS].flag, memory_order_acquire);
  if (ring_shm_reached(flag, last)) {
    shm->seen[index] = last - 1;
    return RING_OK;
  }
  ring_status status = shm_wait(call, &slots[nearer % RING_SLOTS].flag, nearer, index);
  if (status == RING_OK) shm->seen[index] = nearer - 1;
  return status;
}

/* Waits until all ranks have finished the call of `depth` calls ago. */
static ring_status shm_settle(const ring_shm_call *call, uint32_t depth) {
  ring_shm *shm = call->shm;
  uint32_t freed = shm->sequence - depth, least = shm->sequence - 1;
  for (int i = 0; i < shm->size; i++) {
    if (i == shm->index) continue;
    ring_status status = RING_OK;
    if ((int32_t)(shm->seen[i] - freed) < 0) status = shm_wait_free(call, depth, i);
    if (status != RING_OK) return status;
    if ((int32_t)(shm->seen[i] - least) < 0) least = shm->seen[i];
  }
  shm->settled = least;
  return RING_OK;
}

/* Only long calls say that they are finished. Where there are none for so many calls that their
 * numbers go around, the last word of a rank would look as if it were of a call to come. */
static void shm_refresh(const ring_shm *shm) {
  uint64_t last = (uint64_t)(shm->sequence - 1) << 32 | (uint32_t)shm->digest;
  atomic_store_explicit(&ring_shm_rank_block(shm, shm->index)->done, last, memory_order_release);
}

ring_status ring_shm_begin(ring_shm *shm, const ring_call *call, uint32_t depth,
                           const ring_wait *wait, ring_error *error, ring_shm_call *begun) {
  ring_status status = RING_OK;
  uint32_t sequence = ++shm->sequence;
  uint64_t words[RING_CALL_WORDS];
  if (sequence % SHM_REFRESH == 0) shm_refresh(shm);
  shm_pack(call, words);
  shm->digest = shm_digest(shm->digest, words);
  uint64_t flag = (uint64_t)sequence << 32 | (uint32_t)shm->digest;
  *begun = (ring_shm_call){shm, call, wait, flag, error};
  shm_say(shm, words);
  if (ring_shm_failed(shm, NULL, error)) return error->status;
  if ((int32_t)(shm->settled - (sequence - depth)) < 0) status = shm_settle(begun, depth);
  shm_store(ring_shm_rank_block(shm, shm->index)->said[sequence % RING_SLOTS], words);
  if (shm->description != NULL) shm_describe(shm, sequence, call->digest);
  return status;
}

/* ---- Life --------------------------------------------------------------------------------- */

int ring_shm_index(const ring_shm *shm, int rank) {
  for (int i = 0; i < shm->size; i++)
    if (shm->ranks[i] == rank) return i;
  return -1;
}

void ring_shm_fini(ring_shm *shm) {
  ring_free(shm->bounce);
  ring_arena_release(shm->arena);
  ring_poll_set_fini(&shm->poll_set);
  *shm = (ring_shm){0};
}
