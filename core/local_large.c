/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives. A rank's slot says where its input and its output lie: `posts`. What lies in
 * the arena, and a rank's own buffers, are reached by pointers; the rest by cross memory attach,
 * through scratch that stays in the second-level cache. Where the system forbids that, the call is
 * not supported here. An allreduce, which would need it most, copies into the arena first.
 *
 * Results that the caches cannot hold anyway go past them (non-temporal stores), unless they
 * replace the input that was just read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "local.h"
#include "platform.h"

#define LARGE_CHUNK ((size_t)128 * 1024)  /* that a rank claims at a time */
#define LARGE_STATIC ((size_t)512 * 1024) /* up to here every rank has one share */
#define LARGE_SCRATCH ((size_t)1024 * 1024)
#define LARGE_BLOCK ((size_t)8 * 1024) /* of results that go past the caches, at a time */
#define LARGE_STAGE ((size_t)32 * 1024 * 1024)
#define LARGE_PIECE ((size_t)4096 * 1024) /* after which a copy looks for failures */

typedef struct large_post {
  uint64_t input, output; /* offset in the arena, or address in its process */
  uint32_t input_shared, output_shared;
} large_post;

/* A buffer of some rank, as this rank reaches it. */
typedef struct large_side {
  uint8_t *pointer; /* NULL: by cross memory attach */
  uint64_t address;
  pid_t process;
} large_side;

typedef struct large_run {
  const ring_local_job *job;
  large_side inputs[RING_SHARE_RANKS], outputs[RING_SHARE_RANKS];
  bool input_shared[RING_SHARE_RANKS], output_shared[RING_SHARE_RANKS];
  bool streams;  /* copies go past the caches */
  bool in_place; /* some rank's output replaces its input */
} large_run;

/* ---- Posts -------------------------------------------------------------------------------- */

static void large_post_own(const ring_local_job *job, const void *input, const void *output) {
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

static large_side large_side_of(const ring_local_job *job, int index, uint64_t where, bool shared) {
  const ring_share *share = job->call.share;
  if (shared) return (large_side){.pointer = ring_arena_at(share->arena, where)};
  if (index == share->index) return (large_side){.pointer = (uint8_t *)(uintptr_t)where};
  return (large_side){.address = where, .process = ring_share_seat(share, index)->process};
}

/* Waits for a rank's post. */
static ring_status large_meet(large_run *run, int index) {
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

/* This rank's own buffers, when it does not need the posts of all. */
static void large_own_sides(large_run *run) {
  const ring_local_job *job = run->job;
  run->inputs[job->rank].pointer = (uint8_t *)(uintptr_t)job->task->input;
  run->outputs[job->rank].pointer = job->task->output;
}

static ring_status large_meet_all(large_run *run) {
  ring_status status = RING_OK;
  for (int i = 0; i < run->job->size && status == RING_OK; i++) status = large_meet(run, i);
  return status;
}

/* Whether all ranks can reach all inputs, and the outputs of the ranks [first, last). Judged from what
 * all of them know. */
static bool large_reaches(const large_run *run, int first, int last) {
  if (run->job->call.share->attaches) return true;
  for (int i = 0; i < run->job->size; i++)
    if (!run->input_shared[i] || (i >= first && i < last && !run->output_shared[i])) return false;
  return true;
}

static ring_status large_finish(const large_run *run, bool awaits_all) {
  ring_status status = RING_OK;
  ring_share_finish(&run->job->call);
  for (int i = 0; i < run->job->size && awaits_all && status == RING_OK; i++)
    if (i != run->job->rank) status = ring_share_await_finish(&run->job->call, i);
  return status;
}

/* ---- Moving ------------------------------------------------------------------------------- */

/* Whether another rank has failed meanwhile: its buffers may be gone. */
static bool large_stops(const large_run *run) {
  return ring_share_failed(run->job->call.share, run->job->call.error);
}

/* Whether what the ranks read and write in a call, `buffers` of `bytes`, is more than the caches
 * hold. */
static bool large_streams(const large_run *run, size_t buffers, size_t bytes) {
  return bytes >= run->job->call.share->cache / 4 * 3 / buffers;
}

static ring_status large_unreachable(const large_run *run, int index, const char *what) {
  int rank = run->job->call.share->ranks[index], code = errno;
  if (large_stops(run)) return run->job->call.error->status;
  if (code == ESRCH) return ring_share_lost(&run->job->call, index);
  return ring_error_set(run->job->call.error, code == EFAULT ? RING_INVALID : RING_SYSTEM, rank,
                        code, "rank %d passed an %s buffer that cannot be reached", rank, what);
}

static void large_copy(uint8_t *to, const uint8_t *from, size_t bytes, bool streams) {
  if (to == from) return;
  if (streams)
    ring_platform_stream(to, from, bytes);
  else
    memcpy(to, from, bytes);
}

/* Reads from a rank's input, straight to its place. */
static ring_status large_pull(const large_run *run, int index, size_t at, uint8_t *to,
                              size_t bytes) {
  const large_side *side = &run->inputs[index];
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < LARGE_PIECE ? bytes - done : LARGE_PIECE;
    if (large_stops(run)) return run->job->call.error->status;
    if (side->pointer != NULL)
      large_copy(to + done, side->pointer + at + done, length, run->streams);
    else if (!ring_platform_fetch(side->process, side->address + at + done, to + done, length))
      return large_unreachable(run, index, "input");
  }
  return RING_OK;
}

static ring_status large_push(const large_run *run, int index, size_t at, const uint8_t *from,
                              size_t bytes) {
  const large_side *side = &run->outputs[index];
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < LARGE_PIECE ? bytes - done : LARGE_PIECE;
    if (large_stops(run)) return run->job->call.error->status;
    if (side->pointer != NULL)
      large_copy(side->pointer + at + done, from + done, length, run->streams);
    else if (!ring_platform_store(side->process, side->address + at + done, from + done, length))
      return large_unreachable(run, index, "output");
  }
  return RING_OK;
}

