/* SPDX-License-Identifier: Apache-2.0
 *
 * The other ranks' side of the meeting by addresses, once rank 0 has opened: join, wait for the
 * welcome, take the table of places from the parent in the tree and hand it on, report, and wait
 * for the verdict. Rank 0 sees first who has died and hears from all what went wrong, so a rank
 * that fails waits a moment for what rank 0 has to say about it. One that lacks something before it is
 * welcomed knows better, and withdraws: rank 0 tells the others.
 */
#include <string.h>

#include "bytes.h"
#include "error.h"
#include "platform.h"
#include "rendezvous.h"
#include "spread.h"

/* How long a rank that failed waits for what rank 0 says about it. */
#define JOIN_GRACE_NS UINT64_C(1000000000)

typedef struct join_side {
  const ring_meeting *meeting;
  ring_peers *peers;
  int fd; /* to rank 0 */
  ring_seal *seal;
  bool introduced; /* it has joined */
  bool reported;
  bool judged; /* rank 0 has given its verdict, or gone */
  bool deaf;   /* there was no memory to hear it */
  ring_poller poller;
  ring_spread spread;
} join_side;

/* Listens only now, so that ranks which have not met yet leave the job's ports to rank 0. */
static ring_status join_introduce(join_side *side, ring_error *error) {
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES];
  int listener = ring_rendezvous_listen(side->meeting, error);
  if (listener < 0) return RING_SYSTEM;
  ring_status status = ring_peers_listen(side->peers, listener);
  if (status != RING_OK) return ring_error_no_memory(error, side->meeting->rank);
  int port = ring_rendezvous_port(side->meeting, listener, error);
  if (port < 0) return RING_SYSTEM;
  uint8_t *to = bytes_put(join, (uint64_t)port, 2);
  bytes_put(to, ring_wait_left(side->meeting->wait), 4);
  if (!ring_seal_close(side->seal, NULL, 0, join, RING_JOIN_BYTES))
    return ring_error_no_memory(error, side->meeting->rank);
  side->introduced = true;
  return ring_rendezvous_move(side->meeting, &side->poller, side->fd, true, join, sizeof join);
}

/* Rank 0's own words about why the job did not form. */
static ring_status join_sent_away(join_side *side, const ring_note *note, ring_error *error) {
  side->judged = true;
  return ring_error_set(error, note->status, note->fault, 0, "rank 0 reports: %.900s",
                        (const char *)note->body);
}

static ring_status join_read_welcome(join_side *side, const ring_note *note, ring_error *error) {
  char host[RING_HOST_BYTES];
  const uint8_t *from = note->body, *end = from + note->length;
  if (end - from < 8 + 2) return RING_PEER_LOST;
  side->peers->epoch = bytes_get(&from, 8);
  uint16_t port = (uint16_t)bytes_get(&from, 2);
  if (port == 0 || !ring_address_unpack(&from, end, host) || from != end) return RING_PEER_LOST;
  int parent = ring_spread_parent(side->peers->rank);
  ring_peers_forget(side->peers);
  ring_status status = ring_peers_place(side->peers, parent, host, port);
  return status == RING_OK ? RING_OK : ring_error_no_memory(error, side->meeting->rank);
}

static ring_status join_hear_welcome(join_side *side, ring_error *error) {
  ring_note note;
  ring_status status =
      ring_rendezvous_hear(side->meeting, &side->poller, side->fd, side->seal, &note);
  if (status == RING_AUTH) return ring_rendezvous_altered(0, side->meeting->root_host, error);
  if (status != RING_OK) return status;
  if (note.status != RING_OK) return join_sent_away(side, &note, error);
  return join_read_welcome(side, &note, error);
}

static ring_status join_hear_verdict(join_side *side, ring_error *error) {
  ring_note note;
  side->judged = true;
  ring_status status =
      ring_rendezvous_hear(side->meeting, &side->poller, side->fd, side->seal, &note);
  if (status == RING_ABORTED) return ring_rendezvous_aborted(side->meeting, error);
  if (status == RING_AUTH) return ring_rendezvous_altered(0, side->meeting->root_host, error);
  side->deaf = status == RING_NO_MEMORY;
  if (side->deaf) return ring_error_no_memory(error, side->meeting->rank);
  if (status == RING_OK && note.status != RING_OK) return join_sent_away(side, &note, error);
  if (status == RING_OK && side->spread.informed) return RING_OK;
  return ring_error_set(error, RING_PEER_LOST, 0, 0,
                        "rank 0 (%s) was lost while the ranks were told where the others are",
                        side->meeting->root_host);
}

static ring_status join_report(join_side *side, const ring_error *error) {
  ring_note note = {.fault = -1};
  side->reported = true;
  if (error != NULL) {
    note.status = error->status;
    note.fault = error->rank;
    note.length = strlen(error->message);
    memcpy(note.body, error->message, note.length);
  }
  return ring_rendezvous_tell(side->meeting, &side->poller, side->fd, side->seal, &note);
}

/* Says that this rank cannot join, or stay, and why; then hears rank 0 until it has ended the meeting:
 * who closes a connection with unread bytes may take back what it has said. */
