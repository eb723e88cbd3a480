/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives that only copy: every byte goes straight from an input to an output, moved by
 * whichever of the two ranks has less to do.
 */
#include "local_large.h"
#include "platform.h"

/* A copy from one rank's input to another one's output that either of them can make. */
typedef struct copy_transfer {
  int from, to;
  size_t in_at, out_at, bytes;
} copy_transfer;

static ring_status copy_move(const ring_large_run *run, const copy_transfer *transfer, size_t at,
                             size_t bytes) {
  int rank = run->job->rank;
  const uint8_t *input = run->inputs[transfer->from].pointer;
  uint8_t *output = run->outputs[transfer->to].pointer;
  if (bytes == 0) return RING_OK;
  if (rank == transfer->to)
    return ring_large_pull(run, transfer->from, transfer->in_at + at,
                           output + transfer->out_at + at, bytes);
  return ring_large_push(run, transfer->to, transfer->out_at + at, input + transfer->in_at + at,
                         bytes);
}

/* Two ranks share the work: each takes the next chunk. */
static ring_status copy_move_shared(const ring_large_run *run, const copy_transfer *transfer) {
  ring_share *share = run->job->call.share;
  _Atomic uint64_t *next = &share->board->claims[share->sequence % RING_SLOTS].next;
  ring_status status = RING_OK;
  while (status == RING_OK) {
    size_t at = (size_t)atomic_fetch_add_explicit(next, RING_LARGE_CHUNK, memory_order_relaxed);
    if (at >= transfer->bytes) break;
    size_t left = transfer->bytes - at;
    status = copy_move(run, transfer, at, left < RING_LARGE_CHUNK ? left : RING_LARGE_CHUNK);
  }
  return status;
}

/* One rank has for, or gets from, each of the others: the others do it, each for itself. Of two
 * ranks the root helps. `all` of the input, or a part of it or of the output. */
ring_status ring_large_between(ring_large_run *run, bool to_root, bool all, size_t bytes) {
  const ring_local_job *job = run->job;
  bool pair = job->size == 2, is_root = job->rank == job->root;
  int other = pair ? 1 - job->root : job->rank;
  size_t at = 0, part = bytes;
  ring_status status = ring_large_meet(run, job->root);
  if (status == RING_OK && pair) status = ring_large_meet(run, other);
  if (status != RING_OK) return status;
  if (!pair) ring_large_own_sides(run);
  bool shared = to_root ? run->output_shared[job->root] : run->input_shared[job->root];
  if (pair) shared = shared && (to_root ? run->input_shared[other] : run->output_shared[other]);
  if (!job->call.share->attaches && !shared) return RING_UNSUPPORTED;
  if (!all) part = ring_local_part(job, job->rank, &at);
  run->streams = ring_large_streams(run, part);
  copy_transfer own = {.from = to_root ? job->rank : job->root,
                       .to = to_root ? job->root : job->rank,
                       .in_at = to_root ? 0 : at,
                       .out_at = to_root ? at : 0,
                       .bytes = part};
  if (is_root || !pair) status = copy_move(run, &own, 0, part);
  if (status == RING_OK && pair) {
    if (!all) part = ring_local_part(job, other, &at);
    copy_transfer others = {.from = to_root ? other : job->root,
                            .to = to_root ? job->root : other,
                            .in_at = to_root || all ? 0 : at,
                            .out_at = to_root ? at : 0,
                            .bytes = part};
    status = copy_move_shared(run, &others);
  }
  ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(run, is_root || pair) : status;
}

/* Writes part of this rank's input to another one's output. */
static ring_status copy_give(const ring_large_run *run, int other, size_t to, size_t from,
                             size_t bytes) {
  const uint8_t *input = run->job->task->input;
  return bytes == 0 ? RING_OK : ring_large_push(run, other, to, input + from, bytes);
}

/* Every rank has something for every other one: its whole input, or a part. Where all outputs can be
 * written each writes its own input, which its caches may still hold, else it reads those of the
 * others. Each begins with another one, so that they do not all go to the same. */
ring_status ring_large_exchange(ring_large_run *run, bool gathers) {
  const ring_local_job *job = run->job;
  const uint8_t *input = job->task->input;
  uint8_t *output = job->task->output;
  size_t own, own_part = ring_local_part(job, job->rank, &own);
  bool pushes = true;
  run->streams = ring_large_streams(run, own_part);
  if (own_part > 0)
    ring_large_copy(output + own, gathers ? input : input + own, own_part, run->streams);
  ring_status status = ring_large_meet_all(run);
  if (status != RING_OK) return status;
  for (int i = 0; i < job->size; i++) pushes = pushes && run->output_shared[i];
  if (!pushes && !ring_large_reaches(run, 0, 0)) return RING_UNSUPPORTED;
  for (int turn = 1; turn < job->size && status == RING_OK; turn++) {
    int other = (job->rank + turn) % job->size;
    size_t at, part = ring_local_part(job, other, &at);
    if (pushes)
      status = copy_give(run, other, own, gathers ? 0 : at, gathers ? own_part : part);
    else if (part > 0)
      status = ring_large_pull(run, other, gathers ? 0 : own, output + at, part);
  }
  ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(run, true) : status;
}
