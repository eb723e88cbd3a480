/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends JOIN, receives WELCOME, receives the address table from the parent and sends it to the
 * children, sends REPORT, and receives RESULT.
 *
 * Rank 0 detects dead ranks first and receives the errors of all ranks, so a rank that fails waits
 * JOIN_GRACE_NS for rank 0's error, which names the cause. A rank that lacks memory or a port
 * before the WELCOME is the cause itself: it withdraws, and rank 0 sends its error to the other
 * ranks.
 */
#include <string.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "rendezvous/address_table.h"
#include "rendezvous/join.h"
#include "rendezvous/message.h"

/* How long a rank that failed waits for rank 0's error. */
#define JOIN_GRACE_NS UINT64_C(1000000000)

typedef struct join_state {
  const ring_rendezvous *rendezvous;
  ring_peers *peers;
  int fd; /* to rank 0 */
  ring_seal *seal;
  bool joined; /* JOIN was sent */
  bool reported;
  bool decided;      /* RESULT was received, or rank 0 has gone */
  bool lacks_memory; /* to receive RESULT */
  ring_poll_set poll_set;
  ring_address_table address_table;
} join_state;

/* Listens only now, so that the job's ports stay free for rank 0 until it listens. */
static ring_status join_send_join(join_state *state, ring_error *error) {
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  int listener = ring_rendezvous_listen(state->rendezvous, error);
  if (listener < 0) return RING_SYSTEM;
  ring_status status = ring_peers_listen(state->peers, listener);
  if (status != RING_OK) return ring_error_no_memory(error, state->rendezvous->rank);
  int port = ring_rendezvous_port(state->rendezvous, listener, error);
  if (port < 0) return RING_SYSTEM;
  uint8_t *to = bytes_put(join, (uint64_t)port, 2);
  bytes_put(to, ring_wait_left(state->rendezvous->wait), 4);
  if (!ring_seal_close(state->seal, NULL, 0, join, RING_JOIN_BYTES))
    return ring_error_no_memory(error, state->rendezvous->rank);
  state->joined = true;
  return ring_message_transfer(state->rendezvous, &state->poll_set, state->fd, true, join,
                               sizeof join);
}

/* Takes rank 0's error: the job does not form. */
static ring_status join_refused(join_state *state, const ring_message *message, ring_error *error) {
  state->decided = true;
  return ring_error_set(error, message->status, message->fault, 0, "rank 0 reports: %.900s",
                        (const char *)message->body);
}

static ring_status join_read_welcome(join_state *state, const ring_message *message,
                                     ring_error *error) {
  char host[RING_HOST_BYTES];
  const uint8_t *from = message->body, *end = from + message->length;
  if (end - from < 8 + 2) return RING_PEER_LOST;
  state->peers->epoch = bytes_get(&from, 8);
  uint16_t port = (uint16_t)bytes_get(&from, 2);
  if (port == 0 || !ring_address_unpack(&from, end, host) || from != end) return RING_PEER_LOST;
  int parent = ring_address_table_parent(state->peers->rank);
  ring_peers_clear_places(state->peers);
  ring_status status = ring_peers_place(state->peers, parent, host, port);
  return status == RING_OK ? RING_OK : ring_error_no_memory(error, state->rendezvous->rank);
}

static ring_status join_receive_welcome(join_state *state, ring_error *error) {
  ring_message message;
  ring_status status =
      ring_message_receive(state->rendezvous, &state->poll_set, state->fd, state->seal, &message);
  if (status == RING_AUTH) return ring_rendezvous_tampered(0, state->rendezvous->root_host, error);
  if (status != RING_OK) return status;
  if (message.status != RING_OK) return join_refused(state, &message, error);
  return join_read_welcome(state, &message, error);
}

static ring_status join_receive_result(join_state *state, ring_error *error) {
  ring_message message;
  state->decided = true;
  ring_status status =
      ring_message_receive(state->rendezvous, &state->poll_set, state->fd, state->seal, &message);
  if (status == RING_ABORTED) return ring_rendezvous_aborted(state->rendezvous, error);
  if (status == RING_AUTH) return ring_rendezvous_tampered(0, state->rendezvous->root_host, error);
  state->lacks_memory = status == RING_NO_MEMORY;
  if (state->lacks_memory) return ring_error_no_memory(error, state->rendezvous->rank);
  if (status == RING_OK && message.status != RING_OK) return join_refused(state, &message, error);
  if (status == RING_OK && state->address_table.informed) return RING_OK;
  return ring_error_set(error, RING_PEER_LOST, 0, 0,
                        "rank 0 (%s) was lost while the address table was sent",
                        state->rendezvous->root_host);
}

static ring_status join_send_report(join_state *state, const ring_error *error) {
  ring_message message = {.fault = -1};
  state->reported = true;
  if (error != NULL) {
    message.status = error->status;
    message.fault = error->rank;
    message.length = strlen(error->message);
    memcpy(message.body, error->message, message.length);
  }
  return ring_message_send(state->rendezvous, &state->poll_set, state->fd, state->seal, &message);
}

/* Reports why this rank cannot join, or stay. Then receives until rank 0 ends the connection: a
 * socket that is closed with unread bytes resets its connection, and the report may be lost. */
