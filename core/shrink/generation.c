/* SPDX-License-Identifier: Apache-2.0 */
#include "shrink/generation.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { GENERATION_HEAD_BYTES = 13 };

void ring_roster_free(ring_roster *roster) {
  if (roster == NULL) return;
  ring_peers_fini(&roster->peers);
  free(roster->generation.members);
  free(roster);
}

ring_roster *ring_roster_make(ring_peers *of) {
  ring_roster *roster = calloc(1, sizeof *roster);
  if (roster == NULL) return NULL;
  ring_peers *peers = &roster->peers;
  roster->generation =
      (ring_generation){.epoch = of->epoch, .members = calloc(1, ring_generation_bytes(of))};
  ring_status status = ring_peers_init(peers, of->rank, of->size);
  if (roster->generation.members == NULL) status = RING_NO_MEMORY;
  for (int rank = 0; rank < of->size && status == RING_OK; rank++) {
    status = ring_peers_place(peers, rank, ring_peers_host(of, rank), of->peer[rank].port);
    ring_generation_add(&roster->generation, rank);
  }
  if (status != RING_OK) {
    ring_roster_free(roster);
    return NULL;
  }
  for (int rank = 0; rank < of->size; rank++)
    ring_peers_number(peers, rank, of->peer[rank].world_rank);
  ring_keys_wipe(&peers->keys);
  peers->keys = of->keys;
  of->keys = (ring_keys){.rank = of->rank, .size = of->size};
  peers->authenticated = of->authenticated;
  peers->encrypted = of->encrypted;
  peers->epoch = ~of->epoch; /* links of the communicator are no links of the roster */
  return roster;
}

bool ring_generation_has(const ring_generation *generation, int rank) {
  return (generation->members[rank / 8] >> (rank % 8) & 1) != 0;
}

void ring_generation_add(ring_generation *generation, int rank) {
  generation->members[rank / 8] |= (uint8_t)(1u << (rank % 8));
}

int ring_generation_below(const ring_generation *generation, int rank) {
  int count = 0;
  for (int lower = 0; lower < rank; lower++) count += ring_generation_has(generation, lower);
  return count;
}

size_t ring_generation_bytes(const ring_peers *peers) {
  return ((size_t)peers->size + 7) / 8;
}

size_t ring_generation_message_bytes(const ring_peers *peers) {
  return GENERATION_HEAD_BYTES + ring_generation_bytes(peers) + RING_SECRET_BYTES;
}

void ring_generation_adopt(ring_roster *roster, const ring_generation *generation) {
  roster->generation.number = generation->number;
  roster->generation.epoch = generation->epoch;
  memcpy(roster->generation.members, generation->members, ring_generation_bytes(&roster->peers));
}

static bool generation_mac(const ring_peers *peers, int from, int to, const uint8_t *message,
                           ring_secret *mac) {
  static const char label[] = "sparkring shrink 1";
  uint8_t facts[sizeof label + 16];
  ring_secret key;
  memcpy(facts, label, sizeof label);
  uint8_t *at = bytes_put(facts + sizeof label, peers->epoch, 8);
  bytes_put(bytes_put(at, (uint32_t)from, 4), (uint32_t)to, 4);
  bool made =
      ring_keys_mac(&peers->keys, facts, sizeof facts, &key) &&
      ring_secret_mac(&key, message, ring_generation_message_bytes(peers) - RING_SECRET_BYTES, mac);
  ring_secret_wipe(&key, sizeof key);
  return made;
}

bool ring_generation_pack(const ring_roster *roster, ring_generation_kind kind, int to,
                          uint8_t *message) {
  const ring_generation *generation = &roster->generation;
  size_t bytes = ring_generation_bytes(&roster->peers);
  ring_secret mac;
  uint8_t *at = bytes_put(message, kind, 1);
  at = bytes_put(bytes_put(at, generation->number, 4), generation->epoch, 8);
  memcpy(at, generation->members, bytes);
  if (!generation_mac(&roster->peers, roster->peers.rank, to, message, &mac)) return false;
  memcpy(at + bytes, mac.bytes, sizeof mac.bytes);
  return true;
}

ring_status ring_generation_unpack(const ring_roster *roster, int from, uint8_t *message,
                                   ring_generation_kind *kind, ring_generation *generation) {
  const uint8_t *at = message;
  ring_secret mac;
  if (!generation_mac(&roster->peers, from, roster->peers.rank, message, &mac))
    return RING_NO_MEMORY;
  *kind = (ring_generation_kind)bytes_get(&at, 1);
  generation->number = (uint32_t)bytes_get(&at, 4);
  generation->epoch = bytes_get(&at, 8);
  generation->members = message + GENERATION_HEAD_BYTES;
  const uint8_t *given = generation->members + ring_generation_bytes(&roster->peers);
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  memcpy(mac.bytes, given, sizeof mac.bytes);
#endif
  bool known = *kind == RING_GENERATION_STATE || *kind == RING_GENERATION_FORM;
  return known && ring_secret_equal(mac.bytes, given, sizeof mac.bytes) ? RING_OK : RING_AUTH;
}
