/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives over real links between forked ranks: right results, the same bits everywhere, and
 * the traffic that the algorithm promises.
 */
#include <math.h>

#include "base/call.h"
#include "base/dtype.h"
#include "check.h"
#include "engine/reduce.h"
#include "ranks.h"
#include "values.h"

static const size_t counts[] = {0, 1, 2, 3, 4, 5, 1000, 70000, 300001};
enum { COUNTS = sizeof counts / sizeof counts[0], COUNT_MAX = 300001 };

/* test_reduce tries every op on every dtype. Here sums are of every dtype, other ops of one integer and one
 * half; lengths of more than a frame, which take long, are for sums of one dtype of each width. */
static bool is_tried(ring_dtype dtype, ring_op op, int length) {
  bool longest = dtype == RING_FLOAT16 || dtype == RING_FLOAT32;
  bool wide = longest || dtype == RING_UINT8 || dtype == RING_FLOAT64 || dtype == RING_COMPLEX128;
  if (!ring_op_allowed(op, dtype)) return false;
  if (op != RING_SUM && dtype != RING_INT32 && dtype != RING_FLOAT16) return false;
  return counts[length] <= 1000 ||
         (op == RING_SUM && (counts[length] < COUNT_MAX ? wide : longest));
}

/* Small numbers but no zeros, so that sums are exact in every dtype. */
static void fill(void *buffer, ring_dtype dtype, int rank, size_t count) {
  for (size_t i = 0; i < count; i++) put(buffer, dtype, i, exact(rank, i) + 1);
}

/* The reference: all inputs reduced in rank order with wide accumulators, on one process. */
static void reference(void *result, ring_dtype dtype, ring_op op, int size, size_t count) {
  size_t width = ring_dtype_size(dtype);
  void *next = calloc(count + 1, width), *first = calloc(count + 1, width);
  void *wide = calloc(count + 1, ring_dtype_wide_size(dtype));
  fill(first, dtype, 0, count);
  memcpy(result, first, count * width);
  if (size == 1)
    ring_reduction_apply(&(ring_reduction){.dtype = dtype, .op = op}, result, first, first, 0);
  for (int rank = 1; rank < size; rank++) {
    bool last = rank == size - 1, half = ring_dtype_is_half(dtype);
    ring_reduction reduction = {.dtype = dtype,
                                .op = op,
                                .divisor = last && op == RING_AVG ? size : 0,
                                .received_wide = half && rank > 1,
                                .destination_wide = half && !last};
    fill(next, dtype, rank, count);
    const void *so_far = rank == 1 ? first : half ? wide : result;
    ring_reduction_apply(&reduction, half && !last ? wide : result, next, so_far, count);
  }
  if (size == 1 && (ring_op_is_logical(op) || dtype == RING_BOOL))
    for (size_t i = 0; i < count; i++) put(result, dtype, i, 1);
  free(next);
  free(first);
  free(wide);
}

static void allreduce_one(ring_comm *comm, ring_dtype dtype, ring_op op, size_t count) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t bytes = count * ring_dtype_size(dtype);
  void *input = malloc(bytes + 1), *output = malloc(bytes + 1), *expected = malloc(bytes + 8);
  fill(input, dtype, rank, count);
  reference(expected, dtype, op, size, count);
  CHECK_INT(ring_allreduce(comm, input, output, count, dtype, op), RING_OK);
  CHECK(memcmp(output, expected, bytes) == 0);
  CHECK_INT(ring_allreduce(comm, input, input, count, dtype, op), RING_OK);
  CHECK(memcmp(input, expected, bytes) == 0);
  free(input);
  free(output);
  free(expected);
}

static void allreduce_everything(ring_comm *comm, void *shared) {
  (void)shared;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (int op = 0; op < RING_OP_COUNT; op++)
      for (int i = 0; i < COUNTS; i++)
        if (is_tried((ring_dtype)dtype, (ring_op)op, i))
          allreduce_one(comm, (ring_dtype)dtype, (ring_op)op, counts[i]);
}

static void test_allreduce(void) {
  for (int size = 1; size <= 5; size++) run_comms(size, allreduce_everything, NULL);
}

