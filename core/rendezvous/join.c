/* SPDX-License-Identifier: Apache-2.0
 *
 * The other ranks' side of the rendezvous by addresses, once rank 0 has opened: join, wait for the
 * welcome, take the table of places from the parent in the tree and hand it on, report, and wait
 * for the verdict. Rank 0 sees first who has died and hears from all what went wrong, so a rank
 * that fails waits a moment for what rank 0 has to say about it. One that lacks something before it is
 * welcomed knows better, and withdraws: rank 0 tells the others.
 */
#include <string.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "rendezvous/address_table.h"
#include "rendezvous/join.h"
#include "rendezvous/message.h"

/* How long a rank that failed waits for what rank 0 says about it. */
#define JOIN_GRACE_NS UINT64_C(1000000000)

typedef struct join_side {
  const ring_rendezvous *rendezvous;
  ring_peers *peers;
  int fd; /* to rank 0 */
  ring_seal *seal;
  bool introduced; /* it has joined */
  bool reported;
  bool judged; /* rank 0 has given its verdict, or gone */
  bool deaf;   /* there was no memory to hear it */
  ring_poll_set poll_set;
  ring_address_table address_table;
} join_side;

/* Listens only now, so that ranks which have not met yet leave the job's ports to rank 0. */
static ring_status join_introduce(join_side *side, ring_error *error) {
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  int listener = ring_rendezvous_listen(side->rendezvous, error);
  if (listener < 0) return RING_SYSTEM;
  ring_status status = ring_peers_listen(side->peers, listener);
  if (status != RING_OK) return ring_error_no_memory(error, side->rendezvous->rank);
  int port = ring_rendezvous_port(side->rendezvous, listener, error);
  if (port < 0) return RING_SYSTEM;
  uint8_t *to = bytes_put(join, (uint64_t)port, 2);
  bytes_put(to, ring_wait_left(side->rendezvous->wait), 4);
  if (!ring_seal_close(side->seal, NULL, 0, join, RING_JOIN_BYTES))
    return ring_error_no_memory(error, side->rendezvous->rank);
  side->introduced = true;
  return ring_message_transfer(side->rendezvous, &side->poll_set, side->fd, true, join,
                               sizeof join);
}

/* Rank 0's own words about why the job did not form. */
static ring_status join_sent_away(join_side *side, const ring_message *message, ring_error *error) {
  side->judged = true;
  return ring_error_set(error, message->status, message->fault, 0, "rank 0 reports: %.900s",
                        (const char *)message->body);
}

static ring_status join_read_welcome(join_side *side, const ring_message *message,
                                     ring_error *error) {
  char host[RING_HOST_BYTES];
  const uint8_t *from = message->body, *end = from + message->length;
  if (end - from < 8 + 2) return RING_PEER_LOST;
  side->peers->epoch = bytes_get(&from, 8);
  uint16_t port = (uint16_t)bytes_get(&from, 2);
  if (port == 0 || !ring_address_unpack(&from, end, host) || from != end) return RING_PEER_LOST;
  int parent = ring_address_table_parent(side->peers->rank);
  ring_peers_forget(side->peers);
  ring_status status = ring_peers_place(side->peers, parent, host, port);
  return status == RING_OK ? RING_OK : ring_error_no_memory(error, side->rendezvous->rank);
}

static ring_status join_hear_welcome(join_side *side, ring_error *error) {
  ring_message message;
  ring_status status =
      ring_message_receive(side->rendezvous, &side->poll_set, side->fd, side->seal, &message);
  if (status == RING_AUTH) return ring_rendezvous_altered(0, side->rendezvous->root_host, error);
  if (status != RING_OK) return status;
  if (message.status != RING_OK) return join_sent_away(side, &message, error);
  return join_read_welcome(side, &message, error);
}

static ring_status join_hear_verdict(join_side *side, ring_error *error) {
  ring_message message;
  side->judged = true;
  ring_status status =
      ring_message_receive(side->rendezvous, &side->poll_set, side->fd, side->seal, &message);
  if (status == RING_ABORTED) return ring_rendezvous_aborted(side->rendezvous, error);
  if (status == RING_AUTH) return ring_rendezvous_altered(0, side->rendezvous->root_host, error);
  side->deaf = status == RING_NO_MEMORY;
  if (side->deaf) return ring_error_no_memory(error, side->rendezvous->rank);
  if (status == RING_OK && message.status != RING_OK) return join_sent_away(side, &message, error);
  if (status == RING_OK && side->address_table.informed) return RING_OK;
  return ring_error_set(error, RING_PEER_LOST, 0, 0,
                        "rank 0 (%s) was lost while the ranks were told where the others are",
                        side->rendezvous->root_host);
}

static ring_status join_report(join_side *side, const ring_error *error) {
  ring_message message = {.fault = -1};
  side->reported = true;
  if (error != NULL) {
    message.status = error->status;
    message.fault = error->rank;
    message.length = strlen(error->message);
    memcpy(message.body, error->message, message.length);
  }
  return ring_message_send(side->rendezvous, &side->poll_set, side->fd, side->seal, &message);
}

/* Says that this rank cannot join, or stay, and why; then hears rank 0 until it has ended the rendezvous:
 * who closes a connection with unread bytes may take back what it has said. */