/* ---- Reducing ----------------------------------------------------------------------------- */

/* How a reduction is cut and where its results go. */
typedef struct large_reduction {
  large_run *run;
  int first, last;   /* the ranks whose outputs get the result: [first, last) */
  size_t out_offset; /* of the result in the outputs, less its offset in the inputs */
  size_t chunk;
  uint8_t *scratch; /* one chunk a rank, and one more */
  bool streams, stores;
} large_reduction;

/* Folds a chunk block by block in the first-level cache, and streams each block to all outputs. */
static void large_fold_and_stream(const large_reduction *reduction, const void *const *sources,
                                  size_t at, size_t bytes) {
  alignas(RING_LINE) uint8_t block[LARGE_BLOCK];
  const void *pieces[RING_SHARE_RANKS];
  const ring_local_job *job = reduction->run->job;
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done < LARGE_BLOCK ? bytes - done : LARGE_BLOCK;
    for (int i = 0; i < job->size; i++) pieces[i] = (const uint8_t *)sources[i] + done;
    ring_local_fold(job, pieces, block, length / job->task->element_size);
    for (int i = reduction->first; i < reduction->last; i++)
      ring_platform_stream(reduction->run->outputs[i].pointer + at - reduction->out_offset + done,
                           block, length);
  }
}

/* Folds a chunk into one output, or scratch, and copies it to the others. */
static ring_status large_fold_and_copy(const large_reduction *reduction, const void *const *sources,
                                       size_t at, size_t bytes) {
  large_run *run = reduction->run;
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
      status = large_push(run, i, to, result, bytes);
  }
  return status;
}

/* Reduces bytes [at, at + bytes) of the inputs. */
static ring_status large_reduce_chunk(const large_reduction *reduction, size_t at, size_t bytes) {
  const void *sources[RING_SHARE_RANKS];
  large_run *run = reduction->run;
  for (int i = 0; i < run->job->size; i++) {
    uint8_t *copy = reduction->scratch + (size_t)i * reduction->chunk;
    sources[i] = run->inputs[i].pointer != NULL ? run->inputs[i].pointer + at : copy;
    if (run->inputs[i].pointer != NULL) continue;
    ring_status status = large_pull(run, i, at, copy, bytes);
    if (status != RING_OK) return status;
  }
  if (!reduction->streams) return large_fold_and_copy(reduction, sources, at, bytes);
  large_fold_and_stream(reduction, sources, at, bytes);
  return RING_OK;
}

static ring_status large_reduce_range(const large_reduction *reduction, size_t at, size_t end) {
  ring_status status = RING_OK;
  while (at < end && status == RING_OK) {
    size_t bytes = end - at < reduction->chunk ? end - at : reduction->chunk;
    if (large_stops(reduction->run)) return reduction->run->job->call.error->status;
    status = large_reduce_chunk(reduction, at, bytes);
    at += bytes;
  }
  return status;
}

/* All ranks share the work on `bytes`: one part each, or, when there are many chunks, whoever has
 * time takes the next. */
static ring_status large_reduce_shared(const large_reduction *reduction, size_t bytes) {
  const ring_local_job *job = reduction->run->job;
  ring_share *share = job->call.share;
  ring_status status = RING_OK;
  if (bytes <= LARGE_STATIC) {
    size_t part = bytes / (size_t)job->size / RING_LINE * RING_LINE + RING_LINE;
    size_t at = (size_t)job->rank * part < bytes ? (size_t)job->rank * part : bytes;
    return large_reduce_range(reduction, at, bytes - at < part ? bytes : at + part);
  }
  _Atomic uint64_t *next = &share->board->claims[share->sequence % RING_SLOTS].next;
  while (status == RING_OK) {
    size_t at = (size_t)atomic_fetch_add_explicit(next, reduction->chunk, memory_order_relaxed);
    if (at >= bytes) break;
    size_t length = bytes - at < reduction->chunk ? bytes - at : reduction->chunk;
    status = large_reduce_range(reduction, at, at + length);
  }
  return status;
}

