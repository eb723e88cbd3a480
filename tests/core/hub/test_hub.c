/* SPDX-License-Identifier: Apache-2.0
 *
 * A star of control messages: payloads of every length go both ways, one payload goes to many ranks, and the posted
 * receive fails with the rank that failed, also while no control message comes.
 */
#include "hub/hub.h"

#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "ranks.h"

enum { SIZE = 3, UP = 0, DOWN = 1, LONG = 300000 };

static const size_t lengths[] = {0, 1, 40, LONG};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void open_star(ring_comm *comm, ring_messages **messages, ring_hub *hub) {
  ring_error error;
  int rank = ring_comm_rank(comm);
  CHECK_INT(ring_messages_open(comm, messages), RING_OK);
  CHECK_INT(ring_hub_begin(hub, *messages, rank == 0 ? RING_ANY_SOURCE : 0, rank == 0 ? UP : DOWN,
                           &error),
            RING_OK);
}

static void close_star(ring_messages *messages, ring_hub *hub) {
  ring_hub_end(hub);
  CHECK_INT(ring_messages_close(messages), RING_OK);
  ring_messages_free(messages);
}

static ring_hub_payload *payload_of(size_t length, int rank) {
  ring_hub_payload *payload = ring_hub_payload_make(length);
  CHECK(payload != NULL);
  memset(payload->bytes, rank + 1, length);
  return payload;
}

/* Looks until something has come. */
static ring_hub_arrival await(ring_hub *hub, ring_hub_message *message, ring_error *error) {
  ring_hub_arrival arrival = RING_HUB_NOTHING;
  while (arrival == RING_HUB_NOTHING) {
    usleep(100);
    ring_hub_move(hub);
    arrival = ring_hub_receive(hub, message, error);
  }
  CHECK(hub->receive == NULL);
  return arrival;
}

static int take(ring_hub *hub, size_t length) {
  ring_hub_message message;
  ring_error error;
  CHECK_INT(await(hub, &message, &error), RING_HUB_MESSAGE);
  CHECK_INT(message.length, length);
  for (size_t i = 0; i < length; i++) CHECK_INT(((char *)message.bytes)[i], message.source + 1);
  ring_free(message.bytes);
  CHECK_INT(ring_hub_post(hub, &error), RING_OK);
  return message.source;
}

static void exchange(ring_comm *comm, void *unused) {
  ring_messages *messages;
  ring_hub hub;
  ring_error error;
  (void)unused;
  open_star(comm, &messages, &hub);
  for (int i = 0; i < LENGTHS; i++) {
    if (ring_comm_rank(comm) == 0) {
      int sources = 0;
      for (int rank = 1; rank < SIZE; rank++) sources += take(&hub, lengths[i]);
      CHECK_INT(sources, 1 + 2);
      CHECK_INT(ring_hub_send_all(&hub, payload_of(lengths[i], 0), 1, DOWN, &error), RING_OK);
    } else {
      CHECK_INT(ring_hub_send(&hub, payload_of(lengths[i], ring_comm_rank(comm)), 0, UP, &error),
                RING_OK);
      CHECK_INT(take(&hub, lengths[i]), 0);
    }
  }
  close_star(messages, &hub);
}

static void test_payloads_of_every_length(void) {
  run_comms(SIZE, exchange, NULL);
}

/* A payload that was sent is freed at the next look, one for which there was no memory is an error. */
static void keep(ring_comm *comm, void *unused) {
  ring_messages *messages;
  ring_hub hub;
  ring_hub_message message;
  ring_error error;
  (void)unused;
  open_star(comm, &messages, &hub);
  CHECK_INT(ring_hub_send(&hub, NULL, 0, UP, &error), RING_NO_MEMORY);
  CHECK_INT(ring_hub_send_all(&hub, NULL, 0, DOWN, &error), RING_NO_MEMORY);
  CHECK_INT(error.rank, 0);
  ring_hub_payload *payload = payload_of(1, 0);
  CHECK_INT(ring_hub_share(&hub, payload, 0, UP, &error), RING_OK);
  CHECK_INT(ring_hub_share(&hub, payload, 0, DOWN, &error), RING_OK);
  CHECK_INT(payload->references, 3);
  CHECK_INT(await(&hub, &message, &error), RING_HUB_MESSAGE);
  CHECK_INT(payload->references, 1);
  ring_free(message.bytes);
  ring_hub_payload_drop(payload);
  CHECK_INT(ring_messages_recv(messages, &error, 1, RING_UINT8, 0, DOWN, NULL), RING_OK);
  close_star(messages, &hub);
}

static void test_payloads_live_until_they_are_sent(void) {
  run_comms(1, keep, NULL);
}

/* Rank 1 fails the messages, or ends, after all have begun. */
static void fail(int rank, int size, void *dies) {
  ring_comm *comm = open_rank(rank, size);
  bool ends = *(const bool *)dies;
  ring_messages *messages;
  ring_hub hub;
  ring_hub_message message;
  ring_error error = {.status = RING_OK};
  open_star(comm, &messages, &hub);
  CHECK_INT(ring_barrier(comm), RING_OK);
  if (rank == 1 && ends) _exit(0);
  if (rank == 1) ring_messages_abort(messages, "planned");
  CHECK_INT(await(&hub, &message, &error), RING_HUB_FAILURE);
  CHECK_INT(error.status, ends ? RING_PEER_LOST : RING_ABORTED);
  CHECK_INT(error.rank, 1);
  CHECK_INT(ring_hub_receive(&hub, &message, &error), RING_HUB_NOTHING);
  ring_hub_end(&hub);
  ring_messages_free(messages);
  ring_comm_free(comm);
}

static void test_receives_fail_with_any_rank(void) {
  RUN_RANKS(SIZE, fail, (bool){false});
  RUN_RANKS(SIZE, fail, (bool){true});
}

int main(void) {
  RUN(test_payloads_of_every_length);
  RUN(test_payloads_live_until_they_are_sent);
  RUN(test_receives_fail_with_any_rank);
  return 0;
}
