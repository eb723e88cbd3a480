/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans a call for MPI: turns its outline and buffers into one collective of MPI, and what is left to do before
 * and after.
 *
 *   sums and products of integers   as unsigned ones, whose overflow is defined
 *   min and max of floats, unsigned by ops of ours (mpi_driver.h), as sums and products of short integers
 *   bool                            as logical ops on bytes
 *   float16, bfloat16               widened to float32 in scratch, and rounded once at the end
 *   averages                        sums, divided at the end
 */
#ifndef RING_BACKEND_MPI_PLAN_H
#define RING_BACKEND_MPI_PLAN_H

#include "backend/backend.h"
#include "backend/mpi_driver.h"

/* Memory of a communicator for its plans. */
typedef struct ring_mpi_scratch {
  int *counts; /* four tables, each with a number for each rank */
  uint8_t *bytes;
  size_t capacity;
} ring_mpi_scratch;

typedef struct ring_mpi_plan {
  ring_mpi_work work;
  const void *from; /* result of MPI that is not in the output yet, or NULL */
  int divisor;      /* of an average; 0: none */
} ring_mpi_plan;

/* Allocates for `size` ranks. RING_OK or RING_NO_MEMORY. */
ring_status ring_mpi_scratch_init(ring_mpi_scratch *scratch, int size);
void ring_mpi_scratch_fini(ring_mpi_scratch *scratch);

/* Whether MPI has the collective, and counts that fit it: 31 bits. All ranks decide alike, so the counts of
 * an alltoallv, which differ from rank to rank, do not count. */
bool ring_mpi_plan_serves(const ring_outline *outline);

/* Whether a test of the call may reduce or copy for long. */
bool ring_mpi_plan_is_large(const ring_backend_call *call);

/* Plans the call, and copies its input where MPI does not read it in place. RING_NO_MEMORY, or
 * RING_UNSUPPORTED for an alltoallv whose counts need more than 31 bits. */
ring_status ring_mpi_plan_make(const ring_backend_call *call, ring_mpi_scratch *scratch,
                               ring_mpi_plan *plan);

/* Writes the output after MPI has done its work. */
void ring_mpi_plan_finish(const ring_backend_call *call, const ring_mpi_plan *plan);

#endif
