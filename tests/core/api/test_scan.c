/* SPDX-License-Identifier: Apache-2.0
 *
 * Scan and exscan between forked ranks, by every way: small calls in shared memory, and both schedules over
 * links, forced by a rule. Values are such that every order of reduction gives the same bits.
 */
#include <math.h>

#include "base/dtype.h"
#include "check.h"
#include "engine/reduce.h"
#include "ranks.h"
#include "requests.h"
#include "values.h"

static const size_t counts[] = {0, 1, 5, 1000, 200003};
enum { COUNTS = sizeof counts / sizeof counts[0], SIZE_LAST = SPARKRING_SANITIZED ? 4 : 7 };

typedef ring_status (*scan_call)(ring_comm *comm, const void *x, void *y, size_t count,
                                 ring_dtype dtype, ring_op op);

/* Element i of the inputs of ranks 0 to `last`, reduced; without a rank, the identity. */
static void expect(ring_dtype dtype, ring_op op, int last, size_t i, void *to) {
  uint8_t next[16];
  double first = last < 0 ? 0 : exact(0, i) + 1;
  put(to, dtype, 0, first);
  bool logical = ring_op_is_logical(op) || dtype == RING_BOOL;
  ring_reduction reduction = {.dtype = dtype, .op = logical && last == 0 ? RING_LOR : op};
  if (last == 0 && logical) ring_reduction_apply(&reduction, to, to, to, 1);
  for (int rank = 1; rank <= last; rank++) {
    put(next, dtype, 0, exact(rank, i) + 1);
    ring_reduction_apply(&reduction, to, to, next, 1);
  }
}

/* The identity combines with a value to that value. */
static void check_identity(ring_dtype dtype, ring_op op, const void *identity) {
  uint8_t value[16], result[16];
  put(value, dtype, 0, 1);
  ring_reduction reduction = {.dtype = dtype, .op = op};
  ring_reduction_apply(&reduction, result, value, identity, 1);
  CHECK(memcmp(result, value, ring_dtype_size(dtype)) == 0);
}

static void check_result(int rank, bool exclusive, ring_dtype dtype, ring_op op, size_t count,
                         const uint8_t *result) {
  size_t width = ring_dtype_size(dtype), step = count > 10000 ? 17 : 1;
  uint8_t expected[16];
  for (size_t i = 0; i < count; i += step) {
    if (exclusive && rank == 0) {
      check_identity(dtype, op, result + i * width);
      continue;
    }
    expect(dtype, op, exclusive ? rank - 1 : rank, i, expected);
    CHECK(memcmp(result + i * width, expected, width) == 0);
  }
}

static void scan_one(ring_comm *comm, bool exclusive, ring_dtype dtype, ring_op op, size_t count) {
  scan_call call = exclusive ? ring_exscan : ring_scan;
  int rank = ring_comm_rank(comm);
  size_t width = ring_dtype_size(dtype);
  uint8_t *x = calloc(count + 1, width), *y = calloc(count + 1, width);
  for (size_t i = 0; i < count; i++) put(x, dtype, i, exact(rank, i) + 1);
  CHECK_INT(call(comm, x, y, count, dtype, op), RING_OK);
  check_result(rank, exclusive, dtype, op, count, y);
  CHECK_INT(call(comm, x, x, count, dtype, op), RING_OK);
  CHECK(memcmp(x, y, count * width) == 0);
  free(x);
  free(y);
}

static void scan_everything(ring_comm *comm) {
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (int op = 0; op < RING_OP_COUNT; op++)
      for (int i = 0; i < COUNTS; i++) {
        bool once = op == RING_SUM && (dtype == RING_FLOAT16 || dtype == RING_FLOAT32);
        /* Products of 7 ranks leave what a half holds exactly. */
        bool inexact = op == RING_PROD && ring_dtype_is_half((ring_dtype)dtype);
        if (op == RING_AVG || inexact || (counts[i] > 1000 && !once)) continue;
        if (!ring_op_allowed((ring_op)op, (ring_dtype)dtype)) continue;
        scan_one(comm, false, (ring_dtype)dtype, (ring_op)op, counts[i]);
        scan_one(comm, true, (ring_dtype)dtype, (ring_op)op, counts[i]);
      }
}

static void scan_by(int rank, int size, void *algorithms) {
  ring_options options = rank_options(rank, size);
  options.algorithms = algorithms;
  ring_comm *comm = open_with(&options);
  scan_everything(comm);
  close_rank(comm);
}

static void test_every_way(void) {
  static char ways[][40] = {"", "scan:doubling,exscan:doubling", "scan:chain,exscan:chain"};
  for (int way = 0; way < 3; way++)
    for (int size = way == 0 ? 1 : 2; size <= SIZE_LAST; size++)
      run_ranks(size, scan_by, ways[way]);
}

static void scan_started(ring_comm *comm, void *shared) {
  int rank = ring_comm_rank(comm);
  int64_t x = rank + 1, inclusive = -1, before = -1;
  ring_request *first, *second;
  (void)shared;
  CHECK_INT(ring_scan_start(comm, &x, &inclusive, 1, RING_INT64, RING_SUM, &first), RING_OK);
  CHECK_INT(ring_exscan_start(comm, &x, &before, 1, RING_INT64, RING_SUM, &second), RING_OK);
  finish(second);
  finish(first);
  CHECK_INT(inclusive, (rank + 1) * (rank + 2) / 2);
  CHECK_INT(before, rank * (rank + 1) / 2);
}

static void test_requests(void) {
  run_comms(3, scan_started, NULL);
}

/* Rank 0's identities. */
static void identities(ring_comm *comm, void *shared) {
  double x = 5, y;
  int8_t small = 3, least;
  (void)shared;
  CHECK_INT(ring_exscan(comm, &x, &y, 1, RING_FLOAT64, RING_MIN), RING_OK);
  CHECK(ring_comm_rank(comm) > 0 ? y == 5 : isinf(y) && y > 0);
  CHECK_INT(ring_exscan(comm, &small, &least, 1, RING_INT8, RING_MAX), RING_OK);
  CHECK_INT(least, ring_comm_rank(comm) > 0 ? 3 : INT8_MIN);
  CHECK_INT(ring_exscan(comm, &small, &least, 1, RING_INT8, RING_BAND), RING_OK);
  CHECK_INT(least, ring_comm_rank(comm) > 0 ? 3 : -1);
}

static void averages(ring_comm *comm, void *shared) {
  double x = 1, y = 0;
  (void)shared;
  CHECK_INT(ring_scan(comm, &x, &y, 1, RING_FLOAT64, RING_AVG), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "scan: op avg is not defined here: divide");
  CHECK_INT(ring_exscan(comm, &x, &y, 1, RING_FLOAT64, RING_SUM), RING_OK);
}

static void test_identities_and_averages(void) {
  run_comms(2, identities, NULL);
  run_comms(2, averages, NULL);
}

int main(void) {
  RUN(test_every_way);
  RUN(test_requests);
  RUN(test_identities_and_averages);
  return 0;
}
