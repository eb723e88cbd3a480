/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory by which the ranks of one host coordinate: a control block that all of them write to,
 * and a rank block for each rank, written by its owner (except `wake`, and the staging buffers, which
 * ranks use in turns). Both lie at the front of the arena (transport/arena.h). The README of this
 * folder has the picture.
 *
 * This unit has the data and the plain accesses to it; sync.h waits, shm_failure.h explains.
 */
#ifndef RING_SHM_CONTROL_BLOCK_H
#define RING_SHM_CONTROL_BLOCK_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/call.h"
#include "base/timeline.h"
#include "base/wait.h"
#include "peers/peer_table.h"
#include "transport/arena.h"

#define RING_SHM_RANKS 64
#define RING_LINE 64
#define RING_SLOTS 64
#define RING_SLOT_BYTES 120 /* of payload; processors often fetch lines in pairs */
#define RING_STAGING_BUFFERS 4
#define RING_STAGING_BYTES (32 * 1024)
#define RING_DESCRIPTIONS 4
#define RING_CALL_WORDS 4 /* of a packed signature */
#define RING_BOUNCE_BYTES ((size_t)1024 * 1024)

typedef struct ring_slot {
  alignas(2 * RING_LINE) _Atomic uint64_t flag; /* number of the call << 32 | digest */
  uint8_t bytes[RING_SLOT_BYTES];
} ring_slot;

typedef struct ring_staging_buffer {
  alignas(RING_LINE) uint8_t bytes[RING_STAGING_BYTES];
} ring_staging_buffer;

/* What one rank publishes. */
typedef struct ring_rank_block {
  alignas(RING_LINE) _Atomic uint64_t done; /* a flag: the owner needs nothing more of that call */
  alignas(RING_LINE) _Atomic uint32_t wake; /* futex; incremented to wake the owner */
  _Atomic int32_t awaits;   /* 1 + index of the rank for which the owner sleeps; 0: none */
  _Atomic uint64_t checked; /* when the owner last began such a sleep */
  alignas(RING_LINE) _Atomic uint64_t started; /* number of the last started call << 32 */
  alignas(RING_LINE) _Atomic uint64_t version; /* of `call`; odd while the owner changes it */
  _Atomic uint64_t call[RING_CALL_WORDS];      /* the call that it has announced; zeros: none */
  alignas(RING_LINE) _Atomic uint64_t slot_calls[RING_SLOTS][RING_CALL_WORDS]; /* by slot */
  struct {
    _Atomic uint64_t digest; /* of the call to which the text belongs */
    _Atomic uint64_t text[RING_DESCRIPTION_BYTES / 8];
  } descriptions[RING_DESCRIPTIONS]; /* of the arrays of the last calls that have a description */
  ring_slot slots[RING_SLOTS];
  ring_staging_buffer staging[RING_STAGING_BUFFERS];
} ring_rank_block;

typedef struct ring_control_block {
  alignas(RING_LINE) _Atomic uint64_t sleeping; /* bit i: the rank of index i */
  alignas(RING_LINE) _Atomic uint32_t fenced;   /* 1: a rank has no membarrier, publishing fences */
  alignas(RING_LINE) _Atomic uint32_t failed;   /* 1: `failure` is being written, 2: it is valid */
  ring_error failure;
  struct {
    alignas(
        RING_LINE) _Atomic uint64_t next; /* offset of the first byte that no rank has claimed */
  } claims[RING_SLOTS];                   /* of the large call in the slots of this index */
  ring_rank_block rank_blocks[];
} ring_control_block;

/* Work that the owner of the group has done during waits. `serve` must not block. */
typedef struct ring_wait_service {
  void (*serve)(void *context);
  void *context;
  const int *pending; /* above 0: `serve` has work under way, so sleeps are short */
} ring_wait_service;

/* One rank's view of the shm group. */
typedef struct ring_shm {
  ring_arena *arena; /* NULL: this rank has no shared memory */
  bool formed;       /* all ranks of the host have mapped the arena and know it */
  ring_control_block *control_block;
  int index, size;               /* of this rank in the group; of the group */
  int ranks[RING_SHM_RANKS];     /* of the communicator, ascending */
  uint32_t sequence;             /* of calls in shared memory */
  uint64_t digest;               /* of all their signatures */
  uint32_t seen[RING_SHM_RANKS]; /* the last call that a rank is known to have finished, by index */
  uint32_t settled;              /* the last call that all ranks are known to have finished */
  bool fenced;                   /* copy of the control block's */
  ring_cores cores;
  size_t cache; /* bytes of the host's last-level cache */
  int alert;    /* sleeps that are still postponed */
  bool exposed; /* other ranks may be reading and writing this rank's buffers */
  void *output; /* of the call that exposes them */
  size_t output_bytes;
  uint32_t entered;        /* first call of the large one, which lasts up to `sequence` */
  void *bounce;            /* RING_BOUNCE_BYTES bytes in the arena; NULL until a call needs it */
  const char *description; /* of the array of the current call; NULL: none */
  const ring_peers *peers; /* names of hosts and counts of messages */
  ring_wait_service service;
  ring_timeline *timeline;        /* the communicator's, or NULL */
  uint64_t served;                /* when a wait last began with `service` */
  uint64_t wait_ns, bytes_shared; /* counters, which another thread may read */
} ring_shm;

