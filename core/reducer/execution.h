/* SPDX-License-Identifier: Apache-2.0
 *
 * Execution: carries out one run of the fusion plan with the collectives of the reducer's communicator, on memory of
 * the host or of GPUs. A rank that has joined takes part with zeros.
 */
#ifndef RING_REDUCER_EXECUTION_H
#define RING_REDUCER_EXECUTION_H

#include "reducer/gpu.h"
#include "reducer/negotiation.h"

typedef struct ring_execution {
  const ring_negotiation *negotiation;
  ring_reducer_gpu *gpu;
  ring_buffer *buffers;
  size_t buffer_count, buffer_capacity;
  ring_bytes zeros, padded;
  size_t *sends, *receives; /* elements to and from each rank */
  int64_t *send_rows, *receive_rows;
} ring_execution;

/* False without memory. */
bool ring_execution_init(ring_execution *execution, const ring_negotiation *negotiation,
                         ring_reducer_gpu *gpu);
void ring_execution_destroy(ring_execution *execution);

/* Runs items that the plan has put together. Results are in the submissions, which are not completed; on GPUs they are
 * there after ring_reducer_gpu_await().
 * *refusal gets a status other than RING_OK where the operation cannot run, on all ranks alike, and the
 * communicator is usable. A failure is that of the communicator. */
ring_status ring_execution_run(ring_execution *execution, ring_ready *const *items, size_t count,
                               ring_error *refusal);

#endif
