/* SPDX-License-Identifier: Apache-2.0
 *
 * The rank at fault when a rank stops while a communicator opens: in the first barrier, which only
 * some ranks pass, and in a split, whose child only some ranks open.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/comm_state.h"
#include "base/platform.h"
#include "check.h"
#include "engine/detector/stall.h"
#include "load.h"
#include "ranks.h"
#include "stopped.h"

/* Shared by the ranks of a test. */
typedef struct blame {
  stopped_state state;
  int stopped;           /* the rank that stops */
  int patience;          /* of all ranks but rank 0, seconds */
  int late;              /* the rank that comes after the stop */
  int root;              /* of the call behind the opening */
  bool resumes;          /* the stopped rank; then the root, which does not come, is at fault */
  bool together, shares; /* all are on one host, and share memory */
  int color;             /* of the rank that stops in a split */
  int served;            /* ranks that get the memory of their host before it stops */
  int asked, waiting, warned;
  char texts[RANKS_MAX][256];
} blame;

static void expect_timeout(int rank, ring_status status, const ring_error *error, int fault) {
  if (status != RING_TIMEOUT || error->rank != fault)
    fprintf(stderr, "rank %d: %s\n", rank, error->message);
  CHECK_INT(status, RING_TIMEOUT);
  CHECK_INT(error->rank, fault);
}

/* ---- All open ----------------------------------------------------------------------------- */

typedef struct opener {
  blame *shared;
  int rank, size;
} opener;

static void exchange(const opener *me, const char *mine, ring_exchange_put_fn put, void *sink) {
  strcpy(me->shared->texts[me->rank], mine);
  __sync_fetch_and_add(&me->shared->asked, 1);
  await_count(&me->shared->asked, me->size);
  for (int rank = 0; rank < me->size; rank++) put(sink, rank, me->shared->texts[rank]);
}

/* All ranks come to the exchange, and one rank stops behind it. */
static int exchange_and_stop(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const opener *me = arg;
  exchange(me, mine, put, sink);
  if (me->rank == me->shared->stopped) raise(SIGSTOP);
  return 0;
}

/* Rank 0 waits for ranks that wait for the stopped rank. These ranks have nothing to send to rank 0
 * before the stopped rank goes on, and have a link to it all the same. Rank 0 times out first, or
 * all ranks do at once. */
static void open_with_a_stopped_rank(int rank, int size, void *arg) {
  opener me = {arg, rank, size};
  ring_options options = rank_options(rank, size);
  ring_error error = {0};
  ring_comm *comm;
  options.timeout = rank == 0 ? 2 : me.shared->patience;
  options.shared_memory = RING_OFF;
  options.exchange = exchange_and_stop;
  options.exchange_arg = &me;
  pid_t process = rank == me.shared->stopped ? fork_stopped() : 0;
  if (process > 0) {
    watch_stopped(process, size - 1, &me.shared->state);
    return;
  }
  ring_status status = ring_comm_open(&options, &comm, &error);
  expect_timeout(rank, status, &error, me.shared->stopped);
  __sync_fetch_and_add(&me.shared->state.failed, 1);
}

static void blame_while_opening(int size, int stopped, int patience) {
  RUN_RANKS(size, open_with_a_stopped_rank, (blame){.stopped = stopped, .patience = patience});
}

static void test_a_rank_that_stops_while_all_open(void) {
  blame_while_opening(5, 2, 5);
  blame_while_opening(9, 4, 5);
}

static void test_a_rank_that_stops_while_all_time_out_at_once(void) {
  blame_while_opening(9, 4, 2);
}

/* ---- Some open ---------------------------------------------------------------------------- */

enum { LATE_US = 2500000 }; /* how long all have been opening when the late rank comes */

static opener *opening; /* of this process */

/* Stops one rank in the first barrier, in which all ranks but the late rank wait, and have sent and received what
 * they can without it: each has looked for SLICES times since it began to wait. */
static int stop_in_the_opening(void *unused) {
  enum { SLICES = 8 };
  static int slices;
  blame *shared = opening->shared;
  (void)unused;
  if (slices++ < SLICES) __sync_fetch_and_add(&shared->waiting, 1);
  bool all = *(volatile int *)&shared->waiting >= SLICES * (opening->size - 1);
  if (opening->rank == shared->stopped && all && shared->state.stopped == 0) raise(SIGSTOP);
  return 0;
}

static int exchange_and_be_late(void *arg, const char *mine, ring_exchange_put_fn put, void *sink) {
  const opener *me = arg;
  exchange(me, mine, put, sink);
  if (me->rank != me->shared->late) return 0;
  await_count(&me->shared->state.stopped, 1);
  usleep(LATE_US);
  return 0;
}

/* Counts warnings of rank 0, past the opening, that name the rank that keeps others in open(). */
static void count_warnings(void *arg, const char *message) {
  blame *shared = arg;
  if (strstr(message, "), which keeps other ranks in open()") == NULL) return;
  __sync_fetch_and_add(&shared->warned, 1);
}

