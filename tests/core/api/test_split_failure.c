/* SPDX-License-Identifier: Apache-2.0
 *
 * Splitting that fails: ranks that die, stop or abort between its exchange and the end of the child's
 * opening.
 */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/fusion.h"
#include "base/bytes.h"
#include "base/platform.h"
#include "check.h"
#include "ranks.h"
#include "transport/socket.h"

/* The first part of split: until all ranks know the ports of all. Returns the listener. */
static int begin_to_split(ring_comm *comm, int color, int key) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), bytes = 11;
  int listener = ring_socket_listen("127.0.0.1", 0);
  uint8_t values[RANKS_MAX * 11] = {0}, *mine = values + rank * bytes, *to = mine;
  ring_call signature = {.collective = RING_COLLECTIVE_SPLIT, .sequence = ++comm->sequence};
  collective_args args = {.work = {.outline = {.call = {.collective = RING_COLLECTIVE_ALLGATHER,
                                                        .dtype = RING_UINT8,
                                                        .count = (uint64_t)bytes},
                                               .parts = {NULL, (uint64_t)bytes}},
                                   .signature = &signature,
                                   .input = mine,
                                   .output = values,
                                   .output_count = (uint64_t)(size * bytes)},
                          .input_count = (uint64_t)bytes,
                          .out_at = (uint64_t)(rank * bytes),
                          .in_place = true};
  to = bytes_put(to, (uint32_t)color, 4);
  to = bytes_put(to, (uint32_t)key, 4);
  bytes_put(to, (uint64_t)ring_socket_port(listener), 2);
  CHECK_INT(ring_fusion_run_here(comm, &args), RING_OK);
  return listener;
}

/* Rank 1, which has no part in the child, and the rank that breaks it pass a barrier when rank 1 has split. */
typedef struct splitting {
  int split, arrived;
} splitting;

/* When both other ranks of the child, as whose first rank it is called, have called. */
static void be_killed_while_splitting(const ring_options *options, splitting *of) {
  ring_comm *comm = open_with(options);
  struct pollfd entry = {.fd = begin_to_split(comm, 1, -1), .events = POLLIN};
  for (int i = 0; i < 2; i++) {
    CHECK_INT(poll(&entry, 1, -1), 1);
    CHECK(accept(entry.fd, NULL, NULL) >= 0);
  }
  ranks_barrier(&of->split, 2);
  kill(getpid(), SIGKILL);
}

/* Rank 3 is killed when the other ranks know it as a member of the child. They get the failure
 * from split, with numbers of the parent, which is broken, too. Rank 1, which is not in the
 * child, gets it on the parent. */
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
  comm = open_with(&options);
  CHECK_INT(ring_comm_split(comm, rank == 1 ? -1 : 1, 0, &child),
            rank == 1 ? RING_OK : RING_PEER_LOST);
  CHECK(child == NULL);
  if (rank == 1) ranks_barrier(&of->split, 2);
  ranks_barrier(&of->arrived, 3); /* else rank 1 might find it first */
  CHECK_INT(ring_barrier(comm), RING_PEER_LOST);
  CHECK_INT(ring_comm_error(comm)->rank, 3);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 3");
  if (rank != 1)
    CHECK_CONTAINS(ring_comm_error(comm)->message, "(rank 0 of it is rank 3, 127.0.0.1, here)");
  ring_comm_free(comm);
}

static void test_death_while_splitting(void) {
  RUN_RANKS(4, die_while_splitting, (splitting){0});
}

/* When rank 1 was killed, and how long it took rank 0 to miss it, in ns. */
typedef struct vanishing {
  _Atomic uint64_t killed, missed;
} vanishing;

/* Rank 1 is killed before it links with rank 0, which is for it to do. */
static void vanish_while_splitting(int rank, int size, void *shared) {
  vanishing *of = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  if (rank == 1) {
    pid_t process = fork();
    CHECK(process >= 0);
    if (process == 0) {
      comm = open_with(&options);
      begin_to_split(comm, 1, 1);
      atomic_store(&of->killed, ring_platform_now());
      kill(getpid(), SIGKILL);
    }
    CHECK_INT(waitpid(process, NULL, 0), process);
    return;
  }
  comm = open_with(&options);
  CHECK_INT(ring_comm_split(comm, 1, 0, &child), RING_PEER_LOST);
  atomic_store(&of->missed, ring_platform_now() - atomic_load(&of->killed));
  CHECK_INT(ring_comm_error(comm)->rank, 1);
  ring_comm_free(comm);
}

/* It takes half a second. On a busy machine it may once take longer, but not three times in a row. */
static void test_a_rank_killed_while_splitting_is_missed_within_a_second(void) {
  const double most = SPARKRING_SANITIZED ? 3 : 1;
  vanishing *of = shared_alloc(sizeof *of);
  double missed = most;
  for (int i = 0; i < 3 && missed >= most; i++) {
    run_ranks(2, vanish_while_splitting, of);
    missed = (double)atomic_load(&of->missed) / 1e9;
  }
  CHECK(missed < most);
  shared_free(of, sizeof *of);
}

/* Waits until all ranks are here; they have failed by then. */
static void stop_in_a_split(ring_comm *comm, int color, int key, int *failed) {
  int listener = begin_to_split(comm, color, key);
  ranks_barrier(failed, ring_comm_size(comm));
  ring_socket_close(&listener);
}

/* Rank 3 is suspended when the other ranks know it as a member of the child. Rank 1, which is
 * not in the child, waits in the parent for ranks that wait in the child, and gets the name of
 * rank 3 from them. */
