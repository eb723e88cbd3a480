/* SPDX-License-Identifier: Apache-2.0
 *
 * The response cache: the names that all ranks agree on, each with a slot, which is its bit in the vectors
 * of negotiation. Slots, descriptions, states and the order of eviction are the same on every rank,
 * because only announcements and completions change them, and all ranks see both in the same order.
 *
 *   LOCAL   in flight on this rank only, without a slot: to be announced
 *   OPEN    announced, and not completed since: never evicted, so the cache may exceed its capacity
 *   CLOSED  completed at least once: the least recently completed one is evicted first
 *   FAILED  ranks have announced different descriptions; ends when each rank had its error
 *
 * A name in flight is `mine`; `deferred` waits for the end of a FAILED entry.
 */
#ifndef RING_REDUCER_RESPONSE_CACHE_H
#define RING_REDUCER_RESPONSE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reducer/submission.h"

typedef enum ring_entry_state {
  ENTRY_LOCAL,
  ENTRY_OPEN,
  ENTRY_CLOSED,
  ENTRY_FAILED
} ring_entry_state;

typedef struct ring_entry {
  struct ring_entry *chain;         /* of its bucket */
  struct ring_entry *newer, *older; /* among CLOSED ones */
  uint64_t hash;
  ring_entry_state state;
  int slot; /* -1: none */
  int announcer;
  uint8_t *description; /* that was announced */
  size_t length;
  ring_submission *mine, *deferred;
  uint64_t step;  /* in which it was ready last (autotune.h) */
  uint64_t cycle; /* in which it was ready last */
  bool consumed;  /* this rank had its error */
  bool announces; /* listed in `announcements` */
  char *failure;
  size_t name_length;
  char name[];
} ring_entry;

typedef struct ring_cache {
  ring_entry **buckets;
  size_t bucket_count, count;
  ring_entry **slots;
  uint64_t *offers; /* one bit a slot: this rank has submitted the name, or consumed its failure */
  size_t slot_count, slot_capacity;
  size_t used, capacity;       /* used: slots that have an entry */
  size_t bytes;                /* of entries, names and descriptions */
  ring_entry *newest, *oldest; /* of the CLOSED entries */
  ring_entry **announcements;  /* entries whose `mine` is to be announced */
  size_t announcement_count, announcement_capacity;
} ring_cache;

/* False without memory. */
bool ring_cache_init(ring_cache *cache, size_t capacity);
void ring_cache_destroy(ring_cache *cache);

/* The entry of a name, made LOCAL where there is none. NULL without memory. */
ring_entry *ring_cache_get(ring_cache *cache, const char *name, size_t length);

/* Sets entry->mine, and offers its bit or lists it for announcement. False without memory. */
bool ring_cache_submit(ring_cache *cache, ring_entry *entry, ring_submission *submission);

/* Opens an entry under an announced description, with a slot where it has none. False without memory. */
bool ring_cache_open(ring_cache *cache, ring_entry *entry, const uint8_t *description,
                     size_t length, int announcer);

/* Marks an entry as FAILED with a text. */
void ring_cache_fail(ring_cache *cache, ring_entry *entry, const char *text);

/* Compares `mine` with the announced description: offers its bit, or lists it. False without memory. */
bool ring_cache_reconcile(ring_cache *cache, ring_entry *entry);

/* The entry was completed: CLOSED, and the newest. */
void ring_cache_close(ring_cache *cache, ring_entry *entry);

/* Withdraws the offer of this rank, whose submission is done. */
void ring_cache_withdraw(ring_cache *cache, ring_entry *entry);

/* Takes the slot away. The entry goes, or becomes LOCAL where this rank has it in flight. False without
 * memory. */
bool ring_cache_evict(ring_cache *cache, ring_entry *entry);

/* Evicts CLOSED entries beyond the capacity. False without memory. */
bool ring_cache_trim(ring_cache *cache);

static inline bool cache_bit(const uint64_t *words, size_t slot) {
  return words[slot / 64] >> (slot % 64) & 1;
}

static inline size_t cache_words(const ring_cache *cache) {
  return (cache->slot_count + 63) / 64;
}

#endif
