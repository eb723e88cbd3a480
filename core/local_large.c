/* SPDX-License-Identifier: Apache-2.0 */
#include "local_large.h"

#include <string.h>

#include "platform.h"

#define LARGE_PIECE ((size_t)4096 * 1024) /* after which a copy looks for failures */

typedef struct large_post {
  uint64_t input, output, stage; /* offsets in the arena; 0: outside of it, or none */
  uint32_t in_place;
} large_post;

/* ---- Posts -------------------------------------------------------------------------------- */

/* This rank's stage, made when it is first needed; NULL where the arena has no room for it. */
static uint8_t *large_stage(ring_share *share) {
  uint64_t at;
  if (share->stage == NULL) share->stage = ring_arena_alloc(share->arena, RING_STAGE);
  return ring_arena_offset(share->arena, share->stage, RING_STAGE, &at) ? share->stage : NULL;
}

/* Tells the others where this rank's buffers are. */
static void large_post_buffers(const ring_local_job *job, const uint8_t *stage) {
  ring_share *share = job->call.share;
  const void *input = job->task->input, *output = job->task->output;
  large_post post = {.in_place = input == output && input != NULL};
  uint64_t at;
  /* A buffer that lies half inside the arena cannot exist, so its first byte tells. */
  if (ring_arena_offset(share->arena, input, 1, &at)) post.input = at;
  if (ring_arena_offset(share->arena, output, 1, &at)) post.output = at;
  if (stage != NULL && ring_arena_offset(share->arena, stage, RING_STAGE, &at)) post.stage = at;
  memcpy(ring_share_slot(&job->call, job->rank)->bytes, &post, sizeof post);
  if (job->rank == 0)
    atomic_store_explicit(&share->board->claims[share->sequence % RING_SLOTS].next, 0,
                          memory_order_relaxed);
  ring_share_publish(&job->call);
}

ring_status ring_large_meet(ring_large_run *run, int index) {
  const ring_local_job *job = run->job;
  const ring_arena *arena = job->call.share->arena;
  large_post post;
  ring_status status = RING_OK;
  if (index != job->rank) status = ring_share_await(&job->call, index);
  if (status != RING_OK) return status;
  memcpy(&post, ring_share_slot(&job->call, index)->bytes, sizeof post);
  if (index == job->rank) ring_large_own_sides(run);
  if (post.input != 0) run->inputs[index] = ring_arena_at(arena, post.input);
  if (post.output != 0) run->outputs[index] = ring_arena_at(arena, post.output);
  if (post.stage != 0) run->stages[index] = ring_arena_at(arena, post.stage);
  run->input_shared[index] = post.input != 0;
  run->output_shared[index] = post.output != 0;
  run->in_place = run->in_place || post.in_place != 0;
  return RING_OK;
}

void ring_large_own_sides(ring_large_run *run) {
  const ring_local_job *job = run->job;
  run->inputs[job->rank] = (uint8_t *)(uintptr_t)job->task->input;
  run->outputs[job->rank] = job->task->output;
}

ring_status ring_large_meet_all(ring_large_run *run) {
  ring_status status = RING_OK;
  for (int i = 0; i < run->job->size && status == RING_OK; i++) status = ring_large_meet(run, i);
  return status;
}

bool ring_large_stages(const ring_large_run *run) {
  for (int i = 0; i < run->job->size; i++)
    if (run->stages[i] == NULL) return false;
  return true;
}

ring_status ring_large_finish(const ring_share_call *call, bool awaits_all) {
  ring_status status = RING_OK;
  const ring_share *share = call->share;
  ring_share_finish(call);
  for (int i = 0; i < share->size && awaits_all && status == RING_OK; i++)
    if (i != share->index) status = ring_share_await_finish(call, i);
  return status;
}

/* ---- Moving ------------------------------------------------------------------------------- */

bool ring_large_stops(const ring_large_run *run) {
  return ring_share_failed(run->job->call.share, NULL, run->job->call.error);
}

bool ring_large_streams(const ring_large_run *run, size_t bytes) {
  return bytes >= run->job->call.share->cache / 4 * 3 / (2 * (size_t)run->job->size);
}

void ring_large_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams) {
  if (to == from) return;
  if (streams)
    ring_platform_stream(to, from, bytes);
  else
    memcpy(to, from, bytes);
}

ring_status ring_large_move(const ring_large_run *run, uint8_t *to, const uint8_t *from,
                            size_t bytes) {
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < LARGE_PIECE ? bytes - done : LARGE_PIECE;
    if (ring_large_stops(run)) return run->job->call.error->status;
    ring_large_copy(to + done, from + done, length, run->streams);
  }
  return RING_OK;
}

/* ---- The collectives ---------------------------------------------------------------------- */

ring_status ring_local_large(const ring_local_job *job) {
  ring_large_run run = {.job = job};
  const ring_call *call = &job->outline->call;
  uint8_t *stage = large_stage(job->call.share);
  if (call->collective == RING_COLLECTIVE_ALLREDUCE || call->collective == RING_COLLECTIVE_REDUCE)
    ring_staged_prepare(job, stage);
  large_post_buffers(job, stage);
  switch (call->collective) {
  case RING_COLLECTIVE_BROADCAST:
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return ring_large_between(&run, false);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return ring_large_between(&run, true);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
  case RING_COLLECTIVE_ALLTOALL:
    return ring_large_exchange(&run);
  default:
    return ring_large_reduce(&run, (size_t)call->count * job->task->element_size);
  }
}
