/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/lane.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/reduce.h"

/* ---- Preparing ---------------------------------------------------------------------------- */

/* Elements of the longest frame of a lane that reduces what it receives; 0: it does not. */
static uint64_t lane_staging(const ring_run *run, const ring_lane *lane) {
  uint64_t longest = 0;
  for (size_t i = 0; i < lane->count; i++) {
    const ring_step *step = &run->task->schedule->steps[lane->first + i];
    if (step->op == RING_STEP_REDUCE && step->count > longest) longest = step->count;
  }
  return longest < run->chunk ? longest : run->chunk;
}

static bool lane_grow(void **memory, size_t *capacity, size_t need) {
  if (need <= *capacity) return true;
  void *grown = realloc(*memory, need);
  if (grown == NULL) return false;
  *memory = grown;
  *capacity = need;
  return true;
}

/* Elements of any type are aligned in staging. */
static size_t lane_staging_bytes(const ring_run *run, const ring_lane *lane) {
  enum { ALIGNMENT = 64 };
  size_t bytes = (size_t)lane_staging(run, lane) * run->task->wide_size;
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Bytes of staging for all lanes. With `memory`, which is where staging begins, lays it out, too. */
static size_t lane_stage(const ring_run *run, uint8_t *memory) {
  const ring_schedule *schedule = run->task->schedule;
  size_t at = 0;
  for (size_t i = 0; i < schedule->lane_count && schedule->reduces; i++) {
    if (memory != NULL) run->engine->progress[i].staging = memory + at;
    at += lane_staging_bytes(run, &schedule->lanes[i]);
  }
  return at;
}

/* Scratch is first, with one staging frame behind it for each lane that reduces. */
ring_status ring_lane_prepare(ring_run *run) {
  ring_engine *engine = run->engine;
  size_t lanes = run->task->schedule->lane_count;
  size_t scratch = (size_t)run->task->schedule->scratch * run->task->wide_size;
  size_t need = scratch + lane_stage(run, NULL);
  if (!lane_grow((void **)&engine->progress, &engine->progress_capacity,
                 lanes * sizeof *engine->progress) ||
      !lane_grow((void **)&engine->memory, &engine->memory_capacity, need))
    return ring_error_set(run->error, RING_NO_MEMORY, engine->peers->rank, 0,
                          "rank %d is out of memory: the call needs %zu bytes of scratch",
                          engine->peers->rank, need);
  for (size_t i = 0; i < lanes; i++)
    memset(&engine->progress[i], 0, offsetof(ring_lane_progress, expected));
  if (need > scratch) lane_stage(run, engine->memory + scratch);
  run->lanes_left = lanes;
  return RING_OK;
}

/* ---- Places ------------------------------------------------------------------------------- */

static size_t lane_width(const ring_run *run, uint8_t space) {
  return space == RING_SPACE_SCRATCH ? run->task->wide_size : run->task->element_size;
}

/* The place of element `index` of a space. Nothing writes to an input. */
static uint8_t *lane_place(const ring_run *run, uint8_t space, uint64_t index) {
  const ring_task *task = run->task;
  uint8_t *base = space == RING_SPACE_INPUT    ? (uint8_t *)(uintptr_t)task->input
                  : space == RING_SPACE_OUTPUT ? task->output
                                               : run->engine->memory;
  return base == NULL ? NULL : base + index * lane_width(run, space);
}

/* Bytes of an element between ranks. */
static size_t lane_wire_width(const ring_run *run, const ring_step *step) {
  if (step->op == RING_STEP_SEND) return lane_width(run, step->source);
  return step->flags & RING_STEP_WIDE ? run->task->wide_size : run->task->element_size;
}

/* ---- Beginning ---------------------------------------------------------------------------- */

bool ring_lane_may_move(const ring_run *run, const ring_step *step, uint64_t end) {
  if (step->after == RING_STEP_FREE) return true;
  uint64_t needed = step->mark + end + (end == step->count ? 1 : 0);
  if (step->flags & RING_STEP_WHOLE) needed = step->mark;
  return run->engine->progress[step->after].watermark >= needed;
}

bool ring_lane_begin(ring_run *run, size_t lane, uint64_t chunk, size_t *bytes) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  const ring_step *step = run_step(run, lane);
  uint64_t left = step->count - progress->elements;
  uint64_t elements = left < chunk ? left : chunk;
  if (!ring_lane_may_move(run, step, progress->elements + elements)) return false;
  *bytes = (size_t)elements * lane_wire_width(run, step);
  progress->active = true;
  progress->frame_elements = elements;
  if (step->op == RING_STEP_SEND)
    progress->payload = lane_place(run, step->source, step->from + progress->elements);
  else if (step->op == RING_STEP_REDUCE)
    progress->payload = progress->staging;
  else
    progress->payload = lane_place(run, step->destination, step->to + progress->elements);
  return true;
}

