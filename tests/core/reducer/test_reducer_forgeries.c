/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that forges messages to reducers: it makes the calls of a reducer by hand, with bytes that no reducer sends.
 * Both other ranks get an error that names it, and nothing is read or allocated by its numbers.
 */
#include "base/bytes.h"
#include "reducer/negotiation.h"
#include "reducers.h"

enum { SIZE = 3, FORGER = 1, WORDS_MOST = 8, ROOM = 512 };

static ring_comm *forge_open(ring_comm *comm) {
  int64_t mine[3] = {0, 0, 0}, all[3 * SIZE];
  ring_comm *child;
  CHECK_INT(ring_comm_split(comm, 0, 0, &child), RING_OK);
  CHECK_INT(ring_allgather(child, mine, all, 3, RING_INT64), RING_OK);
  return child;
}

/* The AND of a cycle in which this rank raises `flags` and offers `offers`, of `words` words. Returns the flags of
 * all ranks. */
static uint64_t forge_vote(ring_comm *child, uint64_t flags, uint64_t offers, size_t words) {
  uint64_t sent[1 + WORDS_MOST] = {~flags, offers}, all[1 + WORDS_MOST];
  ring_status status = ring_allreduce(child, sent, all, 1 + words, RING_UINT64, RING_BAND);
  return status == RING_OK ? ~all[0] : 0;
}

/* Announces bytes whose number is `claimed`. */
static ring_status forge_announce(ring_comm *child, const uint8_t *bytes, int64_t claimed) {
  static uint8_t incoming[4096];
  int64_t all[SIZE];
  size_t counts[SIZE];
  ring_status status = ring_allgather(child, &claimed, all, 1, RING_INT64);
  if (status != RING_OK || claimed < 0 || claimed > ROOM) return status;
  for (int rank = 0; rank < SIZE; rank++) counts[rank] = (size_t)all[rank];
  return ring_allgatherv(child, bytes, incoming, counts, RING_UINT8);
}

/* Packs an announcement whose description has `length` bytes, of which a part may be missing. */
static int64_t forge_pack(uint8_t *to, const char *name, size_t name_length,
                          const uint8_t *description, size_t length) {
  const ring_announcement announcement = {name, name_length, description, length};
  ring_announcement_encode(&announcement, to);
  return (int64_t)announcement_bytes(&announcement);
}

static size_t forge_describe(uint8_t *to, const ring_operation *operation) {
  ring_tensor_encode(operation, to);
  return ring_tensor_length(operation);
}

static const int64_t four = 4;

/* What the forger announces beside the others' sum "x" of four float32. */
typedef struct forgery {
  const char *text; /* of the error */
  int64_t (*announce)(uint8_t *bytes);
} forgery;

static size_t describe_sum(uint8_t *to) {
  float data[4];
  const ring_operation sum = sum_of("x", data, &four);
  return forge_describe(to, &sum);
}

