/* SPDX-License-Identifier: Apache-2.0
 *
 * Large reductions. They are cut into chunks; whoever has a chunk reads it from all inputs and writes
 * it to all outputs, if they lie in the arena; else the reduction goes through bounce buffers. Results that
 * the caches cannot hold anyway go past them (non-temporal stores), unless they replace the input
 * that was just read.
 */
#include "base/platform.h"
#include "shm_collectives/large.h"

#define REDUCE_STATIC ((size_t)512 * 1024) /* up to here every rank has one share */
#define REDUCE_PIECE ((size_t)8 * 1024)    /* folded, and copied from the first-level cache */

/* How a reduction is cut and where its results go. */
typedef struct large_reduce_plan {
  const ring_large_run *run;
  ring_large_range receivers;
  size_t out_offset; /* of the result in the outputs, less its offset in the inputs */
} large_reduce_plan;

ring_large_range ring_large_receivers(const ring_shm_job *job) {
  if (job->outline->call.collective == RING_COLLECTIVE_REDUCE)
    return (ring_large_range){job->root, job->root + 1};
  return (ring_large_range){0, job->size};
}

void ring_large_fold(const ring_large_run *run, uint8_t *const *sources, uint8_t *const *results,
                     int number, size_t bytes) {
  alignas(RING_LINE) uint8_t block[REDUCE_PIECE];
  const void *pieces[RING_SHM_RANKS];
  const ring_shm_job *job = run->job;
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < REDUCE_PIECE ? bytes - done : REDUCE_PIECE;
    for (int i = 0; i < job->size; i++) pieces[i] = sources[i] + done;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): number is at least 1 */
    uint8_t *first = run->streams ? block : results[0] + done;
    ring_shm_fold(job, pieces, first, length / job->task->element_size);
    for (int i = run->streams ? 0 : 1; i < number; i++)
      ring_large_copy(results[i] + done, first, length, run->streams);
  }
}

/* Reduces bytes [at, at + bytes) of the inputs; this rank's own output comes first. */
static void large_reduce_chunk(const large_reduce_plan *reduction, size_t at, size_t bytes) {
  uint8_t *sources[RING_SHM_RANKS], *results[RING_SHM_RANKS];
  const ring_large_run *run = reduction->run;
  int number = 0, size = run->job->size;
  for (int i = 0; i < size; i++) sources[i] = run->inputs[i] + at;
  for (int turn = 0; turn < size; turn++) {
    int i = (run->job->rank + turn) % size;
    if (i < reduction->receivers.first || i >= reduction->receivers.last) continue;
    results[number] = run->outputs[i] + at - reduction->out_offset;
    if (turn > 0) ring_platform_touch(results[number], bytes);
    number++;
  }
  ring_large_fold(run, sources, results, number, bytes);
}

static ring_status large_reduce_range(const large_reduce_plan *reduction, size_t at, size_t end) {
  for (size_t bytes; at < end; at += bytes) {
    bytes = end - at < RING_LARGE_CHUNK ? end - at : RING_LARGE_CHUNK;
    if (ring_large_stops(reduction->run)) return reduction->run->job->call.error->status;
    large_reduce_chunk(reduction, at, bytes);
  }
  return RING_OK;
}

/* All ranks share the work on `bytes`: one part each, or, when there are many chunks, whoever has
 * time takes the next. */
static ring_status large_reduce_shared(const large_reduce_plan *reduction, size_t bytes) {
  const ring_shm_job *job = reduction->run->job;
  ring_shm *shm = job->call.shm;
  ring_status status = RING_OK;
  if (bytes <= REDUCE_STATIC) {
    size_t part = bytes / (size_t)job->size / RING_LINE * RING_LINE + RING_LINE;
    size_t at = (size_t)job->rank * part < bytes ? (size_t)job->rank * part : bytes;
    return large_reduce_range(reduction, at, bytes - at < part ? bytes : at + part);
  }
  _Atomic uint64_t *next = &shm->control_block->claims[shm->sequence % RING_SLOTS].next;
  for (size_t most = bytes / RING_LARGE_CHUNK + 1; status == RING_OK && most > 0; most--) {
    size_t at = ring_large_claim(next);
    if (at >= bytes) break;
    size_t length = bytes - at < RING_LARGE_CHUNK ? bytes - at : RING_LARGE_CHUNK;
    status = large_reduce_range(reduction, at, at + length);
  }
  return status;
}

/* Whether the arena has all inputs and the outputs of `receivers`. */
static bool large_reduce_reaches(const ring_large_run *run, ring_large_range receivers) {
  for (int i = 0; i < run->job->size; i++) {
    bool receives = i >= receivers.first && i < receivers.last;
    if (!run->input_shared[i] || (receives && !run->output_shared[i])) return false;
  }
  return true;
}

ring_status ring_large_reduce(ring_large_run *run, size_t bytes) {
  const ring_shm_job *job = run->job;
  bool scatters = job->outline->call.collective == RING_COLLECTIVE_REDUCE_SCATTER;
  large_reduce_plan reduction = {.run = run, .receivers = ring_large_receivers(job)};
  ring_status status = ring_large_meet_all(run);
  if (status != RING_OK) return status;
  if (scatters) reduction.receivers = (ring_large_range){job->rank, job->rank + 1};
  if (!large_reduce_reaches(run, scatters ? (ring_large_range){0, 0} : reduction.receivers)) {
    if (!ring_large_have_bounces(run)) return RING_UNSUPPORTED;
    return scatters ? ring_bounce_reduce_scatter(run, bytes) : ring_bounce_reduce(run, bytes);
  }
  run->streams = ring_large_streams(run, bytes) && !run->in_place;
  if (scatters) {
    reduction.out_offset = (size_t)job->rank * bytes;
    status = large_reduce_range(&reduction, reduction.out_offset, reduction.out_offset + bytes);
  } else {
    status = large_reduce_shared(&reduction, bytes);
  }
  if (run->streams) ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&job->call, true) : status;
}
