/* SPDX-License-Identifier: Apache-2.0
 *
 * How a share fails. Who fails first writes down why on the board and wakes all; everybody else
 * looks there before each call, between the pieces of a long one, and after every sleep, and fails
 * for the same reason. A rank returns from the call only when nobody can write to its buffers any
 * more: when all have left the call, or these have been withdrawn from one that was stopped in it.
 *
 * Nobody may be left to write anything down: a rank may have died, or be in another call. Who has
 * waited for long looks for that: whether the places of the others are still taken, and what they
 * announced.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "failure.h"
#include "platform.h"
#include "share.h"

#define SHARE_QUIET_NS UINT64_C(500000000)
#define SHARE_LISTED 4 /* ranks that a text names */

/* ---- Of this rank ------------------------------------------------------------------------- */

/* Whether a rank has come to the very call that this one is in. Of one that is several calls of the
 * share, ranks are no more than RING_ROOMS apart. */
static bool share_is_here(const ring_share *share, const ring_seat *seat) {
  const ring_seat *own = ring_share_seat(share, share->index);
  uint32_t behind = share->sequence - share->entered;
  for (uint32_t back = 0; back <= behind && back <= RING_ROOMS; back++) {
    uint32_t sequence = share->sequence - back, slot = sequence % RING_SLOTS;
    uint64_t flag = atomic_load_explicit(&own->slots[slot].flag, memory_order_relaxed);
    if ((uint32_t)(flag >> 32) == sequence &&
        atomic_load_explicit(&seat->slots[slot].flag, memory_order_acquire) == flag)
      return true;
  }
  return false;
}

/* Whether another rank that came to this very call is still in it. Who came to another call in its
 * place never touches this rank's buffers, and may be gone for long. */
static bool share_is_in_use(const ring_share *share) {
  for (int i = 0; i < share->size; i++) {
    const ring_seat *seat = ring_share_seat(share, i);
    if (i != share->index && share_is_here(share, seat) &&
        !ring_share_reached(atomic_load_explicit(&seat->done, memory_order_acquire),
                            share->entered) &&
        ring_arena_taken(share->arena, i))
      return true;
  }
  return false;
}

/* Waits until the others have left the call. They look for failures, piece by piece: who comes after the
 * barrier sees this one. One that was stopped does not, and would go on with its piece whenever it is
 * continued: what it writes no longer gets here. */
static void share_quiet(ring_share *share) {
  uint64_t give_up = ring_platform_now() + SHARE_QUIET_NS;
  share->exposed = false;
  if (!share->fenced) ring_platform_barrier();
  atomic_thread_fence(memory_order_seq_cst);
  while (share_is_in_use(share)) {
    if (ring_platform_now() < give_up) {
      sched_yield();
      continue;
    }
    ring_arena_withdraw(share->arena, share->output, share->output_bytes);
    if (share->stage != NULL) ring_arena_withdraw(share->arena, share->stage, RING_STAGE);
    return;
  }
}

/* A call that this rank has not finished needs nothing more of it: it has failed. */
static void share_leave(const ring_share *share) {
  _Atomic uint64_t *done = &ring_share_seat(share, share->index)->done;
  if (!ring_share_reached(atomic_load_explicit(done, memory_order_relaxed), share->sequence))
    atomic_store_explicit(done, (uint64_t)share->sequence << 32, memory_order_release);
}

void ring_share_fail(ring_share *share, const ring_error *error) {
  uint32_t nobody = 0;
  if (share->arena == NULL) return;
  if (atomic_compare_exchange_strong(&share->board->failed, &nobody, 1)) {
    share->board->failure = *error;
    atomic_store_explicit(&share->board->failed, 2, memory_order_release);
  }
  share_leave(share);
  for (int i = 0; i < share->size; i++) {
    atomic_fetch_add_explicit(&ring_share_seat(share, i)->wake, 1, memory_order_release);
    ring_platform_wake(&ring_share_seat(share, i)->wake);
  }
  if (share->exposed) share_quiet(share);
}

/* What stands on the board; any rank may have overwritten that. */
static void share_read_failure(const ring_share *share, ring_error *error) {
  *error = share->board->failure;
  error->message[sizeof error->message - 1] = '\0';
  bool known = strcmp(ring_status_name(error->status), "UNKNOWN") != 0;
  if (!known || error->status == RING_OK) error->status = RING_ABORTED;
  if (error->rank < 0 || error->rank >= share->peers->size) error->rank = -1;
}

