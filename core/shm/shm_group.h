/* SPDX-License-Identifier: Apache-2.0
 *
 * A share: the ranks of one host that have mapped the same memory, and what they coordinate by. It
 * lies at the front of the arena: a control block that all of them write to, and a rank block for each rank that
 * only this rank writes to.
 *
 * A call in shared memory is a number and a digest of its signature and of those of all calls before
 * it: where nobody waits for a rank (a root that sends), a difference shows in the next call. A rank
 * publishes its call by storing both as the flag of one of its slots, after what it has to say: a few
 * bytes travel behind the flag, more in one of its staging buffers. The others wait for the number and compare
 * the digest. A slot is used again RING_SLOTS calls later, a staging buffer RING_STAGING_BUFFERS calls later, when every
 * rank is known to have finished the call that it held: a root that says little runs far ahead.
 *
 * Waiting (Karlin et al., 1991: spin for as long as a sleep would cost): with a processor for every
 * rank a waiter spins, then sleeps; with fewer it yields early, then sleeps. A sleeper says so on
 * the control block and whom it waits for, orders that before its last look (membarrier), and is woken by
 * whoever publishes; so publishing needs no fence. Sleepers wake every 100 ms to ask the interrupt
 * hook, and to see whether a rank that they wait for has died (its place in the arena is free) or
 * failed (it says so on the control block).
 *
 * Not safe for two threads of one rank; the communicator sees to that.
 */
#ifndef RING_SHM_GROUP_H
#define RING_SHM_GROUP_H

#include <stdalign.h>
#include <stdatomic.h>

#include "base/platform.h"
#include "base/wait.h"
#include "peers/frame.h"
#include "peers/peers.h"
#include "transport/arena.h"

#define RING_SHM_RANKS 64
#define RING_LINE 64
#define RING_SLOTS 64
#define RING_SLOT_BYTES 120 /* that a rank can say in one; processors often fetch lines in pairs */
#define RING_STAGING_BUFFERS 4
#define RING_STAGING_BYTES (32 * 1024)
#define RING_DESCRIPTIONS 4
#define RING_CALL_WORDS 4 /* that a signature packs into */
#define RING_SHM_TRIES 20 /* after which a waiter asks how long to go on */

typedef struct ring_slot {
  alignas(2 * RING_LINE) _Atomic uint64_t flag; /* number of the call << 32 | digest */
  uint8_t bytes[RING_SLOT_BYTES];
} ring_slot;

typedef struct ring_staging_buffer {
  alignas(RING_LINE) uint8_t bytes[RING_STAGING_BYTES];
} ring_staging_buffer;

/* What one rank tells the others. */
typedef struct ring_rank_block {
  alignas(
      RING_LINE) _Atomic uint64_t done; /* like a flag: this rank needs nothing more of the call */
  alignas(RING_LINE) _Atomic uint32_t wake; /* counts up when it is woken */
  _Atomic int32_t awaits;  /* while it waits for long: for whom, plus 1; 0: for nobody */
  _Atomic uint64_t looked; /* when it was last seen to wait for that: it looks again and again */
  alignas(RING_LINE) _Atomic uint64_t announced; /* odd while `call` changes */
  _Atomic uint64_t call[RING_CALL_WORDS];        /* its last one; zeros: none now */
  alignas(
      RING_LINE) _Atomic uint64_t said[RING_SLOTS][RING_CALL_WORDS]; /* the calls in its slots */
  struct {
    _Atomic uint64_t digest; /* of a call with such an array */
    _Atomic uint64_t text[RING_DESCRIPTION_BYTES / 8];
  } descriptions[RING_DESCRIPTIONS]; /* of the arrays of its last calls that have one */
  ring_slot slots[RING_SLOTS];
  ring_staging_buffer staging[RING_STAGING_BUFFERS];
} ring_rank_block;

typedef struct ring_control_block {
  alignas(RING_LINE) _Atomic uint64_t sleeping; /* bit r: rank r of the share */
  alignas(RING_LINE) _Atomic uint32_t fenced;   /* a rank has no membarrier: publishing fences */
  alignas(RING_LINE) _Atomic uint32_t failed;   /* 1: being written, 2: `failure` can be read */
  ring_error failure;
  struct {
    alignas(RING_LINE) _Atomic uint64_t next; /* bytes that some rank has claimed, from the first */
  } claims[RING_SLOTS];                       /* of the long call in the slots of this index */
  ring_rank_block rank_blocks[];
} ring_control_block;

