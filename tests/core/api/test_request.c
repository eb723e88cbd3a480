/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: every started collective gives what its blocking twin gives; many of them, waited for in
 * any order, polled, from several threads, and beside other work.
 */
#include <pthread.h>
#include <stdbool.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "requests.h"

/* ---- Twins -------------------------------------------------------------------------------- */

enum { TWIN_MOST = 200000, TWIN_RANKS = 5 };

typedef struct twin {
  ring_comm *comm;
  int rank, size;
  double *x, *y, *z; /* input; what the blocking call gives, and what the request gives */
} twin;

static void twin_begin(twin *t) {
  for (int i = 0; i < TWIN_MOST; i++) {
    t->x[i] = 1.0 / (1 + i + t->rank);
    t->y[i] = t->z[i] = -1;
  }
}

static void twin_end(const twin *t, ring_request *request) {
  finish(request);
  CHECK(memcmp(t->y, t->z, TWIN_MOST * sizeof *t->y) == 0);
}

#define TWIN(name, before, into, after)                                                            \
  do {                                                                                             \
    ring_request *request;                                                                         \
    twin_begin(t);                                                                                 \
    double *into = t->y;                                                                           \
    CHECK_INT(ring_##name(t->comm, before, after), RING_OK);                                       \
    into = t->z;                                                                                   \
    CHECK_INT(ring_##name##_start(t->comm, before, after, &request), RING_OK);                     \
    twin_end(t, request);                                                                          \
  } while (0)

#define BOTH(a, b) a, b
#define THREE(a, b, c) a, b, c

static void twin_reductions(twin *t, size_t count, int root) {
  size_t all = count * (size_t)t->size;
  TWIN(allreduce, t->x, o, THREE(o, all, BOTH(RING_FLOAT64, RING_SUM)));
  TWIN(reduce, t->x, o, THREE(o, all, THREE(RING_FLOAT64, RING_AVG, root)));
  TWIN(reduce_scatter, t->x, o, THREE(o, count, BOTH(RING_FLOAT64, RING_SUM)));
  TWIN(broadcast, t->x, o, THREE(o, all, BOTH(RING_FLOAT64, root)));
}

static void twin_parts(twin *t, size_t count, int root) {
  size_t counts[TWIN_RANKS], sends[TWIN_RANKS], receives[TWIN_RANKS];
  for (int r = 0; r < t->size; r++) {
    counts[r] = count / (size_t)(r + 1);
    sends[r] = count / (size_t)(r + t->rank + 1);
    receives[r] = count / (size_t)(r + t->rank + 1);
  }
  TWIN(allgather, t->x, o, THREE(o, count, RING_FLOAT64));
  TWIN(allgatherv, t->x, o, THREE(o, counts, RING_FLOAT64));
  TWIN(gather, t->x, o, THREE(o, count, BOTH(RING_FLOAT64, root)));
  TWIN(gatherv, t->x, o, THREE(o, counts, BOTH(RING_FLOAT64, root)));
  TWIN(scatter, t->x, o, THREE(o, count, BOTH(RING_FLOAT64, root)));
  TWIN(scatterv, t->x, o, THREE(o, counts, BOTH(RING_FLOAT64, root)));
  TWIN(alltoall, t->x, o, THREE(o, count, RING_FLOAT64));
  TWIN(alltoallv, BOTH(t->x, sends), o, THREE(o, receives, RING_FLOAT64));
}

static void try_twins(ring_comm *comm, void *shared) {
  (void)shared;
  static const size_t counts[] = {0, 1, 37, 30000};
  twin t = {comm,
            ring_comm_rank(comm),
            ring_comm_size(comm),
            malloc(TWIN_MOST * sizeof(double)),
            malloc(TWIN_MOST * sizeof(double)),
            malloc(TWIN_MOST * sizeof(double))};
  for (int i = 0; i < 4; i++) {
    twin_reductions(&t, counts[i], i % t.size);
    twin_parts(&t, counts[i], i % t.size);
  }
  free(t.x);
  free(t.y);
  free(t.z);
}

static void test_every_start_against_its_twin(void) {
  for (int size = 1; size <= TWIN_RANKS; size += 2) run_comms(size, try_twins, NULL);
}

/* ---- Many --------------------------------------------------------------------------------- */

enum { MANY = 300 };

/* Requests of growing lengths, all at once; waited for from the last to the first on one rank, from
 * the first on another, polled on a third. */
static void start_many(ring_comm *comm, void *shared) {
  (void)shared;
  static int64_t x[MANY][600];
  ring_request *requests[MANY];
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int i = 0; i < MANY; i++) {
    for (int j = 0; j < 600; j++) x[i][j] = i + j + rank;
    CHECK_INT(
        ring_allreduce_start(comm, x[i], x[i], (size_t)(2 * i), RING_INT64, RING_SUM, &requests[i]),
        RING_OK);
  }
  for (int k = 0; k < MANY; k++) {
    int i = rank == 0 ? MANY - 1 - k : (k * 7) % MANY, done = 0;
    if (rank == 1)
      while (!done) CHECK_INT(ring_request_test(requests[i], &done), RING_OK);
    finish(requests[i]);
    for (int j = 0; j < 600; j++)
      CHECK_INT(x[i][j], j < 2 * i ? size * (i + j) + size * (size - 1) / 2 : i + j + rank);
  }
}

static void test_many_in_any_order(void) {
  for (int size = 1; size <= 3; size++) run_comms(size, start_many, NULL);
}

/* A call that waits runs behind the requests that were started before it, on every rank alike. */
static void mix(ring_comm *comm, void *shared) {
  (void)shared;
  enum { LONG = 400000 };
  static float x[LONG];
  int64_t y = 1, z = 1;
  ring_request *first, *second;
  int size = ring_comm_size(comm);
  ring_counters counters;
  for (int i = 0; i < LONG; i++) x[i] = 1;
  CHECK_INT(ring_allreduce_start(comm, x, x, LONG, RING_FLOAT32, RING_SUM, &first), RING_OK);
  CHECK_INT(ring_allreduce_start(comm, &y, &y, 1, RING_INT64, RING_SUM, &second), RING_OK);
  CHECK_INT(ring_comm_counters(comm, -1, &counters), RING_OK);
  CHECK_INT(counters.calls, 2);
  CHECK_INT(strcmp(ring_comm_link(comm, ring_comm_rank(comm)), "self"), 0);
  CHECK_INT(ring_comm_usable(comm), 1);
  CHECK_INT(ring_allreduce(comm, &z, &z, 1, RING_INT64, RING_SUM), RING_OK);
  int done = 0;
  CHECK_INT(ring_request_test(second, &done), RING_OK);
  CHECK_INT(done, 1);
  CHECK_INT(y, size);
  CHECK_INT(z, size);
  CHECK(x[LONG - 1] == (float)size);
  finish(second);
  finish(first);
  CHECK_INT(ring_barrier_start(comm, &first), RING_OK);
  CHECK_INT(ring_comm_close(comm), RING_OK); /* waits for it */
  CHECK_INT(ring_request_test(first, &done), RING_OK);
  CHECK_INT(done, 1);
  CHECK_INT(ring_barrier_start(comm, &second), RING_INVALID);
  CHECK(second == NULL);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the communicator is closed");
  ring_comm_free(comm);
  finish(first); /* outlives its communicator */
}

static void open_and_mix(int rank, int size, void *shared) {
  mix(open_rank(rank, size), shared);
}

static void test_calls_wait_for_requests(void) {
  for (int size = 1; size <= 3; size++) run_ranks(size, open_and_mix, NULL);
}

/* Rank 0 computes without ever looking at its request; the others get their results meanwhile. */
static void overlap(ring_comm *comm, void *shared) {
  volatile int *computed = shared;
  enum { LONG = 100000 };
  static double x[LONG];
  ring_request *request;
  CHECK_INT(ring_allreduce_start(comm, x, x, LONG, RING_FLOAT64, RING_SUM, &request), RING_OK);
  if (ring_comm_rank(comm) == 0)
    while (*computed < ring_comm_size(comm) - 1) usleep(100);
  else
    CHECK_INT(ring_request_wait(request), RING_OK);
  __sync_fetch_and_add((int *)shared, 1);
  finish(request);
}

static void test_progress_without_looking(void) {
  RUN_COMMS(3, overlap, (int[16]){0});
}

/* Invalid calls start nothing and do not put the ranks out of step. */
static void start_nonsense(ring_comm *comm, void *shared) {
  (void)shared;
  float x = 1;
  int done = 5;
  ring_request *request = (ring_request *)&x;
  CHECK_INT(ring_allreduce_start(comm, &x, NULL, 1, RING_FLOAT32, RING_SUM, &request),
            RING_INVALID);
  CHECK(request == NULL);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "allreduce: output is NULL");
  if (ring_comm_rank(comm) == 0) {
    CHECK_INT(ring_broadcast_start(comm, &x, &x, 1, RING_FLOAT32, 99, &request), RING_INVALID);
    CHECK_INT(ring_barrier_start(comm, NULL), RING_INVALID);
    CHECK_CONTAINS(ring_comm_error(comm)->message, "request is NULL");
  }
  CHECK_INT(ring_barrier_start(NULL, &request), RING_INVALID);
  CHECK_INT(ring_request_wait(NULL), RING_INVALID);
  CHECK_INT(ring_request_test(NULL, &done), RING_INVALID);
  CHECK_INT(done, 0);
  ring_request_free(NULL);
  CHECK_INT(ring_barrier(comm), RING_OK);
  CHECK_INT(ring_barrier_start(comm, &request), RING_OK);
  ring_request_free(request); /* waits */
}

