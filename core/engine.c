/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "platform.h"
#include "reduce.h"

/* With a core for every local rank, a moment of spinning saves a wake-up; with fewer, the core is
 * better given to the rank that is waited for. */
#define ENGINE_SPIN_NS UINT64_C(30000)
#define ENGINE_YIELDS 50

/* How long a broken link waits for another rank to say why. */
#define ENGINE_GRACE_MS 20

/* One run, as the functions below share it. */
typedef struct engine_run {
  ring_engine *engine;
  const ring_task *task;
  uint64_t chunk; /* elements of a whole frame */
  size_t lanes_left;
  bool moved; /* anything, since it was last cleared */
  ring_error *error;
} engine_run;

void ring_engine_fini(ring_engine *engine) {
  free(engine->progress);
  free(engine->memory);
  ring_poller_fini(&engine->poller);
  *engine = (ring_engine){0};
}

/* ---- Preparing ---------------------------------------------------------------------------- */

static bool engine_lane_reduces(const ring_schedule *schedule, const ring_lane *lane) {
  for (size_t i = 0; i < lane->count; i++)
    if (schedule->steps[lane->first + i].op == RING_STEP_REDUCE) return true;
  return false;
}

static bool engine_grow(void **memory, size_t *room, size_t need) {
  if (need <= *room) return true;
  void *grown = realloc(*memory, need);
  if (grown == NULL) return false;
  *memory = grown;
  *room = need;
  return true;
}

