/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver of libraries whose handles are numbers: MPICH, and what is made from it (Intel MPI, MVAPICH, Cray
 * MPICH).
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "backend/mpi_driver.h"
#include "base/call.h"
#include "base/dtype.h"
#include "engine/reduce.h"

#define RING_MPI_HANDLE int
#define RING_MPI_NAME(name) mpi_numbers_##name
#define RING_MPI_GET(handle) ((handle).number)
#define RING_MPI_KEEP(value) ((ring_mpi_handle){.number = (value)})
#include "backend/mpi_functions.h"

static const mpi_numbers_constants mpi_numbers_mpich = {
#define RING_MPI_ROW(dtype, mpi, mpich, standard, open_mpi) [dtype] = mpich,
    .types = {RING_MPI_TYPE_MAP(RING_MPI_ROW)},
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) [RING_MPI_##name] = mpich,
    .ops = {RING_MPI_OP_MAP(RING_MPI_ROW)},
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) .name = mpich,
    RING_MPI_OBJECT_MAP(RING_MPI_ROW) RING_MPI_NUMBER_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) .name = (void *)(intptr_t)(mpich),
        RING_MPI_SENTINEL_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
};

static const char *mpi_numbers_find(void *library) {
  mpi_numbers_its = mpi_numbers_mpich;
  return mpi_numbers_find_functions(library);
}

const ring_mpi_driver ring_mpi_driver_mpich = RING_MPI_DRIVER("MPICH's", mpi_numbers_find);

#undef RING_MPI_HANDLE
#undef RING_MPI_NAME
#undef RING_MPI_GET
#undef RING_MPI_KEEP
#undef RING_MPI_FUNCTION_MAP
#undef RING_MPI_DRIVER
