/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/shm_failure.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "base/platform_memory.h"

#define SHM_FAILURE_QUIET_NS UINT64_C(500000000)
#define SHM_FAILURE_LISTED 4 /* ranks that an error names */

/* ---- Failing ------------------------------------------------------------------------------ */

/* Whether a rank has published in the call that this rank is in. A large call takes several
 * numbers, and ranks are at most RING_STAGING_BUFFERS of them apart. */
static bool shm_failure_is_here(const ring_shm *shm, const ring_rank_block *rank_block) {
  const ring_rank_block *own = ring_shm_rank_block(shm, shm->index);
  uint32_t behind = shm->sequence - shm->entered;
  for (uint32_t back = 0; back <= behind && back <= RING_STAGING_BUFFERS; back++) {
    uint32_t sequence = shm->sequence - back, slot = sequence % RING_SLOTS;
    uint64_t flag = atomic_load_explicit(&own->slots[slot].flag, memory_order_relaxed);
    if ((uint32_t)(flag >> 32) == sequence &&
        atomic_load_explicit(&rank_block->slots[slot].flag, memory_order_acquire) == flag)
      return true;
  }
  return false;
}

/* Whether another rank is still in the call that this rank is in. A rank that made another call
 * instead never touches this rank's buffers, and may have left long ago. */
static bool shm_failure_is_in_use(const ring_shm *shm) {
  for (int i = 0; i < shm->size; i++) {
    const ring_rank_block *rank_block = ring_shm_rank_block(shm, i);
    if (i != shm->index && shm_failure_is_here(shm, rank_block) &&
        !ring_shm_reached(atomic_load_explicit(&rank_block->done, memory_order_acquire),
                          shm->entered) &&
        ring_arena_taken(shm->arena, i))
      return true;
  }
  return false;
}

/* Waits until the other ranks have left the call. They check for failures before each piece, so
 * after the barrier they start no further piece. A stopped rank would finish its piece whenever it
 * is continued: the buffers are withdrawn, so what it writes does not reach them. */
static void shm_failure_await_quiet(ring_shm *shm) {
  uint64_t give_up = ring_platform_now() + SHM_FAILURE_QUIET_NS;
  shm->exposed = false;
  if (!shm->fenced) ring_platform_barrier();
  atomic_thread_fence(memory_order_seq_cst);
  while (shm_failure_is_in_use(shm)) {
    if (ring_platform_now() < give_up) {
      sched_yield();
      continue;
    }
    ring_arena_withdraw(shm->arena, shm->output, shm->output_bytes);
    if (shm->bounce != NULL) ring_arena_withdraw(shm->arena, shm->bounce, RING_BOUNCE_BYTES);
    return;
  }
}

/* Marks an unfinished call: this rank needs nothing more of it. A flag without digest means that the
 * rank has failed. */
static void shm_failure_leave(const ring_shm *shm) {
  _Atomic uint64_t *done = &ring_shm_rank_block(shm, shm->index)->done;
  if (!ring_shm_reached(atomic_load_explicit(done, memory_order_relaxed), shm->sequence))
    atomic_store_explicit(done, (uint64_t)shm->sequence << 32, memory_order_release);
}

void ring_shm_fail(ring_shm *shm, const ring_error *error) {
  uint32_t none = 0;
  if (shm->arena == NULL) return;
  if (atomic_compare_exchange_strong(&shm->control_block->failed, &none, 1)) {
    shm->control_block->failure = *error;
    atomic_store_explicit(&shm->control_block->failed, 2, memory_order_release);
  }
  shm_failure_leave(shm);
  ring_shm_wake_all(shm);
  if (shm->exposed) shm_failure_await_quiet(shm);
}

/* Reads the error on the control block, which any rank may have overwritten. */
static void shm_failure_read(const ring_shm *shm, ring_error *error) {
  *error = shm->control_block->failure;
  error->message[sizeof error->message - 1] = '\0';
  bool known = strcmp(ring_status_name(error->status), "UNKNOWN") != 0;
  if (!known || error->status == RING_OK) error->status = RING_ABORTED;
  if (error->rank < 0 || error->rank >= shm->peers->size) error->rank = -1;
}

bool ring_shm_failed(const ring_shm *shm, const ring_wait *wait, ring_error *error) {
  if (shm->arena == NULL) return false;
  if (atomic_load_explicit(&shm->control_block->failed, memory_order_acquire) != 2) return false;
  shm_failure_read(shm, error);
  bool late = wait == NULL || ring_wait_was_away(wait) || !ring_wait_is_old(wait);
  if (late && error->status == RING_TIMEOUT && error->rank == shm->ranks[shm->index])
    ring_error_missed(error, error->rank, error->message);
  return true;
}

