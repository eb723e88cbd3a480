/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests on a host without processors for helpers: a start runs the call when all ranks start it
 * together, and returns when they do not.
 */
#include <sched.h>

#include "check.h"
#include "ranks.h"
#include "requests.h"

enum { START_COUNT = 1 << 18, START_SHORT = 16, START_ROUNDS = 100 };

static float start_x[START_COUNT], start_y[START_COUNT], start_z[START_SHORT];

/* Opens with one processor, on which two ranks have no room for helpers. */
static ring_comm *open_on_one_processor(int rank, int size) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  CHECK_INT(sched_setaffinity(0, sizeof one, &one), 0);
  for (int i = 0; i < START_COUNT; i++) start_x[i] = (float)(rank + i % 7);
  return open_rank(rank, size);
}

/* Starts an allreduce; returns whether it was done when the start returned. */
static int start(ring_comm *comm, float *output, size_t count, ring_request **request) {
  int done;
  CHECK_INT(ring_allreduce_start(comm, start_x, output, count, RING_FLOAT32, RING_SUM, request),
            RING_OK);
  CHECK_INT(ring_request_test(*request, &done), RING_OK);
  return done;
}

static void check_sum(size_t count, int size) {
  for (size_t i = 0; i < count; i++)
    CHECK(start_y[i] == (float)(size * (size - 1) / 2 + size * (int)(i % 7)));
}

/* Counts the large calls that were done at their start, and the short ones. */
static void start_together(int rank, int size, void *shared) {
  int *done = shared;
  ring_comm *comm = open_on_one_processor(rank, size);
  ring_request *large, *small;
  for (int i = 0; i < START_ROUNDS; i++) {
    CHECK_INT(ring_barrier(comm), RING_OK);
    done[0] += start(comm, start_y, START_COUNT, &large);
    done[1] += start(comm, start_z, START_SHORT, &small);
    finish(large);
    check_sum(START_COUNT, size);
    finish(small);
  }
  close_rank(comm);
  if (rank != 0) return;
  CHECK(ranks_share ? done[0] >= START_ROUNDS / 2 : done[0] < START_ROUNDS / 10);
  CHECK(done[1] < START_ROUNDS / 10);
}

static void test_ranks_that_start_together(void) {
  RUN_RANKS(2, start_together, (int[2]){0});
  RUN_RANKS(3, start_together, (int[2]){0});
}

/* Each rank starts in turn after the rank before it has returned from its start. */
static void start_in_turn(int rank, int size, void *shared) {
  volatile int *turn = shared;
  ring_comm *comm = open_on_one_processor(rank, size);
  for (int i = 0; i < 10; i++) {
    ring_request *request;
    await_count((const int *)turn, i * size + rank);
    int done = start(comm, start_y, START_COUNT, &request);
    CHECK(rank == size - 1 || !done);
    (*turn)++;
    finish(request);
    check_sum(START_COUNT, size);
  }
  close_rank(comm);
}

static void test_ranks_that_wait_for_each_other(void) {
  RUN_RANKS(3, start_in_turn, (int){0});
}

int main(void) {
  RUN(test_ranks_that_start_together);
  RUN(test_ranks_that_wait_for_each_other);
  return 0;
}
