/* SPDX-License-Identifier: Apache-2.0 */
#include "shrink/consensus.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "peers/connector.h"
#include "peers/peers.h"

#define CONSENSUS_RETRY_NS UINT64_C(20000000)
#define CONSENSUS_SLEEP_MS 10

typedef struct consensus_peer {
  bool linked; /* its link is known */
  bool joined; /* it is in the generation of this rank */
  bool owed;   /* the generation of this rank */
  uint64_t retry_at;
  size_t left, have; /* bytes of `out` to send, and of `in` received */
  uint8_t *out, *in;
} consensus_peer;

typedef struct consensus {
  ring_roster *roster;
  ring_peers *peers; /* the roster's */
  ring_wait *wait;
  consensus_peer *of;        /* by rank */
  uint8_t *bytes;            /* of all messages */
  size_t length;             /* of a message */
  ring_generation_kind kind; /* of the messages that are owed */
  bool formed;
  ring_poll_set poll_set;
} consensus;

static bool consensus_is_alive(const consensus *c, int rank) {
  return ring_generation_has(&c->roster->generation, rank) && !c->peers->peer[rank].gone;
}

/* The lowest living rank; this rank lives. */
static int consensus_leader(const consensus *c) {
  int rank = 0;
  while (!consensus_is_alive(c, rank)) rank++;
  return rank;
}

/* The first living rank that has not joined; -1: all have. */
static int consensus_missing(const consensus *c) {
  for (int rank = 0; rank < c->peers->size; rank++)
    if (rank != c->peers->rank && consensus_is_alive(c, rank) && !c->of[rank].joined) return rank;
  return -1;
}

/* ---- Links -------------------------------------------------------------------------------- */

/* A failure to connect: the rank is gone, or is tried again. */
static ring_status consensus_connect_failed(consensus *c, ring_status status,
                                            const ring_error *error) {
  int rank = error->rank;
  bool fatal = status != RING_PEER_LOST && status != RING_ABORTED && status != RING_AUTH;
  if (fatal || rank < 0 || rank == c->peers->rank) return status;
  if (c->peers->peer[rank].connector != NULL) ring_connector_cancel(c->peers, rank);
  c->of[rank].retry_at = ring_platform_now() + CONSENSUS_RETRY_NS;
  return RING_OK;
}

/* Connects to the leader. The leader probes the ranks that have not joined. */
static ring_status consensus_connect(consensus *c, ring_error *error) {
  int leader = consensus_leader(c), own = c->peers->rank;
  uint64_t now = ring_platform_now();
  ring_status status = RING_OK;
  for (int rank = 0; rank < c->peers->size && status == RING_OK; rank++) {
    const ring_peer *peer = &c->peers->peer[rank];
    bool wanted = leader == own ? rank != own : rank == leader;
    if (!wanted || !consensus_is_alive(c, rank) || peer->link != NULL || peer->connector != NULL ||
        now < c->of[rank].retry_at)
      continue;
    status = ring_connector_start(c->peers, rank, error);
    if (status != RING_OK) status = consensus_connect_failed(c, status, error);
  }
  return status;
}

/* Begins on links that have opened. */
static void consensus_note_links(consensus *c) {
  int leader = consensus_leader(c);
  for (int i = 0; i < c->peers->linked_count; i++) {
    int rank = c->peers->linked[i];
    if (c->of[rank].linked) continue;
    c->of[rank].linked = true;
    c->of[rank].owed = rank == leader;
  }
}

static void consensus_drop(consensus *c, int rank) {
  consensus_peer *peer = &c->of[rank];
  ring_peers_drop(c->peers, rank);
  peer->linked = peer->joined = peer->owed = false;
  peer->left = peer->have = 0;
  peer->retry_at = 0;
}

/* ---- Messages ----------------------------------------------------------------------------- */

/* Sends what a rank is owed. RING_BUSY while bytes are left. */
static ring_status consensus_send(consensus *c, int rank) {
  consensus_peer *peer = &c->of[rank];
  ring_link *link = c->peers->peer[rank].link;
  if (peer->owed && peer->left == 0) {
    if (!ring_generation_pack(c->roster, c->kind, rank, peer->out)) return RING_NO_MEMORY;
    peer->owed = false;
    peer->left = c->length;
  }
  while (peer->left > 0) {
    struct iovec piece = {peer->out + c->length - peer->left, peer->left};
    ssize_t sent = link->ops->send(link, &piece, 1);
    if (sent == 0) return RING_BUSY;
    if (sent < 0) {
      consensus_drop(c, rank);
      return RING_OK;
    }
    peer->left -= (size_t)sent;
  }
  return peer->owed ? RING_BUSY : RING_OK;
}

