/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is said to be at fault when the rank that one waits for is not the cause: in shared memory that
 * one may itself wait for another, and so on; over links ranks may wait for each other in a circle, and
 * one may be gone because it failed, which others know better than who finds that nothing listens there.
 */
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "comm.h"
#include "platform.h"
#include "ranks.h"

/* The test's ranks meet in this. */
typedef struct blame {
  int met, failed, asked;
  bool says; /* the rank that goes */
  const char *algorithms;
  int shared_memory, stopped; /* as an option; the rank that stops */
  int color;                  /* of that one in a split */
  char texts[RANKS_MAX][256]; /* of those that meet by an exchange */
} blame;

static void wait_for(const int *counter, int least) {
  for (int tries = 0; *(const volatile int *)counter < least; tries++) {
    CHECK(tries < 20000);
    usleep(1000);
  }
}

/* ---- In shared memory --------------------------------------------------------------------- */

static bool stopping; /* the process of this rank, the next time that it waits for long */

static int stop_if_stopping(void *unused) {
  (void)unused;
  if (stopping) raise(SIGSTOP);
  stopping = false;
  return 0;
}

static void stop_after_a_call(ring_comm *comm) {
  CHECK_INT(ring_barrier(comm), RING_OK);
  raise(SIGSTOP);
}

/* Forks a process that ends with this one even where it has stopped. */
static pid_t fork_rank(void) {
  pid_t process = fork();
  CHECK(process >= 0);
  if (process == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return process;
}

/* Waits until the process of a rank has stopped, and kills it when the others have failed. */
static void watch_stopped(pid_t process, int size, blame *shared) {
  int status;
  CHECK_INT(waitpid(process, &status, WUNTRACED), process);
  CHECK(WIFSTOPPED(status));
  __sync_fetch_and_add(&shared->met, 1);
  wait_for(&shared->failed, size - 1);
  kill(process, SIGKILL);
  CHECK_INT(waitpid(process, &status, 0), process);
}

/* Runs a rank in a process of its own, which stops. */
static void be_stopped(int rank, int size, blame *shared, void (*stop)(ring_comm *)) {
  ring_options options = rank_options(rank, size); /* with the token of this process */
  ring_comm *comm;
  pid_t process = fork_rank();
  if (process == 0) {
    options.interrupt = stop_if_stopping;
    options.algorithms = shared->algorithms;
    options.shared_memory = shared->shared_memory;
    CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
    stop(comm);
    _exit(1);
  }
  watch_stopped(process, size, shared);
}

/* Rank 0 waits in the barrier for rank 1, which waits in a reduction for rank 2, which waits in another
 * one for rank 3, which has stopped. Only rank 0 gives up soon. The reductions may go over links. */
static void wait_in_a_chain(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  if (rank == size - 1) {
    be_stopped(rank, size, shared, stop_after_a_call);
    return;
  }
  options.call_timeout = rank == 0 ? 2 : 30;
  options.algorithms = shared->algorithms;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK(comm->share.formed);
  int64_t x = 1, y = 0;
  CHECK_INT(ring_barrier(comm), RING_OK);
  wait_for(&shared->met, 1);
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
  CHECK_CONTAINS(ring_comm_error(comm)->message, "rank 3 (127.0.0.1; last heard in barrier()");
  __sync_fetch_and_add(&shared->failed, 1);
  ring_comm_free(comm);
}

static void test_a_chain_of_waits(void) {
  blame *shared = shared_alloc(sizeof *shared);
  run_ranks(4, wait_in_a_chain, shared);
  shared_free(shared, sizeof *shared);
}

static void test_a_chain_that_begins_in_shared_memory(void) {
  blame *shared = shared_alloc(sizeof *shared);
  shared->algorithms = "reduce:tree";
  run_ranks(4, wait_in_a_chain, shared);
  shared_free(shared, sizeof *shared);
}

static int64_t gathered[4][2543];

static ring_status gather_at_one(ring_comm *comm) {
  static int64_t mine[2543];
  return ring_gather(comm, mine, gathered, 2543, RING_INT64, 1);
}

static void stop_in_a_call(ring_comm *comm) {
  stopping = true;
  gather_at_one(comm);
}

/* All come to the call. Rank 3 stops in it before it has handed over its part, rank 1 waits for that, and
 * the others for rank 1. Rank 0 comes last and gives up soon. */
static void wait_for_who_has_come(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  if (rank == size - 1) {
    be_stopped(rank, size, shared, stop_in_a_call);
    return;
  }
  options.call_timeout = rank == 0 ? 1 : 30;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK(comm->share.formed);
  if (rank < 2) wait_for(&shared->met, 2 - rank);
  if (rank == 1) __sync_fetch_and_add(&shared->met, 1);
  ranks_expect(comm, gather_at_one(comm), RING_TIMEOUT, size - 1, "rank 0 waited 1.");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "for rank 1 (127.0.0.1; waits for rank 3 in ");
  __sync_fetch_and_add(&shared->failed, 1);
  ring_comm_free(comm);
}

