/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_messages.h"

#include <stdlib.h>

#include "base/dtype.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/lane.h"

#define MPI_MESSAGES_BYTES (UINT64_C(1) << 30) /* the longest message */
#define MPI_MESSAGES_LOCAL (64 * 1024) /* bytes that are copied or reduced between two tests */

/* Open MPI sends so much over TCP at once, and asks the receiver before it sends more: between two ranks, a message of
 * 64 KiB takes as long as one of 120. */
#define MPI_MESSAGES_EAGER (60 * 1024)
#define MPI_MESSAGES_EAGER_MOST (128 * 1024) /* a longer message is faster whole */

/* ---- Choosing ----------------------------------------------------------------------------- */

/* The algorithms of an allreduce, in place of those of least cost over links. Two ranks exchange everything at once,
 * which takes one round. */
static const char *mpi_messages_rules(const ring_selector *selector, int size) {
  const ring_topology *topology = selector->topology;
  bool apart = topology != NULL && topology->hosts > 1;
  if (size > 2) return "allreduce:doubling:-32KiB,allreduce:halving";
  return apart ? "allreduce:halving:60KiB-128KiB,allreduce:doubling" : "allreduce:doubling";
}

/* Rules of the user come first. A hierarchy of hosts is left to the costs. */
static void mpi_messages_add_rules(ring_selector *selector, int size) {
  ring_rules own, *rules = &selector->rules;
  ring_error error;
  if (selector->topology != NULL && ring_topology_is_nested(selector->topology)) return;
  if (ring_rules_parse(&own, "MPI", mpi_messages_rules(selector, size), &error) != RING_OK) return;
  for (int i = 0; i < own.count && rules->count < RING_RULES_MOST; i++)
    rules->rules[rules->count++] = own.rules[i];
}

bool ring_mpi_messages_serve(const ring_mpi_messages *messages, const ring_outline *outline) {
  return outline->size <= messages->most;
}

const char *ring_mpi_messages_algorithm(const ring_mpi_messages *messages,
                                        const ring_outline *outline) {
  return ring_algorithm_name(
      ring_select(&messages->plans.selector, &outline->call, outline->size).algorithm);
}

/* Elements of a message. A step is one message, which MPI cuts well itself, except where a rank between two others in a
 * chain forwards pieces. */
static uint64_t mpi_messages_chunk(const ring_outline *outline, size_t width) {
  uint8_t collective = outline->call.collective;
  bool chains = collective == RING_COLLECTIVE_BROADCAST || collective == RING_COLLECTIVE_REDUCE ||
                ring_collective_scans(collective);
  uint64_t bytes = MPI_MESSAGES_BYTES;
  if (chains && outline->size > 2) bytes = RING_CHUNK_BYTES;
  if (collective == RING_COLLECTIVE_ALLREDUCE &&
      outline->call.count * width <= MPI_MESSAGES_EAGER_MOST)
    bytes = MPI_MESSAGES_EAGER;
  return bytes / width;
}

/* ---- Running ------------------------------------------------------------------------------ */

static ring_status mpi_messages_grow(ring_mpi_messages *messages, size_t lanes) {
  if (lanes <= messages->capacity) return RING_OK;
  ring_mpi_handle *grown = realloc(messages->requests, lanes * sizeof *grown);
  if (grown == NULL) return RING_NO_MEMORY;
  messages->requests = grown;
  messages->capacity = lanes;
  return RING_OK;
}

ring_status ring_mpi_messages_begin(ring_mpi_messages *messages, const ring_backend_call *call,
                                    ring_error *error) {
  const ring_call *asked = &call->outline.call;
  ring_task *task = &messages->task;
  bool reduces = ring_collective_reduces(asked->collective);
  task->input = call->input;
  task->output = call->output;
  task->output_count = call->output_count;
  task->dtype = asked->dtype;
  task->op = asked->op;
  task->element_size = ring_dtype_size((ring_dtype)asked->dtype);
  task->wide_size = reduces ? ring_dtype_wide_size((ring_dtype)asked->dtype) : task->element_size;
  task->divide = reduces && asked->op == RING_AVG;
  messages->run = (ring_run){.engine = &messages->engine,
                             .task = task,
                             .chunk = mpi_messages_chunk(&call->outline, task->wide_size),
                             .error = error};
  ring_status status = ring_plan_find(&messages->plans, &call->outline, &task->schedule);
  if (status == RING_OK) status = mpi_messages_grow(messages, task->schedule->lane_count);
  if (status != RING_OK) return ring_error_no_memory(error, call->outline.rank);
  return ring_lane_prepare(&messages->run);
}

