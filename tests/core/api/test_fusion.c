/* SPDX-License-Identifier: Apache-2.0
 *
 * Grouped allreduce: every buffer gets what an allreduce of its own would give, however the group is
 * cut, and in a fraction of the messages.
 */
#include <stdbool.h>
#include <unistd.h>

#include "base/dtype.h"
#include "check.h"
#include "ranks.h"
#include "values.h"

enum { BUFFERS = 14, ROOM = 400000 };

/* Short, long, empty, and at the edge of 128 KiB for 1, 2, 4 and 8 bytes an element. */
static const size_t counts[BUFFERS] = {1,     0,     7,     131071, 131072, 65536, 32768,
                                       16383, 32767, 65535, 0,      ROOM,   16384, 3};

static void fill(void *buffer, ring_dtype dtype, int rank, size_t salt, size_t count) {
  for (size_t i = 0; i < count; i++)
    put(buffer, dtype, i, (double)((i + salt + (size_t)rank) % 3) + (dtype == RING_BOOL ? 0 : 1));
}

/* The same group twice, waiting and started, in place or not, against one allreduce a buffer. */
static void group_one(ring_comm *comm, ring_dtype dtype, ring_op op, bool in_place) {
  size_t width = ring_dtype_size(dtype);
  int rank = ring_comm_rank(comm);
  ring_buffer buffers[BUFFERS], again[BUFFERS];
  ring_request *request;
  for (size_t b = 0; b < BUFFERS; b++) {
    void *x = malloc(counts[b] * width + 1), *y = malloc(counts[b] * width + 1);
    fill(x, dtype, rank, b, counts[b]);
    fill(y, dtype, rank, b, counts[b]);
    buffers[b] = (ring_buffer){x, in_place ? x : malloc(counts[b] * width + 1), counts[b]};
    again[b] = (ring_buffer){y, in_place ? y : malloc(counts[b] * width + 1), counts[b]};
  }
  CHECK_INT(ring_allreduce_group(comm, buffers, BUFFERS, dtype, op), RING_OK);
  CHECK_INT(ring_allreduce_group_start(comm, again, BUFFERS, dtype, op, &request), RING_OK);
  CHECK_INT(ring_request_wait(request), RING_OK);
  ring_request_free(request);
  for (size_t b = 0; b < BUFFERS; b++) {
    void *expected = malloc(counts[b] * width + 1);
    fill(expected, dtype, rank, b, counts[b]);
    CHECK_INT(ring_allreduce(comm, expected, expected, counts[b], dtype, op), RING_OK);
    CHECK(memcmp(buffers[b].output, expected, counts[b] * width) == 0);
    CHECK(memcmp(again[b].output, expected, counts[b] * width) == 0);
    free(expected);
    if (!in_place) free(buffers[b].output);
    if (!in_place) free(again[b].output);
    free((void *)(uintptr_t)buffers[b].input);
    free((void *)(uintptr_t)again[b].input);
  }
}

static void group_everything(ring_comm *comm, void *shared) {
  (void)shared;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++) {
    group_one(comm, (ring_dtype)dtype, RING_SUM, dtype % 2 == 0);
    ring_op other = ring_op_allowed(RING_AVG, (ring_dtype)dtype) ? RING_AVG : RING_MAX;
    group_one(comm, (ring_dtype)dtype, other, dtype % 2 != 0);
  }
  group_one(comm, RING_UINT8, RING_LOR, true);
  group_one(comm, RING_FLOAT32, RING_MAX, true);
  group_one(comm, RING_INT16, RING_BAND, true);
}

static void test_groups(void) {
  for (int size = 1; size <= 3; size++) run_comms(size, group_everything, NULL);
}

/* More short buffers than one bundle holds. */
static void group_many(ring_comm *comm, void *shared) {
  (void)shared;
  enum { MANY = 1500, EACH = 1001 };
  static float x[MANY][EACH];
  static ring_buffer buffers[MANY];
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int b = 0; b < MANY; b++) {
    for (int i = 0; i < EACH; i++) x[b][i] = (float)(b + i + rank);
    buffers[b] = (ring_buffer){x[b], x[b], EACH};
  }
  ring_counters before, after;
  CHECK_INT(ring_comm_counters(comm, -1, &before), RING_OK);
  CHECK_INT(ring_allreduce_group(comm, buffers, MANY, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_comm_counters(comm, -1, &after), RING_OK);
  CHECK_INT(after.calls - before.calls, 1);
  CHECK(after.messages_sent - before.messages_sent < MANY / 10);
  for (int b = 0; b < MANY; b++)
    for (int i = 0; i < EACH; i++)
      CHECK(x[b][i] == (float)(size * (b + i) + size * (size - 1) / 2));
}

static void test_many_short_ones(void) {
  run_comms(3, group_many, NULL);
}

static void group_nothing(ring_comm *comm, void *shared) {
  (void)shared;
  ring_buffer empty[2] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
  float x[4] = {1, 2, 3, 4};
  CHECK_INT(ring_allreduce_group(comm, NULL, 0, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_allreduce_group(comm, empty, 2, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_allreduce_group(comm, NULL, 1, RING_FLOAT32, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "buffers is NULL");
  ring_buffer bad[2] = {{x, x, 1}, {x, NULL, 1}};
  CHECK_INT(ring_allreduce_group(comm, bad, 2, RING_FLOAT32, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "allreduce_group: output is NULL");
  bad[1] = (ring_buffer){x, x + 1, 2};
  CHECK_INT(ring_allreduce_group(comm, bad, 2, RING_FLOAT32, RING_SUM), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "overlaps");
  bad[0].count = bad[1].count = SIZE_MAX / 8;
  bad[1].output = x;
  CHECK_INT(ring_allreduce_group(comm, bad, 2, RING_FLOAT32, RING_SUM), RING_INVALID);
  CHECK_INT(ring_allreduce_group(comm, bad, 0, RING_FLOAT32, RING_LOR), RING_INVALID);
  CHECK_INT(ring_allreduce_group(comm, bad, 0, (ring_dtype)77, RING_SUM), RING_INVALID);
}

static void test_nothing_and_nonsense(void) {
  run_comms(2, group_nothing, NULL);
}

/* The same total, cut otherwise; or other buffers of the same counts; or nothing at all. */
static void group_mismatch(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  float x[12] = {0};
  ring_buffer buffers[2] = {{x, x, rank == 0 ? 5 : 6}, {x + 6, x + 6, rank == 0 ? 6 : 5}};
  ranks_barrier(shared, size);
  CHECK_INT(ring_allreduce_group(comm, buffers, 2, RING_FLOAT32, RING_SUM), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "allreduce_group(count 11 in parts #");
  ring_comm_free(comm);
}

static void group_empty_mismatch(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  ring_buffer buffers[2] = {{NULL, NULL, 0}, {NULL, NULL, 0}};
  ranks_barrier(shared, size);
  CHECK_INT(ring_allreduce_group(comm, buffers, (size_t)rank + 1, RING_FLOAT32, RING_SUM),
            RING_MISMATCH);
  ring_comm_free(comm);
}

static void test_mismatch(void) {
  const rank_function ways[] = {group_mismatch, group_empty_mismatch};
  for (int i = 0; i < 2; i++) {
    RUN_RANKS(2, ways[i], (int[16]){0});
  }
}

int main(void) {
  RUN(test_groups);
  RUN(test_many_short_ones);
  RUN(test_nothing_and_nonsense);
  RUN(test_mismatch);
  return 0;
}
