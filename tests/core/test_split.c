/* SPDX-License-Identifier: Apache-2.0
 *
 * Splitting: who is with whom and in which order, children beside their parent, and what the end of
 * one means for the other.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bytes.h"
#include "check.h"
#include "collective.h"
#include "meetings.h"
#include "platform.h"
#include "ranks.h"
#include "socket.h"

static ring_comm *split(ring_comm *comm, int color, int key) {
  ring_comm *child = comm;
  ring_status status = ring_comm_split(comm, color, key, &child);
  if (status != RING_OK) fprintf(stderr, "split: %s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  CHECK((child == NULL) == (color < 0));
  return child;
}

static void finish(ring_comm *child) {
  CHECK_INT(ring_comm_close(child), RING_OK);
  ring_comm_free(child);
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

/* Ports of the parent's range are the child's, too; where none is left, every rank hears of it and
 * the parent goes on. */
static void split_in_range(int rank, int size, void *shared) {
  const held_ports *ports = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *children[4];
  int made = 0;
  options.port_first = ports->first;
  options.port_last = ports->last;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
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
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
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
  meet_ranks(shared, size);
  ring_status status = rank == 0 ? ring_comm_split(comm, 0, 0, &child) : ring_barrier(comm);
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "split()");
  ring_comm_free(comm);
}

static void test_mismatch(void) {
  int *met = shared_alloc(64);
  run_ranks(2, split_or_call, met);
  shared_free(met, 64);
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
  meet_ranks(shared, size);
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
  int *met = shared_alloc(64);
  run_ranks(3, abort_one, met);
  shared_free(met, 64);
}

/* Rank 3 is killed inside its child, when all have split: the other rank of that child hears of it there,
 * and all hear of it in the parent; the child of ranks 0 and 1 goes on. */
static void be_killed(const ring_options *options, int *met) {
  ring_comm *comm;
  CHECK_INT(ring_comm_open(options, &comm, NULL), RING_OK);
  ring_comm *child = split(comm, 1, 0);
  check_ring(child);
  meet_ranks(met, 4);
  kill(getpid(), SIGKILL);
}

static void die_in_a_child(int rank, int size, void *shared) {
  int *met = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  int status;
  if (rank == 3) {
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) be_killed(&options, met);
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return;
  }
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  ring_comm *child = split(comm, rank / 2, 0);
  check_ring(child);
  meet_ranks(met, size);
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
  int *met = shared_alloc(sizeof *met);
  run_ranks(4, die_in_a_child, met);
  shared_free(met, sizeof *met);
}

/* What split does until all ranks know where each one listens, and no more. Returns the listener. */
static int begin_to_split(ring_comm *comm, int color, int key) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), bytes = 11;
  int listener = ring_socket_listen("127.0.0.1", 0);
  uint8_t told[RANKS_MAX * 11] = {0}, *mine = told + rank * bytes, *to = mine;
  ring_call signature = {.collective = RING_COLLECTIVE_SPLIT, .sequence = ++comm->sequence};
  collective_request request = {.outline = {.call = {.collective = RING_COLLECTIVE_ALLGATHER,
                                                     .dtype = RING_UINT8,
                                                     .count = (uint64_t)bytes},
                                            .parts = {NULL, (uint64_t)bytes}},
                                .signature = &signature,
                                .input = mine,
                                .output = told,
                                .input_count = (uint64_t)bytes,
                                .output_count = (uint64_t)(size * bytes),
                                .out_at = (uint64_t)(rank * bytes),
                                .in_place = true};
  to = bytes_put(to, (uint32_t)color, 4);
  to = bytes_put(to, (uint32_t)key, 4);
  bytes_put(to, (uint64_t)ring_socket_port(listener), 2);
  CHECK_INT(ring_collective_run_here(comm, &request), RING_OK);
  return listener;
}

/* Rank 1, which has no part in the child, and the one that breaks it meet when rank 1 has split. */
typedef struct splitting {
  int split, met;
} splitting;

