/* SPDX-License-Identifier: Apache-2.0
 *
 * Nobody waits in the dark: what the log is told, when, on which thread, and whom it names.
 */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

#define HEARD_MAX 16

/* What the log was told. */
typedef struct heard {
  int count;
  pthread_t thread; /* of the last one */
  char text[HEARD_MAX][1024];
} heard;

static void hear(void *arg, const char *message) {
  heard *log = arg;
  CHECK(log->count < HEARD_MAX);
  snprintf(log->text[log->count], sizeof log->text[0], "%s", message);
  log->thread = pthread_self();
  log->count++;
}

static ring_options hearing_options(int rank, int size, double warn_after, heard *log) {
  ring_options options = rank_options(rank, size);
  *log = (heard){0};
  options.warn_after = warn_after;
  options.log = hear;
  options.log_arg = log;
  return options;
}

static ring_comm *open_hearing(int rank, int size, double warn_after, heard *log) {
  ring_options options = hearing_options(rank, size, warn_after, log);
  ring_comm *comm;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  return comm;
}

static void end(ring_comm *comm) {
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

/* ---- Calls -------------------------------------------------------------------------------- */

/* Rank 1 comes 0.9 s late: the others are told after 0.2, 0.4 and 0.8 s. */
static void come_late(int rank, int size, void *unused) {
  (void)unused;
  heard log;
  float x = 1;
  ring_comm *comm = open_hearing(rank, size, 0.2, &log);
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
  heard log;
  ring_comm *comm = open_hearing(rank, size, -1, &log);
  if (rank == 1) usleep(300000);
  CHECK_INT(ring_barrier(comm), RING_OK);
  CHECK_INT(log.count, 0);
  end(comm);
}

static void test_a_negative_time_is_never(void) {
  run_ranks(2, stay_silent, NULL);
}

/* The helper thread runs the request; this one is told. */
static void start_and_wait(int rank, int size, void *unused) {
  (void)unused;
  heard log;
  ring_request *request;
  ring_comm *comm = open_hearing(rank, size, 0.2, &log);
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

static void test_requests_tell_who_waits(void) {
  run_ranks(2, start_and_wait, NULL);
}

/* A child takes over the log of its parent. */
static void split_and_wait(int rank, int size, void *unused) {
  (void)unused;
  heard log;
  ring_comm *child, *comm = open_hearing(rank, size, 0.2, &log);
  CHECK_INT(ring_comm_split(comm, 0, 0, &child), RING_OK);
  log.count = 0;
  if (rank == 1) usleep(500000);
  CHECK_INT(ring_barrier(child), RING_OK);
  if (rank != 1) CHECK(log.count >= 1);
  end(child);
  end(comm);
}

static void test_children_take_the_log_over(void) {
  run_ranks(2, split_and_wait, NULL);
}

int main(void) {
  RUN(test_a_late_rank_is_named);
  RUN(test_a_negative_time_is_never);
  RUN(test_requests_tell_who_waits);
  RUN(test_children_take_the_log_over);
  return 0;
}
