/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives of buffers that lie outside of the arena. They go through stages, a window at a
 * time: every rank has a stage in the arena, small enough to stay in its second-level cache.
 * Whoever lies in the arena is read or written there. To let the system copy from process to
 * process instead would be slower, page by page, and is often forbidden.
 *
 * Such a call is a row of steps, each of them a call of the share: write to the own stage, publish,
 * await the others, read theirs. How many steps there are follows from what all ranks know.
 *
 * A line that its owner writes and another processor only reads is slow: both caches hold it, and
 * to write it again the owner has to ask everybody. A line that the reader writes, too, moves from
 * cache to cache instead. (64 KiB that two ranks exchange, on two AMD cores: 3.7 instead of 9.5 us,
 * 9 instead of 35 when the cores are far apart.) So whoever reads a stage takes its lines over, by
 * storing what is there; readers of the same line store the same.
 */
#include <string.h>

#include "local_large.h"
#include "platform.h"

#define STAGED_FLOW ((size_t)64 * 1024) /* from or to a root: the ranks work behind each other */
#define STAGED_BLOCK ((size_t)4096)
#define STAGED_PAST ((size_t)8 * 1024 * 1024) /* from here on results go past the caches */

/* How many steps a stage holds. Where a rank waits for all others in every step, they have read the
 * one before the last; else ring_share_begin sees to it that they have read the one RING_ROOMS
 * before. */
enum { STAGED_TIED = 2, STAGED_FREE = RING_ROOMS };

typedef struct staged_run {
  const ring_large_run *run;
  ring_local_job step;
  size_t steps;  /* that a stage holds */
  size_t window; /* bytes of a part in one step */
} staged_run;

static ring_status staged_begin(staged_run *staged) {
  ring_share_call *call = &staged->step.call;
  return ring_share_begin(call->share, call->call, RING_ROOMS, call->wait, call->error, call);
}

/* What a rank stages in this step. */
static uint8_t *staged_at(const staged_run *staged, int index) {
  size_t step = staged->step.call.share->sequence % staged->steps;
  return staged->run->stages[index] + step * (RING_STAGE / staged->steps);
}

/* What is left of `bytes` from `at` on, `most` of it. */
static size_t staged_left(size_t bytes, size_t at, size_t most) {
  size_t left = bytes > at ? bytes - at : 0;
  return left < most ? left : most;
}

/* Publishes this rank's step and awaits that of all others. */
static ring_status staged_meet(const staged_run *staged) {
  ring_status status = RING_OK;
  ring_share_publish(&staged->step.call);
  for (int i = 0; i < staged->step.size && status == RING_OK; i++)
    if (i != staged->step.rank) status = ring_share_await(&staged->step.call, i);
  return status;
}

static void staged_take_over(uint8_t *stage, size_t bytes) {
  volatile uint8_t *line = stage;
  for (size_t at = 0; at < bytes; at += RING_LINE) line[at] = line[at];
}

/* ---- Copies ------------------------------------------------------------------------------- */

/* Stages what this rank has for others from `at` on: once, if all get the same. Whether there is
 * such. */
static bool staged_put(const staged_run *staged, size_t at) {
  const ring_local_job *step = &staged->step;
  bool gives = false;
  for (int i = 0; i < step->size; i++) {
    ring_large_transfer transfer = ring_large_transfer_of(step, step->rank, i);
    size_t length = staged_left(transfer.bytes, at, staged->window);
    if (i == step->rank || transfer.bytes == 0) continue;
    if (length > 0 && !staged->run->input_shared[step->rank] && !(gives && transfer.same))
      memcpy(staged_at(staged, step->rank) + (transfer.same ? 0 : (size_t)i * staged->window),
             staged->run->inputs[step->rank] + transfer.in_at + at, length);
    gives = true;
  }
  return gives;
}

