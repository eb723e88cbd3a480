/* SPDX-License-Identifier: Apache-2.0
 *
 * An MPI program of the tests. The first argument names the action after MPI_Init. Of an action that fails, the last
 * rank is the only one; the other ranks wait.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void greet(void) {
  int mine = rank + 1, sum = 0, shared;
  MPI_Comm host;
  MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &shared);
  MPI_Comm_free(&host);
  printf("rank %d of %d: sum %d, %d on this host\n", rank, size, sum, shared);
  if (rank == 0) fprintf(stderr, "a warning\n");
}

/* Rank 0 publishes a name, which all look up after a barrier of MPI, and not of PMI. */
static void use_names(void) {
  char port[MPI_MAX_PORT_NAME] = "";
  if (rank == 0) MPI_Publish_name("ocean", MPI_INFO_NULL, "tag#0$a$");
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Lookup_name("ocean", MPI_INFO_NULL, port);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) MPI_Unpublish_name("ocean", MPI_INFO_NULL, port);
  printf("rank %d found %s\n", rank, port);
}

static void fail(const char *what) {
  fflush(stdout);
  if (strcmp(what, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  if (strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(what, "leave") == 0) _exit(0);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "greet";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (strcmp(what, "greet") == 0) {
    greet();
  } else if (strcmp(what, "names") == 0) {
    use_names();
  } else {
    printf("rank %d begins to %s\n", rank, what);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1) fail(what);
    while (sleep(3600) == 0) continue; /* silent, and outside MPI */
  }
  MPI_Finalize();
  return 0;
}
