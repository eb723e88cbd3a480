/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of a backend: its name, and what keeps MPI from being it. No rank here has an MPI library; test_mpi
 * has.
 */
#include <stdlib.h>

#include "check.h"
#include "ranks.h"

static void refuse_options(void) {
  ring_comm *comm;
  ring_error error;
  ring_options options = rank_options(0, 2);
  options.backend = "nccl";
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, "backend is \"nccl\": it must be native or mpi");
  options.backend = NULL;
  CHECK_INT(setenv("SPARKRING_BACKEND", "MPI", 1), 0);
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, "SPARKRING_BACKEND");
  CHECK_INT(unsetenv("SPARKRING_BACKEND"), 0);
  options.backend = "mpi";
  options.encryption = RING_ON;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, "MPI does not encrypt");
}

/* One rank has nothing to carry. */
static void alone(void) {
  ring_options options = rank_options(0, 1);
  options.backend = "mpi";
  ring_comm *comm = open_with(&options);
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, "allreduce", 8, RING_FLOAT64, 0, &explanation), RING_OK);
  CHECK_CONTAINS(explanation.backend, "native");
  close_rank(comm);
}

static void open_differing(int rank, int size, void *shared) {
  ring_comm *comm;
  ring_error error;
  ring_options options = rank_options(rank, size);
  (void)shared;
  options.backend = rank == 1 ? "mpi" : "native";
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_MISMATCH);
  CHECK_CONTAINS(error.message, "the same backend");
}

/* All ranks get the reason of the rank that has no library. */
static void open_without(int rank, int size, void *shared) {
  const char *library = shared;
  ring_comm *comm;
  ring_error error;
  ring_options options = rank_options(rank, size);
  CHECK_INT(setenv("SPARKRING_BACKEND", "mpi", 1), 0);
  CHECK_INT(setenv("SPARKRING_MPI_LIBRARY", library, 1), 0);
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_UNSUPPORTED);
  CHECK_INT(error.rank, 0);
  CHECK_CONTAINS(error.message, "rank 0 has no MPI library: ");
  CHECK_CONTAINS(error.message, library);
  CHECK_CONTAINS(error.message, "SPARKRING_MPI_LIBRARY");
  CHECK(comm == NULL);
}

static void open_misnumbered(int rank, int size, void *shared) {
  ring_comm *comm;
  ring_error error;
  ring_options options = rank_options(rank, size);
  (void)shared;
  options.backend = "mpi";
  CHECK_INT(setenv("SPARKRING_MPI_MESSAGES", "-1", 1), 0);
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, "SPARKRING_MPI_MESSAGES is \"-1\" on rank 0");
}

int main(void) {
  RUN(refuse_options);
  RUN(alone);
  run_ranks(3, open_differing, NULL);
  run_ranks(3, open_without, (char[]){"/no/such/libmpi.so"});
  run_ranks(2, open_without, (char[]){"libm.so.6"});
  run_ranks(2, open_misnumbered, NULL);
  return 0;
}
