/* SPDX-License-Identifier: Apache-2.0 */
#include "shm/control_block.h"

#include <string.h>

#include "base/platform.h"
#include "base/platform_memory.h"

int ring_shm_index(const ring_shm *shm, int rank) {
  for (int i = 0; i < shm->size; i++)
    if (shm->ranks[i] == rank) return i;
  return -1;
}

/* ---- Calls -------------------------------------------------------------------------------- */

static ring_call control_block_load(const _Atomic uint64_t *from) {
  uint64_t words[RING_CALL_WORDS];
  for (size_t i = 0; i < RING_CALL_WORDS; i++)
    words[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
  return (ring_call){.collective = (uint8_t)words[0],
                     .op = (uint8_t)(words[0] >> 8),
                     .dtype = (uint8_t)(words[0] >> 16),
                     .sequence = (uint32_t)(words[0] >> 32),
                     .root = (int32_t)words[1],
                     .count = words[2],
                     .digest = words[3]};
}

void ring_shm_announce(const ring_shm *shm, const ring_call *call) {
  uint64_t words[RING_CALL_WORDS];
  ring_shm_pack(call, words);
  ring_shm_announce_words(shm, words);
}

void ring_shm_retire(const ring_shm *shm) {
  static const uint64_t nothing[RING_CALL_WORDS];
  ring_shm_announce_words(shm, nothing);
}

bool ring_shm_announced(const ring_shm *shm, int index, ring_call *call) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
  uint64_t version = atomic_load_explicit(&rank_block->version, memory_order_acquire);
  *call = control_block_load(rank_block->call);
  atomic_thread_fence(memory_order_acquire);
  return version % 2 == 0 &&
         atomic_load_explicit(&rank_block->version, memory_order_relaxed) == version;
}

ring_call ring_shm_slot_call(const ring_shm *shm, int index, uint32_t sequence) {
  return control_block_load(ring_shm_rank_block(shm, index)->slot_calls[sequence % RING_SLOTS]);
}

/* In atomic words: a rank that runs ahead may write a description while another rank reads it. */
void ring_shm_describe(const ring_shm *shm, uint32_t sequence, uint64_t digest) {
  uint64_t words[RING_DESCRIPTION_BYTES / 8];
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  uint32_t at = sequence % RING_DESCRIPTIONS;
  memcpy(words, shm->description, sizeof words);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    atomic_store_explicit(&rank_block->descriptions[at].text[i], words[i], memory_order_relaxed);
  atomic_store_explicit(&rank_block->descriptions[at].digest, digest, memory_order_relaxed);
}

void ring_shm_description(const ring_shm *shm, int index, uint64_t digest,
                          char text[RING_DESCRIPTION_BYTES]) {
  uint64_t words[RING_DESCRIPTION_BYTES / 8];
  ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
  int at = 0;
  text[0] = '\0';
  while (at < RING_DESCRIPTIONS &&
         atomic_load_explicit(&rank_block->descriptions[at].digest, memory_order_relaxed) != digest)
    at++;
  if (digest == 0 || at == RING_DESCRIPTIONS) return;
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    words[i] = atomic_load_explicit(&rank_block->descriptions[at].text[i], memory_order_relaxed);
  memcpy(text, words, sizeof words);
  text[RING_DESCRIPTION_BYTES - 1] = '\0';
}

/* ---- Sleepers ----------------------------------------------------------------------------- */

void ring_shm_set_awaited(const ring_shm *shm, int index) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  if (index >= 0)
    atomic_store_explicit(&rank_block->checked, ring_platform_now(), memory_order_relaxed);
  atomic_store_explicit(&rank_block->awaits, index + 1, memory_order_relaxed);
}

static void control_block_wake(ring_rank_block *rank_block) {
  atomic_fetch_add_explicit(&rank_block->wake, 1, memory_order_release);
  ring_platform_wake(&rank_block->wake);
}

void ring_shm_wake(const ring_shm *shm, uint64_t sleeping) {
  while (sleeping != 0) {
    int index = __builtin_ctzll(sleeping);
    if (index >= shm->size) return; /* no rank: something has overwritten the control block */
    ring_rank_block *rank_block = ring_shm_rank_block(shm, index);
    sleeping &= sleeping - 1;
    if (atomic_load_explicit(&rank_block->awaits, memory_order_relaxed) == shm->index + 1)
      control_block_wake(rank_block);
  }
}

void ring_shm_wake_all(const ring_shm *shm) {
  for (int i = 0; i < shm->size; i++) control_block_wake(ring_shm_rank_block(shm, i));
}
