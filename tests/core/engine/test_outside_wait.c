/* SPDX-License-Identifier: Apache-2.0
 *
 * A wait outside of the links finds what keeps a call that does not move over links: a rank that ends, fails or is late. No MPI is needed
 * for it: here nothing moves at all.
 */
#include "engine/outside_wait.h"

#include <unistd.h>

#include "api/comm_state.h"
#include "check.h"
#include "ranks.h"

/* Waits in a call of `collective` until it fails, which breaks the communicator. */
static ring_status wait_outside(ring_comm *comm, ring_collective collective, double timeout,
                                ring_error *error) {
  const ring_call call = {.collective = (uint8_t)collective, .count = 1, .sequence = 1};
  ring_outside_wait outside;
  ring_wait wait;
  ring_status status = RING_OK;
  CHECK_INT(ring_outside_wait_init(&outside, &comm->native.engine), RING_OK);
  ring_wait_prepare(&wait, timeout, NULL, NULL);
  ring_outside_wait_record(&outside, &call);
  ring_outside_wait_begin(&outside, &call, NULL, &wait, error);
  while (status == RING_OK) {
    usleep(1000);
    status = ring_outside_wait_look(&outside);
  }
  ring_outside_wait_end(&outside, status);
  ring_outside_wait_fini(&outside);
  CHECK_INT(error->status, status);
  ring_comm_break(comm, error); /* as a call does that fails */
  return status;
}

static ring_comm *open_comm(int rank, int size) {
  const ring_options options = rank_options(rank, size);
  return open_with(&options);
}

/* The two that wait report to each other, so both find the one that does not. */
static void one_is_late(int rank, int size, void *shared) {
  ring_comm *comm = open_comm(rank, size);
  ring_error error;
  if (rank == 1) {
    await_count(shared, 2);
  } else {
    CHECK_INT(wait_outside(comm, RING_COLLECTIVE_ALLREDUCE, 2, &error), RING_TIMEOUT);
    CHECK_INT(error.rank, 1);
    CHECK_CONTAINS(error.message, "for rank 1 (127.0.0.1; not waiting)");
    __sync_fetch_and_add((int *)shared, 1);
    await_count(shared, 2);
  }
  ring_comm_free(comm);
}

/* Either of two ranks may be the late one, while the other one is past the call. */
static void one_of_two_is_late(int rank, int size, void *shared) {
  ring_comm *comm = open_comm(rank, size);
  ring_error error;
  if (rank == 0) {
    CHECK_INT(wait_outside(comm, RING_COLLECTIVE_GATHER, 1, &error), RING_TIMEOUT);
    CHECK_INT(error.rank, -1);
    CHECK_CONTAINS(error.message, "rank 1 (127.0.0.1; not waiting)");
    CHECK_CONTAINS(error.message, "rank 2 (127.0.0.1; not waiting)");
    __sync_fetch_and_add((int *)shared, 1);
  }
  await_count(shared, 1);
  ring_comm_free(comm);
}

static void one_ends(int rank, int size, void *shared) {
  ring_comm *comm = open_comm(rank, size);
  ring_error error;
  __sync_fetch_and_add((int *)shared, 1);
  await_count(shared, size);
  if (rank == 1) _exit(0);
  CHECK_INT(wait_outside(comm, RING_COLLECTIVE_ALLREDUCE, 20, &error), RING_PEER_LOST);
  CHECK_INT(error.rank, 1);
  CHECK_CONTAINS(error.message, "rank 1 (127.0.0.1) was lost during allreduce(");
  ring_comm_free(comm);
}

static void one_aborts(int rank, int size, void *shared) {
  ring_comm *comm = open_comm(rank, size);
  ring_error error;
  __sync_fetch_and_add((int *)shared, 1);
  await_count(shared, size);
  if (rank == 1) {
    ring_comm_abort(comm, "enough");
  } else {
    CHECK_INT(wait_outside(comm, RING_COLLECTIVE_ALLREDUCE, 20, &error), RING_ABORTED);
    CHECK_INT(error.rank, 1);
    CHECK_CONTAINS(error.message, "aborted the communicator: enough");
  }
  ring_comm_free(comm);
}

/* Ranks that wait for each other in different calls. */
static void calls_differ(int rank, int size, void *shared) {
  ring_comm *comm = open_comm(rank, size);
  ring_error error;
  (void)shared;
  CHECK_INT(wait_outside(comm, rank == 1 ? RING_COLLECTIVE_BARRIER : RING_COLLECTIVE_ALLREDUCE, 20,
                         &error),
            RING_MISMATCH);
  CHECK_CONTAINS(error.message, "barrier()");
  ring_comm_free(comm);
}

int main(void) {
  RUN_RANKS(3, one_is_late, (int[1]){0});
  RUN_RANKS(3, one_of_two_is_late, (int[1]){0});
  RUN_RANKS(3, one_ends, (int[1]){0});
  RUN_RANKS(3, one_aborts, (int[1]){0});
  RUN_RANKS(2, calls_differ, (int[1]){0});
  return 0;
}