/* Every rank reduces to every root, in place there and not. */
static void reduce_one(ring_comm *comm, ring_dtype dtype, ring_op op, size_t count) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t bytes = count * ring_dtype_size(dtype);
  void *input = malloc(bytes + 1), *output = malloc(bytes + 1), *expected = malloc(bytes + 8);
  reference(expected, dtype, op, size, count);
  for (int root = 0; root < size; root++)
    for (int in_place = 0; in_place < 2; in_place++) {
      fill(input, dtype, rank, count);
      void *result = rank != root ? NULL : in_place ? input : output;
      CHECK_INT(ring_reduce(comm, input, result, count, dtype, op, root), RING_OK);
      if (rank == root) CHECK(memcmp(result, expected, bytes) == 0);
    }
  free(input);
  free(output);
  free(expected);
}

static void reduce_scatter_one(ring_comm *comm, ring_dtype dtype, ring_op op, size_t count) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  size_t bytes = count * ring_dtype_size(dtype), all = count * (size_t)size;
  uint8_t *input = malloc(bytes * (size_t)size + 1), *output = malloc(bytes + 1);
  uint8_t *expected = malloc(bytes * (size_t)size + 8);
  size_t part = (size_t)rank * bytes;
  fill(input, dtype, rank, all);
  reference(expected, dtype, op, size, all);
  CHECK_INT(ring_reduce_scatter(comm, input, output, count, dtype, op), RING_OK);
  CHECK(memcmp(output, expected + part, bytes) == 0);
  CHECK_INT(ring_reduce_scatter(comm, input, input + part, count, dtype, op), RING_OK);
  CHECK(memcmp(input + part, expected + part, bytes) == 0);
  free(input);
  free(output);
  free(expected);
}

static void reductions_everything(ring_comm *comm, void *shared) {
  (void)shared;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (int op = 0; op < RING_OP_COUNT; op++)
      for (int i = 0; i < COUNTS; i++)
        if (is_tried((ring_dtype)dtype, (ring_op)op, i)) {
          reduce_one(comm, (ring_dtype)dtype, (ring_op)op, counts[i]);
          reduce_scatter_one(comm, (ring_dtype)dtype, (ring_op)op, counts[i] / 4);
        }
}

static void test_reduce_and_reduce_scatter(void) {
  for (int size = 1; size <= 5; size++) run_comms(size, reductions_everything, NULL);
  run_comms(9, reductions_everything, NULL);
}

/* Numbers whose sum depends on the order of additions, and NaNs with different bits. */
static void put_inexact(void *buffer, ring_dtype dtype, int rank, size_t count) {
  uint32_t state = 12345u + (uint32_t)rank;
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    float value = (float)state * (state % 3 == 0 ? 1e-9f : 1.0f);
    uint32_t bits = 0x7fc00000u + (uint32_t)rank;
    if (i % 97 == 0 && state % 2 == 0) memcpy(&value, &bits, sizeof bits);
    memcpy(&bits, &value, sizeof bits);
    if (dtype == RING_FLOAT64)
      ((double *)buffer)[i] = value;
    else if (dtype == RING_FLOAT32)
      ((float *)buffer)[i] = value;
    else /* any 16 bits are a half: finite ones here, but for some */
      ((uint16_t *)buffer)[i] = (uint16_t)(bits >> 16 & (i % 97 == 0 ? 0xffff : 0x3fff));
  }
}

/* All ranks hold the same bits, and when it is done again the same once more. */
static void allreduce_inexact(ring_comm *comm, ring_dtype dtype, size_t count, uint8_t *all) {
  size_t bytes = count * ring_dtype_size(dtype);
  int rank = ring_comm_rank(comm);
  uint8_t *mine = all + (size_t)rank * bytes;
  void *again = malloc(bytes);
  put_inexact(mine, dtype, rank, count);
  put_inexact(again, dtype, rank, count);
  CHECK_INT(ring_allreduce(comm, mine, mine, count, dtype, RING_SUM), RING_OK);
  CHECK_INT(ring_allreduce(comm, again, again, count, dtype, RING_SUM), RING_OK);
  CHECK(memcmp(mine, again, bytes) == 0);
  CHECK_INT(ring_barrier(comm), RING_OK);
  for (int other = 0; other < ring_comm_size(comm); other++)
    CHECK(memcmp(mine, all + (size_t)other * bytes, bytes) == 0);
  CHECK_INT(ring_barrier(comm), RING_OK);
  free(again);
}

enum { INEXACT_MAX = 100003 };

static void allreduce_inexact_all(ring_comm *comm, void *shared) {
  static const ring_dtype dtypes[] = {RING_FLOAT16, RING_BFLOAT16, RING_FLOAT32, RING_FLOAT64};
  static const size_t lengths[] = {5, 701, 5000, INEXACT_MAX}; /* direct, doubling and ring */
  for (int d = 0; d < 4; d++)
    for (int i = 0; i < 4; i++) allreduce_inexact(comm, dtypes[d], lengths[i], shared);
}

