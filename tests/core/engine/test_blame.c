/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank at fault when the awaited rank is not the cause. In shared memory the awaited rank may
 * itself wait for another rank, and so on. Over links, ranks may wait for each other in a circle. A
 * rank may be gone because it failed: peers with its report know the cause better than a peer that
 * cannot connect.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/platform.h"
#include "check.h"
#include "load.h"
#include "ranks.h"
#include "stopped.h"

/* Shared by the ranks of a test. */
typedef struct blame {
  int arrived, failed, asked;
  bool reports; /* the leaving rank sends a report */
  stopped_state state;
  int stopped; /* the rank that stops */
  const char *algorithms;
  const char *between; /* expected text about ranks between */
} blame;

/* ---- In shared memory --------------------------------------------------------------------- */

static void stop_after_a_call(ring_comm *comm) {
  CHECK_INT(ring_barrier(comm), RING_OK);
  raise(SIGSTOP);
}

/* Rank 0 waits in the barrier for rank 1, rank 1 in a reduction for rank 2, and rank 2 in another
 * reduction for rank 3, which has stopped. Only rank 0 times out soon. The reductions may go over
 * links. */
static void wait_in_a_chain(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  options.algorithms = shared->algorithms;
  if (rank == size - 1) {
    be_stopped(&options, stop_after_a_call, &shared->state);
    return;
  }
  options.call_timeout = rank == 0 ? 2 : 30;
  ring_comm *comm = open_with(&options);
  CHECK(comm->shm.formed);
  int64_t x = 1, y = 0;
  CHECK_INT(ring_barrier(comm), RING_OK);
  await_count(&shared->state.stopped, 1);
  uint64_t begun = ring_platform_now();
  ring_status status = RING_OK;
  for (int root = size - 2; root > 0 && status == RING_OK; root--)
    status = ring_reduce(comm, &x, &y, 1, RING_INT64, RING_SUM, root);
  if (status == RING_OK) CHECK_INT(rank, 0);
  if (status == RING_OK) status = ring_barrier(comm);
  CHECK((double)(ring_platform_now() - begun) / 1e9 < 10);
  ranks_expect(comm, status, RING_TIMEOUT, size - 1, "rank 0 waited 2.");
  if (shared->algorithms == NULL)
    CHECK_CONTAINS(ring_comm_error(comm)->message, "; waits for rank 2 in reduce(");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "; waits for rank 3 in reduce(");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 3 (127.0.0.1; last seen in barrier()");
  __sync_fetch_and_add(&shared->state.failed, 1);
  ring_comm_free(comm);
}

static void test_a_chain_of_waits(void) {
  RUN_RANKS(4, wait_in_a_chain, (blame){0});
}

static void test_a_chain_that_begins_in_shared_memory(void) {
  RUN_RANKS(4, wait_in_a_chain, (blame){.algorithms = "reduce:tree"});
}

static int64_t gathered[4][2543];

static ring_status gather_at_one(ring_comm *comm) {
  static int64_t mine[2543];
  return ring_gather(comm, mine, gathered, 2543, RING_INT64, 1);
}

static void stop_in_a_call(ring_comm *comm) {
  stop_in_the_next_call();
  gather_at_one(comm);
}

/* All ranks come to the call. Rank 3 stops in it before it sends its part, rank 1 waits for the
 * part, and ranks 0 and 2 wait for rank 1. Rank 0 comes last and times out soon. */
static void wait_for_a_stopped_participant(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  if (rank == size - 1) {
    be_stopped(&options, stop_in_a_call, &shared->state);
    return;
  }
  options.call_timeout = rank == 0 ? 1 : 30;
  ring_comm *comm = open_with(&options);
  CHECK(comm->shm.formed);
  if (rank < 2) await_count(&shared->state.stopped, 2 - rank);
  if (rank == 1) __sync_fetch_and_add(&shared->state.stopped, 1);
  ranks_expect(comm, gather_at_one(comm), RING_TIMEOUT, size - 1, "rank 0 waited 1.");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "for rank 1 (127.0.0.1; waits for rank 3 in ");
  __sync_fetch_and_add(&shared->state.failed, 1);
  ring_comm_free(comm);
}

