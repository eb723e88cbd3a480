/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives of buffers that lie outside of the arena. They go through bounce buffers, a window at a
 * time: every rank has a bounce buffer in the arena, small enough to stay in its second-level cache.
 * Whoever lies in the arena is read or written there. To let the system copy from process to
 * process instead would be slower, page by page, and is often forbidden.
 *
 * Such a call is a row of steps, each of them a call of the share: write to the own bounce buffer, publish,
 * await the others, read theirs. How many steps there are follows from what all ranks know.
 *
 * A line that its owner writes and another processor only reads is slow: both caches hold it, and
 * to write it again the owner has to ask everybody. A line that the reader writes, too, moves from
 * cache to cache instead. (64 KiB that two ranks exchange, on two AMD cores: 3.7 instead of 9.5 us,
 * 9 instead of 35 when the cores are far apart.) So whoever reads a bounce buffer takes its lines over, by
 * storing what is there; readers of the same line store the same.
 */
#include <string.h>

#include "base/platform.h"
#include "shm_collectives/large.h"

#define BOUNCE_FLOW ((size_t)64 * 1024) /* from or to a root: the ranks work behind each other */
#define BOUNCE_BLOCK ((size_t)4096)
#define BOUNCE_PAST ((size_t)8 * 1024 * 1024) /* from here on results go past the caches */

/* How many steps a bounce buffer holds. Where a rank waits for all others in every step, they have read the
 * one before the last; else ring_shm_begin sees to it that they have read the one RING_STAGING_BUFFERS
 * before. */
enum { BOUNCE_TIED = 2, BOUNCE_FREE = RING_STAGING_BUFFERS };

typedef struct bounce_run {
  const ring_large_run *run;
  ring_shm_job step;
  size_t steps;  /* that a bounce buffer holds */
  size_t window; /* bytes of a part in one step */
} bounce_run;

static ring_status bounce_begin(bounce_run *bounced) {
  ring_shm_call *call = &bounced->step.call;
  return ring_shm_begin(call->shm, call->call, RING_STAGING_BUFFERS, call->wait, call->error, call);
}

/* What a rank bounce buffers in this step. */
static uint8_t *bounce_at(const bounce_run *bounced, int index) {
  size_t step = bounced->step.call.shm->sequence % bounced->steps;
  return bounced->run->bounces[index] + step * (RING_BOUNCE_BYTES / bounced->steps);
}

/* What is left of `bytes` from `at` on, `most` of it. */
static size_t bounce_left(size_t bytes, size_t at, size_t most) {
  size_t left = bytes > at ? bytes - at : 0;
  return left < most ? left : most;
}

/* Publishes this rank's step and awaits that of all others. */
static ring_status bounce_meet(const bounce_run *bounced) {
  ring_status status = RING_OK;
  ring_shm_publish(&bounced->step.call);
  for (int i = 0; i < bounced->step.size && status == RING_OK; i++)
    if (i != bounced->step.rank) status = ring_shm_await(&bounced->step.call, i);
  return status;
}

static void bounce_take_over(uint8_t *bounce, size_t bytes) {
  volatile uint8_t *line = bounce;
  for (size_t at = 0; at < bytes; at += RING_LINE) line[at] = line[at];
}

/* ---- Copies ------------------------------------------------------------------------------- */

/* Stages what this rank has for others from `at` on: once, if all get the same. Whether there is
 * such. */
static bool bounce_put(const bounce_run *bounced, size_t at) {
  const ring_shm_job *step = &bounced->step;
  bool gives = false;
  for (int i = 0; i < step->size; i++) {
    ring_large_transfer transfer = ring_large_transfer_of(step, step->rank, i);
    size_t length = bounce_left(transfer.bytes, at, bounced->window);
    if (i == step->rank || transfer.bytes == 0) continue;
    if (length > 0 && !bounced->run->input_shared[step->rank] && !(gives && transfer.same))
      memcpy(bounce_at(bounced, step->rank) + (transfer.same ? 0 : (size_t)i * bounced->window),
             bounced->run->inputs[step->rank] + transfer.in_at + at, length);
    gives = true;
  }
  return gives;
}

