/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/engine.h"

#include <stdlib.h>

#include "base/error.h"
#include "engine/detector/failure.h"
#include "engine/detector/stall.h"
#include "engine/frame_mover.h"
#include "engine/idle.h"
#include "peers/connector.h"

/* Turns after which a call that never waits checks its deadline and its interrupt hook. */
#define ENGINE_CHECK_TURNS 256

void ring_engine_fini(ring_engine *engine) {
  free(engine->progress);
  free(engine->memory);
  ring_poll_set_fini(&engine->poll_set);
  *engine = (ring_engine){0};
}

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

/* Lays out the engine's memory: scratch first, then one staging frame for each lane that
 * reduces. */
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
