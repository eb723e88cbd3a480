/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenes in which MPI carries the calls out, or messages of MPI do.
 */
#include <math.h>
#include <unistd.h>

#include "check.h"
#include "mpi_compare.h"
#include "mpi_scenes.h"
#include "ranks.h"
#include "values.h"

/* One whose calls MPI's own collectives carry out. */
static ring_comm *open_own(void) {
  CHECK_INT(setenv("SPARKRING_MPI_MESSAGES", "0", 1), 0);
  ring_comm *comm = open_backend("mpi", 60);
  CHECK_INT(unsetenv("SPARKRING_MPI_MESSAGES"), 0);
  return comm;
}

static void expect_backend(ring_comm *comm, const char *collective, const char *backend) {
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, collective, 4096, RING_FLOAT32, 0, &explanation), RING_OK);
  CHECK_CONTAINS(explanation.backend, backend);
  CHECK_CONTAINS(explanation.text, backend);
}

static void expect_way(ring_comm *comm, const char *collective, const char *way) {
  ring_explanation explanation;
  CHECK_INT(ring_comm_explain(comm, collective, 4096, RING_FLOAT32, 0, &explanation), RING_OK);
  CHECK_CONTAINS(explanation.text, way);
}

/* NaN where any rank has it, and -0 for less than +0. */
static void check_extremes(ring_comm *comm) {
  int rank = ring_comm_rank(comm), last = ring_comm_size(comm) - 1;
  float x[3] = {rank == last ? NAN : 1, rank == 0 ? NAN : 2, rank == last ? -0.0F : 0.0F}, y[3];
  double big[3] = {x[0], x[1], x[2]}, least[3];
  for (int i = 0; i < 2; i++) {
    ring_op op = i == 0 ? RING_MIN : RING_MAX;
    CHECK_INT(ring_allreduce(comm, x, y, 3, RING_FLOAT32, op), RING_OK);
    CHECK_INT(ring_allreduce(comm, big, least, 3, RING_FLOAT64, op), RING_OK);
    CHECK(isnan(y[0]) && isnan(y[1]) && isnan(least[0]) && isnan(least[1]));
    CHECK_INT(signbit(y[2]) != 0, op == RING_MIN);
    CHECK_INT(signbit(least[2]) != 0, op == RING_MIN);
  }
}

/* Sums in any order, within what float32 rounds; and one that bfloat16 would lose if each step were rounded. */
static void check_rounding(ring_comm *comm) {
  enum { COUNT = 1000 };
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  static float x[COUNT], y[COUNT];
  uint16_t half = rank == 0 ? 0x4380 : 0x3f80, sum; /* 256, and 1 */
  for (size_t i = 0; i < COUNT; i++) x[i] = (float)rough(rank, i);
  CHECK_INT(ring_allreduce(comm, x, y, COUNT, RING_FLOAT32, RING_SUM), RING_OK);
  for (size_t i = 0; i < COUNT; i++) {
    double expected = 0, magnitude = 0;
    for (int r = 0; r < size; r++) {
      expected += (float)rough(r, i);
      magnitude += fabs(rough(r, i));
    }
    CHECK(fabs(y[i] - expected) <= 1e-6 * magnitude);
  }
  CHECK_INT(ring_allreduce(comm, &half, &sum, 1, RING_BFLOAT16, RING_SUM), RING_OK);
  if (size == 3) CHECK_INT(sum, 0x4381); /* 258 */
}

static void check_requests(ring_comm *comm) {
  enum { REQUESTS = 5, COUNT = 40000 };
  int size = ring_comm_size(comm);
  int32_t *buffers[REQUESTS];
  ring_request *requests[REQUESTS];
  for (int i = 0; i < REQUESTS; i++) {
    buffers[i] = malloc(COUNT * sizeof(int32_t));
    for (int j = 0; j < COUNT; j++) buffers[i][j] = i + j;
    CHECK_INT(ring_allreduce_start(comm, buffers[i], buffers[i], COUNT, RING_INT32, RING_SUM,
                                   &requests[i]),
              RING_OK);
  }
  CHECK_INT(ring_barrier(comm), RING_OK);
  for (int i = 0; i < REQUESTS; i++) {
    CHECK_INT(ring_request_wait(requests[i]), RING_OK);
    ring_request_free(requests[i]);
    for (int j = 0; j < COUNT; j++) CHECK_INT(buffers[i][j], size * (i + j));
    free(buffers[i]);
  }
}