/* ---- Errors ------------------------------------------------------------------------------- */

static const char *shm_failure_host(const ring_shm *shm, int rank) {
  return ring_peers_name(shm->peers, rank);
}

/* "allreduce(...) as call 1, of names a, b": the call of a rank. */
static void shm_failure_describe_call(const ring_shm *shm, int index, const ring_call *call,
                                      char *text, size_t size) {
  char description[RING_DESCRIPTION_BYTES];
  ring_shm_description(shm, index, call->digest, description);
  ring_call_describe_array(call, description, text, size);
}

static ring_status shm_failure_report_mismatch(const ring_shm_call *call, int index,
                                               const ring_call *theirs, const ring_call *own) {
  char their_text[RING_CALL_LONG_TEXT], own_text[RING_CALL_LONG_TEXT];
  const ring_shm *shm = call->shm;
  int rank = shm->ranks[index], own_rank = shm->ranks[shm->index];
  shm_failure_describe_call(shm, index, theirs, their_text, sizeof their_text);
  shm_failure_describe_call(shm, shm->index, own, own_text, sizeof own_text);
  if (strcmp(their_text, own_text) == 0)
    return ring_error_set(call->error, RING_MISMATCH, rank, 0,
                          "the ranks disagree on counts: rank %d passed others to %s than rank %d",
                          rank, own_text, own_rank);
  return ring_error_set(call->error, RING_MISMATCH, rank, 0,
                        "the ranks made different calls: rank %d called %s, rank %d called %s",
                        rank, their_text, own_rank, own_text);
}

/* The failure of a call because the process of a rank has ended. */
static ring_status shm_failure_report_lost(const ring_shm_call *call, int index) {
  char text[RING_CALL_TEXT];
  int rank = call->shm->ranks[index];
  ring_call_describe(call->call, text, sizeof text);
  return ring_error_set(call->error, RING_PEER_LOST, rank, 0,
                        "rank %d (%s) was lost during %s: its process has ended", rank,
                        shm_failure_host(call->shm, rank), text);
}

/* ---- Ranks that block others -------------------------------------------------------------- */

/* Whether a rank has come to the call: it has published its slot, or has announced the call. */
static bool shm_failure_has_come(const ring_shm_call *call, int index) {
  ring_call theirs;
  uint64_t flag = atomic_load_explicit(&ring_shm_slot(call, index)->flag, memory_order_acquire);
  if (index == call->shm->index || ring_shm_reached(flag, call->shm->sequence)) return true;
  return ring_shm_announced(call->shm, index, &theirs) && ring_call_is_same(&theirs, call->call);
}

static int shm_failure_count_missing(const ring_shm_call *call) {
  int missing = 0;
  for (int i = 0; i < call->shm->size; i++) missing += !shm_failure_has_come(call, i);
  return missing;
}

/* Whether a rank blocks others: it has not come to the call, or, if all have, has not finished
 * it. */
static bool shm_failure_blocks(const ring_shm_call *call, int index) {
  const _Atomic uint64_t *done = &ring_shm_rank_block(call->shm, index)->done;
  if (index == call->shm->index) return false;
  if (shm_failure_count_missing(call) > 0) return !shm_failure_has_come(call, index);
  return !ring_shm_reached(atomic_load_explicit(done, memory_order_acquire), call->shm->sequence);
}

/* The rank that another rank waits for and that blocks it, or -1. */
static int shm_failure_awaited(const ring_shm_call *call, int index) {
  const ring_shm *shm = call->shm;
  const ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
  int awaits = atomic_load_explicit(&rank_block->awaits, memory_order_relaxed) - 1;
  if (awaits < 0 || awaits >= shm->size) return -1;
  return shm_failure_blocks(call, awaits) ? awaits : -1;
}

/* Writes "; last seen in barrier() as call 16" or "; waits for rank 3 in ...", or "". */
static void shm_failure_describe_last(const ring_shm_call *call, int index, char *text,
                                      size_t size) {
  char name[RING_CALL_TEXT];
  const ring_shm *shm = call->shm;
  int awaited = shm_failure_awaited(call, index);
  ring_call last;
  text[0] = '\0';
  if (!ring_shm_announced(shm, index, &last) || last.collective == 0) return;
  ring_call_describe(&last, name, sizeof name);
  if (awaited >= 0)
    snprintf(text, size, "; waits for rank %d in %s", shm->ranks[awaited], name);
  else
    snprintf(text, size, "; last seen in %s", name);
}