/* Reads what a rank has for this one: block by block, to take over what the cache still holds. */
static void bounce_get(const bounce_run *bounced, int from, size_t at) {
  const ring_shm_job *step = &bounced->step;
  const ring_large_run *run = bounced->run;
  ring_large_transfer transfer = ring_large_transfer_of(step, from, step->rank);
  size_t bytes = bounce_left(transfer.bytes, at, bounced->window);
  if (bytes == 0) return;
  uint8_t *to = run->outputs[step->rank] + transfer.out_at + at;
  if (run->inputs[from] != NULL) {
    ring_large_copy(to, run->inputs[from] + transfer.in_at + at, bytes, run->streams);
    return;
  }
  uint8_t *bounce =
      bounce_at(bounced, from) + (transfer.same ? 0 : (size_t)step->rank * bounced->window);
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bounce_left(bytes, done, BOUNCE_BLOCK);
    ring_large_copy(to + done, bounce + done, length, run->streams);
    bounce_take_over(bounce + done, length);
  }
}

/* A rank that has nothing for others publishes when it has read, unless all wait for it. */
static ring_status bounce_copy_step(bounce_run *bounced, size_t at, bool *gives) {
  const ring_shm_job *step = &bounced->step;
  bool ties = bounced->steps == BOUNCE_TIED;
  ring_status status = bounce_begin(bounced);
  if (status != RING_OK) return status;
  *gives = bounce_put(bounced, at);
  if (*gives || ties) ring_shm_publish(&step->call);
  bounce_get(bounced, step->rank, at);
  for (int turn = 1; turn < step->size && status == RING_OK; turn++) {
    int from = (step->rank + turn) % step->size;
    if (!ties && ring_large_transfer_of(step, from, step->rank).bytes == 0) continue;
    status = ring_shm_await(&step->call, from);
    if (status == RING_OK) bounce_get(bounced, from, at);
  }
  if (status == RING_OK && !*gives && !ties) ring_shm_publish(&step->call);
  return status;
}

/* The windows of a call whose parts are all staged next to each other, or are the same. */
static void bounce_plan(bounce_run *bounced, bool tied, bool same) {
  bounced->steps = tied ? BOUNCE_TIED : BOUNCE_FREE;
  bounced->window = RING_BOUNCE_BYTES / bounced->steps;
  if (!same) bounced->window = bounced->window / (size_t)bounced->step.size / RING_LINE * RING_LINE;
  if (!tied && bounced->window > BOUNCE_FLOW) bounced->window = BOUNCE_FLOW;
}

ring_status ring_bounce_copy(const ring_large_run *run) {
  const ring_shm_job *job = run->job;
  bounce_run bounced = {.run = run, .step = *job};
  size_t most = 0, offset;
  bool gives = false, rooted = ring_collective_has_root(job->outline->call.collective);
  ring_status status = RING_OK;
  bounce_plan(&bounced, !rooted, ring_large_transfer_of(job, job->root, job->root).same);
  for (int i = 0; i < job->size; i++) {
    size_t part = ring_shm_part(job, i, &offset);
    most = part > most ? part : most;
  }
  for (size_t at = 0; at < most && status == RING_OK; at += bounced.window)
    status = bounce_copy_step(&bounced, at, &gives);
  if (run->streams) ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&bounced.step.call, gives) : status;
}

/* ---- Reductions --------------------------------------------------------------------------- */

static bool bounce_receives(const ring_shm_job *job, int index) {
  ring_large_range receivers = ring_large_receivers(job);
  return index >= receivers.first && index < receivers.last;
}

/* Where the window of a rank is reduced, in place: at its output, if that lies in the arena, else
 * in its bounce buffer. Of those that get no result the others only read it. */
static uint8_t *bounce_place(const ring_large_run *run, int index, size_t at) {
  bool at_output = run->output_shared[index] && bounce_receives(run->job, index);
  return at_output ? run->outputs[index] + at : run->bounces[index];
}