bool ring_share_failed(const ring_share *share, const ring_wait *wait, ring_error *error) {
  if (share->arena == NULL) return false;
  if (atomic_load_explicit(&share->board->failed, memory_order_acquire) != 2) return false;
  share_read_failure(share, error);
  bool late = wait == NULL || ring_wait_was_away(wait) || !ring_wait_is_old(wait);
  if (late && error->status == RING_TIMEOUT && error->rank == share->ranks[share->index])
    ring_failure_given_up(error->rank, error->message, error);
  return true;
}

/* ---- Its words ---------------------------------------------------------------------------- */

static const char *share_host(const ring_share *share, int rank) {
  return ring_peers_host(share->peers, rank);
}

/* "allreduce(...) as call 1, of names a, b": the call of a rank. */
static void share_describe_call(const ring_share *share, int index, const ring_call *call,
                                char *text, size_t size) {
  char description[RING_DESCRIPTION_BYTES];
  ring_share_description(share, index, call->layout, description);
  ring_call_describe_array(call, description, text, size);
}

static ring_status share_mismatch(const ring_share_call *call, int index, const ring_call *theirs,
                                  const ring_call *own) {
  char their_text[RING_CALL_LONG_TEXT], own_text[RING_CALL_LONG_TEXT];
  const ring_share *share = call->share;
  int rank = share->ranks[index], own_rank = share->ranks[share->index];
  share_describe_call(share, index, theirs, their_text, sizeof their_text);
  share_describe_call(share, share->index, own, own_text, sizeof own_text);
  if (strcmp(their_text, own_text) == 0)
    return ring_error_set(call->error, RING_MISMATCH, rank, 0,
                          "the ranks disagree on counts: rank %d passed others to %s than rank %d",
                          rank, own_text, own_rank);
  return ring_error_set(call->error, RING_MISMATCH, rank, 0,
                        "the ranks called different things: rank %d called %s, rank %d called %s",
                        rank, their_text, own_rank, own_text);
}

/* The failure of a call because the process of a rank has ended. */
static ring_status share_lost(const ring_share_call *call, int index) {
  char text[RING_CALL_TEXT];
  int rank = call->share->ranks[index];
  ring_call_describe(call->call, text, sizeof text);
  return ring_error_set(call->error, RING_PEER_LOST, rank, 0,
                        "rank %d (%s) was lost during %s: its process has ended", rank,
                        share_host(call->share, rank), text);
}

/* Whether a rank has come as far as the call: it has said its part, or what it announced last is the
 * call itself. */
static bool share_came(const ring_share_call *call, int index) {
  ring_call theirs;
  uint64_t flag = atomic_load_explicit(&ring_share_slot(call, index)->flag, memory_order_acquire);
  if (index == call->share->index || ring_share_reached(flag, call->share->sequence)) return true;
  return ring_share_heard(call->share, index, &theirs) && ring_call_is_same(&theirs, call->call);
}

static int share_missing(const ring_share_call *call) {
  int missing = 0;
  for (int i = 0; i < call->share->size; i++) missing += !share_came(call, i);
  return missing;
}

/* Whether a rank keeps others from going on: it has not come, or, where all have, not finished. */
static bool share_keeps(const ring_share_call *call, int index) {
  const _Atomic uint64_t *done = &ring_share_seat(call->share, index)->done;
  if (index == call->share->index) return false;
  if (share_missing(call) > 0) return !share_came(call, index);
  return !ring_share_reached(atomic_load_explicit(done, memory_order_acquire),
                             call->share->sequence);
}

/* Whom a rank waits for, if that one keeps it, or -1. */
static int share_awaited(const ring_share_call *call, int index) {
  const ring_share *share = call->share;
  const ring_seat *seat = ring_share_seat(share, index);
  int awaits = atomic_load_explicit(&seat->awaits, memory_order_relaxed) - 1;
  if (awaits < 0 || awaits >= share->size) return -1;
  return share_keeps(call, awaits) ? awaits : -1;
}

/* "; last heard in barrier() as call 16" or "; waits for rank 3 in ...", or nothing. */
static void share_describe_last(const ring_share_call *call, int index, char *text, size_t size) {
  char name[RING_CALL_TEXT];
  const ring_share *share = call->share;
  int awaited = share_awaited(call, index);
  ring_call last;
  text[0] = '\0';
  if (!ring_share_heard(share, index, &last) || last.collective == 0) return;
  ring_call_describe(&last, name, sizeof name);
  if (awaited >= 0)
    snprintf(text, size, "; waits for rank %d in %s", share->ranks[awaited], name);
  else
    snprintf(text, size, "; last heard in %s", name);
}