static void test_a_rank_that_stops_inside_the_call(void) {
  RUN_RANKS(4, wait_for_a_stopped_participant, (blame){0});
}

enum { LARGE = 700000 };

/* Scatters from memory that the ranks share: a rank returns as soon as it has its part. */
static ring_status scatter_from_one(ring_comm *comm) {
  static uint8_t mine[LARGE];
  void *parts;
  CHECK_INT(ring_alloc(comm, (size_t)ring_comm_size(comm) * LARGE, &parts), RING_OK);
  ring_status status = ring_scatter(comm, parts, mine, LARGE, RING_UINT8, 1);
  ring_free(parts);
  return status;
}

static void stop_before_the_parts(ring_comm *comm) {
  stop_in_the_next_call();
  scatter_from_one(comm);
}

/* The last rank stops while it shows that it waits for rank 1. Then rank 1 comes, and waits for the
 * last rank. Rank 0 has its part, and waits for both in the next call. */
static void wait_for_a_circle(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  if (rank == size - 1) {
    be_stopped(&options, stop_before_the_parts, &shared->state);
    return;
  }
  options.call_timeout = rank == 0 ? 2 : 30;
  ring_comm *comm = open_with(&options);
  CHECK(comm->shm.formed);
  if (rank == 1) await_count(&shared->state.stopped, 1);
  ring_status status = scatter_from_one(comm);
  if (rank != 1) CHECK_INT(status, RING_OK);
  if (status == RING_OK) status = ring_barrier(comm);
  ranks_expect(comm, status, RING_TIMEOUT, size - 1, "rank 0 waited 2.");
  char circle[64];
  snprintf(circle, sizeof circle, "rank 1 (127.0.0.1; waits for rank %d in scatter(", size - 1);
  CHECK_CONTAINS(ring_comm_error(comm)->message, circle);
  snprintf(circle, sizeof circle, "rank %d (127.0.0.1; waits for rank 1 in scatter(", size - 1);
  CHECK_CONTAINS(ring_comm_error(comm)->message, circle);
  __sync_fetch_and_add(&shared->state.failed, 1);
  ring_comm_free(comm);
}

static void test_a_rank_that_stops_while_it_waits(void) {
  for (int size = 3; size <= 4; size++) {
    RUN_RANKS(size, wait_for_a_circle, (blame){0});
  }
}

/* ---- Over links --------------------------------------------------------------------------- */

enum { CIRCLE_COUNT = 20000 };

static void stop_before_a_circle(ring_comm *comm) {
  CHECK_INT(ring_barrier(comm), RING_OK);
  raise(SIGSTOP);
}

/* Ranks that exchange parts wait for each other, and only few of them for the stopped rank. At
 * first each rank suspects and reports its peers; in the end no rank suspects a waiting rank. The
 * rank before the stopped rank times out first: in a ring it is the farthest. */
static void wait_in_a_circle(int rank, int size, void *arg) {
  static int32_t x[CIRCLE_COUNT], y[CIRCLE_COUNT];
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  char suspects[64];
  options.shared_memory = RING_OFF;
  options.algorithms = shared->algorithms;
  if (rank == shared->stopped) {
    be_stopped(&options, stop_before_a_circle, &shared->state);
    return;
  }
  options.call_timeout = (rank + 1) % size == shared->stopped ? 3 : 30;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_barrier(comm), RING_OK);
  await_count(&shared->state.stopped, 1);
  ring_status status = ring_allreduce(comm, x, y, CIRCLE_COUNT, RING_INT32, RING_SUM);
  snprintf(suspects, sizeof suspects, " as call 2 for rank %d (127.0.0.1; last seen in ",
           shared->stopped);
  ranks_expect(comm, status, RING_TIMEOUT, shared->stopped, suspects);
  CHECK(strstr(ring_comm_error(comm)->message, "), rank") == NULL);
  if (shared->between != NULL) CHECK_CONTAINS(ring_comm_error(comm)->message, shared->between);
  __sync_fetch_and_add(&shared->state.failed, 1);
  ring_comm_free(comm);
}