static ring_status consensus_send_all(consensus *c, bool *sent) {
  *sent = true;
  for (int i = c->peers->linked_count - 1; i >= 0; i--) { /* from the end: links may be dropped */
    ring_status status = consensus_send(c, c->peers->linked[i]);
    if (status == RING_NO_MEMORY) return status;
    *sent = *sent && status == RING_OK;
  }
  return RING_OK;
}

static ring_status consensus_excluded(const consensus *c, int rank, ring_error *error) {
  return ring_error_set(error, RING_ABORTED, rank, 0,
                        "rank %d (%s) is in a group that was formed without this rank, rank %d: it "
                        "was taken for lost",
                        rank, ring_peers_name(c->peers, rank), c->peers->rank);
}

/* Enters a newer generation, which a rank has sent. Ranks that have joined the older one receive it. */
static void consensus_adopt(consensus *c, const ring_generation *generation) {
  ring_generation_adopt(c->roster, generation);
  for (int rank = 0; rank < c->peers->size; rank++) {
    c->of[rank].owed = c->of[rank].joined;
    c->of[rank].joined = false;
  }
  int leader = consensus_leader(c);
  c->of[leader].owed = c->of[leader].linked && leader != c->peers->rank;
}

static ring_status consensus_handle(consensus *c, int rank, ring_generation_kind kind,
                                    const ring_generation *theirs, ring_error *error) {
  const ring_generation *own = &c->roster->generation;
  consensus_peer *peer = &c->of[rank];
  if (theirs->number < own->number) {
    peer->joined = false;
    peer->owed = true;
    return RING_OK;
  }
  if (!ring_generation_has(theirs, c->peers->rank) ||
      (theirs->number == own->number && theirs->epoch != own->epoch))
    return consensus_excluded(c, rank, error);
  if (theirs->number > own->number) {
    consensus_adopt(c, theirs);
    c->formed = kind == RING_GENERATION_FORM;
    peer->owed = peer->owed && !c->formed;
  }
  peer->joined = true;
  return RING_OK;
}

/* Receives what has come from a rank. */
static ring_status consensus_receive(consensus *c, int rank, ring_error *error) {
  consensus_peer *peer = &c->of[rank];
  ring_link *link = c->peers->peer[rank].link;
  ring_status status = RING_OK;
  while (status == RING_OK && !c->formed) {
    struct iovec piece = {peer->in + peer->have, c->length - peer->have};
    ssize_t got = link->ops->receive(link, &piece, 1);
    if (got < 0) consensus_drop(c, rank);
    if (got <= 0) return RING_OK;
    peer->have += (size_t)got;
    if (peer->have < c->length) continue;
    ring_generation_kind kind;
    ring_generation theirs;
    peer->have = 0;
    status = ring_generation_unpack(c->roster, rank, peer->in, &kind, &theirs);
    if (status == RING_OK) status = consensus_handle(c, rank, kind, &theirs, error);
    if (status == RING_NO_MEMORY) return ring_error_no_memory(error, c->peers->rank);
    if (status == RING_AUTH)
      return ring_error_set(
          error, RING_AUTH, rank, 0,
          "what came from rank %d (%s) is not what it has sent: something between "
          "changes it",
          rank, ring_peers_name(c->peers, rank));
  }
  return status;
}

static ring_status consensus_receive_all(consensus *c, ring_error *error) {
  ring_status status = RING_OK;
  for (int i = c->peers->linked_count - 1; i >= 0 && status == RING_OK; i--)
    status = consensus_receive(c, c->peers->linked[i], error);
  return status;
}

/* ---- Forming ------------------------------------------------------------------------------ */

