/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"

#include "dtype.h"
#include "error.h"
#include "platform.h"
#include "reduce.h"

#define LOCAL_QUIET_NS UINT64_C(1000000000) /* after a failure, for others to let go */

/* The most bytes that any rank has to say. */
static uint64_t local_said(const ring_outline *outline) {
  const ring_call *call = &outline->call;
  uint64_t width = ring_dtype_size((ring_dtype)call->dtype), most = 0;
  switch (call->collective) {
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_ALLTOALL:
    return call->count * width * (uint64_t)outline->size;
  case RING_COLLECTIVE_ALLGATHERV:
  case RING_COLLECTIVE_GATHERV:
    for (int i = 0; i < outline->size; i++) {
      uint64_t part = outline->parts.offsets[i + 1] - outline->parts.offsets[i];
      most = part > most ? part : most;
    }
    return most * width;
  default:
    return call->count * width;
  }
}

bool ring_local_serves(const ring_share *share, const ring_outline *outline) {
  if (share->arena == NULL || share->size != outline->size) return false;
  switch (outline->call.collective) {
  case RING_COLLECTIVE_OPEN:
  case RING_COLLECTIVE_TELL:
  case RING_COLLECTIVE_CLOSE:
  case RING_COLLECTIVE_ALLTOALLV:
  case RING_COLLECTIVE_MESSAGE:
  case RING_COLLECTIVE_SPLIT:
    return false;
  default:
    return true;
  }
}

void ring_local_fold(const ring_local_job *job, const void *const *sources, void *destination,
                     size_t count) {
  const ring_call *call = &job->outline->call;
  ring_reduction reduction = {.dtype = (ring_dtype)call->dtype, .op = (ring_op)call->op};
  ring_reduction_fold(&reduction, job->task->divide ? job->size : 0, sources, job->size, destination,
                      count);
}

/* Waits until the ranks that came to this call have left it, so that none of them still reads or
 * writes this one's buffers when the caller gets them back. */
static void local_quiet(const ring_local_job *job) {
  ring_share *share = job->call.share;
  uint64_t give_up = ring_platform_now() + LOCAL_QUIET_NS;
  ring_share_finish(&job->call);
  for (int i = 0; i < share->size; i++) {
    const _Atomic uint64_t *came = &ring_share_slot(&job->call, i)->flag;
    const _Atomic uint64_t *done = &ring_share_seat(share, i)->done;
    while (ring_share_reached(atomic_load(came), share->sequence) &&
           !ring_share_reached(atomic_load(done), share->sequence) &&
           ring_platform_held(share->lock, i) && ring_platform_now() < give_up)
      ring_platform_sleep(&ring_share_seat(share, share->index)->wake, 0, 1);
  }
}

ring_status ring_local_run(ring_share *share, const ring_task *task, const ring_outline *outline,
                           ring_error *error) {
  ring_local_job job = {.task = task,
                        .outline = outline,
                        .rank = share->index,
                        .size = share->size,
                        .root = outline->call.root};
  bool small = local_said(outline) <= RING_SLOT_BYTES;
  ring_status status = ring_share_begin(share, &task->call, task->wait, error, &job.call);
  if (status == RING_OK) status = small ? ring_local_small(&job) : ring_local_large(&job);
  if (status == RING_OK || status == RING_UNSUPPORTED) return status;
  ring_share_fail(share, error);
  if (!small) local_quiet(&job);
  return status;
}