/* Of ranks that wait for each other in a circle, the rank whose last check is the oldest: it is
 * stopped. */
static int shm_failure_find_stopped(const ring_shm_call *call, int index) {
  uint64_t oldest = UINT64_MAX;
  int stopped = index, next = index;
  for (int steps = 0; steps < call->shm->size && next >= 0; steps++) {
    const ring_rank_block *rank_block = ring_shm_rank_block(call->shm, next);
    uint64_t looked = atomic_load_explicit(&rank_block->checked, memory_order_relaxed);
    if (looked < oldest) stopped = next;
    if (looked < oldest) oldest = looked;
    next = shm_failure_awaited(call, next);
  }
  return stopped;
}

/* Follows the ranks that wait for each other from `index` on, to the rank that blocks them all. */
static int shm_failure_find_cause(const ring_shm_call *call, int index) {
  int next = index;
  for (int steps = 0; steps < call->shm->size && next >= 0; steps++) {
    index = next;
    next = shm_failure_awaited(call, index);
  }
  return next < 0 ? index : shm_failure_find_stopped(call, index);
}

/* Writes "rank 1 (host; last seen in barrier() as call 16), ...": the ranks that have not come to
 * the call, or, if all have, `index`. Returns the rank at fault: the rank that blocks `index`, if
 * `index` is listed, else the rank that blocks the first one listed. */
static int shm_failure_list_missing(const ring_shm_call *call, int index, char *text, size_t size) {
  const ring_shm *shm = call->shm;
  int missing = shm_failure_count_missing(call), fault = -1, listed = 0;
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < shm->size && length < size; i++) {
    if (missing > 0 ? shm_failure_has_come(call, i) : i != index) continue;
    if (fault < 0 || i == index) fault = i;
    if (++listed > SHM_FAILURE_LISTED) continue;
    char last[RING_CALL_TEXT + 32];
    shm_failure_describe_last(call, i, last, sizeof last);
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s%s)", listed > 1 ? ", " : "",
                         shm->ranks[i], shm_failure_host(shm, shm->ranks[i]), last);
  }
  if (missing > SHM_FAILURE_LISTED && length < size)
    snprintf(text + length, size - length, " and %d more", missing - SHM_FAILURE_LISTED);
  return fault < 0 ? -1 : shm->ranks[shm_failure_find_cause(call, fault)];
}

static ring_status shm_failure_time_out(const ring_shm_call *call, int index, ring_status why,
                                        const ring_wait *wait) {
  char text[RING_CALL_TEXT], ranks[640];
  const ring_shm *shm = call->shm;
  int own_rank = shm->ranks[shm->index];
  ring_call_describe(call->call, text, sizeof text);
  if (why == RING_ABORTED) return ring_wait_aborted(wait, own_rank, text, call->error);
  int fault = shm_failure_list_missing(call, index, ranks, sizeof ranks);
  return ring_error_set(call->error, RING_TIMEOUT, fault, 0, "rank %d waited %.1f s in %s for %s",
                        own_rank, ring_wait_seconds(wait), text, ranks);
}

static void shm_failure_warn(const ring_shm_call *call, int index, const ring_wait *wait) {
  char text[RING_CALL_TEXT], ranks[640], message[sizeof call->error->message];
  ring_call_describe(call->call, text, sizeof text);
  shm_failure_list_missing(call, index, ranks, sizeof ranks);
  snprintf(message, sizeof message, "rank %d has waited %.1f s in %s for: %s",
           call->shm->ranks[call->shm->index], ring_wait_seconds(wait), text, ranks);
  ring_wait_warn(wait, message);
}

/* ---- Ranks that have left the call -------------------------------------------------------- */

/* This call or an earlier call differs between the two ranks. The earlier call's slot may have been
 * reused. */
ring_status ring_shm_differs(const ring_shm_call *call, int index) {
  const ring_shm *shm = call->shm;
  const ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
  for (uint32_t back = RING_SLOTS; back-- > 0;) {
    uint32_t slot = (shm->sequence - back) % RING_SLOTS;
    uint64_t flag = atomic_load_explicit(&rank_block->slots[slot].flag, memory_order_acquire);
    ring_call theirs = ring_shm_slot_call(shm, index, slot);
    ring_call own = ring_shm_slot_call(shm, shm->index, slot);
    if ((uint32_t)(flag >> 32) == shm->sequence - back && !ring_call_is_same(&theirs, &own))
      return shm_failure_report_mismatch(call, index, &theirs, &own);
  }
  return ring_error_set(call->error, RING_MISMATCH, shm->ranks[index], 0,
                        "the ranks made different calls: rank %d and rank %d differ in a call "
                        "before call %u",
                        shm->ranks[index], shm->ranks[shm->index], (unsigned)call->call->sequence);
}

