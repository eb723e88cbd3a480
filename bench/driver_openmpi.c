/* SPDX-License-Identifier: Apache-2.0
 *
 * Open MPI's driver. mpirun's options choose the link.
 */
#include "driver.h"

#include <mpi.h>

/* An error ends the job: MPI_ERRORS_ARE_FATAL is the default. */
static world all;

static void allreduce(const float *input, float *output, size_t count) {
  MPI_Allreduce(input, output, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(const float *input, float *output, size_t count) {
  MPI_Bcast(all.rank == 0 ? (float *)input : output, (int)count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void allgather(const float *input, float *output, size_t count) {
  MPI_Allgather(input, (int)count, MPI_FLOAT, output, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void alltoall(const float *input, float *output, size_t count) {
  MPI_Alltoall(input, (int)count, MPI_FLOAT, output, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
}

const collective library_collectives[] = {
    {"allreduce", allreduce},
    {"broadcast", broadcast},
    {"allgather", allgather},
    {"alltoall", alltoall},
    {NULL, NULL},
};

world library_open(const char *folder) {
  (void)folder;
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, &all.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &all.size);
  return all;
}

void library_barrier(void) {
  MPI_Barrier(MPI_COMM_WORLD);
}

void library_close(void) {
  MPI_Finalize();
}

const char *library_link(const char *wanted) {
  return wanted;
}

void *library_alloc(size_t bytes) {
  (void)bytes;
  return NULL;
}

void library_free(void *memory) {
  (void)memory;
}

const int library_copies = 0;
