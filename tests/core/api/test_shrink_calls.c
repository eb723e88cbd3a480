/* SPDX-License-Identifier: Apache-2.0
 *
 * What a shrink refuses and awaits, and how it ends whatever was made of the old communicator. No rank dies.
 */
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "sparkring_messages.h"
#include "sparkring_reducer.h"

static const char orphan[] = "has shrunk the communicator that ";

static ring_comm *shrink(ring_comm *comm) {
  ring_comm *next;
  ring_error error;
  ring_status status = ring_comm_shrink(comm, 0, &next, &error);
  if (status != RING_OK) fprintf(stderr, "rank %d: %s\n", ring_comm_rank(comm), error.message);
  CHECK_INT(status, RING_OK);
  return next;
}

static void expect_sum(ring_comm *comm, int64_t expected) {
  int64_t one = 1, sum = 0;
  CHECK_INT(ring_allreduce(comm, &one, &sum, 1, RING_INT64, RING_SUM), RING_OK);
  CHECK_INT(sum, expected);
}

static void expect_refusal(ring_comm *comm, double timeout, ring_comm **next, const char *text) {
  ring_error error;
  CHECK_INT(ring_comm_shrink(comm, timeout, next, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, text);
  if (next != NULL) CHECK(*next == NULL);
}

/* ---- A communicator without a failure -------------------------------------------------------- */

static void shrink_well(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(shared, size);
  if (rank != 1)
    while (ring_barrier(comm) == RING_OK) continue;
  ring_comm *next = shrink(comm);
  if (rank != 1) CHECK_CONTAINS(ring_comm_error(comm)->message, "it called shrink()");
  CHECK_INT(ring_comm_size(next), size);
  CHECK_INT(ring_comm_rank(next), rank);
  CHECK(!ring_comm_usable(comm));
  expect_sum(next, size);
  close_rank(next);
  ring_comm_free(comm);
}

static void test_all_ranks_live(void) {
  for (int size = 2; size <= 4; size++) RUN_RANKS(size, shrink_well, (int[2]){0});
}

static void shrink_alone(int rank, int size, void *shared) {
  (void)shared;
  ring_comm *comm = open_rank(rank, size);
  for (int i = 0; i < 3; i++) {
    ring_comm *next = shrink(comm);
    expect_refusal(comm, 0, &(ring_comm *){NULL}, "closed, aborted or shrunk");
    ring_comm_free(comm);
    comm = next;
    expect_sum(comm, 1);
  }
  close_rank(comm);
}

static void test_one_rank_shrinks_alone(void) {
  run_ranks(1, shrink_alone, NULL);
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuse(int rank, int size, void *shared) {
  (void)shared;
  ring_comm *comm = open_rank(rank, size), *next = comm;
  expect_refusal(NULL, 0, &next, "NULL");
  expect_refusal(comm, 0, NULL, "NULL");
  expect_refusal(comm, -1, &next, "negative");
  expect_refusal(comm, NAN, &next, "not a number");
  expect_sum(comm, size);
  next = shrink(comm);
  expect_refusal(comm, 0, &(ring_comm *){NULL}, "closed, aborted or shrunk");
  ring_comm_free(comm);
  CHECK_INT(ring_comm_close(next), RING_OK);
  expect_refusal(next, 0, &(ring_comm *){NULL}, "closed, aborted or shrunk");
  ring_comm_free(next);
}

static void test_refusals(void) {
  run_ranks(2, refuse, NULL);
}

/* ---- Ranks that leave, and ranks that are late ----------------------------------------------- */

static void leave_or_shrink(int rank, int size, void *shared) {
  int *arrived = shared, *left = arrived + 1;
  ring_comm *comm = open_rank(rank, size), *next;
  ranks_barrier(arrived, size);
  if (rank < 2) {
    while (ring_barrier(comm) == RING_OK) continue;
    if (rank == 0) ring_comm_abort(comm, NULL);
    if (rank == 1) CHECK(ring_comm_close(comm) != RING_OK);
    expect_refusal(comm, 0, &(ring_comm *){NULL}, "closed, aborted or shrunk");
    ranks_barrier(left, size);
    ring_comm_free(comm);
    return;
  }
  if (rank == 2) ring_comm_abort(comm, "rank 2 leaves");
  while (ring_barrier(comm) == RING_OK) continue;
  if (rank == 2) {
    ranks_barrier(left, size);
    ring_comm_free(comm);
    return;
  }
  await_count(left, 3);
  next = shrink(comm);
  CHECK_INT(ring_comm_size(next), size - 3);
  expect_sum(next, size - 3);
  close_rank(next);
  ring_comm_free(comm);
  ranks_barrier(left, size);
}

/* Those that end the communicator are gone, though their processes and their communicators are not. */
static void test_ranks_that_abort_or_close_are_gone(void) {
  RUN_RANKS(5, leave_or_shrink, (int[2]){0});
}

static void shrink_late(int rank, int size, void *shared) {
  int *arrived = shared, *over = arrived + 1;
  ring_comm *comm = open_rank(rank, size), *next = comm;
  ranks_barrier(arrived, size);
  if (rank == 2) {
    await_count(over, size - 1);
  } else {
    ring_error error;
    CHECK_INT(ring_comm_shrink(comm, 0.5, &next, &error), RING_TIMEOUT);
    CHECK(next == NULL);
    CHECK_CONTAINS(error.message, "shrink()");
    __sync_fetch_and_add(over, 1);
  }
  next = shrink(comm);
  CHECK_INT(ring_comm_size(next), size);
  expect_sum(next, size);
  close_rank(next);
  ring_comm_free(comm);
}

static void test_a_late_rank_is_awaited_and_a_shrink_is_tried_again(void) {
  RUN_RANKS(3, shrink_late, (int[2]){0});
}

/* ---- Whatever was made of a communicator ------------------------------------------------------ */

static void expect_orphan(ring_comm *comm, ring_status status) {
  CHECK_INT(status, RING_ABORTED);
  CHECK_CONTAINS(ring_comm_error(comm)->message, orphan);
  CHECK(!ring_comm_usable(comm));
}

static void orphan_children(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size), *half, *all;
  CHECK_INT(ring_comm_split(comm, rank % 2, 0, &half), RING_OK);
  CHECK_INT(ring_comm_split(half, 0, 0, &all), RING_OK);
  expect_sum(all, size / 2);
  ranks_barrier(shared, size);
  ring_comm *next = shrink(comm);
  ring_comm_free(comm); /* its place in the world outlives it */
  expect_orphan(half, ring_barrier(half));
  expect_orphan(all, ring_barrier(all));
  expect_sum(next, size);
  ring_comm_free(half);
  ring_comm_free(all);
  close_rank(next);
}

static void test_children_end(void) {
  RUN_RANKS(4, orphan_children, (int[2]){0});
}

static void orphan_a_child(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size), *half, *twin;
  CHECK_INT(ring_comm_split(comm, rank % 2, 0, &half), RING_OK);
  CHECK_INT(ring_comm_split(comm, 0, 0, &twin), RING_OK);
  ranks_barrier(shared, size);
  ring_comm *next = shrink(half);
  expect_sum(next, size / 2);
  expect_sum(twin, size);
  expect_sum(comm, size);
  close_rank(next);
  close_rank(twin);
  close_rank(comm);
  ring_comm_free(half);
}