#define RING_BOUNCE_BYTES ((size_t)1024 * 1024)

typedef struct ring_shm {
  ring_arena *arena; /* NULL: this rank shares with nobody */
  bool formed;       /* and all ranks know that they do */
  ring_control_block *control_block;
  int index, size;
  int ranks[RING_SHM_RANKS];     /* of the communicator, in order */
  uint32_t sequence;             /* of calls in shared memory */
  uint64_t digest;               /* of all of them */
  uint32_t seen[RING_SHM_RANKS]; /* the last call known to be finished, by index */
  uint32_t settled;              /* the last one that all were known to have finished */
  bool fenced;                   /* as on the control block */
  ring_cores cores;
  size_t cache; /* of the host's last level */
  int alert;    /* sleeps that are put off */
  bool exposed; /* others may be reading and writing this rank's buffers */
  void *output; /* of the call in which they may */
  size_t output_bytes;
  uint32_t entered;        /* the first call of the long one, which goes on up to `sequence` */
  void *bounce;            /* RING_BOUNCE_BYTES bytes in the arena; NULL until a call needs it */
  const char *description; /* of the array of the call that runs; NULL: none */
  ring_peers *peers;       /* for names, and to answer strangers */
  ring_poll_set poll_set;
  uint64_t answered;              /* when */
  uint64_t wait_ns, bytes_shared; /* another thread may read these */
} ring_shm;

/* One call in shared memory. */
typedef struct ring_shm_call {
  ring_shm *shm;
  const ring_call *call;
  const ring_wait *wait; /* prepared; every wait of the call begins a copy */
  uint64_t flag;
  ring_error *error;
} ring_shm_call;

static inline ring_rank_block *ring_shm_rank_block(const ring_shm *shm, int index) {
  return &shm->control_block->rank_blocks[index];
}

static inline ring_slot *ring_shm_slot(const ring_shm_call *call, int index) {
  return &ring_shm_rank_block(call->shm, index)->slots[call->shm->sequence % RING_SLOTS];
}

/* Ranks take turns in the staging buffers: who has read what another one said there has its lines, and so
 * writes there next time without fetching them back. */
static inline uint8_t *ring_shm_staging_of(const ring_shm *shm, uint32_t sequence, int index) {
  int rank_block = (int)(((uint32_t)index + sequence / RING_STAGING_BUFFERS) % (uint32_t)shm->size);
  return ring_shm_rank_block(shm, rank_block)->staging[sequence % RING_STAGING_BUFFERS].bytes;
}

static inline uint8_t *ring_shm_staging(const ring_shm_call *call, int index) {
  return ring_shm_staging_of(call->shm, call->shm->sequence, index);
}

/* Whether a flag has come as far as call `sequence`. */
static inline bool ring_shm_reached(uint64_t flag, uint32_t sequence) {
  return (int32_t)((uint32_t)(flag >> 32) - sequence) >= 0;
}

/* The digest of a message on the control block that its receiver does not take; 0 of any other one. */
static inline uint64_t ring_shm_receiver(int rank) {
  return (uint64_t)rank + 1;
}

/* Says what this rank is about to call, in shared memory or not, so that whoever waits for it in
 * another call can say so; or that a call over links is over. */
void ring_shm_announce(const ring_shm *shm, const ring_call *call);
void ring_shm_retire(const ring_shm *shm);

/* Says for whom this rank waits, in a call over links; -1: for nobody of this host. */
void ring_shm_show(const ring_shm *shm, int index);

/* Begins a call, once all ranks have finished the one `depth` calls before: RING_SLOTS, so that this
 * rank's slot is free, or RING_STAGING_BUFFERS, and its staging buffer is, too. */
ring_status ring_shm_begin(ring_shm *shm, const ring_call *call, uint32_t depth,
                           const ring_wait *wait, ring_error *error, ring_shm_call *begun);

/* Wakes those of the ranks that sleep which wait for this one. */
void ring_shm_wake(const ring_shm *shm, uint64_t sleeping);

