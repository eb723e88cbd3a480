/* SPDX-License-Identifier: Apache-2.0
 *
 * What goes wrong in a reducer: tensors that differ, names in flight, ranks that miss a name, close early,
 * are killed or interrupted; and what works afterwards.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "reducers.h"

/* ---- Tensors that differ ------------------------------------------------------------------ */

/* A way in which rank 1 differs, and what the error says of it. */
typedef struct difference {
  const char *name, *text;
  void (*change)(ring_operation *operation);
} difference;

static const int64_t square[2] = {2, 2};

static void change_kind(ring_operation *operation) {
  operation->kind = RING_OPERATION_BROADCAST;
}
static void change_dtype(ring_operation *operation) {
  operation->dtype = RING_INT32;
}
static void change_count(ring_operation *operation) {
  static const int64_t three = 3;
  operation->shape = &three;
}
static void change_shape(ring_operation *operation) {
  operation->shape = square;
  operation->dimensions = 2;
}
static void change_op(ring_operation *operation) {
  operation->op = RING_MAX;
}
static void change_prescale(ring_operation *operation) {
  operation->prescale = 0.5;
}
static void change_postscale(ring_operation *operation) {
  operation->postscale = 0.25;
}
static void change_note(ring_operation *operation) {
  operation->note = "a sparse tensor";
}

static const difference differences[] = {
    {"kind", "rank 1 (127.0.0.1) submitted broadcast of float32 [4], root 0", change_kind},
    {"dtype", "rank 1 (127.0.0.1) submitted allreduce of int32 [4], sum", change_dtype},
    {"count", "rank 1 (127.0.0.1) submitted allreduce of float32 [3], sum", change_count},
    {"shape", "rank 1 (127.0.0.1) submitted allreduce of float32 [2, 2], sum", change_shape},
    {"op", "rank 1 (127.0.0.1) submitted allreduce of float32 [4], max", change_op},
    {"prescale", "[4], sum, prescale 0.5", change_prescale},
    {"postscale", "[4], sum, postscale 0.25", change_postscale},
    {"note", "[4], sum, a sparse tensor", change_note},
};
enum { DIFFERENCES = sizeof differences / sizeof differences[0] };

/* Other names are untouched, and the name works again. `known`: all ranks had agreed on it before. */
static void try_difference(ring_reducer *reducer, const difference *of, int rank, int size,
                           bool known) {
  static const int64_t four = 4;
  float data[4] = {1, 1, 1, 1}, fine[4] = {1, 1, 1, 1};
  char name[64];
  snprintf(name, sizeof name, "%s%s", of->name, known ? " known" : "");
  ring_operation operation = sum_of(name, data, &four), other = sum_of("fine", fine, &four);
  if (known) finish_well(submit(reducer, &operation));
  if (rank == 1) of->change(&operation);
  ring_submission *differs = submit(reducer, &operation), *good = submit(reducer, &other);
  finish_well(good);
  CHECK(fine[0] == (float)size);
  CHECK_INT(ring_submission_wait(differs), RING_MISMATCH);
  CHECK_CONTAINS(ring_submission_error(differs)->message, of->text);
  CHECK_CONTAINS(ring_submission_error(differs)->message,
                 "submitted allreduce of float32 [4], sum");
  ring_submission_free(differs);
  operation = sum_of(name, data, &four);
  data[0] = 1;
  finish_well(submit(reducer, &operation));
  CHECK(data[0] == (float)size);
}

static void try_differences(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_reducer *reducer = reducer_of(comm, NULL);
  for (int i = 0; i < DIFFERENCES; i++) {
    try_difference(reducer, &differences[i], rank, size, false);
    try_difference(reducer, &differences[i], rank, size, true);
  }
  end_reducer(reducer);
}

static void test_differences_fail_that_name_on_all_ranks(void) {
  for (int size = 2; size <= 4; size++) run_comms(size, try_differences, NULL);
}

