/* SPDX-License-Identifier: Apache-2.0
 *
 * Small collectives. A rank that others read from publishes before it reads; one that nobody reads
 * from publishes after, which says that it has read.
 */
#include <string.h>

#include "local.h"
#include "platform.h"

#define SMALL_PREFETCH 8 /* lines */

/* The bytes of a slot from `at` on that lie together. */
static const uint8_t *small_piece(const ring_slot *slot, size_t at, size_t *bytes) {
  if (at >= RING_SLOT_FIRST) return slot->rest + (at - RING_SLOT_FIRST);
  if (*bytes > RING_SLOT_FIRST - at) *bytes = RING_SLOT_FIRST - at;
  return slot->first + at;
}

/* A call of memcpy takes longer than copying a number or two. */
static inline void small_copy(uint8_t *to, const uint8_t *from, size_t bytes) {
  if (bytes == 8)
    memcpy(to, from, 8);
  else if (bytes == 4)
    memcpy(to, from, 4);
  else
    memcpy(to, from, bytes);
}

static void small_write(ring_slot *slot, size_t at, const uint8_t *from, size_t bytes) {
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done;
    uint8_t *piece = (uint8_t *)small_piece(slot, at + done, &length);
    small_copy(piece, from + done, length);
  }
}

static void small_read(const ring_slot *slot, size_t at, uint8_t *to, size_t bytes) {
  for (size_t done = 0, length; done < bytes; done += length) {
    length = bytes - done;
    const uint8_t *piece = small_piece(slot, at + done, &length);
    small_copy(to + done, piece, length);
  }
}

/* The fold of all slots from `at` on. */
static void small_fold(const ring_local_job *job, size_t at, size_t bytes) {
  const void *sources[RING_SHARE_RANKS];
  uint8_t *to = job->task->output;
  for (size_t done = 0, length = 0; done < bytes; done += length) {
    for (int i = 0; i < job->size; i++) {
      length = bytes - done;
      sources[i] = small_piece(ring_share_slot(&job->call, i), at + done, &length);
    }
    ring_local_fold(job, sources, to + done, length / job->task->element_size);
  }
}

/* The next slot is in the caches of those that read it: taking it back overlaps with the wait. */
static void small_prepare(const ring_local_job *job, size_t bytes) {
  ring_share *share = job->call.share;
  ring_seat *seat = ring_share_seat(share, share->index);
  const uint8_t *next = (const uint8_t *)&seat->slots[(share->sequence + 1) % RING_SLOTS];
  size_t lines = (bytes + sizeof(uint64_t) + RING_LINE - 1) / RING_LINE;
  for (size_t i = 0; i < lines && i < SMALL_PREFETCH; i++)
    ring_platform_prefetch(next + i * RING_LINE);
}

/* Publishes the first `bytes` of the input. */
static void small_say(const ring_local_job *job, size_t bytes) {
  small_write(ring_share_slot(&job->call, job->rank), 0, job->task->input, bytes);
  ring_share_publish(&job->call);
  small_prepare(job, bytes);
}

static ring_status small_await_all(const ring_local_job *job) {
  ring_status status = RING_OK;
  for (int i = 0; i < job->size && status == RING_OK; i++)
    if (i != job->rank) status = ring_share_await(&job->call, i);
  return status;
}

/* Every rank has a part for every other one. Behind each other in its slot lie those of the ranks
 * that follow it. */
static void small_deal(const ring_local_job *job, size_t bytes) {
  ring_slot *own = ring_share_slot(&job->call, job->rank);
  const uint8_t *input = job->task->input;
  for (int i = 1; i < job->size; i++)
    small_write(own, (size_t)(i - 1) * bytes, input + (size_t)((job->rank + i) % job->size) * bytes,
                bytes);
}

