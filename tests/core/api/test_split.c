/* SPDX-License-Identifier: Apache-2.0
 *
 * Splitting: the members of each child and their order, children beside their parent, and the
 * effect of the end of one on the other.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "held_ports.h"
#include "openings.h"
#include "ranks.h"

static ring_comm *split(ring_comm *comm, int color, int key) {
  ring_comm *child = comm;
  ring_status status = ring_comm_split(comm, color, key, &child);
  if (status != RING_OK) fprintf(stderr, "split: %s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  CHECK((child == NULL) == (color < 0));
  return child;
}

static void finish(ring_comm *child) {
  close_rank(child);
}

/* The parent's ranks of a child, in the order of the child's. */
static void expect_ranks(ring_comm *comm, ring_comm *child, int count, const int *ranks) {
  int mine = ring_comm_rank(comm), got[RANKS_MAX];
  CHECK_INT(ring_comm_size(child), count);
  CHECK_INT(ring_comm_local_size(child), count);
  CHECK_INT(ring_allgather(child, &mine, got, 1, RING_INT32), RING_OK);
  for (int i = 0; i < count; i++) CHECK_INT(got[i], ranks[i]);
  CHECK_INT(got[ring_comm_rank(child)], mine);
}

/* ---- Who with whom ------------------------------------------------------------------------ */

static void split_by_parity(ring_comm *comm, void *shared) {
  (void)shared;
  static const int even[] = {0, 2, 4, 6}, odd[] = {5, 3, 1};
  int rank = ring_comm_rank(comm);
  bool is_odd = rank % 2 != 0;
  ring_comm *child = split(comm, is_odd ? 7 : 3, is_odd ? -rank : 0);
  expect_ranks(comm, child, is_odd ? 3 : 4, is_odd ? odd : even);
  CHECK_INT(ring_comm_authenticated(child), 1);
  CHECK_INT(ring_comm_usable(child), 1);
  CHECK_INT(strcmp(ring_comm_host(child, 0), "127.0.0.1"), 0);
  CHECK(ring_comm_epoch(child) != ring_comm_epoch(comm));
  uint64_t epochs[8], epoch = ring_comm_epoch(child);
  CHECK_INT(ring_allgather(comm, &epoch, epochs, 1, RING_INT64), RING_OK);
  for (int other = 0; other < 7; other++) CHECK_INT(epochs[other] == epoch, other % 2 == rank % 2);
  finish(child);
}

static void test_colors_and_keys(void) {
  run_comms(7, split_by_parity, NULL);
}

static void split_some(ring_comm *comm, void *shared) {
  (void)shared;
  static const int all[] = {0, 1, 2, 3}, last[] = {3, 1};
  int rank = ring_comm_rank(comm);
  ring_comm *child = split(comm, rank % 2 == 0 ? -5 : 0, 10 - rank);
  if (child != NULL) expect_ranks(comm, child, 2, last);
  ring_comm *none = split(comm, -1, 0);
  CHECK(none == NULL);
  ring_comm *copy = split(comm, 0, 0), *alone = split(comm, rank, 0);
  expect_ranks(comm, copy, 4, all);
  expect_ranks(comm, alone, 1, &rank);
  CHECK(ring_comm_epoch(alone) != ring_comm_epoch(copy));
  if (child != NULL) finish(child);
  finish(alone);
  finish(copy);
  CHECK_INT(ring_comm_split(comm, 0, 0, NULL), RING_INVALID);
  CHECK_INT(ring_comm_split(NULL, 0, 0, &child), RING_INVALID);
}

static void test_some_none_all_and_alone(void) {
  run_comms(4, split_some, NULL);
}

static void test_a_world_of_one(void) {
  ring_comm *comm, *child, *grandchild;
  CHECK_INT(ring_comm_open(NULL, &comm, NULL), RING_OK);
  child = split(comm, 0, 0);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  CHECK_INT(ring_comm_split(comm, 0, 0, &grandchild), RING_INVALID);
  ring_comm_free(comm);
  grandchild = split(child, 4, 4); /* children outlive their parents */
  check_ring(grandchild);
  ring_comm_free(grandchild);
  CHECK_INT(ring_barrier(child), RING_OK);
  ring_comm_free(child);
}

