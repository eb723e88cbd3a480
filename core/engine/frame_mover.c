/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/frame_mover.h"

#include <errno.h>
#include <string.h>

#include "base/checksum.h"
#include "base/counter.h"
#include "base/error.h"
#include "engine/detector/failure.h"
#include "engine/detector/mismatch.h"
#include "engine/detector/run_error.h"
#include "engine/lane.h"
#include "peers/connector.h"

/* The bytes that a lane moves in one turn. With more of them the two ends of a link disturb each
 * other less, but the bytes should stay in the caches. */
#define FRAME_MOVER_BURST (RING_BURST_FRAMES * RING_CHUNK_BYTES)

/* tls.c does not count the last byte of a record that is sent in part. That byte must not be the
 * first byte of a frame. */
_Static_assert(RING_HEADER_BYTES % 2 == 0 && RING_CHUNK_BYTES % 2 == 0, "records begin frames");

/* ---- Frames ------------------------------------------------------------------------------- */

static void frame_mover_record(const ring_run *run, size_t lane, bool begins) {
  const ring_lane *shape = run_lane(run, lane);
  uint64_t bytes = run->engine->progress[lane].frame_bytes - RING_HEADER_BYTES;
  if (shape->kind == RING_LANE_LOCAL) return;
  ring_timeline_record(run->engine->timeline, RING_EVENT_FRAME, begins, &run->task->call,
                       shape->peer, bytes);
}

/* Begins the next frame of a lane, if its elements may move. */
static bool frame_mover_begin(ring_run *run, size_t lane) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  size_t bytes;
  if (!ring_lane_begin(run, lane, run->chunk, &bytes)) return false;
  if (run_lane(run, lane)->kind == RING_LANE_RECV) {
    ring_frame frame = {RING_FRAME_DATA, (uint32_t)bytes, run->task->call, 0};
    ring_frame_pack(&frame, progress->expected);
  }
  progress->moved = 0;
  progress->frame_bytes = RING_HEADER_BYTES + bytes;
  if (run->engine->timeline != NULL) frame_mover_record(run, lane, true);
  return true;
}

static void frame_mover_end(ring_run *run, size_t lane) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  if (run->engine->timeline != NULL) frame_mover_record(run, lane, false);
  progress->frame++;
  if (progress->sealed > 0) progress->sealed--;
  ring_lane_end(run, lane);
}

/* ---- Lanes -------------------------------------------------------------------------------- */

static void frame_mover_count(ring_peer *peer, bool sent, size_t bytes, size_t frames) {
  ring_counters *counters = &peer->counters;
  ring_counter_add(sent ? &counters->bytes_sent : &counters->bytes_received, bytes);
  ring_counter_add(sent ? &counters->messages_sent : &counters->messages_received, frames);
}

/* A link failed. When the peer takes no more bytes, its report of the failure may still be unread
 * on the link. */
static ring_status frame_mover_link_failed(ring_run *run, const ring_lane *lane, int code) {
  ring_peers *peers = run->engine->peers;
  bool sends = lane->kind == RING_LANE_SEND;
  ring_status status;
  if (code == EFAULT)
    return ring_error_set(run->error, RING_INVALID, peers->rank, EFAULT,
                          "rank %d passed a buffer that cannot be %s", peers->rank,
                          sends ? "read" : "written");
  if (code == ENOMEM) return ring_failure_lost(run, lane->peer, code); /* of this rank */
  if (sends && run_reads_from(run, lane->peer)) {
    peers->peer[lane->peer].write_closed = true;
    return RING_OK;
  }
  if (sends && ring_failure_receive(run, lane->peer, &status)) return status;
  return ring_failure_lost(run, lane->peer, code);
}

/* Packs the header of a sent frame, `ahead` frames behind the current frame. Both frames have the
 * same length. */