/* A group under one name, whose dtypes differ in number or order. */
static void try_dtypes(ring_comm *comm, void *shared) {
  (void)shared;
  static const ring_dtype dtypes[3][2] = {
      {RING_FLOAT32, RING_INT32}, {RING_INT32, RING_FLOAT32}, {RING_INT32, RING_INT32}};
  static const char *const texts[2] = {"group of counts [1 int32, 1 float32], sum",
                                       "group of int32 counts [1, 1], sum"};
  int32_t data[2] = {1, 1};
  ring_buffer buffers[2] = {{data, data, 1}, {data + 1, data + 1, 1}};
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_ALLREDUCE_GROUP;
  operation.name = "group";
  operation.buffers = buffers;
  operation.buffer_count = 2;
  for (int other = 1; other <= 2; other++) {
    operation.dtypes = dtypes[ring_comm_rank(comm) == 1 ? other : 0];
    ring_submission *submission = submit(reducer, &operation);
    CHECK_INT(ring_submission_wait(submission), RING_MISMATCH);
    CHECK_CONTAINS(ring_submission_error(submission)->message,
                   "group of counts [1 float32, 1 int32], sum");
    CHECK_CONTAINS(ring_submission_error(submission)->message, texts[other - 1]);
    ring_submission_free(submission);
  }
  end_reducer(reducer);
}

static void test_dtypes_of_a_group_are_compared(void) {
  run_comms(2, try_dtypes, NULL);
}

/* Rank 2 submits the name when it has failed on the others. */
static void try_late(ring_comm *comm, void *shared) {
  static const int64_t four = 4;
  float data[4] = {0};
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", data, &four);
  if (rank == 1) operation.op = RING_MIN;
  if (rank < 2) {
    ring_submission *submission = submit(reducer, &operation);
    expect_works(reducer, "y", size);
    finish_with(submission, RING_MISMATCH, "[4], min");
  } else {
    for (int i = 0; i < 3; i++) expect_works(reducer, i == 0 ? "y" : "z", size);
    finish_with(submit(reducer, &operation), RING_MISMATCH, "[4], min");
  }
  if (rank < 2)
    for (int i = 0; i < 2; i++) expect_works(reducer, "z", size);
  ranks_barrier(shared, size);
  expect_works(reducer, "x", size);
  end_reducer(reducer);
}

static void test_difference_fails_ranks_that_submit_later(void) {
  int *met = shared_alloc(sizeof *met);
  run_comms(3, try_late, met);
  shared_free(met, sizeof *met);
}

/* A description that changes on all ranks is agreed on again. */
static void try_change(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t four = 4;
  float data[4] = {1, 1, 1, 1};
  ring_reducer *reducer = reducer_of(comm, NULL);
  expect_works(reducer, "x", ring_comm_size(comm));
  ring_operation operation = sum_of("x", data, &four);
  finish_well(submit(reducer, &operation));
  CHECK(data[3] == (float)ring_comm_size(comm));
  end_reducer(reducer);
}

static void test_changed_tensors_are_agreed_on_again(void) {
  run_comms(3, try_change, NULL);
}

/* ---- Bad submissions ---------------------------------------------------------------------- */

static void refuse(ring_reducer *reducer, const ring_operation *operation, const char *text) {
  ring_submission *submission;
  CHECK_INT(ring_reducer_submit(reducer, operation, &submission), RING_INVALID);
  CHECK(submission == NULL);
  CHECK_CONTAINS(ring_reducer_error(reducer)->message, text);
}

