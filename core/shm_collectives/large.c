/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/large.h"

#include <string.h>

#include "base/platform.h"

#define LARGE_PIECE ((size_t)4096 * 1024) /* after which a copy looks for failures */

typedef struct large_post {
  uint64_t input, output, bounce; /* offsets in the arena; 0: outside of it, or none */
  uint32_t in_place;
} large_post;

/* ---- Posts -------------------------------------------------------------------------------- */

/* This rank's bounce buffer, made when it is first needed; NULL where the arena has no room for it. */
static uint8_t *large_bounce(ring_shm *shm) {
  uint64_t at;
  if (shm->bounce == NULL) shm->bounce = ring_arena_alloc(shm->arena, RING_BOUNCE_BYTES);
  return ring_arena_offset(shm->arena, shm->bounce, RING_BOUNCE_BYTES, &at) ? shm->bounce : NULL;
}

/* Tells the others where this rank's buffers are. */
static void large_post_buffers(const ring_shm_job *job, const uint8_t *bounce) {
  ring_shm *shm = job->call.shm;
  const void *input = job->task->input, *output = job->task->output;
  large_post post = {.in_place = input == output && input != NULL};
  uint64_t at;
  /* A buffer that lies half inside the arena cannot exist, so its first byte tells. */
  if (ring_arena_offset(shm->arena, input, 1, &at)) post.input = at;
  if (ring_arena_offset(shm->arena, output, 1, &at)) post.output = at;
  if (bounce != NULL && ring_arena_offset(shm->arena, bounce, RING_BOUNCE_BYTES, &at))
    post.bounce = at;
  memcpy(ring_shm_slot(&job->call, job->rank)->bytes, &post, sizeof post);
  if (job->rank == 0)
    atomic_store_explicit(&shm->control_block->claims[shm->sequence % RING_SLOTS].next, 0,
                          memory_order_relaxed);
  ring_shm_publish(&job->call);
}

/* How many bytes of a rank's input the others may read, or of its output write. */
static size_t large_reached(const ring_shm_job *job, int index, bool output) {
  const ring_call *call = &job->outline->call;
  size_t bytes = (size_t)call->count * job->task->element_size;
  int last = job->size - 1, other = ring_collective_has_root(call->collective) ? job->root : last;
  if (ring_collective_reduces(call->collective)) {
    ring_large_range receivers = ring_large_receivers(job);
    bool scatters = call->collective == RING_COLLECTIVE_REDUCE_SCATTER;
    if (output) return index >= receivers.first && index < receivers.last ? bytes : 0;
    return scatters ? bytes * (size_t)job->size : bytes;
  }
  size_t most = 0;
  for (int turn = 0; turn < 2; turn++, other = last) { /* the parts of the last rank lie last */
    ring_large_transfer transfer = output ? ring_large_transfer_of(job, other, index)
                                          : ring_large_transfer_of(job, index, other);
    size_t end = transfer.bytes + (output ? transfer.out_at : transfer.in_at);
    if (transfer.bytes > 0 && end > most) most = end;
  }
  return most;
}

/* The place of `bytes` that another rank says begin there; NULL, and *good false, unless they lie in the
 * arena and can hold what they are to. */
static uint8_t *large_place(const ring_shm_job *job, uint64_t at, size_t bytes, bool *good) {
  if (at == 0) return NULL;
  uint8_t *place = ring_arena_at(job->call.shm->arena, at, bytes);
  bool counts = bytes > 0 && ring_collective_reduces(job->outline->call.collective);
  *good = *good && place != NULL && !(counts && at % job->task->element_size != 0);
  return place;
}

ring_status ring_large_meet(ring_large_run *run, int index) {
  const ring_shm_job *job = run->job;
  const ring_shm_call *call = &job->call;
  large_post post;
  bool own = index == job->rank, good = true;
  ring_status status = RING_OK;
  if (!own) status = ring_shm_await(call, index);
  if (status != RING_OK) return status;
  memcpy(&post, ring_shm_slot(call, index)->bytes, sizeof post);
  uint8_t *input = large_place(job, post.input, large_reached(job, index, false), &good);
  uint8_t *output = large_place(job, post.output, large_reached(job, index, true), &good);
  uint8_t *bounce = large_place(job, post.bounce, RING_BOUNCE_BYTES, &good);
  if (!own && !good) return ring_shm_misleads(call, index);
  if (own) {
    ring_large_own_sides(run);
    run->bounces[index] = post.bounce != 0 ? call->shm->bounce : NULL;
  } else {
    run->inputs[index] = input;
    run->outputs[index] = output;
    run->bounces[index] = bounce;
  }
  run->input_shared[index] = post.input != 0;
  run->output_shared[index] = post.output != 0;
  run->in_place = run->in_place || post.in_place != 0;
  return RING_OK;
}

void ring_large_own_sides(ring_large_run *run) {
  const ring_shm_job *job = run->job;
  run->inputs[job->rank] = (uint8_t *)(uintptr_t)job->task->input;
  run->outputs[job->rank] = job->task->output;
}

ring_status ring_large_meet_all(ring_large_run *run) {
  ring_status status = RING_OK;
  for (int i = 0; i < run->job->size && status == RING_OK; i++) status = ring_large_meet(run, i);
  return status;
}

bool ring_large_have_bounces(const ring_large_run *run) {
  for (int i = 0; i < run->job->size; i++)
    if (run->bounces[i] == NULL) return false;
  return true;
}

ring_status ring_large_finish(const ring_shm_call *call, bool awaits_all) {
  ring_status status = RING_OK;
  const ring_shm *shm = call->shm;
  ring_shm_finish(call);
  for (int i = 0; i < shm->size && awaits_all && status == RING_OK; i++)
    if (i != shm->index) status = ring_shm_await_finish(call, i);
  return status;
}

/* ---- Moving ------------------------------------------------------------------------------- */

bool ring_large_stops(const ring_large_run *run) {
  return ring_shm_failed(run->job->call.shm, NULL, run->job->call.error);
}

bool ring_large_streams(const ring_large_run *run, size_t bytes) {
  return bytes >= run->job->call.shm->cache / 4 * 3 / (2 * (size_t)run->job->size);
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

ring_status ring_shm_large(const ring_shm_job *job) {
  ring_large_run run = {.job = job};
  const ring_call *call = &job->outline->call;
  uint8_t *bounce = large_bounce(job->call.shm);
  if (call->collective == RING_COLLECTIVE_ALLREDUCE || call->collective == RING_COLLECTIVE_REDUCE)
    ring_bounce_prepare(job, bounce);
  large_post_buffers(job, bounce);
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