static void test_results_are_the_same_bits(void) {
  for (int size = 2; size <= 9; size++) {
    size_t length = (size_t)size * INEXACT_MAX * sizeof(double);
    void *shared = shared_alloc(length);
    run_comms(size, allreduce_inexact_all, shared);
    shared_free(shared, length);
  }
}

/* 2048 + 1 is 2048 in float16: only an accumulator of float32 sees the ones. */
static void accumulate_halves(ring_comm *comm, void *shared) {
  (void)shared;
  uint16_t x[64];
  for (int i = 0; i < 64; i++) x[i] = ring_comm_rank(comm) == 0 ? 0x6800 : 0x3c00;
  CHECK_INT(ring_allreduce(comm, x, x, 64, RING_FLOAT16, RING_SUM), RING_OK);
  for (int i = 0; i < 64; i++) CHECK_INT(x[i], 0x6804); /* 2048 + 8 = 2056 */
  for (int i = 0; i < 64; i++) x[i] = ring_comm_rank(comm) == 0 ? 0x4380 : 0x3f80;
  CHECK_INT(ring_allreduce(comm, x, x, 64, RING_BFLOAT16, RING_SUM), RING_OK);
  for (int i = 0; i < 64; i++) CHECK_INT(x[i], 0x4384); /* 256 + 8 = 264 */
}

static void test_halves_accumulate_in_float32(void) {
  run_comms(9, accumulate_halves, NULL);
}

static void broadcast_everything(ring_comm *comm, void *shared) {
  (void)shared;
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  double *input = malloc(COUNT_MAX * sizeof *input), *output = malloc(COUNT_MAX * sizeof *output);
  for (int root = 0; root < size; root++)
    for (int i = 0; i < COUNTS; i++) {
      for (size_t k = 0; k < counts[i]; k++) input[k] = root * 1000.0 + (double)k;
      memset(output, 0, COUNT_MAX * sizeof *output);
      const void *source = rank == root ? input : NULL;
      CHECK_INT(ring_broadcast(comm, source, output, counts[i], RING_FLOAT64, root), RING_OK);
      CHECK(memcmp(input, output, counts[i] * sizeof *input) == 0);
      if (rank != root) memset(output, 0, COUNT_MAX * sizeof *output);
      CHECK_INT(ring_broadcast(comm, output, output, counts[i], RING_FLOAT64, root), RING_OK);
      CHECK(memcmp(input, output, counts[i] * sizeof *input) == 0);
    }
  free(input);
  free(output);
}

static void test_broadcast(void) {
  for (int size = 1; size <= 6; size++) run_comms(size, broadcast_everything, NULL);
}

static void allgather_everything(ring_comm *comm, void *shared) {
  (void)shared;
  size_t size = (size_t)ring_comm_size(comm), rank = (size_t)ring_comm_rank(comm);
  for (int i = 0; i < COUNTS; i++) {
    size_t count = counts[i];
    int32_t *input = calloc(count + 1, sizeof *input);
    int32_t *output = calloc(size * count + 1, sizeof *output);
    for (size_t k = 0; k < count; k++) input[k] = (int32_t)(rank * COUNT_MAX + k);
    CHECK_INT(ring_allgather(comm, input, output, count, RING_INT32), RING_OK);
    for (size_t k = 0; k < size * count; k++)
      CHECK_INT(output[k], (int32_t)(k / count * COUNT_MAX + k % count));
    memset(output, 0, size * count * sizeof *output);
    if (count > 0) memcpy(output + rank * count, input, count * sizeof *input);
    CHECK_INT(ring_allgather(comm, output + rank * count, output, count, RING_INT32), RING_OK);
    for (size_t k = 0; k < size * count; k++)
      CHECK_INT(output[k], (int32_t)(k / count * COUNT_MAX + k % count));
    free(input);
    free(output);
  }
}

static void test_allgather(void) {
  for (int size = 1; size <= 6; size++) run_comms(size, allgather_everything, NULL);
}

/* Everybody must have arrived before anybody leaves. */
static void barrier_many(ring_comm *comm, void *shared) {
  volatile int *arrived = shared;
  int size = ring_comm_size(comm), rank = ring_comm_rank(comm);
  for (int round = 1; round <= 200; round++) {
    arrived[rank * 32] = round;
    CHECK_INT(ring_barrier(comm), RING_OK);
    for (int other = 0; other < size; other++) CHECK(arrived[other * 32] >= round);
    CHECK_INT(ring_barrier(comm), RING_OK);
  }
}