static void blame_one_of_a_circle(int size, int stopped, const char *algorithms,
                                  const char *between) {
  RUN_RANKS(size, wait_in_a_circle,
            (blame){.stopped = stopped, .algorithms = algorithms, .between = between});
}

static void test_circles_of_ranks_that_all_have_links(void) {
  blame_one_of_a_circle(6, 4, "allreduce:halving", NULL);
}

static void test_circles_of_ranks_of_which_few_have_links(void) {
  blame_one_of_a_circle(13, 11, "allreduce:halving", NULL);
}

static void test_a_ring(void) {
  blame_one_of_a_circle(7, 3, "allreduce:ring", "), for which rank 1 waits, too");
}

enum { FLOOD = 8 << 20 };

static uint8_t flood[FLOOD];

/* A rank is stopped, and rank 0 times out waiting for it. The parts of rank 0 fill the link, so
 * that no report fits. The rank goes on, receives the parts, and finds the end of the link: its
 * error names the rank itself all the same. */
static void stop_with_a_full_link(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  int status;
  options.call_timeout = 2;
  options.shared_memory = RING_OFF;
  pid_t process = rank == 1 ? fork_stopped() : 0;
  if (process > 0) {
    CHECK_INT(waitpid(process, &status, WUNTRACED), process);
    CHECK(WIFSTOPPED(status));
    __sync_fetch_and_add(&shared->state.stopped, 1);
    await_count(&shared->state.failed, 1);
    kill(process, SIGCONT);
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK_INT(status, 0);
    return;
  }
  if (rank == 1) options.interrupt = stop_hook;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (rank == 0) await_count(&shared->state.stopped, 1);
  if (rank == 1) stop_in_the_next_call();
  ring_status failure = ring_broadcast(comm, flood, flood, FLOOD, RING_UINT8, 0);
  ranks_expect(comm, failure, rank == 0 ? RING_TIMEOUT : RING_ABORTED, 1, "rank 1 ");
  ring_comm_free(comm);
  __sync_fetch_and_add(&shared->state.failed, 1);
  if (rank == 1) _exit(0);
}

static void test_a_stopped_rank_with_a_full_link(void) {
  RUN_RANKS(2, stop_with_a_full_link, (blame){0});
}

/* Rank 0 is one call ahead of ranks 1 and 2, times out, and leaves. Only then rank 1 comes, and
 * waits for rank 2 until it finds the end of a link: it finds the report behind the frames that
 * rank 0 sent ahead. */
static void come_after_a_timeout(int rank, int size, void *arg) {
  enum { AHEAD = 1000 };
  blame *shared = arg;
  int64_t ahead[3 * AHEAD] = {0}, came[3 * AHEAD];
  ring_options options = rank_options(rank, size);
  options.call_timeout = rank == 0 ? 1 : 30;
  options.shared_memory = RING_OFF;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&shared->arrived, size);
  ring_status status = RING_OK;
  if (rank > 0) await_count(&shared->failed, rank);
  if (rank < 2) status = ring_gather(comm, ahead, came, 1, RING_INT64, 1);
  if (rank == 0) CHECK_INT(status, RING_OK);
  if (rank == 0) status = ring_alltoall(comm, ahead, came, AHEAD, RING_INT64);
  if (rank < 2) ranks_expect(comm, status, RING_TIMEOUT, 2, "rank 0 waited 1.");
  ring_comm_free(comm);
  __sync_fetch_and_add(&shared->failed, 1);
}

static void test_a_report_behind_frames_of_later_calls(void) {
  RUN_RANKS(3, come_after_a_timeout, (blame){0});
}

/* ---- Gone ranks --------------------------------------------------------------------------- */

/* After open() ranks have links at distances that are powers of two: of eight, FINDER has none to
 * GONE, and WITNESS has one to both. */
enum { SIZE = 8, GONE = 2, FINDER = 5, WITNESS = 1, PATIENT = 10 };

static blame *finding; /* set in the rank that cannot connect */
static int moments;

