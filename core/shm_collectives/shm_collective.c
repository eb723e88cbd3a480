/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/shm_collective.h"

#include <assert.h>

#include "base/counter.h"
#include "base/dtype.h"
#include "shm_collectives/large.h"
#include "shm_collectives/small.h"

#define SHM_COLLECTIVE_SMALL_PAIR (4 * 1024)
#define SHM_COLLECTIVE_SMALL (8 * 1024)
static_assert(SHM_COLLECTIVE_SMALL <= RING_STAGING_BYTES, "a small payload fits a staging buffer");

/* The largest payload that any rank publishes. */
static uint64_t shm_collective_payload(const ring_outline *outline) {
  const ring_call *call = &outline->call;
  uint64_t width = ring_dtype_size((ring_dtype)call->dtype), most = 0;
  switch (call->collective) {
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_REDUCE_SCATTER:
    return call->count * width * (uint64_t)outline->size;
  case RING_COLLECTIVE_ALLTOALL:
    return call->count * width * (uint64_t)(outline->size - 1);
  case RING_COLLECTIVE_ALLGATHERV:
  case RING_COLLECTIVE_GATHERV:
    if (outline->parts.offsets == NULL) return outline->parts.count * width;
    for (int i = 0; i < outline->size; i++) {
      uint64_t part = outline->parts.offsets[i + 1] - outline->parts.offsets[i];
      most = part > most ? part : most;
    }
    return most * width;
  default:
    return call->count * width;
  }
}

/* Whether a call goes through slots. With larger payloads it is faster to share the work and to
 * take lines over (bounce.c). More than two ranks often wait for a processor, so the large way pays
 * later for them. */
static bool shm_collective_is_small(const ring_outline *outline) {
  return shm_collective_payload(outline) <=
         (outline->size == 2 ? SHM_COLLECTIVE_SMALL_PAIR : SHM_COLLECTIVE_SMALL);
}

bool ring_shm_collective_serves(const ring_shm *shm, const ring_outline *outline) {
  if (!shm->formed || shm->size != outline->size) return false;
  switch (outline->call.collective) {
  case RING_COLLECTIVE_SCAN:
  case RING_COLLECTIVE_EXSCAN:
    return shm_collective_is_small(outline);
  case RING_COLLECTIVE_OPEN:
  case RING_COLLECTIVE_CLOSE:
  case RING_COLLECTIVE_ALLTOALLV:
  case RING_COLLECTIVE_MESSAGE:
    return false;
  default:
    return true;
  }
}

/* From bench/results/2026-11-21.json (allreduce, two processors): a flag until another processor
 * sees it, a byte read in a slot, and a byte of each rank in the arena while the caches hold them
 * all. */
#define SHM_COLLECTIVE_FLAG_PS UINT64_C(150000)
#define SHM_COLLECTIVE_SLOT_BYTE_PS UINT64_C(75)
#define SHM_COLLECTIVE_ARENA_BYTE_PS UINT64_C(50)

const char *ring_shm_collective_way(const ring_outline *outline, uint64_t *cost) {
  uint64_t payload = shm_collective_payload(outline), size = (uint64_t)outline->size;
  bool small = shm_collective_is_small(outline);
  /* In slots every rank reads all payloads; in the arena the ranks share the work and the
   * memory. */
  *cost =
      small
          ? SHM_COLLECTIVE_FLAG_PS * (size - 1) + SHM_COLLECTIVE_SLOT_BYTE_PS * payload * (size - 1)
          : 4 * SHM_COLLECTIVE_FLAG_PS * (size - 1) + SHM_COLLECTIVE_ARENA_BYTE_PS * payload * size;
  return small ? "slots" : "arena";
}

/* The bytes that this rank passes to other ranks, each counted once. */
static uint64_t shm_collective_bytes(const ring_shm_job *job) {
  const ring_call *call = &job->outline->call;
  bool root = job->rank == job->root;
  uint64_t whole = call->count * job->task->element_size;
  size_t at, last, own;
  switch (call->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
    return whole;
  case RING_COLLECTIVE_SCAN:
  case RING_COLLECTIVE_EXSCAN:
    return job->rank < job->size - 1 ? whole : 0;
  case RING_COLLECTIVE_BROADCAST:
    return root ? whole : 0;
  case RING_COLLECTIVE_REDUCE:
    return root ? 0 : whole;
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_ALLTOALL:
    return whole * (uint64_t)(job->size - 1);
  case RING_COLLECTIVE_REDUCE_SCATTERV:
    return whole - ring_shm_part(job, job->rank, &at);
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    own = ring_shm_part(job, job->rank, &at);
    last = ring_shm_part(job, job->size - 1, &at);
    return root ? at + last - own : 0;
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return root ? 0 : ring_shm_part(job, job->rank, &at);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
    return ring_shm_part(job, job->rank, &at);
  default: /* barriers */
    return 0;
  }
}

ring_status ring_shm_collective_run(ring_shm *shm, const ring_task *task,
                                    const ring_outline *outline, const ring_call *signature,
                                    ring_error *error) {
  ring_shm_job job = {.task = task,
                      .outline = outline,
                      .rank = shm->index,
                      .size = shm->size,
                      .root = outline->call.root};
  bool small = shm_collective_is_small(outline);
  job.brief = shm_collective_payload(outline) <= RING_SLOT_BYTES;
  ring_status status =
      ring_shm_begin(shm, signature, small && !job.brief ? RING_STAGING_BUFFERS : RING_SLOTS,
                     task->wait, error, &job.call);
  if (status != RING_OK) return status;
  if (small) {
    status = ring_shm_small(&job);
    if (status == RING_OK) ring_counter_add(&shm->bytes_shared, shm_collective_bytes(&job));
    return status;
  }
  shm->exposed = true;
  shm->output = task->output;
  shm->output_bytes = (size_t)task->output_count * task->element_size;
  shm->entered = shm->sequence;
  status = ring_shm_large(&job);
  shm->exposed = status != RING_OK && status != RING_UNSUPPORTED;
  if (status == RING_OK) ring_counter_add(&shm->bytes_shared, shm_collective_bytes(&job));
  return status;
}
