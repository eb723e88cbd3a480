/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives that only copy, and where they go: straight from an input to an output where
 * one of the two ranks reaches both, else through bounce buffers.
 */
#include "base/platform.h"
#include "shm_collectives/large.h"

ring_large_transfer ring_large_transfer_of(const ring_shm_job *job, int from, int to) {
  ring_large_transfer transfer = {.same = true};
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

/* Bytes [at, at + bytes) of what one rank has for another one. */
static ring_status zero_copy_move(const ring_large_run *run, int from, int to, size_t at,
                                  size_t bytes) {
  ring_large_transfer transfer = ring_large_transfer_of(run->job, from, to);
  if (bytes == 0) return RING_OK;
  return ring_large_move(run, run->outputs[to] + transfer.out_at + at,
                         run->inputs[from] + transfer.in_at + at, bytes);
}

static ring_status zero_copy_move_all(const ring_large_run *run, int from, int to) {
  return zero_copy_move(run, from, to, 0, ring_large_transfer_of(run->job, from, to).bytes);
}

/* Two ranks share the work: each takes the next chunk. */
static ring_status zero_copy_move_shared(const ring_large_run *run, int from, int to) {
  ring_shm *shm = run->job->call.shm;
  _Atomic uint64_t *next = &shm->control_block->claims[shm->sequence % RING_SLOTS].next;
  size_t bytes = ring_large_transfer_of(run->job, from, to).bytes;
  ring_status status = RING_OK;
  for (size_t most = bytes / RING_LARGE_CHUNK + 1; status == RING_OK && most > 0; most--) {
    size_t at = ring_large_claim(next);
    if (at >= bytes) break;
    size_t left = bytes - at;
    status = zero_copy_move(run, from, to, at, left < RING_LARGE_CHUNK ? left : RING_LARGE_CHUNK);
  }
  return status;
}

/* One rank has for, or gets from, each of the others: where they reach the root's buffer, they do it,
 * each for itself. Of two ranks the root helps if it reaches the other one's. Everybody knows what
 * the root has posted, so all go the same way. */
ring_status ring_large_between(ring_large_run *run, bool to_root) {
  const ring_shm_job *job = run->job;
  bool pair = job->size == 2, is_root = job->rank == job->root;
  int other = pair ? 1 - job->root : job->rank;
  ring_status status = ring_large_meet(run, job->root);
  if (status == RING_OK && pair) status = ring_large_meet(run, other);
  if (status != RING_OK) return status;
  ring_large_own_sides(run);
  if (!(to_root ? run->output_shared : run->input_shared)[job->root]) {
    status = ring_large_meet_all(run);
    if (status != RING_OK) return status;
    run->streams = ring_large_streams(run, ring_large_transfer_of(job, job->root, job->root).bytes);
    return ring_large_have_bounces(run) ? ring_bounce_copy(run) : RING_UNSUPPORTED;
  }
  int from = to_root ? other : job->root, to = to_root ? job->root : other;
  pair = pair && (to_root ? run->input_shared : run->output_shared)[other];
  run->streams = ring_large_streams(run, ring_large_transfer_of(job, from, to).bytes);
  if (is_root) status = zero_copy_move_all(run, job->rank, job->rank);
  if (status == RING_OK && pair)
    status = zero_copy_move_shared(run, from, to);
  else if (status == RING_OK && !is_root)
    status = zero_copy_move_all(run, from, to);
  ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&job->call, is_root || pair) : status;
}

/* Every rank has something for every other one: its whole input, or a part. Where all outputs can be
 * written each writes its own input, which its caches may still hold, else it reads those of the
 * others. Each begins with another one, so that they do not all go to the same. */
ring_status ring_large_exchange(ring_large_run *run) {
  const ring_shm_job *job = run->job;
  bool pushes = true, pulls = true;
  ring_status status = ring_large_meet_all(run);
  if (status != RING_OK) return status;
  run->streams = ring_large_streams(run, ring_large_transfer_of(job, job->rank, job->rank).bytes);
  for (int i = 0; i < job->size; i++) {
    pushes = pushes && run->output_shared[i];
    pulls = pulls && run->input_shared[i];
  }
  if (!pushes && !pulls)
    return ring_large_have_bounces(run) ? ring_bounce_copy(run) : RING_UNSUPPORTED;
  for (int turn = 0; turn < job->size && status == RING_OK; turn++) {
    int other = (job->rank + turn) % job->size;
    status = zero_copy_move_all(run, pushes ? job->rank : other, pushes ? other : job->rank);
  }
  ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&job->call, true) : status;
}