static void stop_while_splitting(int rank, int size, void *shared) {
  int *failed = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.call_timeout = rank == 1 ? 4 : 5;
  comm = open_with(&options);
  if (rank == 3) {
    stop_in_a_split(comm, 1, -1, failed);
  } else {
    ring_status status = ring_comm_split(comm, rank == 1 ? -1 : 1, 0, &child);
    if (rank == 1) CHECK_INT(status, RING_OK);
    if (rank == 1) status = ring_barrier(comm);
    ranks_expect(comm, status, RING_TIMEOUT, 3,
                 rank == 1 ? " in barrier() as call 2 for " : "split() as call 1 could ");
    ranks_barrier(failed, size);
  }
  ring_comm_free(comm);
}

static void test_stop_while_splitting(void) {
  RUN_RANKS(4, stop_while_splitting, (int){0});
}

/* Rank 0 comes late to the split, but comes, with rank 3. Rank 3 has a report that all wait for
 * rank 0, and waits in the child for rank 1, which is suspended. Rank 0 is no longer to blame,
 * and the parent has not failed. */
static void come_late_to_a_split(int rank, int size, void *shared) {
  int *failed = shared;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.call_timeout = rank == 3 ? 2 : 30;
  options.algorithms = "allgather:ring"; /* rank 1 has nothing to send to rank 3 */
  comm = open_with(&options);
  if (rank % 3 == 0)
    usleep(2100000); /* the others have reported a wait after 2 s, and count for 3 more */
  if (rank == 1) {
    stop_in_a_split(comm, 0, 0, failed);
  } else {
    ring_status status = ring_comm_split(comm, rank == 3 ? 0 : -1, 0, &child);
    if (rank == 3)
      ranks_expect(comm, status, RING_TIMEOUT, 1, "(rank 0 of it is rank 1, 127.0.0.1, here)");
    else
      CHECK_INT(status, RING_OK);
    CHECK(ring_comm_usable(comm));
    ranks_barrier(failed, size);
  }
  ring_comm_free(comm);
}

static void test_who_was_late_to_a_split_is_not_blamed(void) {
  RUN_RANKS(4, come_late_to_a_split, (int){0});
}

/* Ranks 1 and 5 are suspended; one rank waits for each in a child of its own. Rank 0 waits
 * longer than rank 2, which has no link with rank 5 in the parent and gets the name of rank 1
 * there. */
static void stop_in_two_children(int rank, int size, void *shared) {
  int *failed = shared;
  bool stops = rank == 1 || rank == 5;
  int color = rank < 2 ? 0 : rank == 2 || rank == 5 ? 1 : -1;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  options.call_timeout = rank == 0 ? 4 : 2;
  comm = open_with(&options);
  if (stops) {
    stop_in_a_split(comm, color, 0, failed);
  } else {
    ring_status status = ring_comm_split(comm, color, 0, &child);
    if (color < 0)
      CHECK_INT(status, RING_OK);
    else
      ranks_expect(comm, status, RING_TIMEOUT, rank == 0 ? 1 : 5, "(rank 1 of it is rank ");
    ranks_barrier(failed, size);
  }
  ring_comm_free(comm);
}

static void test_stops_in_two_children(void) {
  RUN_RANKS(8, stop_in_two_children, (int){0});
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
    ranks_barrier(&of->split, 2);
    ring_comm_abort(comm, "enough");
    ring_socket_close(&entry.fd);
    close(called);
  } else {
    ring_status expected = rank == 0 ? RING_ABORTED : RING_OK;
    CHECK_INT(ring_comm_split(comm, rank == 0 ? 1 : -1, 0, &child), expected);
    if (rank == 1) ranks_barrier(&of->split, 2);
    CHECK_INT(ring_barrier(comm), RING_ABORTED);
    CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 2 (127.0.0.1) aborted the communicator");
  }
  ring_comm_free(comm);
}

static void test_abort_while_splitting(void) {
  RUN_RANKS(3, abort_while_splitting, (splitting){0});
}

/* Ranks 2 and 1 are ranks 0 and 1 of a child that they open with different settings. The errors
 * of both give the numbers of both in the parent, whose own links are open by then. */
static void differ_while_splitting(int rank, int size, void *unused) {
  (void)unused;
  ring_comm *comm = open_rank(rank, size), *child;
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (rank == 2) comm->peers.connections++;
  ring_status status = ring_comm_split(comm, rank == 0 ? -1 : 1, -rank, &child);
  if (rank == 2) comm->peers.connections--;
  CHECK_INT(status, rank == 0 ? RING_OK : RING_MISMATCH);
  if (rank != 0) {
    CHECK_CONTAINS(ring_comm_error(comm)->message, "(rank 0 of it is rank 2, 127.0.0.1, here)");
    CHECK_CONTAINS(ring_comm_error(comm)->message, "(rank 1 of it is rank 1, 127.0.0.1, here)");
  }
  CHECK(ring_comm_usable(comm));
  close_rank(comm);
}

static void test_a_mismatch_while_splitting_names_ranks_of_the_parent(void) {
  run_ranks(3, differ_while_splitting, NULL);
}

int main(void) {
  RUN(test_death_while_splitting);
  RUN(test_a_rank_killed_while_splitting_is_missed_within_a_second);
  RUN(test_stop_while_splitting);
  RUN(test_who_was_late_to_a_split_is_not_blamed);
  RUN(test_stops_in_two_children);
  RUN(test_abort_while_splitting);
  RUN(test_a_mismatch_while_splitting_names_ranks_of_the_parent);
  return 0;
}
