/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of MPI beside MPI itself, in the same processes and rounds:
 *   mpirun -n 2 build/bench/drivers/mpi_backend              shared memory
 *   mpirun -n 2 --mca btl self,tcp build/bench/drivers/mpi_backend         Open MPI over TCP
 * Of each collective and size it prints the lower quartile of the times of MPI's blocking call, of its
 * nonblocking call and MPI_Wait, and of ours, and how long ours takes relative to both. An argument names the
 * only collective. Run by hand.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sparkring.h"
#include "stopwatch.h"

enum { ROUNDS = 301, BYTES_LEAST = 8, BYTES_MOST = 4 << 20, WAYS = 3 };

static ring_comm *comm;
static int rank, size;

static void check(ring_status status) {
  if (status == RING_OK) return;
  fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  exit(1);
}

/* ---- The calls ---------------------------------------------------------------------------- */

typedef void (*call)(float *x, float *y, int count);

static void wait_for(MPI_Request *request) {
  MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void mpi_allreduce(float *x, float *y, int count) {
  MPI_Allreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_iallreduce(float *x, float *y, int count) {
  MPI_Request request;
  MPI_Iallreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_allreduce(float *x, float *y, int count) {
  check(ring_allreduce(comm, x, y, (size_t)count, RING_FLOAT32, RING_SUM));
}

static void mpi_broadcast(float *x, float *y, int count) {
  (void)y;
  MPI_Bcast(x, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void mpi_ibroadcast(float *x, float *y, int count) {
  MPI_Request request;
  (void)y;
  MPI_Ibcast(x, count, MPI_FLOAT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_broadcast(float *x, float *y, int count) {
  (void)y;
  check(ring_broadcast(comm, x, x, (size_t)count, RING_FLOAT32, 0));
}

/* `count` is that of the output. */
static void mpi_allgather(float *x, float *y, int count) {
  int part = count / size;
  MPI_Allgather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void mpi_iallgather(float *x, float *y, int count) {
  MPI_Request request;
  int part = count / size;
  MPI_Iallgather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_allgather(float *x, float *y, int count) {
  check(ring_allgather(comm, x, y, (size_t)(count / size), RING_FLOAT32));
}

static void mpi_alltoall(float *x, float *y, int count) {
  int part = count / size;
  MPI_Alltoall(x, part, MPI_FLOAT, y, part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void mpi_ialltoall(float *x, float *y, int count) {
  MPI_Request request;
  int part = count / size;
  MPI_Ialltoall(x, part, MPI_FLOAT, y, part, MPI_FLOAT, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_alltoall(float *x, float *y, int count) {
  check(ring_alltoall(comm, x, y, (size_t)(count / size), RING_FLOAT32));
}

static void mpi_reduce(float *x, float *y, int count) {
  MPI_Reduce(x, y, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void mpi_ireduce(float *x, float *y, int count) {
  MPI_Request request;
  MPI_Ireduce(x, y, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_reduce(float *x, float *y, int count) {
  check(ring_reduce(comm, x, y, (size_t)count, RING_FLOAT32, RING_SUM, 0));
}

/* `count` is that of the input. */
static void mpi_reduce_scatter(float *x, float *y, int count) {
  MPI_Reduce_scatter_block(x, y, count / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_ireduce_scatter(float *x, float *y, int count) {
  MPI_Request request;
  MPI_Ireduce_scatter_block(x, y, count / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_reduce_scatter(float *x, float *y, int count) {
  check(ring_reduce_scatter(comm, x, y, (size_t)(count / size), RING_FLOAT32, RING_SUM));
}

static void mpi_scan(float *x, float *y, int count) {
  MPI_Scan(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void mpi_iscan(float *x, float *y, int count) {
  MPI_Request request;
  MPI_Iscan(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_scan(float *x, float *y, int count) {
  check(ring_scan(comm, x, y, (size_t)count, RING_FLOAT32, RING_SUM));
}

static void mpi_gather(float *x, float *y, int count) {
  int part = count / size;
  MPI_Gather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void mpi_igather(float *x, float *y, int count) {
  MPI_Request request;
  int part = count / size;
  MPI_Igather(x, part, MPI_FLOAT, y, part, MPI_FLOAT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_gather(float *x, float *y, int count) {
  check(ring_gather(comm, x, y, (size_t)(count / size), RING_FLOAT32, 0));
}

static void mpi_scatter(float *x, float *y, int count) {
  int part = count / size;
  MPI_Scatter(x, part, MPI_FLOAT, y, part, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void mpi_iscatter(float *x, float *y, int count) {
  MPI_Request request;
  int part = count / size;
  MPI_Iscatter(x, part, MPI_FLOAT, y, part, MPI_FLOAT, 0, MPI_COMM_WORLD, &request);
  wait_for(&request);
}

static void our_scatter(float *x, float *y, int count) {
  check(ring_scatter(comm, x, y, (size_t)(count / size), RING_FLOAT32, 0));
}

static const struct {
  const char *name;
  call ways[WAYS];
} collectives[] = {
    {"allreduce", {mpi_allreduce, mpi_iallreduce, our_allreduce}},
    {"broadcast", {mpi_broadcast, mpi_ibroadcast, our_broadcast}},
    {"allgather", {mpi_allgather, mpi_iallgather, our_allgather}},
    {"alltoall", {mpi_alltoall, mpi_ialltoall, our_alltoall}},
    {"reduce", {mpi_reduce, mpi_ireduce, our_reduce}},
    {"reduce_scatter", {mpi_reduce_scatter, mpi_ireduce_scatter, our_reduce_scatter}},
    {"scan", {mpi_scan, mpi_iscan, our_scan}},
    {"gather", {mpi_gather, mpi_igather, our_gather}},
    {"scatter", {mpi_scatter, mpi_iscatter, our_scatter}}};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

/* ---- Measuring ---------------------------------------------------------------------------- */

static int repeats(int bytes) {
  return bytes <= 8 << 10 ? 50 : bytes <= 64 << 10 ? 10 : 2;
}

/* Microseconds a call. */
static double once(call function, float *x, float *y, int bytes) {
  int times = repeats(bytes);
  MPI_Barrier(MPI_COMM_WORLD);
  double begun = now();
  for (int i = 0; i < times; i++) function(x, y, bytes / (int)sizeof(float));
  return 1e6 * (now() - begun) / times;
}

static void measure(const char *name, const call *ways, float *x, float *y, int bytes) {
  static double times[WAYS][ROUNDS];
  for (int way = 0; way < WAYS; way++) once(ways[way], x, y, bytes);
  for (int round = 0; round < ROUNDS; round++)
    for (int way = 0; way < WAYS; way++)
      times[(way + round) % WAYS][round] = once(ways[(way + round) % WAYS], x, y, bytes);
  double fast[WAYS];
  for (int way = 0; way < WAYS; way++) {
    median(times[way], ROUNDS); /* sorts */
    fast[way] = times[way][ROUNDS / 4];
  }
  if (rank == 0)
    printf("%-14s %8d B  MPI %9.2f us, nonblocking %9.2f us, sparkring %9.2f us: %.2f, %.2f\n",
           name, bytes, fast[0], fast[1], fast[2], fast[2] / fast[0], fast[2] / fast[1]);
  fflush(stdout);
}

int main(int argc, char **argv) {
  int provided;
  ring_error error;
  ring_options options = RING_OPTIONS_INIT;
  options.backend = "mpi";
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  if (ring_comm_open(&options, &comm, &error) != RING_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  rank = ring_comm_rank(comm);
  size = ring_comm_size(comm);
  float *x = calloc(1, BYTES_MOST), *y = calloc(1, BYTES_MOST);
  if (x == NULL || y == NULL) return 1;
  memset(x, 1,
         BYTES_MOST); /* pages that nothing has written are one page, which stays in the cache */
  memset(y, 1, BYTES_MOST);
  for (int i = 0; i < COLLECTIVES; i++) {
    if (argc > 1 && strcmp(argv[1], collectives[i].name) != 0) continue;
    for (int bytes = BYTES_LEAST < 4 * size ? 4 * size : BYTES_LEAST; bytes <= BYTES_MOST;
         bytes *= bytes < 1024 ? 128 : 8)
      measure(collectives[i].name, collectives[i].ways, x, y, bytes);
  }
  free(x);
  free(y);
  check(ring_comm_close(comm));
  ring_comm_free(comm);
  MPI_Finalize();
  return 0;
}