void ring_bounce_prepare(const ring_shm_job *job, uint8_t *bounce) {
  const ring_arena *arena = job->call.shm->arena;
  const uint8_t *input = job->task->input;
  uint8_t *output = job->task->output, *place = bounce;
  size_t bytes = (size_t)job->outline->call.count * job->task->element_size;
  uint64_t at;
  if (bounce_receives(job, job->rank) && ring_arena_offset(arena, output, 1, &at)) place = output;
  if (bounce == NULL || ring_arena_offset(arena, input, 1, &at)) return;
  if (bytes < BOUNCE_PAST) memcpy(place, input, bounce_left(bytes, 0, RING_BOUNCE_BYTES));
}

/* The bytes of a window that this rank reduces, and where they begin. */
static size_t bounce_share(const ring_shm_job *job, size_t bytes, size_t *at) {
  size_t shm = (bytes / (size_t)job->size + RING_LINE) / RING_LINE * RING_LINE;
  *at = (size_t)job->rank * shm;
  return bounce_left(bytes, *at, shm);
}

/* Reduces this rank's share of a window, for all that receive it, itself first. */
static void bounce_reduce_share(const bounce_run *bounced, size_t at, size_t bytes) {
  const ring_large_run *run = bounced->run;
  int rank = bounced->step.rank, size = bounced->step.size, number = 0;
  uint8_t *sources[RING_SHM_RANKS] = {NULL}, *results[RING_SHM_RANKS] = {NULL};
  size_t own, length = bounce_share(&bounced->step, bytes, &own);
  if (length == 0) return;
  for (int turn = 0; turn < size; turn++) {
    int i = (rank + turn) % size;
    uint8_t *place = bounce_place(run, i, at) + own;
    sources[i] = run->input_shared[i] ? run->inputs[i] + at + own : place;
    if (bounce_receives(&bounced->step, i)) results[number++] = place;
  }
  ring_large_fold(run, sources, results, number, length);
  for (int i = 0; i < size; i++)
    if (!run->input_shared[i] && !bounce_receives(&bounced->step, i))
      bounce_take_over(sources[i], length);
}

/* Whether ranks meet again when a window is reduced: before its results are copied out of a bounce buffer,
 * or the next one is copied into it. */
static bool bounce_meets_again(const ring_large_run *run) {
  for (int i = 0; i < run->job->size; i++)
    if (bounce_receives(run->job, i) ? !run->output_shared[i] : !run->input_shared[i]) return true;
  return false;
}

/* Brings a window to where it is reduced, if it has not been prepared. In both cases this rank
 * looks for failures once more: who failed before this one came has its buffers back. */
static ring_status bounce_bring(bounce_run *bounced, size_t at, size_t bytes, size_t total) {
  const ring_large_run *run = bounced->run;
  int rank = bounced->step.rank;
  bool prepared = at == 0 && total < BOUNCE_PAST;
  if (prepared) return ring_large_stops(run) ? bounced->step.call.error->status : RING_OK;
  ring_status status = bounce_begin(bounced);
  if (status != RING_OK) return status;
  if (!run->input_shared[rank]) memcpy(bounce_place(run, rank, at), run->inputs[rank] + at, bytes);
  return bounce_meet(bounced);
}

static ring_status bounce_meet_again(bounce_run *bounced) {
  ring_status status = bounce_begin(bounced);
  return status == RING_OK ? bounce_meet(bounced) : status;
}

static bool bounce_reaches(const ring_large_run *run) {
  for (int i = 0; i < run->job->size; i++)
    if (bounce_receives(run->job, i) && !run->output_shared[i]) return false;
  return true;
}

/* Reduces a window from the bounce buffers straight into outputs that all lie in the arena. */
static ring_status bounce_stream_step(bounce_run *bounced, size_t at, size_t bytes) {
  const ring_shm_job *step = &bounced->step;
  const ring_large_run *run = bounced->run;
  uint8_t *sources[RING_SHM_RANKS] = {NULL}, *results[RING_SHM_RANKS] = {NULL};
  size_t own, length = bounce_share(step, bytes, &own);
  int number = 0;
  ring_status status = bounce_begin(bounced);
  if (status != RING_OK) return status;
  if (!run->input_shared[step->rank])
    memcpy(bounce_at(bounced, step->rank), run->inputs[step->rank] + at, bytes);
  status = bounce_meet(bounced);
  if (status != RING_OK || length == 0) return status;
  for (int turn = 0; turn < step->size; turn++) {
    int i = (step->rank + turn) % step->size;
    sources[i] = run->input_shared[i] ? run->inputs[i] + at + own : bounce_at(bounced, i) + own;
    if (!bounce_receives(step, i)) continue;
    results[number] = run->outputs[i] + at + own;
    if (turn > 0) ring_platform_touch(results[number], length);
    number++;
  }
  ring_large_fold(run, sources, results, number, length);
  for (int i = 0; i < step->size; i++)
    if (!run->input_shared[i] && i != step->rank) bounce_take_over(sources[i], length);
  return RING_OK;
}

