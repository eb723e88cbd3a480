/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "engine/detector/failure_frame.h"
#include "engine/detector/inbox.h"
#include "engine/detector/run_error.h"
#include "engine/detector/wait_graph.h"

/* How long this rank waits for a report of the cause: after a link broke; after a link broke while
 * the communicator opens, when fewer ranks have links; and after a link could not be opened. In the
 * last case the lost rank may have ended in order, and peers with a link to it may be slow to pass
 * its report on. */
#define FAILURE_GRACE_MS 20
#define FAILURE_GRACE_OPENING_MS 100
#define FAILURE_GRACE_UNLINKED_MS 300

/* The longest frame that is skipped to reach the frames behind it, and the most frames in one
 * go. */
#define FAILURE_SKIP_BYTES 1024
#define FAILURE_SKIPS 64

/* Whether this rank has waited for its peers about as long as they waited for it. If not, this rank
 * was late, slow or suspended, and is itself the cause of their timeout. */
static bool failure_was_waiting(const ring_run *run) {
  return run->timed && ring_wait_is_old(run->task->wait);
}

/* The errno for which this rank could not accept links of its peers, or 0. */
static int failure_lacked(const ring_peers *peers) {
  return peers->acceptor.lacked != 0 ? peers->acceptor.lacked : peers->shm_acceptor.lacked;
}

/* Whether this rank could not accept links of its peers. */
static bool failure_lacks(const ring_peers *peers) {
  return failure_lacked(peers) != 0 || peers->acceptor.starved;
}

/* Receives the rest of a FAIL frame, and fails this run with the error in it. */
static ring_status failure_adopt(ring_run *run, int rank, const ring_frame *fail) {
  char text[sizeof run->error->message];
  ring_failure_frame_receive(run->engine->peers->peer[rank].link, fail, text, sizeof text);
  run->engine->peers->peer[rank].ended = true;
  bool known = fail->call.op != RING_OK &&
               strcmp(ring_status_name((ring_status)fail->call.op), "UNKNOWN") != 0;
  ring_status status = known ? (ring_status)fail->call.op : RING_ABORTED;
  int fault = fail->call.root;
  /* A peer blames this rank. If this rank was waiting itself, it blames the rank that it waited
   * for. Otherwise this rank is the cause. */
  bool blamed = fault == run->engine->peers->rank && failure_was_waiting(run);
  if (status == RING_TIMEOUT && (blamed || failure_lacks(run->engine->peers)))
    return ring_failure_wait_ended(run, RING_TIMEOUT);
  if (status == RING_TIMEOUT && fault == run->engine->peers->rank)
    return ring_error_missed(run->error, fault, text);
  bool exists = fault >= 0 && fault < run->engine->peers->size;
  if (text[0] == '\0')
    return ring_error_set(run->error, status, rank, 0, "rank %d (%s) failed and reported no cause",
                          rank, ring_peers_name(run->engine->peers, rank));
  return ring_error_set(run->error, status, exists ? fault : -1, 0, "%s", text);
}

/* The mismatch that a frame of another call shows. progress: of the lane that read the frame, or
 * NULL. */
static ring_status failure_mismatch(ring_run *run, int rank, const ring_frame *frame,
                                    const ring_lane_progress *progress) {
  char theirs[RING_CALL_TEXT], ours[RING_CALL_TEXT];
  int own_rank = run->engine->peers->rank;
  ring_call_describe(&frame->call, theirs, sizeof theirs);
  ring_call_describe(&run->task->call, ours, sizeof ours);
  bool same = frame->call.digest == run->task->call.digest && strcmp(theirs, ours) == 0;
  if (progress != NULL && same) /* the signature does not hold the counts of each pair of ranks */
    return ring_error_set(
        run->error, RING_MISMATCH, rank, 0,
        "the ranks disagree on counts: in %s rank %d sends %u bytes where rank %d "
        "expects %zu",
        ours, rank, (unsigned)frame->length, own_rank, progress->frame_bytes - RING_HEADER_BYTES);
  return ring_run_error_mismatch(run, rank, &frame->call, &run->task->call);
}

/* Whether an unread frame shows that its sender called something else than this rank. A frame of a
 * later call may wait. A lane would have read a frame of an earlier call, if this rank had made the
 * same call. Messages and the calls of open have sequence numbers of their own. */