/* One call in shared memory. */
typedef struct ring_shm_call {
  ring_shm *shm;
  const ring_call *call;
  const ring_wait *wait; /* prepared; every wait of the call begins a copy */
  uint64_t flag;
  ring_error *error;
} ring_shm_call;

/* ---- Places ------------------------------------------------------------------------------- */

static inline ring_rank_block *ring_shm_rank_block(const ring_shm *shm, int index) {
  return &shm->control_block->rank_blocks[index];
}

static inline ring_slot *ring_shm_slot(const ring_shm_call *call, int index) {
  return &ring_shm_rank_block(call->shm, index)->slots[call->shm->sequence % RING_SLOTS];
}

/* The staging buffer in which a rank publishes in call `sequence`. Ranks take turns in the buffers:
 * the next writer of a buffer has read it before, so its cache holds the lines. */
static inline uint8_t *ring_shm_staging_of(const ring_shm *shm, uint32_t sequence, int index) {
  int rank_block = (int)(((uint32_t)index + sequence / RING_STAGING_BUFFERS) % (uint32_t)shm->size);
  return ring_shm_rank_block(shm, rank_block)->staging[sequence % RING_STAGING_BUFFERS].bytes;
}

static inline uint8_t *ring_shm_staging(const ring_shm_call *call, int index) {
  return ring_shm_staging_of(call->shm, call->shm->sequence, index);
}

/* The group's index of a rank of the communicator, or -1. */
int ring_shm_index(const ring_shm *shm, int rank);

/* ---- Calls -------------------------------------------------------------------------------- */

/* Whether a flag is that of call `sequence` or of a later call. */
static inline bool ring_shm_reached(uint64_t flag, uint32_t sequence) {
  return (int32_t)((uint32_t)(flag >> 32) - sequence) >= 0;
}

/* The digest of an announced message that its receiver does not take; 0 in any other message. */
static inline uint64_t ring_shm_receiver(int rank) {
  return (uint64_t)rank + 1;
}

static inline void ring_shm_pack(const ring_call *call, uint64_t words[RING_CALL_WORDS]) {
  words[0] = (uint64_t)call->sequence << 32 | (uint64_t)call->dtype << 16 |
             (uint64_t)call->op << 8 | call->collective;
  words[1] = (uint32_t)call->root;
  words[2] = call->count;
  words[3] = call->digest;
}

static inline void ring_shm_store_words(_Atomic uint64_t *to,
                                        const uint64_t words[RING_CALL_WORDS]) {
  for (size_t i = 0; i < RING_CALL_WORDS; i++)
    atomic_store_explicit(&to[i], words[i], memory_order_relaxed);
}

/* Replaces the announced call: a sequence lock (Lameter, 2005), so a reader sees all of it or
 * retries. */
static inline void ring_shm_announce_words(const ring_shm *shm,
                                           const uint64_t words[RING_CALL_WORDS]) {
  ring_rank_block *rank_block = ring_shm_rank_block(shm, shm->index);
  uint64_t version = atomic_load_explicit(&rank_block->version, memory_order_relaxed);
  atomic_store_explicit(&rank_block->version, version + 1, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  ring_shm_store_words(rank_block->call, words);
  atomic_store_explicit(&rank_block->version, version + 2, memory_order_release);
}

/* Announces the call that this rank begins, in shared memory or over links: a rank that waits for
 * this rank in another call reports both. retire ends a call over links. */
void ring_shm_announce(const ring_shm *shm, const ring_call *call);
void ring_shm_retire(const ring_shm *shm);

/* Reads the call that a rank announced last; false while the rank changes it. */
bool ring_shm_announced(const ring_shm *shm, int index, ring_call *call);

/* The last call for which a rank used the slot of call `sequence`. */
ring_call ring_shm_slot_call(const ring_shm *shm, int index, uint32_t sequence);

/* Publishes shm->description, the array of a call of this digest. */
void ring_shm_describe(const ring_shm *shm, uint32_t sequence, uint64_t digest);

/* Reads how a rank describes the array of a call of this digest; "" where it does not. */
void ring_shm_description(const ring_shm *shm, int index, uint64_t digest,
                          char text[RING_DESCRIPTION_BYTES]);

/* ---- Sleepers ----------------------------------------------------------------------------- */

/* Publishes the rank for which this rank waits, by index; -1: no rank of this host. */
void ring_shm_set_awaited(const ring_shm *shm, int index);

/* Wakes the ranks in `sleeping`, a bit for each, that wait for this rank. */
void ring_shm_wake(const ring_shm *shm, uint64_t sleeping);

/* Wakes all ranks. */
void ring_shm_wake_all(const ring_shm *shm);

#endif
