/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of every kind: every buffer gets what a collective of its own would give, with one dtype and with
 * several, started and not, short and long, and in fewer messages.
 */
#include "base/dtype.h"
#include "check.h"
#include "ranks.h"
#include "requests.h"
#include "values.h"

enum { ITEMS = 12, KINDS = RING_GROUP_BROADCAST + 1 };

/* Short, empty and long ones; neighbours have different dtypes. */
static const size_t counts[ITEMS] = {1, 0, 7, 70000, 300, 5, 33000, 2, 9000, 0, 1, 4};
static const ring_dtype dtypes[] = {RING_FLOAT32, RING_INT64, RING_FLOAT16, RING_UINT8,
                                    RING_FLOAT64};

typedef struct group {
  ring_group_item items[ITEMS];
  void *expected[ITEMS];
  size_t bytes[ITEMS]; /* of an output */
} group;

static ring_status call_one(ring_comm *comm, ring_group_kind kind, const ring_group_item *item,
                            void *output, int root) {
  switch (kind) {
  case RING_GROUP_ALLREDUCE:
    return ring_allreduce(comm, item->input, output, item->count, item->dtype, RING_SUM);
  case RING_GROUP_ALLGATHER:
    return ring_allgather(comm, item->input, output, item->count, item->dtype);
  case RING_GROUP_REDUCE_SCATTER:
    return ring_reduce_scatter(comm, item->input, output, item->count, item->dtype, RING_SUM);
  default:
    return ring_broadcast(comm, item->input, output, item->count, item->dtype, root);
  }
}

static void group_make(ring_comm *comm, ring_group_kind kind, bool mixed, int root, group *made) {
  size_t size = (size_t)ring_comm_size(comm);
  for (int i = 0; i < ITEMS; i++) {
    ring_dtype dtype = dtypes[mixed ? i % 5 : 0];
    size_t width = ring_dtype_size(dtype), count = counts[i];
    uint8_t *x = calloc(count * size + 1, width);
    for (size_t j = 0; j < count * size; j++)
      put(x, dtype, j, exact(ring_comm_rank(comm), j + (size_t)i));
    made->bytes[i] = count * width * (kind == RING_GROUP_ALLGATHER ? size : 1);
    made->items[i] = (ring_group_item){x, calloc(made->bytes[i] + 1, 1), count, dtype};
    made->expected[i] = calloc(made->bytes[i] + 1, 1);
    CHECK_INT(call_one(comm, kind, &made->items[i], made->expected[i], root), RING_OK);
  }
}

static void group_check(const group *made) {
  for (int i = 0; i < ITEMS; i++) {
    CHECK(memcmp(made->items[i].output, made->expected[i], made->bytes[i]) == 0);
    memset(made->items[i].output, 0, made->bytes[i]);
  }
}

static void group_free(const group *made) {
  for (int i = 0; i < ITEMS; i++) {
    free((void *)(uintptr_t)made->items[i].input);
    free(made->items[i].output);
    free(made->expected[i]);
  }
}

static void group_everything(ring_comm *comm, void *shared) {
  (void)shared;
  int size = ring_comm_size(comm);
  ring_request *request;
  for (int kind = 0; kind < KINDS; kind++)
    for (int mixed = 0; mixed < 2; mixed++) {
      group made;
      int root = (kind + mixed) % size;
      group_make(comm, (ring_group_kind)kind, mixed, root, &made);
      CHECK_INT(ring_group(comm, (ring_group_kind)kind, made.items, ITEMS, RING_SUM, root),
                RING_OK);
      group_check(&made);
      CHECK_INT(ring_group_start(comm, (ring_group_kind)kind, made.items, ITEMS, RING_SUM, root,
                                 &request),
                RING_OK);
      finish(request);
      group_check(&made);
      group_free(&made);
    }
}

static void test_every_kind(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, group_everything, NULL);
}

/* Many short buffers of two dtypes take as many messages as two buffers. */
static void count_messages(ring_comm *comm, void *shared) {
  enum { MANY = 60 };
  ring_group_item items[MANY];
  ring_counters before, between, after;
  int64_t whole[MANY] = {0};
  float x[MANY] = {0};
  (void)shared;
  for (int i = 0; i < MANY; i++)
    items[i] = i % 2 ? (ring_group_item){&x[i], &x[i], 1, RING_FLOAT32}
                     : (ring_group_item){&whole[i], &whole[i], 1, RING_INT64};
  CHECK_INT(ring_comm_counters(comm, -1, &before), RING_OK);
  CHECK_INT(ring_group(comm, RING_GROUP_BROADCAST, items, 2, RING_SUM, 0), RING_OK);
  CHECK_INT(ring_comm_counters(comm, -1, &between), RING_OK);
  CHECK_INT(ring_group(comm, RING_GROUP_BROADCAST, items, MANY, RING_SUM, 0), RING_OK);
  CHECK_INT(ring_comm_counters(comm, -1, &after), RING_OK);
  CHECK_INT(after.messages_sent - between.messages_sent,
            between.messages_sent - before.messages_sent);
}

static void test_short_buffers_travel_together(void) {
  run_comms(2, count_messages, NULL);
}

static void refused(ring_comm *comm, void *shared) {
  float x[4] = {0}, y[8];
  ring_group_item items[2] = {{x, y, 2, RING_FLOAT32}, {x, y + 4, 2, RING_COMPLEX64}};
  (void)shared;
  CHECK_INT(ring_group(comm, RING_GROUP_ALLREDUCE, items, 2, RING_MAX, 0), RING_INVALID);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "allreduce_group: op max is not defined on compl");
  CHECK_INT(ring_group(comm, (ring_group_kind)9, items, 2, RING_SUM, 0), RING_INVALID);
  CHECK_INT(ring_group(comm, RING_GROUP_BROADCAST, items, 1, RING_SUM, 5), RING_INVALID);
  CHECK_INT(ring_group(comm, RING_GROUP_ALLGATHER, NULL, 1, RING_SUM, 0), RING_INVALID);
  CHECK_INT(ring_group(comm, RING_GROUP_ALLGATHER, NULL, 0, RING_SUM, 0), RING_OK);
}

static void differ(int rank, int size, void *shared) {
  ring_comm *comm = open_rank(rank, size);
  float x[2] = {0};
  int64_t whole = 0;
  ring_group_item items[2] = {{x, x, 1, RING_FLOAT32}, {&whole, &whole, 1, RING_INT64}};
  (void)shared;
  if (rank == 1) items[1] = (ring_group_item){x + 1, x + 1, 1, RING_FLOAT32};
  CHECK_INT(ring_group(comm, RING_GROUP_ALLREDUCE, items, 2, RING_SUM, 0), RING_MISMATCH);
  CHECK_CONTAINS(ring_comm_error(comm)->message, "several dtypes");
  ring_comm_free(comm);
}

static void test_errors(void) {
  run_comms(2, refused, NULL);
  run_ranks(2, differ, NULL);
}

int main(void) {
  RUN(test_every_kind);
  RUN(test_short_buffers_travel_together);
  RUN(test_errors);
  return 0;
}