static void test_barrier(void) {
  for (int size = 1; size <= 9; size += 2) {
    RUN_COMMS(size, barrier_many, (int[1024]){0});
  }
}

/* 2(N-1)K/N bytes a rank, and a header a message. */
static void count_traffic(ring_comm *comm, void *shared) {
  (void)shared;
  size_t size = (size_t)ring_comm_size(comm), count = size * 100000;
  float *x = calloc(count, sizeof *x);
  ring_counters before, after;
  CHECK_INT(ring_comm_counters(comm, -1, &before), RING_OK);
  CHECK_INT(ring_allreduce(comm, x, x, count, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_comm_counters(comm, -1, &after), RING_OK);
  size_t payload = 2 * (size - 1) * (count * sizeof *x / size);
  uint64_t sent = after.bytes_sent - before.bytes_sent;
  uint64_t received = after.bytes_received - before.bytes_received;
  uint64_t messages = after.messages_sent - before.messages_sent;
  CHECK_INT(sent, payload + RING_HEADER_BYTES * messages);
  CHECK_INT(received,
            payload + RING_HEADER_BYTES * (after.messages_received - before.messages_received));
  CHECK_INT(messages, 2 * (size - 1) * 2); /* parts of 400,000 bytes are two chunks */
  CHECK_INT(after.calls - before.calls, 1);
  free(x);
}

static void test_traffic_of_a_ring(void) {
  bool shared = ranks_share;
  ranks_share = false;
  CHECK(setenv("SPARKRING_ALGORITHM", "allreduce:ring", 1) == 0);
  for (int size = 2; size <= 8; size++) run_comms(size, count_traffic, NULL);
  CHECK(unsetenv("SPARKRING_ALGORITHM") == 0);
  ranks_share = shared;
}

static void bad_arguments(ring_comm *comm, void *shared) {
  (void)shared;
  float x[4] = {0};
  int8_t bytes[4] = {0};
  CHECK_INT(ring_allreduce(comm, x, x, 4, (ring_dtype)99, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "is no dtype");
  CHECK_INT(ring_allreduce(comm, x, x, 4, (ring_dtype)256, RING_SUM), RING_INVALID);
  CHECK_INT(ring_allreduce(comm, x, x, 4, RING_FLOAT32, (ring_op)99), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "is no op");
  CHECK_INT(ring_allreduce(comm, x, x, 4, RING_FLOAT32, RING_LAND), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message,
                 "op land is for integers and bool, not for float32");
  CHECK_INT(ring_allreduce(comm, NULL, x, 4, RING_FLOAT32, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "allreduce: input is NULL but count is not 0");
  CHECK_INT(ring_allgather(comm, x, NULL, 4, RING_FLOAT32), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "allgather: output is NULL");
  CHECK_INT(ring_allgather(comm, x, x, SIZE_MAX / 2, RING_FLOAT32), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "larger than memory");
  CHECK_INT(ring_allreduce(comm, x, x, PTRDIFF_MAX / 2, RING_BFLOAT16, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "larger than memory");
  CHECK_INT(ring_allreduce(comm, x, x + 1, 3, RING_FLOAT32, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "input overlaps output without being in place");
  int wrong = 1 - ring_comm_rank(comm); /* the other rank's place */
  CHECK_INT(ring_allgather(comm, x + 2 * wrong, x, 2, RING_FLOAT32), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "input overlaps output without being in place");
  CHECK_INT(ring_broadcast(comm, x, x, 4, RING_FLOAT32, 2), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "root 2 is no rank: ranks go from 0 to 1");
  CHECK_INT(ring_broadcast(comm, x, x, 4, RING_FLOAT32, -1), RING_INVALID);
  /* A bad argument is not sent and breaks nothing. */
  CHECK_INT(ring_allreduce(comm, bytes, bytes, 4, RING_INT8, RING_LOR), RING_OK);
}

static void test_bad_arguments(void) {
  run_comms(2, bad_arguments, NULL);
}

int main(void) {
  RUN(test_allreduce);
  RUN(test_reduce_and_reduce_scatter);
  RUN(test_results_are_the_same_bits);
  RUN(test_halves_accumulate_in_float32);
  RUN(test_broadcast);
  RUN(test_allgather);
  RUN(test_barrier);
  RUN(test_traffic_of_a_ring);
  RUN(test_bad_arguments);
  return 0;
}