/* Scratch first, then one staging frame for each lane that reduces. */
static ring_status engine_prepare(engine_run *run) {
  ring_engine *engine = run->engine;
  const ring_schedule *schedule = run->task->schedule;
  size_t frame = (size_t)run->chunk * run->task->wide_size;
  size_t scratch = (size_t)schedule->scratch * run->task->wide_size;
  size_t need = scratch;
  engine->lanes = 0;
  for (size_t i = 0; i < schedule->lane_count; i++)
    if (engine_lane_reduces(schedule, &schedule->lanes[i])) need += frame;
  if (!engine_grow((void **)&engine->progress, &engine->progress_room,
                   schedule->lane_count * sizeof *engine->progress) ||
      !engine_grow((void **)&engine->memory, &engine->memory_room, need))
    return ring_error_set(run->error, RING_NO_MEMORY, -1, 0,
                          "out of memory: the call needs %zu bytes of scratch", need);
  uint8_t *staging = engine->memory + scratch;
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

static size_t engine_width(const engine_run *run, uint8_t space) {
  return space == RING_SPACE_SCRATCH ? run->task->wide_size : run->task->element_size;
}

/* Element `index` of a space. Only an output is written to. */
static uint8_t *engine_place(const engine_run *run, uint8_t space, uint64_t index) {
  const ring_task *task = run->task;
  uint8_t *base = space == RING_SPACE_INPUT    ? (uint8_t *)(uintptr_t)task->input
                  : space == RING_SPACE_OUTPUT ? task->output
                                               : run->engine->memory;
  return base == NULL ? NULL : base + index * engine_width(run, space);
}

static const ring_lane *engine_lane(const engine_run *run, size_t lane) {
  return &run->task->schedule->lanes[lane];
}

static const ring_step *engine_step(const engine_run *run, size_t lane) {
  return &run->task->schedule
              ->steps[engine_lane(run, lane)->first + run->engine->progress[lane].step];
}

/* Whether elements up to `end` of a step may move. */
static bool engine_may_move(const engine_run *run, const ring_step *step, uint64_t end) {
  if (step->after == RING_STEP_FREE) return true;
  uint64_t needed = step->mark + end + (end == step->count ? 1 : 0);
  return run->engine->progress[step->after].watermark >= needed;
}

/* ---- Frames ------------------------------------------------------------------------------- */

static size_t engine_wire_width(const engine_run *run, const ring_step *step) {
  if (step->op == RING_STEP_SEND) return engine_width(run, step->source);
  return step->flags & RING_STEP_WIDE ? run->task->wide_size : run->task->element_size;
}

/* Begins the next frame of a lane, if its elements may move. */
static bool engine_begin_frame(engine_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  uint64_t left = step->count - progress->elements;
  uint64_t elements = left < run->chunk ? left : run->chunk;
  if (!engine_may_move(run, step, progress->elements + elements)) return false;
  size_t bytes = (size_t)elements * engine_wire_width(run, step);
  ring_frame frame = {RING_FRAME_DATA, (uint32_t)bytes, run->task->call};
  ring_frame_pack(&frame, progress->expected);
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

static void engine_reduce(engine_run *run, const ring_step *step, ring_progress *progress) {
  const ring_task *task = run->task;
  bool last = (step->flags & RING_STEP_LAST) != 0;
  ring_reduction reduction = {
      .dtype = (ring_dtype)task->call.dtype,
      .op = (ring_op)task->call.op,
      .divisor = last && task->divide ? run->engine->peers->size : 0,
      .received_wide = (step->flags & RING_STEP_WIDE) != 0,
      .destination_wide = step->destination == RING_SPACE_SCRATCH,
  };
  ring_reduce(&reduction, engine_place(run, step->destination, step->to + progress->elements),
              engine_place(run, step->source, step->from + progress->elements), progress->staging,
              (size_t)progress->frame_elements);
}

/* Moves the watermark past the frame, and the lane to its next step when this one is finished. */
static void engine_end_frame(engine_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  if (step->op == RING_STEP_REDUCE && progress->frame_elements > 0)
    engine_reduce(run, step, progress);
  progress->elements += progress->frame_elements;
  progress->watermark += progress->frame_elements;
  progress->active = false;
  if (progress->elements < step->count) return;
  progress->watermark++;
  progress->elements = 0;
  if (++progress->step == engine_lane(run, lane)->count) run->lanes_left--;
}

/* The part of a frame that has not moved yet, as pieces for a link. */
static int engine_pieces(ring_progress *progress, uint8_t *header, struct iovec pieces[2]) {
  int count = 0;
  size_t moved = progress->moved;
  if (moved < RING_HEADER_BYTES) {
    pieces[count++] = (struct iovec){header + moved, RING_HEADER_BYTES - moved};
    moved = RING_HEADER_BYTES;
  }
  if (progress->frame_bytes > moved)
    pieces[count++] = (struct iovec){progress->payload + (moved - RING_HEADER_BYTES),
                                     progress->frame_bytes - moved};
  return count;
}

/* ---- Failures ----------------------------------------------------------------------------- */

/* Reads the rest of a FAIL frame, of which `have` bytes lie in text, and adopts its failure. */
static ring_status engine_adopt(engine_run *run, int rank, const ring_frame *fail, char *text,
                                size_t have) {
  ring_link *link = run->engine->peers->peer[rank].link;
  size_t length =
      fail->length < sizeof run->error->message ? fail->length : sizeof run->error->message - 1;
  uint64_t give_up = ring_platform_now() + UINT64_C(200000000);
  while (have < length && ring_platform_now() < give_up) {
    struct iovec rest = {text + have, length - have};
    ssize_t got = link->ops->receive(link, &rest, 1);
    if (got < 0) break;
    have += (size_t)got;
  }
  text[have < length ? have : length] = '\0';
  run->engine->peers->peer[rank].ended = true;
  bool known = fail->call.op != RING_OK &&
               strcmp(ring_status_name((ring_status)fail->call.op), "UNKNOWN") != 0;
  ring_status status = known ? (ring_status)fail->call.op : RING_ABORTED;
  int fault = fail->call.root;
  return ring_error_set(run->error, status, fault < run->engine->peers->size ? fault : -1, 0, "%s",
                        text);
}

/* Whether a lane is reading from this rank now. */
static bool engine_listens(const engine_run *run, int rank) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane *shape = engine_lane(run, lane);
    if (shape->kind == RING_LANE_RECV && shape->peer == rank && run->engine->progress[lane].active)
      return true;
  }
  return false;
}

/* Whether a FAIL frame is what comes next from a rank; then it is taken and its failure adopted. */
static bool engine_fails(engine_run *run, int rank, ring_status *status) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  char text[sizeof run->error->message];
  ring_frame frame;
  if (peer->link->ops->peek(peer->link, header, sizeof header) < (ssize_t)sizeof header)
    return false;
  if (!ring_frame_unpack(header, &frame) || frame.kind != RING_FRAME_FAIL) return false;
  struct iovec piece = {header, sizeof header};
  if (peer->link->ops->receive(peer->link, &piece, 1) < (ssize_t)sizeof header) return false;
  *status = engine_adopt(run, rank, &frame, text, 0);
  return true;
}

/* The link to a rank broke. It may have failed because of another one, which tells everybody; so
 * the others are given a moment to say so. */