/* Halves of halves, each in use while the next is made; and many, one after the other. */
static void nest(ring_comm *comm, void *shared) {
  (void)shared;
  ring_comm *levels[4] = {comm};
  for (int i = 1; i < 4; i++) {
    int rank = ring_comm_rank(levels[i - 1]), size = ring_comm_size(levels[i - 1]);
    levels[i] = split(levels[i - 1], rank < size / 2, 0);
    for (int j = 0; j <= i; j++) check_ring(levels[j]);
  }
  CHECK_INT(ring_comm_size(levels[3]), 1);
  for (int i = 1; i < 4; i++) finish(levels[i]);
  for (int i = 0; i < 20; i++) {
    ring_comm *child = split(comm, i % 3 == 0 ? ring_comm_rank(comm) % 2 : 0, i);
    check_ring(child);
    finish(child);
  }
}

static void test_nested(void) {
  run_comms(8, nest, NULL);
}

/* A child listens on ports of the range of its parent; where none is left, every rank gets the
 * error and the parent goes on. */
static void split_in_range(int rank, int size, void *shared) {
  const held_ports *ports = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *children[4];
  int made = 0;
  options.port_first = ports->first;
  options.port_last = ports->last;
  comm = open_with(&options);
  ring_status status = RING_OK;
  while (made < 4 && status == RING_OK) {
    status = ring_comm_split(comm, 0, 0, &children[made]);
    if (status == RING_OK) check_ring(children[made++]);
  }
  CHECK_INT(status, RING_SYSTEM);
  CHECK(made >= 1);
  const char *text = ring_comm_error(comm)->message;
  CHECK(strstr(text, "found no free port") != NULL || strstr(text, "cannot listen") != NULL);
  check_ring(comm);
  while (made > 0) finish(children[--made]);
  close_rank(comm);
}

static void test_port_range(void) {
  held_ports *ports = shared_alloc(sizeof *ports);
  *ports = hold_ports(8);
  free_ports(ports); /* eight ports in a row: two for the parent's ranks, six for children */
  run_ranks(2, split_in_range, ports);
  shared_free(ports, sizeof *ports);
}

static void split_or_call(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size), *child;
  ranks_barrier(shared, size);
  ring_status status = rank == 0 ? ring_comm_split(comm, 0, 0, &child) : ring_barrier(comm);
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "split()");
  ring_comm_free(comm);
}

static void test_mismatch(void) {
  RUN_RANKS(2, split_or_call, (int[16]){0});
}

/* ---- At the same time --------------------------------------------------------------------- */

enum { ROUNDS = 200, LENGTH = 5000 };

static void *work(void *arg) {
  ring_comm *comm = arg;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  double *x = malloc(LENGTH * sizeof *x);
  for (int round = 0; round < ROUNDS; round++) {
    ring_request *request;
    for (int i = 0; i < LENGTH; i++) x[i] = i + rank + round;
    if (round % 2 == 0) {
      CHECK_INT(ring_allreduce(comm, x, x, LENGTH, RING_FLOAT64, RING_SUM), RING_OK);
    } else {
      CHECK_INT(ring_allreduce_start(comm, x, x, LENGTH, RING_FLOAT64, RING_SUM, &request),
                RING_OK);
      CHECK_INT(ring_request_wait(request), RING_OK);
      ring_request_free(request);
    }
    CHECK(x[LENGTH - 1] == (LENGTH - 1 + round) * size + size * (size - 1) / 2.0);
  }
  free(x);
  return NULL;
}

/* The parent in one thread, a child of all in another, and one of some in a third. */
static void work_beside(ring_comm *comm, void *shared) {
  (void)shared;
  ring_comm *all = split(comm, 0, -ring_comm_rank(comm));
  ring_comm *some = split(comm, ring_comm_rank(comm) / 2, 0);
  pthread_t threads[2];
  CHECK_INT(pthread_create(&threads[0], NULL, work, all), 0);
  CHECK_INT(pthread_create(&threads[1], NULL, work, some), 0);
  work(comm);
  for (int i = 0; i < 2; i++) CHECK_INT(pthread_join(threads[i], NULL), 0);
  finish(all);
  finish(some);
}

static void test_beside_the_parent(void) {
  run_comms(3, work_beside, NULL);
}