static void test_nonsense(void) {
  run_comms(2, start_nonsense, NULL);
}

/* Counts are copied at the start. */
static void forget_counts(ring_comm *comm, void *shared) {
  (void)shared;
  size_t counts[3] = {1, 2, 3};
  int32_t x[3] = {7, 7, 7}, y[6] = {0}, blocker[1] = {0};
  ring_request *first, *second;
  CHECK_INT(ring_allreduce_start(comm, blocker, blocker, 1, RING_INT32, RING_SUM, &first), RING_OK);
  CHECK_INT(ring_allgatherv_start(comm, x, y, counts, RING_INT32, &second), RING_OK);
  memset(counts, 0xff, sizeof counts);
  finish(second);
  finish(first);
  for (int i = 0; i < 6; i++) CHECK_INT(y[i], 7);
}

static void test_counts_are_copied(void) {
  run_comms(3, forget_counts, NULL);
}

/* ---- Threads ------------------------------------------------------------------------------ */

typedef struct thread_work {
  ring_request **requests;
  int first;
} thread_work;

static void *wait_for_some(void *arg) {
  const thread_work *work = arg;
  for (int i = work->first; i < MANY; i += 4) finish(work->requests[i]);
  return NULL;
}

/* Four threads wait for the requests of a fifth, which goes on starting and calling. */
static void wait_in_threads(ring_comm *comm, void *shared) {
  (void)shared;
  static ring_request *requests[MANY];
  static int32_t x[MANY];
  pthread_t threads[4];
  thread_work work[4];
  for (int i = 0; i < MANY; i++) {
    x[i] = i;
    CHECK_INT(ring_allreduce_start(comm, &x[i], &x[i], 1, RING_INT32, RING_SUM, &requests[i]),
              RING_OK);
  }
  for (int i = 0; i < 4; i++) {
    work[i] = (thread_work){requests, i};
    CHECK_INT(pthread_create(&threads[i], NULL, wait_for_some, &work[i]), 0);
  }
  for (int i = 0; i < 20; i++) {
    ring_request *request;
    CHECK_INT(ring_barrier_start(comm, &request), RING_OK);
    if (i % 4 == 0) CHECK_INT(ring_barrier(comm), RING_OK);
    ring_request_free(request);
  }
  for (int i = 0; i < 4; i++) CHECK_INT(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < MANY; i++) CHECK_INT(x[i], i * ring_comm_size(comm));
}

