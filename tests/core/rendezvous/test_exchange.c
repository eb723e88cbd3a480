/* SPDX-License-Identifier: Apache-2.0
 *
 * Rendezvous by an exchange, as Spark's allGather: it works, fails, forgets a rank or garbles; and a rank dies
 * in it or right after it.
 */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "check.h"
#include "load.h"
#include "openings.h"
#include "ranks.h"
#include "shm/attach.h"

/* ---- Exchange ----------------------------------------------------------------------------- */

/* Memory through which all ranks pass their strings, as Spark's allGather does. */
typedef struct exchange {
  pthread_barrier_t all_wrote;
  char strings[8][200];
  int mode;
  int victim, late; /* which ranks; -1: none */
  bool passed;      /* the victim dies when it has passed its string */
  double died;      /* when it died */
} exchange;

typedef struct exchange_end {
  int rank, size;
  exchange *shared;
} exchange_end;

enum { EXCHANGE_WORKS, EXCHANGE_FAILS, EXCHANGE_FORGETS, EXCHANGE_GARBLES };

static int pass_strings(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const exchange_end *end = arg;
  exchange *shared = end->shared;
  snprintf(shared->strings[end->rank], sizeof shared->strings[0], "%s", mine);
  pthread_barrier_wait(&shared->all_wrote);
  if (shared->mode == EXCHANGE_FAILS) return 1;
  for (int rank = 0; rank < end->size; rank++) {
    if (shared->mode == EXCHANGE_FORGETS && rank == 1) continue;
    put(sink, rank, shared->mode == EXCHANGE_GARBLES ? "nonsense" : shared->strings[rank]);
  }
  put(sink, end->size, "one too many is ignored");
  return 0;
}

static void run_exchange(int size, rank_function function, exchange *shared) {
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->all_wrote, &attributes, (unsigned)size);
  run_ranks(size, function, shared);
  pthread_barrier_destroy(&shared->all_wrote);
}

static void open_by_exchange(int rank, int size, void *shared) {
  exchange_end end = {rank, size, shared};
  ring_options options = rank_options(rank, size);
  options.token = NULL;
  options.token_length = 0;
  options.exchange = pass_strings;
  options.exchange_arg = &end;
  switch (end.shared->mode) {
  case EXCHANGE_WORKS: {
    ring_comm *comm;
    comm = open_with(&options);
    CHECK_INT(ring_comm_authenticated(comm), 1);
    check_ring(comm);
    close_rank(comm);
    return;
  }
  case EXCHANGE_FAILS:
    expect_failure(&options, RING_ABORTED, "the exchange with the other ranks failed");
    return;
  case EXCHANGE_FORGETS:
    expect_failure(&options, RING_INVALID, "the exchange brought no text of rank 1");
    return;
  case EXCHANGE_GARBLES:
    expect_failure(&options, RING_INVALID, "a text of rank 0 that sparkring did not write");
    return;
  }
}

static void test_exchange(void) {
  exchange *shared = shared_alloc(sizeof *shared);
  for (shared->mode = EXCHANGE_WORKS; shared->mode <= EXCHANGE_GARBLES; shared->mode++) {
    run_exchange(4, open_by_exchange, shared);
  }
  shared_free(shared, sizeof *shared);
}

/* ---- Deaths while opening ----------------------------------------------------------------- */

#define LOSS_SECONDS 1.3 /* one is what is promised; sanitizers and other tests take some, too */

static void die(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void die_in_exchange(exchange *shared) {
  shared->died = seconds();
  _exit(0);
}

/* Of the process that is to die behind its words on what it shares, while the others wait for more. */
static exchange *dies_when_passed;

ring_status __real_ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                                   const ring_wait_service *service, const ring_wait *wait,
                                   ring_error *error);
ring_status __wrap_ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                                   const ring_wait_service *service, const ring_wait *wait,
                                   ring_error *error);
ring_status __wrap_ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                                   const ring_wait_service *service, const ring_wait *wait,
                                   ring_error *error) {
  if (dies_when_passed == NULL)
    return __real_ring_shm_settle(shm, peers, has, service, wait, error);
  usleep(100000);
  die_in_exchange(dies_when_passed);
  return RING_OK;
}

/* At once; where another rank is late, after the rendezvous with the ranks that are not. */
static int pass_strings_and_die(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const exchange_end *end = arg;
  bool late = end->rank == end->shared->late;
  if (late) usleep(1600000);
  int failure = pass_strings(arg, mine, put, sink);
  if (end->shared->passed && end->rank == end->shared->victim) {
    dies_when_passed = end->shared;
    return failure;
  }
  if (end->rank == end->shared->victim && end->shared->late < 0) die_in_exchange(end->shared);
  if (end->rank == end->shared->victim) {
    signal(SIGALRM, die);
    ualarm(300000, 0);
  }
  if (late) usleep(800000);
  return failure;
}

static void lose_one_while_opening(int rank, int size, void *shared) {
  exchange_end end = {rank, size, shared};
  ring_options options = rank_options(rank, size);
  char text[64];
  options.exchange = pass_strings_and_die;
  options.exchange_arg = &end;
  if (end.shared->late >= 0) options.timeout = 2;
  snprintf(text, sizeof text, "rank %d (127.0.0.1)", end.shared->victim);
  CHECK_INT(expect_failure(&options, RING_PEER_LOST, text), end.shared->victim);
  if (end.shared->late < 0) CHECK(seconds() - end.shared->died < UNLOADED(LOSS_SECONDS));
}

static void lose_each_while_opening(int size, int after, bool passed) {
  exchange *shared = shared_alloc(sizeof *shared);
  shared->passed = passed;
  for (shared->victim = 0; shared->victim < size; shared->victim++) {
    shared->late = after > 0 ? (shared->victim + after) % size : -1;
    run_exchange(size, lose_one_while_opening, shared);
  }
  shared_free(shared, sizeof *shared);
}

/* Higher ranks connect to lower ones, so there is a way to wait report for each direction. */
static void test_a_rank_that_dies_while_opening(void) {
  lose_each_while_opening(4, 0, false);
  lose_each_while_opening(8, 0, false); /* with some there is no link */
}

/* Nobody waits then for ranks that the exchange might still hold, though with some there is no link. */
static void test_a_rank_that_dies_when_all_have_joined(void) {
  lose_each_while_opening(8, 0, true);
}

/* One comes to the exchange so late that the others have spent most of their time, and leaves it a second
 * after them, as happens with Spark's allGather: to all the same rank is at fault. */
static void test_one_that_is_late_meanwhile(void) {
  for (int after = 1; after < 4; after++) lose_each_while_opening(4, after, false);
}

int main(void) {
  RUN(test_exchange);
  RUN(test_a_rank_that_dies_while_opening);
  RUN(test_a_rank_that_dies_when_all_have_joined);
  RUN(test_one_that_is_late_meanwhile);
  return 0;
}
