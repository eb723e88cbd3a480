/* SPDX-License-Identifier: Apache-2.0
 *
 * Warnings of waits: their time, their thread, and the ranks that they name. Wait reports, and
 * mismatches that they show.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/platform.h"
#include "check.h"
#include "load.h"
#include "ranks.h"

#define WARNINGS_MAX 16

/* The warnings in the log. */
typedef struct warnings {
  int count;
  pthread_t thread; /* of the latest warning */
  char text[WARNINGS_MAX][1024];
} warnings;

static void record(void *arg, const char *message) {
  warnings *log = arg;
  CHECK(log->count < WARNINGS_MAX);
  snprintf(log->text[log->count], sizeof log->text[0], "%s", message);
  log->thread = pthread_self();
  log->count++;
}

/* Checks that one of the warnings contains `part`. Later warnings depend on the speed of the
 * machine. */
static void check_logged(const warnings *log, const char *part) {
  for (int i = 0; i < log->count; i++)
    if (strstr(log->text[i], part) != NULL) return;
  CHECK(log->count > 0);
  CHECK_CONTAINS(log->text[log->count - 1], part);
}

static ring_options logging_options(int rank, int size, double warn_after, warnings *log) {
  ring_options options = rank_options(rank, size);
  *log = (warnings){0};
  options.warn_after = warn_after;
  options.log = record;
  options.log_arg = log;
  return options;
}

static ring_comm *open_logging(int rank, int size, double warn_after, warnings *log) {
  ring_options options = logging_options(rank, size, warn_after, log);
  return open_with(&options);
}

static void end(ring_comm *comm) {
  close_rank(comm);
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Rank 1 comes 0.9 s late: the other rank logs warnings after 0.2, 0.4 and 0.8 s. */
static void come_late(int rank, int size, void *unused) {
  (void)unused;
  warnings log;
  float x = 1;
  ring_comm *comm = open_logging(rank, size, 0.2, &log);
  CHECK_INT(ring_barrier(comm), RING_OK);
  log.count = 0;
  if (rank == 1) usleep(900000);
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_FLOAT32, RING_SUM), RING_OK);
  if (rank != 1) {
    CHECK(log.count >= 2 && log.count <= 5);
    CHECK(pthread_equal(log.thread, pthread_self()));
    CHECK_CONTAINS(log.text[0], "in allreduce(count 1, float32, sum) as call 2 for:");
    CHECK_CONTAINS(log.text[0], "rank 1 (127.0.0.1; last ");
    CHECK_CONTAINS(log.text[0], "in barrier() as call 1");
  }
  end(comm);
}

static void test_a_late_rank_is_named(void) {
  run_ranks(2, come_late, NULL);
}

static void stay_silent(int rank, int size, void *unused) {
  (void)unused;
  warnings log;
  ring_comm *comm = open_logging(rank, size, -1, &log);
  if (rank == 1) usleep(300000);
  CHECK_INT(ring_barrier(comm), RING_OK);
  CHECK_INT(log.count, 0);
  end(comm);
}

static void test_a_negative_time_is_never(void) {
  run_ranks(2, stay_silent, NULL);
}

/* The helper thread runs the request; the thread that waits for it logs the warning. */
static void start_and_wait(int rank, int size, void *unused) {
  (void)unused;
  warnings log;
  ring_request *request;
  ring_comm *comm = open_logging(rank, size, 0.2, &log);
  log.count = 0;
  if (rank == 1) usleep(900000);
  CHECK_INT(ring_barrier_start(comm, &request), RING_OK);
  usleep(100000); /* the helper has begun it */
  if (rank != 1) CHECK_INT(log.count, 0);
  CHECK_INT(ring_request_wait(request), RING_OK);
  ring_request_free(request);
  if (rank != 1) {
    CHECK(log.count >= 1);
    CHECK(pthread_equal(log.thread, pthread_self()));
    CHECK_CONTAINS(log.text[0], "in barrier() as call 1 for: rank 1");
  }
  end(comm);
}

static void test_requests_warn_the_waiting_thread(void) {
  run_ranks(2, start_and_wait, NULL);
}

/* A child uses the log of its parent. */
static void split_and_wait(int rank, int size, void *unused) {
  (void)unused;
  warnings log;
  ring_comm *child, *comm = open_logging(rank, size, 0.2, &log);
  CHECK_INT(ring_comm_split(comm, 0, 0, &child), RING_OK);
  log.count = 0;
  if (rank == 1) usleep(900000);
  CHECK_INT(ring_barrier(child), RING_OK);
  if (rank != 1) CHECK(log.count >= 1);
  end(child);
  end(comm);
}

