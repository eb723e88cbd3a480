/* SPDX-License-Identifier: Apache-2.0 */
#include "spread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "bytes.h"
#include "dial.h"
#include "error.h"

enum { SPREAD_HEAD_BYTES = 4 };

int ring_spread_parent(int rank) {
  return rank == 0 ? -1 : rank & (rank - 1);
}

/* ---- The table ---------------------------------------------------------------------------- */

/* Bytes of a host's index. */
static int spread_width(uint32_t hosts) {
  return hosts <= 1 ? 0 : hosts <= 0x100 ? 1 : hosts <= 0x10000 ? 2 : 3;
}

/* The HMAC of a table. */
static bool spread_mac(const ring_peers *peers, const uint8_t *table, size_t length,
                       ring_secret *mac) {
  static const char label[] = "sparkring table 1";
  uint8_t facts[sizeof label + 8];
  ring_secret key;
  memcpy(facts, label, sizeof label);
  bytes_put(facts + sizeof label, peers->epoch, 8);
  bool made = ring_keys_mac(&peers->keys, facts, sizeof facts, &key) &&
              ring_secret_mac(&key, table, length, mac);
  ring_secret_wipe(&key, sizeof key);
  return made;
}

#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION

static ring_status spread_verify(const ring_spread *spread, size_t length) {
  (void)spread;
  return length >= RING_SECRET_BYTES ? RING_OK : RING_AUTH;
}

#else

/* RING_AUTH for a table with its HMAC that is not the one that rank 0 has made. */
static ring_status spread_verify(const ring_spread *spread, size_t length) {
  ring_secret mac;
  if (length < RING_SECRET_BYTES) return RING_AUTH;
  const uint8_t *given = spread->table + (length - RING_SECRET_BYTES);
  if (!spread_mac(spread->peers, spread->table, length - RING_SECRET_BYTES, &mac))
    return RING_NO_MEMORY;
  return ring_secret_equal(mac.bytes, given, RING_SECRET_BYTES) ? RING_OK : RING_AUTH;
}

#endif

static size_t spread_longest(const ring_peers *peers) {
  return 4 + (size_t)peers->size * (RING_HOST_BYTES + 3 + 2) + RING_SECRET_BYTES;
}

static ring_status spread_pack(ring_spread *spread) {
  const ring_peers *peers = spread->peers;
  int width = spread_width((uint32_t)peers->host_count);
  size_t length = 4 + (size_t)peers->size * (size_t)(width + 2);
  for (int i = 0; i < peers->host_count; i++) length += 1 + strlen(peers->hosts[i]);
  ring_secret mac;
  spread->table = malloc(length + RING_SECRET_BYTES);
  if (spread->table == NULL) return RING_NO_MEMORY;
  uint8_t *to = bytes_put(spread->table, (uint64_t)peers->host_count, 4);
  for (int i = 0; i < peers->host_count; i++) to = ring_address_pack(to, peers->hosts[i]);
  for (int rank = 0; rank < peers->size; rank++) {
    to = bytes_put(to, (uint64_t)peers->peer[rank].host, width);
    to = bytes_put(to, peers->peer[rank].port, 2);
  }
  if (!spread_mac(peers, spread->table, length, &mac)) return RING_NO_MEMORY;
  memcpy(to, mac.bytes, sizeof mac.bytes);
  length += sizeof mac.bytes;
  bytes_put(spread->head, length, SPREAD_HEAD_BYTES);
  spread->length = spread->have = SPREAD_HEAD_BYTES + length;
  spread->informed = true;
  return RING_OK;
}

/* Reads `hosts` different hosts and moves *from behind them. */
static ring_status spread_unpack_hosts(ring_peers *peers, uint32_t hosts, const uint8_t **from,
                                       const uint8_t *end) {
  char host[RING_HOST_BYTES];
  for (uint32_t i = 0; i < hosts; i++) {
    if (!ring_address_unpack(from, end, host)) return RING_PEER_LOST;
    int index = ring_peers_add_host(peers, host);
    if (index < 0) return RING_NO_MEMORY;
    if (index != (int)i) return RING_PEER_LOST;
  }
  return RING_OK;
}

ring_status ring_spread_unpack(ring_peers *peers, const uint8_t *table, size_t length) {
  const uint8_t *from = table, *end = table + length;
  if (length < 4) return RING_PEER_LOST;
  uint32_t hosts = (uint32_t)bytes_get(&from, 4);
  if (hosts < 1 || hosts > (uint32_t)peers->size) return RING_PEER_LOST;
  ring_peers_forget(peers);
  ring_status status = spread_unpack_hosts(peers, hosts, &from, end);
  if (status != RING_OK) return status;
  int width = spread_width(hosts);
  if ((size_t)(end - from) != (size_t)peers->size * (size_t)(width + 2)) return RING_PEER_LOST;
  for (int rank = 0; rank < peers->size; rank++) {
    uint32_t host = (uint32_t)bytes_get(&from, width);
    uint16_t port = (uint16_t)bytes_get(&from, 2);
    if (host >= hosts || port == 0) return RING_PEER_LOST;
    peers->peer[rank].host = (int)host;
    peers->peer[rank].port = port;
  }
  return RING_OK;
}

/* ---- The tree ----------------------------------------------------------------------------- */

