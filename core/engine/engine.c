/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/platform.h"
#include "engine/detector/failure.h"
#include "engine/detector/mismatch.h"
#include "engine/detector/stall.h"
#include "engine/reduce.h"
#include "peers/connector.h"

/* What a lane moves in one turn: the more of it, the less do the two ends of a link get in each
 * other's way, but it should stay in the caches. */
#define ENGINE_BURST (RING_BURST_FRAMES * RING_CHUNK_BYTES)

/* What tls.c counts of a record that is half sent leaves out its last byte, which must not be the
 * first one of a frame. */
_Static_assert(RING_HEADER_BYTES % 2 == 0 && RING_CHUNK_BYTES % 2 == 0, "records begin frames");

void ring_engine_fini(ring_engine *engine) {
  free(engine->progress);
  free(engine->memory);
  ring_poll_set_fini(&engine->poll_set);
  *engine = (ring_engine){0};
}

/* ---- Preparing ---------------------------------------------------------------------------- */

static bool engine_lane_reduces(const ring_schedule *schedule, const ring_lane *lane) {
  for (size_t i = 0; i < lane->count; i++)
    if (schedule->steps[lane->first + i].op == RING_STEP_REDUCE) return true;
  return false;
}

static bool engine_grow(void **memory, size_t *capacity, size_t need) {
  if (need <= *capacity) return true;
  void *grown = realloc(*memory, need);
  if (grown == NULL) return false;
  *memory = grown;
  *capacity = need;
  return true;
}

/* Scratch first, then one staging frame for each lane that reduces. */
static ring_status engine_prepare(ring_run *run) {
  ring_engine *engine = run->engine;
  const ring_schedule *schedule = run->task->schedule;
  size_t frame = (size_t)run->chunk * run->task->wide_size;
  size_t scratch = (size_t)schedule->scratch * run->task->wide_size;
  size_t need = scratch;
  engine->lanes = 0;
  for (size_t i = 0; i < schedule->lane_count; i++)
    if (engine_lane_reduces(schedule, &schedule->lanes[i])) need += frame;
  if (!engine_grow((void **)&engine->progress, &engine->progress_capacity,
                   schedule->lane_count * sizeof *engine->progress) ||
      !engine_grow((void **)&engine->memory, &engine->memory_capacity, need))
    return ring_error_set(run->error, RING_NO_MEMORY, engine->peers->rank, 0,
                          "rank %d is out of memory: the call needs %zu bytes of scratch",
                          engine->peers->rank, need);
  uint8_t *staging = need == 0 ? NULL : engine->memory + scratch;
  for (size_t i = 0; i < schedule->lane_count; i++) {
    ring_progress *progress = &engine->progress[i];
    *progress = (ring_progress){0};
    if (!engine_lane_reduces(schedule, &schedule->lanes[i])) continue;
    progress->staging = staging;
    staging += frame;
  }
  for (int i = 0; i < engine->peers->linked_count; i++)
    engine->peers->peer[engine->peers->linked[i]].early = false;
  engine->lanes = run->lanes_left = schedule->lane_count;
  return RING_OK;
}

/* ---- Places ------------------------------------------------------------------------------- */

static size_t engine_width(const ring_run *run, uint8_t space) {
  return space == RING_SPACE_SCRATCH ? run->task->wide_size : run->task->element_size;
}

/* Element `index` of a space. Only an output is written to. */
static uint8_t *engine_place(const ring_run *run, uint8_t space, uint64_t index) {
  const ring_task *task = run->task;
  uint8_t *base = space == RING_SPACE_INPUT    ? (uint8_t *)(uintptr_t)task->input
                  : space == RING_SPACE_OUTPUT ? task->output
                                               : run->engine->memory;
  return base == NULL ? NULL : base + index * engine_width(run, space);
}

static const ring_step *engine_step(const ring_run *run, size_t lane) {
  return &run->task->schedule->steps[run_lane(run, lane)->first + run->engine->progress[lane].step];
}

/* Whether elements up to `end` of a step may move. */
static bool engine_may_move(const ring_run *run, const ring_step *step, uint64_t end) {
  if (step->after == RING_STEP_FREE) return true;
  uint64_t needed = step->mark + end + (end == step->count ? 1 : 0);
  if (step->flags & RING_STEP_WHOLE) needed = step->mark;
  return run->engine->progress[step->after].watermark >= needed;
}

/* ---- Frames ------------------------------------------------------------------------------- */

static size_t engine_wire_width(const ring_run *run, const ring_step *step) {
  if (step->op == RING_STEP_SEND) return engine_width(run, step->source);
  return step->flags & RING_STEP_WIDE ? run->task->wide_size : run->task->element_size;
}

