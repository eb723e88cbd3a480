/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds and loads an MPI library: the one that SPARKRING_MPI_LIBRARY names, else the one that the process has
 * loaded, else that of the launcher. A second library in a process would not know what the first one has
 * initialized, so what the process has loaded is found by the functions that it has, not by its name.
 */
#ifndef RING_BACKEND_MPI_LOADER_H
#define RING_BACKEND_MPI_LOADER_H

#include "backend/mpi_driver.h"

#define RING_MPI_LIBRARY_VARIABLE "SPARKRING_MPI_LIBRARY"

typedef struct ring_mpi_loaded {
  const ring_mpi_driver *driver;
  uint64_t
      version; /* digest of MPI_Get_library_version, by which ranks compare what they have loaded */
  char path[512]; /* as the loader of the system knows it */
} ring_mpi_loaded;

/* Loads a library. False: *why lists what was tried. */
bool ring_mpi_loader_find(ring_mpi_loaded *loaded, char *why, size_t capacity);

#endif
