/* SPDX-License-Identifier: Apache-2.0 */
#include "share.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "platform.h"
#include "socket.h"

#define SHARE_YIELDS 50
#define SHARE_SPIN_NS UINT64_C(30000)
#define SHARE_ALERT_NS UINT64_C(200000)
#define SHARE_ALERT 4
#define SHARE_REFRESH (UINT32_C(1) << 24) /* calls */
#define SHARE_ANSWER_NS UINT64_C(1000000) /* how often strangers are answered, at most */
#define SHARE_GUEST_MS 2 /* between turns of a handshake with somebody at the listener */

/* ---- Saying ------------------------------------------------------------------------------- */

static void share_pack(const ring_call *call, uint64_t words[RING_CALL_WORDS]) {
  words[0] = (uint64_t)call->sequence << 32 | (uint64_t)call->dtype << 16 |
             (uint64_t)call->op << 8 | call->collective;
  words[1] = (uint32_t)call->root;
  words[2] = call->count;
  words[3] = call->layout;
}

static ring_call share_unpack(const uint64_t words[RING_CALL_WORDS]) {
  return (ring_call){.collective = (uint8_t)words[0],
                     .op = (uint8_t)(words[0] >> 8),
                     .dtype = (uint8_t)(words[0] >> 16),
                     .sequence = (uint32_t)(words[0] >> 32),
                     .root = (int32_t)words[1],
                     .count = words[2],
                     .layout = words[3]};
}

static void share_store(_Atomic uint64_t *to, const uint64_t words[RING_CALL_WORDS]) {
  for (size_t i = 0; i < RING_CALL_WORDS; i++)
    atomic_store_explicit(&to[i], words[i], memory_order_relaxed);
}

