/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/outside_wait.h"

#include <stdlib.h>

#include "engine/detector/stall.h"
#include "engine/idle.h"
#include "peers/peer_table.h"

ring_status ring_outside_wait_init(ring_outside_wait *outside, ring_engine *engine) {
  size_t lanes = (size_t)engine->peers->size, bytes = lanes * sizeof *engine->progress;
  *outside = (ring_outside_wait){.engine = engine};
  if (bytes > engine->progress_capacity) {
    ring_lane_progress *grown = realloc(engine->progress, bytes);
    if (grown == NULL) return RING_NO_MEMORY;
    engine->progress = grown;
    engine->progress_capacity = bytes;
  }
  outside->schedule.lanes = calloc(lanes, sizeof *outside->schedule.lanes);
  return outside->schedule.lanes != NULL ? RING_OK : RING_NO_MEMORY;
}

void ring_outside_wait_fini(ring_outside_wait *outside) {
  free(outside->schedule.lanes);
  *outside = (ring_outside_wait){0};
}

void ring_outside_wait_record(ring_outside_wait *outside, const ring_call *call) {
  ring_engine *engine = outside->engine;
  engine->calls[++engine->runs % RING_ENGINE_RUNS] = *call;
}

void ring_outside_wait_begin(ring_outside_wait *outside, const ring_call *call,
                             const char *description, ring_wait *wait, ring_error *error) {
  ring_engine *engine = outside->engine;
  engine->lanes = 0; /* no frame of this run is ever sent in part */
  for (int i = 0; i < engine->peers->linked_count; i++)
    engine->peers->peer[engine->peers->linked[i]].early = false;
  outside->task = (ring_task){.schedule = &outside->schedule,
                              .call = *call,
                              .element_size = 1,
                              .wide_size = 1,
                              .description = description,
                              .wait = wait};
  outside->run = (ring_run){.engine = engine,
                            .task = &outside->task,
                            .timed = ring_collective_opens(call->collective),
                            .outside = true,
                            .error = error};
}

/* Lanes that send: no frame comes for them, so what comes on their links is inspected. Links may have opened
 * since the last look. */
static void outside_wait_set_lanes(ring_outside_wait *outside) {
  const ring_peers *peers = outside->engine->peers;
  outside->schedule.lane_count = (size_t)peers->linked_count;
  for (int i = 0; i < peers->linked_count; i++) {
    outside->schedule.lanes[i] = (ring_lane){.kind = RING_LANE_SEND, .peer = peers->linked[i]};
    outside->engine->progress[i] = (ring_lane_progress){.active = true};
  }
}

ring_status ring_outside_wait_look(ring_outside_wait *outside) {
  outside_wait_set_lanes(outside);
  return ring_idle_look(&outside->run);
}

void ring_outside_wait_end(ring_outside_wait *outside, ring_status status) {
  if (outside->run.reported) ring_stall_end(&outside->run, status);
}