/* Of ranks that wait for each other in a circle, the one that has not looked for longest: it was stopped,
 * and would go on. */
static int share_find_stopped(const ring_share_call *call, int index) {
  uint64_t oldest = UINT64_MAX;
  int stopped = index, next = index;
  for (int steps = 0; steps < call->share->size && next >= 0; steps++) {
    const ring_seat *seat = ring_share_seat(call->share, next);
    uint64_t looked = atomic_load_explicit(&seat->looked, memory_order_relaxed);
    if (looked < oldest) stopped = next;
    if (looked < oldest) oldest = looked;
    next = share_awaited(call, next);
  }
  return stopped;
}

/* Who keeps a rank that is waited for: whom it waits for, or whom that one waits for, and so on. */
static int share_find_cause(const ring_share_call *call, int index) {
  int next = index;
  for (int steps = 0; steps < call->share->size && next >= 0; steps++) {
    index = next;
    next = share_awaited(call, index);
  }
  return next < 0 ? index : share_find_stopped(call, index);
}

/* "rank 1 (host; last heard in barrier() as call 16), ...": who has not come to the call, or else
 * `index`, which is waited for. Returns the rank at fault: `index`, or the first that has not come, or
 * who keeps these. */
static int share_list_missing(const ring_share_call *call, int index, char *text, size_t size) {
  const ring_share *share = call->share;
  int missing = share_missing(call), fault = -1, listed = 0;
  size_t length = 0;
  text[0] = '\0';
  for (int i = 0; i < share->size && length < size; i++) {
    if (missing > 0 ? share_came(call, i) : i != index) continue;
    if (fault < 0 || i == index) fault = i;
    if (++listed > SHARE_LISTED) continue;
    char last[RING_CALL_TEXT + 32];
    share_describe_last(call, i, last, sizeof last);
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s%s)", listed > 1 ? ", " : "",
                         share->ranks[i], share_host(share, share->ranks[i]), last);
  }
  if (missing > SHARE_LISTED && length < size)
    snprintf(text + length, size - length, " and %d more", missing - SHARE_LISTED);
  return fault < 0 ? -1 : share->ranks[share_find_cause(call, fault)];
}

static ring_status share_impatient(const ring_share_call *call, int index, ring_status why,
                                   const ring_wait *wait) {
  char text[RING_CALL_TEXT], whom[640];
  const ring_share *share = call->share;
  int own_rank = share->ranks[share->index];
  ring_call_describe(call->call, text, sizeof text);
  if (why == RING_ABORTED) return ring_wait_aborted(wait, own_rank, text, call->error);
  int fault = share_list_missing(call, index, whom, sizeof whom);
  return ring_error_set(call->error, RING_TIMEOUT, fault, 0, "rank %d waited %.1f s in %s for %s",
                        own_rank, ring_wait_seconds(wait), text, whom);
}

static void share_warn(const ring_share_call *call, int index, const ring_wait *wait) {
  char text[RING_CALL_TEXT], whom[640], message[sizeof call->error->message];
  ring_call_describe(call->call, text, sizeof text);
  share_list_missing(call, index, whom, sizeof whom);
  snprintf(message, sizeof message, "rank %d has waited %.1f s in %s for: %s",
           call->share->ranks[call->share->index], ring_wait_seconds(wait), text, whom);
  ring_wait_tell(wait, message);
}

/* ---- Of another rank ---------------------------------------------------------------------- */

/* This call or one before it is not the same on both ranks. The one before may be gone. */
ring_status ring_share_differs(const ring_share_call *call, int index) {
  const ring_share *share = call->share;
  const ring_seat *seat = ring_share_seat(share, index);
  for (uint32_t back = RING_SLOTS; back-- > 0;) {
    uint32_t slot = (share->sequence - back) % RING_SLOTS;
    uint64_t flag = atomic_load_explicit(&seat->slots[slot].flag, memory_order_acquire);
    ring_call theirs = ring_share_said(share, index, slot);
    ring_call own = ring_share_said(share, share->index, slot);
    if ((uint32_t)(flag >> 32) == share->sequence - back && !ring_call_is_same(&theirs, &own))
      return share_mismatch(call, index, &theirs, &own);
  }
  return ring_error_set(call->error, RING_MISMATCH, share->ranks[index], 0,
                        "the ranks called different things: rank %d and rank %d differ in a call "
                        "before call %u",
                        share->ranks[index], share->ranks[share->index],
                        (unsigned)call->call->sequence);
}

