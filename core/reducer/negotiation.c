/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/negotiation.h"

#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "base/error.h"

ring_status ring_negotiation_init(ring_negotiation *negotiation, ring_comm *comm,
                                  pthread_mutex_t *mutex, size_t capacity) {
  size_t size = (size_t)ring_comm_size(comm);
  *negotiation = (ring_negotiation){.comm = comm,
                                    .mutex = mutex,
                                    .rank = ring_comm_rank(comm),
                                    .size = (int)size,
                                    .counts = calloc(size, sizeof(size_t)),
                                    .gathered = calloc(size, sizeof(int64_t)),
                                    .members = calloc(size, sizeof(ring_member)),
                                    .last_joined = -1};
  bool made = ring_cache_init(&negotiation->cache, capacity);
  made = made && negotiation->counts != NULL && negotiation->gathered != NULL;
  return made && negotiation->members != NULL ? RING_OK : RING_NO_MEMORY;
}

void ring_negotiation_destroy(ring_negotiation *negotiation) {
  ring_cache_destroy(&negotiation->cache);
  free(negotiation->words);
  free(negotiation->sent);
  free(negotiation->outgoing.bytes);
  free(negotiation->incoming.bytes);
  free(negotiation->counts);
  free(negotiation->gathered);
  free(negotiation->members);
  free(negotiation->ready);
}

ring_status ring_negotiation_no_memory(ring_negotiation *negotiation) {
  ring_comm_abort(negotiation->comm, "out of memory in a reducer");
  return RING_NO_MEMORY;
}

bool ring_bytes_reserve(ring_bytes *buffer, size_t need) {
  if (need <= buffer->capacity) return true;
  size_t grown = need + need / 2 + 256;
  uint8_t *bytes = realloc(buffer->bytes, grown);
  if (bytes == NULL) return false;
  buffer->bytes = bytes;
  buffer->capacity = grown;
  return true;
}

/* ---- Offers ------------------------------------------------------------------------------- */

static bool negotiation_reserve_words(ring_negotiation *negotiation, size_t count) {
  negotiation->word_count = count;
  if (count <= negotiation->word_capacity) return true;
  uint64_t *words = realloc(negotiation->words, 2 * count * sizeof *words);
  if (words != NULL) negotiation->words = words;
  uint64_t *sent = realloc(negotiation->sent, 2 * count * sizeof *sent);
  if (sent != NULL) negotiation->sent = sent;
  if (words == NULL || sent == NULL) return false;
  negotiation->word_capacity = 2 * count;
  return true;
}

/* Shorter names first, so that numbered names stay in the order of their numbers. */
static int negotiation_compare(const void *one, const void *other) {
  const ring_entry *a = *(ring_entry *const *)one, *b = *(ring_entry *const *)other;
  if (a->name_length != b->name_length) return a->name_length < b->name_length ? -1 : 1;
  return memcmp(a->name, b->name, a->name_length);
}

/* Packs the entries to be announced, and empties their list. An announcement of another rank may have
 * opened an entry under the same description since it was listed. Sorted by name, because the place in a
 * fused buffer decides how sums are rounded: it shall not depend on the order of submissions. */
static bool negotiation_pack(ring_negotiation *negotiation) {
  ring_cache *cache = &negotiation->cache;
  ring_bytes *out = &negotiation->outgoing;
  out->length = 0;
  if (cache->announcement_count > 1)
    qsort(cache->announcements, cache->announcement_count, sizeof(ring_entry *),
          negotiation_compare);
  for (size_t i = 0; i < cache->announcement_count; i++) {
    ring_entry *entry = cache->announcements[i];
    const ring_submission *mine = entry->mine;
    entry->announces = false;
    if (mine == NULL || (entry->slot >= 0 && cache_bit(cache->offers, (size_t)entry->slot)))
      continue;
    const ring_announcement announcement = {entry->name, entry->name_length, mine->description,
                                            mine->length};
    size_t bytes = announcement_bytes(&announcement);
    if (!ring_bytes_reserve(out, out->length + bytes)) return false;
    ring_announcement_encode(&announcement, out->bytes + out->length);
    out->length += bytes;
  }
  cache->announcement_count = 0;
  return true;
}

