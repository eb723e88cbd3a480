/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/stall.h"

#include <stdio.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "base/error.h"
#include "base/platform.h"

enum { STALL_RANKS = 8 }; /* that a text names */
#define STALL_LOOK UINT64_C(20000000)

static bool stall_warns(const ring_stall *stall, const ring_submission *mine, uint64_t now) {
  uint64_t waited = now - mine->begun;
  return stall->warn_after > 0 && waited >= stall->warn_after && waited >= 2 * mine->warned;
}

static bool stall_expires(const ring_stall *stall, const ring_submission *mine, uint64_t now) {
  return stall->timeout > 0 && now - mine->begun >= stall->timeout;
}

/* The submission that waits under a name: a deferred one until all ranks have the failure of the one before. */
static ring_submission *stall_waiting(const ring_entry *entry) {
  return entry->mine != NULL ? entry->mine : entry->deferred;
}

bool ring_stall_is_due(ring_stall *stall, ring_negotiation *negotiation) {
  const ring_cache *cache = &negotiation->cache;
  uint64_t now = ring_platform_now();
  bool due = false;
  if (now < stall->next || (stall->warn_after == 0 && stall->timeout == 0)) return false;
  stall->next = now + STALL_LOOK;
  pthread_mutex_lock(negotiation->mutex);
  for (size_t i = 0; !due && i < cache->slot_count; i++) {
    const ring_submission *mine = cache->slots[i] == NULL ? NULL : stall_waiting(cache->slots[i]);
    due = mine != NULL && (stall_warns(stall, mine, now) || stall_expires(stall, mine, now));
  }
  pthread_mutex_unlock(negotiation->mutex);
  return due;
}

/* "rank 1 (host), rank 3 (host)": the ranks that do not offer the slot. */
static void stall_list(const ring_negotiation *negotiation, const uint64_t *all, size_t words,
                       size_t slot, char *text, size_t size) {
  size_t length = 0;
  int missing = 0;
  text[0] = '\0';
  for (int rank = 0; rank < negotiation->size; rank++) {
    if (cache_bit(all + (size_t)rank * 2 * words, slot) ||
        negotiation->members[rank] == MEMBER_JOINED)
      continue;
    if (missing++ >= STALL_RANKS || length >= size) continue;
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s)", missing > 1 ? ", " : "",
                         rank, ring_comm_name(negotiation->comm, rank));
  }
  if (missing > STALL_RANKS && length < size)
    snprintf(text + length, size - length, " and %d more", missing - STALL_RANKS);
}

/* Fails the name on the ranks that had it in flight when the ranks compared. All ranks forget it. A rank that has
 * submitted it since then announces it anew. */
static bool stall_expire(ring_negotiation *negotiation, ring_entry *entry, const char *missing) {
  ring_error error;
  const ring_submission *mine = stall_waiting(entry);
  if (mine != NULL && mine->compared) {
    ring_error_set(&error, RING_TIMEOUT, -1, 0,
                   "tensor \"%.200s\" has waited %.1f s for %s: submit it on all ranks",
                   entry->name, (double)(ring_platform_now() - mine->begun) / 1e9, missing);
    ring_negotiation_refuse(negotiation, entry, &error);
  }
  return ring_cache_evict(&negotiation->cache, entry);
}

static void stall_warn(const ring_stall *stall, ring_entry *entry, const char *missing,
                       uint64_t now) {
  char text[1024];
  ring_submission *mine = stall_waiting(entry);
  if (mine == NULL || !stall_warns(stall, mine, now)) return;
  mine->warned = now - mine->begun;
  snprintf(text, sizeof text, "tensor \"%.200s\" has waited %.1f s for %s", entry->name,
           (double)mine->warned / 1e9, missing);
  stall->log(stall->log_arg, text);
}

/* The words of this rank: its offers, then the offers that have expired. */
static void stall_fill(const ring_stall *stall, const ring_cache *cache, uint64_t *words,
                       size_t count) {
  uint64_t now = ring_platform_now();
  memset(words, 0, 2 * count * sizeof *words);
  if (count > 0) memcpy(words, cache->offers, count * sizeof *words);
  for (size_t i = 0; i < cache->slot_count; i++) {
    ring_submission *mine = cache->slots[i] == NULL ? NULL : stall_waiting(cache->slots[i]);
    if (mine == NULL) continue;
    mine->compared = true;
    if (stall_expires(stall, mine, now)) words[count + i / 64] |= UINT64_C(1) << (i % 64);
  }
}

static bool stall_apply(const ring_stall *stall, ring_negotiation *negotiation, const uint64_t *all,
                        size_t words) {
  ring_cache *cache = &negotiation->cache;
  uint64_t now = ring_platform_now();
  char missing[700];
  bool enough = true;
  for (size_t slot = 0; enough && slot < cache->slot_count; slot++) {
    ring_entry *entry = cache->slots[slot];
    bool expired = false;
    if (entry == NULL) continue;
    for (int rank = 0; !expired && rank < negotiation->size; rank++)
      expired = cache_bit(all + (size_t)rank * 2 * words + words, slot);
    if (!expired && stall_waiting(entry) == NULL) continue;
    stall_list(negotiation, all, words, slot, missing, sizeof missing);
    if (missing[0] == '\0') continue; /* the next cycle runs it */
    if (expired)
      enough = stall_expire(negotiation, entry, missing);
    else
      stall_warn(stall, entry, missing, now);
  }
  return enough;
}

ring_status ring_stall_run(ring_stall *stall, ring_negotiation *negotiation) {
  size_t words = cache_words(&negotiation->cache), bytes = 2 * words * sizeof(uint64_t);
  size_t own = (size_t)negotiation->rank * 2 * words;
  if (words == 0) return RING_OK;
  if (!ring_bytes_reserve(&stall->gathered, (size_t)negotiation->size * bytes))
    return ring_negotiation_no_memory(negotiation);
  uint64_t *all = (uint64_t *)(void *)stall->gathered.bytes;
  pthread_mutex_lock(negotiation->mutex);
  stall_fill(stall, &negotiation->cache, all + own, words);
  pthread_mutex_unlock(negotiation->mutex);
  ring_status status = ring_allgather(negotiation->comm, all + own, all, 2 * words, RING_UINT64);
  if (status != RING_OK) return status;
  pthread_mutex_lock(negotiation->mutex);
  bool enough = stall_apply(stall, negotiation, all, words);
  pthread_mutex_unlock(negotiation->mutex);
  return enough ? RING_OK : ring_negotiation_no_memory(negotiation);
}