/* What it was made of, and its siblings, go on. */
static void test_a_child_shrinks(void) {
  RUN_RANKS(4, orphan_a_child, (int[2]){0});
}

static void *shrink_beside(void *arg) {
  usleep(50000);
  return shrink(arg);
}

static void orphan_waits(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size), *child;
  ring_messages *messages;
  pthread_t thread;
  void *next;
  int32_t number = 0;
  CHECK_INT(ring_comm_split(comm, 0, 0, &child), RING_OK);
  CHECK_INT(ring_messages_open(comm, &messages), RING_OK);
  ranks_barrier(shared, size);
  CHECK_INT(pthread_create(&thread, NULL, shrink_beside, comm), 0);
  if (rank == 0)
    expect_orphan(child, ring_barrier(child)); /* no other rank is in it */
  else
    CHECK_INT(ring_messages_recv(messages, &number, 1, RING_INT32, 0, 3, NULL), RING_ABORTED);
  CHECK_INT(pthread_join(thread, &next), 0);
  CHECK_INT(ring_messages_send(messages, &number, 1, RING_INT32, 0, 3), RING_ABORTED);
  CHECK_CONTAINS(ring_messages_error(messages)->message, orphan);
  ring_messages_free(messages);
  ring_comm_free(child);
  ring_comm_free(comm);
  close_rank(next);
}

static void test_waits_of_children_and_messages_end(void) {
  RUN_RANKS(3, orphan_waits, (int[2]){0});
}

static void orphan_reducers(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_reducer *reducer;
  ring_submission *submission = NULL;
  double in = 1, out;
  CHECK_INT(ring_reducer_open(comm, NULL, &reducer), RING_OK);
  ranks_barrier(shared, size);
  ring_comm *next = shrink(comm);
  ring_operation operation = RING_OPERATION_INIT;
  operation.name = "x";
  operation.input = &in;
  operation.output = &out;
  operation.dtype = RING_FLOAT64;
  ring_status status = ring_reducer_submit(reducer, &operation, &submission);
  if (status == RING_OK) status = ring_submission_wait(submission);
  CHECK_INT(status, RING_ABORTED);
  CHECK_CONTAINS(submission != NULL ? ring_submission_error(submission)->message
                                    : ring_reducer_error(reducer)->message,
                 orphan);
  ring_submission_free(submission);
  ring_reducer_free(reducer);
  ring_comm_free(comm);
  close_rank(next);
}

static void test_reducers_end(void) {
  RUN_RANKS(3, orphan_reducers, (int[2]){0});
}

int main(void) {
  RUN(test_all_ranks_live);
  RUN(test_one_rank_shrinks_alone);
  RUN(test_refusals);
  RUN(test_ranks_that_abort_or_close_are_gone);
  RUN(test_a_late_rank_is_awaited_and_a_shrink_is_tried_again);
  RUN(test_children_end);
  RUN(test_a_child_shrinks);
  RUN(test_waits_of_children_and_messages_end);
  RUN(test_reducers_end);
  return 0;
}
