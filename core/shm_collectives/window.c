/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/window.h"

#include <string.h>

#include "base/platform.h"
#include "shm/shm_failure.h"

#define WINDOW_PIECE ((size_t)4096 * 1024) /* after which a copy checks for failures */
#define WINDOW_FOLD ((size_t)8 * 1024)     /* bytes folded at a time, in the first-level cache */

typedef struct window_post {
  uint64_t input, output, bounce; /* offsets in the arena; 0: outside of it, or none */
  uint32_t in_place;
} window_post;

/* ---- Transfers ---------------------------------------------------------------------------- */

ring_window_transfer ring_transfer_of(const ring_shm_job *job, int from, int to) {
  ring_window_transfer transfer = {.same = true};
  switch (job->outline->call.collective) {
  case RING_COLLECTIVE_BROADCAST:
    if (from == job->root)
      transfer.bytes = (size_t)job->outline->call.count * job->task->element_size;
    break;
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    transfer.same = false;
    if (from == job->root) transfer.bytes = ring_shm_part(job, to, &transfer.in_at);
    break;
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    if (to == job->root) transfer.bytes = ring_shm_part(job, from, &transfer.out_at);
    break;
  case RING_COLLECTIVE_ALLTOALL:
    transfer.same = false;
    transfer.bytes = ring_shm_part(job, to, &transfer.in_at);
    ring_shm_part(job, from, &transfer.out_at);
    break;
  default: /* allgather */
    transfer.bytes = ring_shm_part(job, from, &transfer.out_at);
  }
  return transfer;
}

ring_rank_range ring_shm_receivers(const ring_shm_job *job) {
  if (job->outline->call.collective == RING_COLLECTIVE_REDUCE)
    return (ring_rank_range){job->root, job->root + 1};
  return (ring_rank_range){0, job->size};
}

/* ---- Posts -------------------------------------------------------------------------------- */

uint8_t *ring_window_bounce(ring_shm *shm) {
  uint64_t at;
  if (shm->bounce == NULL) shm->bounce = ring_arena_alloc(shm->arena, RING_BOUNCE_BYTES);
  return ring_arena_offset(shm->arena, shm->bounce, RING_BOUNCE_BYTES, &at) ? shm->bounce : NULL;
}

