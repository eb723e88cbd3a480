/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/small.h"

#include <string.h>

#include "base/platform.h"
#include "engine/reduce.h"

/* A rank from which others read publishes before it reads. A rank from which no rank reads publishes
 * after: its flag means that it has read. A rank does not read its own payload back but its input,
 * which is the same: the lines are on their way to the other ranks, and fetching them back takes as
 * long as the whole exchange. A rank that waits does not prefetch the lines that it writes next:
 * the prefetch would delay the lines for which it waits. */

#define SMALL_PREFETCH 512 /* bytes */

/* A rank's payload: in its slot, if every rank's payload fits one, else in its staging buffer. */
static inline uint8_t *small_place(const ring_shm_job *job, int index) {
  return job->brief ? ring_shm_slot(&job->call, index)->bytes : ring_shm_staging(&job->call, index);
}

/* For a payload that fits a slot, calling memcpy takes longer than copying. */
static inline void small_copy(uint8_t *to, const uint8_t *from, size_t bytes) {
  if (bytes == 8) {
    memcpy(to, from, 8);
  } else if (bytes == 4) {
    memcpy(to, from, 4);
  } else if (bytes >= 16 && bytes <= RING_SLOT_BYTES) {
    for (size_t at = 0; at < bytes - 16; at += 16) memcpy(to + at, from + at, 16);
    memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes > 0) {
    memcpy(to, from, bytes);
  }
}

/* Copies this rank's own part, unless the call is in place. */
static inline void small_copy_own(uint8_t *to, const uint8_t *from, size_t bytes) {
  if (to != from) small_copy(to, from, bytes);
}

/* Folds the payloads of the first `number` ranks. */
static void small_fold_first(const ring_shm_job *job, int number, size_t bytes) {
  const void *sources[RING_SHM_RANKS];
  const ring_call *call = &job->outline->call;
  ring_reduction reduction = {.dtype = (ring_dtype)call->dtype, .op = (ring_op)call->op};
  for (int i = 0; i < number; i++) sources[i] = small_place(job, i);
  if (number > job->rank) sources[job->rank] = job->task->input;
  if (number > 1)
    ring_reduction_fold(&reduction, 0, sources, number, job->task->output,
                        bytes / job->task->element_size);
  else
    small_copy_own(job->task->output, sources[0], bytes);
}

/* Folds the payloads of all ranks from `at` on. */
static void small_fold(const ring_shm_job *job, size_t at, size_t bytes) {
  const void *sources[RING_SHM_RANKS];
  if (bytes == 0) return;
  for (int i = 0; i < job->size; i++) sources[i] = small_place(job, i) + at;
  sources[job->rank] = (const uint8_t *)job->task->input + at;
  ring_shm_fold(job, sources, job->task->output, bytes / job->task->element_size);
}

/* Concatenates the payloads of all ranks. */
static void small_gather(const ring_shm_job *job) {
  uint8_t *output = job->task->output;
  for (int i = 0; i < job->size; i++) {
    size_t to, length = ring_shm_part(job, i, &to);
    if (length == 0) continue;
    if (i == job->rank)
      small_copy_own(output + to, job->task->input, length);
    else
      small_copy(output + to, small_place(job, i), length);
  }
}

/* Publishes the first `bytes` of the input. */
static void small_publish(const ring_shm_job *job, size_t bytes) {
  small_copy(small_place(job, job->rank), job->task->input, bytes);
  ring_shm_publish(&job->call);
}

/* The same on a rank that reads nothing and soon begins the next call: prefetches the lines that it
 * writes then, which the caches of their readers hold. */
static void small_publish_ahead(const ring_shm_job *job, size_t bytes) {
  const ring_shm *shm = job->call.shm;
  uint32_t next = shm->sequence + 1;
  const uint8_t *place =
      (const uint8_t *)&ring_shm_rank_block(shm, job->rank)->slots[next % RING_SLOTS];
  small_publish(job, bytes);
  ring_platform_prefetch(place);
  if (!job->brief) place = ring_shm_staging_of(shm, next, job->rank);
  if (bytes > SMALL_PREFETCH) bytes = SMALL_PREFETCH;
  for (size_t at = 0; at < bytes; at += RING_LINE) ring_platform_prefetch(place + at);
}

static ring_status small_await_all(const ring_shm_job *job) {
  ring_status status = RING_OK;
  for (int i = 0; i < job->size && status == RING_OK; i++)
    if (i != job->rank) status = ring_shm_await(&job->call, i);
  return status;
}

/* Writes the parts for the other ranks to this rank's slot, beginning with the part for the next
 * rank. */
