/* SPDX-License-Identifier: Apache-2.0
 *
 * How a reducer ends: ranks close early, leave, free, abort, are killed, interrupted or forked.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reducers.h"

static void try_early_close(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  float value = 1;
  ring_submission *refused;
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  if (ring_comm_rank(comm) != 1) {
    finish_with(submit(reducer, &operation), RING_MISMATCH, "rank 1 (127.0.0.1) has closed");
    CHECK_INT(ring_reducer_submit(reducer, &operation, &refused), RING_MISMATCH);
  }
  end_reducer(reducer);
}

static void test_close_before_the_others_have_finished(void) {
  run_comms(3, try_early_close, NULL);
}

/* Rank 1 leaves both reducers, and closes the first one, while rank 0 waits in the second one. */
static void try_leave(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  float value = 1;
  ring_reducer *first = reducer_of(comm, NULL), *second = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  if (ring_comm_rank(comm) == 1) {
    CHECK_INT(ring_reducer_leave(first), RING_OK);
    CHECK_INT(ring_reducer_leave(second), RING_OK);
    CHECK_INT(ring_reducer_leave(second), RING_OK);
    refuse(second, &operation, RING_INVALID, "the reducer is closed");
  } else {
    finish_with(submit(second, &operation), RING_MISMATCH, "rank 1 (127.0.0.1) has closed");
  }
  end_reducer(first);
  end_reducer(second);
}

static void test_ranks_leave_several_reducers(void) {
  run_comms(2, try_leave, NULL);
}

/* Closing without waiting first. */
static void try_close_waits(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  float values[20];
  ring_submission *submissions[20];
  ring_reducer *reducer = reducer_of(comm, NULL);
  for (int i = 0; i < 20; i++) {
    char name[8];
    snprintf(name, sizeof name, "%d", i);
    values[i] = 1;
    ring_operation operation = sum_of(name, &values[i], &one);
    submissions[i] = submit(reducer, &operation);
  }
  CHECK_INT(ring_reducer_close(reducer), RING_OK);
  ring_reducer_free(reducer);
  for (int i = 0; i < 20; i++) {
    CHECK(values[i] == (float)ring_comm_size(comm));
    finish_well(submissions[i]);
  }
}

static void test_close_waits_for_submissions(void) {
  run_comms(3, try_close_waits, NULL);
}

static void run_free(int rank, int size, void *shared) {
  static const int64_t one = 1;
  float value = 1;
  ring_comm *comm = open_rank(rank, size);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  ranks_barrier(shared, size);
  if (rank > 0) {
    ring_submission *submission = submit(reducer, &operation);
    if (rank == 2) ring_reducer_free(reducer);
    finish_with(submission, RING_ABORTED, "freed its reducer without closing it");
    if (rank == 1) ring_reducer_free(reducer);
  } else {
    usleep(200000);
    ring_reducer_free(reducer);
  }
  ring_comm_free(comm);
}

static void test_free_aborts(void) {
  int *arrived = shared_alloc(sizeof *arrived);
  run_ranks(3, run_free, arrived);
  shared_free(arrived, sizeof *arrived);
}

/* Rank 0 aborts while its thread is in a cycle that rank 1 enters later, and that ends well. */
static void try_abort_in_a_cycle(ring_comm *comm, void *unused) {
  (void)unused;
  static const int64_t one = 1;
  int rank = ring_comm_rank(comm);
  float value = 1;
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of(rank == 0 ? "left" : "right", &value, &one);
  if (rank == 1) usleep(40000);
  ring_submission *submission = submit(reducer, &operation);
  if (rank == 0) {
    usleep(20000);
    ring_reducer_abort(reducer, "a reason");
  }
  finish_with(submission, RING_ABORTED, "a reason");
  ring_reducer_free(reducer);
}

static void test_abort_in_a_cycle(void) {
  run_comms(2, try_abort_in_a_cycle, NULL);
}

/* Rank 2 is killed among cycles; the others have submissions in flight. */
static void run_doomed(int rank, int size, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  ring_comm *comm = open_rank(rank, size);
  ring_reducer *reducer = reducer_of(comm, NULL);
  for (int i = 0;; i++) {
    float x = 1, y = 1;
    ring_operation first = sum_of("x", &x, &one), second = sum_of("y", &y, &one);
    if (rank == 2 && i == 30) _exit(0);
    ring_submission *submissions[2] = {submit(reducer, &first), submit(reducer, &second)};
    if (ring_submission_wait(submissions[1]) == RING_OK) {
      finish_well(submissions[0]);
      finish_well(submissions[1]);
      continue;
    }
    for (int j = 0; j < 2; j++) {
      CHECK_INT(ring_submission_wait(submissions[j]), RING_PEER_LOST);
      CHECK_INT(ring_submission_error(submissions[j])->rank, 2);
      finish_with(submissions[j], RING_PEER_LOST, "rank 2");
    }
    CHECK_INT(ring_reducer_submit(reducer, &first, &submissions[0]), RING_PEER_LOST);
    CHECK_INT(ring_reducer_close(reducer), RING_PEER_LOST);
    break;
  }
  ring_reducer_free(reducer);
  ring_comm_free(comm);
}

static void test_lost_rank_fails_everything_in_flight(void) {
  run_ranks(3, run_doomed, NULL);
}

static int interrupts(void *arg) {
  return *(const int *)arg;
}

static void run_interrupted(int rank, int size, void *shared) {
  static const int64_t one = 1;
  static int now;
  float value = 1;
  ring_options options = rank_options(rank, size);
  options.interrupt = interrupts;
  options.interrupt_arg = &now;
  ring_comm *comm = open_with(&options);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  if (rank == 0) {
    now = 1;
    finish_with(submit(reducer, &operation), RING_ABORTED, "rank 0 was interrupted");
  }
  ranks_barrier(shared, size);
  if (rank == 1) finish_with(submit(reducer, &operation), RING_ABORTED, "rank 0 was interrupted");
  ring_reducer_free(reducer);
  ring_comm_free(comm);
}

static void test_interrupt_ends_a_wait(void) {
  int *arrived = shared_alloc(sizeof *arrived);
  run_ranks(2, run_interrupted, arrived);
  shared_free(arrived, sizeof *arrived);
}

static void try_fork(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  float value = 1;
  int status;
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  ring_submission *submission = submit(reducer, &operation), *refused;
  pid_t child = fork_for(20);
  if (child == 0) {
    bool refuses = ring_reducer_submit(reducer, &operation, &refused) == RING_INVALID &&
                   ring_reducer_close(reducer) == RING_INVALID;
    ring_submission_free(submission);
    ring_reducer_free(reducer);
    _exit(refuses ? 0 : 1);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  finish_well(submission);
  CHECK(value == (float)ring_comm_size(comm));
  end_reducer(reducer);
}

static void test_forked_children_may_only_free(void) {
  run_comms(2, try_fork, NULL);
}

int main(void) {
  RUN(test_close_before_the_others_have_finished);
  RUN(test_ranks_leave_several_reducers);
  RUN(test_close_waits_for_submissions);
  RUN(test_free_aborts);
  RUN(test_abort_in_a_cycle);
  RUN(test_lost_rank_fails_everything_in_flight);
  RUN(test_interrupt_ends_a_wait);
  RUN(test_forked_children_may_only_free);
  return 0;
}
