/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/response_cache.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_BUCKETS = 256 };

bool ring_cache_init(ring_cache *cache, size_t capacity) {
  *cache = (ring_cache){.bucket_count = CACHE_BUCKETS, .capacity = capacity};
  cache->buckets = calloc(cache->bucket_count, sizeof(ring_entry *));
  return cache->buckets != NULL;
}

static void cache_free(ring_entry *entry) {
  free(entry->description);
  free(entry->failure);
  free(entry);
}

void ring_cache_destroy(ring_cache *cache) {
  for (size_t i = 0; cache->buckets != NULL && i < cache->bucket_count; i++)
    for (ring_entry *entry = cache->buckets[i], *next; entry != NULL; entry = next) {
      next = entry->chain;
      cache_free(entry);
    }
  free(cache->buckets);
  free(cache->slots);
  free(cache->offers);
  free(cache->announcements);
  *cache = (ring_cache){0};
}

/* ---- Names -------------------------------------------------------------------------------- */

static void cache_grow_buckets(ring_cache *cache) {
  size_t grown = cache->bucket_count * 4;
  ring_entry **buckets = calloc(grown, sizeof(ring_entry *));
  if (buckets == NULL) return; /* longer chains do */
  for (size_t i = 0; i < cache->bucket_count; i++)
    for (ring_entry *entry = cache->buckets[i], *next; entry != NULL; entry = next) {
      next = entry->chain;
      ring_entry **bucket = &buckets[entry->hash & (grown - 1)];
      entry->chain = *bucket;
      *bucket = entry;
    }
  free(cache->buckets);
  cache->buckets = buckets;
  cache->bucket_count = grown;
}

ring_entry *ring_cache_get(ring_cache *cache, const char *name, size_t length) {
  uint64_t hash = ring_digest_add(RING_DIGEST_EMPTY, name, length);
  ring_entry *entry = cache->buckets[hash & (cache->bucket_count - 1)];
  for (; entry != NULL; entry = entry->chain)
    if (entry->hash == hash && entry->name_length == length &&
        memcmp(entry->name, name, length) == 0)
      return entry;
  if (cache->count >= cache->bucket_count) cache_grow_buckets(cache);
  entry = calloc(1, sizeof *entry + length + 1);
  if (entry == NULL) return NULL;
  ring_entry **bucket = &cache->buckets[hash & (cache->bucket_count - 1)];
  entry->hash = hash;
  entry->slot = -1;
  entry->name_length = length;
  memcpy(entry->name, name, length);
  entry->chain = *bucket;
  *bucket = entry;
  cache->count++;
  cache->bytes += sizeof *entry + length + 1;
  return entry;
}

static void cache_forget(ring_cache *cache, ring_entry *entry) {
  ring_entry **at = &cache->buckets[entry->hash & (cache->bucket_count - 1)];
  while (*at != entry) at = &(*at)->chain;
  *at = entry->chain;
  cache->count--;
  cache->bytes -= sizeof *entry + entry->name_length + 1 + entry->length;
  cache_free(entry);
}

/* ---- Order of completion ------------------------------------------------------------------ */

static void cache_unlink(ring_cache *cache, ring_entry *entry) {
  if (entry->state != ENTRY_CLOSED) return;
  *(entry->older != NULL ? &entry->older->newer : &cache->oldest) = entry->newer;
  *(entry->newer != NULL ? &entry->newer->older : &cache->newest) = entry->older;
  entry->newer = entry->older = NULL;
}

void ring_cache_close(ring_cache *cache, ring_entry *entry) {
  cache_unlink(cache, entry);
  entry->state = ENTRY_CLOSED;
  entry->older = cache->newest;
  *(cache->newest != NULL ? &cache->newest->newer : &cache->oldest) = entry;
  cache->newest = entry;
}

/* ---- Slots -------------------------------------------------------------------------------- */

static void cache_offer(ring_cache *cache, const ring_entry *entry, bool offers) {
  uint64_t bit = UINT64_C(1) << (entry->slot % 64), *word = &cache->offers[entry->slot / 64];
  *word = offers ? *word | bit : *word & ~bit;
}

static bool cache_grow_slots(ring_cache *cache) {
  size_t grown = cache->slot_capacity == 0 ? 256 : 2 * cache->slot_capacity;
  if (grown < 256) return false; /* it does not fit into a size */
  ring_entry **slots = realloc(cache->slots, grown * sizeof *slots);
  if (slots == NULL) return false;
  cache->slots = slots;
  uint64_t *offers = realloc(cache->offers, grown / 8);
  if (offers == NULL) return false;
  cache->offers = offers;
  memset(offers + cache->slot_capacity / 64, 0, (grown - cache->slot_capacity) / 8);
  cache->slot_capacity = grown;
  return true;
}