static void small_put_parts(const ring_shm_job *job, size_t bytes) {
  uint8_t *own = small_place(job, job->rank);
  const uint8_t *input = job->task->input;
  for (int i = 1; i < job->size; i++) {
    int to = job->rank + i < job->size ? job->rank + i : job->rank + i - job->size;
    small_copy(own + (size_t)(i - 1) * bytes, input + (size_t)to * bytes, bytes);
  }
}

static ring_status small_alltoall(const ring_shm_job *job, size_t bytes) {
  const uint8_t *input = job->task->input;
  uint8_t *output = job->task->output;
  size_t own = (size_t)job->rank * bytes;
  if (bytes > 0) small_put_parts(job, bytes);
  ring_shm_publish(&job->call);
  if (bytes > 0) small_copy(output + own, input + own, bytes);
  for (int i = 1; i < job->size; i++) {
    int from = job->rank >= i ? job->rank - i : job->rank - i + job->size;
    ring_status status = ring_shm_await(&job->call, from);
    if (status != RING_OK) return status;
    if (bytes > 0)
      small_copy(output + (size_t)from * bytes, small_place(job, from) + (size_t)(i - 1) * bytes,
                 bytes);
  }
  return RING_OK;
}

/* Every rank folds the payloads of the ranks before it, and with `own` its own. The exclusive scan of
 * rank 0 has no payload to fold. */
static ring_status small_scan(const ring_shm_job *job, bool own, size_t bytes) {
  small_publish(job, bytes);
  ring_status status = small_await_all(job);
  int number = job->rank + (own ? 1 : 0);
  if (status == RING_OK && number > 0 && bytes > 0) small_fold_first(job, number, bytes);
  return status;
}

/* Every rank reads from every other rank. */
static ring_status small_exchange(const ring_shm_job *job, uint8_t collective, size_t bytes) {
  size_t at = 0, part = bytes;
  bool whole = collective == RING_COLLECTIVE_ALLREDUCE || collective == RING_COLLECTIVE_BARRIER;
  bool gathers =
      collective == RING_COLLECTIVE_ALLGATHER || collective == RING_COLLECTIVE_ALLGATHERV;
  if (!whole) part = ring_shm_part(job, job->rank, &at);
  bool scatters = collective == RING_COLLECTIVE_REDUCE_SCATTER;
  size_t payload = collective == RING_COLLECTIVE_REDUCE_SCATTERV ? bytes : part;
  small_publish(job, scatters ? bytes * (size_t)job->size : payload);
  ring_status status = small_await_all(job);
  if (status != RING_OK || collective == RING_COLLECTIVE_BARRIER) return status;
  if (!gathers) {
    small_fold(job, at, part);
    return RING_OK;
  }
  small_gather(job);
  return RING_OK;
}

/* All ranks read from the root. */
static ring_status small_from_root(const ring_shm_job *job, bool parts, size_t bytes) {
  size_t at = 0, part = bytes, last, all;
  if (parts) {
    part = ring_shm_part(job, job->rank, &at);
    all = ring_shm_part(job, job->size - 1, &last) + last;
  } else {
    all = bytes;
  }
  if (job->rank == job->root) {
    small_publish_ahead(job, all);
    if (part > 0) small_copy_own(job->task->output, (const uint8_t *)job->task->input + at, part);
    return RING_OK;
  }
  ring_status status = ring_shm_await(&job->call, job->root);
  if (status != RING_OK) return status;
  small_copy(job->task->output, small_place(job, job->root) + at, part);
  ring_shm_publish(&job->call);
  return RING_OK;
}

/* The root reads from all ranks. */
static ring_status small_to_root(const ring_shm_job *job, bool reduces, size_t bytes) {
  size_t to, part = bytes;
  if (!reduces) part = ring_shm_part(job, job->rank, &to);
  if (job->rank != job->root) {
    small_publish_ahead(job, part);
    return RING_OK;
  }
  ring_status status = small_await_all(job);
  if (status != RING_OK) return status;
  if (reduces) small_fold(job, 0, bytes);
  if (!reduces) small_gather(job);
  ring_shm_publish(&job->call);
  return RING_OK;
}

ring_status ring_shm_small(const ring_shm_job *job) {
  const ring_call *call = &job->outline->call;
  size_t bytes = (size_t)call->count * job->task->element_size;
  switch (call->collective) {
  case RING_COLLECTIVE_BROADCAST:
    return small_from_root(job, false, bytes);
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return small_from_root(job, true, bytes);
  case RING_COLLECTIVE_REDUCE:
    return small_to_root(job, true, bytes);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return small_to_root(job, false, bytes);
  case RING_COLLECTIVE_SCAN:
  case RING_COLLECTIVE_EXSCAN:
    return small_scan(job, call->collective == RING_COLLECTIVE_SCAN, bytes);
  case RING_COLLECTIVE_ALLTOALL:
    return small_alltoall(job, bytes);
  default:
    return small_exchange(job, call->collective, bytes);
  }
}
