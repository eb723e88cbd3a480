/* SPDX-License-Identifier: Apache-2.0
 *
 * All collectives over several hosts (places.h), also of children, which know their own hosts.
 */
#include "check.h"
#include "places.h"

static const char *const placements[] = {"001", "0101", "00112", "001122", "0000111", "012012012"};
enum { PLACEMENTS = sizeof placements / sizeof placements[0] };

enum { PART = 5000 };

static int32_t sent(int from, int to, size_t i) {
  return (int32_t)((size_t)from * 1000000u + (size_t)to * 100000u + i);
}

static void check_part(const int32_t *part, int from, int to) {
  for (size_t i = 0; i < PART; i++) CHECK_INT(part[i], sent(from, to, i));
}

static void check_parts(const int32_t *parts, int size, int to, bool each) {
  for (int from = 0; from < size; from++)
    check_part(parts + (size_t)from * PART, from, each ? to : 0);
}

/* x holds a part for each rank. */
static void move_everything(ring_comm *comm, const int32_t *x, int32_t *y, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t counts[SIZE_MOST];
  for (int i = 0; i < size; i++) counts[i] = PART;
  CHECK_INT(ring_broadcast(comm, x, y, PART, RING_INT32, root), RING_OK);
  check_part(y, root, 0);
  CHECK_INT(ring_allgather(comm, x, y, PART, RING_INT32), RING_OK);
  check_parts(y, size, 0, false);
  CHECK_INT(ring_allgatherv(comm, x, y, counts, RING_INT32), RING_OK);
  check_parts(y, size, 0, false);
  CHECK_INT(ring_gather(comm, x, y, PART, RING_INT32, root), RING_OK);
  if (rank == root) check_parts(y, size, 0, false);
  CHECK_INT(ring_scatter(comm, x, y, PART, RING_INT32, root), RING_OK);
  check_part(y, root, rank);
  CHECK_INT(ring_scatterv(comm, x, y, counts, RING_INT32, root), RING_OK);
  check_part(y, root, rank);
  CHECK_INT(ring_alltoall(comm, x, y, PART, RING_INT32), RING_OK);
  check_parts(y, size, rank, true);
  CHECK_INT(ring_alltoallv(comm, x, counts, y, counts, RING_INT32), RING_OK);
  check_parts(y, size, rank, true);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

static void reduce_everything(ring_comm *comm, const int32_t *x, int32_t *y, int root) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), from = size * (size - 1) / 2;
  size_t most = (size_t)size * PART;
  ring_request *request;
  CHECK_INT(ring_reduce(comm, x, y, PART, RING_INT32, RING_SUM, root), RING_OK);
  for (size_t i = 0; rank == root && i < PART; i++)
    CHECK_INT(y[i], sent(from, 0, 0) + size * (int32_t)i);
  CHECK_INT(ring_reduce_scatter(comm, x, y, PART, RING_INT32, RING_SUM), RING_OK);
  for (size_t i = 0; i < PART; i++) CHECK_INT(y[i], sent(from, size * rank, 0) + size * (int32_t)i);
  CHECK_INT(ring_allreduce_start(comm, x, y, most, RING_INT32, RING_MAX, &request), RING_OK);
  CHECK_INT(ring_request_wait(request), RING_OK);
  ring_request_free(request);
  for (int to = 0; to < size; to++) check_part(y + (size_t)to * PART, size - 1, to);
  ring_buffer buffers[] = {{x, y, 3}, {x + 3, y + 3, PART - 3}};
  CHECK_INT(ring_allreduce_group(comm, buffers, 2, RING_INT32, RING_MIN), RING_OK);
  check_part(y, 0, 0);
}

static void send_around(ring_comm *comm, const int32_t *x, int32_t *y) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  if (rank == 0) CHECK_INT(ring_send(comm, x, PART, RING_INT32, next), RING_OK);
  CHECK_INT(ring_recv(comm, y, PART, RING_INT32, previous), RING_OK);
  check_part(y, previous, 0);
  if (rank != 0) CHECK_INT(ring_send(comm, x, PART, RING_INT32, next), RING_OK);
}

static void call_everything(ring_comm *comm) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int32_t *x = calloc((size_t)size * PART, sizeof *x), *y = calloc((size_t)size * PART, sizeof *y);
  for (int to = 0; to < size; to++)
    for (size_t i = 0; i < PART; i++) x[(size_t)to * PART + i] = sent(rank, to, i);
  for (int root = 0; root < size; root += 2) {
    move_everything(comm, x, y, root);
    reduce_everything(comm, x, y, root);
  }
  if (size > 1) send_around(comm, x, y);
  free(x);
  free(y);
}

/* Also in children: of two hosts' ranks in turn, and of one host's. */
static void call_and_split(int rank, int size, void *shared) {
  place *place = shared;
  ring_comm *comm = open_at(rank, size, place), *child;
  call_everything(comm);
  const int colors[] = {rank % 3 == 0, place->nodes[rank]};
  for (int i = 0; i < 2; i++) {
    CHECK_INT(ring_comm_split(comm, colors[i], -rank, &child), RING_OK);
    call_everything(child);
    close_rank(child);
  }
  close_rank(comm);
}

static void test_everything_over_hosts(void) {
  for (int i = 0; i < PLACEMENTS; i++) run_place(call_and_split, (place){.nodes = placements[i]});
}

/* A child knows its own hosts. */
static void split_hosts(int rank, int size, void *shared) {
  ring_comm *comm = open_at(rank, size, shared), *child;
  CHECK_INT(ring_comm_split(comm, rank % 2, 0, &child), RING_OK);
  bool nested = rank % 2 == 0; /* 0, 0 and 1; but 0, 1 and 2 */
  ring_explanation plan = explained(child, "allreduce", 1 << 20, RING_FLOAT32);
  CHECK((strcmp(plan.algorithm, "hierarchical") == 0) == nested);
  float x[1000] = {0};
  x[999] = 1;
  CHECK_INT(ring_allreduce(child, x, x, 1000, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(x[999] == 3 && x[0] == 0);
  close_rank(child);
  close_rank(comm);
}

static void test_children(void) {
  run_place(split_hosts, (place){.nodes = "000112"});
}

int main(void) {
  RUN(test_everything_over_hosts);
  RUN(test_children);
  return 0;
}