static ring_options opener_options(opener *me) {
  static const char *hosts[RANKS_MAX];
  static char names[RANKS_MAX][16];
  ring_options options = rank_options(me->rank, me->size); /* with the token of this process */
  for (int rank = 0; rank < me->size; rank++) {
    snprintf(names[rank], sizeof names[rank], "127.0.0.%d", me->shared->together ? 1 : rank + 1);
    hosts[rank] = names[rank];
  }
  options.addresses = hosts;
  options.shared_memory = me->shared->shares ? RING_DEFAULT : RING_OFF;
  options.timeout = me->rank == 0 && me->shared->together ? 7 : 30;
  options.call_timeout = me->rank == 0 ? 4 * load_stretch(2.5) : 30;
  options.exchange = exchange_and_be_late;
  options.exchange_arg = me;
  options.interrupt = stop_in_the_opening;
  options.algorithms = "scatter:direct";
  if (me->rank == 0) options.warn_after = 0.8;
  options.log = count_warnings;
  options.log_arg = me->shared;
  return options;
}

/* Opens, and waits for the part of a root that never comes or that is kept in open(). */
static ring_status open_and_scatter(const opener *me, const ring_options *options,
                                    ring_error *error) {
  uint8_t part;
  ring_comm *comm;
  ring_status status = ring_comm_open(options, &comm, error);
  if (status != RING_OK) return status;
  if (me->rank == me->shared->root) {
    await_count(&me->shared->state.failed, me->size - 1);
  } else {
    CHECK(me->rank != 0 || comm->peers.peer[me->shared->root].link == NULL);
    status = ring_scatter(comm, NULL, &part, 1, RING_UINT8, me->shared->root);
    *error = *ring_comm_error(comm);
  }
  ring_comm_free(comm);
  return status;
}

/* Continues the stopped rank after a warning that its peers wait for it. */
static void continue_stopped(pid_t process, blame *shared) {
  int status;
  CHECK_INT(waitpid(process, &status, WUNTRACED), process);
  CHECK(WIFSTOPPED(status));
  __sync_fetch_and_add(&shared->state.stopped, 1);
  await_count(&shared->warned, 1);
  kill(process, SIGCONT);
  CHECK_INT(waitpid(process, &status, 0), process);
  CHECK_INT(status, 0);
}

/* A rank stops after it has sent some of its frames of the first barrier. Ranks that need no other
 * frame are past the barrier. They wait for the root, which needs another frame or never comes.
 * Rank 0, which has no link to the root, times out first. */
static void pass_a_stopped_rank(int rank, int size, void *arg) {
  blame *shared = arg;
  opener me = {shared, rank, size};
  ring_options options = opener_options(&me);
  ring_error error = {0};
  opening = &me;
  pid_t process = rank == shared->stopped ? fork_stopped() : 0;
  if (process > 0 && shared->resumes) {
    continue_stopped(process, shared);
    return;
  }
  if (process > 0) {
    watch_stopped(process, size - 1, &shared->state);
    return;
  }
  ring_status status = open_and_scatter(&me, &options, &error);
  if (rank == shared->root && shared->resumes)
    CHECK_INT(status, RING_OK);
  else
    expect_timeout(rank, status, &error, shared->resumes ? shared->root : shared->stopped);
  __sync_fetch_and_add(&shared->state.failed, 1);
  if (rank == shared->stopped) _exit(0);
}

static void blame_behind_the_opening(int size, blame scene) {
  blame *shared = shared_alloc(sizeof *shared);
  *shared = scene;
  run_ranks(size, pass_a_stopped_rank, shared);
  CHECK(scene.together || shared->warned > 0);
  shared_free(shared, sizeof *shared);
}

static void test_a_rank_that_stops_while_some_still_open(void) {
  blame_behind_the_opening(8, (blame){.stopped = 5, .late = 4, .root = 3});
}

/* Rank 0 has no link to any rank that opens, and receives reports of ranks that wait for the
 * root. */
static void test_a_rank_that_stops_while_ranks_without_links_open(void) {
  blame_behind_the_opening(16, (blame){.stopped = 1, .late = 14, .root = 5});
}

static void test_a_rank_that_kept_peers_in_open_is_not_blamed_later(void) {
  blame_behind_the_opening(8, (blame){.stopped = 5, .late = 4, .root = 3, .resumes = true});
}

/* Behind the barrier the ranks exchange whether they can share memory. Not all ranks come to the
 * exchange. */
static void test_a_rank_that_stops_while_some_exchange_what_they_share(void) {
  blame_behind_the_opening(8, (blame){.stopped = 5, .late = 4, .together = true});
  blame_behind_the_opening(8, (blame){.stopped = 5, .late = 4, .together = true, .shares = true});
}

static int to_serve = -1; /* of this process, before it stops */

int __real_ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length);
int __wrap_ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length);
int __wrap_ring_socket_send_fd(int fd, int descriptor, const void *bytes, size_t length) {
  if (to_serve-- == 0) raise(SIGSTOP);
  return __real_ring_socket_send_fd(fd, descriptor, bytes, length);
}

/* Before that exchange, the first rank of the host passes the memory to its peers, and stops. Ranks
 * that wait for the memory keep other ranks waiting. Some ranks may need nothing more of it to
 * open. */