static int64_t announce_few_bytes(uint8_t *bytes) {
  return forge_pack(bytes, "x", 1, (const uint8_t *)"\1\1\1", 3);
}
static int64_t announce_nothing(uint8_t *bytes) {
  return forge_pack(bytes, "x", 1, bytes, 0);
}
static int64_t announce_many_extents(uint8_t *bytes) {
  uint8_t description[64];
  size_t length = describe_sum(description);
  bytes_put(description + 24, 8, 4);
  return forge_pack(bytes, "x", 1, description, length);
}
static int64_t announce_kind(uint8_t *bytes) {
  uint8_t description[64];
  size_t length = describe_sum(description);
  description[0] = 200;
  return forge_pack(bytes, "x", 1, description, length);
}
static int64_t announce_dtype(uint8_t *bytes) {
  uint8_t description[64];
  size_t length = describe_sum(description);
  description[1] = 99;
  return forge_pack(bytes, "x", 1, description, length);
}
static int64_t announce_dtype_of_group(uint8_t *bytes) {
  uint8_t description[64];
  float data[1];
  const ring_buffer buffers[2] = {{data, data, 1}, {data, data, 1}};
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_ALLREDUCE_GROUP;
  operation.buffers = buffers;
  operation.buffer_count = 2;
  size_t length = forge_describe(description, &operation);
  description[length - 1] = 99;
  return forge_pack(bytes, "g", 1, description, length);
}
static int64_t announce_root(uint8_t *bytes) {
  uint8_t description[64];
  ring_operation operation = RING_OPERATION_INIT;
  operation.kind = RING_OPERATION_BROADCAST;
  operation.root = 1 << 30;
  operation.shape = &four;
  operation.dimensions = 1;
  return forge_pack(bytes, "b", 1, description, forge_describe(description, &operation));
}
static int64_t announce_huge_shape(uint8_t *bytes) {
  uint8_t description[64];
  size_t length = describe_sum(description);
  bytes_put(description + 28, (uint64_t)INT64_MAX, 8);
  return forge_pack(bytes, "x", 1, description, length);
}
static int64_t announce_no_name(uint8_t *bytes) {
  uint8_t description[64];
  return forge_pack(bytes, "", 0, description, describe_sum(description));
}
static int64_t announce_split_name(uint8_t *bytes) {
  uint8_t description[64];
  return forge_pack(bytes, "x\0y", 3, description, describe_sum(description));
}
static int64_t announce_long_name(uint8_t *bytes) {
  bytes_put(bytes_put(bytes, UINT32_MAX, 4), 27, 4);
  return 8;
}
static int64_t announce_a_rest(uint8_t *bytes) {
  uint8_t description[64];
  int64_t length = forge_pack(bytes, "x", 1, description, describe_sum(description));
  return length + 5;
}
static int64_t announce_less_than_nothing(uint8_t *bytes) {
  (void)bytes;
  return -8;
}
static int64_t announce_too_much(uint8_t *bytes) {
  (void)bytes;
  return INT64_C(1) << 50;
}

#define NO_TENSOR "rank 1 (127.0.0.1) sent a reducer the description of no tensor"
#define NO_LENGTH "rank 1 (127.0.0.1) sent a reducer an impossible length of names"
static const forgery forgeries[] = {
    {NO_TENSOR, announce_few_bytes},    {NO_TENSOR, announce_nothing},
    {NO_TENSOR, announce_many_extents}, {NO_TENSOR, announce_kind},
    {NO_TENSOR, announce_dtype},        {NO_TENSOR, announce_root},
    {NO_TENSOR, announce_huge_shape},   {NO_TENSOR, announce_no_name},
    {NO_TENSOR, announce_split_name},   {NO_TENSOR, announce_long_name},
    {NO_TENSOR, announce_a_rest},       {NO_LENGTH, announce_less_than_nothing},
    {NO_LENGTH, announce_too_much},     {NO_TENSOR, announce_dtype_of_group},
};

/* The reducer of an honest rank fails with this text. */
static void expect_accusation(ring_comm *comm, const ring_operation *operation, const char *text) {
  ring_reducer *reducer = reducer_of(comm, NULL);
  ring_submission *submission = submit(reducer, operation);
  CHECK_INT(ring_submission_wait(submission), RING_MISMATCH);
  CHECK_INT(ring_submission_error(submission)->rank, FORGER);
  CHECK_CONTAINS(ring_submission_error(submission)->message, text);
  ring_submission_free(submission);
  ring_reducer_free(reducer);
}

static void try_announcements(ring_comm *comm, void *shared) {
  (void)shared;
  for (size_t i = 0; i < sizeof forgeries / sizeof *forgeries; i++) {
    float data[4] = {1, 1, 1, 1};
    const ring_operation sum = sum_of("x", data, &four);
    if (ring_comm_rank(comm) != FORGER) {
      expect_accusation(comm, &sum, forgeries[i].text);
      continue;
    }
    uint8_t bytes[ROOM] = {0};
    ring_comm *child = forge_open(comm);
    int64_t claimed = forgeries[i].announce(bytes);
    CHECK(forge_vote(child, NEGOTIATION_NEW, 0, 0) & NEGOTIATION_NEW);
    forge_announce(child, bytes, claimed);
    CHECK(ring_barrier(child) != RING_OK);
    ring_comm_free(child);
  }
}

static void test_announcements(void) {
  run_comms(SIZE, try_announcements, NULL);
}