static bool failure_differs(const ring_call *theirs, const ring_call *own) {
  int32_t ahead = (int32_t)(theirs->sequence - own->sequence);
  if (ring_collective_opens(theirs->collective) || ring_collective_opens(own->collective) ||
      theirs->collective == RING_COLLECTIVE_MESSAGE || own->collective == RING_COLLECTIVE_MESSAGE)
    return false;
  return ahead < 0 || (ahead == 0 && !ring_call_is_same(theirs, own));
}

bool ring_failure_receive(ring_run *run, int rank, ring_status *status) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame;
  *status = ring_inbox_receive(run, rank);
  if (*status != RING_OK) return true;
  if (peer->outbox->have > 0) return false;
  if (peer->link->ops->peek(peer->link, header, sizeof header) < (ssize_t)sizeof header)
    return false;
  if (!ring_frame_unpack(header, &frame)) return false;
  if (frame.kind == RING_FRAME_DATA) {
    if (!failure_differs(&frame.call, &run->task->call)) return false;
    *status = failure_mismatch(run, rank, &frame, NULL);
    return true;
  }
  if (frame.kind != RING_FRAME_FAIL) return false; /* a wait report that has only just come */
  struct iovec piece = {header, sizeof header};
  if (peer->link->ops->receive(peer->link, &piece, 1) < (ssize_t)sizeof header) return false;
  *status = failure_adopt(run, rank, &frame);
  return true;
}

/* Whether a lane has read a part of a frame from this rank. */
static bool failure_is_mid_frame(const ring_run *run, int rank) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane_progress *progress = &run->engine->progress[lane];
    const ring_lane *shape = run_lane(run, lane);
    bool reads = shape->kind == RING_LANE_RECV && shape->peer == rank && progress->active;
    if (reads && progress->moved > 0) return true;
  }
  return false;
}

/* Reads bytes that have come, into `bytes` or, where that is NULL, to discard them. */
static bool failure_read(ring_link *link, uint8_t *bytes, size_t length) {
  uint8_t discarded[4096];
  for (size_t have = 0; have < length;) {
    size_t left = length - have, capacity = left < sizeof discarded ? left : sizeof discarded;
    struct iovec piece = {bytes != NULL ? bytes + have : discarded,
                          bytes != NULL ? left : capacity};
    ssize_t got = link->ops->receive(link, &piece, 1);
    if (got <= 0) return false;
    have += (size_t)got;
  }
  return true;
}

/* Discards a short frame that has come as a whole. */
static bool failure_skip(const ring_peer *peer) {
  uint8_t bytes[FAILURE_SKIP_BYTES];
  ring_frame frame;
  if (peer->outbox->have > 0) return false;
  ssize_t there = peer->link->ops->peek(peer->link, bytes, sizeof bytes);
  if (there < RING_HEADER_BYTES || !ring_frame_unpack(bytes, &frame)) return false;
  size_t length = RING_HEADER_BYTES + (size_t)frame.length;
  bool whole = frame.kind == RING_FRAME_DATA && length <= (size_t)there;
  return whole && failure_read(peer->link, NULL, length);
}

/* Whether a peer has reported a failure or shows a mismatch. Where this run fails in any case,
 * discards the frames in front of a report. */
static bool failure_poll(ring_run *run, bool fails, ring_status *status) {
  const ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    int other = peers->linked[i];
    if (peers->peer[other].ended || failure_is_mid_frame(run, other)) continue;
    for (int skips = 0; skips < FAILURE_SKIPS; skips++) {
      if (ring_failure_receive(run, other, status)) return true;
      if (!fails || !failure_skip(&peers->peer[other])) break;
    }
  }
  return false;
}

/* Polls for a report for so many milliseconds. The clock counts them: on a busy machine each sleep
 * takes longer. */
static bool failure_await(ring_run *run, int milliseconds, bool fails, ring_status *status) {
  uint64_t end = ring_platform_now() + (uint64_t)milliseconds * 1000000;
  do {
    poll(NULL, 0, FAILURE_GRACE_MS);
    if (failure_poll(run, fails, status)) return true;
  } while (ring_platform_now() < end);
  return false;
}

bool ring_failure_await_report(ring_engine *engine, const ring_call *call, ring_error *error) {
  const ring_task task = {.schedule = &ring_schedule_empty, .call = *call};
  ring_run run = {.engine = engine, .task = &task, .error = error};
  ring_status status;
  return failure_await(&run, FAILURE_GRACE_MS, false, &status);
}

