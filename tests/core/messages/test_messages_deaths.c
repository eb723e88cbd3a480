/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks whose threads use messages, a reducer and started collectives at the same time, and that end in the middle:
 * by a kill, by aborts on one rank or both, or by any mixture of them. Every call returns. The sanitizers of addresses
 * and of threads run it, too: nothing that is half received, sent or reduced is used after its end. The argument is
 * the number of worlds of each kind, for a long run.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

enum { RANKS = 2, STARTED = 4, BATCH = 5, FLOATS = 15000, WORKERS = 6, ENDINGS = 4 };

typedef enum death { KILLED, ABORTED, ABORTED_TWICE, MIXED } death;

static unsigned worlds = 8;

typedef struct place {
  ring_comm *comm;
  ring_messages *messages;
  ring_reducer *reducer;
  unsigned seed; /* of this rank and world */
  atomic_bool over;
} place;

static unsigned below(unsigned *seed, unsigned most) {
  return (unsigned)rand_r(seed) % most;
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* Mostly short messages, some of which arrive in two pieces. */
static void *send_until_it_fails(void *arg) {
  const place *here = arg;
  float *numbers = calloc(2 * FLOATS, sizeof *numbers);
  unsigned seed = here->seed;
  ring_status status = RING_OK;
  while (status == RING_OK) {
    size_t count = below(&seed, below(&seed, 5) == 0 ? 2 * FLOATS : FLOATS);
    status = ring_messages_send(here->messages, numbers, count, RING_FLOAT32,
                                (int)below(&seed, RANKS), (int)below(&seed, 3));
  }
  free(numbers);
  return NULL;
}

static void *receive_until_it_fails(void *arg) {
  const place *here = arg;
  float *numbers = calloc(2 * FLOATS, sizeof *numbers);
  while (ring_messages_recv(here->messages, numbers, (size_t)2 * FLOATS, RING_FLOAT32,
                            RING_ANY_SOURCE, RING_ANY_TAG, NULL) == RING_OK)
    continue;
  free(numbers);
  return NULL;
}

/* Starts transfers, tests some and cancels some. */
static ring_status transfer_some(const place *here, float *numbers, unsigned *seed) {
  ring_transfer *transfers[STARTED];
  ring_status status = RING_OK;
  int started = 0, done;
  while (started < STARTED && status == RING_OK) {
    float *own = numbers + (ptrdiff_t)started * FLOATS;
    if (started % 2 == 0)
      status = ring_messages_send_start(here->messages, own, below(seed, FLOATS), RING_FLOAT32,
                                        (int)below(seed, RANKS), 1, &transfers[started]);
    else
      status = ring_messages_recv_start(here->messages, own, FLOATS, RING_FLOAT32, RING_ANY_SOURCE,
                                        1, &transfers[started]);
    if (status == RING_OK) started++;
  }
  for (int i = 0; i < started; i++) {
    if (below(seed, 3) == 0) ring_transfer_test(transfers[i], &done);
    if (below(seed, 9) == 0) ring_transfer_cancel(transfers[i]);
    ring_transfer_free(transfers[i]);
  }
  return status;
}

static void *transfer_until_it_fails(void *arg) {
  const place *here = arg;
  float *numbers = calloc((size_t)STARTED * FLOATS, sizeof *numbers);
  unsigned seed = here->seed + 1;
  while (transfer_some(here, numbers, &seed) == RING_OK) continue;
  free(numbers);
  return NULL;
}

/* ---- The reducer, and started collectives -------------------------------------------------- */

static ring_status reduce_some(const place *here, float *numbers) {
  static const char *const names[BATCH] = {"a", "b", "c", "d", "e"};
  static const int64_t shape[] = {500};
  ring_submission *submissions[BATCH];
  ring_status status = RING_OK;
  int submitted = 0;
  while (submitted < BATCH && status == RING_OK) {
    ring_operation operation = RING_OPERATION_INIT;
    operation.name = names[submitted];
    operation.kind = submitted == 3 ? RING_OPERATION_ALLGATHER : RING_OPERATION_ALLREDUCE;
    operation.input = operation.output = numbers + (ptrdiff_t)submitted * shape[0];
    operation.shape = shape;
    operation.dimensions = 1;
    status = ring_reducer_submit(here->reducer, &operation, &submissions[submitted]);
    if (status == RING_OK) submitted++;
  }
  for (int i = 0; i < submitted; i++) {
    ring_status waited = ring_submission_wait(submissions[i]);
    if (waited != RING_OK) status = waited;
    ring_submission_free(submissions[i]);
  }
  return status;
}

static void *reduce_until_it_fails(void *arg) {
  const place *here = arg;
  static float numbers[BATCH * 500];
  while (reduce_some(here, numbers) == RING_OK) continue;
  return NULL;
}

static void *request_until_it_fails(void *arg) {
  place *here = arg;
  static double numbers[STARTED][4000];
  ring_status status = RING_OK;
  while (status == RING_OK && !atomic_load(&here->over)) {
    ring_request *requests[STARTED];
    int started = 0;
    for (; started < STARTED && status == RING_OK; started += status == RING_OK)
      status = ring_allreduce_start(here->comm, numbers[started], numbers[started], 4000,
                                    RING_FLOAT64, RING_MAX, &requests[started]);
    for (int i = 0; i < started; i++) {
      ring_status waited = ring_request_wait(requests[i]);
      if (waited != RING_OK) status = waited;
      ring_request_free(requests[i]);
    }
  }
  return NULL;
}

/* ---- Worlds ------------------------------------------------------------------------------- */

/* Each ending once, in an order and at times that the seed chooses; a kill of some ranks between two. */
static void end_mixed(place *here, unsigned seed) {
  unsigned first = below(&seed, ENDINGS), step = below(&seed, 2) == 0 ? 1 : ENDINGS - 1;
  unsigned kill = below(&seed, 2 * ENDINGS);
  for (unsigned i = 0; i < ENDINGS; i++) {
    unsigned ending = (first + i * step) % ENDINGS;
    if (kill == i) raise(SIGKILL);
    if (ending == 0) ring_messages_abort(here->messages, "planned");
    if (ending == 1) ring_reducer_abort(here->reducer, "planned");
    if (ending == 2) ring_comm_abort(here->comm, "planned");
    if (ending == 3) atomic_store(&here->over, true);
    usleep(100 * below(&seed, 50));
  }
}

static void end(place *here, int rank, death how) {
  unsigned seed = here->seed;
  usleep(1000 * below(&seed, 40));
  if (how == MIXED) {
    end_mixed(here, seed);
    return;
  }
  if (rank == 0 && how == KILLED) raise(SIGKILL);
  if (rank == 1 && how != ABORTED_TWICE) return;
  ring_messages_abort(here->messages, "planned");
  ring_reducer_abort(here->reducer, "planned");
  atomic_store(&here->over, true); /* which ends the communicator of both ranks */
}

static void live(int rank, death how, unsigned seed) {
  static void *(*const work[WORKERS])(void *) = {send_until_it_fails,    receive_until_it_fails,
                                                 receive_until_it_fails, transfer_until_it_fails,
                                                 reduce_until_it_fails,  request_until_it_fails};
  place here = {.comm = open_rank(rank, RANKS), .seed = seed + (unsigned)rank};
  pthread_t threads[WORKERS];
  CHECK_INT(ring_messages_open(here.comm, &here.messages), RING_OK);
  CHECK_INT(ring_reducer_open(here.comm, NULL, &here.reducer), RING_OK);
  for (int i = 0; i < WORKERS; i++) CHECK_INT(pthread_create(&threads[i], NULL, work[i], &here), 0);
  end(&here, rank, how);
  for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
  ring_messages_free(here.messages);
  ring_reducer_free(here.reducer);
  ring_comm_free(here.comm);
}

static void run_world(death how, unsigned seed) {
  pid_t children[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    children[rank] = fork_for(60);
    if (children[rank] > 0) continue;
    live(rank, how, seed);
    exit(0);
  }
  for (int rank = 0; rank < RANKS; rank++) {
    int status = 0;
    CHECK_INT(waitpid(children[rank], &status, 0), children[rank]);
    if (how != MIXED || status != SIGKILL)
      CHECK_INT(status, rank == 0 && how == KILLED ? SIGKILL : 0);
  }
}

static void run_worlds(death how) {
  for (unsigned world = 0; world < worlds; world++) run_world(how, 100 * world + 10 * how + 1);
}

static void test_a_rank_is_killed(void) {
  run_worlds(KILLED);
}

static void test_a_rank_aborts(void) {
  run_worlds(ABORTED);
}

static void test_both_ranks_abort(void) {
  run_worlds(ABORTED_TWICE);
}

static void test_both_ranks_end_in_many_ways(void) {
  run_worlds(MIXED);
}

int main(int argc, char **argv) {
  if (argc > 1) worlds = (unsigned)atoi(argv[1]);
  RUN(test_a_rank_is_killed);
  RUN(test_a_rank_aborts);
  RUN(test_both_ranks_abort);
  RUN(test_both_ranks_end_in_many_ways);
  return 0;
}