static void try_bad(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t four = 4, negative = -1;
  float data[8] = {0};
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation good = sum_of("x", data, &four), bad = good;
  if (rank == 1) {
    ring_submission *first = submit(reducer, &good);
    refuse(reducer, &good, "\"x\": this name is in flight on this rank");
    bad.name = "";
    refuse(reducer, &bad, "the name is empty");
    bad = sum_of("bad", data, &negative);
    refuse(reducer, &bad, "dimension 0 is negative");
    bad = sum_of("bad", data, &four);
    bad.output = data + 1;
    refuse(reducer, &bad, "input overlaps output");
    bad.output = (char *)data + 1;
    refuse(reducer, &bad, "not aligned");
    bad = sum_of("bad", NULL, &four);
    refuse(reducer, &bad, "input is NULL");
    bad = sum_of("bad", data, &four);
    bad.dtype = RING_BOOL;
    bad.prescale = 2;
    refuse(reducer, &bad, "bool has no factors");
    bad.kind = RING_OPERATION_BROADCAST;
    bad.root = size;
    refuse(reducer, &bad, "root 2 is not in 0 to 1");
    bad = sum_of("bad", data, &four);
    bad.kind = RING_OPERATION_ALLTOALL;
    bad.splits = (const int64_t[]){3, 2};
    refuse(reducer, &bad, "add up to the 4 rows");
    finish_well(first);
  } else {
    finish_well(submit(reducer, &good));
  }
  end_reducer(reducer);
}

static void test_bad_submissions_fail_on_their_rank_alone(void) {
  run_comms(2, try_bad, NULL);
}

static void try_options(ring_comm *comm, void *shared) {
  (void)shared;
  ring_reducer *reducer;
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.threshold = 1024 + (size_t)ring_comm_rank(comm);
  CHECK_INT(ring_reducer_open(comm, &options, &reducer), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "the options of the reducer differ");
  options.cycle_time = 1;
  CHECK_INT(ring_reducer_open(comm, &options, &reducer), RING_INVALID);
}

static void test_options_that_differ(void) {
  run_comms(2, try_options, NULL);
}

/* ---- Stalls ------------------------------------------------------------------------------- */

static void note_log(void *arg, const char *message) {
  snprintf(arg, 2000, "%s", message);
}

/* Rank 1 misses "lost", and rank 0 "other". */
static void run_stalled(int rank, int size, void *shared) {
  static char log[2000];
  static const int64_t one = 1;
  float value = 1;
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  ring_reducer_options stalls = RING_REDUCER_OPTIONS_INIT;
  options.warn_after = 0.2;
  options.log = note_log;
  options.log_arg = log;
  stalls.stall_timeout = 1;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  ring_reducer *reducer = reducer_of(comm, &stalls);
  ring_operation operation = sum_of(rank == 1 ? "other" : "lost", &value, &one);
  finish_with(submit(reducer, &operation), RING_TIMEOUT,
              rank == 1 ? "s for rank 0 (127.0.0.1), rank 2 (127.0.0.1)"
                        : "s for rank 1 (127.0.0.1)");
  expect_works(reducer, "fine", size);
  CHECK_CONTAINS(log, rank == 1 ? "tensor \"other\" has waited" : "tensor \"lost\" has waited");
  ranks_barrier(shared, size);
  expect_works(reducer, "lost", size);
  end_reducer(reducer);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

static void test_stalls_name_tensors_and_ranks(void) {
  int *met = shared_alloc(sizeof *met);
  run_ranks(3, run_stalled, met);
  shared_free(met, sizeof *met);
}

/* Ranks 0 and 1 differ under a name, and submit it again; rank 2 never does. The deadline is that of calls. */
static void run_stalled_again(int rank, int size, void *shared) {
  static const int64_t one = 1;
  float value = 1;
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  options.call_timeout = 3;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation operation = sum_of("x", &value, &one);
  if (rank < 2) {
    if (rank == 1) operation.op = RING_MIN;
    ring_submission *differs = submit(reducer, &operation);
    expect_works(reducer, "y", size);
    finish_with(differs, RING_MISMATCH, "[1], min");
    ring_submission *again = submit(reducer, &operation);
    finish_with(again, RING_TIMEOUT, "s for rank 2 (127.0.0.1): submit it on all ranks");
  } else {
    expect_works(reducer, "y", size);
    usleep(1500000);
  }
  expect_works(reducer, "z", size); /* rank 2 waits here, and so takes part in cycles */
  ranks_barrier(shared, size);
  expect_works(reducer, "x", size);
  end_reducer(reducer);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

static void test_a_name_that_has_failed_stalls_as_others(void) {
  int *met = shared_alloc(sizeof *met);
  run_ranks(3, run_stalled_again, met);
  shared_free(met, sizeof *met);
}

/* This rank learns late which names the ranks lack, if it is set: the other ranks go on before. */
static atomic_bool compares_late;

ring_status __real_ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype);
ring_status __wrap_ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype);
ring_status __wrap_ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                                  ring_dtype dtype) {
  ring_status status = __real_ring_allgather(comm, input, output, count, dtype);
  if (dtype == RING_UINT64 && atomic_load(&compares_late)) usleep(300000);
  return status;
}