/* Starts the frame that a lane has begun. Returns MPI's code. */
static int mpi_messages_start(ring_mpi_messages *messages, const ring_mpi_driver *driver,
                              ring_mpi_handle comm, int tag, size_t lane, size_t bytes) {
  const ring_lane *shape = run_lane(&messages->run, lane);
  uint8_t *payload = messages->engine.progress[lane].payload;
  ring_mpi_handle *request = &messages->requests[lane];
  if (shape->kind == RING_LANE_SEND)
    return driver->send(comm, payload, (int)bytes, shape->peer, tag, request);
  return driver->receive(comm, payload, (int)bytes, shape->peer, tag, request);
}

/* Moves a part of a local lane. More at once would hold up the messages, for which nothing is done meanwhile. */
static void mpi_messages_work(ring_run *run, size_t lane) {
  const ring_lane_progress *progress = &run->engine->progress[lane];
  uint64_t chunk = MPI_MESSAGES_LOCAL / run->task->wide_size;
  size_t bytes = 0;
  for (size_t moved = 0; moved < MPI_MESSAGES_LOCAL; moved += bytes) {
    if (progress->step == run_lane(run, lane)->count) return;
    if (!ring_lane_begin(run, lane, chunk, &bytes)) return;
    ring_lane_local(run, lane);
    ring_lane_end(run, lane);
  }
}

/* Moves a lane as far as it moves without waiting. A message that starts is tested in the next turn: a test may
 * receive, for which the receives behind it have to be there. */
static int mpi_messages_advance(ring_mpi_messages *messages, const ring_mpi_driver *driver,
                                ring_mpi_handle comm, int tag, size_t lane) {
  ring_run *run = &messages->run;
  const ring_lane_progress *progress = &messages->engine.progress[lane];
  const ring_lane *shape = run_lane(run, lane);
  size_t bytes;
  if (progress->step == shape->count) return 0;
  if (shape->kind == RING_LANE_LOCAL) {
    mpi_messages_work(run, lane);
    return 0;
  }
  if (progress->active) {
    int done = 0, code = driver->test(&messages->requests[lane], &done);
    if (code != 0 || !done) return code;
    ring_lane_end(run, lane);
  }
  if (progress->step == shape->count || !ring_lane_begin(run, lane, run->chunk, &bytes)) return 0;
  return mpi_messages_start(messages, driver, comm, tag, lane, bytes);
}

/* The first turn starts sends before receives, as peers wait for them. Later turns go the other way: sends follow what
 * has been received. */
int ring_mpi_messages_turn(ring_mpi_messages *messages, const ring_mpi_driver *driver,
                           ring_mpi_handle comm, int tag, int *done) {
  size_t lanes = messages->task.schedule->lane_count;
  bool first = !messages->run.progressed;
  int code = 0;
  messages->run.progressed = true;
  for (size_t i = 0; i < lanes && code == 0; i++)
    code = mpi_messages_advance(messages, driver, comm, tag, first ? lanes - 1 - i : i);
  *done = messages->run.lanes_left == 0;
  return code;
}

/* ---- Life --------------------------------------------------------------------------------- */

void ring_mpi_messages_init(ring_mpi_messages *messages, ring_peers *peers,
                            const ring_selector *selector) {
  *messages = (ring_mpi_messages){.engine.peers = peers, .plans.selector = *selector};
  mpi_messages_add_rules(&messages->plans.selector, peers->size);
}

void ring_mpi_messages_fini(ring_mpi_messages *messages) {
  ring_engine_fini(&messages->engine);
  ring_plans_free(&messages->plans);
  free(messages->requests);
  *messages = (ring_mpi_messages){0};
}