static ring_status engine_lost(engine_run *run, int rank, int code) {
  ring_peers *peers = run->engine->peers;
  ring_status status;
  char call[RING_CALL_TEXT];
  peers->peer[rank].ended = true;
  poll(NULL, 0, ENGINE_GRACE_MS);
  for (int i = 0; i < peers->linked_count; i++) {
    int other = peers->linked[i];
    if (!peers->peer[other].ended && !engine_listens(run, other) &&
        engine_fails(run, other, &status))
      return status;
  }
  ring_call_describe(&run->task->call, call, sizeof call);
  return ring_error_set(run->error, RING_PEER_LOST, rank, code == EPIPE ? 0 : code,
                        "rank %d (%s) was lost during %s%s", rank, ring_peers_host(peers, rank),
                        call, code == EPIPE ? ": its process ended" : "");
}

static ring_status engine_mismatch(engine_run *run, int rank, const ring_frame *frame) {
  char theirs[RING_CALL_TEXT], ours[RING_CALL_TEXT];
  ring_call_describe(&frame->call, theirs, sizeof theirs);
  ring_call_describe(&run->task->call, ours, sizeof ours);
  return ring_error_set(run->error, RING_MISMATCH, rank, 0,
                        "the ranks called different things: rank %d called %s, rank %d called %s",
                        rank, theirs, run->engine->peers->rank, ours);
}

/* A header that differs from the expected one: a failure, another call, or nonsense. */
static ring_status engine_unexpected(engine_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  int rank = engine_lane(run, lane)->peer;
  char text[sizeof run->error->message];
  size_t have = progress->moved - RING_HEADER_BYTES;
  ring_frame frame;
  if (!ring_frame_unpack(progress->header, &frame))
    return ring_error_set(run->error, RING_PEER_LOST, rank, 0,
                          "rank %d (%s) sent bytes that are no frame", rank,
                          ring_peers_host(run->engine->peers, rank));
  if (frame.kind != RING_FRAME_FAIL) return engine_mismatch(run, rank, &frame);
  if (have >= sizeof text) have = sizeof text - 1;
  if (have > 0) memcpy(text, progress->payload, have);
  return engine_adopt(run, rank, &frame, text, have);
}

/* ---- Lanes -------------------------------------------------------------------------------- */

static void engine_count(ring_peer *peer, bool sent, size_t bytes, bool frame) {
  if (sent) {
    peer->counters.bytes_sent += bytes;
    peer->counters.messages_sent += frame ? 1 : 0;
  } else {
    peer->counters.bytes_received += bytes;
    peer->counters.messages_received += frame ? 1 : 0;
  }
}

/* Moves one piece of the lane's frame over its link. */
static ring_status engine_move(engine_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_lane *shape = engine_lane(run, lane);
  ring_peer *peer = &run->engine->peers->peer[shape->peer];
  bool sends = shape->kind == RING_LANE_SEND;
  if (peer->link == NULL) return ring_peers_want(run->engine->peers, shape->peer, run->error);
  if (sends && peer->hung_up) return RING_OK;
  struct iovec pieces[2];
  int count = engine_pieces(progress, sends ? progress->expected : progress->header, pieces);
  ssize_t moved = sends ? peer->link->ops->send(peer->link, pieces, count)
                        : peer->link->ops->receive(peer->link, pieces, count);
  if (moved == 0) return RING_OK;
  if (moved < 0 && sends) { /* its last words, which say why, come from the receiving side */
    peer->hung_up = true;
    return RING_OK;
  }
  if (moved < 0) return engine_lost(run, shape->peer, (int)-moved);
  bool header_was_there = progress->moved >= RING_HEADER_BYTES;
  run->moved = true;
  progress->moved += (size_t)moved;
  bool whole = progress->moved == progress->frame_bytes;
  engine_count(peer, sends, (size_t)moved, whole);
  if (!sends && !header_was_there && progress->moved >= RING_HEADER_BYTES &&
      memcmp(progress->header, progress->expected, RING_HEADER_BYTES) != 0)
    return engine_unexpected(run, lane);
  if (whole) engine_end_frame(run, lane);
  return RING_OK;
}

static void engine_copy(engine_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  const ring_step *step = engine_step(run, lane);
  const uint8_t *from = engine_place(run, step->source, step->from + progress->elements);
  size_t bytes = (size_t)progress->frame_elements * run->task->element_size;
  if (bytes > 0 && progress->payload != from) memcpy(progress->payload, from, bytes);
  run->moved = true;
  engine_end_frame(run, lane);
}

static ring_status engine_advance(engine_run *run, size_t lane) {
  ring_progress *progress = &run->engine->progress[lane];
  if (progress->step == engine_lane(run, lane)->count) return RING_OK;
  if (!progress->active && !engine_begin_frame(run, lane)) return RING_OK;
  if (engine_lane(run, lane)->kind == RING_LANE_LOCAL) {
    engine_copy(run, lane);
    return RING_OK;
  }
  return engine_move(run, lane);
}

