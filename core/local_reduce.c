/* SPDX-License-Identifier: Apache-2.0
 *
 * Large reductions. They are cut into chunks; whoever has a chunk reads it from all inputs and writes
 * it to all outputs. What has to be attached goes through scratch that stays in the second-level
 * cache. Results that the caches cannot hold anyway go past them (non-temporal stores), unless they
 * replace the input that was just read.
 */
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "local_large.h"
#include "platform.h"

#define REDUCE_STATIC ((size_t)512 * 1024) /* up to here every rank has one share */
#define REDUCE_SCRATCH ((size_t)1024 * 1024)
#define REDUCE_LINES ((size_t)8 * 1024)         /* that go past the caches at a time */
#define REDUCE_STAGE ((size_t)32 * 1024 * 1024) /* the longest buffer that is copied first */

/* How a reduction is cut and where its results go. */
typedef struct reduce_plan {
  ring_large_run *run;
  int first, last;   /* the ranks whose outputs get the result: [first, last) */
  size_t out_offset; /* of the result in the outputs, less its offset in the inputs */
  size_t chunk;
  uint8_t *scratch; /* one chunk a rank, and one more */
  bool streams;
} reduce_plan;

/* Folds a chunk block by block in the first-level cache, and streams each block to all outputs. */
static void reduce_and_stream(const reduce_plan *reduction, const void *const *sources, size_t at,
                              size_t bytes) {
  alignas(RING_LINE) uint8_t block[REDUCE_LINES];
  const void *pieces[RING_SHARE_RANKS];
  const ring_local_job *job = reduction->run->job;
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < REDUCE_LINES ? bytes - done : REDUCE_LINES;
    for (int i = 0; i < job->size; i++) pieces[i] = (const uint8_t *)sources[i] + done;
    ring_local_fold(job, pieces, block, length / job->task->element_size);
    for (int i = reduction->first; i < reduction->last; i++)
      ring_platform_stream(reduction->run->outputs[i].pointer + at - reduction->out_offset + done,
                           block, length);
  }
}

/* Folds a chunk into one output, or scratch, and copies it to the others. */
static ring_status reduce_and_copy(const reduce_plan *reduction, const void *const *sources,
                                   size_t at, size_t bytes) {
  ring_large_run *run = reduction->run;
  const ring_local_job *job = run->job;
  size_t to = at - reduction->out_offset;
  int nearest = -1;
  ring_status status = RING_OK;
  for (int i = reduction->first; i < reduction->last; i++)
    if (run->outputs[i].pointer != NULL && (nearest < 0 || i == job->rank)) nearest = i;
  uint8_t *result = nearest < 0 ? reduction->scratch + (size_t)job->size * reduction->chunk
                                : run->outputs[nearest].pointer + to;
  ring_local_fold(job, sources, result, bytes / job->task->element_size);
  for (int i = reduction->first; i < reduction->last && status == RING_OK; i++) {
    if (i == nearest) continue;
    if (run->outputs[i].pointer != NULL)
      memcpy(run->outputs[i].pointer + to, result, bytes);
    else
      status = ring_large_push(run, i, to, result, bytes);
  }
  return status;
}

/* Reduces bytes [at, at + bytes) of the inputs. */
static ring_status reduce_chunk(const reduce_plan *reduction, size_t at, size_t bytes) {
  const void *sources[RING_SHARE_RANKS];
  ring_large_run *run = reduction->run;
  for (int i = 0; i < run->job->size; i++) {
    uint8_t *copy = reduction->scratch + (size_t)i * reduction->chunk;
    sources[i] = run->inputs[i].pointer != NULL ? run->inputs[i].pointer + at : copy;
    if (run->inputs[i].pointer != NULL) continue;
    ring_status status = ring_large_pull(run, i, at, copy, bytes);
    if (status != RING_OK) return status;
  }
  if (!reduction->streams) return reduce_and_copy(reduction, sources, at, bytes);
  reduce_and_stream(reduction, sources, at, bytes);
  return RING_OK;
}

static ring_status reduce_range(const reduce_plan *reduction, size_t at, size_t end) {
  ring_status status = RING_OK;
  while (at < end && status == RING_OK) {
    size_t bytes = end - at < reduction->chunk ? end - at : reduction->chunk;
    if (ring_large_stops(reduction->run)) return reduction->run->job->call.error->status;
    status = reduce_chunk(reduction, at, bytes);
    at += bytes;
  }
  return status;
}

/* All ranks share the work on `bytes`: one part each, or, when there are many chunks, whoever has
 * time takes the next. */