/* Ranks 1 and 2 submit nothing until rank 0's name has failed. Rank 1 submits it before it learns that. Ranks with long
 * deadlines follow rank 0's. */
static void run_idle(int rank, int size, void *shared) {
  static const int64_t one = 1;
  float value = 1;
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  ring_reducer_options stalls = RING_REDUCER_OPTIONS_INIT;
  stalls.stall_timeout = rank == 0 ? 0.5 : RING_NEVER;
  ring_reducer *reducer = reducer_of(comm, &stalls);
  ring_operation operation = sum_of("lost", &value, &one);
  atomic_store(&compares_late, rank == 1);
  for (int i = 0; i < 2 && rank == 0; i++)
    finish_with(submit(reducer, &operation), RING_TIMEOUT,
                "s for rank 1 (127.0.0.1), rank 2 (127.0.0.1): submit it on all ranks");
  ranks_barrier(shared, size);
  expect_works(reducer, "lost", size);
  end_reducer(reducer);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

static void test_ranks_without_submissions_are_stalled_for(void) {
  int *met = shared_alloc(sizeof *met);
  run_ranks(3, run_idle, met);
  shared_free(met, sizeof *met);
}

/* Rank 1 submits nothing for a while. */
static void run_absent(int rank, int size, void *shared) {
  (void)shared;
  static char log[2000];
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  options.warn_after = 0.2;
  options.log = note_log;
  options.log_arg = log;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
  ring_reducer *reducer = reducer_of(comm, NULL);
  if (rank == 1) usleep(900000);
  expect_works(reducer, "x", size);
  if (rank == 0) CHECK_CONTAINS(log, "the reducer waits with \"x\": ");
  if (rank == 0) CHECK_CONTAINS(log, "rank 1");
  end_reducer(reducer);
  CHECK_INT(ring_comm_close(comm), RING_OK);
  ring_comm_free(comm);
}

static void test_absent_ranks_are_named_with_tensors(void) {
  run_ranks(2, run_absent, NULL);
}

/* ---- Ends --------------------------------------------------------------------------------- */

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
    refuse(second, &operation, "the reducer is closed");
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
  int *met = shared_alloc(sizeof *met);
  run_ranks(3, run_free, met);
  shared_free(met, sizeof *met);
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
  ring_comm *comm;
  ring_options options = rank_options(rank, size);
  options.interrupt = interrupts;
  options.interrupt_arg = &now;
  CHECK_INT(ring_comm_open(&options, &comm, NULL), RING_OK);
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
  int *met = shared_alloc(sizeof *met);
  run_ranks(2, run_interrupted, met);
  shared_free(met, sizeof *met);
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
  RUN(test_differences_fail_that_name_on_all_ranks);
  RUN(test_dtypes_of_a_group_are_compared);
  RUN(test_difference_fails_ranks_that_submit_later);
  RUN(test_changed_tensors_are_agreed_on_again);
  RUN(test_bad_submissions_fail_on_their_rank_alone);
  RUN(test_options_that_differ);
  RUN(test_stalls_name_tensors_and_ranks);
  RUN(test_a_name_that_has_failed_stalls_as_others);
  RUN(test_ranks_without_submissions_are_stalled_for);
  RUN(test_absent_ranks_are_named_with_tensors);
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
