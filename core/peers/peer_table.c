/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/peer_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/socket.h"

ring_status ring_peers_init(ring_peers *peers, int rank, int size) {
  *peers = (ring_peers){.rank = rank,
                        .size = size,
                        .connections = 1,
                        .inside_connections = 1,
                        .acceptor.listener = -1,
                        .shm_acceptor.listener = -1};
  peers->peer = calloc((size_t)size, sizeof *peers->peer);
  peers->linked = calloc((size_t)size, sizeof *peers->linked);
  peers->connecting = calloc((size_t)size, sizeof *peers->connecting);
  peers->hosts = calloc((size_t)size, sizeof *peers->hosts);
  bool complete = ring_keys_init(&peers->keys, rank, size) && peers->peer != NULL &&
                  peers->linked != NULL && peers->connecting != NULL && peers->hosts != NULL;
  for (int i = 0; peers->peer != NULL && i < size; i++) peers->peer[i].world_rank = i;
  return complete ? RING_OK : RING_NO_MEMORY;
}

static uint32_t peer_table_bucket_count(const ring_peers *peers) {
  uint32_t count = 2;
  while (count < 2 * (uint32_t)peers->size) count *= 2;
  return count;
}

/* The bucket of a host, or the empty bucket for it. There are at least twice as many buckets as
 * hosts, so the search ends. */
static int *peer_table_bucket(const ring_peers *peers, const char *host) {
  uint32_t mask = peer_table_bucket_count(peers) - 1, hash = 2166136261u; /* FNV-1a */
  for (const char *at = host; *at != '\0'; at++) hash = (hash ^ (uint8_t)*at) * 16777619u;
  while (peers->buckets[hash & mask] != 0 &&
         strcmp(peers->hosts[peers->buckets[hash & mask] - 1], host) != 0)
    hash++;
  return &peers->buckets[hash & mask];
}

int ring_peers_add_host(ring_peers *peers, const char *host) {
  if (peers->buckets == NULL)
    peers->buckets = calloc(peer_table_bucket_count(peers), sizeof *peers->buckets);
  if (peers->buckets == NULL) return -1;
  int *bucket = peer_table_bucket(peers, host);
  if (*bucket != 0) return *bucket - 1;
  if (peers->host_count == peers->size) return -1;
  char *copy = strdup(host);
  if (copy == NULL) return -1;
  peers->hosts[peers->host_count++] = copy;
  *bucket = peers->host_count;
  return *bucket - 1;
}

ring_status ring_peers_place(ring_peers *peers, int rank, const char *host, uint16_t port) {
  int index = ring_peers_add_host(peers, host);
  if (index < 0) return RING_NO_MEMORY;
  peers->peer[rank].host = index;
  peers->peer[rank].port = port;
  return RING_OK;
}

void ring_peers_clear_places(ring_peers *peers) {
  while (peers->host_count > 0) free(peers->hosts[--peers->host_count]);
  free(peers->buckets);
  peers->buckets = NULL;
}

const char *ring_peers_host(const ring_peers *peers, int rank) {
  return peers->hosts[peers->peer[rank].host];
}

void ring_peers_number(ring_peers *peers, int rank, int world_rank) {
  static const char form[] = "%s, world rank %d";
  const char *host = ring_peers_host(peers, rank);
  ring_peer *peer = &peers->peer[rank];
  peer->world_rank = world_rank;
  if (rank == world_rank) return;
  size_t size = (size_t)snprintf(NULL, 0, form, host, world_rank) + 1;
  peer->name = malloc(size); /* without memory errors lack the number */
  if (peer->name != NULL) snprintf(peer->name, size, form, host, world_rank);
}

const char *ring_peers_name(const ring_peers *peers, int rank) {
  const char *name = peers->peer[rank].name;
  return name != NULL ? name : ring_peers_host(peers, rank);
}

int ring_peers_find(const ring_peers *peers, int world_rank) {
  int rank = peers->size - 1;
  while (rank >= 0 && peers->peer[rank].world_rank != world_rank) rank--;
  return rank;
}

/* ---- Linking ------------------------------------------------------------------------------ */

static void peer_table_set_link(ring_peer *peer, ring_link *link) {
  peer->link = link;
  atomic_store_explicit(&peer->link_name, link != NULL ? link->ops->name : NULL,
                        memory_order_relaxed); /* the string never changes */
}

/* Frees a pending link, and closes the connections that it still owns. */
static void peer_table_drop_pending(ring_peers *peers, int rank) {
  ring_pending_link *pending_link = peers->peer[rank].pending_link;
  while (pending_link->have > 0) ring_socket_close(&pending_link->fd[--pending_link->have]);
  peers->peer[rank].pending_link = NULL;
  peers->pending_links--;
  ring_secret_wipe(pending_link, sizeof *pending_link);
  free(pending_link);
}

