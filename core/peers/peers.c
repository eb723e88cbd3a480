/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/peers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/platform.h"
#include "peers/connector.h"
#include "transport/socket.h"

/* ---- Accepting ---------------------------------------------------------------------------- */

/* Connections of a link come in order. The first connection has their number. */
static bool peers_is_next(const ring_pending_link *pending_link, const ring_claim *claim) {
  if (pending_link == NULL) return claim->connection == 0;
  return claim->connection == pending_link->have && claim->connections == pending_link->connections;
}

static ring_answer peers_judge(void *owner, const ring_claim *claim) {
  ring_peers *peers = owner;
  if (claim->purpose == RING_PURPOSE_RENDEZVOUS) return RING_ANSWER_FORMED;
  if (claim->epoch != peers->epoch || claim->purpose != RING_PURPOSE_LINK) return RING_ANSWER_STALE;
  const ring_peer *peer = &peers->peer[claim->rank];
  bool expected = claim->rank > peers->rank && peer->link == NULL && !peer->ended;
  if (!expected) return RING_ANSWER_TWICE;
  if (claim->encrypted != peers->encrypted) {
    peers->unlike = claim->rank;
    return RING_ANSWER_UNLIKE;
  }
  bool served = claim->connections == 1 || ring_platform_watches();
  return served && peers_is_next(peer->pending_link, claim) ? RING_ANSWER_ACCEPTED
                                                            : RING_ANSWER_CONNECTIONS;
}

static void peers_admit(void *owner, const ring_handshake *proven) {
  ring_peers *peers = owner;
  const ring_claim *claim = &proven->claim;
  int fd = proven->fd;
  const ring_peer *peer = &peers->peer[claim->rank];
  /* Since the answer, another connection with the same claim may have been admitted. */
  if (peer->link != NULL || !peers_is_next(peer->pending_link, claim))
    ring_socket_close(&fd);
  else if (!ring_peers_add_connection(peers, claim->rank, proven))
    peers->starved = ring_socket_lacks(errno) ? errno : ENOMEM;
  if (peer->link != NULL && peer->connector != NULL)
    ring_connector_cancel(peers, claim->rank); /* a probe */
}

ring_status ring_peers_listen(ring_peers *peers, int listener) {
  ring_status status =
      ring_acceptor_open(&peers->acceptor, listener, peers->rank, peers->size, &peers->keys);
  peers->acceptor.encrypted = peers->encrypted;
  peers->acceptor.judge = peers_judge;
  peers->acceptor.admit = peers_admit;
  peers->acceptor.owner = peers;
  return status;
}

/* ---- Sleeping ----------------------------------------------------------------------------- */

void ring_peers_watch(ring_peers *peers, ring_poll_set *poll_set) {
  if (peers->acceptor.listener >= 0) ring_acceptor_watch(&peers->acceptor, poll_set);
  if (peers->shm_acceptor.listener >= 0) ring_acceptor_watch(&peers->shm_acceptor, poll_set);
  ring_connector_watch(peers, poll_set);
}

ring_status ring_peers_serve(ring_peers *peers, const ring_poll_set *poll_set, ring_error *error) {
  if (peers->acceptor.listener >= 0) ring_acceptor_serve(&peers->acceptor, poll_set);
  if (peers->shm_acceptor.listener >= 0) ring_acceptor_serve(&peers->shm_acceptor, poll_set);
  if (peers->starved != 0) return ring_peers_exhausted(peers, peers->starved, error);
  if (peers->unlike != 0) return ring_peers_mismatch(peers, peers->unlike, error);
  return ring_connector_serve(peers, poll_set, error);
}

void ring_peers_accept(ring_peers *peers, ring_poll_set *poll_set) {
  if (peers->acceptor.listener < 0) return;
  ring_poll_set_reset(poll_set);
  ring_acceptor_watch(&peers->acceptor, poll_set);
  if (ring_poll_set_sleep(poll_set, 0) == RING_OK) ring_acceptor_serve(&peers->acceptor, poll_set);
}

/* ---- Ending ------------------------------------------------------------------------------- */

void ring_peers_watch_links(const ring_peers *peers, ring_poll_set *poll_set) {
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (peer->ended) continue;
    short events = peer->link->ops->arm(peer->link, POLLIN);
    ring_poll_set_add(poll_set, peer->link->fd, events);
  }
}

bool ring_peers_drain(ring_peers *peers) {
  char bytes[16384];
  bool ended = true;
  for (int i = 0; i < peers->linked_count; i++) {
    ring_peer *peer = &peers->peer[peers->linked[i]];
    struct iovec piece = {bytes, sizeof bytes};
    ssize_t got = 1;
    for (int reads = 0; !peer->ended && got > 0 && reads < 64; reads++)
      got = peer->link->ops->receive(peer->link, &piece, 1);
    peer->ended = peer->ended || got < 0;
    ended = ended && peer->ended;
  }
  return ended;
}

void ring_peers_close(ring_peers *peers) {
  ring_peers_unlink(peers);
  while (peers->connecting_count > 0) ring_connector_cancel(peers, peers->connecting[0]);
  ring_acceptor_close(&peers->acceptor);
  ring_acceptor_close(&peers->shm_acceptor);
}

void ring_peers_fini(ring_peers *peers) {
  if (peers->peer != NULL) ring_peers_close(peers);
  for (int rank = 0; peers->peer != NULL && rank < peers->size; rank++)
    free(peers->peer[rank].name);
  ring_peers_clear_places(peers);
  free(peers->hosts);
  free(peers->peer);
  free(peers->linked);
  free(peers->connecting);
  ring_keys_wipe(&peers->keys);
  *peers = (ring_peers){.acceptor.listener = -1, .shm_acceptor.listener = -1};
}
