/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI for the processes of test-mpi-init.R, as Rmpi has it: functions for .C().
 */
#include <mpi.h>
#include <stddef.h>

void mpi_begin(int *rank, int *size) {
  MPI_Init(NULL, NULL);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, size);
}

void mpi_sum(double *x, int *length) {
  MPI_Allreduce(MPI_IN_PLACE, x, *length, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

void mpi_end(void) {
  MPI_Finalize();
}