/* The leader forms the next generation once every living rank has joined. */
static ring_status consensus_form(consensus *c, ring_error *error) {
  int own = c->peers->rank;
  uint8_t *members = NULL;
  ring_generation next = {.number = c->roster->generation.number + 1};
  if (consensus_leader(c) != own || consensus_missing(c) >= 0) return RING_OK;
  members = calloc(1, ring_generation_bytes(c->peers));
  if (members == NULL || !ring_secret_random(&next.epoch, sizeof next.epoch)) {
    free(members);
    return ring_error_no_memory(error, own);
  }
  next.members = members;
  ring_generation_add(&next, own);
  for (int rank = 0; rank < c->peers->size; rank++) {
    c->of[rank].owed = c->of[rank].joined;
    if (c->of[rank].joined) ring_generation_add(&next, rank);
  }
  ring_generation_adopt(c->roster, &next);
  free(members);
  c->kind = RING_GENERATION_FORM;
  c->formed = true;
  return RING_OK;
}

/* ---- Waiting ------------------------------------------------------------------------------ */

static ring_status consensus_explain(const consensus *c, ring_status status, ring_error *error) {
  int leader = consensus_leader(c), own = c->peers->rank;
  int missing = leader == own ? consensus_missing(c) : leader;
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, own);
  if (status == RING_ABORTED) return ring_wait_aborted(c->wait, own, "shrink()", error);
  if (leader != own && c->of[leader].joined)
    return ring_error_set(
        error, status, leader, 0,
        "rank %d waited %.1f s in shrink() for rank %d (%s), which waits for other "
        "ranks or has stopped",
        own, ring_wait_seconds(c->wait), leader, ring_peers_name(c->peers, leader));
  return ring_error_set(
      error, status, missing, 0,
      "rank %d waited %.1f s in shrink() for rank %d (%s): it is not known to have "
      "ended, and has not called shrink() or cannot be reached",
      own, ring_wait_seconds(c->wait), missing,
      missing < 0 ? "" : ring_peers_name(c->peers, missing));
}

static ring_status consensus_sleep(consensus *c, ring_error *error) {
  int slice = ring_wait_slice(c->wait);
  ring_poll_set_reset(&c->poll_set);
  ring_peers_watch(c->peers, &c->poll_set);
  ring_peers_watch_links(c->peers, &c->poll_set);
  ring_status status =
      ring_poll_set_sleep(&c->poll_set, slice < CONSENSUS_SLEEP_MS ? slice : CONSENSUS_SLEEP_MS);
  if (status == RING_OK) status = ring_wait_check(c->wait);
  if (status != RING_OK) return consensus_explain(c, status, error);
  status = ring_peers_serve(c->peers, &c->poll_set, error);
  return status == RING_OK ? RING_OK : consensus_connect_failed(c, status, error);
}

static ring_status consensus_loop(consensus *c, ring_error *error) {
  for (;;) {
    bool sent;
    consensus_note_links(c);
    ring_status status = consensus_receive_all(c, error);
    if (status == RING_OK && !c->formed) status = consensus_form(c, error);
    if (status != RING_OK) return status;
    status = consensus_send_all(c, &sent);
    if (status != RING_OK) return ring_error_no_memory(error, c->peers->rank);
    if (c->formed && sent) return RING_OK;
    if (!c->formed) status = consensus_connect(c, error);
    if (status == RING_OK) status = consensus_sleep(c, error);
    if (status != RING_OK) return status;
  }
}

ring_status ring_consensus_run(ring_roster *roster, ring_wait *wait, ring_error *error) {
  size_t length = ring_generation_message_bytes(&roster->peers);
  size_t size = (size_t)roster->peers.size;
  consensus c = {.roster = roster,
                 .peers = &roster->peers,
                 .wait = wait,
                 .of = calloc(size, sizeof *c.of),
                 .bytes = calloc(size, 2 * length),
                 .length = length,
                 .kind = RING_GENERATION_STATE};
  ring_status status = RING_NO_MEMORY;
  if (c.of != NULL && c.bytes != NULL) {
    for (size_t rank = 0; rank < size; rank++) {
      c.of[rank].out = c.bytes + 2 * rank * length;
      c.of[rank].in = c.of[rank].out + length;
    }
    status = consensus_loop(&c, error);
  } else {
    ring_error_no_memory(error, roster->peers.rank);
  }
  ring_poll_set_fini(&c.poll_set);
  free(c.of);
  free(c.bytes);
  return status;
}
