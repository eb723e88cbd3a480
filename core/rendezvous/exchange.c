/* SPDX-License-Identifier: Apache-2.0 */
#include "rendezvous/exchange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

#define EXCHANGE_TEXT 128

typedef struct exchange_entry {
  bool present, valid;
  unsigned port, encrypted;
  uint64_t epoch;
  uint8_t public[RING_PUBLIC_BYTES];
} exchange_entry;

typedef struct exchange_sink {
  int size;
  exchange_entry *entries;
} exchange_sink;

/* `text` holds hexadecimal digits only, enough of them. */
static bool exchange_read_public(const char *text, uint8_t public[RING_PUBLIC_BYTES]) {
  for (int i = 0; i < RING_PUBLIC_BYTES; i++) {
    unsigned byte;
    if (sscanf(text + (size_t)2 * (size_t)i, "%2x", &byte) != 1) return false;
    public[i] = (uint8_t)byte;
  }
  return true;
}

/* "sparkring/3 PORT ENCRYPTED PUBLIC", 0 or 1 and hexadecimal, and from rank 0 " EPOCH". */
static void exchange_put(void *arg, int rank, const char *text) {
  exchange_sink *sink = arg;
  char public[2 * RING_PUBLIC_BYTES + 1] = "";
  if (rank < 0 || rank >= sink->size || text == NULL) return;
  exchange_entry *entry = &sink->entries[rank];
  int end = 0;
  entry->present = true;
  int fields = sscanf(text, "sparkring/3 %5u %1u %64[0-9a-f]%n %16" SCNx64 "%n", &entry->port,
                      &entry->encrypted, public, &end, &entry->epoch, &end);
  entry->valid = fields == (rank == 0 ? 4 : 3) && text[end] == '\0' && entry->port > 0 &&
                 entry->port <= UINT16_MAX && entry->encrypted <= 1 &&
                 strlen(public) == 2 * RING_PUBLIC_BYTES &&
                 exchange_read_public(public, entry->public);
}

static ring_status exchange_check(const exchange_sink *sink, ring_error *error) {
  for (int rank = 0; rank < sink->size; rank++) {
    const exchange_entry *entry = &sink->entries[rank];
    if (!entry->present)
      return ring_error_set(error, RING_INVALID, rank, 0,
                            "the exchange brought no text of rank %d: it must bring those of all "
                            "%d ranks",
                            rank, sink->size);
    if (!entry->valid)
      return ring_error_set(error, RING_INVALID, rank, 0,
                            "the exchange brought a text of rank %d that sparkring did not write: "
                            "all ranks need the same version, and nothing else may use the "
                            "exchange meanwhile",
                            rank);
  }
  return RING_OK;
}

/* This rank's string. Nothing in it is secret. */
static bool exchange_compose(ring_keys *keys, int port, bool encrypted, char *text) {
  uint8_t public[RING_PUBLIC_BYTES];
  uint64_t epoch;
  if (!ring_keys_generate(keys, public) || !ring_secret_random(&epoch, sizeof epoch)) return false;
  int length = snprintf(text, EXCHANGE_TEXT, "sparkring/3 %d %d ", port, encrypted);
  for (size_t i = 0; i < sizeof public; i++)
    length += snprintf(text + length, EXCHANGE_TEXT - (size_t)length, "%02x", public[i]);
  if (keys->rank == 0)
    snprintf(text + length, EXCHANGE_TEXT - (size_t)length, " %016" PRIx64, epoch);
  return true;
}

/* All ranks see the same strings, so all report the same rank. */
static ring_status exchange_check_encryption(const ring_rendezvous *rendezvous,
                                             const exchange_sink *sink, ring_error *error) {
  bool root_encrypted = sink->entries[0].encrypted != 0;
  for (int rank = 1; rank < sink->size; rank++)
    if ((sink->entries[rank].encrypted != 0) != root_encrypted)
      return ring_rendezvous_mismatch(rendezvous, rank, root_encrypted, error);
  return RING_OK;
}

/* Takes ports, public keys and the epoch from the strings. */
static ring_status exchange_apply(const ring_rendezvous *rendezvous, ring_peers *peers,
                                  const exchange_sink *sink, ring_error *error) {
  uint8_t epoch[8];
  peers->epoch = sink->entries[0].epoch;
  peers->authenticated = peers->exchanged = true;
  bytes_put(epoch, peers->epoch, 8);
  if (!ring_secret_bind(&peers->keys.vault->job, epoch, sizeof epoch))
    return ring_rendezvous_no_crypto(error);
  for (int rank = 0; rank < rendezvous->size; rank++) {
    const exchange_entry *entry = &sink->entries[rank];
    ring_keys_set_public(&peers->keys, rank, entry->public);
    peers->peer[rank].port = (uint16_t)entry->port;
  }
  return RING_OK;
}

/* Allocates everything before the other ranks know of this rank: afterwards a rank without memory
 * has no link yet over which to report it. */
static ring_status exchange_prepare(const ring_rendezvous *rendezvous, ring_peers *peers,
                                    int listener) {
  ring_status status = ring_peers_listen(peers, listener);
  for (int rank = 0; rank < rendezvous->size && status == RING_OK; rank++)
    status = ring_peers_place(peers, rank, rendezvous->hosts[rank], 0);
  return status;
}

static ring_status exchange_texts(ring_rendezvous *rendezvous, ring_peers *peers, int listener,
                                  exchange_sink *sink, ring_error *error) {
  char mine[EXCHANGE_TEXT];
  int port = ring_rendezvous_port(rendezvous, listener, error);
  if (port < 0) return RING_SYSTEM;
  if (!exchange_compose(&peers->keys, port, rendezvous->encrypted, mine))
    return ring_rendezvous_no_crypto(error);
  if (rendezvous->exchange(rendezvous->exchange_arg, mine, exchange_put, sink) != 0)
    return ring_error_set(error, RING_ABORTED, -1, 0, "the exchange with the other ranks failed");
  ring_wait_begin(rendezvous->wait); /* the exchange was no suspension; all ranks are there now */
  ring_status status = exchange_check(sink, error);
  if (status == RING_OK) status = exchange_check_encryption(rendezvous, sink, error);
  return status == RING_OK ? exchange_apply(rendezvous, peers, sink, error) : status;
}

ring_status ring_exchange_run(ring_rendezvous *rendezvous, ring_peers *peers, ring_error *error) {
  exchange_sink sink = {rendezvous->size, calloc((size_t)rendezvous->size, sizeof *sink.entries)};
  if (sink.entries == NULL) return ring_error_no_memory(error, rendezvous->rank);
  int listener = ring_rendezvous_listen(rendezvous, error);
  ring_status status = RING_SYSTEM;
  if (listener >= 0 && exchange_prepare(rendezvous, peers, listener) != RING_OK)
    status = ring_error_no_memory(error, rendezvous->rank);
  else if (listener >= 0)
    status = exchange_texts(rendezvous, peers, listener, &sink, error);
  free(sink.entries);
  return status;
}