static ring_status reduce_shared(const reduce_plan *reduction, size_t bytes) {
  const ring_local_job *job = reduction->run->job;
  ring_share *share = job->call.share;
  ring_status status = RING_OK;
  if (bytes <= REDUCE_STATIC) {
    size_t part = bytes / (size_t)job->size / RING_LINE * RING_LINE + RING_LINE;
    size_t at = (size_t)job->rank * part < bytes ? (size_t)job->rank * part : bytes;
    return reduce_range(reduction, at, bytes - at < part ? bytes : at + part);
  }
  _Atomic uint64_t *next = &share->board->claims[share->sequence % RING_SLOTS].next;
  while (status == RING_OK) {
    size_t at = (size_t)atomic_fetch_add_explicit(next, reduction->chunk, memory_order_relaxed);
    if (at >= bytes) break;
    size_t length = bytes - at < reduction->chunk ? bytes - at : reduction->chunk;
    status = reduce_range(reduction, at, at + length);
  }
  return status;
}

static bool reduce_scratch(reduce_plan *reduction) {
  ring_share *share = reduction->run->job->call.share;
  size_t chunk = REDUCE_SCRATCH / (size_t)(share->size + 1) / 4096 * 4096;
  reduction->chunk = chunk < RING_LARGE_CHUNK ? chunk : RING_LARGE_CHUNK;
  if (share->scratch == NULL) share->scratch = aligned_alloc(4096, REDUCE_SCRATCH);
  reduction->scratch = share->scratch;
  return share->scratch != NULL;
}

ring_status ring_large_reduce(ring_large_run *run, uint8_t collective, size_t bytes) {
  const ring_local_job *job = run->job;
  bool scatters = collective == RING_COLLECTIVE_REDUCE_SCATTER;
  bool to_root = collective == RING_COLLECTIVE_REDUCE;
  reduce_plan reduction = {.run = run, .last = job->size};
  ring_status status = ring_large_meet_all(run);
  if (status != RING_OK) return status;
  if (to_root || scatters) {
    reduction.first = to_root ? job->root : job->rank;
    reduction.last = reduction.first + 1;
  }
  if (!ring_large_reaches(run, reduction.first, scatters ? 0 : reduction.last))
    return RING_UNSUPPORTED;
  reduction.streams = ring_large_streams(run, bytes) && !run->in_place;
  for (int i = reduction.first; i < reduction.last; i++)
    reduction.streams = reduction.streams && run->outputs[i].pointer != NULL;
  if (!reduce_scratch(&reduction))
    return ring_error_set(job->call.error, RING_NO_MEMORY, job->rank, 0,
                          "rank %d is out of memory: the call needs %zu bytes of scratch",
                          job->rank, REDUCE_SCRATCH);
  if (scatters) {
    reduction.out_offset = (size_t)job->rank * bytes;
    status = reduce_range(&reduction, reduction.out_offset, reduction.out_offset + bytes);
  } else {
    status = reduce_shared(&reduction, bytes);
  }
  if (reduction.streams) ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(run, true) : status;
}

/* A buffer in the arena to work in, of this call; NULL where that is too much memory. */
static void *reduce_stage(ring_share *share, size_t bytes) {
  uint64_t at;
  if (bytes > REDUCE_STAGE) return NULL;
  if (share->stage_room < bytes) {
    ring_free(share->stage);
    share->stage = ring_arena_alloc(share->arena, bytes);
    share->stage_room = share->stage == NULL ? 0 : bytes;
  }
  return ring_arena_offset(share->arena, share->stage, bytes, &at) ? share->stage : NULL;
}

/* What lies outside the arena the kernel would copy, page by page, for every rank that needs it. To
 * copy it into the arena first takes less time, and it serves where attaching is forbidden: input
 * into output, if that lies there, else both into a stage. Only of two ranks, and beyond the caches,
 * attaching is better. Each rank decides that for itself. */
ring_status ring_large_allreduce(ring_large_run *run, size_t bytes) {
  const ring_local_job *job = run->job;
  ring_share *share = job->call.share;
  const void *input = job->task->input;
  void *output = job->task->output;
  uint64_t at;
  bool input_lies = ring_arena_offset(share->arena, input, 1, &at);
  bool output_lies = ring_arena_offset(share->arena, output, 1, &at);
  bool attaches = share->attaches && job->size == 2 && bytes >= share->cache;
  if (!attaches && !output_lies) output = reduce_stage(share, bytes);
  if (output == NULL) output = job->task->output;
  bool staged = output != job->task->output;
  if (!attaches && !input_lies && (output_lies || staged)) {
    if (input != output) memcpy(output, input, bytes);
    input = output;
  }
  ring_large_post(job, input, output);
  ring_status status = ring_large_reduce(run, RING_COLLECTIVE_ALLREDUCE, bytes);
  if (status == RING_OK && staged) memcpy(job->task->output, output, bytes);
  return status;
}
