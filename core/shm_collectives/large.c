/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/large.h"

#include "shm_collectives/bounce.h"
#include "shm_collectives/large_reduce.h"
#include "shm_collectives/zero_copy.h"

ring_status ring_shm_large(const ring_shm_job *job) {
  ring_window window = {.job = job};
  const ring_call *call = &job->outline->call;
  uint8_t *bounce = ring_window_bounce(job->call.shm);
  if (call->collective == RING_COLLECTIVE_ALLREDUCE || call->collective == RING_COLLECTIVE_REDUCE)
    ring_bounce_prepare(job, bounce);
  ring_window_post(job, bounce);
  switch (call->collective) {
  case RING_COLLECTIVE_BROADCAST:
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return ring_zero_copy_rooted(&window, false);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return ring_zero_copy_rooted(&window, true);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
  case RING_COLLECTIVE_ALLTOALL:
    return ring_zero_copy_all(&window);
  default:
    return ring_large_reduce(&window, (size_t)call->count * job->task->element_size);
  }
}