static void join_withdraw(join_side *side, const ring_error *error) {
  const ring_rendezvous *rendezvous = side->rendezvous;
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES] = {0};
  ring_message message = {.status = RING_OK};
  ring_status status = RING_OK;
  if (!side->introduced) {
    if (!ring_seal_close(side->seal, NULL, 0, join, RING_JOIN_BYTES)) return;
    status = ring_message_transfer(rendezvous, &side->poll_set, side->fd, true, join, sizeof join);
  }
  if (status == RING_OK) status = join_report(side, error);
  while (status == RING_OK && message.status == RING_OK)
    status = ring_message_receive(rendezvous, &side->poll_set, side->fd, side->seal, &message);
}

/* Learns where all ranks are, tells the children, and waits for the verdict. */
static ring_status join_learn(join_side *side, ring_error *error) {
  for (;;) {
    ring_poll_set_reset(&side->poll_set);
    size_t slot = ring_poll_set_add(&side->poll_set, side->fd, POLLIN);
    ring_address_table_watch(&side->address_table, &side->poll_set);
    ring_status status =
        ring_poll_set_sleep(&side->poll_set, ring_wait_slice(side->rendezvous->wait));
    if (status == RING_OK && ring_poll_set_ready(&side->poll_set, slot))
      return join_hear_verdict(side, error);
    if (status == RING_OK)
      status = ring_address_table_serve(&side->address_table, &side->poll_set, error);
    if (status == RING_OK && side->address_table.informed && !side->reported)
      status = join_report(side, NULL);
    if (status == RING_OK) status = ring_wait_check(side->rendezvous->wait);
    if (status != RING_OK) return status;
    ring_rendezvous_warn(side->rendezvous);
  }
}

/* Rank 0 speaks before the first deadline of all ranks, so one that passes is a fault of rank 0. */
static ring_status join_explain(const join_side *side, ring_status status, ring_error *error) {
  const ring_rendezvous *rendezvous = side->rendezvous;
  if (error->status != RING_OK) return status;
  if (status == RING_ABORTED) return ring_rendezvous_aborted(rendezvous, error);
  if (status == RING_TIMEOUT && side->peers->acceptor.lacked != 0)
    return ring_error_set(error, RING_SYSTEM, rendezvous->rank, side->peers->acceptor.lacked,
                          "rank %d could not accept links of other ranks", rendezvous->rank);
  if (status == RING_TIMEOUT)
    return ring_error_set(error, status, 0, 0,
                          "rank %d met rank 0 (%s), which did not say within %.1f s whether all "
                          "%d ranks have learned where the others are: it hangs or was cut off",
                          rendezvous->rank, rendezvous->root_host,
                          ring_wait_seconds(rendezvous->wait), rendezvous->size);
  return ring_error_set(error, status, rendezvous->rank, 0,
                        "rank %d could not learn where the other ranks are: %s", rendezvous->rank,
                        ring_status_text(status));
}

/* Tells rank 0 what went wrong here. What it answers counts more: it knows what was first. A rank that
 * refuses a link may have failed before, but one that was interrupted does not wait. */
static ring_status join_fail(join_side *side, ring_status status, ring_error *error) {
  uint64_t give_up = ring_platform_now() + JOIN_GRACE_NS;
  bool interrupted = status == RING_ABORTED && error->status == RING_OK;
  join_explain(side, status, error);
  if (join_report(side, error) != RING_OK || interrupted) return status;
  while (ring_platform_now() < give_up && ring_wait_check(side->rendezvous->wait) == RING_OK) {
    ring_poll_set_reset(&side->poll_set);
    size_t slot = ring_poll_set_add(&side->poll_set, side->fd, POLLIN);
    if (ring_poll_set_sleep(&side->poll_set, ring_wait_slice(side->rendezvous->wait)) != RING_OK)
      break;
    if (!ring_poll_set_ready(&side->poll_set, slot)) continue;
    ring_error verdict;
    if (join_hear_verdict(side, &verdict) == RING_OK) break;
    *error = verdict;
    return verdict.status;
  }
  /* A parent that goes while rank 0 is silent has given up a moment before. */
  if (status != RING_PEER_LOST || ring_wait_check(side->rendezvous->wait) != RING_TIMEOUT)
    return status;
  error->status = RING_OK;
  return join_explain(side, RING_TIMEOUT, error);
}

ring_status ring_rendezvous_join(ring_rendezvous *rendezvous, ring_peers *peers, int fd,
                                 ring_seal *seal, ring_error *error) {
  join_side side = {.rendezvous = rendezvous, .peers = peers, .fd = fd, .seal = seal};
  ring_status status = join_introduce(&side, error);
  if (status == RING_OK) status = join_hear_welcome(&side, error);
  if (status == RING_NO_MEMORY && error->status == RING_OK)
    ring_error_no_memory(error, rendezvous->rank);
  if ((status == RING_NO_MEMORY || status == RING_SYSTEM) && !side.judged)
    join_withdraw(&side, error);
  if (status == RING_OK) {
    status = ring_address_table_begin(&side.address_table, peers, error);
    if (status == RING_OK) status = join_learn(&side, error);
    if (status != RING_OK && !side.judged) status = join_fail(&side, status, error);
    rendezvous->awaited = status == RING_NO_MEMORY && side.deaf;
    ring_address_table_free(&side.address_table);
  }
  ring_poll_set_fini(&side.poll_set);
  return status;
}