/* Makes a link, which then owns all connections of the pending link. NULL without memory. */
static ring_link *peer_table_make_link(const ring_peers *peers, int rank) {
  const ring_peer *peer = &peers->peer[rank];
  ring_pending_link *pending_link = peer->pending_link;
  ring_link *link;
  if (peer->out != NULL && pending_link->connections == 1)
    return ring_link_shm_pipe(pending_link->fd[0], peer->out, peer->in);
  if (pending_link->connections > 1)
    link = ring_link_multi_tcp(pending_link->fd, pending_link->connections);
  else
    link = ring_link_tcp(pending_link->fd[0]);
  if (link == NULL || !peers->encrypted) return link;
  ring_link *over = ring_link_tls(link, peers->rank > rank, &pending_link->key);
  if (over != NULL) return over;
  link->ops->close(link);
  pending_link->have = 0;
  return NULL;
}

bool ring_peers_add_connection(ring_peers *peers, int rank, const ring_handshake *proven) {
  ring_peer *peer = &peers->peer[rank];
  int connections = proven->claim.connections, fd = proven->fd;
  errno = 0;
  if (peer->pending_link == NULL) {
    peer->pending_link = malloc(sizeof *peer->pending_link);
    if (peer->pending_link == NULL) {
      ring_socket_close(&fd);
      return false;
    }
    *peer->pending_link = (ring_pending_link){.connections = connections};
    peers->pending_links++;
    if (peers->encrypted && !ring_handshake_derive(proven, &peer->pending_link->key)) {
      ring_socket_close(&fd);
      peer_table_drop_pending(peers, rank);
      return false;
    }
  }
  ring_pending_link *pending_link = peer->pending_link;
  pending_link->fd[pending_link->have++] = fd;
  if (pending_link->have < pending_link->connections) return true;
  peer->outbox = calloc(1, sizeof *peer->outbox);
  ring_link *link = peer->outbox != NULL ? peer_table_make_link(peers, rank) : NULL;
  if (link == NULL) {
    free(peer->outbox);
    peer->outbox = NULL;
  } else {
    pending_link->have = 0; /* the link owns them */
    peer->connections = pending_link->connections;
    peer_table_set_link(peer, link);
    peers->linked[peers->linked_count++] = rank;
  }
  peer_table_drop_pending(peers, rank);
  return link != NULL;
}

ring_status ring_peers_set_pipe(ring_peers *peers, int rank, void *out, void *in) {
  ring_peer *peer = &peers->peer[rank];
  peer->out = out;
  peer->in = in;
  if (peer->link == NULL || peer->connections > 1) return RING_OK;
  ring_link *link = ring_link_shm_pipe(peer->link->fd, out, in);
  if (link == NULL) return RING_NO_MEMORY;
  peer->link->fd = -1; /* the new link owns it */
  peer->link->ops->close(peer->link);
  peer_table_set_link(peer, link);
  *peer->outbox = (ring_outbox){0}; /* a wait report is lost with the old link */
  peer->outbox_busy = false;
  return RING_OK;
}

void ring_peers_drop(ring_peers *peers, int rank) {
  ring_peer *peer = &peers->peer[rank];
  ring_link *link = peer->link;
  int place = 0;
  while (peers->linked[place] != rank) place++;
  peers->linked[place] = peers->linked[--peers->linked_count];
  peer_table_set_link(peer, NULL);
  link->ops->close(link);
  free(peer->outbox);
  peer->outbox = NULL;
  peer->outbox_busy = false;
}

void ring_peers_unlink(ring_peers *peers) {
  while (peers->linked_count > 0) ring_peers_drop(peers, peers->linked[0]);
  for (int rank = 0; peers->pending_links > 0; rank++)
    if (peers->peer[rank].pending_link != NULL) peer_table_drop_pending(peers, rank);
}

/* ---- Errors ------------------------------------------------------------------------------- */

ring_status ring_peers_mismatch(const ring_peers *peers, int rank, ring_error *error) {
  return ring_error_set(
      error, RING_MISMATCH, rank, 0,
      "rank %d wants encryption and rank %d does not (rank %d is on %s): pass the "
      "same on all ranks",
      peers->encrypted ? peers->rank : rank, peers->encrypted ? rank : peers->rank, rank,
      ring_peers_name(peers, rank));
}

ring_status ring_peers_exhausted(const ring_peers *peers, int code, ring_error *error) {
  if (code == ENOMEM) return ring_error_no_memory(error, peers->rank);
  return ring_error_set(error, RING_SYSTEM, peers->rank, code, "rank %d cannot open a link",
                        peers->rank);
}
