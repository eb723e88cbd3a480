/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend that has MPI carry collectives out, where mpirun has started the ranks on a network which `native`
 * does not drive. `native` has connected the ranks before: its detector names ranks that fail while MPI waits,
 * and it carries out what MPI has not (mpi_plan.h).
 */
#ifndef RING_BACKEND_MPI_H
#define RING_BACKEND_MPI_H

#include "backend/mpi_messages.h"
#include "backend/mpi_plan.h"
#include "backend/native.h"
#include "engine/outside_wait.h"

typedef struct ring_mpi {
  ring_backend base;
  ring_native *native;
  const ring_mpi_driver *driver;
  ring_mpi_handle comm;
  ring_mpi_scratch scratch;
  ring_mpi_messages messages;
  ring_outside_wait outside;
  bool crowded; /* this host has more ranks than processors for them */
  bool formed;  /* `comm` is in use: not closed */
} ring_mpi;

/* A backend above `native`, without a communicator of MPI (mpi_opening.h). NULL without memory. */
ring_mpi *ring_mpi_alloc(ring_native *native);

/* Frees the backend alone, not `native`. Without an end before, what MPI may still use is leaked. */
void ring_mpi_free(ring_mpi *mpi, bool torn);

#endif
