/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages, as the tests open and use them.
 */
#ifndef RING_TEST_MESSAGES_H
#define RING_TEST_MESSAGES_H

#include "check.h"
#include "ranks.h"

static inline ring_messages *messages_of(ring_comm *comm) {
  ring_messages *messages;
  ring_status status = ring_messages_open(comm, &messages);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_comm_error(comm)->message);
  CHECK_INT(status, RING_OK);
  return messages;
}

/* Checks that a call went well; prints why not. */
static inline void went_well(const ring_messages *messages, ring_status status) {
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_messages_error(messages)->message);
  CHECK_INT(status, RING_OK);
}

static inline void end_messages(ring_messages *messages) {
  went_well(messages, ring_messages_close(messages));
  ring_messages_free(messages);
}

static inline ring_transfer *start_send(ring_messages *messages, const void *bytes, size_t count,
                                        int peer, int tag) {
  ring_transfer *transfer;
  went_well(messages,
            ring_messages_send_start(messages, bytes, count, RING_UINT8, peer, tag, &transfer));
  return transfer;
}

static inline ring_transfer *start_recv(ring_messages *messages, void *bytes, size_t count,
                                        int source, int tag) {
  ring_transfer *transfer;
  went_well(messages,
            ring_messages_recv_start(messages, bytes, count, RING_UINT8, source, tag, &transfer));
  return transfer;
}

static inline void finish_well(ring_transfer *transfer) {
  ring_status status = ring_transfer_wait(transfer);
  if (status != RING_OK) fprintf(stderr, "%s\n", ring_transfer_error(transfer)->message);
  CHECK_INT(status, RING_OK);
  ring_transfer_free(transfer);
}

/* Waits for it, and checks how and why it failed. */
static inline void finish_with(ring_transfer *transfer, ring_status expected, const char *text) {
  CHECK_INT(ring_transfer_wait(transfer), expected);
  CHECK_INT(ring_transfer_error(transfer)->status, expected);
  CHECK_CONTAINS(ring_transfer_error(transfer)->message, text);
  ring_transfer_free(transfer);
}

/* Bytes that depend on a seed. */
static inline void fill_bytes(uint8_t *bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8) * 3);
}

static inline void check_bytes(const uint8_t *bytes, size_t count, unsigned seed) {
  for (size_t i = 0; i < count; i++)
    CHECK_INT(bytes[i], (uint8_t)(seed * 31 + i * 7 + (i >> 8) * 3));
}

/* A message of one number. */
static inline void send_number(ring_messages *messages, int32_t number, int peer, int tag) {
  went_well(messages, ring_messages_send(messages, &number, 1, RING_INT32, peer, tag));
}

static inline int32_t take_number(ring_messages *messages, int source, int tag,
                                  ring_message_info *info) {
  int32_t number;
  went_well(messages, ring_messages_recv(messages, &number, 1, RING_INT32, source, tag, info));
  return number;
}

#endif