static ring_call share_load(const _Atomic uint64_t *from) {
  uint64_t words[RING_CALL_WORDS];
  for (size_t i = 0; i < RING_CALL_WORDS; i++)
    words[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
  return share_unpack(words);
}

/* A sequence lock (Lameter, 2005): readers see all of it or notice. */
static void share_say(const ring_share *share, const uint64_t words[RING_CALL_WORDS]) {
  ring_seat *seat = ring_share_seat(share, share->index);
  uint64_t version = atomic_load_explicit(&seat->announced, memory_order_relaxed);
  atomic_store_explicit(&seat->announced, version + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  share_store(seat->call, words);
  atomic_store_explicit(&seat->announced, version + 2, memory_order_release);
}

void ring_share_announce(const ring_share *share, const ring_call *call) {
  uint64_t words[RING_CALL_WORDS];
  share_pack(call, words);
  share_say(share, words);
}

void ring_share_show(const ring_share *share, int index) {
  ring_seat *seat = ring_share_seat(share, share->index);
  if (index >= 0) atomic_store_explicit(&seat->looked, ring_platform_now(), memory_order_relaxed);
  atomic_store_explicit(&seat->awaits, index + 1, memory_order_relaxed);
}

void ring_share_retire(const ring_share *share) {
  static const uint64_t nothing[RING_CALL_WORDS];
  share_say(share, nothing);
}

bool ring_share_heard(const ring_share *share, int index, ring_call *call) {
  ring_seat *seat = ring_share_seat(share, index);
  uint64_t version = atomic_load_explicit(&seat->announced, memory_order_acquire);
  *call = share_load(seat->call);
  atomic_thread_fence(memory_order_acquire);
  return version % 2 == 0 &&
         atomic_load_explicit(&seat->announced, memory_order_relaxed) == version;
}

ring_call ring_share_said(const ring_share *share, int index, uint32_t sequence) {
  return share_load(ring_share_seat(share, index)->said[sequence % RING_SLOTS]);
}

/* In words, for a rank that runs ahead may write to one while another rank reads it. */
static void share_describe(const ring_share *share, uint32_t sequence, uint64_t layout) {
  uint64_t words[RING_DESCRIPTION_BYTES / 8];
  ring_seat *seat = ring_share_seat(share, share->index);
  uint32_t at = sequence % RING_DESCRIPTIONS;
  memcpy(words, share->description, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    atomic_store_explicit(&seat->descriptions[at].text[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&seat->descriptions[at].layout, layout, memory_order_relaxed);
}

void ring_share_description(const ring_share *share, int index, uint64_t layout,
                            char text[RING_DESCRIPTION_BYTES]) {
  uint64_t words[RING_DESCRIPTION_BYTES / 8];
  ring_seat *seat = ring_share_seat(share, index);
  int at = 0;
  text[0] = '\0';
  while (at < RING_DESCRIPTIONS &&
         atomic_load_explicit(&seat->descriptions[at].layout, memory_order_relaxed) != layout)
    at++;
  if (layout == 0 || at == RING_DESCRIPTIONS) return;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    words[i] = atomic_load_explicit(&seat->descriptions[at].text[i], memory_order_relaxed);
  memcpy(text, words, sizeof words);
  text[RING_DESCRIPTION_BYTES - 1] = '\0';
}

void ring_share_wake(const ring_share *share, uint64_t sleeping) {
  while (sleeping != 0) {
    int index = __builtin_ctzll(sleeping);
    if (index >= share->size) return; /* nobody: the board has been overwritten */
    ring_seat *seat = ring_share_seat(share, index);
    sleeping &= sleeping - 1;
    if (atomic_load_explicit(&seat->awaits, memory_order_relaxed) != share->index + 1) continue;
    atomic_fetch_add_explicit(&seat->wake, 1, memory_order_release);
    ring_platform_wake(&seat->wake);
  }
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Tries for as long as it pays; true when the flag has come. Being woken takes longer than the usual
 * trial, so two ranks of which one had to sleep would from then on put each other to sleep in turn:
 * after a wait that trying ended, the next few sleeps come later. */
static bool share_spin(ring_share *share, const _Atomic uint64_t *flag, uint32_t sequence) {
  bool own_core = share->cores == RING_CORES_SUFFICE;
  int yields = share->cores == RING_CORES_SHARED ? SHARE_YIELDS : 0;
  uint64_t begun = own_core ? ring_platform_now() : 0;
  uint64_t limit = share->alert > 0 ? SHARE_ALERT_NS : SHARE_SPIN_NS;
  for (int tries = 0;; tries++) {
    if (ring_share_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) {
      share->alert = SHARE_ALERT;
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
static void share_sleep(const ring_share *share, int index, const _Atomic uint64_t *flag,
                        uint32_t sequence, int milliseconds) {
  ring_seat *seat = ring_share_seat(share, share->index);
  uint64_t bit = UINT64_C(1) << share->index;
  uint32_t wake = atomic_load_explicit(&seat->wake, memory_order_acquire);
  ring_share_show(share, index);
  atomic_fetch_or(&share->board->sleeping, bit);
  if (!share->fenced) ring_platform_barrier();
  atomic_thread_fence(memory_order_seq_cst);
  bool failed = atomic_load_explicit(&share->board->failed, memory_order_acquire) != 0;
  if (!failed && !ring_share_reached(atomic_load_explicit(flag, memory_order_acquire), sequence))
    ring_platform_sleep(&seat->wake, wake, milliseconds);
  atomic_fetch_and(&share->board->sleeping, ~bit);
}

static ring_status share_wait_long(const ring_share_call *call, const _Atomic uint64_t *flag,
                                   uint32_t sequence, int index) {
  ring_share *share = call->share;
  ring_wait wait = *call->wait;
  ring_status status = RING_OK;
  if (share_spin(share, flag, sequence)) return RING_OK;
  if (share->alert > 0) share->alert--;
  ring_wait_begin(&wait);
  if (wait.begun - share->answered > SHARE_ANSWER_NS) {
    share->answered = wait.begun;
    ring_peers_answer(share->peers, &share->poller);
  }
  while (status == RING_OK) {
    int slice = share->peers->porch.guest_count > 0 ? SHARE_GUEST_MS : ring_wait_slice(&wait);
    share_sleep(share, index, flag, sequence, slice);
    if (ring_share_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) break;
    status = ring_share_check(call, index, &wait);
    /* What a rank said before it failed or died counts. */
    if (ring_share_reached(atomic_load_explicit(flag, memory_order_acquire), sequence)) {
      status = RING_OK;
      break;
    }
  }
  ring_share_show(share, -1);
  __atomic_store_n(&share->wait_ns, share->wait_ns + (ring_platform_now() - wait.begun),
                   __ATOMIC_RELAXED);
  return status;
}

static inline ring_status share_wait(const ring_share_call *call, const _Atomic uint64_t *flag,
                                     uint32_t sequence, int index) {
  for (int tries = 0; tries < RING_SHARE_TRIES; tries++) {
    if (ring_share_reached(atomic_load_explicit(flag, memory_order_acquire), sequence))
      return RING_OK;
    ring_platform_pause();
  }
  return share_wait_long(call, flag, sequence, index);
}

ring_status ring_share_await_slowly(const ring_share_call *call, int index) {
  const ring_slot *slot = ring_share_slot(call, index);
  uint32_t sequence = call->share->sequence;
  ring_status status = RING_OK;
  if (!ring_share_reached(atomic_load_explicit(&slot->flag, memory_order_acquire), sequence))
    status = share_wait_long(call, &slot->flag, sequence, index);
  if (status != RING_OK) return status;
  call->share->seen[index] = sequence - 1;
  if (atomic_load_explicit(&slot->flag, memory_order_relaxed) == call->flag) return RING_OK;
  return ring_share_differs(call, index);
}

/* Who has failed, or made another call, needs nothing more of this one either, but has not done its
 * part of it. */
ring_status ring_share_await_finish(const ring_share_call *call, int index) {
  ring_share *share = call->share;
  const _Atomic uint64_t *done = &ring_share_seat(share, index)->done;
  ring_status status = share_wait(call, done, share->sequence, index);
  if (status != RING_OK) return status;
  uint64_t flag = atomic_load_explicit(done, memory_order_acquire);
  bool finished = flag == call->flag || (uint32_t)(flag >> 32) != share->sequence;
  if (!finished) return ring_share_left(call, index, flag);
  share->seen[index] = share->sequence;
  return RING_OK;
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Multiplies and folds: for a difference that comes from mistakes, not from malice. */
static uint64_t share_digest(uint64_t before, const uint64_t words[RING_CALL_WORDS]) {
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
static ring_status share_wait_free(const ring_share_call *call, uint32_t depth, int index) {
  ring_share *share = call->share;
  const ring_slot *slots = ring_share_seat(share, index)->slots;
  uint32_t last = share->sequence - 1, nearer = share->sequence - depth + depth / 4;
  uint64_t flag = atomic_load_explicit(&slots[last % RING_SLOTS].flag, memory_order_acquire);
  if (ring_share_reached(flag, last)) {
    share->seen[index] = last - 1;
    return RING_OK;
  }
  ring_status status = share_wait(call, &slots[nearer % RING_SLOTS].flag, nearer, index);
  if (status == RING_OK) share->seen[index] = nearer - 1;
  return status;
}

/* Waits until all ranks have finished the call of `depth` calls ago. */
static ring_status share_settle(const ring_share_call *call, uint32_t depth) {
  ring_share *share = call->share;
  uint32_t freed = share->sequence - depth, least = share->sequence - 1;
  for (int i = 0; i < share->size; i++) {
    if (i == share->index) continue;
    ring_status status = RING_OK;
    if ((int32_t)(share->seen[i] - freed) < 0) status = share_wait_free(call, depth, i);
    if (status != RING_OK) return status;
    if ((int32_t)(share->seen[i] - least) < 0) least = share->seen[i];
  }
  share->settled = least;
  return RING_OK;
}

/* Only long calls say that they are finished. Where there are none for so many calls that their
 * numbers go around, the last word of a rank would look as if it were of a call to come. */
static void share_refresh(const ring_share *share) {
  uint64_t last = (uint64_t)(share->sequence - 1) << 32 | (uint32_t)share->digest;
  atomic_store_explicit(&ring_share_seat(share, share->index)->done, last, memory_order_release);
}

ring_status ring_share_begin(ring_share *share, const ring_call *call, uint32_t depth,
                             const ring_wait *wait, ring_error *error, ring_share_call *begun) {
  ring_status status = RING_OK;
  uint32_t sequence = ++share->sequence;
  uint64_t words[RING_CALL_WORDS];
  if (sequence % SHARE_REFRESH == 0) share_refresh(share);
  share_pack(call, words);
  share->digest = share_digest(share->digest, words);
  uint64_t flag = (uint64_t)sequence << 32 | (uint32_t)share->digest;
  *begun = (ring_share_call){share, call, wait, flag, error};
  share_say(share, words);
  if (ring_share_failed(share, NULL, error)) return error->status;
  if ((int32_t)(share->settled - (sequence - depth)) < 0) status = share_settle(begun, depth);
  share_store(ring_share_seat(share, share->index)->said[sequence % RING_SLOTS], words);
  if (share->description != NULL) share_describe(share, sequence, call->layout);
  return status;
}

/* ---- Life --------------------------------------------------------------------------------- */

int ring_share_index(const ring_share *share, int rank) {
  for (int i = 0; i < share->size; i++)
    if (share->ranks[i] == rank) return i;
  return -1;
}

void ring_share_fini(ring_share *share) {
  ring_free(share->stage);
  ring_arena_release(share->arena);
  ring_poller_fini(&share->poller);
  *share = (ring_share){0};
}