/* Gives every lane one turn. */
static ring_status engine_turn(engine_run *run) {
  run->moved = false;
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    ring_status status = engine_advance(run, lane);
    if (status != RING_OK) return status;
  }
  return RING_OK;
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* What each link is to be polled for: lanes that are blocked on it, and news on all others. */
static void engine_watch(engine_run *run) {
  ring_engine *engine = run->engine;
  ring_peers *peers = engine->peers;
  ring_poller_reset(&engine->poller);
  for (int i = 0; i < peers->linked_count; i++) {
    ring_peer *peer = &peers->peer[peers->linked[i]];
    short events = peer->early || peer->ended ? 0 : POLLIN;
    peer->slot = SIZE_MAX;
    if (!peer->ended) peer->slot = ring_poller_add(&engine->poller, peer->link->fd, events);
  }
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane *shape = engine_lane(run, lane);
    if (!engine->progress[lane].active || shape->kind == RING_LANE_LOCAL) continue;
    const ring_peer *peer = &peers->peer[shape->peer];
    if (peer->link == NULL || peer->slot >= engine->poller.count) continue;
    engine->poller.entries[peer->slot].events |=
        (short)(shape->kind == RING_LANE_SEND ? POLLOUT : POLLIN);
  }
  ring_peers_watch(peers, &engine->poller);
}

/* Looks at what came on a link that no lane is reading: a failure, an end, or bytes of later. */
static ring_status engine_news(engine_run *run, int rank) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  ring_status status;
  char first;
  if (engine_fails(run, rank, &status)) return status;
  ssize_t got = peer->link->ops->peek(peer->link, &first, 1);
  peer->early = got > 0;
  if (got >= 0) return RING_OK;
  /* A rank that has finished closing may go; whoever still needs it reads from it. */
  peer->ended = true;
  bool closing = run->task->call.collective == RING_COLLECTIVE_CLOSE;
  return closing ? RING_OK : engine_lost(run, rank, (int)-got);
}

static bool engine_broke(const engine_run *run, const ring_peer *peer) {
  return (run->engine->poller.entries[peer->slot].revents & (POLLERR | POLLHUP)) != 0;
}

static ring_status engine_hear(engine_run *run) {
  ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    int rank = peers->linked[i];
    const ring_peer *peer = &peers->peer[rank];
    if (peer->ended || !ring_poller_ready(&run->engine->poller, peer->slot)) continue;
    if (engine_listens(run, rank)) continue;
    if (peer->early && !engine_broke(run, peer)) continue;
    ring_status status = peer->early ? engine_lost(run, rank, EPIPE) : engine_news(run, rank);
    if (status != RING_OK) return status;
  }
  return ring_peers_serve(peers, &run->engine->poller, run->error);
}

/* "rank 1 (host), rank 3 (host)": whom the lanes are waiting for. Returns the first. */
static int engine_waits_for(const engine_run *run, char *text, size_t size) {
  int first = -1;
  size_t length = 0;
  text[0] = '\0';
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane *shape = engine_lane(run, lane);
    bool blocked = run->engine->progress[lane].step < shape->count && shape->peer >= 0;
    if (!blocked || shape->kind != RING_LANE_RECV || length >= size) continue;
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s)", first < 0 ? "" : ", ",
                         shape->peer, ring_peers_host(run->engine->peers, shape->peer));
    if (first < 0) first = shape->peer;
  }
  if (first < 0) snprintf(text, size, "a rank that takes what is sent");
  return first;
}

static ring_status engine_impatient(engine_run *run, ring_status why) {
  char call[RING_CALL_TEXT], whom[512];
  ring_call_describe(&run->task->call, call, sizeof call);
  int rank = engine_waits_for(run, whom, sizeof whom);
  if (why == RING_ABORTED)
    return ring_error_set(run->error, RING_ABORTED, run->engine->peers->rank, 0,
                          "rank %d was interrupted during %s", run->engine->peers->rank, call);
  return ring_error_set(run->error, RING_TIMEOUT, rank, 0,
                        "rank %d waited %.1f s in %s for %s: it has not made the same call, or "
                        "hangs",
                        run->engine->peers->rank, ring_wait_seconds(run->task->wait), call, whom);
}

