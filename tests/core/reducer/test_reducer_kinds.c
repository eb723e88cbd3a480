/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of operation of the reducer, also when ranks have joined.
 */
#include "reducers.h"

/* A binding passes the name of a kind. */
static void test_kinds_have_names(void) {
  ring_operation_kind kind;
  CHECK_INT(ring_operation_parse("allreduce", &kind), RING_OK);
  CHECK_INT(kind, RING_OPERATION_ALLREDUCE);
  CHECK_INT(ring_operation_parse("allreduce_group", &kind), RING_OK);
  CHECK_INT(kind, RING_OPERATION_ALLREDUCE_GROUP);
  CHECK_INT(ring_operation_parse("barrier", &kind), RING_OK);
  CHECK_INT(kind, RING_OPERATION_BARRIER);
  CHECK_INT(ring_operation_parse("gather", &kind), RING_INVALID);
  CHECK_INT(ring_operation_parse("", &kind), RING_INVALID);
  CHECK_INT(ring_operation_parse(NULL, &kind), RING_INVALID);
}

static void try_group_and_factors(ring_reducer *reducer, int rank, int size) {
  double a[3] = {rank, 1, 2}, b[2] = {5, 6}, out[3];
  ring_buffer buffers[2] = {{a, out, 3}, {b, b, 2}};
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_ALLREDUCE_GROUP;
  operation.name = "group";
  operation.dtype = RING_FLOAT64;
  operation.prescale = 0.5;
  operation.postscale = 4;
  operation.buffers = buffers;
  operation.buffer_count = 2;
  finish_well(submit(reducer, &operation));
  CHECK(out[0] == 2.0 * (size * (size - 1) / 2) && out[1] == 2.0 * size);
  CHECK(b[1] == 12.0 * size);
}

/* A group of several dtypes, whose first one comes again at the end. */
static void try_mixed_group(ring_reducer *reducer, int rank, int size) {
  double a[3] = {rank, 1, 2}, d[1] = {3};
  float b[2] = {5, 6};
  int32_t c[3] = {7, 8, rank};
  ring_buffer buffers[4] = {{c, c, 3}, {a, a, 3}, {b, b, 2}, {d, d, 1}};
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_ALLREDUCE_GROUP;
  operation.name = "mixed";
  operation.buffers = buffers;
  operation.buffer_count = 4;
  operation.dtypes = (const ring_dtype[]){RING_INT32, RING_FLOAT64, RING_FLOAT32, RING_FLOAT64};
  finish_well(submit(reducer, &operation));
  int ranks = size * (size - 1) / 2;
  CHECK_INT(c[0], 7 * size);
  CHECK_INT(c[2], ranks);
  CHECK(a[0] == ranks && a[2] == 2 * size && b[1] == (float)(6 * size) && d[0] == 3 * size);
}

/* Rank r brings r + 1 rows of two. */
static void try_allgather(ring_reducer *reducer, int rank, int size) {
  int32_t rows[16];
  int64_t shape[2] = {rank + 1, 2}, all;
  for (int i = 0; i < 16; i++) rows[i] = 100 * rank + i;
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_ALLGATHER;
  operation.name = "gathered";
  operation.dtype = RING_INT32;
  operation.input = rows;
  operation.shape = shape;
  operation.dimensions = 2;
  ring_submission *submission = submit(reducer, &operation);
  CHECK_INT(ring_submission_wait(submission), RING_OK);
  int32_t *output = ring_submission_take_output(submission, &all), *at = output;
  CHECK_INT(all, size * (size + 1) / 2);
  for (int r = 0; r < size; r++) {
    CHECK_INT(ring_submission_rows(submission)[r], r + 1);
    for (int i = 0; i < 2 * (r + 1); i++) CHECK_INT(*at++, 100 * r + i);
  }
  ring_free(output);
  ring_submission_free(submission);
}

/* Rank r sends s + 1 rows to rank s. */
static void try_alltoall(ring_reducer *reducer, int rank, int size) {
  int64_t splits[4], all, shape = size * (size + 1) / 2;
  float rows[16];
  for (int s = 0, i = 0; s < size; s++) {
    splits[s] = s + 1;
    for (int j = 0; j <= s; j++) rows[i++] = (float)(10 * rank + s);
  }
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_ALLTOALL;
  operation.name = "exchanged";
  operation.input = rows;
  operation.shape = &shape;
  operation.dimensions = 1;
  operation.splits = splits;
  ring_submission *submission = submit(reducer, &operation);
  CHECK_INT(ring_submission_wait(submission), RING_OK);
  float *output = ring_submission_take_output(submission, &all);
  CHECK_INT(all, size * (rank + 1));
  for (int i = 0; i < all; i++) CHECK(output[i] == (float)(10 * (i / (rank + 1)) + rank));
  ring_free(output);
  ring_submission_free(submission);
}

