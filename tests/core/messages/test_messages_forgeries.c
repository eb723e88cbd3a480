/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that sends messages which it may not send: without credit, without a request, of no dtype. The other rank's
 * messages end with an error that names it. Wait reports, which come late from the opening, do nothing.
 */
#include "messages.h"
#include "messages/protocol.h"
#include "peers/outbox.h"

static void exchange_well(ring_messages *messages, int rank) {
  uint8_t in = 0, out = (uint8_t)(40 + rank);
  went_well(messages, ring_messages_sendrecv(messages, &out, 1, RING_UINT8, 1 - rank, 9, &in, 1,
                                             RING_UINT8, 1 - rank, 9, NULL));
  CHECK_INT(in, 41 - rank);
}

static void send_frame(ring_messages *messages, const ring_message_frame *frame) {
  messages_lock(messages);
  ring_packet *packet = ring_packet_make(frame, NULL);
  CHECK(packet != NULL);
  ring_protocol_append(messages, 0, packet);
  messages_unlock(messages);
}

/* Rank 1 sends short messages although it has no credit left. */
static void forge_about_credit(ring_messages *messages) {
  static const uint8_t bytes[4096];
  for (int i = 0; i < 2000; i++) {
    messages_lock(messages);
    messages->channels[0].credit = RING_EAGER_WINDOW;
    messages_unlock(messages);
    if (ring_messages_send(messages, bytes, sizeof bytes, RING_UINT8, 0, 1) != RING_OK) return;
  }
}

/* A piece of a long message that rank 0 has not asked for. */
static void forge_about_data(ring_messages *messages) {
  const ring_message_frame frame = {
      .kind = RING_MESSAGE_DATA, .length = 8, .bytes = 8, .number = 3};
  send_frame(messages, &frame);
}

/* A short message with a dtype that does not exist. */
static void forge_about_dtype(ring_messages *messages) {
  const ring_message_frame frame = {
      .kind = RING_MESSAGE_EAGER, .dtype = 99, .length = 8, .bytes = 8, .tag = 2};
  send_frame(messages, &frame);
}

/* Rank 0 refuses a message of rank 1, which ends the messages of both. */
static void end_refused(ring_messages *messages, int rank) {
  uint8_t byte;
  ring_status status = ring_messages_recv(messages, &byte, 1, RING_UINT8, 1 - rank, 7, NULL);
  CHECK(status != RING_OK);
  if (rank == 0) {
    CHECK_INT(status, RING_MISMATCH);
    CHECK_INT(ring_messages_error(messages)->rank, 1);
    CHECK_CONTAINS(ring_messages_error(messages)->message,
                   "rank 1 (127.0.0.1) sent a message that it may not send");
  }
  ring_messages_free(messages);
}

static void try_forgery(ring_comm *comm, void *shared) {
  static void (*const forgeries[])(ring_messages *) = {forge_about_credit, forge_about_data,
                                                       forge_about_dtype};
  ring_messages *messages = messages_of(comm);
  exchange_well(messages, ring_comm_rank(comm));
  if (ring_comm_rank(comm) == 1) forgeries[*(const int *)shared](messages);
  end_refused(messages, ring_comm_rank(comm));
}

static void test_forgeries(void) {
  for (int i = 0; i < 3; i++) RUN_COMMS(2, try_forgery, i);
}

/* Rank 0 has all but one of the long messages of rank 1 that may wait. */
static void request_too_often(ring_comm *comm, void *unused) {
  (void)unused;
  const ring_message_frame frame = {.kind = RING_MESSAGE_REQUEST, .bytes = 1 << 20, .number = 3};
  int rank = ring_comm_rank(comm);
  ring_messages *messages = messages_of(comm);
  messages_lock(messages);
  if (rank == 0) messages->channels[1].requests = RING_REQUESTS_MOST - 1;
  messages_unlock(messages);
  exchange_well(messages, rank);
  if (rank == 1) send_frame(messages, &frame);
  exchange_well(messages, rank);
  if (rank == 1) send_frame(messages, &frame);
  end_refused(messages, rank);
}

static void test_long_messages_that_wait_have_a_limit(void) {
  run_comms(2, request_too_often, NULL);
}

/* A wait report has the op of a collective in the place of the kind of a message. */
static void test_wait_reports_do_nothing(void) {
  uint8_t header[RING_HEADER_BYTES];
  for (unsigned op = 0; op < 256; op++) {
    const ring_frame report = {
        .kind = RING_FRAME_WAIT_REPORT,
        .length = RING_WAIT_REPORT_BYTES,
        .call = {.collective = RING_COLLECTIVE_ALLREDUCE, .op = (uint8_t)op}};
    ring_message_frame frame;
    ring_frame_pack(&report, header);
    CHECK_INT(ring_message_frame_unpack(header, &frame), RING_MESSAGE_HEADER_SKIP);
    CHECK_INT(frame.kind, RING_MESSAGE_NONE);
  }
}

int main(void) {
  RUN(test_forgeries);
  RUN(test_long_messages_that_wait_have_a_limit);
  RUN(test_wait_reports_do_nothing);
  return 0;
}
