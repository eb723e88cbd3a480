/* SPDX-License-Identifier: Apache-2.0
 *
 * Forks: in a child of a process with a communicator every call returns a clear error, and free gives
 * back what the child has; the parent's links stay whole. Also while a request is outstanding, and
 * when the child exits without freeing. And exits of a rank without a close, with live objects.
 */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "openings.h"
#include "ranks.h"

enum { SIZE = 3, COUNT = 30000 };
static float x[SIZE * COUNT], y[SIZE * COUNT];
static const size_t counts[SIZE] = {1, 2, 3};

#define REFUSED(call)                                                                              \
  do {                                                                                             \
    CHECK_INT(call, RING_INVALID);                                                                 \
    CHECK_CONTAINS(ring_comm_error(comm)->message, "belongs to the process that forked this one"); \
  } while (0)

static void be_refused_collectives(ring_comm *comm) {
  ring_buffer buffer = {x, y, 10};
  REFUSED(ring_allreduce(comm, x, y, 10, RING_FLOAT32, RING_SUM));
  REFUSED(ring_allreduce_group(comm, &buffer, 1, RING_FLOAT32, RING_SUM));
  REFUSED(ring_reduce(comm, x, y, 10, RING_FLOAT32, RING_SUM, 0));
  REFUSED(ring_reduce_scatter(comm, x, y, 10, RING_FLOAT32, RING_SUM));
  REFUSED(ring_broadcast(comm, x, y, 10, RING_FLOAT32, 0));
  REFUSED(ring_allgather(comm, x, y, 10, RING_FLOAT32));
  REFUSED(ring_allgatherv(comm, x, y, counts, RING_FLOAT32));
  REFUSED(ring_gather(comm, x, y, 10, RING_FLOAT32, 0));
  REFUSED(ring_gatherv(comm, x, y, counts, RING_FLOAT32, 0));
  REFUSED(ring_scatter(comm, x, y, 10, RING_FLOAT32, 0));
  REFUSED(ring_scatterv(comm, x, y, counts, RING_FLOAT32, 0));
  REFUSED(ring_alltoall(comm, x, y, 10, RING_FLOAT32));
  REFUSED(ring_alltoallv(comm, x, counts, y, counts, RING_FLOAT32));
  REFUSED(ring_barrier(comm));
  REFUSED(ring_send(comm, x, 10, RING_FLOAT32, 1));
  REFUSED(ring_recv(comm, y, 10, RING_FLOAT32, 1));
}

static void be_refused_starts(ring_comm *comm) {
  ring_request *r = (ring_request *)x;
  ring_buffer buffer = {x, y, 10};
  REFUSED(ring_allreduce_start(comm, x, y, 10, RING_FLOAT32, RING_SUM, &r));
  CHECK(r == NULL);
  REFUSED(ring_allreduce_group_start(comm, &buffer, 1, RING_FLOAT32, RING_SUM, &r));
  REFUSED(ring_reduce_start(comm, x, y, 10, RING_FLOAT32, RING_SUM, 0, &r));
  REFUSED(ring_reduce_scatter_start(comm, x, y, 10, RING_FLOAT32, RING_SUM, &r));
  REFUSED(ring_broadcast_start(comm, x, y, 10, RING_FLOAT32, 0, &r));
  REFUSED(ring_allgather_start(comm, x, y, 10, RING_FLOAT32, &r));
  REFUSED(ring_allgatherv_start(comm, x, y, counts, RING_FLOAT32, &r));
  REFUSED(ring_gather_start(comm, x, y, 10, RING_FLOAT32, 0, &r));
  REFUSED(ring_gatherv_start(comm, x, y, counts, RING_FLOAT32, 0, &r));
  REFUSED(ring_scatter_start(comm, x, y, 10, RING_FLOAT32, 0, &r));
  REFUSED(ring_scatterv_start(comm, x, y, counts, RING_FLOAT32, 0, &r));
  REFUSED(ring_alltoall_start(comm, x, y, 10, RING_FLOAT32, &r));
  REFUSED(ring_alltoallv_start(comm, x, counts, y, counts, RING_FLOAT32, &r));
  REFUSED(ring_barrier_start(comm, &r));
}

static void be_refused(ring_comm *comm) {
  ring_comm *child = comm;
  ring_explanation explanation;
  be_refused_collectives(comm);
  be_refused_starts(comm);
  REFUSED(ring_comm_split(comm, 0, 0, &child));
  CHECK(child == NULL);
  REFUSED(ring_comm_explain(comm, "allreduce", 10, RING_FLOAT32, 0, &explanation));
  REFUSED(ring_comm_close(comm));
  ring_comm_abort(comm, "it is not mine");
  CHECK_INT(ring_comm_usable(comm), 0);
  CHECK_INT(ring_comm_size(comm), SIZE);
}