static void test_who_has_come_and_does_not_go_on(void) {
  blame *shared = shared_alloc(sizeof *shared);
  run_ranks(4, wait_for_who_has_come, shared);
  shared_free(shared, sizeof *shared);
}

/* ---- Over links --------------------------------------------------------------------------- */

enum { CIRCLE_COUNT = 20000 };

static void stop_before_a_circle(ring_comm *comm) {
  CHECK_INT(ring_barrier(comm), RING_OK);
  raise(SIGSTOP);
}

/* Ranks that exchange parts wait for each other, and only few of them for the one that has stopped. At
 * first all suspect all for whom they wait, and tell that each other: in the end none of it is left. The
 * rank before the one that has stopped gives up first, which in a ring is the farthest. */
static void wait_in_a_circle(int rank, int size, void *arg) {
  static int32_t x[CIRCLE_COUNT], y[CIRCLE_COUNT];
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  char suspects[64];
  ring_comm *comm;
  if (rank == shared->stopped) {
    be_stopped(rank, size, shared, stop_before_a_circle);
    return;
  }
  options.call_timeout = (rank + 1) % size == shared->stopped ? 3 : 30;
  options.shared_memory = -1;
  options.algorithms = shared->algorithms;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK_INT(ring_barrier(comm), RING_OK);
  wait_for(&shared->met, 1);
  ring_status status = ring_allreduce(comm, x, y, CIRCLE_COUNT, RING_INT32, RING_SUM);
  snprintf(suspects, sizeof suspects, " as call 2 for rank %d (127.0.0.1; last heard in ",
           shared->stopped);
  ranks_expect(comm, status, RING_TIMEOUT, shared->stopped, suspects);
  CHECK(strstr(ring_comm_error(comm)->message, "), rank") == NULL);
  __sync_fetch_and_add(&shared->failed, 1);
  ring_comm_free(comm);
}

static void blame_one_of_a_circle(int size, int stopped, const char *algorithms) {
  blame *shared = shared_alloc(sizeof *shared);
  *shared = (blame){.stopped = stopped, .algorithms = algorithms, .shared_memory = -1};
  run_ranks(size, wait_in_a_circle, shared);
  shared_free(shared, sizeof *shared);
}

static void test_circles_of_ranks_that_all_have_links(void) {
  blame_one_of_a_circle(6, 4, "allreduce:halving");
}

static void test_circles_of_ranks_of_which_few_have_links(void) {
  blame_one_of_a_circle(13, 11, "allreduce:halving");
}

static void test_a_ring(void) {
  blame_one_of_a_circle(7, 3, "allreduce:ring");
}

enum { FLOOD = 8 << 20 };

static uint8_t flood[FLOOD];

/* A rank is stopped, and given up by one whose parts fill its link so that nothing can be said any more.
 * It goes on, takes these, and finds the end: it is told all the same that it is the one at fault. */
static void stop_with_a_full_link(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  int status;
  options.call_timeout = 2;
  options.shared_memory = -1;
  pid_t process = rank == 1 ? fork_rank() : 0;
  if (process > 0) {
    CHECK_INT(waitpid(process, &status, WUNTRACED), process);
    CHECK(WIFSTOPPED(status));
    __sync_fetch_and_add(&shared->met, 1);
    wait_for(&shared->failed, 1);
    kill(process, SIGCONT);
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK_INT(status, 0);
    return;
  }
  if (rank == 1) options.interrupt = stop_if_stopping;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (rank == 0) wait_for(&shared->met, 1);
  stopping = rank == 1;
  ring_status failure = ring_broadcast(comm, flood, flood, FLOOD, RING_UINT8, 0);
  ranks_expect(comm, failure, rank == 0 ? RING_TIMEOUT : RING_ABORTED, 1, "rank 1 ");
  ring_comm_free(comm);
  __sync_fetch_and_add(&shared->failed, 1);
  if (rank == 1) _exit(0);
}

static void test_a_stopped_rank_with_a_full_link(void) {
  blame *shared = shared_alloc(sizeof *shared);
  run_ranks(2, stop_with_a_full_link, shared);
  shared_free(shared, sizeof *shared);
}

/* Rank 0 is one call ahead of the others, gives up, and goes. Rank 1 comes only then, and waits for rank 2
 * until it finds the end: behind what rank 0 has sent ahead it finds why. */
