/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages: any sizes in both directions, probes, to oneself, progress without a call, and more than there
 * is room for.
 */
#include <unistd.h>

#include "messages.h"

static const size_t sizes[] = {0, 1, 8, 1000, 65536, 65537, 300001, (size_t)8 * 1024 * 1024};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Every rank starts a receive from its left, then a send to its right, and waits in this order or the
 * other. */
static void cross(ring_messages *messages, int rank, int ranks, size_t size, bool sends_first) {
  uint8_t *out = malloc(size + 1), *in = malloc(size + 1);
  int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  fill_bytes(out, size, (unsigned)rank);
  ring_transfer *receive = start_recv(messages, in, size, left, 7);
  ring_transfer *send = start_send(messages, out, size, right, 7);
  finish_well(sends_first ? send : receive);
  finish_well(sends_first ? receive : send);
  check_bytes(in, size, (unsigned)left);
  free(out);
  free(in);
}

/* Bit 0 of the order is that of even ranks, bit 1 that of odd ones. */
static void try_cross(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), ranks = ring_comm_size(comm);
  for (int i = 0; i < SIZES; i++)
    for (int order = 0; order < 4; order++)
      cross(messages, rank, ranks, sizes[i], (order >> rank % 2 & 1) != 0);
  end_messages(messages);
}

static void test_starts_wait_in_either_order(void) {
  for (int size = 2; size <= 3; size++) run_comms(size, try_cross, NULL);
}

/* Every rank sends to its right and receives from its left, at once. */
static void try_ring(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int i = 0; i < SIZES; i++) {
    uint8_t *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
    ring_message_info info;
    fill_bytes(out, sizes[i], (unsigned)rank);
    went_well(messages, ring_messages_sendrecv(messages, out, sizes[i], RING_UINT8, right, i, in,
                                               sizes[i], RING_UINT8, left, RING_ANY_TAG, &info));
    check_bytes(in, sizes[i], (unsigned)left);
    CHECK_INT(info.source, left);
    CHECK_INT(info.tag, i);
    CHECK_INT(info.count, sizes[i]);
    free(out);
    free(in);
  }
  end_messages(messages);
}

static void test_sendrecv_around_a_ring(void) {
  for (int size = 1; size <= 4; size++) run_comms(size, try_ring, NULL);
}

static void check_taken(ring_messages *messages, size_t size) {
  ring_transfer *take;
  ring_message_info info;
  went_well(messages, ring_messages_take_start(messages, RING_ANY_SOURCE, 3, &take));
  CHECK_INT(ring_transfer_wait(take), RING_OK);
  info = ring_transfer_info(take);
  CHECK_INT(info.count, size);
  CHECK_INT(info.dtype, RING_UINT8);
  uint8_t *output = ring_transfer_take_output(take);
  CHECK((output == NULL) == (size == 0));
  check_bytes(output, size, 1);
  ring_free(output);
  ring_transfer_free(take);
}

static void try_probe(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  ring_message_info info;
  int found = 1, rank = ring_comm_rank(comm);
  if (rank == 0) {
    went_well(messages, ring_messages_iprobe(messages, RING_ANY_SOURCE, 3, &found, &info));
    CHECK_INT(found, 0);
    send_number(messages, 0, 1, 0);
  } else {
    take_number(messages, 0, 0, NULL);
  }
  for (int i = 0; i < SIZES; i++) {
    uint8_t *bytes = malloc(sizes[i] + 1);
    if (rank == 1) {
      fill_bytes(bytes, sizes[i], 1);
      went_well(messages, ring_messages_send(messages, bytes, sizes[i], RING_UINT8, 0, 3));
    } else if (i % 2 == 0) {
      went_well(messages, ring_messages_probe(messages, RING_ANY_SOURCE, RING_ANY_TAG, &info));
      CHECK_INT(info.source, 1);
      CHECK_INT(info.tag, 3);
      CHECK_INT(info.count, sizes[i]);
      check_taken(messages, sizes[i]);
    } else {
      for (found = 0; found == 0;)
        went_well(messages, ring_messages_iprobe(messages, 1, 3, &found, &info));
      CHECK_INT(info.count, sizes[i]);
      check_taken(messages, sizes[i]);
    }
    free(bytes);
  }
  end_messages(messages);
}

static void test_probe_and_take(void) {
  run_comms(2, try_probe, NULL);
}

