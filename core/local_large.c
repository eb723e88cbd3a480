/* SPDX-License-Identifier: Apache-2.0 */
#include "local_large.h"

#include <errno.h>
#include <string.h>

#include "error.h"
#include "platform.h"

#define LARGE_PIECE ((size_t)4096 * 1024) /* after which a copy looks for failures */

typedef struct large_post {
  uint64_t input, output; /* offset in the arena, or address in its process */
  uint32_t input_shared, output_shared;
} large_post;

/* ---- Posts -------------------------------------------------------------------------------- */

void ring_large_post(const ring_local_job *job, const void *input, const void *output) {
  ring_share *share = job->call.share;
  large_post post = {(uintptr_t)input, (uintptr_t)output, 0, 0};
  uint64_t at;
  /* A buffer that lies half inside the arena cannot exist, so its first byte tells. */
  if (ring_arena_offset(share->arena, input, 1, &at)) {
    post.input = at;
    post.input_shared = 1;
  }
  if (ring_arena_offset(share->arena, output, 1, &at)) {
    post.output = at;
    post.output_shared = 1;
  }
  memcpy(ring_share_slot(&job->call, job->rank)->first, &post, sizeof post);
  if (job->rank == 0)
    atomic_store_explicit(&share->board->claims[share->sequence % RING_SLOTS].next, 0,
                          memory_order_relaxed);
  ring_share_publish(&job->call);
}

static ring_large_side large_side_of(const ring_local_job *job, int index, uint64_t where,
                                     bool shared) {
  const ring_share *share = job->call.share;
  if (shared) return (ring_large_side){.pointer = ring_arena_at(share->arena, where)};
  if (index == share->index) return (ring_large_side){.pointer = (uint8_t *)(uintptr_t)where};
  return (ring_large_side){.address = where, .process = ring_share_seat(share, index)->process};
}

ring_status ring_large_meet(ring_large_run *run, int index) {
  const ring_local_job *job = run->job;
  large_post post;
  ring_status status = RING_OK;
  if (index != job->rank) status = ring_share_await(&job->call, index);
  if (status != RING_OK) return status;
  memcpy(&post, ring_share_slot(&job->call, index)->first, sizeof post);
  run->inputs[index] = large_side_of(job, index, post.input, post.input_shared != 0);
  run->outputs[index] = large_side_of(job, index, post.output, post.output_shared != 0);
  run->input_shared[index] = post.input_shared != 0;
  run->output_shared[index] = post.output_shared != 0;
  run->in_place = run->in_place || (post.input == post.output && post.input != 0 &&
                                    post.input_shared == post.output_shared);
  return RING_OK;
}

void ring_large_own_sides(ring_large_run *run) {
  const ring_local_job *job = run->job;
  run->inputs[job->rank].pointer = (uint8_t *)(uintptr_t)job->task->input;
  run->outputs[job->rank].pointer = job->task->output;
}

ring_status ring_large_meet_all(ring_large_run *run) {
  ring_status status = RING_OK;
  for (int i = 0; i < run->job->size && status == RING_OK; i++) status = ring_large_meet(run, i);
  return status;
}

bool ring_large_reaches(const ring_large_run *run, int first, int last) {
  if (run->job->call.share->attaches) return true;
  for (int i = 0; i < run->job->size; i++)
    if (!run->input_shared[i] || (i >= first && i < last && !run->output_shared[i])) return false;
  return true;
}

ring_status ring_large_finish(const ring_large_run *run, bool awaits_all) {
  ring_status status = RING_OK;
  ring_share_finish(&run->job->call);
  for (int i = 0; i < run->job->size && awaits_all && status == RING_OK; i++)
    if (i != run->job->rank) status = ring_share_await_finish(&run->job->call, i);
  return status;
}

/* ---- Moving ------------------------------------------------------------------------------- */

bool ring_large_stops(const ring_large_run *run) {
  return ring_share_failed(run->job->call.share, run->job->call.error);
}

bool ring_large_streams(const ring_large_run *run, size_t bytes) {
  return bytes >= run->job->call.share->cache / 4 * 3 / (2 * (size_t)run->job->size);
}

static ring_status large_unreachable(const ring_large_run *run, int index, const char *what) {
  int rank = run->job->call.share->ranks[index], code = errno;
  if (ring_large_stops(run)) return run->job->call.error->status;
  if (code == ESRCH) return ring_share_lost(&run->job->call, index);
  return ring_error_set(run->job->call.error, code == EFAULT ? RING_INVALID : RING_SYSTEM, rank,
                        code, "rank %d passed an %s buffer that cannot be reached", rank, what);
}

void ring_large_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams) {
  if (to == from) return;
  if (streams)
    ring_platform_stream(to, from, bytes);
  else
    memcpy(to, from, bytes);
}

ring_status ring_large_pull(const ring_large_run *run, int index, size_t at, uint8_t *to,
                            size_t bytes) {
  const ring_large_side *side = &run->inputs[index];
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < LARGE_PIECE ? bytes - done : LARGE_PIECE;
    if (ring_large_stops(run)) return run->job->call.error->status;
    if (side->pointer != NULL)
      ring_large_copy(to + done, side->pointer + at + done, length, run->streams);
    else if (!ring_platform_fetch(side->process, side->address + at + done, to + done, length))
      return large_unreachable(run, index, "input");
  }
  return RING_OK;
}

ring_status ring_large_push(const ring_large_run *run, int index, size_t at, const uint8_t *from,
                            size_t bytes) {
  const ring_large_side *side = &run->outputs[index];
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < LARGE_PIECE ? bytes - done : LARGE_PIECE;
    if (ring_large_stops(run)) return run->job->call.error->status;
    if (side->pointer != NULL)
      ring_large_copy(side->pointer + at + done, from + done, length, run->streams);
    else if (!ring_platform_store(side->process, side->address + at + done, from + done, length))
      return large_unreachable(run, index, "output");
  }
  return RING_OK;
}

/* ---- The collectives ---------------------------------------------------------------------- */

ring_status ring_local_large(const ring_local_job *job) {
  ring_large_run run = {.job = job};
  const ring_call *call = &job->outline->call;
  size_t bytes = (size_t)call->count * job->task->element_size;
  if (call->collective == RING_COLLECTIVE_ALLREDUCE) return ring_large_allreduce(&run, bytes);
  ring_large_post(job, job->task->input, job->task->output);
  switch (call->collective) {
  case RING_COLLECTIVE_BROADCAST:
    return ring_large_between(&run, false, true, bytes);
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return ring_large_between(&run, false, false, bytes);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return ring_large_between(&run, true, false, bytes);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
    return ring_large_exchange(&run, true);
  case RING_COLLECTIVE_ALLTOALL:
    return ring_large_exchange(&run, false);
  default:
    return ring_large_reduce(&run, call->collective, bytes);
  }
}