/* The lowest free slot: the same on every rank. */
static bool cache_take_slot(ring_cache *cache, ring_entry *entry) {
  size_t slot = cache->slot_count;
  if (cache->used < cache->slot_count)
    for (slot = 0; cache->slots[slot] != NULL;) slot++;
  if (slot == cache->slot_capacity && !cache_grow_slots(cache)) return false;
  if (slot == cache->slot_count) cache->slot_count++;
  cache->slots[slot] = entry;
  cache->used++;
  entry->slot = (int)slot;
  return true;
}

static void cache_release_slot(ring_cache *cache, ring_entry *entry) {
  if (entry->slot < 0) return;
  cache_offer(cache, entry, false);
  cache->slots[entry->slot] = NULL;
  cache->used--;
  while (cache->slot_count > 0 && cache->slots[cache->slot_count - 1] == NULL) cache->slot_count--;
  entry->slot = -1;
}

/* ---- Entries ------------------------------------------------------------------------------ */

static bool cache_announce(ring_cache *cache, ring_entry *entry) {
  if (entry->announces) return true;
  if (cache->announcement_count == cache->announcement_capacity) {
    size_t grown = cache->announcement_capacity == 0 ? 64 : 2 * cache->announcement_capacity;
    ring_entry **list = realloc(cache->announcements, grown * sizeof(ring_entry *));
    if (list == NULL) return false;
    cache->announcements = list;
    cache->announcement_capacity = grown;
  }
  entry->announces = true;
  cache->announcements[cache->announcement_count++] = entry;
  return true;
}

bool ring_cache_reconcile(ring_cache *cache, ring_entry *entry) {
  const ring_submission *mine = entry->mine;
  if (mine == NULL) return true;
  bool agrees = entry->slot >= 0 && entry->length == mine->length &&
                memcmp(entry->description, mine->description, mine->length) == 0;
  if (entry->slot >= 0) cache_offer(cache, entry, agrees);
  return agrees || cache_announce(cache, entry);
}

bool ring_cache_submit(ring_cache *cache, ring_entry *entry, ring_submission *submission) {
  entry->mine = submission;
  if (ring_cache_reconcile(cache, entry)) return true;
  entry->mine = NULL;
  return false;
}

bool ring_cache_open(ring_cache *cache, ring_entry *entry, const uint8_t *description,
                     size_t length, int announcer) {
  uint8_t *copy = realloc(entry->description, length);
  if (copy == NULL) return false;
  memcpy(copy, description, length);
  cache->bytes += length - entry->length; /* which wraps around where the description is shorter */
  entry->description = copy;
  entry->length = length;
  entry->announcer = announcer;
  cache_unlink(cache, entry);
  entry->state = ENTRY_OPEN;
  return entry->slot >= 0 || cache_take_slot(cache, entry);
}

void ring_cache_fail(ring_cache *cache, ring_entry *entry, const char *text) {
  cache_unlink(cache, entry);
  entry->state = ENTRY_FAILED;
  entry->consumed = false;
  entry->failure = strdup(text);
  cache_offer(cache, entry, false);
}

void ring_cache_withdraw(ring_cache *cache, ring_entry *entry) {
  entry->mine = NULL;
  if (entry->slot >= 0) cache_offer(cache, entry, entry->state == ENTRY_FAILED);
  entry->consumed = entry->state == ENTRY_FAILED;
}

bool ring_cache_evict(ring_cache *cache, ring_entry *entry) {
  cache_unlink(cache, entry);
  cache_release_slot(cache, entry);
  free(entry->failure);
  entry->failure = NULL;
  entry->consumed = false;
  entry->state = ENTRY_LOCAL;
  if (entry->deferred != NULL) {
    entry->mine = entry->deferred;
    entry->deferred = NULL;
  }
  if (entry->mine != NULL) return cache_announce(cache, entry);
  if (!entry->announces) cache_forget(cache, entry);
  return true;
}

bool ring_cache_trim(ring_cache *cache) {
  bool enough = true;
  while (enough && cache->used > cache->capacity && cache->oldest != NULL)
    enough = ring_cache_evict(cache, cache->oldest);
  return enough;
}