static void test_threads_wait_for_the_requests_of_another(void) {
  for (int size = 1; size <= 3; size++) run_comms(size, wait_in_threads, NULL);
}

static int count_threads(void) {
  char line[256];
  int threads = -1;
  FILE *status = fopen("/proc/self/status", "r");
  if (status == NULL) return -1; /* no Linux: nothing to look at */
  while (fgets(line, sizeof line, status) != NULL) sscanf(line, "Threads: %d", &threads);
  fclose(status);
  return threads;
}

/* The helper thread lives while there is something to run, and receives no signals. */
static void look_for_the_helper(ring_comm *comm, void *shared) {
  volatile int *seen = shared;
  ring_request *request;
  CHECK_INT(ring_barrier_start(comm, &request), RING_OK); /* a sanitizer adds its thread now */
  finish(request);
  int before = count_threads(); /* and then without the helper */
  for (int i = 0; i < 1000; i++) {
    int threads = count_threads();
    if (threads < before) before = threads;
    usleep(1000);
  }
  if (ring_comm_rank(comm) == 0) {
    CHECK_INT(ring_barrier_start(comm, &request), RING_OK);
    CHECK_INT(count_threads(), before < 0 ? -1 : before + 1);
    *seen = 1;
    finish(request);
  } else {
    while (!*seen) usleep(1000);
    CHECK_INT(ring_barrier(comm), RING_OK);
  }
  for (int i = 0; i < 1000 && count_threads() > before; i++) usleep(1000);
  CHECK_INT(count_threads(), before);
}

static void test_the_helper_ends(void) {
  RUN_COMMS(2, look_for_the_helper, (int[16]){0});
}

int main(void) {
  RUN(test_every_start_against_its_twin);
  RUN(test_many_in_any_order);
  RUN(test_calls_wait_for_requests);
  RUN(test_progress_without_looking);
  RUN(test_nonsense);
  RUN(test_counts_are_copied);
  RUN(test_threads_wait_for_the_requests_of_another);
  RUN(test_the_helper_ends);
  return 0;
}
