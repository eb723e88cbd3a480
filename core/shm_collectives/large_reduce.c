/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/large_reduce.h"

#include "base/platform.h"
#include "base/platform_memory.h"
#include "shm_collectives/bounce.h"

#define LARGE_REDUCE_STATIC ((size_t)512 * 1024) /* up to here every rank reduces one part */

/* How a reduction is cut and where its results go. */
typedef struct large_reduce_plan {
  const ring_window *window;
  ring_rank_range receivers;
  size_t out_offset; /* offset in the inputs less offset in the outputs */
} large_reduce_plan;

/* Reduces bytes [at, at + bytes) of the inputs; writes this rank's own output first. */
static void large_reduce_chunk(const large_reduce_plan *reduction, size_t at, size_t bytes) {
  uint8_t *sources[RING_SHM_RANKS], *results[RING_SHM_RANKS];
  const ring_window *window = reduction->window;
  int number = 0, size = window->job->size;
  for (int i = 0; i < size; i++) sources[i] = window->inputs[i] + at;
  for (int turn = 0; turn < size; turn++) {
    int i = (window->job->rank + turn) % size;
    if (i < reduction->receivers.first || i >= reduction->receivers.last) continue;
    results[number] = window->outputs[i] + at - reduction->out_offset;
    if (turn > 0) ring_platform_touch(results[number], bytes);
    number++;
  }
  ring_window_fold(window, sources, results, number, bytes);
}

static ring_status large_reduce_range(const large_reduce_plan *reduction, size_t at, size_t end) {
  for (size_t bytes; at < end; at += bytes) {
    bytes = end - at < RING_WINDOW_CHUNK ? end - at : RING_WINDOW_CHUNK;
    if (ring_window_failed(reduction->window)) return reduction->window->job->call.error->status;
    large_reduce_chunk(reduction, at, bytes);
  }
  return RING_OK;
}

/* Shares the work on `bytes` among all ranks: one part each, or, if there are many chunks, by
 * claims. */
static ring_status large_reduce_shared(const large_reduce_plan *reduction, size_t bytes) {
  const ring_shm_job *job = reduction->window->job;
  ring_shm *shm = job->call.shm;
  ring_status status = RING_OK;
  if (bytes <= LARGE_REDUCE_STATIC) {
    size_t part = bytes / (size_t)job->size / RING_LINE * RING_LINE + RING_LINE;
    size_t at = (size_t)job->rank * part < bytes ? (size_t)job->rank * part : bytes;
    return large_reduce_range(reduction, at, bytes - at < part ? bytes : at + part);
  }
  _Atomic uint64_t *next = &shm->control_block->claims[shm->sequence % RING_SLOTS].next;
  for (size_t most = bytes / RING_WINDOW_CHUNK + 1; status == RING_OK && most > 0; most--) {
    size_t at = ring_window_claim(next);
    if (at >= bytes) break;
    size_t length = bytes - at < RING_WINDOW_CHUNK ? bytes - at : RING_WINDOW_CHUNK;
    status = large_reduce_range(reduction, at, at + length);
  }
  return status;
}

/* Whether all inputs and the outputs of `receivers` lie in the arena. */
static bool large_reduce_reaches(const ring_window *window, ring_rank_range receivers) {
  for (int i = 0; i < window->job->size; i++) {
    bool receives = i >= receivers.first && i < receivers.last;
    if (!window->input_shared[i] || (receives && !window->output_shared[i])) return false;
  }
  return true;
}

ring_status ring_large_reduce(ring_window *window, size_t bytes) {
  const ring_shm_job *job = window->job;
  bool scatters = ring_collective_scatters_sums(job->outline->call.collective);
  large_reduce_plan reduction = {.window = window, .receivers = ring_shm_receivers(job)};
  ring_status status = ring_window_await_all(window);
  if (status != RING_OK) return status;
  if (scatters) reduction.receivers = (ring_rank_range){job->rank, job->rank + 1};
  if (!large_reduce_reaches(window, scatters ? (ring_rank_range){0, 0} : reduction.receivers)) {
    if (!ring_window_has_bounces(window)) return RING_UNSUPPORTED;
    return scatters ? ring_bounce_reduce_scatter(window) : ring_bounce_reduce(window, bytes);
  }
  window->streams = ring_window_streams(window, bytes) && !window->in_place;
  if (scatters) {
    size_t part = ring_shm_part(job, job->rank, &reduction.out_offset);
    status = large_reduce_range(&reduction, reduction.out_offset, reduction.out_offset + part);
  } else {
    status = large_reduce_shared(&reduction, bytes);
  }
  if (window->streams) ring_platform_stream_end();
  return status == RING_OK ? ring_window_finish(&job->call, true) : status;
}
