/* SPDX-License-Identifier: Apache-2.0
 *
 * A share: the ranks of one host that have mapped the same memory, and what they coordinate by. It
 * lies at the front of the arena: a board that all of them write to, and a seat for each rank that
 * only this rank writes to.
 *
 * A call in shared memory is a number and a digest of its signature and of those of all calls before
 * it: where nobody waits for a rank (a root that sends), a difference shows in the next call. A rank
 * publishes its call by storing both as the flag of one of its slots, after what it has to say: a few
 * bytes travel behind the flag, more in one of its rooms. The others wait for the number and compare
 * the digest. A slot is used again RING_SLOTS calls later, a room RING_ROOMS calls later, when every
 * rank is known to have finished the call that it held: a root that says little runs far ahead.
 *
 * Waiting (Karlin et al., 1991: spin for as long as a sleep would cost): with a processor for every
 * rank a waiter spins, then sleeps; with fewer it yields early, then sleeps. A sleeper says so on
 * the board and whom it waits for, orders that before its last look (membarrier), and is woken by
 * whoever publishes; so publishing needs no fence. Sleepers wake every 100 ms to ask the interrupt
 * hook, and to see whether a rank that they wait for has died (its place in the arena is free) or
 * failed (it says so on the board).
 *
 * Not safe for two threads of one rank; the communicator sees to that.
 */
#ifndef RING_SHARE_H
#define RING_SHARE_H

#include <stdalign.h>
#include <stdatomic.h>

#include "arena.h"
#include "frame.h"
#include "peers.h"
#include "platform.h"
#include "wait.h"

#define RING_SHARE_RANKS 64
#define RING_LINE 64
#define RING_SLOTS 64
#define RING_SLOT_BYTES 120 /* that a rank can say in one; processors often fetch lines in pairs */
#define RING_ROOMS 4
#define RING_ROOM_BYTES (32 * 1024)
#define RING_DESCRIPTIONS 4
#define RING_CALL_WORDS 4   /* that a signature packs into */
#define RING_SHARE_TRIES 20 /* after which a waiter asks how long to go on */

typedef struct ring_slot {
  alignas(2 * RING_LINE) _Atomic uint64_t flag; /* number of the call << 32 | digest */
  uint8_t bytes[RING_SLOT_BYTES];
} ring_slot;

typedef struct ring_room {
  alignas(RING_LINE) uint8_t bytes[RING_ROOM_BYTES];
} ring_room;

/* What one rank tells the others. */
typedef struct ring_seat {
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
    _Atomic uint64_t layout; /* of a call with such an array */
    _Atomic uint64_t text[RING_DESCRIPTION_BYTES / 8];
  } descriptions[RING_DESCRIPTIONS]; /* of the arrays of its last calls that have one */
  ring_slot slots[RING_SLOTS];
  ring_room rooms[RING_ROOMS];
} ring_seat;

typedef struct ring_board {
  alignas(RING_LINE) _Atomic uint64_t sleeping; /* bit r: rank r of the share */
  alignas(RING_LINE) _Atomic uint32_t fenced;   /* a rank has no membarrier: publishing fences */
  alignas(RING_LINE) _Atomic uint32_t failed;   /* 1: being written, 2: `failure` can be read */
  ring_error failure;
  struct {
    alignas(RING_LINE) _Atomic uint64_t next; /* bytes that some rank has claimed, from the first */
  } claims[RING_SLOTS];                       /* of the long call in the slots of this index */
  ring_seat seats[];
} ring_board;

#define RING_STAGE ((size_t)1024 * 1024)

typedef struct ring_share {
  ring_arena *arena; /* NULL: this rank shares with nobody */
  bool formed;       /* and all ranks know that they do */
  ring_board *board;
  int index, size;
  int ranks[RING_SHARE_RANKS];     /* of the communicator, in order */
  uint32_t sequence;               /* of calls in shared memory */
  uint64_t digest;                 /* of all of them */
  uint32_t seen[RING_SHARE_RANKS]; /* the last call known to be finished, by index */
  uint32_t settled;                /* the last one that all were known to have finished */
  bool fenced;                     /* as on the board */
  ring_cores cores;
  size_t cache; /* of the host's last level */
  int alert;    /* sleeps that are put off */
  bool exposed; /* others may be reading and writing this rank's buffers */
  void *output; /* of the call in which they may */
  size_t output_bytes;
  uint32_t entered;        /* the first call of the long one, which goes on up to `sequence` */
  void *stage;             /* RING_STAGE bytes in the arena; NULL until a call needs it */
  const char *description; /* of the array of the call that runs; NULL: none */
  ring_peers *peers;       /* for names, and to answer strangers */
  ring_poller poller;
  uint64_t answered;              /* when */
  uint64_t wait_ns, bytes_shared; /* another thread may read these */
} ring_share;

/* One call in shared memory. */
typedef struct ring_share_call {
  ring_share *share;
  const ring_call *call;
  const ring_wait *wait; /* prepared; every wait of the call begins a copy */
  uint64_t flag;
  ring_error *error;
} ring_share_call;

static inline ring_seat *ring_share_seat(const ring_share *share, int index) {
  return &share->board->seats[index];
}

static inline ring_slot *ring_share_slot(const ring_share_call *call, int index) {
  return &ring_share_seat(call->share, index)->slots[call->share->sequence % RING_SLOTS];
}

/* Ranks take turns in the rooms: who has read what another one said there has its lines, and so
 * writes there next time without fetching them back. */
static inline uint8_t *ring_share_room_of(const ring_share *share, uint32_t sequence, int index) {
  int seat = (int)(((uint32_t)index + sequence / RING_ROOMS) % (uint32_t)share->size);
  return ring_share_seat(share, seat)->rooms[sequence % RING_ROOMS].bytes;
}

