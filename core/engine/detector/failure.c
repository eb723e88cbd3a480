/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/failure.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/platform.h"
#include "engine/detector/mismatch.h"
#include "engine/detector/wait_graph.h"

/* How long a broken link waits for another rank to say why; one of a communicator that is being opened,
 * where fewer ranks have links; and one that could not be opened, for a rank that is gone in order has
 * told others, who may be slow to pass it on. */
#define FAILURE_GRACE_MS 20
#define FAILURE_GRACE_OPENING_MS 100
#define FAILURE_GRACE_UNLINKED_MS 300

/* The longest frame that is skipped for what is behind it, and how many are in one go. */
#define FAILURE_SKIP_BYTES 1024
#define FAILURE_SKIPS 64

/* ---- Finding ------------------------------------------------------------------------------ */

/* Whether this rank has waited for others as long as others for it, about. If not, it came late, was
 * slow or stopped, and is itself what they waited for. */
static bool failure_waits_in_turn(const ring_run *run) {
  return run->timed && ring_wait_is_old(run->task->wait);
}

/* Whether this rank could not accept others, and the errno if there is one. */
static int failure_lacked(const ring_peers *peers) {
  return peers->acceptor.lacked != 0 ? peers->acceptor.lacked : peers->annex.lacked;
}

static bool failure_lacks(const ring_peers *peers) {
  return failure_lacked(peers) != 0 || peers->acceptor.starved;
}

/* Reads the rest of a FAIL frame and adopts its failure. */
static ring_status failure_adopt(ring_run *run, int rank, const ring_frame *fail) {
  char text[sizeof run->error->message];
  size_t have = 0;
  ring_link *link = run->engine->peers->peer[rank].link;
  size_t length =
      fail->length < sizeof run->error->message ? fail->length : sizeof run->error->message - 1;
  uint64_t give_up = ring_platform_now() + RING_FAILURE_TELL_NS;
  while (have < length && ring_platform_now() < give_up) {
    struct iovec rest = {text + have, length - have};
    ssize_t got = link->ops->receive(link, &rest, 1);
    if (got < 0) break;
    have += (size_t)got;
    if (got == 0) ring_failure_sleep(link, POLLIN);
  }
  bool intact = have >= length && ring_checksum(text, length) == fail->check;
  text[intact ? length : 0] = '\0';
  run->engine->peers->peer[rank].ended = true;
  bool known = fail->call.op != RING_OK &&
               strcmp(ring_status_name((ring_status)fail->call.op), "UNKNOWN") != 0;
  ring_status status = known ? (ring_status)fail->call.op : RING_ABORTED;
  int fault = fail->call.root;
  /* The blame goes on to whom this rank is waiting for in turn; or it is this one that keeps all from
   * going on. */
  bool blamed = fault == run->engine->peers->rank && failure_waits_in_turn(run);
  if (status == RING_TIMEOUT && (blamed || failure_lacks(run->engine->peers)))
    return ring_failure_impatient(run, RING_TIMEOUT);
  if (status == RING_TIMEOUT && fault == run->engine->peers->rank)
    return ring_error_missed(run->error, fault, text);
  bool exists = fault >= 0 && fault < run->engine->peers->size;
  if (text[0] == '\0')
    return ring_error_set(run->error, status, rank, 0, "rank %d (%s) failed and did not say why",
                          rank, ring_peers_host(run->engine->peers, rank));
  return ring_error_set(run->error, status, exists ? fault : -1, 0, "%s", text);
}

ring_status ring_failure_differ(const ring_run *run, int rank, const ring_call *theirs,
                                const ring_call *own) {
  char their_text[RING_CALL_LONG_TEXT], own_text[RING_CALL_LONG_TEXT];
  const ring_peers *peers = run->engine->peers;
  const char *own_array = own->digest == run->task->call.digest ? run->task->description : NULL;
  int own_rank = peers->rank;
  ring_call_describe_array(theirs, ring_wait_report_description(&peers->peer[rank], theirs),
                           their_text, sizeof their_text);
  ring_call_describe_array(own, own_array, own_text, sizeof own_text);
  return ring_error_set(run->error, RING_MISMATCH, rank, 0,
                        "the ranks called different things: rank %d called %s, rank %d called %s",
                        rank, their_text, own_rank, own_text);
}

