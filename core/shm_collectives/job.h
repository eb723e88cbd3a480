/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective in shared memory, as the small and the large way see it.
 */
#ifndef RING_SHM_COLLECTIVES_JOB_H
#define RING_SHM_COLLECTIVES_JOB_H

#include "engine/engine.h"
#include "shm/sync.h"
#include "tuner/plan.h"

typedef struct ring_shm_job {
  ring_shm_call call;
  const ring_task *task;
  const ring_outline *outline;
  int rank, size, root; /* indices in the shm group */
  bool brief;           /* every rank's payload fits a slot */
} ring_shm_job;

/* The bytes of a rank's part; *at becomes its offset. */
static inline size_t ring_shm_part(const ring_shm_job *job, int rank, size_t *at) {
  const ring_parts *parts = &job->outline->parts;
  size_t width = job->task->element_size;
  if (parts->offsets == NULL) {
    size_t bytes = (size_t)job->outline->call.count * width;
    *at = (size_t)rank * bytes;
    return bytes;
  }
  *at = (size_t)parts->offsets[rank] * width;
  return (size_t)(parts->offsets[rank + 1] - parts->offsets[rank]) * width;
}

static inline size_t ring_shm_longest_part(const ring_shm_job *job) {
  size_t most = 0, at;
  for (int i = 0; i < job->size; i++) {
    size_t part = ring_shm_part(job, i, &at);
    most = part > most ? part : most;
  }
  return most;
}

/* destination = sources[0] op sources[1] op ..., in rank order, on `count` elements. */
void ring_shm_fold(const ring_shm_job *job, const void *const *sources, void *destination,
                   size_t count);

#endif