/* Who has failed leaves a flag without digest (share_leave). Why may just be being written down. */
ring_status ring_share_left(const ring_share_call *call, int index, uint64_t flag) {
  uint64_t give_up = ring_platform_now() + SHARE_QUIET_NS;
  while (!ring_share_failed(call->share, NULL, call->error)) {
    if ((uint32_t)flag != 0) return ring_share_differs(call, index);
    if (ring_platform_now() > give_up) return share_lost(call, index);
    sched_yield();
  }
  return call->error->status;
}

ring_status ring_share_misleads(const ring_share_call *call, int index) {
  char text[RING_CALL_TEXT];
  int rank = call->share->ranks[index];
  ring_call_describe(call->call, text, sizeof text);
  return ring_error_set(
      call->error, RING_PEER_LOST, rank, 0,
      "rank %d (%s) says in %s that its buffers lie where the memory of this host "
      "does not hold them: something has overwritten that memory, or they are not "
      "aligned",
      rank, share_host(call->share, rank), text);
}

/* Whether a rank waits for this one to send or to take a message, which this one has not begun to. */
static bool share_expects(const ring_share *share, int index, const ring_call *theirs) {
  int own = share->ranks[share->index];
  const ring_messages *messages = &share->peers->peer[share->ranks[index]].messages;
  if (theirs->root == own) return (int32_t)(theirs->sequence - messages->sent) > 0;
  return theirs->layout == ring_share_receiver(own) &&
         (int32_t)(theirs->sequence - messages->received) > 0;
}

/* Whether a rank is in a call that shows that it will not come, unless it has been here. *own becomes
 * what this rank called instead: now, or before, without waiting for anybody. */
static bool share_elsewhere(const ring_share_call *call, int index, ring_call *theirs,
                            ring_call *own) {
  const ring_share *share = call->share;
  *own = *call->call;
  if (!ring_share_heard(share, index, theirs)) return false;
  if (theirs->collective == 0) return false;
  if (theirs->collective == RING_COLLECTIVE_MESSAGE) return share_expects(share, index, theirs);
  if ((int32_t)(theirs->sequence - own->sequence) >= 0) return !ring_call_is_same(theirs, own);
  for (uint32_t i = 0; i < RING_SLOTS; i++) {
    *own = ring_share_said(share, share->index, i);
    if (own->collective != 0 && own->sequence == theirs->sequence)
      return !ring_call_is_same(theirs, own);
  }
  return false;
}

/* Looks for a rank that will not come: the one that is waited for, or one that others here wait for.
 * What came before a word on the board can be seen after it. */
static ring_status share_check_calls(const ring_share_call *call, int index) {
  ring_call theirs, own;
  for (int i = 0; i < call->share->size; i++)
    if (i != call->share->index && share_elsewhere(call, i, &theirs, &own) &&
        (i == index || !share_came(call, i)))
      return share_mismatch(call, i, &theirs, &own);
  return RING_OK;
}

/* Looks for a rank that has died. One that has done its part of closing may go, unless it is the one
 * waited for. */
static ring_status share_check_lives(const ring_share_call *call, int index) {
  const ring_share *share = call->share;
  bool closing = call->call->collective == RING_COLLECTIVE_CLOSE;
  for (int i = 0; i < share->size; i++) {
    const ring_slot *slot = ring_share_slot(call, i);
    if (i == share->index || ring_arena_taken(share->arena, i)) continue;
    uint64_t flag = atomic_load_explicit(&slot->flag, memory_order_acquire);
    bool may_go = closing && i != index && ring_share_reached(flag, share->sequence);
    if (!may_go) return share_lost(call, i);
  }
  return RING_OK;
}

/* After a sleep: why there may be nothing to wait for. */
ring_status ring_share_check(const ring_share_call *call, int index, ring_wait *wait) {
  ring_peers_answer(call->share->peers, &call->share->poller);
  if (ring_share_failed(call->share, wait, call->error)) return call->error->status;
  ring_status status = ring_wait_check(wait);
  if (status != RING_OK) return share_impatient(call, index, status, wait);
  if (ring_wait_lasts(wait)) share_warn(call, index, wait);
  status = share_check_calls(call, index);
  return status == RING_OK ? share_check_lives(call, index) : status;
}