static void test_children_use_the_log_of_their_parent(void) {
  run_ranks(2, split_and_wait, NULL);
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* Rank 1 comes at once, rank 0 later, and rank 2 last. */
static void open_late(int rank, int size, void *unused) {
  (void)unused;
  warnings log;
  ring_options options = logging_options(rank, size, 0.2, &log);
  usleep(rank == 0 ? 600000 : rank == 2 ? 1800000 : 0);
  ring_comm *comm = open_with(&options);
  if (rank == 0)
    check_logged(&log, "s in open(): 2 of 3 ranks have joined; missing: rank 2 (127.0.0.1)");
  if (rank == 1) {
    CHECK(log.count >= 2);
    CHECK_CONTAINS(log.text[0], "for rank 0, which it looks for on 127.0.0.1 (ports ");
    check_logged(&log, "it has joined rank 0 (127.0.0.1), which waits for other");
  }
  end(comm);
}

static void test_opening_names_missing_ranks(void) {
  run_ranks(3, open_late, NULL);
}

static void test_the_variable(void) {
  ring_options options = rank_options(0, 1);
  ring_comm *comm;
  ring_error error;
  CHECK_INT(setenv("SPARKRING_WARN_AFTER", "soon", 1), 0);
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message,
                 "SPARKRING_WARN_AFTER is \"soon\", which is not a number of seconds");
  CHECK_INT(setenv("SPARKRING_WARN_AFTER", "0", 1), 0);
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_OK);
  ring_comm_free(comm);
  CHECK_INT(unsetenv("SPARKRING_WARN_AFTER"), 0);
  options.warn_after = 1e300;
  CHECK_INT(ring_comm_open(&options, &comm, &error), RING_INVALID);
  CHECK_CONTAINS(error.message, "warn_after is 1e+300: it must be less than 1e9 seconds");
}

/* ---- The search --------------------------------------------------------------------------- */

/* Over links: calls in shared memory send no wait reports. */
static ring_comm *open_linked(int rank, int size, double call_timeout, const char *algorithms) {
  ring_options options = rank_options(rank, size);
  options.call_timeout = call_timeout;
  options.shared_memory = RING_OFF;
  options.algorithms = algorithms;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_barrier(comm), RING_OK);
  return comm;
}

static void expect(ring_comm *comm, ring_status status, ring_status wanted, int fault,
                   const char *text) {
  const ring_error *error = ring_comm_error(comm);
  if (status != wanted) fprintf(stderr, "rank %d: %s\n", ring_comm_rank(comm), error->message);
  CHECK_INT(status, wanted);
  if (fault >= 0) CHECK_INT(error->rank, fault);
  CHECK_CONTAINS(error->message, text);
  ring_comm_free(comm);
}

/* In a ring each rank waits for the rank before it. All ranks name the missing rank. */
static void leave_the_ring(int rank, int size, void *shared) {
  float x[64] = {0};
  ring_comm *comm = open_linked(rank, size, 2.5, "allreduce:ring");
  ring_status status = RING_TIMEOUT;
  if (rank != 2) status = ring_allreduce(comm, x, x, 64, RING_FLOAT32, RING_SUM);
  ranks_barrier(shared, size);
  if (rank != 2)
    expect(comm, status, RING_TIMEOUT, 2, "rank 2 (127.0.0.1; last seen in ");
  else
    ring_comm_free(comm);
}

static void test_all_name_the_missing_rank(void) {
  RUN_RANKS(5, leave_the_ring, (int[16]){0});
}

typedef ring_status (*calls)(ring_comm *comm, int rank);

typedef struct disagreement {
  int arrived[16];
  calls call;
} disagreement;

/* All ranks get RING_MISMATCH, long before the deadline. */
static void disagree(int rank, int size, void *arg) {
  disagreement *about = arg;
  ring_comm *comm = open_linked(rank, size, 60, NULL);
  double begun = seconds();
  ring_status status = about->call(comm, rank);
  CHECK(seconds() - begun < UNLOADED(20));
  ranks_barrier(about->arrived, size);
  expect(comm, status, RING_MISMATCH, -1, "the ranks made different calls: rank ");
}

static void check_disagreement(int size, calls call) {
  RUN_RANKS(size, disagree, (disagreement){.call = call});
}

/* Rank 3 waits for a rank that has nothing to send it. */
static ring_status take_another_root(ring_comm *comm, int rank) {
  float x[10] = {0};
  ring_status status = ring_broadcast(comm, x, x, 10, RING_FLOAT32, rank == 3 ? 1 : 0);
  return status == RING_OK ? ring_barrier(comm) : status;
}

/* Rank 1 waits for a message that rank 0 does not send, and all other ranks wait for rank 1. */
static ring_status receive_instead(ring_comm *comm, int rank) {
  float x = 0;
  if (rank == 1) return ring_recv(comm, &x, 1, RING_FLOAT32, 0);
  return ring_allreduce(comm, &x, &x, 1, RING_FLOAT32, RING_SUM);
}

