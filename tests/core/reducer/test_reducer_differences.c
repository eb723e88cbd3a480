/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors that differ between ranks, submissions and options that are refused; and what works afterwards.
 */
#include "reducers.h"

/* A way in which rank 1 differs, and the text of the error for it. */
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
  int *arrived = shared_alloc(sizeof *arrived);
  run_comms(3, try_late, arrived);
  shared_free(arrived, sizeof *arrived);
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

static void try_bad(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t four = 4, negative = -1;
  float data[8] = {0};
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_operation good = sum_of("x", data, &four), bad = good;
  if (rank == 1) {
    ring_submission *first = submit(reducer, &good);
    refuse(reducer, &good, RING_INVALID, "\"x\": this name is in flight on this rank");
    bad.name = "";
    refuse(reducer, &bad, RING_INVALID, "the name is empty");
    bad = sum_of("bad", data, &negative);
    refuse(reducer, &bad, RING_INVALID, "dimension 0 is negative");
    bad = sum_of("bad", data, &four);
    bad.output = data + 1;
    refuse(reducer, &bad, RING_INVALID, "input overlaps output");
    bad.output = (char *)data + 1;
    refuse(reducer, &bad, RING_INVALID, "not aligned");
    bad = sum_of("bad", NULL, &four);
    refuse(reducer, &bad, RING_INVALID, "input is NULL");
    bad = sum_of("bad", data, &four);
    bad.dtype = RING_BOOL;
    bad.prescale = 2;
    refuse(reducer, &bad, RING_INVALID, "bool has no factors");
    bad.kind = RING_OPERATION_BROADCAST;
    bad.root = size;
    refuse(reducer, &bad, RING_INVALID, "root 2 is not in 0 to 1");
    bad = sum_of("bad", data, &four);
    bad.kind = RING_OPERATION_ALLTOALL;
    bad.splits = (const int64_t[]){3, 2};
    refuse(reducer, &bad, RING_INVALID, "add up to the 4 rows");
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

int main(void) {
  RUN(test_differences_fail_that_name_on_all_ranks);
  RUN(test_dtypes_of_a_group_are_compared);
  RUN(test_difference_fails_ranks_that_submit_later);
  RUN(test_changed_tensors_are_agreed_on_again);
  RUN(test_bad_submissions_fail_on_their_rank_alone);
  RUN(test_options_that_differ);
  return 0;
}
