/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks whose calls differ: every rank reports the mismatch, in the call, in the request, or at the latest
 * when it closes.
 */
#include "check.h"
#include "ranks.h"

typedef struct mismatch {
  int which;
  int opened;
} mismatch;

static void mismatch_one(ring_comm *comm, void *shared) {
  mismatch *mismatch = shared;
  int which = mismatch->which, rank = ring_comm_rank(comm);
  ranks_barrier(&mismatch->opened, ring_comm_size(comm));
  float x[64] = {0}, y[256] = {0}, z[256] = {0};
  const size_t counts_v[] = {1, 2, 3, 4}, other_counts[] = {2, 1, 3, 4};
  int odd = rank == 2;
  ring_status status = RING_OK;
  switch (which) {
  case 0:
    status = ring_allreduce(comm, x, x, odd ? 7 : 64, RING_FLOAT32, RING_SUM);
    break;
  case 1:
    status = ring_allreduce(comm, x, x, 64, odd ? RING_INT32 : RING_FLOAT32, RING_SUM);
    break;
  case 2:
    status = ring_allreduce(comm, x, x, 64, RING_FLOAT32, odd ? RING_MAX : RING_SUM);
    break;
  case 3:
    status = odd ? ring_barrier(comm) : ring_allgather(comm, x, y, 64, RING_FLOAT32);
    break;
  case 4:
    status = ring_allreduce(comm, x, x, odd ? 0 : 64, RING_FLOAT32, RING_SUM);
    break;
  case 5:
    status = odd ? ring_comm_close(comm) : ring_barrier(comm);
    break;
  case 6:
    status = odd ? ring_reduce_scatter(comm, y, x, 64, RING_FLOAT32, RING_SUM)
                 : ring_alltoall(comm, z, y, 64, RING_FLOAT32);
    break;
  case 7:
    status = ring_allgatherv(comm, x, y, odd ? other_counts : counts_v, RING_FLOAT32);
    break;
  }
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 2 called");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "as call 1");
  CHECK_INT(ring_barrier(comm), RING_MISMATCH);
  CHECK(!ring_comm_usable(comm));
  ring_comm_free(comm);
  exit(0);
}

static void test_mismatch_on_every_rank(void) {
  for (int which = 0; which <= 7; which++) RUN_COMMS(4, mismatch_one, (mismatch){.which = which});
}

/* Of six ranks that double, those that have a partner wait for it alone. The frame that shows that
 * rank 5 has gone another way lies on a link that nobody reads. */
static void close_while_others_double(int rank, int size, void *shared) {
  ring_options options = rank_options(rank, size);
  float x = 1;
  options.algorithms = "allreduce:doubling";
  options.call_timeout = 10;
  ring_comm *comm = open_with(&options);
  ranks_barrier(shared, size);
  ring_status status =
      rank == 5 ? ring_comm_close(comm) : ring_allreduce(comm, &x, &x, 1, RING_FLOAT32, RING_SUM);
  CHECK_INT(status, RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 5 called close() as call 1");
  ring_comm_free(comm);
}

static void test_mismatch_on_an_idle_link(void) {
  RUN_RANKS(6, close_while_others_double, (int){0});
}

/* Rank 1 sends what rank 2 never receives. That is found when they close, and by rank 2 alone; but no
 * other has closed then. */
static void send_in_vain(int rank, int size, void *shared) {
  int x = 0;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(shared, size);
  if (rank == 1) CHECK_INT(ring_send(comm, &x, 1, RING_INT32, 2), RING_OK);
  CHECK_INT(ring_comm_close(comm), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "message 1 from rank 1 (count 1, int32)");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 2 called close()");
  ring_comm_free(comm);
}

/* Each rank takes itself for the root, which waits for nobody. */
static void all_be_root(int rank, int size, void *shared) {
  int x = 0, *arrived = shared;
  ring_comm *comm = open_rank(rank, size);
  ranks_barrier(&arrived[0], size);
  CHECK_INT(ring_broadcast(comm, &x, &x, 1, RING_INT32, rank), RING_OK);
  ranks_barrier(&arrived[1], size);
  CHECK_INT(ring_comm_close(comm), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "called broadcast(count 1, int32, root ");
  ring_comm_free(comm);
}

static void test_close_finds_what_differs(void) {
  RUN_RANKS(4, send_in_vain, (int){0});
  RUN_RANKS(4, all_be_root, (int[2]){0});
}

/* Ranks that start different things. */
static void start_differently(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_request *request;
  float x[4] = {0};
  ranks_barrier(shared, size);
  CHECK_INT(ring_allreduce_start(comm, x, x, rank == 0 ? 3 : 4, RING_FLOAT32, RING_SUM, &request),
            RING_OK);
  CHECK_INT(ring_request_wait(request), RING_MISMATCH);
  CHECK_CONTAINS(ring_request_error(request)->message, "allreduce(count 3, float32, sum)");
  CHECK_CONTAINS(ring_request_error(request)->message, "allreduce(count 4, float32, sum)");
  CHECK_INT(ring_comm_error(comm)->status, RING_OK); /* no call has failed */
  CHECK_INT(ring_comm_close(comm), RING_MISMATCH);
  CHECK_INT(ring_comm_error(comm)->status, RING_MISMATCH);
  ring_request_free(request);
  ring_comm_free(comm);
}

static void test_mismatch_of_requests(void) {
  RUN_RANKS(2, start_differently, (int){0});
}

int main(void) {
  RUN(test_mismatch_on_every_rank);
  RUN(test_mismatch_on_an_idle_link);
  RUN(test_close_finds_what_differs);
  RUN(test_mismatch_of_requests);
  return 0;
}