ring_status ring_failure_unlinked(ring_run *run, ring_status status) {
  char call[RING_CALL_TEXT];
  ring_error why;
  bool opens = ring_collective_opens(run->task->call.collective);
  /* A rank that fails while a link of several connections opens refuses the rest of them. */
  if (status != RING_PEER_LOST && !(opens && status == RING_ABORTED)) return status;
  why = *run->error;
  if (failure_await(run, FAILURE_GRACE_UNLINKED_MS, true, &status)) return status;
  ring_call_describe(&run->task->call, call, sizeof call);
  ring_error_set(run->error, why.status, why.rank, 0, "%.800s; this was found in %s", why.message,
                 call);
  run->error->system_errno = why.system_errno;
  return why.status;
}

/* Whether a rank that has ended left a report behind frames of calls that this rank has not
 * reached. No lane will read these frames, so they are discarded. */
static bool failure_find_behind(ring_run *run, int rank, ring_status *status) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame = {.length = 0};
  if (failure_is_mid_frame(run, rank) || peer->outbox->have > 0) return false;
  do {
    if (!failure_read(peer->link, NULL, frame.length)) return false;
    if (!failure_read(peer->link, header, sizeof header)) return false;
    if (!ring_frame_unpack(header, &frame)) return false;
  } while (frame.kind != RING_FRAME_FAIL);
  *status = failure_adopt(run, rank, &frame);
  return true;
}

ring_status ring_failure_lost(ring_run *run, int rank, int code) {
  ring_peers *peers = run->engine->peers;
  ring_status status;
  char call[RING_CALL_TEXT];
  peers->peer[rank].ended = true;
  if (code == ENOMEM) return ring_error_no_memory(run->error, peers->rank);
  bool opens = ring_collective_opens(run->task->call.collective);
  int grace = opens ? FAILURE_GRACE_OPENING_MS : FAILURE_GRACE_MS;
  if (failure_find_behind(run, rank, &status) || failure_await(run, grace, true, &status))
    return status;
  ring_call_describe(&run->task->call, call, sizeof call);
  double absence = run->timed ? ring_wait_absence(run->task->wait) : 0;
  if (absence > 0 && (code == EPIPE || code == ECONNRESET))
    return ring_error_set(
        run->error, RING_ABORTED, peers->rank, 0,
        "rank %d was stopped for %.1f s during %s, and rank %d (%s) has ended the "
        "connection meanwhile: peers timed out waiting for this rank",
        peers->rank, absence, call, rank, ring_peers_name(peers, rank));
  return ring_error_set(run->error, RING_PEER_LOST, rank, code == EPIPE ? 0 : code,
                        "rank %d (%s) was lost during %s%s", rank, ring_peers_name(peers, rank),
                        call, code == EPIPE ? ": it ended the connection" : "");
}

ring_status ring_failure_unexpected(ring_run *run, size_t lane) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  int rank = run_lane(run, lane)->peer;
  ring_frame frame;
  if (!ring_frame_unpack(progress->header, &frame)) return ring_run_error_damage(run, rank);
  if (frame.kind == RING_FRAME_DATA) return failure_mismatch(run, rank, &frame, progress);
  if (frame.kind == RING_FRAME_FAIL) return failure_adopt(run, rank, &frame);
  progress->moved = 0;
  return ring_inbox_begin(run, rank, progress->header);
}

ring_status ring_failure_wait_ended(ring_run *run, ring_status why) {
  char call[RING_CALL_TEXT], suspects[640];
  ring_call_describe(&run->task->call, call, sizeof call);
  int rank = ring_wait_graph_describe(run, suspects, sizeof suspects);
  if (why == RING_ABORTED)
    return ring_wait_aborted(run->task->wait, run->engine->peers->rank, call, run->error);
  const ring_peers *peers = run->engine->peers;
  if (failure_lacks(peers))
    return ring_error_set(run->error, RING_SYSTEM, peers->rank, failure_lacked(peers),
                          "rank %d could not accept links of other ranks in %s", peers->rank, call);
  return ring_error_set(run->error, RING_TIMEOUT, rank, 0, "rank %d waited %.1f s in %s for %s",
                        run->engine->peers->rank, ring_wait_seconds(run->task->wait), call,
                        suspects);
}
