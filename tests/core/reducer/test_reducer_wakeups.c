/* SPDX-License-Identifier: Apache-2.0
 *
 * A reducer in every interleaving of its threads: threads that wait and run cycles, threads that
 * submit, and the progress thread. No wake-up is lost: every wait returns.
 */
#include "interleavings.h"
#include "reducer/cycle.h"
#include "reducers.h"

static struct {
  ring_comm *comm;
  ring_reducer *reducer;
} now;

static const int64_t count = 1;

/* ---- Steps -------------------------------------------------------------------------------- */

static void open_alone(void) {
  now.comm = open_rank(0, 1);
  now.reducer = reducer_of(now.comm, NULL);
}

static void end(void) {
  interleavings_end();
  ring_reducer_free(now.reducer);
  close_rank(now.comm);
}

/* Submits, and waits unless the reducer has failed. */
static void sum(const char *name) {
  float number = 1;
  ring_submission *submission;
  const ring_operation operation = sum_of(name, &number, &count);
  if (ring_reducer_submit(now.reducer, &operation, &submission) != RING_OK) return;
  ring_status status = ring_submission_wait(submission);
  CHECK(status == RING_OK || status == RING_ABORTED);
  ring_submission_free(submission);
}

static void sum_of_name(void *name) {
  sum(name);
}

static void sum_twice(void *name) {
  sum(name);
  sum(name);
}

/* ---- Scenarios ---------------------------------------------------------------------------- */

static char first[] = "first", second[] = "second";

static void sums_in_threads(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(sum_of_name, first);
  interleavings_start(sum_of_name, second);
  sum("third");
  interleavings_join();
  end();
}

static void sums_in_turn(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(sum_twice, first);
  sum("second");
  interleavings_join();
  end();
}

/* Nothing waits: the progress thread runs it. */
static void submit_and_close(void *unused) {
  (void)unused;
  float number = 1;
  open_alone();
  interleavings_begin();
  const ring_operation operation = sum_of(first, &number, &count);
  ring_submission *submission = submit(now.reducer, &operation);
  CHECK_INT(ring_reducer_close(now.reducer), RING_OK);
  CHECK_INT(ring_submission_wait(submission), RING_OK);
  ring_submission_free(submission);
  end();
}

static void join_beside(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(sum_of_name, first);
  CHECK_INT(ring_reducer_join(now.reducer, NULL), RING_OK);
  interleavings_join();
  end();
}

static void abort_beside(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(sum_twice, first);
  interleavings_start(sum_of_name, second);
  ring_reducer_abort(now.reducer, "planned");
  interleavings_join();
  end();
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_waits_end(void) {
  EXPLORE(sums_in_threads, 1);
  EXPLORE(sums_in_turn, 2);
  EXPLORE(submit_and_close, 2);
  EXPLORE(join_beside, 2);
  EXPLORE(abort_beside, 2);
}

int main(int argc, char **argv) {
  interleavings_configure(argc, argv);
  RUN(test_waits_end);
  return 0;
}