/* ---- In memory ---------------------------------------------------------------------------- */

/* Reduces the elements of the frame that is under way. */
static void lane_reduce(ring_run *run, const ring_step *step, const ring_lane_progress *progress) {
  const ring_task *task = run->task;
  bool combines = step->op == RING_STEP_COMBINE, last = (step->flags & RING_STEP_LAST) != 0;
  ring_reduction reduction = {
      .dtype = (ring_dtype)task->dtype,
      .op = (ring_op)task->op,
      .divisor = last && task->divide ? run->engine->peers->size : 0,
      .local_wide = (step->flags & RING_STEP_SOURCE_WIDE) != 0,
      .received_wide = (step->flags & RING_STEP_WIDE) != 0,
      .destination_wide = step->destination == RING_SPACE_SCRATCH,
  };
  const void *local = lane_place(run, step->source, step->from + progress->elements);
  const void *received = progress->staging;
  if (combines) received = lane_place(run, RING_SPACE_SCRATCH, step->with + progress->elements);
  if (step->flags & RING_STEP_SWAPPED) {
    const void *swapped = local;
    local = received;
    received = swapped;
    bool wide = reduction.local_wide;
    reduction.local_wide = reduction.received_wide;
    reduction.received_wide = wide;
  }
  ring_reduction_apply(&reduction,
                       lane_place(run, step->destination, step->to + progress->elements), local,
                       received, (size_t)progress->frame_elements);
}

/* Rounds the accumulators of a frame. The minimum of a value and itself is the value. */
static void lane_narrow(const ring_run *run, const ring_lane_progress *progress,
                        const uint8_t *from) {
  ring_reduction narrow = {.dtype = (ring_dtype)run->task->dtype,
                           .op = RING_MIN,
                           .local_wide = true,
                           .received_wide = true};
  ring_reduction_apply(&narrow, progress->payload, from, from, (size_t)progress->frame_elements);
}

void ring_lane_local(ring_run *run, size_t lane) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  const ring_step *step = run_step(run, lane);
  const uint8_t *from = lane_place(run, step->source, step->from + progress->elements);
  size_t bytes = (size_t)progress->frame_elements * run->task->element_size;
  if (step->op == RING_STEP_COMBINE && bytes > 0)
    lane_reduce(run, step, progress);
  else if (step->flags & RING_STEP_SOURCE_WIDE)
    lane_narrow(run, progress, from);
  else if (bytes > 0 && progress->payload != from)
    memcpy(progress->payload, from, bytes);
}

void ring_lane_end(ring_run *run, size_t lane) {
  ring_lane_progress *progress = &run->engine->progress[lane];
  const ring_step *step = run_step(run, lane);
  if (step->op == RING_STEP_REDUCE && progress->frame_elements > 0)
    lane_reduce(run, step, progress);
  progress->elements += progress->frame_elements;
  progress->watermark += progress->frame_elements;
  progress->active = false;
  if (progress->elements < step->count) return;
  progress->watermark++;
  progress->elements = 0;
  if (++progress->step == run_lane(run, lane)->count) run->lanes_left--;
}