/* A failed rank sets a flag without digest (shm_failure_leave). Its error may still be in
 * flight. */
ring_status ring_shm_left(const ring_shm_call *call, int index, uint64_t flag) {
  uint64_t give_up = ring_platform_now() + SHM_FAILURE_QUIET_NS;
  while (!ring_shm_failed(call->shm, NULL, call->error)) {
    if ((uint32_t)flag != 0) return ring_shm_differs(call, index);
    if (ring_platform_now() > give_up) return shm_failure_report_lost(call, index);
    sched_yield();
  }
  return call->error->status;
}

ring_status ring_shm_misleads(const ring_shm_call *call, int index) {
  char text[RING_CALL_TEXT];
  int rank = call->shm->ranks[index];
  ring_call_describe(call->call, text, sizeof text);
  return ring_error_set(
      call->error, RING_PEER_LOST, rank, 0,
      "rank %d (%s) reported in %s buffers that lie outside the shared memory of this "
      "host: something has overwritten that memory, or they are not "
      "aligned",
      rank, shm_failure_host(call->shm, rank), text);
}

/* Whether a rank waits for this rank to send or receive a message that this rank has not begun. */
static bool shm_failure_expects_message(const ring_shm *shm, int index, const ring_call *theirs) {
  int own = shm->ranks[shm->index];
  const ring_message_counts *messages = &shm->peers->peer[shm->ranks[index]].messages;
  if (theirs->root == own) return (int32_t)(theirs->sequence - messages->sent) > 0;
  return theirs->digest == ring_shm_receiver(own) &&
         (int32_t)(theirs->sequence - messages->received) > 0;
}

/* Whether a rank has announced a call which shows that it will not come to this call. *own becomes
 * the call that this rank made instead: this call, or an earlier call in which it waited for no
 * rank. */
static bool shm_failure_is_elsewhere(const ring_shm_call *call, int index, ring_call *theirs,
                                     ring_call *own) {
  const ring_shm *shm = call->shm;
  *own = *call->call;
  if (!ring_shm_announced(shm, index, theirs)) return false;
  if (theirs->collective == 0) return false;
  if (theirs->collective == RING_COLLECTIVE_MESSAGE)
    return shm_failure_expects_message(shm, index, theirs);
  if ((int32_t)(theirs->sequence - own->sequence) >= 0) return !ring_call_is_same(theirs, own);
  for (uint32_t i = 0; i < RING_SLOTS; i++) {
    *own = ring_shm_slot_call(shm, shm->index, i);
    if (own->collective != 0 && own->sequence == theirs->sequence)
      return !ring_call_is_same(theirs, own);
  }
  return false;
}

/* Reports a rank that will not come: `index`, or a rank that others in this call wait for. The
 * announced call is read before the slot: a rank that has published and gone on is seen to have
 * come. */
static ring_status shm_failure_check_calls(const ring_shm_call *call, int index) {
  ring_call theirs, own;
  for (int i = 0; i < call->shm->size; i++)
    if (i != call->shm->index && shm_failure_is_elsewhere(call, i, &theirs, &own) &&
        (i == index || !shm_failure_has_come(call, i)))
      return shm_failure_report_mismatch(call, i, &theirs, &own);
  return RING_OK;
}

/* Reports a rank that has died. In close() a rank may end once it has published, unless it is
 * `index`. */
static ring_status shm_failure_check_lives(const ring_shm_call *call, int index) {
  const ring_shm *shm = call->shm;
  bool closing = call->call->collective == RING_COLLECTIVE_CLOSE;
  for (int i = 0; i < shm->size; i++) {
    const ring_slot *slot = ring_shm_slot(call, i);
    if (i == shm->index || ring_arena_taken(shm->arena, i)) continue;
    uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire);
    bool may_go = closing && i != index && ring_shm_reached(flag, shm->sequence);
    if (!may_go) return shm_failure_report_lost(call, i);
  }
  return RING_OK;
}

ring_status ring_shm_check(const ring_shm_call *call, int index, ring_wait *wait) {
  if (ring_shm_failed(call->shm, wait, call->error)) return call->error->status;
  ring_status status = ring_wait_check(wait);
  if (status != RING_OK) return shm_failure_time_out(call, index, status, wait);
  if (ring_wait_lasts(wait)) shm_failure_warn(call, index, wait);
  status = shm_failure_check_calls(call, index);
  return status == RING_OK ? shm_failure_check_lives(call, index) : status;
}