static ring_status small_alltoall(const ring_local_job *job, size_t bytes) {
  const uint8_t *input = job->task->input;
  uint8_t *output = job->task->output;
  size_t own = (size_t)job->rank * bytes;
  if (bytes > 0) small_deal(job, bytes);
  ring_share_publish(&job->call);
  small_prepare(job, bytes * (size_t)(job->size - 1));
  if (bytes > 0) small_copy(output + own, input + own, bytes);
  for (int i = 1; i < job->size; i++) {
    int from = (job->rank + job->size - i) % job->size;
    ring_status status = ring_share_await(&job->call, from);
    if (status != RING_OK) return status;
    if (bytes > 0)
      small_read(ring_share_slot(&job->call, from), (size_t)(i - 1) * bytes,
                 output + (size_t)from * bytes, bytes);
  }
  return RING_OK;
}

/* Every rank reads from every other one. */
static ring_status small_exchange(const ring_local_job *job, uint8_t collective, size_t bytes) {
  uint8_t *output = job->task->output;
  size_t at = 0, part = bytes;
  bool whole = collective == RING_COLLECTIVE_ALLREDUCE || collective == RING_COLLECTIVE_BARRIER;
  bool gathers =
      collective == RING_COLLECTIVE_ALLGATHER || collective == RING_COLLECTIVE_ALLGATHERV;
  if (!whole) part = ring_local_part(job, job->rank, &at);
  small_say(job, whole || gathers ? part : bytes * (size_t)job->size);
  ring_status status = small_await_all(job);
  if (status != RING_OK || collective == RING_COLLECTIVE_BARRIER) return status;
  if (!gathers) {
    small_fold(job, at, part);
    return RING_OK;
  }
  for (int i = 0; i < job->size; i++) {
    size_t to, length = ring_local_part(job, i, &to);
    if (length == 0) continue;
    small_read(ring_share_slot(&job->call, i), 0, output + to, length);
  }
  return RING_OK;
}

/* All read from the root. */
static ring_status small_spread(const ring_local_job *job, bool parts, size_t bytes) {
  size_t at = 0, part = bytes, last, all;
  if (parts) {
    part = ring_local_part(job, job->rank, &at);
    all = ring_local_part(job, job->size - 1, &last) + last;
  } else {
    all = bytes;
  }
  if (job->rank == job->root) {
    small_say(job, all);
    small_read(ring_share_slot(&job->call, job->rank), at, job->task->output, part);
    return RING_OK;
  }
  ring_status status = ring_share_await(&job->call, job->root);
  if (status != RING_OK) return status;
  small_read(ring_share_slot(&job->call, job->root), at, job->task->output, part);
  ring_share_publish(&job->call);
  return RING_OK;
}

/* The root reads from all. */
static ring_status small_collect(const ring_local_job *job, bool reduces, size_t bytes) {
  size_t to, part = bytes;
  if (!reduces) part = ring_local_part(job, job->rank, &to);
  if (job->rank != job->root) {
    small_say(job, part);
    return RING_OK;
  }
  ring_slot *own = ring_share_slot(&job->call, job->rank);
  small_write(own, 0, job->task->input, part);
  ring_status status = small_await_all(job);
  if (status != RING_OK) return status;
  if (reduces) small_fold(job, 0, bytes);
  for (int i = 0; i < job->size && !reduces; i++) {
    size_t length = ring_local_part(job, i, &to);
    if (length == 0) continue;
    small_read(ring_share_slot(&job->call, i), 0, (uint8_t *)job->task->output + to, length);
  }
  ring_share_publish(&job->call);
  return RING_OK;
}

ring_status ring_local_small(const ring_local_job *job) {
  const ring_call *call = &job->outline->call;
  size_t bytes = (size_t)call->count * job->task->element_size;
  switch (call->collective) {
  case RING_COLLECTIVE_BROADCAST:
    return small_spread(job, false, bytes);
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return small_spread(job, true, bytes);
  case RING_COLLECTIVE_REDUCE:
    return small_collect(job, true, bytes);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return small_collect(job, false, bytes);
  case RING_COLLECTIVE_ALLTOALL:
    return small_alltoall(job, bytes);
  default:
    return small_exchange(job, call->collective, bytes);
  }
}
