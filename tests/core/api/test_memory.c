/* SPDX-License-Identifier: Apache-2.0
 *
 * A training loop must not allocate: the linker sends the core's allocations through counters here
 * (--wrap), and after the first rounds of calls a hundred more may not ask for anything. The stack of
 * the helper thread is the system's.
 */
#include "check.h"
#include "ranks.h"

static size_t allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size) {
  __sync_fetch_and_add(&allocations, 1); /* requests have a thread of their own */
  return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size) {
  __sync_fetch_and_add(&allocations, 1); /* requests have a thread of their own */
  return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size) {
  __sync_fetch_and_add(&allocations, 1); /* requests have a thread of their own */
  return __real_realloc(memory, size);
}

void *__real_aligned_alloc(size_t alignment, size_t size);

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
  __sync_fetch_and_add(&allocations, 1);
  return __real_aligned_alloc(alignment, size);
}

enum { SIZE = 3, LONG = 100000 };

/* One step of a loop: short and long calls, with counts and without, and a message around. */
static void one_step(ring_comm *comm, float *x, float *y) {
  static const size_t counts[SIZE] = {3, 0, 70};
  int rank = ring_comm_rank(comm);
  CHECK_INT(ring_allreduce(comm, x, x, 10, RING_FLOAT32, RING_MAX), RING_OK);
  CHECK_INT(ring_allreduce(comm, x, x, LONG, RING_FLOAT32, RING_MAX), RING_OK);
  CHECK_INT(ring_reduce(comm, x, y, 100, RING_FLOAT32, RING_MAX, 1), RING_OK);
  CHECK_INT(ring_reduce_scatter(comm, x, y, LONG / SIZE, RING_FLOAT32, RING_MAX), RING_OK);
  CHECK_INT(ring_broadcast(comm, x, x, LONG, RING_FLOAT32, 2), RING_OK);
  CHECK_INT(ring_allgather(comm, x, y, LONG / SIZE, RING_FLOAT32), RING_OK);
  CHECK_INT(ring_allgatherv(comm, x, y, counts, RING_FLOAT32), RING_OK);
  CHECK_INT(ring_gather(comm, x, y, 10, RING_FLOAT32, 0), RING_OK);
  CHECK_INT(ring_scatterv(comm, x, y, counts, RING_FLOAT32, 1), RING_OK);
  CHECK_INT(ring_alltoall(comm, x, y, 100, RING_FLOAT32), RING_OK);
  if (rank == 0) CHECK_INT(ring_send(comm, x, 10, RING_FLOAT32, 1), RING_OK);
  if (rank == 1) CHECK_INT(ring_recv(comm, y, 10, RING_FLOAT32, 0), RING_OK);
  CHECK_INT(ring_barrier(comm), RING_OK);
}

/* The same as requests: a few at a time, freed in another order than they were started in. */
static void start_step(ring_comm *comm, float *x, float *y) {
  static const size_t counts[SIZE] = {3, 0, 70};
  ring_request *r[6];
  ring_buffer buffers[3] = {{x, x, 10}, {x + 10, x + 10, LONG - 1000}, {x + LONG - 900, y, 900}};
  CHECK_INT(ring_allreduce_start(comm, x, x, 10, RING_FLOAT32, RING_MAX, &r[0]), RING_OK);
  CHECK_INT(ring_allgatherv_start(comm, x, y, counts, RING_FLOAT32, &r[1]), RING_OK);
  CHECK_INT(ring_barrier_start(comm, &r[2]), RING_OK);
  CHECK_INT(ring_allreduce_group_start(comm, buffers, 3, RING_FLOAT32, RING_MAX, &r[3]), RING_OK);
  CHECK_INT(ring_alltoall_start(comm, x, y, 100, RING_FLOAT32, &r[4]), RING_OK);
  CHECK_INT(ring_broadcast_start(comm, x, x, LONG, RING_FLOAT32, 2, &r[5]), RING_OK);
  CHECK_INT(ring_request_wait(r[3]), RING_OK);
  for (int i = 0; i < 6; i++) ring_request_free(r[(i + 2) % 6]);
  CHECK_INT(ring_allreduce_group(comm, buffers, 3, RING_FLOAT32, RING_MAX), RING_OK);
}

static void train(ring_comm *comm, void *shared) {
  (void)shared;
  float *x = calloc(LONG, sizeof *x), *y = calloc(LONG, sizeof *y);
  one_step(comm, x, y);
  size_t before = allocations;
  CHECK(before > 0);
  for (int i = 0; i < 100; i++) one_step(comm, x, y);
  CHECK_INT(allocations, before);
  /* Buffers that all ranks can reach come from what was freed before. */
  for (int i = 0; i < 100; i++) {
    float *z;
    CHECK_INT(ring_alloc(comm, LONG * sizeof *z, (void **)&z), RING_OK);
    memcpy(z, x, LONG * sizeof *z);
    one_step(comm, z, y);
    ring_free(z);
  }
  CHECK_INT(allocations, before + (ranks_share ? 0 : 100));
  /* A request keeps its copies of arguments when it is reused. It takes a few rounds until each
   * request has served each call. */
  for (int i = 0; i < 36; i++) start_step(comm, x, y);
  before = allocations;
  for (int i = 0; i < 100; i++) start_step(comm, x, y);
  CHECK_INT(allocations, before);
  free(x);
  free(y);
}

static void test_the_steady_state_allocates_nothing(void) {
  run_comms(SIZE, train, NULL);
}

int main(void) {
  RUN(test_the_steady_state_allocates_nothing);
  return 0;
}