/* Runs `function` in a child, which ends in the way of `exits`, and checks that it was well. */
static void in_a_child(void (*function)(ring_comm *, ring_request *), ring_comm *comm,
                       ring_request *request) {
  int status;
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    alarm(30);
    function(comm, request);
    _exit(0);
  }
  CHECK_INT(waitpid(child, &status, 0), child);
  CHECK_INT(status, 0);
}

static void child_is_refused(ring_comm *comm, ring_request *request) {
  (void)request;
  void *memory;
  be_refused(comm);
  CHECK_INT(ring_alloc(comm, 1000, &memory), RING_OK); /* memory of its own */
  memset(memory, 1, 1000);
  ring_free(memory);
  ring_comm_free(comm);
}

static void child_has_a_request(ring_comm *comm, ring_request *request) {
  int done = 1;
  be_refused(comm);
  ring_status status = ring_request_test(request, &done);
  CHECK(done == 1 ? status == RING_OK : status == RING_INVALID);
  CHECK(ring_request_wait(request) == status);
  ring_comm_free(comm);
  ring_request_free(request);
}

static void child_frees_the_request_first(ring_comm *comm, ring_request *request) {
  ring_request_free(request);
  ring_comm_free(comm);
}

static void child_only_exits(ring_comm *comm, ring_request *request) {
  (void)comm, (void)request;
}

static void fork_without_requests(ring_comm *comm, void *shared) {
  (void)shared;
  for (int i = 0; i < 5; i++) {
    in_a_child(i % 2 == 0 ? child_is_refused : child_only_exits, comm, NULL);
    check_ring(comm);
  }
}

static void fork_beside_a_request(ring_comm *comm, void *shared) {
  static void (*const children[])(ring_comm *, ring_request *) = {
      child_has_a_request, child_frees_the_request_first, child_only_exits};
  (void)shared;
  for (size_t i = 0; i < 15; i++) {
    ring_request *request;
    for (size_t j = 0; j < COUNT; j++) x[j] = 1;
    CHECK_INT(ring_allreduce_start(comm, x, y, COUNT, RING_FLOAT32, RING_SUM, &request), RING_OK);
    in_a_child(children[i % 3], comm, request);
    CHECK_INT(ring_request_wait(request), RING_OK);
    for (size_t j = 0; j < COUNT; j++) CHECK(y[j] == SIZE);
    ring_request_free(request);
  }
}

static void test_a_child_may_only_free(void) {
  run_comms(SIZE, fork_without_requests, NULL);
}

static void test_a_child_of_a_rank_with_a_request(void) {
  run_comms(SIZE, fork_beside_a_request, NULL);
}

/* ---- Threads ------------------------------------------------------------------------------ */

enum { CALLS = SPARKRING_SANITIZED ? 500 : 2000 };

/* Calls what it likes while another thread does so too: one of the two is turned away. */
static void *call_and_call(void *arg) {
  ring_comm *comm = arg;
  float one = 1, sum;
  for (int i = 0; i < CALLS;) {
    ring_status status = ring_allreduce(comm, &one, &sum, 1, RING_FLOAT32, RING_SUM);
    if (status == RING_BUSY) continue;
    CHECK_INT(status, RING_OK);
    CHECK(sum == SIZE);
    i++;
  }
  return NULL;
}

static void call_from_two_threads(ring_comm *comm, void *shared) {
  (void)shared;
  pthread_t thread;
  CHECK_INT(pthread_create(&thread, NULL, call_and_call, comm), 0);
  call_and_call(comm);
  CHECK_INT(pthread_join(thread, NULL), 0);
  CHECK_INT(ring_comm_usable(comm), 1);
}

static void test_two_threads_on_one_communicator(void) {
  run_comms(SIZE, call_from_two_threads, NULL);
}

static void call_two_communicators(ring_comm *comm, void *shared) {
  (void)shared;
  ring_comm *other;
  pthread_t thread;
  CHECK_INT(ring_comm_split(comm, 0, 0, &other), RING_OK);
  CHECK_INT(pthread_create(&thread, NULL, call_and_call, other), 0);
  call_and_call(comm);
  CHECK_INT(pthread_join(thread, NULL), 0);
  close_rank(other);
}

static void test_two_communicators_in_two_threads(void) {
  run_comms(SIZE, call_two_communicators, NULL);
}

int main(void) {
  RUN(test_a_child_may_only_free);
  RUN(test_a_child_of_a_rank_with_a_request);
  RUN(test_two_threads_on_one_communicator);
  RUN(test_two_communicators_in_two_threads);
  return 0;
}
