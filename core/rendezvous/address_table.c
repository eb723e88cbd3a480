/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/address_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/address.h"
#include "base/bytes.h"
#include "base/error.h"
#include "peers/connector.h"

enum { ADDRESS_TABLE_HEAD_BYTES = 4 };

int ring_address_table_parent(int rank) {
  return rank == 0 ? -1 : rank & (rank - 1);
}

/* ---- The table ---------------------------------------------------------------------------- */

/* Width of a host's index, in bytes. */
static int address_table_width(uint32_t hosts) {
  return hosts <= 1 ? 0 : hosts <= 0x100 ? 1 : hosts <= 0x10000 ? 2 : 3;
}

/* The HMAC of a table. */
static bool address_table_mac(const ring_peers *peers, const uint8_t *table, size_t length,
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

static ring_status address_table_verify(const ring_address_table *address_table, size_t length) {
  (void)address_table;
  return length >= RING_SECRET_BYTES ? RING_OK : RING_AUTH;
}

#else

/* RING_AUTH when the HMAC behind the table is not that of rank 0. */
static ring_status address_table_verify(const ring_address_table *address_table, size_t length) {
  ring_secret mac;
  if (length < RING_SECRET_BYTES) return RING_AUTH;
  const uint8_t *given = address_table->table + (length - RING_SECRET_BYTES);
  if (!address_table_mac(address_table->peers, address_table->table, length - RING_SECRET_BYTES,
                         &mac))
    return RING_NO_MEMORY;
  return ring_secret_equal(mac.bytes, given, RING_SECRET_BYTES) ? RING_OK : RING_AUTH;
}

#endif

static size_t address_table_longest(const ring_peers *peers) {
  return 4 + (size_t)peers->size * (RING_HOST_BYTES + 3 + 2) + RING_SECRET_BYTES;
}

static ring_status address_table_pack(ring_address_table *address_table) {
  const ring_peers *peers = address_table->peers;
  int width = address_table_width((uint32_t)peers->host_count);
  size_t length = 4 + (size_t)peers->size * (size_t)(width + 2);
  for (int i = 0; i < peers->host_count; i++) length += 1 + strlen(peers->hosts[i]);
  ring_secret mac;
  address_table->table = malloc(length + RING_SECRET_BYTES);
  if (address_table->table == NULL) return RING_NO_MEMORY;
  uint8_t *to = bytes_put(address_table->table, (uint64_t)peers->host_count, 4);
  for (int i = 0; i < peers->host_count; i++) to = ring_address_pack(to, peers->hosts[i]);
  for (int rank = 0; rank < peers->size; rank++) {
    to = bytes_put(to, (uint64_t)peers->peer[rank].host, width);
    to = bytes_put(to, peers->peer[rank].port, 2);
  }
  if (!address_table_mac(peers, address_table->table, length, &mac)) return RING_NO_MEMORY;
  memcpy(to, mac.bytes, sizeof mac.bytes);
  length += sizeof mac.bytes;
  bytes_put(address_table->head, length, ADDRESS_TABLE_HEAD_BYTES);
  address_table->length = address_table->have = ADDRESS_TABLE_HEAD_BYTES + length;
  address_table->informed = true;
  return RING_OK;
}

/* Reads `hosts` different hosts, and moves *from behind them. */
static ring_status address_table_unpack_hosts(ring_peers *peers, uint32_t hosts,
                                              const uint8_t **from, const uint8_t *end) {
  char host[RING_HOST_BYTES];
  for (uint32_t i = 0; i < hosts; i++) {
    if (!ring_address_unpack(from, end, host)) return RING_PEER_LOST;
    int index = ring_peers_add_host(peers, host);
    if (index < 0) return RING_NO_MEMORY;
    if (index != (int)i) return RING_PEER_LOST;
  }
  return RING_OK;
}

ring_status ring_address_table_unpack(ring_peers *peers, const uint8_t *table, size_t length) {
  const uint8_t *from = table, *end = table + length;
  if (length < 4) return RING_PEER_LOST;
  uint32_t hosts = (uint32_t)bytes_get(&from, 4);
  if (hosts < 1 || hosts > (uint32_t)peers->size) return RING_PEER_LOST;
  ring_peers_clear_places(peers);
  ring_status status = address_table_unpack_hosts(peers, hosts, &from, end);
  if (status != RING_OK) return status;
  int width = address_table_width(hosts);
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

ring_status ring_address_table_begin(ring_address_table *address_table, ring_peers *peers,
                                     ring_error *error) {
  int parent = ring_address_table_parent(peers->rank);
  *address_table =
      (ring_address_table){.peers = peers, .parent = parent, .length = ADDRESS_TABLE_HEAD_BYTES};
  int64_t reach = parent < 0 ? peers->size : peers->rank - parent;
  for (int64_t step = 1; step < reach && peers->rank + step < peers->size; step <<= 1)
    address_table->children[address_table->child_count++] = peers->rank + (int)step;
  if (parent >= 0) return ring_connector_start(peers, parent, error);
  if (address_table_pack(address_table) == RING_OK) return RING_OK;
  return ring_error_no_memory(error, peers->rank);
}

void ring_address_table_free(ring_address_table *address_table) {
  free(address_table->table);
  address_table->table = NULL;
}

static ring_link *address_table_link(const ring_address_table *address_table, int rank) {
  return address_table->peers->peer[rank].link;
}

void ring_address_table_watch(const ring_address_table *address_table, ring_poll_set *poll_set) {
  ring_peers_watch(address_table->peers, poll_set);
  if (!address_table->informed) {
    ring_link *link = address_table_link(address_table, address_table->parent);
    if (link != NULL) ring_poll_set_add(poll_set, link->fd, link->ops->arm(link, POLLIN));
    return;
  }
  for (int i = 0; i < address_table->child_count; i++) {
    ring_link *link = address_table_link(address_table, address_table->children[i]);
    if (link != NULL && address_table->sent[i] < address_table->length)
      ring_poll_set_add(poll_set, link->fd, link->ops->arm(link, POLLOUT));
  }
}

/* Allocates the table when its length is known. */
static ring_status address_table_allocate(ring_address_table *address_table) {
  const uint8_t *from = address_table->head;
  size_t length = (size_t)bytes_get(&from, ADDRESS_TABLE_HEAD_BYTES);
  if (length > address_table_longest(address_table->peers) || length == 0) return RING_PEER_LOST;
  address_table->table = malloc(length);
  if (address_table->table == NULL) return RING_NO_MEMORY;
  address_table->length = ADDRESS_TABLE_HEAD_BYTES + length;
  return RING_OK;
}

static ring_status address_table_lost(const ring_address_table *address_table, ring_error *error) {
  return ring_error_set(
      error, RING_PEER_LOST, address_table->parent, 0,
      "rank %d (%s) was lost before it had sent rank %d the address table", address_table->parent,
      ring_peers_host(address_table->peers, address_table->parent), address_table->peers->rank);
}

static ring_status address_table_misread(const ring_address_table *address_table,
                                         ring_status status, ring_error *error) {
  if (status == RING_NO_MEMORY) return ring_error_no_memory(error, address_table->peers->rank);
  return ring_error_set(
      error, status, address_table->parent, 0, "rank %d sent rank %d an address table that is %s",
      address_table->parent, address_table->peers->rank,
      status == RING_AUTH ? "not that of rank 0: something between changes it" : "malformed");
}

/* Verifies and unpacks the complete table. */
static ring_status address_table_accept(ring_address_table *address_table) {
  size_t length = address_table->length - ADDRESS_TABLE_HEAD_BYTES;
  ring_status status = address_table_verify(address_table, length);
  if (status != RING_OK) return status;
  return ring_address_table_unpack(address_table->peers, address_table->table,
                                   length - RING_SECRET_BYTES);
}

/* Receives from the parent without blocking. */
static ring_status address_table_receive(ring_address_table *address_table, ring_error *error) {
  ring_link *link = address_table_link(address_table, address_table->parent);
  ring_status status = RING_OK;
  while (status == RING_OK && address_table->have < address_table->length) {
    bool heading = address_table->have < ADDRESS_TABLE_HEAD_BYTES;
    uint8_t *to = heading ? address_table->head + address_table->have
                          : address_table->table + (address_table->have - ADDRESS_TABLE_HEAD_BYTES);
    struct iovec piece = {to, address_table->length - address_table->have};
    ssize_t got = link->ops->receive(link, &piece, 1);
    if (got == 0) return RING_OK;
    if (got == -ENOMEM) return ring_error_no_memory(error, address_table->peers->rank);
    if (got < 0) return address_table_lost(address_table, error);
    address_table->have += (size_t)got;
    if (heading && address_table->have == ADDRESS_TABLE_HEAD_BYTES)
      status = address_table_allocate(address_table);
  }
  if (status == RING_OK) status = address_table_accept(address_table);
  address_table->informed = status == RING_OK;
  return address_table->informed ? RING_OK : address_table_misread(address_table, status, error);
}

/* Sends to a child without blocking. Rank 0 detects a dead child and reports it to all ranks. */
static ring_status address_table_send(ring_address_table *address_table, int child) {
  ring_link *link = address_table_link(address_table, address_table->children[child]);
  size_t *done = &address_table->sent[child];
  while (link != NULL && *done < address_table->length) {
    size_t head = *done < ADDRESS_TABLE_HEAD_BYTES ? *done : ADDRESS_TABLE_HEAD_BYTES,
           body = *done - head;
    struct iovec pieces[2] = {
        {address_table->head + head, ADDRESS_TABLE_HEAD_BYTES - head},
        {address_table->table + body, address_table->length - ADDRESS_TABLE_HEAD_BYTES - body}};
    ssize_t sent = link->ops->send(link, pieces, 2);
    if (sent == -ENOMEM) return RING_NO_MEMORY;
    if (sent == 0) break;
    *done = sent < 0 ? address_table->length : *done + (size_t)sent;
  }
  return RING_OK;
}

ring_status ring_address_table_serve(ring_address_table *address_table,
                                     const ring_poll_set *poll_set, ring_error *error) {
  ring_peers *peers = address_table->peers;
  ring_status status = ring_peers_serve(peers, poll_set, error);
  if (status != RING_OK) return status;
  if (!address_table->informed && address_table_link(address_table, address_table->parent) != NULL)
    status = address_table_receive(address_table, error);
  for (int i = 0; address_table->informed && i < address_table->child_count; i++)
    if (address_table_send(address_table, i) != RING_OK)
      return ring_error_no_memory(error, peers->rank);
  return status;
}
