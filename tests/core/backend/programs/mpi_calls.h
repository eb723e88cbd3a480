/* SPDX-License-Identifier: Apache-2.0
 *
 * Every collective with one list of arguments, so that a test can make the same call on two communicators.
 */
#ifndef RING_TEST_MPI_CALLS_H
#define RING_TEST_MPI_CALLS_H

#include <stdbool.h>

#include "sparkring.h"

typedef enum collective {
  ALLREDUCE,
  REDUCE,
  REDUCE_SCATTER,
  REDUCE_SCATTERV,
  SCAN,
  EXSCAN,
  LAST_REDUCTION = EXSCAN,
  BROADCAST,
  ALLGATHER,
  ALLGATHERV,
  GATHER,
  GATHERV,
  SCATTER,
  SCATTERV,
  ALLTOALL,
  ALLTOALLV,
  BARRIER,
  COLLECTIVES
} collective;

typedef struct mpi_call {
  collective which;
  ring_dtype dtype;
  ring_op op;
  int root;
  size_t count;
  bool in_place; /* the buffers overlap as the collective permits, where it permits that */
} mpi_call;

enum { CALL_SIZE_MOST = 8 };

/* Elements that each buffer of a call needs. */
size_t call_elements(const mpi_call *call, int size);

/* Makes the call with input and output, of which each has call_elements(). */
ring_status call_make(ring_comm *comm, const mpi_call *call, void *input, void *output);

#endif