static bool large_scratch(large_reduction *reduction) {
  ring_share *share = reduction->run->job->call.share;
  size_t chunk = LARGE_SCRATCH / (size_t)(share->size + 1) / 4096 * 4096;
  reduction->chunk = chunk < LARGE_CHUNK ? chunk : LARGE_CHUNK;
  if (share->scratch == NULL) share->scratch = aligned_alloc(4096, LARGE_SCRATCH);
  reduction->scratch = share->scratch;
  return share->scratch != NULL;
}

static ring_status large_reduce(large_run *run, uint8_t collective, size_t bytes) {
  const ring_local_job *job = run->job;
  bool scatters = collective == RING_COLLECTIVE_REDUCE_SCATTER;
  bool to_root = collective == RING_COLLECTIVE_REDUCE;
  large_reduction reduction = {.run = run, .last = job->size};
  ring_status status = large_meet_all(run);
  if (status != RING_OK) return status;
  if (to_root || scatters) {
    reduction.first = to_root ? job->root : job->rank;
    reduction.last = reduction.first + 1;
  }
  if (!large_reaches(run, reduction.first, scatters ? 0 : reduction.last)) return RING_UNSUPPORTED;
  reduction.streams = large_streams(run, 2 * (size_t)job->size, bytes) && !run->in_place;
  for (int i = reduction.first; i < reduction.last; i++)
    reduction.streams = reduction.streams && run->outputs[i].pointer != NULL;
  if (!large_scratch(&reduction))
    return ring_error_set(job->call.error, RING_NO_MEMORY, job->rank, 0,
                          "rank %d is out of memory: the call needs %zu bytes of scratch",
                          job->rank, LARGE_SCRATCH);
  if (scatters) {
    reduction.out_offset = (size_t)job->rank * bytes;
    status = large_reduce_range(&reduction, reduction.out_offset, reduction.out_offset + bytes);
  } else {
    status = large_reduce_shared(&reduction, bytes);
  }
  if (reduction.streams) ring_platform_stream_end();
  return status == RING_OK ? large_finish(run, true) : status;
}