/* A rank that has joined offers every slot. */
static bool negotiation_prepare(ring_negotiation *negotiation, uint64_t flags) {
  const ring_cache *cache = &negotiation->cache;
  size_t words = cache_words(cache);
  if (!negotiation_reserve_words(negotiation, 1 + words) || !negotiation_pack(negotiation))
    return false;
  if (negotiation->outgoing.length > 0) flags |= NEGOTIATION_NEW;
  if (negotiation->mine != negotiation->members[negotiation->rank]) flags |= NEGOTIATION_STATE;
  negotiation->sent[0] = ~flags;
  if (negotiation->members[negotiation->rank] == MEMBER_JOINED)
    memset(negotiation->sent + 1, 0xff, words * sizeof(uint64_t));
  else if (words > 0)
    memcpy(negotiation->sent + 1, cache->offers, words * sizeof(uint64_t));
  return true;
}

/* ---- Exchanges ---------------------------------------------------------------------------- */

/* Gathers a number of each rank, which is 0 to `most`. `what` names it in an accusation. */
static ring_status negotiation_gather_number(ring_negotiation *negotiation, int64_t number,
                                             int64_t most, const char *what) {
  int64_t *gathered = negotiation->gathered;
  ring_status status = ring_allgather(negotiation->comm, &number, gathered, 1, RING_INT64);
  for (int rank = 0; status == RING_OK && rank < negotiation->size; rank++)
    if (gathered[rank] < 0 || gathered[rank] > most)
      status = ring_comm_accuse(negotiation->comm, rank, what);
  if (status == RING_OK && gathered[negotiation->rank] != number)
    status = ring_comm_accuse(negotiation->comm, -1, what);
  return status;
}

/* No bit of the AND is set that this rank has not sent: what it has not offered is not ready. */
static ring_status negotiation_reduce_words(ring_negotiation *negotiation) {
  uint64_t *words = negotiation->words, excess = 0;
  ring_status status = ring_allreduce(negotiation->comm, negotiation->sent, words,
                                      negotiation->word_count, RING_UINT64, RING_BAND);
  for (size_t i = 0; status == RING_OK && i < negotiation->word_count; i++)
    excess |= words[i] & ~negotiation->sent[i];
  return excess == 0
             ? status
             : ring_comm_accuse(negotiation->comm, -1, "a reducer an AND that has bits of no rank");
}

/* ---- States of the ranks ------------------------------------------------------------------ */

/* Called with the mutex. The last rank of a join is the highest of those that joined in its last cycle. */
static void negotiation_apply_states(ring_negotiation *negotiation) {
  negotiation->joined = negotiation->closing = 0;
  for (int rank = 0; rank < negotiation->size; rank++) {
    ring_member now = (ring_member)negotiation->gathered[rank];
    if (now == MEMBER_JOINED && negotiation->members[rank] != now) negotiation->last_joined = rank;
    negotiation->members[rank] = now;
    negotiation->joined += now == MEMBER_JOINED;
    negotiation->closing += now == MEMBER_CLOSING;
  }
  if (negotiation->joined < negotiation->size) return;
  for (int rank = 0; rank < negotiation->size; rank++) negotiation->members[rank] = MEMBER_ACTIVE;
  negotiation->joined = 0;
  negotiation->mine = MEMBER_ACTIVE;
  negotiation->joins++;
}

static ring_status negotiation_exchange_states(ring_negotiation *negotiation) {
  pthread_mutex_lock(negotiation->mutex);
  int64_t mine = (int64_t)negotiation->mine;
  pthread_mutex_unlock(negotiation->mutex);
  ring_status status = negotiation_gather_number(negotiation, mine, MEMBER_CLOSING,
                                                 "a reducer a state that does not exist");
  if (status != RING_OK) return status;
  pthread_mutex_lock(negotiation->mutex);
  negotiation_apply_states(negotiation);
  pthread_mutex_unlock(negotiation->mutex);
  return RING_OK;
}

/* ---- Results of the AND ------------------------------------------------------------------- */

void ring_negotiation_refuse(ring_negotiation *negotiation, ring_entry *entry,
                             const ring_error *error) {
  ring_submission *mine = entry->mine != NULL ? entry->mine : entry->deferred;
  if (mine == NULL) return;
  if (mine == entry->deferred)
    entry->deferred = NULL;
  else
    ring_cache_withdraw(&negotiation->cache, entry);
  ring_submission_complete(mine, error);
  negotiation->settled++;
}

