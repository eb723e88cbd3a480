/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/mismatch.h"

#include "engine/detector/run_error.h"
#include "engine/detector/wait_graph.h"
#include "shm/control_block.h"

static bool mismatch_is_numbered(const ring_call *call) {
  return call->collective != 0 && call->collective != RING_COLLECTIVE_MESSAGE &&
         !ring_collective_opens(call->collective);
}

/* The i-th known call of this rank, over links first, then in shared memory; false behind the
 * last. */
static bool mismatch_own_call(const ring_engine *engine, uint32_t i, ring_call *call) {
  const ring_shm *shm = engine->shm;
  *call = (ring_call){0};
  if (i < RING_ENGINE_RUNS) {
    *call = engine->calls[i];
    return true;
  }
  if (shm->arena == NULL || i - RING_ENGINE_RUNS >= RING_SLOTS) return false;
  *call = ring_shm_slot_call(shm, shm->index, i - RING_ENGINE_RUNS);
  return true;
}

/* Whether a rank and this rank made different calls in the same place. Sets *own to this rank's
 * call. */
static bool mismatch_differs(const ring_run *run, int rank, const ring_call *theirs,
                             ring_call *own) {
  const ring_peers *peers = run->engine->peers;
  if (theirs->collective == RING_COLLECTIVE_MESSAGE) {
    *own = run->task->call;
    return theirs->root == peers->rank &&
           (int32_t)(theirs->sequence - peers->peer[rank].messages.sent) > 0;
  }
  if (!mismatch_is_numbered(theirs)) return false;
  for (uint32_t i = 0; mismatch_own_call(run->engine, i, own); i++)
    if (mismatch_is_numbered(own) && own->sequence == theirs->sequence)
      return !ring_call_is_same(theirs, own);
  return false;
}

/* True when this rank certainly has not reached a call yet. */
static bool mismatch_is_unreached(const ring_engine *engine, const ring_call *call) {
  bool known = engine->runs < RING_ENGINE_RUNS;
  ring_call own;
  if (!mismatch_is_numbered(call)) return false;
  for (uint32_t i = 0; mismatch_own_call(engine, i, &own); i++) {
    if (!mismatch_is_numbered(&own)) continue;
    known = true;
    if ((int32_t)(own.sequence - call->sequence) >= 0) return false;
  }
  return known;
}

/* Whether the sender of a report, for which this rank waits, cannot go on without this rank. */
static bool mismatch_waits_back(const ring_run *run, const ring_wait_report *theirs) {
  for (int i = 0; i < theirs->count; i++)
    if (theirs->suspects[i].rank == run->engine->peers->rank &&
        (theirs->suspects[i].state & RING_SUSPECT_NEEDED) != 0)
      return mismatch_is_unreached(run->engine, &theirs->call);
  return false;
}

/* Whether a rank of this host shows in shared memory (stall.c) that it sends this rank a message
 * that this rank has not begun to receive. Its link stands inside a frame and carries no wait
 * reports. */
static bool mismatch_is_offered(const ring_run *run, int rank, ring_call *theirs) {
  const ring_shm *shm = run->engine->shm;
  const ring_peers *peers = run->engine->peers;
  int index = shm->arena != NULL ? ring_shm_index(shm, rank) : -1;
  return index >= 0 && ring_shm_announced(shm, index, theirs) &&
         theirs->collective == RING_COLLECTIVE_MESSAGE &&
         theirs->digest == ring_shm_receiver(peers->rank) &&
         (int32_t)(theirs->sequence - peers->peer[rank].messages.received) > 0;
}

static ring_status mismatch_check_lane(const ring_run *run, size_t lane) {
  int rank = run_lane(run, lane)->peer;
  const ring_wait_report *theirs = ring_wait_graph_report(run, rank);
  ring_call own = run->task->call, offered;
  if (mismatch_is_offered(run, rank, &offered))
    return ring_run_error_mismatch(run, rank, &offered, &own);
  if (theirs == NULL || run_lane(run, lane)->kind != RING_LANE_RECV) return RING_OK;
  bool message = theirs->call.collective == RING_COLLECTIVE_MESSAGE;
  if ((message && mismatch_differs(run, rank, &theirs->call, &own)) ||
      mismatch_waits_back(run, theirs))
    return ring_run_error_mismatch(run, rank, &theirs->call, &own);
  return RING_OK;
}

ring_status ring_mismatch_check(const ring_run *run, const ring_wait_report *report) {
  ring_status status = RING_OK;
  ring_call own;
  for (size_t lane = 0; lane < run->task->schedule->lane_count && status == RING_OK; lane++)
    if (ring_wait_graph_blocks(run, lane)) status = mismatch_check_lane(run, lane);
  for (int i = 0; i < report->count && status == RING_OK; i++) {
    const ring_suspect *suspect = &report->suspects[i];
    bool waits = (suspect->state & RING_SUSPECT_STATE) == RING_SUSPECT_WAITS;
    if (waits && mismatch_differs(run, suspect->rank, &suspect->call, &own))
      status = ring_run_error_mismatch(run, suspect->rank, &suspect->call, &own);
  }
  return status;
}

ring_status ring_mismatch_received(const ring_run *run, int rank) {
  const ring_call *theirs = &run->engine->peers->peer[rank].outbox->last.call;
  ring_call own;
  if (theirs->collective == RING_COLLECTIVE_MESSAGE) return RING_OK; /* see mismatch_check_lane */
  if (!mismatch_differs(run, rank, theirs, &own)) return RING_OK;
  return ring_run_error_mismatch(run, rank, theirs, &own);
}