static uint8_t *frame_mover_seal(ring_run *run, size_t lane, const ring_link *link, int ahead) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  size_t payload = progress->frame_bytes - RING_HEADER_BYTES;
  uint8_t *header = run_header(progress, ahead);
  if (ahead < progress->sealed) return header;
  ring_frame frame = {RING_FRAME_DATA, (uint32_t)payload, run->task->call, 0};
  if (link->ops->unchecked && payload > 0)
    frame.check = ring_checksum(progress->payload + (size_t)ahead * payload, payload);
  ring_frame_pack(&frame, header);
  progress->sealed = ahead + 1;
  return header;
}

/* Collects the unsent part of the current frame, and the next frames that have the same length and
 * may move. Few long system calls disturb the other end less than many short ones. */
static int frame_mover_pieces(ring_run *run, size_t lane, const ring_link *link,
                              struct iovec pieces[2 * RING_BURST_FRAMES]) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  const ring_step *step = run_step(run, lane);
  int count = run_pieces(progress, frame_mover_seal(run, lane, link, 0), pieces);
  uint64_t end = progress->elements + progress->frame_elements;
  size_t payload = progress->frame_bytes - RING_HEADER_BYTES;
  for (int next = 1; payload > 0 && next < RING_BURST_FRAMES; next++) {
    end += progress->frame_elements;
    if (end > step->count || !ring_lane_may_move(run, step, end)) break;
    uint8_t *header = frame_mover_seal(run, lane, link, next);
    pieces[count++] = (struct iovec){header, RING_HEADER_BYTES};
    pieces[count++] = (struct iovec){progress->payload + (size_t)next * payload, payload};
  }
  return count;
}

/* Counts bytes that have moved towards the lane's frame and the frames behind it. Returns the
 * number of frames that are complete. */
static size_t frame_mover_note(ring_run *run, size_t lane, size_t bytes) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  size_t frames = 0;
  progress->moved += bytes;
  while (progress->moved >= progress->frame_bytes) {
    size_t behind = progress->moved - progress->frame_bytes;
    frame_mover_end(run, lane);
    frames++;
    if (behind == 0) break;
    frame_mover_begin(run, lane);
    progress->moved = behind;
  }
  return frames;
}

/* Whether the received header is the expected header. */
static bool frame_mover_is_expected(const ring_lane_progress *progress) {
  return memcmp(progress->header, progress->expected, RING_FRAME_KNOWN_BYTES) == 0 &&
         ring_frame_is_whole(progress->header);
}

/* False when `moved` more bytes complete a payload whose checksum is wrong. */
static bool frame_mover_is_intact(const ring_lane_progress *progress, size_t moved) {
  size_t payload = progress->frame_bytes - RING_HEADER_BYTES;
  if (progress->moved + moved < progress->frame_bytes || payload == 0) return true;
  return ring_checksum(progress->payload, payload) == ring_frame_check(progress->header);
}

/* Sends or receives the rest of a wait report. True when a frame may move now. */
static bool frame_mover_finish_report(ring_run *run, const ring_lane *shape, ring_status *status) {
  ring_peers *peers = run->engine->peers;
  ring_peer *peer = &peers->peer[shape->peer];
  if (shape->kind == RING_LANE_SEND) return ring_wait_report_flush(peer);
  if (peer->outbox->have == 0) return true;
  int got = ring_wait_report_read(peer, peers->size);
  if (got == 1) *status = ring_mismatch_received(run, shape->peer);
  if (got == -EBADMSG) *status = ring_run_error_damage(run, shape->peer);
  if (got < 0 && got != -EBADMSG) *status = frame_mover_link_failed(run, shape, -got);
  return got == 1 && *status == RING_OK;
}

/* Sends the description of the array, if it has one, before the first frame of a call. The error of
 * a mismatch quotes it. True when a frame may move now. */
static bool frame_mover_describe(const ring_run *run, ring_peer *peer) {
  const ring_task *task = run->task;
  if (task->description == NULL || peer->outbox->described == task->call.digest) return true;
  return ring_wait_report_describe(peer, &task->call, task->description);
}