/* When both other ranks of the child, as whose first rank it is called, have called. */
static void be_killed_while_splitting(const ring_options *options, splitting *of) {
  ring_comm *comm;
  CHECK_INT(ring_comm_open(options, &comm, NULL), RING_OK);
  struct pollfd entry = {.fd = begin_to_split(comm, 1, -1), .events = POLLIN};
  for (int i = 0; i < 2; i++) {
    CHECK_INT(poll(&entry, 1, -1), 1);
    CHECK(accept(entry.fd, NULL, NULL) >= 0);
  }
  meet_ranks(&of->split, 2);
  kill(getpid(), SIGKILL);
}

/* Rank 3 is killed when the others know it as one of the child: these hear it from split, as ranks of
 * the parent, which is broken, too; and rank 1, which has no part in the child, on the parent. */
static void die_while_splitting(int rank, int size, void *shared) {
  splitting *of = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  int status;
  if (rank == 3) {
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) be_killed_while_splitting(&options, of);
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return;
  }
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK_INT(ring_comm_split(comm, rank == 1 ? -1 : 1, 0, &child),
            rank == 1 ? RING_OK : RING_PEER_LOST);
  CHECK(child == NULL);
  if (rank == 1) meet_ranks(&of->split, 2);
  meet_ranks(&of->met, 3); /* else rank 1 might find it first */
  CHECK_INT(ring_barrier(comm), RING_PEER_LOST);
  CHECK_INT(ring_comm_error(comm)->rank, 3);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 3");
  if (rank != 1)
    CHECK_CONTAINS(ring_comm_error(comm)->message, "(rank 0 of it is rank 3, 127.0.0.1, here)");
  ring_comm_free(comm);
}

static void test_death_while_splitting(void) {
  splitting *of = shared_alloc(sizeof *of);
  run_ranks(4, die_while_splitting, of);
  shared_free(of, sizeof *of);
}

/* Rank 1 is killed before it links with rank 0, which is for it to do. */
static void vanish_while_splitting(int rank, int size, void *shared) {
  _Atomic uint64_t *killed = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  if (rank == 1) {
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
      CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
      begin_to_split(comm, 1, 1);
      atomic_store(killed, ring_platform_now());
      kill(getpid(), SIGKILL);
    }
    CHECK_INT(waitpid(process, NULL, 0), process);
    return;
  }
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK_INT(ring_comm_split(comm, 1, 0, &child), RING_PEER_LOST);
  CHECK((double)(ring_platform_now() - atomic_load(killed)) / 1e9 < 1);
  CHECK_INT(ring_comm_error(comm)->rank, 1);
  ring_comm_free(comm);
}

static void test_who_is_killed_while_splitting_is_missed_within_a_second(void) {
  _Atomic uint64_t *killed = shared_alloc(sizeof *killed);
  run_ranks(2, vanish_while_splitting, killed);
  shared_free(killed, sizeof *killed);
}

/* Goes no farther until all have met, who have failed by then. */
static void stop_in_a_split(ring_comm *comm, int color, int key, int *failed) {
  int listener = begin_to_split(comm, color, key);
  meet_ranks(failed, ring_comm_size(comm));
  ring_socket_close(&listener);
}

/* Rank 3 stops when the others know it as one of the child. Rank 1, which has no part in that, waits in
 * the parent for those that wait in the child: it hears for whom. */
static void stop_while_splitting(int rank, int size, void *shared) {
  int *failed = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.call_timeout = rank == 1 ? 4 : 5;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  if (rank == 3) {
    stop_in_a_split(comm, 1, -1, failed);
  } else {
    ring_status status = ring_comm_split(comm, rank == 1 ? -1 : 1, 0, &child);
    if (rank == 1) CHECK_INT(status, RING_OK);
    if (rank == 1) status = ring_barrier(comm);
    ranks_expect(comm, status, RING_TIMEOUT, 3,
                 rank == 1 ? " in barrier() as call 2 for " : "split() as call 1 could ");
    meet_ranks(failed, size);
  }
  ring_comm_free(comm);
}

static void test_stop_while_splitting(void) {
  int *failed = shared_alloc(sizeof *failed);
  run_ranks(4, stop_while_splitting, failed);
  shared_free(failed, sizeof *failed);
}

/* Rank 0 comes late to the split, but it comes, with rank 3. That one has heard that the others wait for
 * rank 0, and waits in the child for rank 1, which has stopped: rank 0 is not to blame any more, and the
 * parent has not failed. */
