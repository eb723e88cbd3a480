/* SPDX-License-Identifier: Apache-2.0
 *
 * The drivers of libraries whose handles are pointers: those of the MPI 5 ABI, and Open MPI. A process has one
 * library, so both share their state.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "backend/mpi_driver.h"
#include "base/call.h"
#include "base/dtype.h"
#include "engine/reduce.h"

typedef void *mpi_pointers_handle;

#define RING_MPI_HANDLE mpi_pointers_handle
#define RING_MPI_NAME(name) mpi_pointers_##name
#define RING_MPI_GET(handle) ((handle).pointer)
#define RING_MPI_KEEP(value) ((ring_mpi_handle){.pointer = (value)})
#include "backend/mpi_functions.h"

static const mpi_pointers_constants mpi_pointers_standard = {
#define RING_MPI_ROW(dtype, mpi, mpich, standard, open_mpi) [dtype] = (void *)(standard),
    .types = {RING_MPI_TYPE_MAP(RING_MPI_ROW)},
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) [RING_MPI_##name] = (void *)(standard),
    .ops = {RING_MPI_OP_MAP(RING_MPI_ROW)},
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) .name = (void *)(standard),
    RING_MPI_OBJECT_MAP(RING_MPI_ROW) RING_MPI_SENTINEL_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) .name = standard,
        RING_MPI_NUMBER_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
};

static const char *mpi_pointers_find_standard(void *library) {
  mpi_pointers_its = mpi_pointers_standard;
  return mpi_pointers_find_functions(library);
}

/* The address of a variable. A program that is linked against the library may have copies of the library's
 * variables, which the library then uses; they are found first. */
static void *mpi_pointers_variable(void *library, const char *name) {
  void *found = dlsym(RTLD_DEFAULT, name);
  return found != NULL ? found : dlsym(library, name);
}

/* Open MPI's handles are the addresses of its variables. */
static const char *mpi_pointers_find_open_mpi(void *library) {
  static const struct {
    const char *name;
    void **place;
  } variables[] = {
#define RING_MPI_ROW(dtype, mpi, mpich, standard, open_mpi)                                        \
  {#open_mpi, &mpi_pointers_its.types[dtype]},
      RING_MPI_TYPE_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi)                                         \
  {#open_mpi, &mpi_pointers_its.ops[RING_MPI_##name]},
          RING_MPI_OP_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) {#open_mpi, &mpi_pointers_its.name},
              RING_MPI_OBJECT_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
  };
  mpi_pointers_its = (mpi_pointers_constants){
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) .name = open_mpi,
      RING_MPI_NUMBER_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
#define RING_MPI_ROW(name, mpi, mpich, standard, open_mpi) .name = (void *)(open_mpi),
          RING_MPI_SENTINEL_MAP(RING_MPI_ROW)
#undef RING_MPI_ROW
  };
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    *variables[i].place = mpi_pointers_variable(library, variables[i].name);
    if (*variables[i].place == NULL) return variables[i].name;
  }
  return mpi_pointers_find_functions(library);
}

const ring_mpi_driver ring_mpi_driver_standard =
    RING_MPI_DRIVER("the MPI 5 ABI", mpi_pointers_find_standard);
const ring_mpi_driver ring_mpi_driver_open_mpi =
    RING_MPI_DRIVER("Open MPI's", mpi_pointers_find_open_mpi);

#undef RING_MPI_HANDLE
#undef RING_MPI_NAME
#undef RING_MPI_GET
#undef RING_MPI_KEEP
#undef RING_MPI_FUNCTION_MAP
#undef RING_MPI_DRIVER
