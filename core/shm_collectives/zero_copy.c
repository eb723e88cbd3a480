/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/zero_copy.h"

#include "base/platform.h"
#include "shm_collectives/bounce.h"

/* Moves bytes [at, at + bytes) of a transfer. */
static ring_status zero_copy_move(const ring_window *window, int from, int to, size_t at,
                                  size_t bytes) {
  ring_window_transfer transfer = ring_transfer_of(window->job, from, to);
  if (bytes == 0) return RING_OK;
  return ring_window_move(window, window->outputs[to] + transfer.out_at + at,
                          window->inputs[from] + transfer.in_at + at, bytes);
}

static ring_status zero_copy_move_all(const ring_window *window, int from, int to) {
  return zero_copy_move(window, from, to, 0, ring_transfer_of(window->job, from, to).bytes);
}

/* Two ranks share the work: each claims the next chunk. */
static ring_status zero_copy_move_shared(const ring_window *window, int from, int to) {
  ring_shm *shm = window->job->call.shm;
  _Atomic uint64_t *next = &shm->control_block->claims[shm->sequence % RING_SLOTS].next;
  size_t bytes = ring_transfer_of(window->job, from, to).bytes;
  ring_status status = RING_OK;
  for (size_t most = bytes / RING_WINDOW_CHUNK + 1; status == RING_OK && most > 0; most--) {
    size_t at = ring_window_claim(next);
    if (at >= bytes) break;
    size_t left = bytes - at;
    status =
        zero_copy_move(window, from, to, at, left < RING_WINDOW_CHUNK ? left : RING_WINDOW_CHUNK);
  }
  return status;
}

/* If the root's buffer lies in the arena, each of the other ranks copies its own bytes. In a group
 * of two the root helps if it reaches the other rank's buffer. All ranks know the root's post, so
 * all take the same way. */
ring_status ring_zero_copy_rooted(ring_window *window, bool to_root) {
  const ring_shm_job *job = window->job;
  bool pair = job->size == 2, is_root = job->rank == job->root;
  int other = pair ? 1 - job->root : job->rank;
  ring_status status = ring_window_await(window, job->root);
  if (status == RING_OK && pair) status = ring_window_await(window, other);
  if (status != RING_OK) return status;
  ring_window_enter_own(window);
  if (!(to_root ? window->output_shared : window->input_shared)[job->root]) {
    status = ring_window_await_all(window);
    if (status != RING_OK) return status;
    window->streams =
        ring_window_streams(window, ring_transfer_of(job, job->root, job->root).bytes);
    return ring_window_has_bounces(window) ? ring_bounce_copy(window) : RING_UNSUPPORTED;
  }
  int from = to_root ? other : job->root, to = to_root ? job->root : other;
  pair = pair && (to_root ? window->input_shared : window->output_shared)[other];
  window->streams = ring_window_streams(window, ring_transfer_of(job, from, to).bytes);
  if (is_root) status = zero_copy_move_all(window, job->rank, job->rank);
  if (status == RING_OK && pair)
    status = zero_copy_move_shared(window, from, to);
  else if (status == RING_OK && !is_root)
    status = zero_copy_move_all(window, from, to);
  ring_platform_stream_end();
  return status == RING_OK ? ring_window_finish(&job->call, is_root || pair) : status;
}

/* If all outputs lie in the arena each rank writes its own input to them, since its caches may
 * still hold that input; else it reads the inputs of the other ranks. Each rank begins with a
 * different rank, which spreads the load. */
ring_status ring_zero_copy_all(ring_window *window) {
  const ring_shm_job *job = window->job;
  bool pushes = true, pulls = true;
  ring_status status = ring_window_await_all(window);
  if (status != RING_OK) return status;
  window->streams = ring_window_streams(window, ring_transfer_of(job, job->rank, job->rank).bytes);
  for (int i = 0; i < job->size; i++) {
    pushes = pushes && window->output_shared[i];
    pulls = pulls && window->input_shared[i];
  }
  if (!pushes && !pulls)
    return ring_window_has_bounces(window) ? ring_bounce_copy(window) : RING_UNSUPPORTED;
  for (int turn = 0; turn < job->size && status == RING_OK; turn++) {
    int other = (job->rank + turn) % job->size;
    status = zero_copy_move_all(window, pushes ? job->rank : other, pushes ? other : job->rank);
  }
  ring_platform_stream_end();
  return status == RING_OK ? ring_window_finish(&job->call, true) : status;
}