static void wait_for_memory(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_error error = {0};
  ring_comm *comm;
  options.timeout = options.call_timeout = 2.5;
  options.shared_memory = RING_DEFAULT;
  pid_t process = rank == 0 ? fork_stopped() : 0;
  if (process > 0) {
    watch_stopped(process, size - 1, &shared->state);
    return;
  }
  if (rank == 0) to_serve = shared->served;
  ring_status status = ring_comm_open(&options, &comm, &error);
  if (status == RING_OK) {
    status = ring_barrier(comm);
    error = *ring_comm_error(comm);
    ring_comm_free(comm);
  }
  expect_timeout(rank, status, &error, 0);
  __sync_fetch_and_add(&shared->state.failed, 1);
}

static void test_a_rank_that_stops_while_it_passes_memory(void) {
  blame *shared = shared_alloc(sizeof *shared);
  for (int size = 5; size < 9; size += 3)
    for (int served = 0; served < size - 1; served += size - 2) {
      *shared = (blame){.served = served};
      run_ranks(size, wait_for_memory, shared);
    }
  shared_free(shared, sizeof *shared);
}

/* A rank past the opening has only passed on the suspect that keeps other ranks there. It withdraws
 * its report when its own call succeeds. After a failure its peers still need the report. */
static void test_a_rank_withdraws_what_it_passed_on(void) {
  ring_peers peers;
  ring_shm shm = {0};
  ring_engine engine = {.peers = &peers, .shm = &shm};
  const ring_task task = {.schedule = &ring_schedule_empty,
                          .call.collective = RING_COLLECTIVE_SCATTER};
  const ring_run run = {.engine = &engine, .task = &task};
  const ring_suspect suspect = {.rank = 2, .steps = 1, .state = RING_SUSPECT_OPENING};
  const int *suspects = &engine.search.report.count;
  CHECK_INT(ring_peers_init(&peers, 0, 4), RING_OK);
  engine.search.report = (ring_wait_report){.call = task.call, .count = 1, .suspects = {suspect}};
  ring_stall_end(&run, RING_TIMEOUT);
  CHECK_INT(*suspects, 1);
  ring_stall_end(&run, RING_OK);
  CHECK_INT(*suspects, 0);
  ring_peers_fini(&peers);
}

/* ---- Some split --------------------------------------------------------------------------- */

static int stopped_color;

static void stop_in_a_split(ring_comm *comm) {
  ring_comm *child;
  stop_in_the_next_call();
  ring_comm_split(comm, stopped_color, 0, &child);
}

/* Ranks pass the address of each rank on in a ring. Rank 2 comes last, and rank 0 has stopped
 * before it passes the address of rank 2 on to rank 1. So all ranks but rank 1 have the addresses,
 * and wait for rank 1 in the child. They time out first. */
static void split_behind_a_stopped_rank(int rank, int size, void *arg) {
  blame *shared = arg;
  ring_options options = rank_options(rank, size);
  ring_comm *comm, *child;
  stopped_color = shared->color;
  options.shared_memory = RING_OFF;
  options.algorithms = "allgather:ring";
  if (rank == 0) {
    be_stopped(&options, stop_in_a_split, &shared->state);
    return;
  }
  options.call_timeout = rank == 1 ? 30 : 3;
  comm = open_with(&options);
  if (rank == 2) await_count(&shared->state.stopped, 1);
  uint64_t begun = ring_platform_now();
  ring_status status = ring_comm_split(comm, 0, -rank, &child);
  CHECK((double)(ring_platform_now() - begun) / 1e9 < 10);
  ranks_expect(comm, status, RING_TIMEOUT, 0,
               "all wait for rank 0 (127.0.0.1), some still in the parent");
  __sync_fetch_and_add(&shared->state.failed, 1);
  ring_comm_free(comm);
}

static void blame_while_splitting(int size, int color) {
  RUN_RANKS(size, split_behind_a_stopped_rank, (blame){.color = color});
}

static void test_a_rank_that_stops_in_a_split(void) {
  blame_while_splitting(3, 0);
  blame_while_splitting(3, 1);
}

static void test_a_rank_that_stops_in_a_split_of_ranks_without_links(void) {
  blame_while_splitting(8, 0);
  blame_while_splitting(8, 1);
}

int main(void) {
  RUN(test_a_rank_that_stops_while_all_open);
  RUN(test_a_rank_that_stops_while_all_time_out_at_once);
  RUN(test_a_rank_that_stops_while_some_still_open);
  RUN(test_a_rank_that_stops_while_ranks_without_links_open);
  RUN(test_a_rank_that_kept_peers_in_open_is_not_blamed_later);
  RUN(test_a_rank_that_stops_while_some_exchange_what_they_share);
  RUN(test_a_rank_that_stops_while_it_passes_memory);
  RUN(test_a_rank_withdraws_what_it_passed_on);
  RUN(test_a_rank_that_stops_in_a_split);
  RUN(test_a_rank_that_stops_in_a_split_of_ranks_without_links);
  return 0;
}
