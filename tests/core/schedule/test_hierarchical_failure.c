/* SPDX-License-Identifier: Apache-2.0
 *
 * How a hierarchical allreduce over several hosts (places.h) fails: a rank dies, aborts or differs, and every
 * other rank reports it soon.
 */
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "load.h"
#include "places.h"

static void check_failure(ring_comm *comm, const place *place, ring_status status,
                          ring_status expected, const char *text) {
  double late = seconds() - place->died;
  if (status != expected || ring_comm_error(comm)->rank != place->victim)
    fprintf(stderr, "rank %d of %s, victim %d: %s\n", ring_comm_rank(comm), place->nodes,
            place->victim, ring_comm_error(comm)->message);
  CHECK_INT(status, expected);
  CHECK_INT(ring_comm_error(comm)->rank, place->victim);
  CHECK_CONTAINS(ring_comm_error(comm)->message, text);
  CHECK(late < UNLOADED(1));
  CHECK_INT(ring_barrier(comm), expected);
  ring_comm_free(comm);
}

static ring_comm *reduce_a_few(int rank, int size, place *place, float **x) {
  ring_comm *comm = open_at(rank, size, place);
  *x = calloc(place->count, sizeof **x);
  place_barrier(place, size);
  for (int i = 0; i < 3; i++)
    CHECK_INT(ring_allreduce(comm, *x, *x, place->count, RING_FLOAT32, RING_MAX), RING_OK);
  place_barrier(place, size);
  return comm;
}

static place *dying;

/* seconds() is no function for a handler. */
static void die(int signal) {
  struct timespec now;
  (void)signal;
  clock_gettime(CLOCK_MONOTONIC, &now);
  dying->died = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  _exit(0); /* without a word, as a crash */
}

/* Somewhere in a call; what the others get names the rank that died. */
static void die_in_it(int rank, int size, void *shared) {
  place *place = shared;
  ring_status status = RING_OK;
  float *x;
  ring_comm *comm = reduce_a_few(rank, size, place, &x);
  dying = place;
  struct itimerval soon = {.it_value.tv_usec = 30000};
  if (rank == place->victim) {
    signal(SIGALRM, die);
    setitimer(ITIMER_REAL, &soon, NULL);
  }
  while (status == RING_OK)
    status = ring_allreduce(comm, x, x, place->count, RING_FLOAT32, RING_MAX);
  check_failure(comm, place, status, RING_PEER_LOST, "was lost during");
  free(x);
}

static void abort_in_it(int rank, int size, void *shared) {
  place *place = shared;
  ring_status status = RING_OK;
  float *x;
  ring_comm *comm = reduce_a_few(rank, size, place, &x);
  if (rank == place->victim) {
    place->died = seconds();
    ring_comm_abort(comm, "the loss is NaN");
    ring_comm_free(comm);
    free(x);
    return;
  }
  while (status == RING_OK)
    status = ring_allreduce(comm, x, x, place->count, RING_FLOAT32, RING_MAX);
  check_failure(comm, place, status, RING_ABORTED, "the loss is NaN");
  free(x);
}

/* Every rank of a host of three, of one of two, and one that is alone. */
static void fail_each(rank_function function) {
  static const char nodes[] = "010102";
  for (int victim = 0; victim < 6; victim++)
    for (size_t count = 2; count < 1000000; count *= 250000)
      run_place(function, (place){.nodes = nodes,
                                  .algorithms = "allreduce:hierarchical",
                                  .victim = victim,
                                  .count = count});
}

static void test_a_rank_dies(void) {
  fail_each(die_in_it);
}

static void test_a_rank_aborts(void) {
  fail_each(abort_in_it);
}

static void differ(int rank, int size, void *shared) {
  place *place = shared;
  float *x;
  ring_comm *comm = reduce_a_few(rank, size, place, &x);
  size_t count = place->count - (rank == place->victim ? 1 : 0);
  CHECK_INT(ring_allreduce(comm, x, x, count, RING_FLOAT32, RING_MAX), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the ranks made different calls");
  ring_comm_free(comm);
  free(x);
}

static void test_ranks_disagree(void) {
  for (int victim = 0; victim < 6; victim++)
    run_place(differ, (place){.nodes = "010102",
                              .algorithms = "allreduce:hierarchical",
                              .victim = victim,
                              .count = 5000});
}

int main(void) {
  RUN(test_a_rank_dies);
  RUN(test_a_rank_aborts);
  RUN(test_ranks_disagree);
  return 0;
}
