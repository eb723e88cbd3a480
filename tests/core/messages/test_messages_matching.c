/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages match receives by tag, by source, and in order.
 */
#include "messages.h"

/* Messages of one tag stay in order; a tag is found behind others; ANY_TAG takes the first one. */
static void try_tags(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  ring_message_info info;
  if (ring_comm_rank(comm) == 1) {
    for (int32_t i = 0; i < 30; i++) send_number(messages, i, 0, i % 3);
  } else {
    for (int32_t i = 2; i < 30; i += 3) CHECK_INT(take_number(messages, 1, 2, &info), i);
    CHECK_INT(info.tag, 2);
    for (int32_t i = 0; i < 30; i++)
      if (i % 3 != 2) CHECK_INT(take_number(messages, 1, RING_ANY_TAG, &info), i);
    CHECK_INT(info.tag, 28 % 3);
  }
  end_messages(messages);
}

static void test_tags(void) {
  run_comms(2, try_tags, NULL);
}

/* Receives that were posted first are served first, whether of any source or of one. */
static void try_posts(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  uint8_t places[4] = {0};
  ring_transfer *receives[4];
  if (ring_comm_rank(comm) == 0) {
    for (int i = 0; i < 4; i++)
      receives[i] = start_recv(messages, &places[i], 1, i % 2 == 0 ? RING_ANY_SOURCE : 1,
                               i < 2 ? 5 : RING_ANY_TAG);
    send_number(messages, 1, 1, 0);
    for (int i = 3; i >= 0; i--) finish_well(receives[i]);
    for (int i = 0; i < 4; i++) CHECK_INT(places[i], 10 + i);
  } else {
    take_number(messages, 0, 0, NULL);
    for (int i = 0; i < 4; i++) {
      uint8_t byte = (uint8_t)(10 + i);
      went_well(messages, ring_messages_send(messages, &byte, 1, RING_UINT8, 0, 5));
    }
  }
  end_messages(messages);
}

static void test_posts_are_served_in_order(void) {
  run_comms(2, try_posts, NULL);
}

/* A message of each other rank, in the order in which they come. */
static void try_any_source(ring_comm *comm, void *shared) {
  (void)shared;
  ring_messages *messages = messages_of(comm);
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm), root = size / 2;
  bool seen[8] = {false};
  if (rank != root) {
    send_number(messages, rank, root, rank);
    CHECK_INT(take_number(messages, root, 99, NULL), root);
  }
  for (int i = 0; rank == root && i < size - 1; i++) {
    ring_message_info info;
    int32_t number = take_number(messages, RING_ANY_SOURCE, RING_ANY_TAG, &info);
    CHECK_INT(info.source, number);
    CHECK_INT(info.tag, number);
    CHECK(!seen[number]);
    seen[number] = true;
    send_number(messages, rank, number, 99);
  }
  end_messages(messages);
}

static void test_any_source(void) {
  for (int size = 2; size <= 4; size++) run_comms(size, try_any_source, NULL);
}

int main(void) {
  RUN(test_tags);
  RUN(test_posts_are_served_in_order);
  RUN(test_any_source);
  return 0;
}
