/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <stdlib.h>

#include "engine/detector/failure.h"
#include "engine/detector/stall.h"
#include "engine/frame_mover.h"
#include "engine/idle.h"
#include "engine/lane.h"
#include "peers/connector.h"

/* Turns after which a call that never waits checks its deadline and its interrupt hook. */
#define ENGINE_CHECK_TURNS 256

void ring_engine_fini(ring_engine *engine) {
  free(engine->progress);
  free(engine->memory);
  ring_poll_set_fini(&engine->poll_set);
  *engine = (ring_engine){0};
}

static ring_status engine_prepare(ring_run *run) {
  ring_engine *engine = run->engine;
  engine->lanes = 0;
  ring_status status = ring_lane_prepare(run);
  if (status != RING_OK) return status;
  for (int i = 0; i < engine->peers->linked_count; i++)
    engine->peers->peer[engine->peers->linked[i]].early = false;
  engine->lanes = run->lanes_left;
  return RING_OK;
}

/* In a call that opens, asks for all links at once, not only for the links of active lanes: the
 * ranks exchange wait reports over them. */
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
    status = ring_frame_mover_turn(&run);
    if (status == RING_OK && !run.moved && run.lanes_left > 0) status = ring_idle_wait(&run);
    if (status == RING_OK && turns % ENGINE_CHECK_TURNS == 0) status = ring_idle_check(&run);
  }
  if (run.reported) ring_stall_end(&run, status);
  return status;
}