/* progress: of the lane that read the frame, or NULL. */
static ring_status failure_mismatch(ring_run *run, int rank, const ring_frame *frame,
                                    const ring_progress *progress) {
  char theirs[RING_CALL_TEXT], ours[RING_CALL_TEXT];
  int own_rank = run->engine->peers->rank;
  ring_call_describe(&frame->call, theirs, sizeof theirs);
  ring_call_describe(&run->task->call, ours, sizeof ours);
  bool same = frame->call.digest == run->task->call.digest && strcmp(theirs, ours) == 0;
  if (progress != NULL && same) /* what each rank sends to each is part of no signature */
    return ring_error_set(
        run->error, RING_MISMATCH, rank, 0,
        "the ranks disagree on counts: in %s rank %d sends %u bytes where rank %d "
        "expects %zu",
        ours, rank, (unsigned)frame->length, own_rank, progress->frame_bytes - RING_HEADER_BYTES);
  return ring_failure_differ(run, rank, &frame->call, &run->task->call);
}

/* Whether a frame that nobody has read shows that its sender is in another call than this rank.
 * That of a later call may wait; one of an earlier call would have been read there. Messages and
 * the calls of open are not numbered with the others. */
static bool failure_contradicts(const ring_call *theirs, const ring_call *own) {
  int32_t ahead = (int32_t)(theirs->sequence - own->sequence);
  if (ring_collective_opens(theirs->collective) || ring_collective_opens(own->collective) ||
      theirs->collective == RING_COLLECTIVE_MESSAGE || own->collective == RING_COLLECTIVE_MESSAGE)
    return false;
  return ahead < 0 || (ahead == 0 && !ring_call_is_same(theirs, own));
}

/* Reads the rest of a wait report, or of as many as have come. */
static ring_status failure_hear_notice(ring_run *run, int rank, int *got) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  *got = ring_wait_report_read(peer, run->engine->peers->size);
  if (*got == 1) return ring_mismatch_heard(run, rank);
  return *got == -EBADMSG ? ring_failure_damaged(run, rank) : RING_OK;
}

/* Takes the wait reports that come next from a rank; true when one of them is the end. */
static bool failure_hear_notices(ring_run *run, int rank, ring_status *status) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame;
  *status = RING_OK;
  for (int got = 1; got == 1 && *status == RING_OK;) {
    struct iovec piece = {header, sizeof header};
    if (peer->outbox->have == 0) {
      if (peer->link->ops->peek(peer->link, header, sizeof header) < (ssize_t)sizeof header) break;
      if (!ring_frame_unpack(header, &frame) || frame.kind < RING_FRAME_WAIT_REPORT) break;
      if (peer->link->ops->receive(peer->link, &piece, 1) < (ssize_t)sizeof header) break;
      ring_wait_report_begin(peer, header);
    }
    *status = failure_hear_notice(run, rank, &got);
  }
  return *status != RING_OK;
}

ring_status ring_failure_hear(ring_run *run) {
  const ring_peers *peers = run->engine->peers;
  ring_status status = RING_OK;
  for (int i = 0; i < peers->linked_count && status == RING_OK; i++) {
    int rank = peers->linked[i];
    if (!peers->peer[rank].ended && !run_listens(run, rank))
      failure_hear_notices(run, rank, &status);
  }
  return status;
}