/* Begins the next frame of a lane, if its elements may move. */
static bool engine_begin_frame(ring_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  uint64_t left = step->count - progress->elements;
  uint64_t elements = left < run->chunk ? left : run->chunk;
  if (!engine_may_move(run, step, progress->elements + elements)) return false;
  size_t bytes = (size_t)elements * engine_wire_width(run, step);
  if (run_lane(run, lane)->kind == RING_LANE_RECV) {
    ring_frame frame = {RING_FRAME_DATA, (uint32_t)bytes, run->task->call, 0};
    ring_frame_pack(&frame, progress->expected);
  }
  progress->active = true;
  progress->moved = 0;
  progress->frame_elements = elements;
  progress->frame_bytes = RING_HEADER_BYTES + bytes;
  if (step->op == RING_STEP_SEND)
    progress->payload = engine_place(run, step->source, step->from + progress->elements);
  else if (step->op == RING_STEP_REDUCE)
    progress->payload = progress->staging;
  else
    progress->payload = engine_place(run, step->destination, step->to + progress->elements);
  return true;
}

/* The arithmetic of a step that reduces, on the frame that is under way. */
static void engine_reduce(ring_run *run, const ring_step *step, const ring_progress *progress) {
  const ring_task *task = run->task;
  bool combines = step->op == RING_STEP_COMBINE, last = (step->flags & RING_STEP_LAST) != 0;
  ring_reduction reduction = {
      .dtype = (ring_dtype)task->call.dtype,
      .op = (ring_op)task->call.op,
      .divisor = last && task->divide ? run->engine->peers->size : 0,
      .local_wide = (step->flags & RING_STEP_SOURCE_WIDE) != 0,
      .received_wide = (step->flags & RING_STEP_WIDE) != 0,
      .destination_wide = step->destination == RING_SPACE_SCRATCH,
  };
  const void *local = engine_place(run, step->source, step->from + progress->elements);
  const void *received = progress->staging;
  if (combines) received = engine_place(run, RING_SPACE_SCRATCH, step->with + progress->elements);
  if (step->flags & RING_STEP_SWAPPED) {
    const void *swapped = local;
    local = received;
    received = swapped;
    bool wide = reduction.local_wide;
    reduction.local_wide = reduction.received_wide;
    reduction.received_wide = wide;
  }
  ring_reduction_apply(&reduction,
                       engine_place(run, step->destination, step->to + progress->elements), local,
                       received, (size_t)progress->frame_elements);
}

/* Moves the watermark past the frame, and the lane to its next step when this one is finished. */
static void engine_end_frame(ring_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  if (step->op == RING_STEP_REDUCE && progress->frame_elements > 0)
    engine_reduce(run, step, progress);
  progress->elements += progress->frame_elements;
  progress->watermark += progress->frame_elements;
  progress->active = false;
  progress->frame++;
  if (progress->sealed > 0) progress->sealed--;
  if (progress->elements < step->count) return;
  progress->watermark++;
  progress->elements = 0;
  if (++progress->step == run_lane(run, lane)->count) run->lanes_left--;
}

/* ---- Lanes -------------------------------------------------------------------------------- */

static void engine_count(ring_peer *peer, bool sent, size_t bytes, size_t frames) {
  ring_counters *counters = &peer->counters;
  engine_counter_add(sent ? &counters->bytes_sent : &counters->bytes_received, bytes);
  engine_counter_add(sent ? &counters->messages_sent : &counters->messages_received, frames);
}

/* A link failed. When it takes no more, what the peer said before, and so why, can still be read. */
static ring_status engine_stuck(ring_run *run, const ring_lane *lane, int code) {
  ring_peers *peers = run->engine->peers;
  bool sends = lane->kind == RING_LANE_SEND;
  ring_status status;
  if (code == EFAULT)
    return ring_error_set(run->error, RING_INVALID, peers->rank, EFAULT,
                          "rank %d passed a buffer that cannot be %s", peers->rank,
                          sends ? "read" : "written");
  if (code == ENOMEM) return ring_failure_lost(run, lane->peer, code); /* it is this rank's lack */
  if (sends && run_listens(run, lane->peer)) {
    peers->peer[lane->peer].hung_up = true;
    return RING_OK;
  }
  if (sends && ring_failure_fails(run, lane->peer, &status)) return status;
  return ring_failure_lost(run, lane->peer, code);
}