static bool negotiation_add_ready(ring_negotiation *negotiation, ring_entry *entry) {
  if (negotiation->ready_count == negotiation->ready_capacity) {
    size_t grown = negotiation->ready_capacity == 0 ? 64 : 2 * negotiation->ready_capacity;
    ring_ready *ready = realloc(negotiation->ready, grown * sizeof *ready);
    if (ready == NULL) return false;
    negotiation->ready = ready;
    negotiation->ready_capacity = grown;
  }
  ring_ready *ready = &negotiation->ready[negotiation->ready_count++];
  *ready = (ring_ready){.entry = entry, .submission = entry->mine};
  entry->cycle = negotiation->cycles;
  ring_cache_close(&negotiation->cache, entry);
  return ring_tensor_decode(entry->description, entry->length, negotiation->size, &ready->tensor);
}

/* The end of a FAILED entry, whose error every rank had. */
static bool negotiation_take(ring_negotiation *negotiation, ring_entry *entry) {
  if (entry->state == ENTRY_FAILED) return ring_cache_evict(&negotiation->cache, entry);
  return negotiation_add_ready(negotiation, entry);
}

static bool negotiation_collect(ring_negotiation *negotiation) {
  ring_cache *cache = &negotiation->cache;
  size_t words = negotiation->word_count - 1;
  bool enough = true;
  negotiation->ready_count = 0;
  for (size_t i = 0; i < words; i++)
    for (uint64_t bits = negotiation->words[1 + i]; enough && bits != 0; bits &= bits - 1) {
      size_t slot = 64 * i + (size_t)__builtin_ctzll(bits);
      if (slot < cache->slot_count && cache->slots[slot] != NULL)
        enough = negotiation_take(negotiation, cache->slots[slot]);
    }
  return enough;
}

/* ---- New names ---------------------------------------------------------------------------- */

static void negotiation_describe(const ring_negotiation *negotiation, const uint8_t *description,
                                 size_t length, char text[TENSOR_TEXT]) {
  ring_tensor tensor;
  text[0] = '\0';
  if (ring_tensor_decode(description, length, negotiation->size, &tensor))
    ring_tensor_text(&tensor, text, TENSOR_TEXT);
}

/* The error of a name under which two ranks have announced other descriptions; `one` is the lower rank. */
static void negotiation_report(const ring_negotiation *negotiation, const ring_entry *entry,
                               int one, const char *of_one, int other, const char *of_other,
                               ring_error *error) {
  ring_error_set(
      error, RING_MISMATCH, other, 0,
      "tensor \"%.200s\" differs: rank %d (%s) submitted %s; rank %d (%s) submitted %s: pass the "
      "same on all ranks",
      entry->name, one, ring_comm_name(negotiation->comm, one), of_one, other,
      ring_comm_name(negotiation->comm, other), of_other);
}

static void negotiation_conflict(ring_negotiation *negotiation, ring_entry *entry,
                                 const ring_announcement *announcement, int rank) {
  char before[TENSOR_TEXT], now[TENSOR_TEXT];
  ring_error error;
  negotiation_describe(negotiation, entry->description, entry->length, before);
  negotiation_describe(negotiation, announcement->description, announcement->length, now);
  if (entry->announcer < rank)
    negotiation_report(negotiation, entry, entry->announcer, before, rank, now, &error);
  else
    negotiation_report(negotiation, entry, rank, now, entry->announcer, before, &error);
  ring_cache_fail(&negotiation->cache, entry, error.message);
  ring_negotiation_refuse(negotiation, entry, &error);
}

/* An announcement opens a name, replaces the description of a CLOSED one, and contradicts an OPEN one.
 * RING_NO_MEMORY; RING_MISMATCH: the name is ready in this cycle, so that its rank has offered it and announces
 * nothing under it. */