ring_status ring_spread_begin(ring_spread *spread, ring_peers *peers, ring_error *error) {
  int parent = ring_spread_parent(peers->rank);
  *spread = (ring_spread){.peers = peers, .parent = parent, .length = SPREAD_HEAD_BYTES};
  int64_t reach = parent < 0 ? peers->size : peers->rank - parent;
  for (int64_t step = 1; step < reach && peers->rank + step < peers->size; step <<= 1)
    spread->children[spread->child_count++] = peers->rank + (int)step;
  if (parent >= 0) return ring_dial_want(peers, parent, error);
  if (spread_pack(spread) == RING_OK) return RING_OK;
  return ring_error_no_memory(error, peers->rank);
}

void ring_spread_free(ring_spread *spread) {
  free(spread->table);
  spread->table = NULL;
}

static ring_link *spread_link(const ring_spread *spread, int rank) {
  return spread->peers->peer[rank].link;
}

void ring_spread_watch(const ring_spread *spread, ring_poller *poller) {
  ring_peers_watch(spread->peers, poller);
  if (!spread->informed) {
    ring_link *link = spread_link(spread, spread->parent);
    if (link != NULL) ring_poller_add(poller, link->fd, link->ops->arm(link, POLLIN));
    return;
  }
  for (int i = 0; i < spread->child_count; i++) {
    ring_link *link = spread_link(spread, spread->children[i]);
    if (link != NULL && spread->given[i] < spread->length)
      ring_poller_add(poller, link->fd, link->ops->arm(link, POLLOUT));
  }
}

/* Makes room for the table when its length is known. */
static ring_status spread_expect(ring_spread *spread) {
  const uint8_t *from = spread->head;
  size_t length = (size_t)bytes_get(&from, SPREAD_HEAD_BYTES);
  if (length > spread_longest(spread->peers) || length == 0) return RING_PEER_LOST;
  spread->table = malloc(length);
  if (spread->table == NULL) return RING_NO_MEMORY;
  spread->length = SPREAD_HEAD_BYTES + length;
  return RING_OK;
}

static ring_status spread_lost(const ring_spread *spread, ring_error *error) {
  return ring_error_set(error, RING_PEER_LOST, spread->parent, 0,
                        "rank %d (%s) was lost before it had told rank %d where the others are",
                        spread->parent, ring_peers_host(spread->peers, spread->parent),
                        spread->peers->rank);
}

static ring_status spread_misread(const ring_spread *spread, ring_status status,
                                  ring_error *error) {
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, spread->peers->rank);
  return ring_error_set(error, status, spread->parent, 0,
                        "rank %d told rank %d where the others are in bytes that are %s",
                        spread->parent, spread->peers->rank,
                        status == RING_AUTH ? "not those of rank 0: something between changes them"
                                            : "no table");
}

/* Reads a table that is whole. */
static ring_status spread_read(ring_spread *spread) {
  size_t length = spread->length - SPREAD_HEAD_BYTES;
  ring_status status = spread_verify(spread, length);
  if (status != RING_OK) return status;
  return ring_spread_unpack(spread->peers, spread->table, length - RING_SECRET_BYTES);
}

/* Takes what the parent sends. */
static ring_status spread_take(ring_spread *spread, ring_error *error) {
  ring_link *link = spread_link(spread, spread->parent);
  ring_status status = RING_OK;
  while (status == RING_OK && spread->have < spread->length) {
    bool heading = spread->have < SPREAD_HEAD_BYTES;
    uint8_t *to =
        heading ? spread->head + spread->have : spread->table + (spread->have - SPREAD_HEAD_BYTES);
    struct iovec piece = {to, spread->length - spread->have};
    ssize_t got = link->ops->receive(link, &piece, 1);
    if (got == 0) return RING_OK;
    if (got == -ENOMEM) return ring_error_no_memory(error, spread->peers->rank);
    if (got < 0) return spread_lost(spread, error);
    spread->have += (size_t)got;
    if (heading && spread->have == SPREAD_HEAD_BYTES) status = spread_expect(spread);
  }
  if (status == RING_OK) status = spread_read(spread);
  spread->informed = status == RING_OK;
  return spread->informed ? RING_OK : spread_misread(spread, status, error);
}

/* Sends a child what it can take. That one has died is found by others, who can tell everybody. */
static ring_status spread_give(ring_spread *spread, int child) {
  ring_link *link = spread_link(spread, spread->children[child]);
  size_t *given = &spread->given[child];
  while (link != NULL && *given < spread->length) {
    size_t head = *given < SPREAD_HEAD_BYTES ? *given : SPREAD_HEAD_BYTES, body = *given - head;
    struct iovec pieces[2] = {{spread->head + head, SPREAD_HEAD_BYTES - head},
                              {spread->table + body, spread->length - SPREAD_HEAD_BYTES - body}};
    ssize_t sent = link->ops->send(link, pieces, 2);
    if (sent == -ENOMEM) return RING_NO_MEMORY;
    if (sent == 0) break;
    *given = sent < 0 ? spread->length : *given + (size_t)sent;
  }
  return RING_OK;
}

ring_status ring_spread_serve(ring_spread *spread, const ring_poller *poller, ring_error *error) {
  ring_peers *peers = spread->peers;
  ring_status status = ring_peers_serve(peers, poller, error);
  if (status != RING_OK) return status;
  if (!spread->informed && spread_link(spread, spread->parent) != NULL)
    status = spread_take(spread, error);
  for (int i = 0; spread->informed && i < spread->child_count; i++)
    if (spread_give(spread, i) != RING_OK) return ring_error_no_memory(error, peers->rank);
  return status;
}