static void join_withdraw(join_state *state, const ring_error *error) {
  const ring_rendezvous *rendezvous = state->rendezvous;
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES] = {0};
  ring_message message = {.status = RING_OK};
  ring_status status = RING_OK;
  if (!state->joined) {
    if (!ring_seal_close(state->seal, NULL, 0, join, RING_JOIN_BYTES)) return;
    status =
        ring_message_transfer(rendezvous, &state->poll_set, state->fd, true, join, sizeof join);
  }
  if (status == RING_OK) status = join_send_report(state, error);
  while (status == RING_OK && message.status == RING_OK)
    status = ring_message_receive(rendezvous, &state->poll_set, state->fd, state->seal, &message);
}

/* Receives the table, sends it to the children, reports, and receives RESULT. */
static ring_status join_receive_table(join_state *state, ring_error *error) {
  for (;;) {
    ring_poll_set_reset(&state->poll_set);
    size_t slot = ring_poll_set_add(&state->poll_set, state->fd, POLLIN);
    ring_address_table_watch(&state->address_table, &state->poll_set);
    ring_status status =
        ring_poll_set_sleep(&state->poll_set, ring_wait_slice(state->rendezvous->wait));
    if (status == RING_OK && ring_poll_set_ready(&state->poll_set, slot))
      return join_receive_result(state, error);
    if (status == RING_OK)
      status = ring_address_table_serve(&state->address_table, &state->poll_set, error);
    if (status == RING_OK && state->address_table.informed && !state->reported)
      status = join_send_report(state, NULL);
    if (status == RING_OK) status = ring_wait_check(state->rendezvous->wait);
    if (status != RING_OK) return status;
    ring_rendezvous_warn(state->rendezvous);
  }
}

/* Rank 0 sends RESULT before the first deadline of a rank, so a deadline that passes is rank 0's
 * fault. */
static ring_status join_explain(const join_state *state, ring_status status, ring_error *error) {
  const ring_rendezvous *rendezvous = state->rendezvous;
  if (error->status != RING_OK) return status;
  if (status == RING_ABORTED) return ring_rendezvous_aborted(rendezvous, error);
  if (status == RING_TIMEOUT && state->peers->acceptor.lacked != 0)
    return ring_error_set(error, RING_SYSTEM, rendezvous->rank, state->peers->acceptor.lacked,
                          "rank %d could not accept links of other ranks", rendezvous->rank);
  if (status == RING_TIMEOUT)
    return ring_error_set(error, status, 0, 0,
                          "rank %d joined rank 0 (%s), which did not report within %.1f s whether "
                          "all %d ranks have the address table: it hangs or was cut off",
                          rendezvous->rank, rendezvous->root_host,
                          ring_wait_seconds(rendezvous->wait), rendezvous->size);
  return ring_error_set(error, status, rendezvous->rank, 0,
                        "rank %d did not receive the address table: %s", rendezvous->rank,
                        ring_status_text(status));
}

/* Reports this rank's error to rank 0. Rank 0's answer replaces it: rank 0 knows the first error.
 * An interrupted rank does not wait for the answer. */
static ring_status join_fail(join_state *state, ring_status status, ring_error *error) {
  uint64_t deadline = ring_platform_now() + JOIN_GRACE_NS;
  bool interrupted = status == RING_ABORTED && error->status == RING_OK;
  join_explain(state, status, error);
  if (join_send_report(state, error) != RING_OK || interrupted) return status;
  while (ring_platform_now() < deadline && ring_wait_check(state->rendezvous->wait) == RING_OK) {
    ring_poll_set_reset(&state->poll_set);
    size_t slot = ring_poll_set_add(&state->poll_set, state->fd, POLLIN);
    if (ring_poll_set_sleep(&state->poll_set, ring_wait_slice(state->rendezvous->wait)) != RING_OK)
      break;
    if (!ring_poll_set_ready(&state->poll_set, slot)) continue;
    ring_error result;
    if (join_receive_result(state, &result) == RING_OK) break;
    *error = result;
    return result.status;
  }
  /* A parent that goes while rank 0 sends nothing has timed out a moment before. */
  if (status != RING_PEER_LOST || ring_wait_check(state->rendezvous->wait) != RING_TIMEOUT)
    return status;
  error->status = RING_OK;
  return join_explain(state, RING_TIMEOUT, error);
}

ring_status ring_rendezvous_join(ring_rendezvous *rendezvous, ring_peers *peers, int fd,
                                 ring_seal *seal, ring_error *error) {
  join_state state = {.rendezvous = rendezvous, .peers = peers, .fd = fd, .seal = seal};
  ring_status status = join_send_join(&state, error);
  if (status == RING_OK) status = join_receive_welcome(&state, error);
  if (status == RING_NO_MEMORY && error->status == RING_OK)
    ring_error_no_memory(error, rendezvous->rank);
  if ((status == RING_NO_MEMORY || status == RING_SYSTEM) && !state.decided)
    join_withdraw(&state, error);
  if (status == RING_OK) {
    status = ring_address_table_begin(&state.address_table, peers, error);
    if (status == RING_OK) status = join_receive_table(&state, error);
    if (status != RING_OK && !state.decided) status = join_fail(&state, status, error);
    rendezvous->awaited = status == RING_NO_MEMORY && state.lacks_memory;
    ring_address_table_free(&state.address_table);
  }
  ring_poll_set_fini(&state.poll_set);
  return status;
}