bool ring_failure_fails(ring_run *run, int rank, ring_status *status) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame;
  if (failure_hear_notices(run, rank, status)) return true;
  if (peer->outbox->have > 0) return false;
  if (peer->link->ops->peek(peer->link, header, sizeof header) < (ssize_t)sizeof header)
    return false;
  if (!ring_frame_unpack(header, &frame)) return false;
  if (frame.kind == RING_FRAME_DATA) {
    if (!failure_contradicts(&frame.call, &run->task->call)) return false;
    *status = failure_mismatch(run, rank, &frame, NULL);
    return true;
  }
  if (frame.kind != RING_FRAME_FAIL) return false; /* a wait report that has come just now */
  struct iovec piece = {header, sizeof header};
  if (peer->link->ops->receive(peer->link, &piece, 1) < (ssize_t)sizeof header) return false;
  *status = failure_adopt(run, rank, &frame);
  return true;
}

/* Whether a lane has read a part of a frame from this rank. */
static bool failure_is_amid(const ring_run *run, int rank) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_progress *progress = &run->engine->progress[lane];
    const ring_lane *shape = run_lane(run, lane);
    bool reads = shape->kind == RING_LANE_RECV && shape->peer == rank && progress->active;
    if (reads && progress->moved > 0) return true;
  }
  return false;
}

/* Takes bytes that are there, to keep or to forget. */
static bool failure_take(ring_link *link, uint8_t *bytes, size_t length) {
  uint8_t forgotten[4096];
  for (size_t have = 0; have < length;) {
    size_t left = length - have, capacity = left < sizeof forgotten ? left : sizeof forgotten;
    struct iovec piece = {bytes != NULL ? bytes + have : forgotten,
                          bytes != NULL ? left : capacity};
    ssize_t got = link->ops->receive(link, &piece, 1);
    if (got <= 0) return false;
    have += (size_t)got;
  }
  return true;
}

/* Forgets a short frame that has come. */
static bool failure_skip(const ring_peer *peer) {
  uint8_t bytes[FAILURE_SKIP_BYTES];
  ring_frame frame;
  if (peer->outbox->have > 0) return false;
  ssize_t there = peer->link->ops->peek(peer->link, bytes, sizeof bytes);
  if (there < RING_HEADER_BYTES || !ring_frame_unpack(bytes, &frame)) return false;
  size_t length = RING_HEADER_BYTES + (size_t)frame.length;
  bool whole = frame.kind == RING_FRAME_DATA && length <= (size_t)there;
  return whole && failure_take(peer->link, NULL, length);
}

/* Whether another rank says why it failed, or shows that it called something else. Where this run fails
 * in any case, frames that came before that are no more of use. */
static bool failure_is_said(ring_run *run, bool fails, ring_status *status) {
  const ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    int other = peers->linked[i];
    if (peers->peer[other].ended || failure_is_amid(run, other)) continue;
    for (int skips = 0; skips < FAILURE_SKIPS; skips++) {
      if (ring_failure_fails(run, other, status)) return true;
      if (!fails || !failure_skip(&peers->peer[other])) break;
    }
  }
  return false;
}

/* The same after a moment, or sooner. The clock ends it: on a busy machine each sleep is longer. */
static bool failure_is_told(ring_run *run, int milliseconds, bool fails, ring_status *status) {
  uint64_t end = ring_platform_now() + (uint64_t)milliseconds * 1000000;
  do {
    poll(NULL, 0, FAILURE_GRACE_MS);
    if (failure_is_said(run, fails, status)) return true;
  } while (ring_platform_now() < end);
  return false;
}

bool ring_failure_is_known(ring_engine *engine, const ring_call *call, ring_error *error) {
  const ring_task task = {.schedule = &ring_schedule_empty, .call = *call};
  ring_run run = {.engine = engine, .task = &task, .error = error};
  ring_status status;
  return failure_is_told(&run, FAILURE_GRACE_MS, false, &status);
}

