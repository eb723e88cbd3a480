/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/keys.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

static size_t keys_pair_bytes(const ring_keys *keys) {
  return (size_t)keys->size * sizeof *keys->pairs;
}

bool ring_keys_init(ring_keys *keys, int rank, int size) {
  *keys = (ring_keys){.rank = rank, .size = size, .vault = ring_secret_alloc(sizeof *keys->vault)};
  return keys->vault != NULL;
}

static bool keys_make_room(ring_keys *keys) {
  keys->publics = calloc((size_t)keys->size, sizeof *keys->publics);
  keys->pairs = ring_secret_alloc(keys_pair_bytes(keys));
  return keys->publics != NULL && keys->pairs != NULL;
}

bool ring_keys_generate(ring_keys *keys, uint8_t public[RING_PUBLIC_BYTES]) {
  ring_secret *own = &keys->vault->own;
  if (!keys_make_room(keys) || !ring_secret_random(own->bytes, sizeof own->bytes)) return false;
  if (!ring_secret_public(own, public)) return false;
  ring_keys_set_public(keys, keys->rank, public);
  return true;
}

void ring_keys_set_public(ring_keys *keys, int rank, const uint8_t public[RING_PUBLIC_BYTES]) {
  memcpy(keys->publics[rank], public, RING_PUBLIC_BYTES);
}

bool ring_keys_split(ring_keys *child, const ring_keys *parent, const int *members,
                     const void *facts, size_t length) {
  child->vault->job = parent->vault->job;
  if (!ring_secret_bind(&child->vault->job, facts, length)) return false;
  if (parent->publics == NULL) return true;
  if (!keys_make_room(child)) return false;
  child->vault->own = parent->vault->own;
  for (int rank = 0; rank < child->size; rank++)
    ring_keys_set_public(child, rank, parent->publics[members[rank]]);
  return true;
}

static bool keys_make_pair(const ring_keys *keys, int rank, ring_secret *key) {
  static const char label[] = "sparkring pair 1";
  uint8_t facts[sizeof label + 8 + 2 * RING_PUBLIC_BYTES + 1];
  int low = rank < keys->rank ? rank : keys->rank, high = rank < keys->rank ? keys->rank : rank;
  uint8_t *to = facts + sizeof label;
  ring_secret shared;
  memcpy(facts, label, sizeof label);
  to = bytes_put(bytes_put(to, (uint32_t)low, 4), (uint32_t)high, 4);
  memcpy(to, keys->publics[low], RING_PUBLIC_BYTES);
  memcpy(to + RING_PUBLIC_BYTES, keys->publics[high], RING_PUBLIC_BYTES);
  facts[sizeof facts - 1] = 1; /* number of HKDF's output block, the only one */
  bool made = ring_secret_agree(&keys->vault->own, keys->publics[rank], &shared) &&
              ring_secret_mac(&keys->vault->job, shared.bytes, sizeof shared.bytes, key) &&
              ring_secret_bind(key, facts, sizeof facts);
  ring_secret_wipe(&shared, sizeof shared);
  return made;
}

const ring_secret *ring_keys_pair(const ring_keys *keys, int rank) {
  if (keys->vault == NULL || rank < 0 || rank >= keys->size) return NULL;
  if (keys->publics == NULL) return &keys->vault->job;
  ring_pair *pair = &keys->pairs[rank];
  if (rank == keys->rank) return NULL;
  if (!pair->known) pair->known = keys_make_pair(keys, rank, &pair->key);
  return pair->known ? &pair->key : NULL;
}

bool ring_keys_mac(const ring_keys *keys, const void *data, size_t length, ring_secret *mac) {
  return keys->vault != NULL && ring_secret_mac(&keys->vault->job, data, length, mac);
}

void ring_keys_wipe(ring_keys *keys) {
  ring_secret_free(keys->vault, sizeof *keys->vault);
  ring_secret_free(keys->pairs, keys_pair_bytes(keys));
  free(keys->publics);
  *keys = (ring_keys){.rank = keys->rank, .size = keys->size};
}