/* The header of the frame `ahead` of the one that is sent, as long as that one. */
static uint8_t *engine_seal(ring_run *run, size_t lane, const ring_link *link, int ahead) {
  ring_progress *progress = &run->engine->progress[lane];
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

/* What is left of the lane's frame that is sent, and the next ones, if they are as long and may move.
 * Few long system calls disturb the other end less than many. */
static int engine_pieces(ring_run *run, size_t lane, const ring_link *link,
                         struct iovec pieces[2 * RING_BURST_FRAMES]) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  int count = run_pieces(progress, engine_seal(run, lane, link, 0), pieces);
  uint64_t end = progress->elements + progress->frame_elements;
  size_t payload = progress->frame_bytes - RING_HEADER_BYTES;
  for (int next = 1; payload > 0 && next < RING_BURST_FRAMES; next++) {
    end += progress->frame_elements;
    if (end > step->count || !engine_may_move(run, step, end)) break;
    uint8_t *header = engine_seal(run, lane, link, next);
    pieces[count++] = (struct iovec){header, RING_HEADER_BYTES};
    pieces[count++] = (struct iovec){progress->payload + (size_t)next * payload, payload};
  }
  return count;
}

/* Notes that bytes of the lane's frame have moved, and of those behind it. Returns how many frames
 * that completed. */
static size_t engine_note(ring_run *run, size_t lane, size_t bytes) {
  ring_progress *progress = &run->engine->progress[lane];
  size_t frames = 0;
  progress->moved += bytes;
  while (progress->moved >= progress->frame_bytes) {
    size_t behind = progress->moved - progress->frame_bytes;
    engine_end_frame(run, lane);
    frames++;
    if (behind == 0) break;
    engine_begin_frame(run, lane);
    progress->moved = behind;
  }
  return frames;
}

/* Whether the header that has come is the expected one. */
static bool engine_expected(const ring_progress *progress) {
  return memcmp(progress->header, progress->expected, RING_FRAME_KNOWN_BYTES) == 0 &&
         ring_frame_is_whole(progress->header);
}

/* Whether the payload is what was sent, if these bytes complete it. */
static bool engine_intact(const ring_progress *progress, size_t moved) {
  size_t payload = progress->frame_bytes - RING_HEADER_BYTES;
  if (progress->moved + moved < progress->frame_bytes || payload == 0) return true;
  return ring_checksum(progress->payload, payload) == ring_frame_check(progress->header);
}

/* Moves what a wait report has left for later. True when a frame may move now. */
static bool engine_outbox(ring_run *run, const ring_lane *shape, ring_status *status) {
  ring_peers *peers = run->engine->peers;
  ring_peer *peer = &peers->peer[shape->peer];
  if (shape->kind == RING_LANE_SEND) return ring_wait_report_flush(peer);
  if (peer->outbox->have == 0) return true;
  int got = ring_wait_report_read(peer, peers->size);
  if (got == 1) *status = ring_mismatch_heard(run, shape->peer);
  if (got == -EBADMSG) *status = ring_failure_damaged(run, shape->peer);
  if (got < 0 && got != -EBADMSG) *status = engine_stuck(run, shape, -got);
  return got == 1 && *status == RING_OK;
}

/* Before the first frame of a call whose array has a description, its receiver learns that, for the
 * error should the two differ. True when a frame may move now. */
static bool engine_describe(const ring_run *run, ring_peer *peer) {
  const ring_task *task = run->task;
  if (task->description == NULL || peer->outbox->described == task->call.digest) return true;
  return ring_wait_report_describe(peer, &task->call, task->description);
}

/* Receives a piece of the lane's frame. The header comes first: until it shows that the frame has been
 * sent, the place of the payload may still hold what this rank has to send. */
static ssize_t engine_receive(ring_run *run, size_t lane, ring_peer *peer, ring_status *status) {
  ring_progress *progress = &run->engine->progress[lane];
  struct iovec pieces[2];
  int count = run_pieces(progress, progress->header, pieces);
  if (progress->moved >= RING_HEADER_BYTES)
    return peer->link->ops->receive(peer->link, pieces, count);
  ssize_t head = peer->link->ops->receive(peer->link, pieces, 1);
  if (head < (ssize_t)pieces[0].iov_len) return head;
  if (!engine_expected(progress)) {
    *status = ring_failure_unexpected(run, lane);
    return 0;
  }
  if (count == 1) return head;
  ssize_t body = peer->link->ops->receive(peer->link, pieces + 1, 1);
  return body > 0 ? head + body : head; /* an error comes again */
}

/* Moves a piece of the lane's frame, or several frames, over its link. *whole: the bytes, if no
 * piece of a frame is left. */