void ring_window_post(const ring_shm_job *job, const uint8_t *bounce) {
  ring_shm *shm = job->call.shm;
  const void *input = job->task->input, *output = job->task->output;
  window_post post = {.in_place = input == output && input != NULL};
  uint64_t at;
  /* No buffer lies half inside the arena, so its first byte decides. */
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

/* The bytes of a rank's input that other ranks may read, or of its output that they may write. */
static size_t window_reached(const ring_shm_job *job, int index, bool output) {
  const ring_call *call = &job->outline->call;
  size_t bytes = (size_t)call->count * job->task->element_size;
  int last = job->size - 1, other = ring_collective_has_root(call->collective) ? job->root : last;
  if (ring_collective_reduces(call->collective)) {
    ring_rank_range receivers = ring_shm_receivers(job);
    bool scatters = ring_collective_scatters_sums(call->collective);
    size_t at = 0, part = scatters ? ring_shm_part(job, index, &at) : bytes;
    if (output) return index >= receivers.first && index < receivers.last ? part : 0;
    part = scatters ? ring_shm_part(job, last, &at) : bytes;
    return at + part;
  }
  size_t most = 0;
  for (int turn = 0; turn < 2; turn++, other = last) { /* the parts of the last rank lie last */
    ring_window_transfer transfer =
        output ? ring_transfer_of(job, other, index) : ring_transfer_of(job, index, other);
    size_t end = transfer.bytes + (output ? transfer.out_at : transfer.in_at);
    if (transfer.bytes > 0 && end > most) most = end;
  }
  return most;
}

/* The address of `bytes` at a posted offset. NULL, and *good false, unless they lie in the arena
 * and are aligned. */
static uint8_t *window_place(const ring_shm_job *job, uint64_t at, size_t bytes, bool *good) {
  if (at == 0) return NULL;
  uint8_t *place = ring_arena_at(job->call.shm->arena, at, bytes);
  bool counts = bytes > 0 && ring_collective_reduces(job->outline->call.collective);
  *good = *good && place != NULL && !(counts && at % job->task->element_size != 0);
  return place;
}

ring_status ring_window_await(ring_window *window, int index) {
  const ring_shm_job *job = window->job;
  const ring_shm_call *call = &job->call;
  window_post post;
  bool own = index == job->rank, good = true;
  ring_status status = RING_OK;
  if (!own) status = ring_shm_await(call, index);
  if (status != RING_OK) return status;
  memcpy(&post, ring_shm_slot(call, index)->bytes, sizeof post);
  uint8_t *input = window_place(job, post.input, window_reached(job, index, false), &good);
  uint8_t *output = window_place(job, post.output, window_reached(job, index, true), &good);
  uint8_t *bounce = window_place(job, post.bounce, RING_BOUNCE_BYTES, &good);
  if (!own && !good) return ring_shm_misleads(call, index);
  if (own) {
    ring_window_enter_own(window);
    window->bounces[index] = post.bounce != 0 ? call->shm->bounce : NULL;
  } else {
    window->inputs[index] = input;
    window->outputs[index] = output;
    window->bounces[index] = bounce;
  }
  window->input_shared[index] = post.input != 0;
  window->output_shared[index] = post.output != 0;
  window->in_place = window->in_place || post.in_place != 0;
  return RING_OK;
}

void ring_window_enter_own(ring_window *window) {
  const ring_shm_job *job = window->job;
  window->inputs[job->rank] = (uint8_t *)(uintptr_t)job->task->input;
  window->outputs[job->rank] = job->task->output;
}

ring_status ring_window_await_all(ring_window *window) {
  ring_status status = RING_OK;
  for (int i = 0; i < window->job->size && status == RING_OK; i++)
    status = ring_window_await(window, i);
  return status;
}

bool ring_window_has_bounces(const ring_window *window) {
  for (int i = 0; i < window->job->size; i++)
    if (window->bounces[i] == NULL) return false;
  return true;
}

ring_status ring_window_finish(const ring_shm_call *call, bool awaits_all) {
  ring_status status = RING_OK;
  const ring_shm *shm = call->shm;
  ring_shm_finish(call);
  for (int i = 0; i < shm->size && awaits_all && status == RING_OK; i++)
    if (i != shm->index) status = ring_shm_await_finish(call, i);
  return status;
}

/* ---- Work --------------------------------------------------------------------------------- */

bool ring_window_failed(const ring_window *window) {
  return ring_shm_failed(window->job->call.shm, NULL, window->job->call.error);
}

bool ring_window_streams(const ring_window *window, size_t bytes) {
  return bytes >= window->job->call.shm->cache / 4 * 3 / (2 * (size_t)window->job->size);
}

void ring_window_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams) {
  if (to == from) return;
  if (streams)
    ring_platform_stream(to, from, bytes);
  else
    memcpy(to, from, bytes);
}

ring_status ring_window_move(const ring_window *window, uint8_t *to, const uint8_t *from,
                             size_t bytes) {
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < WINDOW_PIECE ? bytes - done : WINDOW_PIECE;
    if (ring_window_failed(window)) return window->job->call.error->status;
    ring_window_copy(to + done, from + done, length, window->streams);
  }
  return RING_OK;
}

void ring_window_fold(const ring_window *window, uint8_t *const *sources, uint8_t *const *results,
                      int number, size_t bytes) {
  alignas(RING_LINE) uint8_t block[WINDOW_FOLD];
  const void *pieces[RING_SHM_RANKS];
  const ring_shm_job *job = window->job;
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < WINDOW_FOLD ? bytes - done : WINDOW_FOLD;
    for (int i = 0; i < job->size; i++) pieces[i] = sources[i] + done;
    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): number is at least 1 */
    uint8_t *first = window->streams ? block : results[0] + done;
    ring_shm_fold(job, pieces, first, length / job->task->element_size);
    for (int i = window->streams ? 0 : 1; i < number; i++)
      ring_window_copy(results[i] + done, first, length, window->streams);
  }
}
