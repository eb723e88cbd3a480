/* SPDX-License-Identifier: Apache-2.0
 *
 * The MPI library of this process, and when a thread may call it. The first communicator that wants MPI loads it, and
 * initializes MPI where nothing else has.
 *
 * MPI is abandoned after the first failure of a communicator: the call that failed may still use the buffers of its
 * caller, and every later call of MPI would go on with it. Then this library makes no call of MPI any more, neither
 * for other communicators nor to finalize.
 */
#ifndef RING_BACKEND_MPI_LIBRARY_H
#define RING_BACKEND_MPI_LIBRARY_H

#include "backend/mpi_driver.h"

/* Loads the library (mpi_loader.h). Loads nothing after the first success. RING_UNSUPPORTED: *error, of rank
 * `rank`, lists what was tried. */
ring_status ring_mpi_library_load(int rank, const ring_mpi_driver **driver, ring_error *error);

/* MPI_Get_library_version as a digest, by which ranks compare what they have loaded. */
uint64_t ring_mpi_library_version(void);

/* RING_UNSUPPORTED where MPI is not initialized and no launcher of MPI has started this process: MPI_Init might
 * end the process. */
ring_status ring_mpi_library_launched(int rank, ring_error *error);

/* Initializes MPI unless it is initialized. Blocks until all processes of MPI's world have done so. RING_UNSUPPORTED
 * where MPI was finalized, belongs to the parent of this forked child, or admits one thread only. */
ring_status ring_mpi_library_init(int rank, ring_error *error);

/* Whether this thread may call MPI now, until it leaves. False while another thread does where MPI admits one at a
 * time, and for ever once MPI is abandoned. enter waits, and returns false in the latter case only. */
bool ring_mpi_library_try(void);
bool ring_mpi_library_enter(void);
void ring_mpi_library_leave(void);

/* Begins to open a communicator; false while another thread does. The order in which two of them form would have
 * to be the same on all ranks. */
bool ring_mpi_library_begin_opening(void);
void ring_mpi_library_end_opening(void);

/* Counts communicators that use MPI. While there are some, sleeps of this process call MPI (base/background.h). MPI is
 * finalized when the process exits only where it was initialized here and all have been closed: MPI_Finalize
 * waits for the other ranks. */
void ring_mpi_library_formed(void);
void ring_mpi_library_closed(void);

/* Abandons MPI because of a failure. No thread is in MPI afterwards, except for one that stays there for more than
 * 100 ms. */
void ring_mpi_library_abandon(const ring_error *cause);

/* RING_OK, or why MPI is not used any more: abandoned, or finalized by the program. */
ring_status ring_mpi_library_check(int rank, ring_error *error);

#endif