/* A child in the tree waits for its parent's message. */
static ring_status receive_from_root(ring_comm *comm, int rank) {
  float x = 0;
  if (rank == 1) return ring_recv(comm, &x, 1, RING_FLOAT32, 0);
  ring_status status = ring_reduce(comm, &x, &x, 1, RING_FLOAT32, RING_SUM, 0);
  return status == RING_OK ? ring_barrier(comm) : status;
}

/* Both ranks wait, and neither sends. */
static ring_status receive_both(ring_comm *comm, int rank) {
  float x = 0;
  return ring_recv(comm, &x, 1, RING_FLOAT32, 1 - rank);
}

static void test_mismatches_without_a_frame_to_compare(void) {
  check_disagreement(4, take_another_root);
  check_disagreement(3, receive_instead);
  check_disagreement(3, receive_from_root);
  check_disagreement(2, receive_both);
}

/* Wait reports lie before, between and behind frames of all lengths. They neither delay nor change
 * a frame, and counters do not count them. */
static void wait_and_go_on(int rank, int size, void *unused) {
  (void)unused;
  enum { MOST = 300000 };
  static float x[MOST];
  ring_comm *comm = open_linked(rank, size, 60, NULL);
  ring_counters before, after;
  ring_comm_counters(comm, -1, &before);
  for (int round = 0; round < 4; round++) {
    size_t count = round == 0 ? 0 : round == 1 ? 3 : round == 2 ? 5000 : MOST;
    for (size_t i = 0; i < count; i++) x[i] = (float)(rank + 1);
    if (rank == round % size) usleep(1300000);
    CHECK_INT(ring_allreduce(comm, x, x, count, RING_FLOAT32, RING_SUM), RING_OK);
    for (size_t i = 0; i < count; i++) CHECK(x[i] == (float)(size * (size + 1) / 2));
  }
  ring_comm_counters(comm, -1, &after);
  CHECK_INT(after.bytes_sent - before.bytes_sent, after.bytes_received - before.bytes_received);
  CHECK_INT(after.messages_sent - before.messages_sent,
            after.messages_received - before.messages_received);
  if (rank == 1) usleep(1300000);
  end(comm);
}

static void test_wait_reports_come_between_frames(void) {
  run_ranks(3, wait_and_go_on, NULL);
}

/* ---- Stopped ------------------------------------------------------------------------------ */

typedef struct stopped {
  int arrived[16];
  pid_t pid;
  bool shares, inside;
} stopped;

static void wake_later(pid_t pid, double seconds) {
  if (fork() != 0) return;
  usleep((useconds_t)(seconds * 1e6));
  kill(pid, SIGCONT);
  _exit(0);
}

/* Rank 1 is stopped before its call or in it, and goes on after its peers have timed out. By then
 * it has received their parts of up to two calls, so that these two calls may succeed. */
static void stop_and_go_on(int rank, int size, void *arg) {
  stopped *plan = arg;
  ring_options options = rank_options(rank, size);
  static float x[1000];
  options.call_timeout = 2;
  if (!plan->shares) options.shared_memory = RING_OFF;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_barrier(comm), RING_OK);
  ring_status status = RING_OK;
  if (rank == 1) {
    wake_later(getpid(), 4.5);
    if (!plan->inside) raise(SIGSTOP);
    plan->pid = getpid();
  } else if (plan->inside) {
    while (*(volatile pid_t *)&plan->pid == 0) usleep(1000);
    usleep(300000);
    if (rank == 0) kill(plan->pid, SIGSTOP);
    usleep(100000);
  }
  uint64_t begun = ring_platform_now();
  for (int i = 0; i < 3 && status == RING_OK; i++)
    status = ring_allreduce(comm, x, x, 1000, RING_FLOAT32, RING_SUM);
  if (rank != 1) CHECK((double)(ring_platform_now() - begun) / 1e9 < options.call_timeout + 1);
  ranks_barrier(plan->arrived, size);
  if (rank == 1)
    expect(comm, status, RING_ABORTED, 1, "timed out waiting for this rank");
  else
    expect(comm, status, RING_TIMEOUT, 1, "for rank 1 (127.0.0.1; ");
  while (rank == 1 && waitpid(-1, NULL, 0) > 0) continue;
}

static void test_a_rank_that_was_stopped(void) {
  for (int kind = 0; kind < 4; kind++) {
    RUN_RANKS(3, stop_and_go_on, (stopped){.shares = kind % 2 == 0, .inside = kind / 2 != 0});
  }
}

int main(void) {
  RUN(test_a_late_rank_is_named);
  RUN(test_a_negative_time_is_never);
  RUN(test_requests_warn_the_waiting_thread);
  RUN(test_children_use_the_log_of_their_parent);
  RUN(test_opening_names_missing_ranks);
  RUN(test_the_variable);
  RUN(test_all_name_the_missing_rank);
  RUN(test_mismatches_without_a_frame_to_compare);
  RUN(test_wait_reports_come_between_frames);
  RUN(test_a_rank_that_was_stopped);
  return 0;
}
