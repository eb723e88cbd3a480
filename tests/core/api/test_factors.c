/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors before and after a reduction: of every dtype, in every reduction, in place and not, short and long,
 * started and not; and the calls that have none.
 */
#include <math.h>

#include "base/dtype.h"
#include "check.h"
#include "engine/scale.h"
#include "ranks.h"
#include "requests.h"
#include "values.h"

enum { SIZE = 3, LONG = 50000 };

/* ---- Scaling ------------------------------------------------------------------------------ */

static void test_integers_truncate_and_end_at_their_limits(void) {
  int8_t small[] = {-7, 7, 100, -100}, scaled[4];
  ring_scale(RING_INT8, scaled, small, 4, 1.5);
  CHECK(scaled[0] == -10 && scaled[1] == 10 && scaled[2] == 127 && scaled[3] == -128);
  int64_t large[] = {INT64_MAX, INT64_MIN, 3};
  ring_scale(RING_INT64, large, large, 3, 2);
  CHECK(large[0] == INT64_MAX && large[1] == INT64_MIN && large[2] == 6);
  uint64_t whole[] = {UINT64_MAX, 5};
  ring_scale(RING_UINT64, whole, whole, 2, 3);
  CHECK(whole[0] == UINT64_MAX && whole[1] == 15);
  ring_scale(RING_UINT64, whole, whole, 2, -1);
  CHECK(whole[0] == 0 && whole[1] == 0);
  ring_scale(RING_INT64, large, large, 3, (double)NAN);
  CHECK_INT(large[0], 0);
}

static void test_complex_numbers_are_scaled_part_by_part(void) {
  float number[] = {1, -2, 3, 4};
  ring_scale(RING_COMPLEX64, number, number, 2, 0.5);
  CHECK(number[0] == 0.5f && number[1] == -1 && number[2] == 1.5f && number[3] == 2);
}

/* ---- Reducing ----------------------------------------------------------------------------- */

/* The value of every element of rank r is 4 (r + 1), so factors 0.5 and 2 are exact in all dtypes. */
static void *filled(ring_dtype dtype, size_t count, double value) {
  uint8_t *x = calloc(count + 1, ring_dtype_size(dtype));
  for (size_t i = 0; i < count; i++) put(x, dtype, i, value);
  return x;
}

static void check_all(const void *y, ring_dtype dtype, size_t count, double value) {
  uint8_t expected[16];
  size_t width = ring_dtype_size(dtype);
  put(expected, dtype, 0, value);
  for (size_t i = 0; i < count; i++)
    CHECK(memcmp((const uint8_t *)y + i * width, expected, width) == 0);
}

static void factor_one(ring_comm *comm, ring_dtype dtype, size_t count) {
  int rank = ring_comm_rank(comm);
  size_t parts[SIZE] = {count, 0, 2 * count};
  double own = 4.0 * (rank + 1);
  void *x = filled(dtype, SIZE * count, own), *y = filled(dtype, SIZE * count, 0);
  ring_buffer buffers[2] = {{x, y, count}, {x, (char *)y + count * ring_dtype_size(dtype), count}};
  ring_request *request;
  ring_comm_scale(comm, 0.5, 2);
  CHECK_INT(ring_allreduce(comm, x, y, count, dtype, RING_SUM), RING_OK);
  check_all(y, dtype, count, 24);
  CHECK_INT(ring_allreduce(comm, x, y, count, dtype, RING_SUM), RING_OK); /* used up */
  check_all(y, dtype, count, 24);
  ring_comm_scale(comm, 0.25, 1);
  CHECK_INT(ring_reduce(comm, x, rank == 1 ? y : NULL, count, dtype, RING_MAX, 1), RING_OK);
  if (rank == 1) check_all(y, dtype, count, 3);
  ring_comm_scale(comm, 1, 0.5);
  CHECK_INT(ring_reduce_scatter(comm, x, y, count, dtype, RING_SUM), RING_OK);
  check_all(y, dtype, count, 12);
  ring_comm_scale(comm, 0.5, 1);
  CHECK_INT(ring_reduce_scatterv(comm, x, y, parts, dtype, RING_SUM), RING_OK);
  check_all(y, dtype, parts[rank], 12);
  ring_comm_scale(comm, 0.5, 0.5);
  CHECK_INT(ring_allreduce_group_start(comm, buffers, 2, dtype, RING_SUM, &request), RING_OK);
  CHECK_INT(ring_barrier(comm), RING_OK); /* without the factors */
  finish(request);
  check_all(y, dtype, 2 * count, 6);
  check_all(x, dtype, SIZE * count, own);
  ring_comm_scale(comm, 0.5, 0.5);
  CHECK_INT(ring_allreduce(comm, x, x, count, dtype, RING_SUM), RING_OK);
  check_all(x, dtype, count, 6);
  free(x);
  free(y);
}

static void factor_everything(ring_comm *comm, void *shared) {
  (void)shared;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++) {
    if (dtype == RING_BOOL || ring_dtype_is_complex((ring_dtype)dtype)) continue;
    factor_one(comm, (ring_dtype)dtype, 5);
    if (dtype >= RING_FLOAT16 && dtype <= RING_FLOAT64) factor_one(comm, (ring_dtype)dtype, LONG);
  }
}

static void test_reductions(void) {
  run_comms(SIZE, factor_everything, NULL);
}

/* ---- Errors ------------------------------------------------------------------------------- */

static void refused(ring_comm *comm, void *shared) {
  uint8_t flag = 1;
  double x = 1;
  (void)shared;
  ring_comm_scale(comm, 2, 1);
  CHECK_INT(ring_broadcast(comm, &x, &x, 1, RING_FLOAT64, 0), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "factors are for allreduce");
  ring_comm_scale(comm, 2, 1);
  CHECK_INT(ring_allreduce(comm, &flag, &flag, 1, RING_BOOL, RING_LOR), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "bool has no factors");
  CHECK_INT(ring_broadcast(comm, &x, &x, 1, RING_FLOAT64, 0), RING_OK);
}

static void differ(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  double x = 1;
  (void)shared;
  ring_comm_scale(comm, rank == 0 ? 2 : 3, 1);
  CHECK_INT(ring_allreduce(comm, &x, &x, 1, RING_FLOAT64, RING_SUM), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "factors 2 and 1");
  CHECK_CONTAINS(ring_comm_error(comm)->message, "factors 3 and 1");
  ring_comm_free(comm);
}

static void test_errors(void) {
  run_comms(2, refused, NULL);
  run_ranks(2, differ, NULL);
}

int main(void) {
  RUN(test_integers_truncate_and_end_at_their_limits);
  RUN(test_complex_numbers_are_scaled_part_by_part);
  RUN(test_reductions);
  RUN(test_errors);
  return 0;
}