static void come_late_to_a_split(int rank, int size, void *shared) {
  int *failed = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.call_timeout = rank == 3 ? 2 : 30;
  options.algorithms = "allgather:ring"; /* rank 1 has nothing to tell rank 3 itself */
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  if (rank % 3 == 0) usleep(2100000); /* the others have said so after 2 s, to count for 3 more */
  if (rank == 1) {
    stop_in_a_split(comm, 0, 0, failed);
  } else {
    ring_status status = ring_comm_split(comm, rank == 3 ? 0 : -1, 0, &child);
    if (rank == 3)
      ranks_expect(comm, status, RING_TIMEOUT, 1, "(rank 0 of it is rank 1, 127.0.0.1, here)");
    else
      CHECK_INT(status, RING_OK);
    CHECK(ring_comm_usable(comm));
    meet_ranks(failed, size);
  }
  ring_comm_free(comm);
}

static void test_who_was_late_to_a_split_is_not_blamed(void) {
  int *failed = shared_alloc(sizeof *failed);
  run_ranks(4, come_late_to_a_split, failed);
  shared_free(failed, sizeof *failed);
}

/* Ranks 1 and 5 stop, each of which one rank waits for in a child of its own: rank 0 for longer than rank 2,
 * which has no link with rank 5 in the parent and hears of rank 1 there. */
static void stop_in_two_children(int rank, int size, void *shared) {
  int *failed = shared;
  bool stops = rank == 1 || rank == 5;
  int color = rank < 2 ? 0 : rank == 2 || rank == 5 ? 1 : -1;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.call_timeout = rank == 0 ? 4 : 2;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  if (stops) {
    stop_in_a_split(comm, color, 0, failed);
  } else {
    ring_status status = ring_comm_split(comm, color, 0, &child);
    if (color < 0)
      CHECK_INT(status, RING_OK);
    else
      ranks_expect(comm, status, RING_TIMEOUT, rank == 0 ? 1 : 5, "(rank 1 of it is rank ");
    meet_ranks(failed, size);
  }
  ring_comm_free(comm);
}

static void test_stops_in_two_children(void) {
  int *failed = shared_alloc(sizeof *failed);
  run_ranks(8, stop_in_two_children, failed);
  shared_free(failed, sizeof *failed);
}

/* Rank 2 aborts the parent when rank 0 calls it in the child, and is gone from there: rank 0 looks
 * for the reason in the parent. */
static void abort_while_splitting(int rank, int size, void *shared) {
  splitting *of = shared;
  ring_comm *comm = open_rank(rank, size), *child;
  if (rank == 2) {
    struct pollfd entry = {.fd = begin_to_split(comm, 1, -1), .events = POLLIN};
    CHECK_INT(poll(&entry, 1, -1), 1);
    int called = accept(entry.fd, NULL, NULL);
    meet_ranks(&of->split, 2);
    ring_comm_abort(comm, "enough");
    ring_socket_close(&entry.fd);
    close(called);
  } else {
    ring_status expected = rank == 0 ? RING_ABORTED : RING_OK;
    CHECK_INT(ring_comm_split(comm, rank == 0 ? 1 : -1, 0, &child), expected);
    if (rank == 1) meet_ranks(&of->split, 2);
    CHECK_INT(ring_barrier(comm), RING_ABORTED);
    CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 2 (127.0.0.1) aborted the communicator");
  }
  ring_comm_free(comm);
}

static void test_abort_while_splitting(void) {
  splitting *of = shared_alloc(sizeof *of);
  run_ranks(3, abort_while_splitting, of);
  shared_free(of, sizeof *of);
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
  ring_comm *comm;
  options.interrupt = end_it;
  options.interrupt_arg = &armed;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
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
  int *left = shared_alloc(64);
  run_ranks(2, interrupt_a_child, left);
  shared_free(left, 64);
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
  RUN(test_death_while_splitting);
  RUN(test_who_is_killed_while_splitting_is_missed_within_a_second);
  RUN(test_stop_while_splitting);
  RUN(test_who_was_late_to_a_split_is_not_blamed);
  RUN(test_stops_in_two_children);
  RUN(test_abort_while_splitting);
  RUN(test_the_hook_is_inherited);
  return 0;
}