static void try_self(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm);
  for (int i = 0; i < 2 * SIZES; i++) {
    size_t size = sizes[i / 2];
    uint8_t *out = malloc(size + 1), *in = malloc(size + 1);
    ring_transfer *send = NULL, *receive = NULL;
    fill_bytes(out, size, (unsigned)i);
    if (i % 2 == 0) send = start_send(messages, out, size, rank, i);
    receive = start_recv(messages, in, size, rank, i);
    if (i % 2 == 1) send = start_send(messages, out, size, rank, i);
    finish_well(receive);
    finish_well(send);
    check_bytes(in, size, (unsigned)i);
    free(out);
    free(in);
  }
  end_messages(messages);
}

static void test_messages_to_oneself(void) {
  run_comms(1, try_self, NULL);
  run_comms(2, try_self, NULL);
}

/* Rank 0 starts, and makes no call until rank 1 has everything. */
static void try_background(ring_comm *comm, void *shared) {
  int *received = shared;
  ring_messages *messages = messages_of(comm);
  const size_t size = (size_t)8 * 1024 * 1024;
  uint8_t *bytes = malloc(size);
  if (ring_comm_rank(comm) == 0) {
    fill_bytes(bytes, size, 5);
    ring_transfer *send = start_send(messages, bytes, size, 1, 1);
    await_count(received, 1);
    finish_well(send);
  } else {
    went_well(messages, ring_messages_recv(messages, bytes, size, RING_UINT8, 0, 1, NULL));
    check_bytes(bytes, size, 5);
    __atomic_fetch_add(received, 1, __ATOMIC_SEQ_CST);
  }
  free(bytes);
  end_messages(messages);
}

static void test_started_sends_end_without_their_rank(void) {
  RUN_COMMS(2, try_background, (int[1]){0});
}

/* More short messages than there is room for, before the first receive. */
static void try_flood(ring_comm *comm, void *shared) {
  (void)shared;
  enum { COUNT = 3000, BYTES = 1000 };
  static uint8_t bytes[COUNT][BYTES];
  static ring_transfer *sends[COUNT];
  ring_messages *messages = messages_of(comm);
  if (ring_comm_rank(comm) == 0) {
    for (int i = 0; i < COUNT; i++) {
      fill_bytes(bytes[i], BYTES, (unsigned)i);
      sends[i] = start_send(messages, bytes[i], BYTES, 1, i % 5);
    }
    int done;
    CHECK_INT(ring_transfer_test(sends[0], &done), RING_OK);
    CHECK_INT(done, 1);
    CHECK_INT(ring_transfer_test(sends[COUNT - 1], &done), RING_OK);
    CHECK_INT(done, 0); /* there was no room for it */
    send_number(messages, 1, 1, 100);
    for (int i = 0; i < COUNT; i++) finish_well(sends[i]);
  } else {
    take_number(messages, 0, 100, NULL);
    for (int tag = 4; tag >= 0; tag--)
      for (int i = tag; i < COUNT; i += 5) {
        went_well(messages,
                  ring_messages_recv(messages, bytes[i], BYTES, RING_UINT8, 0, tag, NULL));
        check_bytes(bytes[i], BYTES, (unsigned)i);
      }
  }
  end_messages(messages);
}

static void test_more_messages_than_room(void) {
  run_comms(2, try_flood, NULL);
}

/* Messages and collectives do not disturb each other, in any order. */
static void try_beside(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  for (int i = 0; i < 50; i++) {
    uint8_t in = 0, out = (uint8_t)(rank + i);
    int one = 1, sum = 0;
    ring_transfer *receive = start_recv(messages, &in, 1, (rank + size - 1) % size, RING_ANY_TAG);
    if (i % 2 == 0) CHECK_INT(ring_allreduce(comm, &one, &sum, 1, RING_INT32, RING_SUM), RING_OK);
    ring_transfer *send = start_send(messages, &out, 1, (rank + 1) % size, i);
    if (i % 2 == 1) CHECK_INT(ring_allreduce(comm, &one, &sum, 1, RING_INT32, RING_SUM), RING_OK);
    CHECK_INT(sum, size);
    finish_well(receive);
    finish_well(send);
    CHECK_INT(in, (uint8_t)((rank + size - 1) % size + i));
  }
  end_messages(messages);
}

static void test_messages_beside_collectives(void) {
  run_comms(3, try_beside, NULL);
}

int main(void) {
  RUN(test_starts_wait_in_either_order);
  RUN(test_sendrecv_around_a_ring);
  RUN(test_probe_and_take);
  RUN(test_messages_to_oneself);
  RUN(test_started_sends_end_without_their_rank);
  RUN(test_more_messages_than_room);
  RUN(test_messages_beside_collectives);
  return 0;
}