static inline uint8_t *ring_share_room(const ring_share_call *call, int index) {
  return ring_share_room_of(call->share, call->share->sequence, index);
}

/* Whether a flag has come as far as call `sequence`. */
static inline bool ring_share_reached(uint64_t flag, uint32_t sequence) {
  return (int32_t)((uint32_t)(flag >> 32) - sequence) >= 0;
}

/* The layout of a message on the board that its receiver does not take; 0 of any other one. */
static inline uint64_t ring_share_receiver(int rank) {
  return (uint64_t)rank + 1;
}

/* Says what this rank is about to call, in shared memory or not, so that whoever waits for it in
 * another call can say so; or that a call over links is over. */
void ring_share_announce(const ring_share *share, const ring_call *call);
void ring_share_retire(const ring_share *share);

/* Says for whom this rank waits, in a call over links; -1: for nobody of this host. */
void ring_share_show(const ring_share *share, int index);

/* Begins a call, once all ranks have finished the one `depth` calls before: RING_SLOTS, so that this
 * rank's slot is free, or RING_ROOMS, and its room is, too. */
ring_status ring_share_begin(ring_share *share, const ring_call *call, uint32_t depth,
                             const ring_wait *wait, ring_error *error, ring_share_call *begun);

/* Wakes those of the ranks that sleep which wait for this one. */
void ring_share_wake(const ring_share *share, uint64_t sleeping);

/* Stores the flag of a call where others look for it. */
static inline void ring_share_store(const ring_share_call *call, _Atomic uint64_t *where) {
  const ring_share *share = call->share;
  atomic_store_explicit(where, call->flag, memory_order_release);
  if (share->fenced)
    atomic_thread_fence(memory_order_seq_cst);
  else
    atomic_signal_fence(memory_order_seq_cst);
  uint64_t sleeping = atomic_load_explicit(&share->board->sleeping, memory_order_relaxed);
  if (sleeping != 0) ring_share_wake(share, sleeping);
}

/* Publishes this rank's slot of the call; or that it needs nothing more of it. */
static inline void ring_share_publish(const ring_share_call *call) {
  ring_share_store(call, &ring_share_slot(call, call->share->index)->flag);
}

static inline void ring_share_finish(const ring_share_call *call) {
  ring_share_store(call, &ring_share_seat(call->share, call->share->index)->done);
}

/* Waits for another rank's slot of the call; or until it needs nothing more of the call. */
ring_status ring_share_await_slowly(const ring_share_call *call, int index);
ring_status ring_share_await_finish(const ring_share_call *call, int index);

static inline ring_status ring_share_await(const ring_share_call *call, int index) {
  const ring_slot *slot = ring_share_slot(call, index);
  for (int tries = 0; tries < RING_SHARE_TRIES; tries++) {
    if (atomic_load_explicit(&slot->flag, memory_order_acquire) == call->flag) {
      call->share->seen[index] = call->share->sequence - 1;
      return RING_OK;
    }
    ring_platform_pause();
  }
  return ring_share_await_slowly(call, index);
}

/* Writes down why this rank fails, unless another one did before, and wakes all. Then waits, half a
 * second at most, until no other rank reads or writes this one's buffers; who does it still, and was
 * stopped, loses them. */
void ring_share_fail(ring_share *share, const ring_error *error);

/* Whether a rank has failed; then why. RING_ABORTED when that was because this rank did not come: it
 * only begins a call, or has been at work in it (`wait` is NULL), or it was stopped in its wait. */
bool ring_share_failed(const ring_share *share, const ring_wait *wait, ring_error *error);

/* The share's index of a rank of the communicator, or -1. */
int ring_share_index(const ring_share *share, int rank);

/* Forming a share takes three steps (share_open.c). Before the ranks have met, the first rank of a
 * host creates the memory and opens a porch on a local socket for the others. Once they have met, the
 * others fetch it; each then tells all whether it has it. If all ranks of a host do, they share,
 * else none of them does: being on one host is proved, not believed. */
void ring_share_invite(ring_share *share, ring_peers *peers);

/* Whether this rank has its host's memory now. */
bool ring_share_fetch(ring_share *share, ring_peers *peers, ring_wait *wait);

/* `has` says it of all ranks. */
ring_status ring_share_settle(ring_share *share, ring_peers *peers, const uint8_t *has,
                              const ring_wait *wait, ring_error *error);

/* Leaves: the others then see an empty seat. */
void ring_share_fini(ring_share *share);

/* ---- Between its files -------------------------------------------------------------------- */

/* What a rank announced last; false if that is just changing. */
bool ring_share_heard(const ring_share *share, int index, ring_call *call);

/* The last call that a rank had in the slot of call `sequence`. */
ring_call ring_share_said(const ring_share *share, int index, uint32_t sequence);

/* How a rank describes the array of a call of this layout, or "" where it does not. */
void ring_share_description(const ring_share *share, int index, uint64_t layout,
                            char text[RING_DESCRIPTION_BYTES]);

/* Why there may be nothing to wait for; for a rank that has slept while it waited for `index`. */
ring_status ring_share_check(const ring_share_call *call, int index, ring_wait *wait);

/* The failure of a call of which rank `index`, whose word is `flag`, needs nothing more although it has
 * not finished it. */
ring_status ring_share_left(const ring_share_call *call, int index, uint64_t flag);

/* The failure of a call in which a rank says that its buffers lie where they cannot. */
ring_status ring_share_misleads(const ring_share_call *call, int index);

/* The failure of a call whose flag is another one on rank `index`. */
ring_status ring_share_differs(const ring_share_call *call, int index);

#endif