static void check_group(ring_comm *comm) {
  float short_buffer[3] = {1, 2, 3}, *long_buffer = calloc(100000, sizeof(float)), mean = 3;
  ring_buffer buffers[2] = {{short_buffer, short_buffer, 3}, {long_buffer, long_buffer, 100000}};
  float size = (float)ring_comm_size(comm);
  long_buffer[99999] = 5;
  CHECK_INT(ring_allreduce_group(comm, buffers, 2, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(short_buffer[2] == 3 * size && long_buffer[99999] == 5 * size);
  ring_comm_scale(comm, 2, 0.5);
  CHECK_INT(ring_allreduce(comm, &mean, &mean, 1, RING_FLOAT32, RING_AVG), RING_OK);
  CHECK(mean == 3);
  free(long_buffer);
}

/* What MPI does not carry goes over the links. */
static void check_messages(ring_comm *comm) {
  int value = 17, rank = ring_comm_rank(comm);
  if (rank == 0) CHECK_INT(ring_send(comm, &value, 1, RING_INT32, 1), RING_OK);
  if (rank == 1) {
    value = 0;
    CHECK_INT(ring_recv(comm, &value, 1, RING_INT32, 0), RING_OK);
  }
  CHECK_INT(value, 17);
}

/* Children have MPI, too, where they have several ranks. */
static void check_children(ring_comm *comm) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int round = 0; round < 3; round++) {
    ring_comm *child;
    int32_t sum = rank, key = round == 1 ? -rank : rank;
    CHECK_INT(ring_comm_split(comm, rank % 2, key, &child), RING_OK);
    expect_backend(child, "allreduce", ring_comm_size(child) > 1 ? "mpi" : "native");
    CHECK_INT(ring_allreduce(child, &sum, &sum, 1, RING_INT32, RING_SUM), RING_OK);
    int expected = 0;
    for (int i = rank % 2; i < size; i += 2) expected += i;
    CHECK_INT(sum, expected);
    close_rank(child);
  }
}

void check_turns(ring_comm *comm) {
  enum { COUNT = 100000 };
  ring_comm *comms[2] = {comm, NULL};
  ring_request *requests[2];
  static int32_t buffers[2][COUNT];
  CHECK_INT(ring_comm_split(comm, 0, ring_comm_rank(comm), &comms[1]), RING_OK);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 2; i++) {
      buffers[i][COUNT - 1] = round + i;
      CHECK_INT(ring_allreduce_start(comms[i], buffers[i], buffers[i], COUNT, RING_INT32, RING_SUM,
                                     &requests[i]),
                RING_OK);
    }
    for (int i = 0; i < 2; i++) {
      CHECK_INT(ring_request_wait(requests[i]), RING_OK);
      ring_request_free(requests[i]);
      CHECK_INT(buffers[i][COUNT - 1], ring_comm_size(comm) * (round + i));
    }
  }
  close_rank(comms[1]);
}

void scene_compare(bool all) {
  ring_comm *comms[2] = {open_backend("native", 60), open_backend("mpi", 60)};
  expect_backend(comms[0], "allreduce", "native");
  expect_backend(comms[1], "allreduce", "mpi");
  expect_backend(comms[1], "barrier", "mpi");
  expect_way(comms[1], "allreduce", "doubling (messages of MPI)");
  compare_all(comms, all);
  check_turns(comms[1]);
  compare_places(comms);
  ring_comm *own[2] = {comms[0], open_own()};
  expect_way(own[1], "allreduce", "mpi (backend)");
  compare_all(own, all);
  compare_places(own);
  check_extremes(own[1]);
  check_rounding(own[1]);
  close_rank(own[1]);
  check_requests(comms[1]);
  check_group(comms[1]);
  check_messages(comms[1]);
  check_children(comms[1]);
  close_rank(comms[1]);
  close_rank(comms[0]);
}

void scene_ahead(void) {
  static int32_t x[1000];
  ring_comm *comm = open_backend("mpi", 60);
  if (ring_comm_rank(comm) != 0) usleep(500000);
  for (int32_t i = 0; i < 2000; i++) {
    x[999] = ring_comm_rank(comm) == 0 ? i : -1;
    CHECK_INT(ring_broadcast(comm, x, x, 1000, RING_INT32, 0), RING_OK);
    CHECK_INT(x[999], i);
  }
  if (ring_comm_rank(comm) == 0) CHECK_INT(ring_recv(comm, x, 1000, RING_INT32, 1), RING_OK);
  if (ring_comm_rank(comm) == 1) CHECK_INT(ring_send(comm, x, 1000, RING_INT32, 0), RING_OK);
  close_rank(comm);
}
