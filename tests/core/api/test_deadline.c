/* SPDX-License-Identifier: Apache-2.0
 *
 * Deadlines of calls: the rank that an error names when a rank stays away, comes too late, or
 * itself waits for another rank.
 */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

static void expect_timeout(ring_comm *comm, ring_status status, int fault, const char *text) {
  const ring_error *error = ring_comm_error(comm);
  CHECK_INT(status, RING_TIMEOUT);
  CHECK_INT(error->status, RING_TIMEOUT);
  CHECK_INT(error->rank, fault);
  CHECK_CONTAINS(error->message, text);
  CHECK(strstr(error->message, "waited 0.0 s") == NULL);
  CHECK_INT(ring_comm_usable(comm), 0);
  CHECK_INT(ring_barrier(comm), RING_TIMEOUT);
  CHECK_INT(ring_comm_close(comm), RING_TIMEOUT);
}

static ring_comm *open_patient(int rank, int size, double call_timeout, bool shares) {
  ring_options options = rank_options(rank, size);
  options.call_timeout = call_timeout;
  if (!shares) options.shared_memory = RING_OFF;
  return open_with(&options);
}

static void stay_away(int rank, int size, void *shared) {
  ring_comm *comm = open_patient(rank, size, 0.3, true);
  ring_status status = rank == 1 ? RING_OK : ring_barrier(comm);
  ranks_barrier(shared, size);
  if (rank != 1) expect_timeout(comm, status, 1, "for rank 1 (127.0.0.1; last");
  ring_comm_free(comm);
}

static void test_a_rank_that_stays_away(void) {
  RUN_RANKS(2, stay_away, (int[16]){0});
}

/* Rank 1 calls after its peers have timed out waiting for it and reported that. */
static void come_late(int rank, int size, void *shared) {
  ring_comm *comm = open_patient(rank, size, 0.4, true);
  if (rank == 1) ranks_barrier(shared, size);
  ring_status status = ring_barrier(comm);
  if (rank != 1) {
    ranks_barrier(shared, size);
    expect_timeout(comm, status, 1, "for rank 1 (127.0.0.1; last");
  } else {
    CHECK_INT(status, RING_ABORTED);
    CHECK_INT(ring_comm_error(comm)->rank, 1);
    CHECK_CONTAINS(ring_comm_error(comm)->message, "peers timed out waiting for this rank");
    CHECK_CONTAINS(ring_comm_error(comm)->message, "waited 0.");
  }
  ring_comm_free(comm);
}

static void test_a_rank_that_comes_late(void) {
  RUN_RANKS(3, come_late, (int[16]){0});
}

/* Rank 0 waits for rank 1, which has waited for rank 2 as long and reported that. */
static void wait_in_turn(int rank, int size, void *shared) {
  ring_comm *comm = open_patient(rank, size, rank == 0 ? 1 : 1.2, false);
  float x = 0;
  CHECK_INT(ring_barrier(comm), RING_OK);
  ring_status status = rank < 2 ? ring_recv(comm, &x, 1, RING_FLOAT32, rank + 1) : RING_OK;
  ranks_barrier(shared, size);
  if (rank < 2) expect_timeout(comm, status, 2, "for rank 2 (127.0.0.1; last");
  ring_comm_free(comm);
}

static void test_a_rank_that_waits_in_turn(void) {
  RUN_RANKS(3, wait_in_turn, (int[16]){0});
}

int main(void) {
  RUN(test_a_rank_that_stays_away);
  RUN(test_a_rank_that_comes_late);
  RUN(test_a_rank_that_waits_in_turn);
  return 0;
}
