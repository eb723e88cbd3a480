/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the backend of MPI on all ranks, over `native`: loads the library, initializes MPI, finds out which rank
 * of MPI_COMM_WORLD each rank is, and forms a communicator of them. MPI's blocking calls run on a thread, so
 * that deadline, interrupt hook and failure detector count meanwhile. A thread that never returns is left
 * behind, and MPI is abandoned (mpi_library.h).
 */
#ifndef RING_BACKEND_MPI_OPENING_H
#define RING_BACKEND_MPI_OPENING_H

#include "backend/mpi.h"

/* *mpi is the backend, or NULL. RING_UNSUPPORTED with the same *error on all ranks where a rank has no MPI library
 * or no launcher, has another library, or is not one of MPI's ranks; RING_BUSY where another thread of a rank
 * opens one, too. `nodes`: see ring_outline. */
ring_status ring_mpi_open(ring_native *native, const int *nodes, ring_wait *wait, ring_mpi **mpi,
                          ring_error *error);

#endif