/* 2 * size + 1 rows: the first rank gets three. */
static void try_reduce_scatter(ring_reducer *reducer, int rank, int size) {
  int64_t shape[2] = {2 * size + 1, 2}, rows;
  float data[32];
  for (int i = 0; i < 32; i++) data[i] = (float)i;
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_REDUCE_SCATTER;
  operation.name = "scattered";
  operation.input = data;
  operation.shape = shape;
  operation.dimensions = 2;
  operation.prescale = 2;
  ring_submission *submission = submit(reducer, &operation);
  CHECK_INT(ring_submission_wait(submission), RING_OK);
  float *output = ring_submission_take_output(submission, &rows);
  CHECK_INT(rows, rank == 0 ? 3 : 2);
  for (int i = 0; i < 2 * rows; i++)
    CHECK(output[i] == (float)(2 * size * (i + (rank == 0 ? 0 : 2 * (2 * rank + 1)))));
  ring_free(output);
  ring_submission_free(submission);
}

static void try_broadcast_and_barrier(ring_reducer *reducer, int rank, int size) {
  int64_t values[2] = {rank, 7}, shape = 2;
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_BROADCAST;
  operation.name = "broadcast";
  operation.dtype = RING_INT64;
  operation.input = operation.output = values;
  operation.shape = &shape;
  operation.dimensions = 1;
  operation.root = size - 1;
  finish_well(submit(reducer, &operation));
  CHECK_INT(values[0], size - 1);
  operation.kind = RING_OPERATION_BARRIER;
  operation.name = "barrier";
  finish_well(submit(reducer, &operation));
}

static void try_kinds(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_reducer *reducer = reducer_of(comm, NULL);
  for (int i = 0; i < 2; i++) {
    try_group_and_factors(reducer, rank, size);
    try_mixed_group(reducer, rank, size);
    try_allgather(reducer, rank, size);
    try_alltoall(reducer, rank, size);
    try_reduce_scatter(reducer, rank, size);
    try_broadcast_and_barrier(reducer, rank, size);
  }
  end_reducer(reducer);
}

static void test_every_kind(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, try_kinds, NULL);
}

/* Rank r has data for 2 * r steps, so the last rank joins last. */
static void try_join(ring_comm *comm, void *shared) {
  (void)shared;
  static const int64_t one = 1;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), last = -1;
  ring_reducer *reducer = reducer_of(comm, NULL);
  for (int step = 0; step < 2 * rank; step++) {
    float x = 1, y = 1;
    ring_operation sum = sum_of("x", &x, &one), late = sum_of("late", &y, &one);
    ring_submission *first = submit(reducer, &sum), *second = submit(reducer, &late);
    finish_well(second);
    finish_well(first);
    CHECK(x == (float)(size - step / 2 - 1) && y == x);
  }
  CHECK_INT(ring_reducer_join(reducer, &last), RING_OK);
  CHECK_INT(last, size - 1);
  expect_works(reducer, "x", size);
  end_reducer(reducer);
}

static void test_joined_ranks_give_zeros(void) {
  run_comms(4, try_join, NULL);
}

/* Rank 0 has joined when the others use the other kinds. */
static void try_join_kinds(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), last;
  int64_t rows, shape = 1;
  float value = 1;
  ring_reducer *reducer = reducer_of(comm, NULL);
  if (rank > 0) {
    ring_operation operation = sum_of("rows", &value, &shape);
    operation.kind = RING_OPERATION_ALLGATHER;
    ring_submission *submission = submit(reducer, &operation);
    CHECK_INT(ring_submission_wait(submission), RING_OK);
    ring_free(ring_submission_take_output(submission, &rows));
    CHECK_INT(rows, size - 1);
    CHECK_INT(ring_submission_rows(submission)[0], 0);
    ring_submission_free(submission);
    operation.kind = RING_OPERATION_BROADCAST;
    operation.name = "from rank 0";
    finish_with(submit(reducer, &operation), RING_MISMATCH, "rank 0 (127.0.0.1), has joined");
    operation.root = 1;
    operation.name = "from rank 1";
    finish_well(submit(reducer, &operation));
  }
  CHECK_INT(ring_reducer_join(reducer, &last), RING_OK);
  CHECK(last > 0);
  end_reducer(reducer);
}

static void test_joined_ranks_in_other_kinds(void) {
  run_comms(3, try_join_kinds, NULL);
}

int main(void) {
  RUN(test_kinds_have_names);
  RUN(test_every_kind);
  RUN(test_joined_ranks_give_zeros);
  RUN(test_joined_ranks_in_other_kinds);
  return 0;
}