/* Reads what a rank has for this one: block by block, to take over what the cache still holds. */
static void staged_get(const staged_run *staged, int from, size_t at) {
  const ring_local_job *step = &staged->step;
  const ring_large_run *run = staged->run;
  ring_large_transfer transfer = ring_large_transfer_of(step, from, step->rank);
  size_t bytes = staged_left(transfer.bytes, at, staged->window);
  if (bytes == 0) return;
  uint8_t *to = run->outputs[step->rank] + transfer.out_at + at;
  if (run->inputs[from] != NULL) {
    ring_large_copy(to, run->inputs[from] + transfer.in_at + at, bytes, run->streams);
    return;
  }
  uint8_t *stage =
      staged_at(staged, from) + (transfer.same ? 0 : (size_t)step->rank * staged->window);
  for (size_t done = 0, length; done < bytes; done += length) {
    length = staged_left(bytes, done, STAGED_BLOCK);
    ring_large_copy(to + done, stage + done, length, run->streams);
    staged_take_over(stage + done, length);
  }
}

/* A rank that has nothing for others publishes when it has read, unless all wait for it. */
static ring_status staged_copy_step(staged_run *staged, size_t at, bool *gives) {
  const ring_local_job *step = &staged->step;
  bool ties = staged->steps == STAGED_TIED;
  ring_status status = staged_begin(staged);
  if (status != RING_OK) return status;
  *gives = staged_put(staged, at);
  if (*gives || ties) ring_share_publish(&step->call);
  staged_get(staged, step->rank, at);
  for (int turn = 1; turn < step->size && status == RING_OK; turn++) {
    int from = (step->rank + turn) % step->size;
    if (!ties && ring_large_transfer_of(step, from, step->rank).bytes == 0) continue;
    status = ring_share_await(&step->call, from);
    if (status == RING_OK) staged_get(staged, from, at);
  }
  if (status == RING_OK && !*gives && !ties) ring_share_publish(&step->call);
  return status;
}

/* The windows of a call whose parts are all staged next to each other, or are the same. */
static void staged_plan(staged_run *staged, bool tied, bool same) {
  staged->steps = tied ? STAGED_TIED : STAGED_FREE;
  staged->window = RING_STAGE / staged->steps;
  if (!same) staged->window = staged->window / (size_t)staged->step.size / RING_LINE * RING_LINE;
  if (!tied && staged->window > STAGED_FLOW) staged->window = STAGED_FLOW;
}

ring_status ring_staged_copy(const ring_large_run *run) {
  const ring_local_job *job = run->job;
  staged_run staged = {.run = run, .step = *job};
  size_t most = 0, offset;
  bool gives = false, rooted = ring_collective_has_root(job->outline->call.collective);
  ring_status status = RING_OK;
  staged_plan(&staged, !rooted, ring_large_transfer_of(job, job->root, job->root).same);
  for (int i = 0; i < job->size; i++) {
    size_t part = ring_local_part(job, i, &offset);
    most = part > most ? part : most;
  }
  for (size_t at = 0; at < most && status == RING_OK; at += staged.window)
    status = staged_copy_step(&staged, at, &gives);
  if (run->streams) ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&staged.step.call, gives) : status;
}

/* ---- Reductions --------------------------------------------------------------------------- */

static bool staged_receives(const ring_local_job *job, int index) {
  ring_large_range receivers = ring_large_receivers(job);
  return index >= receivers.first && index < receivers.last;
}

/* Where the window of a rank is reduced, in place: at its output, if that lies in the arena, else
 * in its stage. Of those that get no result the others only read it. */
static uint8_t *staged_place(const ring_large_run *run, int index, size_t at) {
  bool at_output = run->output_shared[index] && staged_receives(run->job, index);
  return at_output ? run->outputs[index] + at : run->stages[index];
}