static void join_withdraw(join_side *side, const ring_error *error) {
  const ring_meeting *meeting = side->meeting;
  uint8_t join[RING_JOIN_BYTES + RING_SEAL_BYTES] = {0};
  ring_note note = {.status = RING_OK};
  ring_status status = RING_OK;
  if (!side->introduced) {
    if (!ring_seal_close(side->seal, NULL, 0, join, RING_JOIN_BYTES)) return;
    status = ring_rendezvous_move(meeting, &side->poller, side->fd, true, join, sizeof join);
  }
  if (status == RING_OK) status = join_report(side, error);
  while (status == RING_OK && note.status == RING_OK)
    status = ring_rendezvous_hear(meeting, &side->poller, side->fd, side->seal, &note);
}

/* Learns where all ranks are, tells the children, and waits for the verdict. */
static ring_status join_learn(join_side *side, ring_error *error) {
  for (;;) {
    ring_poller_reset(&side->poller);
    size_t slot = ring_poller_add(&side->poller, side->fd, POLLIN);
    ring_spread_watch(&side->spread, &side->poller);
    ring_status status = ring_poller_sleep(&side->poller, ring_wait_slice(side->meeting->wait));
    if (status == RING_OK && ring_poller_ready(&side->poller, slot))
      return join_hear_verdict(side, error);
    if (status == RING_OK) status = ring_spread_serve(&side->spread, &side->poller, error);
    if (status == RING_OK && side->spread.informed && !side->reported)
      status = join_report(side, NULL);
    if (status == RING_OK) status = ring_wait_check(side->meeting->wait);
    if (status != RING_OK) return status;
    ring_rendezvous_warn(side->meeting);
  }
}

/* Rank 0 speaks before the first deadline of all ranks, so one that passes is a fault of rank 0. */
static ring_status join_explain(const join_side *side, ring_status status, ring_error *error) {
  const ring_meeting *meeting = side->meeting;
  if (error->status != RING_OK) return status;
  if (status == RING_ABORTED) return ring_rendezvous_aborted(meeting, error);
  if (status == RING_TIMEOUT && side->peers->porch.lacked != 0)
    return ring_error_set(error, RING_SYSTEM, meeting->rank, side->peers->porch.lacked,
                          "rank %d could not accept links of other ranks", meeting->rank);
  if (status == RING_TIMEOUT)
    return ring_error_set(error, status, 0, 0,
                          "rank %d met rank 0 (%s), which did not say within %.1f s whether all "
                          "%d ranks have learned where the others are: it hangs or was cut off",
                          meeting->rank, meeting->root_host, ring_wait_seconds(meeting->wait),
                          meeting->size);
  return ring_error_set(error, status, meeting->rank, 0,
                        "rank %d could not learn where the other ranks are: %s", meeting->rank,
                        ring_status_text(status));
}

/* Tells rank 0 what went wrong here. What it answers counts more: it knows what was first. A rank that
 * refuses a link may have failed before, but one that was interrupted does not wait. */
static ring_status join_fail(join_side *side, ring_status status, ring_error *error) {
  uint64_t give_up = ring_platform_now() + JOIN_GRACE_NS;
  bool interrupted = status == RING_ABORTED && error->status == RING_OK;
  join_explain(side, status, error);
  if (join_report(side, error) != RING_OK || interrupted) return status;
  while (ring_platform_now() < give_up && ring_wait_check(side->meeting->wait) == RING_OK) {
    ring_poller_reset(&side->poller);
    size_t slot = ring_poller_add(&side->poller, side->fd, POLLIN);
    if (ring_poller_sleep(&side->poller, ring_wait_slice(side->meeting->wait)) != RING_OK) break;
    if (!ring_poller_ready(&side->poller, slot)) continue;
    ring_error verdict;
    if (join_hear_verdict(side, &verdict) == RING_OK) break;
    *error = verdict;
    return verdict.status;
  }
  /* A parent that goes while rank 0 is silent has given up a moment before. */
  if (status != RING_PEER_LOST || ring_wait_check(side->meeting->wait) != RING_TIMEOUT)
    return status;
  error->status = RING_OK;
  return join_explain(side, RING_TIMEOUT, error);
}

ring_status ring_rendezvous_join(ring_meeting *meeting, ring_peers *peers, int fd, ring_seal *seal,
                                 ring_error *error) {
  join_side side = {.meeting = meeting, .peers = peers, .fd = fd, .seal = seal};
  ring_status status = join_introduce(&side, error);
  if (status == RING_OK) status = join_hear_welcome(&side, error);
  if (status == RING_NO_MEMORY && error->status == RING_OK)
    ring_error_no_memory(error, meeting->rank);
  if ((status == RING_NO_MEMORY || status == RING_SYSTEM) && !side.judged)
    join_withdraw(&side, error);
  if (status == RING_OK) {
    status = ring_spread_begin(&side.spread, peers, error);
    if (status == RING_OK) status = join_learn(&side, error);
    if (status != RING_OK && !side.judged) status = join_fail(&side, status, error);
    meeting->awaited = status == RING_NO_MEMORY && side.deaf;
    ring_spread_free(&side.spread);
  }
  ring_poller_fini(&side.poller);
  return status;
}