/* Receives a piece of the lane's frame, header first. Until the header shows that the peer has sent
 * the frame, the place of the payload may still hold bytes that this rank has to send. */
static ssize_t frame_mover_receive(ring_run *run, size_t lane, ring_peer *peer,
                                   ring_status *status) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  struct iovec pieces[2];
  int count = run_pieces(progress, progress->header, pieces);
  if (progress->moved >= RING_HEADER_BYTES)
    return peer->link->ops->receive(peer->link, pieces, count);
  ssize_t head = peer->link->ops->receive(peer->link, pieces, 1);
  if (head < (ssize_t)pieces[0].iov_len) return head;
  if (!frame_mover_is_expected(progress)) {
    *status = ring_failure_unexpected(run, lane);
    return 0;
  }
  if (count == 1) return head;
  ssize_t body = peer->link->ops->receive(peer->link, pieces + 1, 1);
  return body > 0 ? head + body : head; /* the next call returns the error again */
}

/* Moves a piece of the lane's frame, or several frames, over its link. Sets *whole to the bytes
 * that have moved, unless a frame is left in part. */
static ring_status frame_mover_move(ring_run *run, size_t lane, size_t *whole) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  const ring_lane *shape = run_lane(run, lane);
  ring_peer *peer = &run->engine->peers->peer[shape->peer];
  bool sends = shape->kind == RING_LANE_SEND;
  ring_status status = RING_OK;
  ssize_t moved;
  if (peer->link == NULL)
    return ring_failure_unlinked(run,
                                 ring_connector_start(run->engine->peers, shape->peer, run->error));
  if (sends && peer->write_closed) return RING_OK;
  if (peer->outbox_busy && !frame_mover_finish_report(run, shape, &status)) return status;
  if (sends && progress->moved == 0 && !frame_mover_describe(run, peer)) return status;
  if (sends) {
    struct iovec pieces[2 * RING_BURST_FRAMES];
    int count = frame_mover_pieces(run, lane, peer->link, pieces);
    moved = peer->link->ops->send(peer->link, pieces, count);
  } else {
    moved = frame_mover_receive(run, lane, peer, &status);
  }
  if (moved == 0) return status;
  if (moved < 0) return frame_mover_link_failed(run, shape, (int)-moved);
  run->moved = true;
  if (!sends) peer->last_run = run->engine->runs;
  if (!sends && peer->link->ops->unchecked && !frame_mover_is_intact(progress, (size_t)moved))
    return ring_run_error_damage(run, shape->peer);
  size_t frames = frame_mover_note(run, lane, (size_t)moved);
  frame_mover_count(peer, sends, (size_t)moved, frames);
  if (!progress->active) *whole = (size_t)moved;
  return RING_OK;
}

/* Moves frames of a lane as long as whole frames move, up to a burst. */
static ring_status frame_mover_advance(ring_run *run, size_t lane) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  ring_status status = RING_OK;
  for (size_t bytes = 0, frame = 1; frame > 0 && bytes < FRAME_MOVER_BURST; bytes += frame) {
    frame = 0;
    if (status != RING_OK || progress->step == run_lane(run, lane)->count) break;
    if (!progress->active && !frame_mover_begin(run, lane)) break;
    if (run_lane(run, lane)->kind == RING_LANE_LOCAL) {
      frame = progress->frame_bytes;
      ring_lane_local(run, lane);
      frame_mover_end(run, lane);
      run->moved = true;
    } else {
      status = frame_mover_move(run, lane, &frame);
    }
  }
  return status;
}

ring_status ring_frame_mover_turn(ring_run *run) {
  run->moved = false;
  for (size_t lane = run->task->schedule->lane_count; lane-- > 0;) {
    ring_status status = frame_mover_advance(run, lane);
    if (status != RING_OK) return status;
  }
  run->progressed = run->progressed || run->moved;
  return RING_OK;
}