void ring_staged_prepare(const ring_local_job *job, uint8_t *stage) {
  const ring_arena *arena = job->call.share->arena;
  const uint8_t *input = job->task->input;
  uint8_t *output = job->task->output, *place = stage;
  size_t bytes = (size_t)job->outline->call.count * job->task->element_size;
  uint64_t at;
  if (staged_receives(job, job->rank) && ring_arena_offset(arena, output, 1, &at)) place = output;
  if (stage == NULL || ring_arena_offset(arena, input, 1, &at)) return;
  if (bytes < STAGED_PAST) memcpy(place, input, staged_left(bytes, 0, RING_STAGE));
}

/* The bytes of a window that this rank reduces, and where they begin. */
static size_t staged_share(const ring_local_job *job, size_t bytes, size_t *at) {
  size_t share = (bytes / (size_t)job->size + RING_LINE) / RING_LINE * RING_LINE;
  *at = (size_t)job->rank * share;
  return staged_left(bytes, *at, share);
}

/* Reduces this rank's share of a window, for all that receive it, itself first. */
static void staged_reduce_share(const staged_run *staged, size_t at, size_t bytes) {
  const ring_large_run *run = staged->run;
  int rank = staged->step.rank, size = staged->step.size, number = 0;
  uint8_t *sources[RING_SHARE_RANKS] = {NULL}, *results[RING_SHARE_RANKS] = {NULL};
  size_t own, length = staged_share(&staged->step, bytes, &own);
  if (length == 0) return;
  for (int turn = 0; turn < size; turn++) {
    int i = (rank + turn) % size;
    uint8_t *place = staged_place(run, i, at) + own;
    sources[i] = run->input_shared[i] ? run->inputs[i] + at + own : place;
    if (staged_receives(&staged->step, i)) results[number++] = place;
  }
  ring_large_fold(run, sources, results, number, length);
  for (int i = 0; i < size; i++)
    if (!run->input_shared[i] && !staged_receives(&staged->step, i))
      staged_take_over(sources[i], length);
}

/* Whether ranks meet again when a window is reduced: before its results are copied out of a stage,
 * or the next one is copied into it. */
static bool staged_meets_again(const ring_large_run *run) {
  for (int i = 0; i < run->job->size; i++)
    if (staged_receives(run->job, i) ? !run->output_shared[i] : !run->input_shared[i]) return true;
  return false;
}

/* Brings a window to where it is reduced, if it has not been prepared. In both cases this rank
 * looks for failures once more: who failed before this one came has its buffers back. */
static ring_status staged_bring(staged_run *staged, size_t at, size_t bytes, size_t total) {
  const ring_large_run *run = staged->run;
  int rank = staged->step.rank;
  bool prepared = at == 0 && total < STAGED_PAST;
  if (prepared) return ring_large_stops(run) ? staged->step.call.error->status : RING_OK;
  ring_status status = staged_begin(staged);
  if (status != RING_OK) return status;
  if (!run->input_shared[rank]) memcpy(staged_place(run, rank, at), run->inputs[rank] + at, bytes);
  return staged_meet(staged);
}

static ring_status staged_meet_again(staged_run *staged) {
  ring_status status = staged_begin(staged);
  return status == RING_OK ? staged_meet(staged) : status;
}

static bool staged_reaches(const ring_large_run *run) {
  for (int i = 0; i < run->job->size; i++)
    if (staged_receives(run->job, i) && !run->output_shared[i]) return false;
  return true;
}

/* Reduces a window from the stages straight into outputs that all lie in the arena. */
static ring_status staged_stream_step(staged_run *staged, size_t at, size_t bytes) {
  const ring_local_job *step = &staged->step;
  const ring_large_run *run = staged->run;
  uint8_t *sources[RING_SHARE_RANKS] = {NULL}, *results[RING_SHARE_RANKS] = {NULL};
  size_t own, length = staged_share(step, bytes, &own);
  int number = 0;
  ring_status status = staged_begin(staged);
  if (status != RING_OK) return status;
  if (!run->input_shared[step->rank])
    memcpy(staged_at(staged, step->rank), run->inputs[step->rank] + at, bytes);
  status = staged_meet(staged);
  if (status != RING_OK || length == 0) return status;
  for (int turn = 0; turn < step->size; turn++) {
    int i = (step->rank + turn) % step->size;
    sources[i] = run->input_shared[i] ? run->inputs[i] + at + own : staged_at(staged, i) + own;
    if (!staged_receives(step, i)) continue;
    results[number] = run->outputs[i] + at + own;
    if (turn > 0) ring_platform_touch(results[number], length);
    number++;
  }
  ring_large_fold(run, sources, results, number, length);
  for (int i = 0; i < step->size; i++)
    if (!run->input_shared[i] && i != step->rank) staged_take_over(sources[i], length);
  return RING_OK;
}