/* Requests of all three at once, from one thread. */
static void start_beside(ring_comm *comm, void *shared) {
  (void)shared;
  ring_comm *comms[3] = {comm, split(comm, 0, 0), split(comm, ring_comm_rank(comm) % 2, 0)};
  ring_request *requests[3][10];
  int64_t x[3][10];
  for (int i = 0; i < 10; i++)
    for (int c = 0; c < 3; c++) {
      x[c][i] = i;
      CHECK_INT(ring_allreduce_start(comms[c], &x[c][i], &x[c][i], 1, RING_INT64, RING_SUM,
                                     &requests[c][i]),
                RING_OK);
    }
  for (int c = 2; c >= 0; c--)
    for (int i = 0; i < 10; i++) {
      CHECK_INT(ring_request_wait(requests[c][i]), RING_OK);
      CHECK_INT(x[c][i], i * ring_comm_size(comms[c]));
      ring_request_free(requests[c][i]);
    }
  finish(comms[2]);
  finish(comms[1]);
}

static void test_requests_of_all(void) {
  run_comms(4, start_beside, NULL);
}

/* ---- Ends --------------------------------------------------------------------------------- */

/* A child that is aborted takes nothing with it; nor does a parent. */
static void abort_one(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_comm *one = split(comm, 0, 0), *other = split(comm, 0, 0);
  ranks_barrier(shared, size);
  if (rank == 1) ring_comm_abort(one, "enough");
  CHECK_INT(ring_barrier(one), RING_ABORTED);
  ring_comm_free(one);
  check_ring(comm);
  check_ring(other);
  CHECK_INT(ring_barrier(other), RING_OK);
  if (rank == 0) ring_comm_abort(comm, "enough of this, too");
  CHECK_INT(ring_barrier(comm), RING_ABORTED);
  ring_comm_free(comm);
  check_ring(other);
  finish(other);
}

static void test_ends_are_apart(void) {
  RUN_RANKS(3, abort_one, (int[16]){0});
}

/* Rank 3 is killed inside its child, when all have split. The other rank of that child gets the
 * failure there, and all get it in the parent; the child of ranks 0 and 1 goes on. */
static void be_killed(const ring_options *options, int *arrived) {
  ring_comm *comm = open_with(options);
  ring_comm *child = split(comm, 1, 0);
  check_ring(child);
  ranks_barrier(arrived, 4);
  kill(getpid(), SIGKILL);
}

static void die_in_a_child(int rank, int size, void *shared) {
  int *arrived = shared;
  ring_options options = rank_options(rank, size);
  int status;
  if (rank == 3) {
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) be_killed(&options, arrived);
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return;
  }
  ring_comm *comm = open_with(&options);
  ring_comm *child = split(comm, rank / 2, 0);
  check_ring(child);
  ranks_barrier(arrived, size);
  if (rank == 2) {
    CHECK_INT(ring_barrier(child), RING_PEER_LOST);
    CHECK_INT(ring_comm_error(child)->rank, 1); /* as the child counts */
  }
  CHECK_INT(ring_barrier(comm), RING_PEER_LOST);
  CHECK_INT(ring_comm_error(comm)->rank, 3);
  if (rank < 2) {
    check_ring(child);
    CHECK_INT(ring_comm_close(child), RING_OK);
  }
  ring_comm_free(child);
  ring_comm_free(comm);
}

static void test_death_in_a_child(void) {
  RUN_RANKS(4, die_in_a_child, (int){0});
}

static int end_it(void *arg) {
  (void)arg;
  return *(volatile int *)arg;
}

/* The child takes over the hook. */
static void interrupt_a_child(int rank, int size, void *shared) {
  int *left = shared;
  int armed = 0;
  ring_options options = rank_options(rank, size);
  options.interrupt = end_it;
  options.interrupt_arg = &armed;
  ring_comm *comm = open_with(&options);
  ring_comm *child = split(comm, 0, 0);
  if (rank == 0) {
    armed = 1;
    CHECK_INT(ring_barrier(child), RING_ABORTED);
    armed = 0;
    *left = 1;
  }
  while (*(volatile int *)left == 0) usleep(1000);
  check_ring(comm);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(child);
  ring_comm_free(comm);
}

static void test_the_hook_is_inherited(void) {
  RUN_RANKS(2, interrupt_a_child, (int[16]){0});
}

int main(void) {
  RUN(test_colors_and_keys);
  RUN(test_some_none_all_and_alone);
  RUN(test_a_world_of_one);
  RUN(test_nested);
  RUN(test_port_range);
  RUN(test_mismatch);
  RUN(test_beside_the_parent);
  RUN(test_requests_of_all);
  RUN(test_ends_are_apart);
  RUN(test_death_in_a_child);
  RUN(test_the_hook_is_inherited);
  return 0;
}