/* A rank that waits for a report polls nothing, 20 ms at a time. After PATIENT polls the witness is
 * asked to broadcast its failure, and the rank goes on when it has. */
int __real_poll(struct pollfd *entries, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds) {
  if (finding == NULL || count > 0) return __real_poll(entries, count, milliseconds);
  if (++moments == PATIENT && finding->reports) {
    __sync_fetch_and_add(&finding->asked, 1);
    await_count(&finding->failed, 1);
  }
  return __real_poll(entries, count, milliseconds);
}

static void be_the_witness(ring_comm *comm, blame *shared) {
  float x;
  await_count(&shared->asked, 1);
  ranks_expect(comm, ring_recv(comm, &x, 1, RING_FLOAT32, 0), RING_ABORTED, GONE, "no more data");
  __sync_fetch_and_add(&shared->failed, 1);
}

static void find_a_rank_gone(ring_comm *comm, blame *shared) {
  float x;
  CHECK(comm->peers.peer[GONE].link == NULL && comm->peers.peer[WITNESS].link != NULL);
  finding = shared;
  uint64_t begun = ring_platform_now();
  ring_status status = ring_recv(comm, &x, 1, RING_FLOAT32, GONE);
  double seconds = (double)(ring_platform_now() - begun) / 1e9;
  finding = NULL;
  if (shared->reports) {
    CHECK(moments >= PATIENT);
    ranks_expect(comm, status, RING_ABORTED, GONE, "no more data");
  } else {
    ranks_expect(comm, status, RING_PEER_LOST, GONE,
                 "rank 2 (127.0.0.1) is gone: nothing listens on its port ");
    CHECK_CONTAINS(ring_comm_error(comm)->message, "; this was found in message 1 from rank 2");
    CHECK(seconds < UNLOADED(3));
  }
}

/* Leaves, with or without a report to the ranks that have a link. */
static void leave(int rank, int size, blame *shared) {
  ring_options options = rank_options(rank, size);
  int status;
  pid_t process = fork();
  CHECK(process >= 0);
  if (process > 0) {
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK(shared->reports ? status == 0 : WIFSIGNALED(status));
    __sync_fetch_and_add(&shared->arrived, 1);
    return;
  }
  options.shared_memory = RING_OFF;
  ring_comm *comm = open_with(&options);
  await_count(&shared->arrived, size - 1);
  if (!shared->reports) raise(SIGKILL);
  ring_comm_abort(comm, "no more data");
  ring_comm_free(comm);
  _exit(0);
}

static void lose_a_rank_without_a_link(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  if (rank == GONE) {
    leave(rank, size, shared);
    return;
  }
  options.shared_memory = RING_OFF;
  ring_comm *comm = open_with(&options);
  ranks_barrier(&shared->arrived, size); /* with the leaving rank, once it is gone */
  if (rank == WITNESS && shared->reports) be_the_witness(comm, shared);
  if (rank == FINDER) find_a_rank_gone(comm, shared);
  __sync_fetch_and_add(&shared->arrived, 1);
  await_count(&shared->arrived, 2 * size - 1);
  ring_comm_free(comm);
}

static void test_peers_know_why_a_rank_is_gone(void) {
  RUN_RANKS(SIZE, lose_a_rank_without_a_link, (blame){.reports = true});
}

static void test_no_peer_knows_why_a_rank_is_gone(void) {
  RUN_RANKS(SIZE, lose_a_rank_without_a_link, (blame){0});
}

int main(void) {
  RUN(test_a_chain_of_waits);
  RUN(test_a_chain_that_begins_in_shared_memory);
  RUN(test_a_rank_that_stops_inside_the_call);
  RUN(test_a_rank_that_stops_while_it_waits);
  RUN(test_circles_of_ranks_that_all_have_links);
  RUN(test_circles_of_ranks_of_which_few_have_links);
  RUN(test_a_ring);
  RUN(test_a_stopped_rank_with_a_full_link);
  RUN(test_a_report_behind_frames_of_later_calls);
  RUN(test_peers_know_why_a_rank_is_gone);
  RUN(test_no_peer_knows_why_a_rank_is_gone);
  return 0;
}
