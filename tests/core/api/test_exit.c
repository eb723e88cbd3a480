/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that end without closing, at any point: the end of the process is an ordinary one, and
 * the other rank gets a failure.
 */
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

enum { LONG = 1 << 20 };

typedef struct ending {
  const char *name;
  void (*end)(void); /* what rank 0 does in place of the call */
  ring_status other; /* the error of the other rank */
} ending;

static ring_comm *comm;
static ring_request *request;
static float x[LONG], y[LONG];

static void free_it(void) {
  ring_comm_free(comm);
}

static void use_it(void) {
  CHECK_INT(ring_allreduce(comm, x, y, 4, RING_FLOAT32, RING_SUM), RING_MISMATCH);
}

static void end_at_once(void) {
}

static void end_and_free(void) {
  CHECK_INT(atexit(free_it), 0);
}

static void end_and_use(void) {
  CHECK_INT(atexit(use_it), 0);
}

static void end_in_a_request(void) {
  CHECK_INT(ring_allreduce_start(comm, x, y, LONG, RING_FLOAT32, RING_SUM, &request), RING_OK);
}

static void end_in_a_request_and_free(void) {
  end_in_a_request();
  end_and_free();
}

static void run_rank(int rank, int size, void *arg) {
  const ending *e = arg;
  comm = open_rank(rank, size);
  int32_t other = (int32_t)getpid();
  CHECK_INT(ring_broadcast(comm, &other, &other, 1, RING_INT32, 0), RING_OK);
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (rank == 0) {
    e->end();
    exit(0);
  }
  usleep(50000);
  if (e->end == end_in_a_request) /* its thread sends on as long as there is one */
    while (kill(other, 0) == 0) usleep(1000);
  CHECK_INT(ring_allreduce(comm, x, y, LONG, RING_FLOAT32, RING_SUM), e->other);
  CHECK_INT(ring_comm_error(comm)->rank, 0);
  ring_comm_free(comm);
}

static void test_exits(void) {
  static ending endings[] = {
      {"at once", end_at_once, RING_PEER_LOST},
      {"a handler frees it", end_and_free, RING_ABORTED},
      {"a handler uses it", end_and_use, RING_MISMATCH},
      {"in a request", end_in_a_request, RING_PEER_LOST},
      {"in a request, a handler frees it", end_in_a_request_and_free, RING_ABORTED},
  };
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    printf("%s\n", endings[i].name);
    run_ranks(2, run_rank, &endings[i]);
  }
}

int main(void) {
  RUN(test_exits);
  return 0;
}