static ring_status engine_move(ring_run *run, size_t lane, size_t *whole) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_lane *shape = run_lane(run, lane);
  ring_peer *peer = &run->engine->peers->peer[shape->peer];
  bool sends = shape->kind == RING_LANE_SEND;
  ring_status status = RING_OK;
  ssize_t moved;
  if (peer->link == NULL)
    return ring_failure_unlinked(run,
                                 ring_connector_start(run->engine->peers, shape->peer, run->error));
  if (sends && peer->hung_up) return RING_OK;
  if (peer->outbox_busy && !engine_outbox(run, shape, &status)) return status;
  if (sends && progress->moved == 0 && !engine_describe(run, peer)) return status;
  if (sends) {
    struct iovec pieces[2 * RING_BURST_FRAMES];
    int count = engine_pieces(run, lane, peer->link, pieces);
    moved = peer->link->ops->send(peer->link, pieces, count);
  } else {
    moved = engine_receive(run, lane, peer, &status);
  }
  if (moved == 0) return status;
  if (moved < 0) return engine_stuck(run, shape, (int)-moved);
  run->moved = true;
  if (!sends) peer->heard = run->engine->runs;
  if (!sends && peer->link->ops->unchecked && !engine_intact(progress, (size_t)moved))
    return ring_failure_damaged(run, shape->peer);
  size_t frames = engine_note(run, lane, (size_t)moved);
  engine_count(peer, sends, (size_t)moved, frames);
  if (!progress->active) *whole = (size_t)moved;
  return RING_OK;
}

static void engine_local(ring_run *run, size_t lane, size_t *frame) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  const uint8_t *from = engine_place(run, step->source, step->from + progress->elements);
  size_t bytes = (size_t)progress->frame_elements * run->task->element_size;
  if (step->op == RING_STEP_COMBINE && bytes > 0)
    engine_reduce(run, step, progress);
  else if (bytes > 0 && progress->payload != from)
    memcpy(progress->payload, from, bytes);
  run->moved = true;
  *frame = progress->frame_bytes;
  engine_end_frame(run, lane);
}

/* Moves frames of a lane as long as whole ones move, up to a burst. */
static ring_status engine_advance(ring_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  ring_status status = RING_OK;
  for (size_t bytes = 0, frame = 1; frame > 0 && bytes < ENGINE_BURST; bytes += frame) {
    frame = 0;
    if (status != RING_OK || progress->step == run_lane(run, lane)->count) break;
    if (!progress->active && !engine_begin_frame(run, lane)) break;
    if (run_lane(run, lane)->kind == RING_LANE_LOCAL)
      engine_local(run, lane, &frame);
    else
      status = engine_move(run, lane, &frame);
  }
  return status;
}

ring_status ring_engine_turn(ring_run *run) {
  run->moved = false;
  for (size_t lane = run->task->schedule->lane_count; lane-- > 0;) {
    ring_status status = engine_advance(run, lane);
    if (status != RING_OK) return status;
  }
  run->progressed = run->progressed || run->moved;
  return RING_OK;
}

/* Asks at once for all links of a call that opens, not only for those whose turn has come: over them the
 * ranks tell each other whom they wait for. */
static ring_status engine_want_links(ring_run *run) {
  ring_peers *peers = run->engine->peers;
  ring_status status = RING_OK;
  if (!ring_collective_opens(run->task->call.collective)) return status;
  for (size_t lane = 0; lane < run->task->schedule->lane_count && status == RING_OK; lane++) {
    int peer = run_lane(run, lane)->peer;
    if (peer >= 0 && peers->peer[peer].link == NULL)
      status = ring_failure_unlinked(run, ring_connector_start(peers, peer, run->error));
  }
  return status;
}

ring_status ring_engine_run(ring_engine *engine, const ring_task *task, ring_error *error) {
  ring_run run = {.engine = engine,
                  .task = task,
                  .chunk = RING_CHUNK_BYTES / task->element_size,
                  .timed = ring_collective_opens(task->call.collective),
                  .error = error};
  engine->calls[++engine->runs % RING_ENGINE_RUNS] = task->call;
  ring_status status = engine_prepare(&run);
  if (status == RING_OK) status = engine_want_links(&run);
  for (unsigned turns = 1; status == RING_OK && run.lanes_left > 0; turns++) {
    status = ring_engine_turn(&run);
    if (status == RING_OK && !run.moved && run.lanes_left > 0) status = ring_engine_wait(&run);
    /* A call that never has to wait still has a deadline and can be interrupted. */
    if (status == RING_OK && turns % 256 == 0) status = ring_engine_check(&run);
  }
  if (run.said) ring_stall_end(&run, status);
  return status;
}