/* A buffer in the arena to work in, of this call; NULL where that is too much memory. */
static void *large_stage(ring_share *share, size_t bytes) {
  uint64_t at;
  if (bytes > LARGE_STAGE) return NULL;
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
static ring_status large_allreduce(large_run *run, size_t bytes) {
  const ring_local_job *job = run->job;
  ring_share *share = job->call.share;
  const void *input = job->task->input;
  void *output = job->task->output;
  uint64_t at;
  bool input_lies = ring_arena_offset(share->arena, input, 1, &at);
  bool output_lies = ring_arena_offset(share->arena, output, 1, &at);
  bool attaches = share->attaches && job->size == 2 && bytes >= share->cache;
  if (!attaches && !output_lies) output = large_stage(share, bytes);
  if (output == NULL) output = job->task->output;
  bool staged = output != job->task->output;
  if (!attaches && !input_lies && (output_lies || staged)) {
    if (input != output) memcpy(output, input, bytes);
    input = output;
  }
  large_post_own(job, input, output);
  ring_status status = large_reduce(run, RING_COLLECTIVE_ALLREDUCE, bytes);
  if (status == RING_OK && staged) memcpy(job->task->output, output, bytes);
  return status;
}

/* ---- Copying ------------------------------------------------------------------------------ */

/* A copy from one rank's input to another one's output that either of them can make. */
typedef struct large_transfer {
  int from, to;
  size_t in_at, out_at, bytes;
} large_transfer;

static ring_status large_move(const large_run *run, const large_transfer *transfer, size_t at,
                              size_t bytes) {
  int rank = run->job->rank;
  const uint8_t *input = run->inputs[transfer->from].pointer;
  uint8_t *output = run->outputs[transfer->to].pointer;
  if (bytes == 0) return RING_OK;
  if (rank == transfer->to)
    return large_pull(run, transfer->from, transfer->in_at + at, output + transfer->out_at + at,
                      bytes);
  return large_push(run, transfer->to, transfer->out_at + at, input + transfer->in_at + at, bytes);
}

/* Two ranks share the work: each takes the next chunk. */
static ring_status large_move_shared(const large_run *run, const large_transfer *transfer) {
  ring_share *share = run->job->call.share;
  _Atomic uint64_t *next = &share->board->claims[share->sequence % RING_SLOTS].next;
  ring_status status = RING_OK;
  while (status == RING_OK) {
    size_t at = (size_t)atomic_fetch_add_explicit(next, LARGE_CHUNK, memory_order_relaxed);
    if (at >= transfer->bytes) break;
    size_t left = transfer->bytes - at;
    status = large_move(run, transfer, at, left < LARGE_CHUNK ? left : LARGE_CHUNK);
  }
  return status;
}

/* One rank has for, or gets from, each of the others: the others do it, each for itself. Of two
 * ranks the root helps. `all` of the input, or a part of it or of the output. */
static ring_status large_between(large_run *run, bool to_root, bool all, size_t bytes) {
  const ring_local_job *job = run->job;
  bool pair = job->size == 2, is_root = job->rank == job->root;
  int other = pair ? 1 - job->root : job->rank;
  size_t at = 0, part = bytes;
  ring_status status = large_meet(run, job->root);
  if (status == RING_OK && pair) status = large_meet(run, other);
  if (status != RING_OK) return status;
  if (!pair) large_own_sides(run);
  bool shared = to_root ? run->output_shared[job->root] : run->input_shared[job->root];
  if (pair) shared = shared && (to_root ? run->input_shared[other] : run->output_shared[other]);
  if (!job->call.share->attaches && !shared) return RING_UNSUPPORTED;
  if (!all) part = ring_local_part(job, job->rank, &at);
  run->streams = large_streams(run, 2 * (size_t)job->size, part);
  large_transfer own = {.from = to_root ? job->rank : job->root,
                        .to = to_root ? job->root : job->rank,
                        .in_at = to_root ? 0 : at,
                        .out_at = to_root ? at : 0,
                        .bytes = part};
  if (is_root || !pair) status = large_move(run, &own, 0, part);
  if (status == RING_OK && pair) {
    if (!all) part = ring_local_part(job, other, &at);
    large_transfer others = {.from = to_root ? other : job->root,
                             .to = to_root ? job->root : other,
                             .in_at = to_root || all ? 0 : at,
                             .out_at = to_root ? at : 0,
                             .bytes = part};
    status = large_move_shared(run, &others);
  }
  ring_platform_stream_end();
  return status == RING_OK ? large_finish(run, is_root || pair) : status;
}

/* Writes part of this rank's input to another one's output. */
static ring_status large_give(const large_run *run, int other, size_t to, size_t from,
                              size_t bytes) {
  const uint8_t *input = run->job->task->input;
  return bytes == 0 ? RING_OK : large_push(run, other, to, input + from, bytes);
}

/* Every rank has something for every other one: its whole input, or a part. Where all outputs can be
 * written each writes its own input, which its caches may still hold, else it reads those of the
 * others. Each begins with another one, so that they do not all go to the same. */
static ring_status large_exchange(large_run *run, bool gathers) {
  const ring_local_job *job = run->job;
  const uint8_t *input = job->task->input;
  uint8_t *output = job->task->output;
  size_t own, own_part = ring_local_part(job, job->rank, &own);
  bool pushes = true;
  run->streams = large_streams(run, 2 * (size_t)job->size, own_part);
  if (own_part > 0) large_copy(output + own, gathers ? input : input + own, own_part, run->streams);
  ring_status status = large_meet_all(run);
  if (status != RING_OK) return status;
  for (int i = 0; i < job->size; i++) pushes = pushes && run->output_shared[i];
  if (!pushes && !large_reaches(run, 0, 0)) return RING_UNSUPPORTED;
  for (int turn = 1; turn < job->size && status == RING_OK; turn++) {
    int other = (job->rank + turn) % job->size;
    size_t at, part = ring_local_part(job, other, &at);
    if (pushes)
      status = large_give(run, other, own, gathers ? 0 : at, gathers ? own_part : part);
    else if (part > 0)
      status = large_pull(run, other, gathers ? 0 : own, output + at, part);
  }
  ring_platform_stream_end();
  return status == RING_OK ? large_finish(run, true) : status;
}

ring_status ring_local_large(const ring_local_job *job) {
  large_run run = {.job = job};
  const ring_call *call = &job->outline->call;
  size_t bytes = (size_t)call->count * job->task->element_size;
  if (call->collective == RING_COLLECTIVE_ALLREDUCE) return large_allreduce(&run, bytes);
  large_post_own(job, job->task->input, job->task->output);
  switch (call->collective) {
  case RING_COLLECTIVE_BROADCAST:
    return large_between(&run, false, true, bytes);
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return large_between(&run, false, false, bytes);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return large_between(&run, true, false, bytes);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
    return large_exchange(&run, true);
  case RING_COLLECTIVE_ALLTOALL:
    return large_exchange(&run, false);
  default:
    return large_reduce(&run, call->collective, bytes);
  }
}
