/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that learns of a lost rank in one communicator and aborts another names the lost rank there, not itself.
 * Errors of a child of split() name the ranks of the communicator that was opened.
 */
#include <unistd.h>

#include "check.h"
#include "ranks.h"
#include "reducers.h"
#include "sparkring_messages.h"

typedef struct progress {
  int arrived, aborted;
} progress;

/* Rank 2 waits outside of calls until rank 1 has aborted. */
static void expect_loss_of(ring_comm *comm, int lost, const char *text, progress *of) {
  await_count(&of->aborted, 1);
  ranks_expect(comm, ring_barrier(comm), RING_PEER_LOST, lost, text);
}

static void abort_after(ring_comm *comm, progress *of) {
  ring_comm_abort(comm, "left by an error");
  __sync_fetch_and_add(&of->aborted, 1);
}

/* ---- Messages ------------------------------------------------------------------------------ */

static void lose_in_messages(int rank, int size, void *shared) {
  progress *of = shared;
  ring_comm *comm = open_rank(rank, size);
  ring_messages *messages;
  uint8_t byte = 0;
  CHECK_INT(ring_messages_open(comm, &messages), RING_OK);
  if (rank == 0) CHECK_INT(ring_messages_send(messages, &byte, 1, RING_UINT8, 1, 0), RING_OK);
  if (rank == 1) CHECK_INT(ring_messages_recv(messages, &byte, 1, RING_UINT8, 0, 0, NULL), RING_OK);
  ranks_barrier(&of->arrived, size);
  if (rank == 0) _exit(0);
  if (rank == 1) {
    CHECK_INT(ring_messages_recv(messages, &byte, 1, RING_UINT8, 0, 0, NULL), RING_PEER_LOST);
    abort_after(comm, of);
  } else {
    expect_loss_of(comm, 0, "rank 0 (127.0.0.1)", of);
  }
  ring_messages_free(messages);
  ring_comm_free(comm);
}

static void test_an_abort_after_a_loss_in_messages(void) {
  RUN_RANKS(3, lose_in_messages, (progress){0});
}

/* ---- Reducers ------------------------------------------------------------------------------ */

/* Rank 2 submits nothing after the loss, so rank 1 alone learns of it. */
static void lose_in_reducer(int rank, int size, void *shared) {
  progress *of = shared;
  ring_comm *comm = open_rank(rank, size);
  ring_reducer *reducer = reducer_of(comm, NULL);
  const int64_t count = 1;
  float number = 1;
  const ring_operation operation = sum_of("x", &number, &count);
  finish_well(submit(reducer, &operation));
  ranks_barrier(&of->arrived, size);
  if (rank == 0) _exit(0);
  if (rank == 1) {
    finish_with(submit(reducer, &operation), RING_PEER_LOST, "rank 0 (127.0.0.1)");
    abort_after(comm, of);
  } else {
    expect_loss_of(comm, 0, "rank 0 (127.0.0.1)", of);
  }
  ring_reducer_free(reducer);
  ring_comm_free(comm);
}

static void test_an_abort_after_a_loss_in_a_reducer(void) {
  RUN_RANKS(3, lose_in_reducer, (progress){0});
}

/* ---- Split --------------------------------------------------------------------------------- */

/* The child has ranks 2 and 1, in this order. */
static void lose_in_child(int rank, int size, void *shared) {
  progress *of = shared;
  ring_comm *comm = open_rank(rank, size), *child;
  CHECK_INT(ring_comm_split(comm, rank == 0 ? -1 : 0, -rank, &child), RING_OK);
  ranks_barrier(&of->arrived, size);
  if (rank == 2) _exit(0);
  if (rank == 1) {
    ranks_expect(child, ring_barrier(child), RING_PEER_LOST, 0, "rank 0 (127.0.0.1, world rank 2)");
    abort_after(comm, of);
  } else {
    expect_loss_of(comm, 2, "rank 2 (127.0.0.1)", of);
  }
  ring_comm_free(child);
  ring_comm_free(comm);
}

static void test_an_abort_after_a_loss_in_a_child(void) {
  RUN_RANKS(3, lose_in_child, (progress){0});
}

int main(void) {
  RUN(test_an_abort_after_a_loss_in_messages);
  RUN(test_an_abort_after_a_loss_in_a_reducer);
  RUN(test_an_abort_after_a_loss_in_a_child);
  return 0;
}
