/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that differ, in shared memory: all ranks report the mismatch soon.
 */
#include "buffers.h"
#include "check.h"
#include "load.h"
#include "ranks.h"

enum { LONG = 1500000 };

static float mismatch_x[3 * LONG], mismatch_y[3 * LONG];

static ring_status make_call(ring_comm *comm, int which) {
  static const size_t counts[] = {1, 1, 1}, others[] = {2, 0, 1};
  float *x = mismatch_x, *y = mismatch_y;
  ring_comm *child;
  ring_status status;
  switch (which) {
  case 0:
    return ring_allreduce(comm, x, y, 3, RING_FLOAT32, RING_SUM);
  case 1:
    return ring_allreduce(comm, x, y, 4, RING_FLOAT32, RING_SUM);
  case 2:
    return ring_allreduce(comm, x, y, 3, RING_INT32, RING_SUM);
  case 3:
    return ring_allreduce(comm, x, y, 3, RING_FLOAT32, RING_MAX);
  case 4:
    return ring_allreduce(comm, x, y, 100000, RING_FLOAT32, RING_SUM);
  case 5:
    return ring_broadcast(comm, x, x, 3, RING_FLOAT32, 0);
  case 6:
    return ring_broadcast(comm, x, x, 3, RING_FLOAT32, 1);
  case 7:
    return ring_broadcast(comm, x, x, 100000, RING_FLOAT32, 0);
  case 8:
    return ring_broadcast(comm, x, x, 100000, RING_FLOAT32, 1);
  case 9:
    return ring_reduce(comm, x, y, 3, RING_FLOAT32, RING_SUM, 0);
  case 10:
    return ring_reduce(comm, x, y, 3, RING_FLOAT32, RING_SUM, 1);
  case 11:
    return ring_barrier(comm);
  case 12:
    return ring_alltoallv(comm, x, counts, y, counts, RING_FLOAT32);
  case 13:
    return ring_recv(comm, x, 3, RING_FLOAT32, (ring_comm_rank(comm) + 1) % 3);
  case 14:
    status = ring_comm_split(comm, 0, 0, &child);
    if (status == RING_OK) ring_comm_free(child);
    return status;
  case 15:
    return ring_comm_close(comm);
  case 16:
    return ring_allgatherv(comm, x, y, counts, RING_FLOAT32);
  case 17:
    return ring_allgatherv(comm, x, y, others, RING_FLOAT32);
  case 18:
    return ring_gather(comm, x, y, 100000, RING_FLOAT32, 1);
  default:
    return ring_gather(comm, x, y, 3, RING_FLOAT32, 0);
  }
}

static void differ(int rank, int size, void *shared) {
  const int *pair = shared;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 20;
  ring_comm *comm = open_with(&options);
  double begun = seconds();
  ring_status status = make_call(comm, pair[rank == pair[2]]);
  /* A rank that waits for no rank detects it in the next call. */
  for (int i = 0; i < 2 && status == RING_OK; i++) status = ring_barrier(comm);
  if (status != RING_MISMATCH || seconds() - begun > 3)
    fprintf(stderr, "rank %d: calls %d and, on rank %d, %d: %.1f s, %s: %s\n", rank, pair[0],
            pair[2], pair[1], seconds() - begun, ring_status_name(status),
            ring_comm_error(comm)->message);
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the ranks ");
  CHECK(seconds() - begun < UNLOADED(3));
  ring_comm_free(comm);
}

static void test_mismatches(void) {
  static const int pairs[][3] = {
      {0, 1, 1},  {0, 2, 2},  {0, 3, 0},   {0, 4, 1},  {4, 0, 2},   {0, 11, 0},  {5, 6, 1},
      {5, 6, 0},  {5, 7, 0},  {7, 5, 0},   {7, 8, 1},  {8, 6, 1},   {9, 10, 1},  {9, 10, 0},
      {9, 5, 0},  {5, 9, 0},  {0, 12, 1},  {12, 0, 1}, {5, 12, 1},  {5, 12, 0},  {12, 5, 0},
      {0, 13, 1}, {5, 13, 1}, {4, 13, 2},  {0, 14, 1}, {0, 15, 0},  {0, 15, 2},  {5, 15, 1},
      {9, 11, 0}, {11, 9, 2}, {16, 17, 1}, {18, 8, 0}, {18, 19, 1}, {19, 18, 1}, {19, 0, 0}};
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) RUN_RANKS(3, differ, pairs[i]);
}

/* Ranks 0 and 1 both act as the root of a gather and wait until the other ranks need nothing more
 * of the call. Both see that in the end, but their calls differ. */
static void gather_at_two_roots(ring_comm *comm, float *x, float *y) {
  int rank = ring_comm_rank(comm), root = rank == 1 ? 1 : 0;
  ring_status status = ring_gather(comm, x, y, LONG / 4, RING_FLOAT32, root);
  if (rank < 2 || status != RING_OK) CHECK_INT(status, RING_MISMATCH);
  CHECK_INT(ring_comm_close(comm), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "float32, root 0)");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "float32, root 1)");
}

typedef struct two_roots {
  int arrived;
  bool arena;
} two_roots;

static void have_two_roots(int rank, int size, void *shared) {
  two_roots *of = shared;
  ring_comm *comm = open_rank(rank, size);
  float *x = buffer_alloc(comm, of->arena, LONG * sizeof *x);
  float *y = buffer_alloc(comm, of->arena, LONG * sizeof *y);
  ranks_barrier(&of->arrived, size);
  gather_at_two_roots(comm, x, y);
  buffer_free(x, of->arena);
  buffer_free(y, of->arena);
  ring_comm_free(comm);
}

static void test_two_roots(void) {
  for (int arena = 0; arena < 2; arena++) RUN_RANKS(3, have_two_roots, (two_roots){.arena = arena});
}

int main(void) {
  RUN(test_mismatches);
  RUN(test_two_roots);
  return 0;
}