static ring_status bounce_stream(ring_large_run *run, size_t bytes) {
  bounce_run bounced = {.run = run, .step = *run->job};
  ring_status status = RING_OK;
  bounce_plan(&bounced, true, true);
  run->streams = !run->in_place;
  for (size_t at = 0; at < bytes && status == RING_OK; at += bounced.window)
    status = bounce_stream_step(&bounced, at, bounce_left(bytes, at, bounced.window));
  ring_platform_stream_end();
  return status == RING_OK ? ring_large_finish(&bounced.step.call, true) : status;
}

ring_status ring_bounce_reduce(ring_large_run *run, size_t bytes) {
  const ring_shm_job *job = run->job;
  bounce_run bounced = {.run = run, .step = *job};
  bool again = bounce_meets_again(run), streams = ring_large_streams(run, bytes);
  bool returns = bounce_receives(job, job->rank) && !run->output_shared[job->rank];
  ring_status status = RING_OK;
  if (bytes >= BOUNCE_PAST && bounce_reaches(run)) return bounce_stream(run, bytes);
  for (size_t at = 0, length; at < bytes && status == RING_OK; at += length) {
    length = bounce_left(bytes, at, RING_BOUNCE_BYTES);
    status = bounce_bring(&bounced, at, length, bytes);
    if (status != RING_OK) return status;
    bounce_reduce_share(&bounced, at, length);
    if (at + length == bytes)
      status = ring_large_finish(&bounced.step.call, true);
    else if (again)
      status = bounce_meet_again(&bounced);
    if (status == RING_OK && returns)
      ring_large_copy(run->outputs[job->rank] + at, run->bounces[job->rank], length, streams);
  }
  if (streams) ring_platform_stream_end();
  return status;
}

/* Stages what this rank has for each of the others, and folds what it gets. */
static ring_status bounce_scatter_step(bounce_run *bounced, size_t at, size_t bytes) {
  const ring_shm_job *step = &bounced->step;
  const ring_large_run *run = bounced->run;
  uint8_t *sources[RING_SHM_RANKS], *output = run->outputs[step->rank] + at;
  size_t length = bounce_left(bytes, at, bounced->window), own = (size_t)step->rank;
  ring_status status = bounce_begin(bounced);
  if (status != RING_OK) return status;
  for (int i = 0; i < step->size && !run->input_shared[step->rank]; i++)
    if (i != step->rank)
      memcpy(bounce_at(bounced, step->rank) + (size_t)i * bounced->window,
             run->inputs[step->rank] + (size_t)i * bytes + at, length);
  status = bounce_meet(bounced);
  if (status != RING_OK) return status;
  for (int i = 0; i < step->size; i++)
    sources[i] = run->inputs[i] != NULL ? run->inputs[i] + own * bytes + at
                                        : bounce_at(bounced, i) + own * bounced->window;
  ring_large_fold(run, sources, &output, 1, length);
  for (int i = 0; i < step->size; i++)
    if (run->inputs[i] == NULL) bounce_take_over(sources[i], length);
  return RING_OK;
}

ring_status ring_bounce_reduce_scatter(const ring_large_run *run, size_t bytes) {
  const ring_shm_job *job = run->job;
  bounce_run bounced = {.run = run, .step = *job};
  ring_status status = RING_OK;
  bounce_plan(&bounced, true, false);
  for (size_t at = 0; at < bytes && status == RING_OK; at += bounced.window)
    status = bounce_scatter_step(&bounced, at, bytes);
  return status == RING_OK ? ring_large_finish(&bounced.step.call, true) : status;
}