static void come_after_one_that_gave_up(int rank, int size, void *arg) {
  enum { AHEAD = 1000 };
  blame *shared = arg;
  int64_t ahead[3 * AHEAD] = {0}, came[3 * AHEAD];
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  options.call_timeout = rank == 0 ? 1 : 30;
  options.shared_memory = -1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  meet_ranks(&shared->met, size);
  ring_status status = RING_OK;
  if (rank > 0) wait_for(&shared->failed, rank);
  if (rank < 2) status = ring_gather(comm, ahead, came, 1, RING_INT64, 1);
  if (rank == 0) CHECK_INT(status, RING_OK);
  if (rank == 0) status = ring_alltoall(comm, ahead, came, AHEAD, RING_INT64);
  if (rank < 2) ranks_expect(comm, status, RING_TIMEOUT, 2, "rank 0 waited 1.");
  ring_comm_free(comm);
  __sync_fetch_and_add(&shared->failed, 1);
}

static void test_why_is_behind_what_was_sent_ahead(void) {
  blame *shared = shared_alloc(sizeof *shared);
  run_ranks(3, come_after_one_that_gave_up, shared);
  shared_free(shared, sizeof *shared);
}

/* ---- While opening ------------------------------------------------------------------------ */

typedef struct opener {
  blame *shared;
  int rank, size;
} opener;

/* All come to the exchange, and one of them no farther. */
static int exchange_and_stop(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const opener *me = arg;
  strcpy(me->shared->texts[me->rank], mine);
  __sync_fetch_and_add(&me->shared->asked, 1);
  wait_for(&me->shared->asked, me->size);
  for (int rank = 0; rank < me->size; rank++) put(sink, rank, me->shared->texts[rank]);
  if (me->rank == me->shared->stopped) raise(SIGSTOP);
  return 0;
}

/* Rank 0 waits for ranks that wait for the one that has stopped, and have nothing to send to rank 0 before
 * they are let go: they have a link with it all the same. It gives up first. */
static void open_with_one_that_stops(int rank, int size, void *arg) {
  opener me = {arg, rank, size};
  ring_options options = rank_options(rank, size);
  ring_error error = {0};
  ring_comm *comm;
  options.timeout = rank == 0 ? 2 : 5;
  options.shared_memory = -1;
  options.exchange = exchange_and_stop;
  options.exchange_arg = &me;
  pid_t process = rank == me.shared->stopped ? fork_rank() : 0;
  if (process > 0) {
    watch_stopped(process, size, me.shared);
    return;
  }
  ring_status status = ring_comm_open(&options, &comm, &error);
  if (error.rank != me.shared->stopped) fprintf(stderr, "rank %d: %s\n", rank, error.message);
  CHECK_INT(status, RING_TIMEOUT);
  CHECK_INT(error.rank, me.shared->stopped);
  __sync_fetch_and_add(&me.shared->failed, 1);
}

static void blame_while_opening(int size, int stopped) {
  blame *shared = shared_alloc(sizeof *shared);
  shared->stopped = stopped;
  run_ranks(size, open_with_one_that_stops, shared);
  shared_free(shared, sizeof *shared);
}

static void test_one_that_stops_while_the_others_open(void) {
  blame_while_opening(5, 2);
  blame_while_opening(9, 4);
}

/* ---- While splitting ---------------------------------------------------------------------- */

static int stopped_color;

static void stop_in_a_split(ring_comm *comm) {
  ring_comm *child;
  stopping = true;
  ring_comm_split(comm, stopped_color, 0, &child);
}

/* Ranks pass on in a ring where each one is. Rank 2 comes last, and rank 0 has stopped when it was to pass
 * that on to rank 1: so all but rank 1 know it, and wait for rank 1 in the child. They give up first. */
static void split_behind_one_that_stops(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  stopped_color = shared->color;
  if (rank == 0) {
    be_stopped(rank, size, shared, stop_in_a_split);
    return;
  }
  options.call_timeout = rank == 1 ? 30 : 3;
  options.shared_memory = -1;
  options.algorithms = shared->algorithms;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  if (rank == 2) wait_for(&shared->met, 1);
  uint64_t begun = ring_platform_now();
  ring_status status = ring_comm_split(comm, 0, -rank, &child);
  CHECK((double)(ring_platform_now() - begun) / 1e9 < 10);
  ranks_expect(comm, status, RING_TIMEOUT, 0,
               "all wait for rank 0 (127.0.0.1), some still in the parent");
  __sync_fetch_and_add(&shared->failed, 1);
  ring_comm_free(comm);
}

static void blame_while_splitting(int size, int color) {
  blame *shared = shared_alloc(sizeof *shared);
  *shared = (blame){.algorithms = "allgather:ring", .shared_memory = -1, .color = color};
  run_ranks(size, split_behind_one_that_stops, shared);
  shared_free(shared, sizeof *shared);
}

static void test_one_that_stops_in_a_split(void) {
  blame_while_splitting(3, 0);
  blame_while_splitting(3, 1);
}