ring_status ring_failure_unlinked(ring_run *run, ring_status status) {
  char call[RING_CALL_TEXT];
  ring_error why;
  bool opens = ring_collective_opens(run->task->call.collective);
  /* Who fails while a link of several lanes opens refuses the rest of them. */
  if (status != RING_PEER_LOST && !(opens && status == RING_ABORTED)) return status;
  why = *run->error;
  if (failure_is_told(run, FAILURE_GRACE_UNLINKED_MS, true, &status)) return status;
  ring_call_describe(&run->task->call, call, sizeof call);
  ring_error_set(run->error, why.status, why.rank, 0, "%.800s; this was found in %s", why.message,
                 call);
  run->error->system_errno = why.system_errno;
  return why.status;
}

/* Whether a rank that has ended said why, behind frames of calls to which this rank has not come: nobody
 * takes these any more. */
static bool failure_is_left(ring_run *run, int rank, ring_status *status) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame = {.length = 0};
  if (failure_is_amid(run, rank) || peer->outbox->have > 0) return false;
  do {
    if (!failure_take(peer->link, NULL, frame.length)) return false;
    if (!failure_take(peer->link, header, sizeof header)) return false;
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
  if (failure_is_left(run, rank, &status) || failure_is_told(run, grace, true, &status))
    return status;
  ring_call_describe(&run->task->call, call, sizeof call);
  double absence = run->timed ? ring_wait_absence(run->task->wait) : 0;
  if (absence > 0 && (code == EPIPE || code == ECONNRESET))
    return ring_error_set(
        run->error, RING_ABORTED, peers->rank, 0,
        "rank %d was stopped for %.1f s during %s, and rank %d (%s) has ended the "
        "connection meanwhile: peers timed out waiting for this rank",
        peers->rank, absence, call, rank, ring_peers_host(peers, rank));
  return ring_error_set(run->error, RING_PEER_LOST, rank, code == EPIPE ? 0 : code,
                        "rank %d (%s) was lost during %s%s", rank, ring_peers_host(peers, rank),
                        call, code == EPIPE ? ": it ended the connection" : "");
}

ring_status ring_failure_damaged(ring_run *run, int rank) {
  char call[RING_CALL_TEXT];
  ring_call_describe(&run->task->call, call, sizeof call);
  return ring_error_set(run->error, RING_PEER_LOST, rank, 0,
                        "what rank %d (%s) sent in %s arrived damaged: a network card, a cable, a "
                        "router or memory between the two is faulty",
                        rank, ring_peers_host(run->engine->peers, rank), call);
}

ring_status ring_failure_unexpected(ring_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  int rank = run_lane(run, lane)->peer, got;
  ring_frame frame;
  if (!ring_frame_unpack(progress->header, &frame)) return ring_failure_damaged(run, rank);
  if (frame.kind == RING_FRAME_DATA) return failure_mismatch(run, rank, &frame, progress);
  if (frame.kind == RING_FRAME_FAIL) return failure_adopt(run, rank, &frame);
  ring_wait_report_begin(&run->engine->peers->peer[rank], progress->header);
  progress->moved = 0;
  return failure_hear_notice(run, rank, &got);
}

ring_status ring_failure_impatient(ring_run *run, ring_status why) {
  char call[RING_CALL_TEXT], whom[640];
  ring_call_describe(&run->task->call, call, sizeof call);
  int rank = ring_wait_graph_whom(run, whom, sizeof whom);
  if (why == RING_ABORTED)
    return ring_wait_aborted(run->task->wait, run->engine->peers->rank, call, run->error);
  const ring_peers *peers = run->engine->peers;
  if (failure_lacks(peers))
    return ring_error_set(run->error, RING_SYSTEM, peers->rank, failure_lacked(peers),
                          "rank %d could not accept links of other ranks in %s", peers->rank, call);
  return ring_error_set(run->error, RING_TIMEOUT, rank, 0, "rank %d waited %.1f s in %s for %s",
                        run->engine->peers->rank, ring_wait_seconds(run->task->wait), call, whom);
}