static ring_status staged_stream(ring_large_run *run, size_t bytes) {
  staged_run staged = {.run = run, .step = *run->job};
  ring_status status = RING_OK;
  staged_plan(&staged, true, true);
  run->streams = !run->in_place;
  for (size_t at = 0; at < bytes && status == RING_OK; at += staged.window)
    status = staged_stream_step(&staged, at, staged_left(bytes, at, staged.window));
  ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&staged.step.call, true) : status;
}

ring_status ring_staged_reduce(ring_large_run *run, size_t bytes) {
  const ring_local_job *job = run->job;
  staged_run staged = {.run = run, .step = *job};
  bool again = staged_meets_again(run), streams = ring_large_streams(run, bytes);
  bool returns = staged_receives(job, job->rank) && !run->output_shared[job->rank];
  ring_status status = RING_OK;
  if (bytes >= STAGED_PAST && staged_reaches(run)) return staged_stream(run, bytes);
  for (size_t at = 0, length; at < bytes && status == RING_OK; at += length) {
    length = staged_left(bytes, at, RING_STAGE);
    status = staged_bring(&staged, at, length, bytes);
    if (status != RING_OK) return status;
    staged_reduce_share(&staged, at, length);
    if (at + length == bytes)
      status = ring_large_finish(&staged.step.call, true);
    else if (again)
      status = staged_meet_again(&staged);
    if (status == RING_OK && returns)
      ring_large_copy(run->outputs[job->rank] + at, run->stages[job->rank], length, streams);
  }
  if (streams) ring_platform_stream_end();
  return status;
}

/* Stages what this rank has for each of the others, and folds what it gets. */
static ring_status staged_scatter_step(staged_run *staged, size_t at, size_t bytes) {
  const ring_local_job *step = &staged->step;
  const ring_large_run *run = staged->run;
  uint8_t *sources[RING_SHARE_RANKS], *output = run->outputs[step->rank] + at;
  size_t length = staged_left(bytes, at, staged->window), own = (size_t)step->rank;
  ring_status status = staged_begin(staged);
  if (status != RING_OK) return status;
  for (int i = 0; i < step->size && !run->input_shared[step->rank]; i++)
    if (i != step->rank)
      memcpy(staged_at(staged, step->rank) + (size_t)i * staged->window,
             run->inputs[step->rank] + (size_t)i * bytes + at, length);
  status = staged_meet(staged);
  if (status != RING_OK) return status;
  for (int i = 0; i < step->size; i++)
    sources[i] = run->inputs[i] != NULL ? run->inputs[i] + own * bytes + at
                                        : staged_at(staged, i) + own * staged->window;
  ring_large_fold(run, sources, &output, 1, length);
  for (int i = 0; i < step->size; i++)
    if (run->inputs[i] == NULL) staged_take_over(sources[i], length);
  return RING_OK;
}

ring_status ring_staged_reduce_scatter(const ring_large_run *run, size_t bytes) {
  const ring_local_job *job = run->job;
  staged_run staged = {.run = run, .step = *job};
  ring_status status = RING_OK;
  staged_plan(&staged, true, false);
  for (size_t at = 0; at < bytes && status == RING_OK; at += staged.window)
    status = staged_scatter_step(&staged, at, bytes);
  return status == RING_OK ? ring_large_finish(&staged.step.call, true) : status;
}
