/* SPDX-License-Identifier: Apache-2.0 */
#include "shm_collectives/job.h"

#include "engine/reduce.h"

void ring_shm_fold(const ring_shm_job *job, const void *const *sources, void *destination,
                   size_t count) {
  const ring_call *call = &job->outline->call;
  ring_reduction reduction = {.dtype = (ring_dtype)call->dtype, .op = (ring_op)call->op};
  ring_reduction_fold(&reduction, job->task->divide ? job->size : 0, sources, job->size,
                      destination, count);
}