/* Stores the flag of a call where others look for it. */
static inline void ring_shm_store(const ring_shm_call *call, _Atomic uint64_t *where) {
  const ring_shm *shm = call->shm;
  atomic_store_explicit(where, call->flag, memory_order_release);
  if (shm->fenced)
    atomic_thread_fence(memory_order_seq_cst);
  else
    atomic_signal_fence(memory_order_seq_cst);
  uint64_t sleeping = atomic_load_explicit(&shm->control_block->sleeping, memory_order_relaxed);
  if (sleeping != 0) ring_shm_wake(shm, sleeping);
}

/* Publishes this rank's slot of the call; or that it needs nothing more of it. */
static inline void ring_shm_publish(const ring_shm_call *call) {
  ring_shm_store(call, &ring_shm_slot(call, call->shm->index)->flag);
}

static inline void ring_shm_finish(const ring_shm_call *call) {
  ring_shm_store(call, &ring_shm_rank_block(call->shm, call->shm->index)->done);
}

/* Waits for another rank's slot of the call; or until it needs nothing more of the call. */
ring_status ring_shm_await_slowly(const ring_shm_call *call, int index);
ring_status ring_shm_await_finish(const ring_shm_call *call, int index);

static inline ring_status ring_shm_await(const ring_shm_call *call, int index) {
  const ring_slot *slot = ring_shm_slot(call, index);
  for (int tries = 0; tries < RING_SHM_TRIES; tries++) {
    if (atomic_load_explicit(&slot->flag, memory_order_acquire) == call->flag) {
      call->shm->seen[index] = call->shm->sequence - 1;
      return RING_OK;
    }
    ring_platform_pause();
  }
  return ring_shm_await_slowly(call, index);
}

/* Writes down why this rank fails, unless another one did before, and wakes all. Then waits, half a
 * second at most, until no other rank reads or writes this one's buffers; who does it still, and was
 * stopped, loses them. */
void ring_shm_fail(ring_shm *shm, const ring_error *error);

/* Whether a rank has failed; then why. RING_ABORTED when that was because this rank did not come: it
 * only begins a call, or has been at work in it (`wait` is NULL), or it was stopped in its wait. */
bool ring_shm_failed(const ring_shm *shm, const ring_wait *wait, ring_error *error);

/* The share's index of a rank of the communicator, or -1. */
int ring_shm_index(const ring_shm *shm, int rank);

/* Forming a share takes three steps (shm_open.c). Before the ranks have met, the first rank of a
 * host creates the memory and opens a acceptor on a local socket for the others. Once they have met, the
 * others fetch it; each then tells all whether it has it. If all ranks of a host do, they share,
 * else none of them does: being on one host is proved, not believed. */
void ring_shm_invite(ring_shm *shm, ring_peers *peers);

/* Whether this rank has its host's memory now. */
bool ring_shm_fetch(ring_shm *shm, ring_peers *peers, ring_wait *wait);

/* `has` says it of all ranks. */
ring_status ring_shm_settle(ring_shm *shm, ring_peers *peers, const uint8_t *has,
                            const ring_wait *wait, ring_error *error);

/* Leaves: the others then see an empty rank block. */
void ring_shm_fini(ring_shm *shm);

/* ---- Between its files -------------------------------------------------------------------- */

/* What a rank announced last; false if that is just changing. */
bool ring_shm_heard(const ring_shm *shm, int index, ring_call *call);

/* The last call that a rank had in the slot of call `sequence`. */
ring_call ring_shm_said(const ring_shm *shm, int index, uint32_t sequence);

/* How a rank describes the array of a call of this digest, or "" where it does not. */
void ring_shm_description(const ring_shm *shm, int index, uint64_t digest,
                          char text[RING_DESCRIPTION_BYTES]);

/* Why there may be nothing to wait for; for a rank that has slept while it waited for `index`. */
ring_status ring_shm_check(const ring_shm_call *call, int index, ring_wait *wait);

/* The failure of a call of which rank `index`, whose word is `flag`, needs nothing more although it has
 * not finished it. */
ring_status ring_shm_left(const ring_shm_call *call, int index, uint64_t flag);

/* The failure of a call in which a rank says that its buffers lie where they cannot. */
ring_status ring_shm_misleads(const ring_shm_call *call, int index);

/* The failure of a call whose flag is another one on rank `index`. */
ring_status ring_shm_differs(const ring_shm_call *call, int index);

#endif