static ring_status negotiation_apply(ring_negotiation *negotiation,
                                     const ring_announcement *announcement, int rank) {
  const uint8_t *description = announcement->description;
  size_t length = announcement->length;
  ring_entry *entry =
      ring_cache_get(&negotiation->cache, announcement->name, announcement->name_length);
  if (entry == NULL) return RING_NO_MEMORY;
  if (entry->state == ENTRY_FAILED) return RING_OK;
  if (entry->cycle == negotiation->cycles) return RING_MISMATCH;
  bool agrees = entry->state != ENTRY_LOCAL && entry->length == length &&
                memcmp(entry->description, description, length) == 0;
  if (agrees) return RING_OK;
  if (entry->state == ENTRY_OPEN) {
    negotiation_conflict(negotiation, entry, announcement, rank);
    return RING_OK;
  }
  bool enough = ring_cache_open(&negotiation->cache, entry, description, length, rank) &&
                ring_cache_reconcile(&negotiation->cache, entry);
  return enough ? RING_OK : RING_NO_MEMORY;
}

/* Applies the announcements of all ranks. Called with the mutex. RING_NO_MEMORY; RING_MISMATCH: *forger has announced
 * what no rank announces then, or more than every rank keeps. */
static ring_status negotiation_apply_all(ring_negotiation *negotiation, int *forger) {
  const uint8_t *at = negotiation->incoming.bytes;
  ring_announcement announcement;
  for (int rank = 0; rank < negotiation->size; at += negotiation->counts[rank++]) {
    bytes_cursor from = {.at = at, .left = negotiation->counts[rank]};
    *forger = rank;
    while (ring_announcement_next(&from, negotiation->size, &announcement)) {
      ring_status status = negotiation_apply(negotiation, &announcement, rank);
      if (status != RING_OK) return status;
      if (negotiation->cache.bytes > ANNOUNCEMENT_MOST) return RING_MISMATCH;
    }
    if (from.bad) return RING_MISMATCH;
  }
  return RING_OK;
}

static ring_status negotiation_receive_names(ring_negotiation *negotiation) {
  int forger = -1;
  pthread_mutex_lock(negotiation->mutex);
  negotiation->negotiations++;
  ring_status status = negotiation_apply_all(negotiation, &forger);
  pthread_mutex_unlock(negotiation->mutex);
  if (status == RING_NO_MEMORY) return ring_negotiation_no_memory(negotiation);
  if (status == RING_OK) return RING_OK;
  return ring_comm_accuse(negotiation->comm, forger, "a reducer the description of no tensor");
}

static ring_status negotiation_exchange_names(ring_negotiation *negotiation) {
  size_t total = 0;
  ring_status status = negotiation_gather_number(negotiation, (int64_t)negotiation->outgoing.length,
                                                 (int64_t)ANNOUNCEMENT_MOST,
                                                 "a reducer an impossible length of names");
  if (status != RING_OK) return status;
  for (int rank = 0; rank < negotiation->size; rank++) {
    negotiation->counts[rank] = (size_t)negotiation->gathered[rank];
    total += negotiation->counts[rank];
  }
  if (!ring_bytes_reserve(&negotiation->incoming, total + 1)) /* never NULL */
    return ring_negotiation_no_memory(negotiation);
  status = ring_allgatherv(negotiation->comm, negotiation->outgoing.bytes,
                           negotiation->incoming.bytes, negotiation->counts, RING_UINT8);
  return status == RING_OK ? negotiation_receive_names(negotiation) : status;
}

/* ---- A cycle ------------------------------------------------------------------------------ */

ring_status ring_negotiation_run(ring_negotiation *negotiation, uint64_t *flags) {
  pthread_mutex_lock(negotiation->mutex);
  negotiation->settled = 0;
  negotiation->ready_count = 0;
  bool enough = ring_cache_trim(&negotiation->cache) && negotiation_prepare(negotiation, *flags);
  pthread_mutex_unlock(negotiation->mutex);
  if (!enough) return ring_negotiation_no_memory(negotiation);
  ring_status status = negotiation_reduce_words(negotiation);
  if (status != RING_OK) return status;
  *flags = ~negotiation->words[0];
  pthread_mutex_lock(negotiation->mutex);
  negotiation->cycles++;
  enough = negotiation_collect(negotiation);
  pthread_mutex_unlock(negotiation->mutex);
  if (!enough) return ring_negotiation_no_memory(negotiation);
  if ((*flags & NEGOTIATION_STATE) != 0) status = negotiation_exchange_states(negotiation);
  if (status == RING_OK && (*flags & NEGOTIATION_NEW) != 0)
    status = negotiation_exchange_names(negotiation);
  return status;
}
