/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages in every interleaving of their threads: threads that wait, one of which moves them, threads
 * that post and do not wait, and the progress thread. No wake-up is lost: every wait returns.
 */
#include "interleavings.h"
#include "messages.h"
#include "messages/state.h"

enum { LONG = 100000, TAGS = 3 };

static struct {
  ring_comm *comm;
  ring_messages *messages;
  ring_transfer *receive;
} now;

static uint8_t bytes[2][LONG];

/* ---- Steps -------------------------------------------------------------------------------- */

/* A rank that sends to itself. A spin shows nothing: each turn is the same. */
static void open_alone(void) {
  now.comm = open_rank(0, 1);
  now.messages = messages_of(now.comm);
  now.messages->comm->peers.cores = RING_CORES_CROWDED;
  now.receive = NULL;
}

static void end(void) {
  interleavings_end();
  ring_messages_free(now.messages);
  close_rank(now.comm);
}

static void check_well(ring_status status) {
  if (now.messages->broken)
    CHECK_INT(status, RING_ABORTED);
  else
    went_well(now.messages, status);
}

static void receive_tag(int tag, size_t count) {
  check_well(ring_messages_recv(now.messages, bytes[1], count, RING_UINT8, 0, tag, NULL));
}

static void send_tag(int tag, size_t count) {
  check_well(ring_messages_send(now.messages, bytes[0], count, RING_UINT8, 0, tag));
}

static void receive_0(void *unused) {
  (void)unused;
  receive_tag(0, LONG);
}

static void receive_1(void *unused) {
  (void)unused;
  receive_tag(1, LONG);
}

static void probe_2(void *unused) {
  (void)unused;
  check_well(ring_messages_probe(now.messages, 0, 2, NULL));
}

static void send_long_0(void *unused) {
  (void)unused;
  send_tag(0, LONG);
}

static void wait_for_receive(void *unused) {
  (void)unused;
  ring_status status = ring_transfer_wait(now.receive);
  CHECK(status == RING_OK || status == RING_ABORTED);
}

/* ---- Scenarios ---------------------------------------------------------------------------- */

/* Threads wait, of which one moves messages, and get what they wait for in another order. */
static void receive_in_threads(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(receive_0, NULL);
  interleavings_start(receive_1, NULL);
  send_tag(1, 1);
  send_tag(0, 1);
  interleavings_join();
  end();
}

static void probe_in_a_thread(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(probe_2, NULL);
  interleavings_start(receive_0, NULL);
  send_tag(2, 1);
  send_tag(0, 1);
  interleavings_join();
  receive_tag(2, 1);
  end();
}

/* A receive that does not wait ends the wait of a sender. */
static void send_in_a_thread(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  interleavings_start(send_long_0, NULL);
  interleavings_start(receive_1, NULL);
  receive_tag(0, LONG);
  send_tag(1, LONG);
  interleavings_join();
  end();
}

static void cancel(void *unused) {
  (void)unused;
  open_alone();
  now.receive = start_recv(now.messages, bytes[1], LONG, 0, 2);
  interleavings_begin();
  interleavings_start(wait_for_receive, NULL);
  interleavings_start(receive_0, NULL);
  ring_transfer_cancel(now.receive);
  send_tag(0, 1);
  interleavings_join();
  ring_transfer_free(now.receive);
  end();
}

/* A thread that waits for what never comes ends with the messages. */
static void abort_beside(void *unused) {
  (void)unused;
  open_alone();
  interleavings_begin();
  now.receive = start_recv(now.messages, bytes[1], LONG, 0, 2);
  interleavings_start(wait_for_receive, NULL);
  interleavings_start(probe_2, NULL);
  ring_messages_abort(now.messages, "planned");
  interleavings_join();
  ring_transfer_free(now.receive);
  end();
}

/* Transfers in flight end while close waits for them. */
static void close_beside(void *unused) {
  (void)unused;
  open_alone();
  now.receive = start_recv(now.messages, bytes[1], LONG, 0, 2);
  ring_transfer *sent = start_send(now.messages, bytes[0], LONG, 0, 1);
  interleavings_begin();
  interleavings_start(wait_for_receive, NULL);
  interleavings_start(receive_1, NULL);
  ring_transfer *last = start_send(now.messages, bytes[0], 1, 0, 2);
  interleavings_join();
  ring_transfer_free(last);
  ring_transfer_free(sent);
  ring_transfer_free(now.receive);
  went_well(now.messages, ring_messages_close(now.messages));
  end();
}

/* ---- Tests -------------------------------------------------------------------------------- */

static void test_waits_end(void) {
  EXPLORE(receive_in_threads, 2);
  EXPLORE(probe_in_a_thread, 2);

  EXPLORE(send_in_a_thread, 2);
  EXPLORE(cancel, 2);
  EXPLORE(abort_beside, 2);
  EXPLORE(close_beside, 2);
}

int main(int argc, char **argv) {
  interleavings_configure(argc, argv);
  RUN(test_waits_end);
  return 0;
}