static void test_one_that_stops_in_a_split_of_ranks_without_links(void) {
  blame_while_splitting(8, 0);
  blame_while_splitting(8, 1);
}

/* After open() ranks have links at distances that are powers of two: of eight, FINDER has none to GONE,
 * and WITNESS has one to both. */
enum { SIZE = 8, GONE = 2, FINDER = 5, WITNESS = 1, PATIENT = 10 };

static blame *finding; /* of the rank that finds that nothing listens */
static int moments;

/* A rank that waits for what others say sleeps on nothing, 20 ms at a time. After some of that
 * the witness is asked, and it goes on when that one has spoken. */
int __real_poll(struct pollfd *entries, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds);
int __wrap_poll(struct pollfd *entries, nfds_t count, int milliseconds) {
  if (finding == NULL || count > 0) return __real_poll(entries, count, milliseconds);
  if (++moments == PATIENT && finding->says) {
    __sync_fetch_and_add(&finding->asked, 1);
    wait_for(&finding->failed, 1);
  }
  return __real_poll(entries, count, milliseconds);
}

static void be_the_witness(ring_comm *comm, blame *shared) {
  float x;
  wait_for(&shared->asked, 1);
  ranks_expect(comm, ring_recv(comm, &x, 1, RING_FLOAT32, 0), RING_ABORTED, GONE, "no more data");
  __sync_fetch_and_add(&shared->failed, 1);
}

static void find_one_gone(ring_comm *comm, blame *shared) {
  float x;
  CHECK(comm->peers.peer[GONE].link == NULL && comm->peers.peer[WITNESS].link != NULL);
  finding = shared;
  uint64_t begun = ring_platform_now();
  ring_status status = ring_recv(comm, &x, 1, RING_FLOAT32, GONE);
  double seconds = (double)(ring_platform_now() - begun) / 1e9;
  finding = NULL;
  if (shared->says) {
    CHECK(moments >= PATIENT);
    ranks_expect(comm, status, RING_ABORTED, GONE, "no more data");
  } else {
    ranks_expect(comm, status, RING_PEER_LOST, GONE,
                 "rank 2 (127.0.0.1) is gone: nothing listens on its port ");
    CHECK_CONTAINS(ring_comm_error(comm)->message, "; this was found in message 1 from rank 2");
    CHECK(seconds < 3);
  }
}

/* Goes: with a word to those that have a link, or without one. */
static void go(int rank, int size, blame *shared) {
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  int status;
  pid_t process = fork();
  CHECK(process >= 0);
  if (process > 0) {
    CHECK_INT(waitpid(process, &status, 0), process);
    CHECK(shared->says ? status == 0 : WIFSIGNALED(status));
    __sync_fetch_and_add(&shared->met, 1);
    return;
  }
  options.shared_memory = -1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  wait_for(&shared->met, size - 1);
  if (!shared->says) raise(SIGKILL);
  ring_comm_abort(comm, "no more data");
  ring_comm_free(comm);
  _exit(0);
}

static void know_better(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm;
  if (rank == GONE) {
    go(rank, size, shared);
    return;
  }
  options.shared_memory = -1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  meet_ranks(&shared->met, size); /* with who goes, when it has gone */
  if (rank == WITNESS && shared->says) be_the_witness(comm, shared);
  if (rank == FINDER) find_one_gone(comm, shared);
  __sync_fetch_and_add(&shared->met, 1);
  wait_for(&shared->met, 2 * size - 1);
  ring_comm_free(comm);
}

static void test_others_know_why_one_is_gone(void) {
  blame *shared = shared_alloc(sizeof *shared);
  shared->says = true;
  run_ranks(SIZE, know_better, shared);
  shared_free(shared, sizeof *shared);
}

static void test_nobody_knows_why_one_is_gone(void) {
  blame *shared = shared_alloc(sizeof *shared);
  run_ranks(SIZE, know_better, shared);
  shared_free(shared, sizeof *shared);
}

int main(void) {
  RUN(test_a_chain_of_waits);
  RUN(test_a_chain_that_begins_in_shared_memory);
  RUN(test_who_has_come_and_does_not_go_on);
  RUN(test_circles_of_ranks_that_all_have_links);
  RUN(test_circles_of_ranks_of_which_few_have_links);
  RUN(test_a_ring);
  RUN(test_a_stopped_rank_with_a_full_link);
  RUN(test_why_is_behind_what_was_sent_ahead);
  RUN(test_one_that_stops_while_the_others_open);
  RUN(test_one_that_stops_in_a_split);
  RUN(test_one_that_stops_in_a_split_of_ranks_without_links);
  RUN(test_others_know_why_one_is_gone);
  RUN(test_nobody_knows_why_one_is_gone);
  return 0;
}
