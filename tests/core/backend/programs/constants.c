/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares the constants of core/backend with the mpi.h that a compiler of MPI has: MPI_ROW picks the column.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#include "backend/mpi_constants.h"

static int wrong;

static void compare(const char *name, uintptr_t of_header, uintptr_t ours) {
  if (of_header == ours) return;
  printf("%s is %#jx, not %#jx\n", name, (uintmax_t)of_header, (uintmax_t)ours);
  wrong = 1;
}

#if defined(OPEN_MPI)
#define VALUE(mpich, standard, open_mpi) (uintptr_t)(open_mpi)
#define OBJECT(mpich, standard, open_mpi) (uintptr_t)&open_mpi
#elif defined(MPICH) && !defined(MPI_ABI)
#define VALUE(mpich, standard, open_mpi) (uintptr_t)(intptr_t)(mpich)
#define OBJECT(mpich, standard, open_mpi) (uintptr_t)(mpich)
#else
#define VALUE(mpich, standard, open_mpi) (uintptr_t)(intptr_t)(standard)
#define OBJECT(mpich, standard, open_mpi) (uintptr_t)(standard)
#endif

int main(void) {
#define MPI_ROW(name, mpi, mpich, standard, open_mpi)                                              \
  compare(#mpi, (uintptr_t)mpi, OBJECT(mpich, standard, open_mpi));
  RING_MPI_TYPE_MAP(MPI_ROW)
  RING_MPI_OP_MAP(MPI_ROW)
  RING_MPI_OBJECT_MAP(MPI_ROW)
#undef MPI_ROW
#define MPI_ROW(name, mpi, mpich, standard, open_mpi)                                              \
  compare(#mpi, (uintptr_t)(intptr_t)(mpi), VALUE(mpich, standard, open_mpi));
  RING_MPI_NUMBER_MAP(MPI_ROW)
  RING_MPI_SENTINEL_MAP(MPI_ROW)
#undef MPI_ROW
  compare("the longest text", MPI_MAX_LIBRARY_VERSION_STRING > RING_MPI_TEXT, 0);
  compare("the longest error", MPI_MAX_ERROR_STRING > RING_MPI_TEXT, 0);
  return wrong;
}