/* A name that all ranks agreed on before. */
static void try_known_name(ring_comm *comm, void *shared) {
  (void)shared;
  float data[4] = {1, 1, 1, 1};
  ring_operation sum = sum_of("x", data, &four);
  if (ring_comm_rank(comm) != FORGER) {
    ring_reducer *reducer = reducer_of(comm, NULL);
    finish_well(submit(reducer, &sum));
    sum.name = "y";
    finish_with(submit(reducer, &sum), RING_MISMATCH, NO_TENSOR);
    ring_reducer_free(reducer);
    return;
  }
  uint8_t bytes[ROOM] = {0};
  ring_comm *child = forge_open(comm);
  CHECK(forge_vote(child, 0, 0, 0) & NEGOTIATION_NEW);
  CHECK_INT(forge_announce(child, bytes, 0), RING_OK);
  CHECK_INT(forge_vote(child, 0, 1, 1), 0);
  CHECK_INT(ring_allreduce(child, data, data, 4, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK(forge_vote(child, NEGOTIATION_NEW, 0, 1) & NEGOTIATION_NEW);
  forge_announce(child, bytes, announce_nothing(bytes));
  CHECK(ring_barrier(child) != RING_OK);
  ring_comm_free(child);
}

static void test_known_name(void) {
  run_comms(SIZE, try_known_name, NULL);
}

/* Another description of a name, announced in the cycle in which the name is ready on all ranks. */
static void try_ready_name(ring_comm *comm, void *shared) {
  (void)shared;
  float data[4] = {1, 1, 1, 1};
  const ring_operation sum = sum_of("x", data, &four);
  if (ring_comm_rank(comm) != FORGER) {
    expect_accusation(comm, &sum, NO_TENSOR);
    return;
  }
  uint8_t bytes[ROOM] = {0}, description[ROOM];
  const int64_t two[2] = {2, 2};
  ring_operation square = sum_of("x", data, two);
  square.dimensions = 2;
  ring_comm *child = forge_open(comm);
  CHECK(forge_vote(child, 0, 0, 0) & NEGOTIATION_NEW);
  CHECK_INT(forge_announce(child, bytes, 0), RING_OK);
  CHECK_INT(forge_vote(child, NEGOTIATION_NEW, 1, 1), NEGOTIATION_NEW);
  forge_announce(child, bytes,
                 forge_pack(bytes, "x", 1, description, forge_describe(description, &square)));
  CHECK(ring_barrier(child) != RING_OK);
  ring_comm_free(child);
}

static void test_ready_name(void) {
  run_comms(SIZE, try_ready_name, NULL);
}

static void try_state(ring_comm *comm, void *shared) {
  (void)shared;
  float data[4] = {1, 1, 1, 1};
  const ring_operation sum = sum_of("x", data, &four);
  if (ring_comm_rank(comm) != FORGER) {
    expect_accusation(comm, &sum, "rank 1 (127.0.0.1) sent a reducer a state that does not exist");
    return;
  }
  int64_t state = 7, all[SIZE];
  ring_comm *child = forge_open(comm);
  CHECK(forge_vote(child, NEGOTIATION_STATE, 0, 0) & NEGOTIATION_STATE);
  ring_allgather(child, &state, all, 1, RING_INT64);
  CHECK(ring_barrier(child) != RING_OK);
  ring_comm_free(child);
}

static void test_state(void) {
  run_comms(SIZE, try_state, NULL);
}

/* Rows of an allgather. */
static void try_rows(ring_comm *comm, void *shared) {
  float data[4] = {1, 1, 1, 1};
  ring_operation operation = sum_of("x", data, &four);
  operation.kind = RING_OPERATION_ALLGATHER;
  operation.output = NULL;
  if (ring_comm_rank(comm) != FORGER) {
    expect_accusation(comm, &operation,
                      "rank 1 (127.0.0.1) sent a reducer an impossible number of rows");
    return;
  }
  uint8_t bytes[ROOM] = {0};
  int64_t rows = *(const int64_t *)shared, all[SIZE];
  ring_comm *child = forge_open(comm);
  CHECK(forge_vote(child, 0, 0, 0) & NEGOTIATION_NEW);
  CHECK_INT(forge_announce(child, bytes, 0), RING_OK);
  CHECK_INT(forge_vote(child, 0, 1, 1), 0);
  ring_allgather(child, &rows, all, 1, RING_INT64);
  CHECK(ring_barrier(child) != RING_OK);
  ring_comm_free(child);
}

static void test_rows(void) {
  int64_t rows[] = {-5, INT64_MAX / 4 + 1};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) run_comms(SIZE, try_rows, &rows[i]);
}

int main(void) {
  RUN(test_announcements);
  RUN(test_known_name);
  RUN(test_ready_name);
  RUN(test_state);
  RUN(test_rows);
  return 0;
}