static ring_status engine_sleep(engine_run *run) {
  ring_status status = ring_poller_sleep(&run->engine->poller, ring_wait_slice(run->task->wait));
  if (status != RING_OK)
    return ring_error_set(run->error, status, -1, errno, "waiting for the other ranks failed");
  status = engine_hear(run);
  if (status != RING_OK) return status;
  status = ring_wait_check(run->task->wait);
  return status == RING_OK ? RING_OK : engine_impatient(run, status);
}

/* Nothing moved: tries on for a moment, then sleeps until something may move. */
static ring_status engine_wait(engine_run *run) {
  uint64_t begun = ring_platform_now();
  bool own_core = run->engine->peers->cores_suffice;
  ring_status status = RING_OK;
  for (int tries = 0; status == RING_OK && !run->moved; tries++) {
    bool spins = own_core ? ring_platform_now() - begun < ENGINE_SPIN_NS : tries < ENGINE_YIELDS;
    if (!spins) break;
    if (own_core)
      ring_platform_pause();
    else
      sched_yield();
    status = engine_turn(run);
  }
  if (status == RING_OK && !run->moved && run->lanes_left > 0) {
    engine_watch(run);
    status = engine_sleep(run);
  }
  run->engine->wait_ns += ring_platform_now() - begun;
  return status;
}

ring_status ring_engine_run(ring_engine *engine, const ring_task *task, ring_error *error) {
  engine_run run = {.engine = engine,
                    .task = task,
                    .chunk = RING_CHUNK_BYTES / task->element_size,
                    .error = error};
  ring_status status = engine_prepare(&run);
  for (unsigned turns = 1; status == RING_OK && run.lanes_left > 0; turns++) {
    status = engine_turn(&run);
    if (status == RING_OK && !run.moved && run.lanes_left > 0) status = engine_wait(&run);
    /* A call that never has to wait still has a deadline and can be interrupted. */
    if (status == RING_OK && turns % 256 == 0) {
      status = ring_wait_check(task->wait);
      if (status != RING_OK) status = engine_impatient(&run, status);
    }
  }
  return status;
}

/* ---- Failing ------------------------------------------------------------------------------ */

/* Sends all of it before `give_up`; false when that cannot be done. */
static bool engine_send_out(ring_link *link, const uint8_t *bytes, size_t length,
                            uint64_t give_up) {
  while (length > 0) {
    struct iovec piece = {(void *)(uintptr_t)bytes, length};
    ssize_t sent = link->ops->send(link, &piece, 1);
    if (sent < 0) return false;
    bytes += sent;
    length -= (size_t)sent;
    if (sent > 0) continue;
    if (ring_platform_now() >= give_up) return false;
    struct pollfd entry = {.fd = link->fd, .events = POLLOUT};
    poll(&entry, 1, 10);
  }
  return true;
}

/* Finishes a frame that is half sent: its receiver could not tell what follows from payload. */
static void engine_finish_frame(ring_engine *engine, const ring_task *task, size_t lane,
                                uint64_t give_up) {
  const ring_lane *shape = &task->schedule->lanes[lane];
  ring_progress *progress = &engine->progress[lane];
  if (shape->kind != RING_LANE_SEND || !progress->active || progress->moved == 0) return;
  ring_peer *peer = &engine->peers->peer[shape->peer];
  struct iovec pieces[2];
  int count = engine_pieces(progress, progress->expected, pieces);
  for (int i = 0; i < count && !peer->ended; i++)
    peer->ended = !engine_send_out(peer->link, pieces[i].iov_base, pieces[i].iov_len, give_up);
}

void ring_engine_fail(ring_engine *engine, const ring_task *task, const ring_error *error) {
  uint64_t give_up = ring_platform_now() + UINT64_C(200000000);
  size_t lanes = task != NULL && engine->progress != NULL ? task->schedule->lane_count : 0;
  for (size_t lane = 0; lane < lanes; lane++) engine_finish_frame(engine, task, lane, give_up);
  uint8_t message[RING_HEADER_BYTES + sizeof error->message];
  size_t length = strlen(error->message);
  ring_frame fail = {.kind = RING_FRAME_FAIL,
                     .length = (uint32_t)length,
                     .call = {.op = (uint8_t)error->status, .root = error->rank}};
  ring_frame_pack(&fail, message);
  memcpy(message + RING_HEADER_BYTES, error->message, length);
  for (int i = 0; i < engine->peers->linked_count; i++) {
    ring_peer *peer = &engine->peers->peer[engine->peers->linked[i]];
    if (!peer->ended) engine_send_out(peer->link, message, RING_HEADER_BYTES + length, give_up);
    peer->link->ops->finish(peer->link);
  }
}
