/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of Open MPI. The argument chooses what it does; the last rank fails alone.
 */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1 << 16 };

static int rank, size;
static double input[COUNT], output[COUNT];

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s\n", rank, what);
  _exit(100);
}

/* Sums over all ranks, then a message to the next rank and from the one before. */
static void work(void) {
  int next = (rank + 1) % size, before = (rank + size - 1) % size;
  for (int i = 0; i < COUNT; i++) input[i] = rank + i;
  MPI_Allreduce(input, output, COUNT, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < COUNT; i++)
    check(output[i] == size * (size - 1) / 2 + (double)size * i, "a sum is wrong");
  MPI_Sendrecv(input, COUNT, MPI_DOUBLE, next, 3, output, COUNT, MPI_DOUBLE, before, 3,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < COUNT; i++) check(output[i] == before + i, "a message is wrong");
}

static void check_world(void) {
  const char *hosts = getenv("HOSTS");
  int here = 0, shared;
  MPI_Comm host;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  MPI_Comm_size(host, &shared);
  MPI_Comm_free(&host);
  for (int other = 0; other < size; other++) here += hosts[other] == hosts[rank];
  check(size == (int)strlen(hosts), "the world has another size");
  check(shared == here, "the host has other ranks");
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "work";
  if (strcmp(what, "nothing") == 0) return 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  check_world();
  work();
  if (strcmp(what, "work") != 0) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == size - 1 && strcmp(what, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
    if (rank == size - 1 && strcmp(what, "kill") == 0) kill(getpid(), SIGKILL);
    while (sleep(3600) == 0) continue; /* "wait": silent, and outside MPI */
  }
  MPI_Finalize();
  return 0;
}
