/* SPDX-License-Identifier: Apache-2.0
 *
 * Negotiation: one cycle, in which the ranks find out which names all of them have submitted.
 *
 *   1. The AND of one word of flags and one bit a slot. A flag is sent inverted: 0 where any rank has it.
 *   2. With the flag NEW: descriptions of names without a slot, or with another description, of all ranks.
 *      All ranks apply them in rank order, so slots stay the same everywhere.
 *   3. With the flag STATE: which ranks have joined or are closing.
 *   4. With the flag STALL: which rank misses what (stall.h).
 *   5. With the flag TUNE: other settings (autotune.h).
 *
 * A rank enters a cycle when it has submissions, has joined or is closing. The others are blocked until
 * it does, which costs nothing: no name can be complete without this rank.
 */
#ifndef RING_REDUCER_NEGOTIATION_H
#define RING_REDUCER_NEGOTIATION_H

#include <pthread.h>

#include "reducer/announcement.h"
#include "reducer/response_cache.h"

typedef enum ring_member { MEMBER_ACTIVE, MEMBER_JOINED, MEMBER_CLOSING } ring_member;

enum { NEGOTIATION_NEW = 1, NEGOTIATION_STATE = 2, NEGOTIATION_STALL = 4, NEGOTIATION_TUNE = 8 };

/* A name that all ranks have submitted. */
typedef struct ring_ready {
  ring_entry *entry;
  ring_submission *submission; /* NULL on a rank that has joined */
  ring_tensor tensor;
  bool planned; /* taken into a run */
} ring_ready;

typedef struct ring_bytes {
  uint8_t *bytes;
  size_t length, capacity;
} ring_bytes;

typedef struct ring_negotiation {
  ring_comm *comm;
  pthread_mutex_t *mutex; /* of the reducer: guards the cache */
  int rank, size;
  ring_cache cache;
  uint64_t *words, *sent; /* flags and offers: the AND, and what this rank sent */
  size_t word_count, word_capacity;
  ring_bytes outgoing, incoming; /* descriptions */
  size_t *counts;                /* of each rank */
  int64_t *gathered;             /* one number of each rank */
  ring_member *members;
  ring_member mine; /* what this rank is to become */
  int joined, closing;
  int last_joined; /* of the join that ended last */
  uint64_t joins;  /* joins that have ended */
  ring_ready *ready;
  size_t ready_count, ready_capacity;
  uint64_t cycles, negotiations;
  size_t settled; /* submissions that the last cycle completed by itself, with errors */
} ring_negotiation;

ring_status ring_negotiation_init(ring_negotiation *negotiation, ring_comm *comm,
                                  pthread_mutex_t *mutex, size_t capacity);
void ring_negotiation_destroy(ring_negotiation *negotiation);

/* Runs steps 1 to 3 and fills `ready`. `flags`: STALL and TUNE of this rank; becomes the flags of any rank.
 * Collective, and called without the mutex. A failure is that of the communicator. */
ring_status ring_negotiation_run(ring_negotiation *negotiation, uint64_t *flags);

/* Out of memory: aborts the communicator, because the other ranks are in the same cycle. */
ring_status ring_negotiation_no_memory(ring_negotiation *negotiation);

/* Makes room for `need` bytes. False without memory. */
bool ring_bytes_reserve(ring_bytes *buffer, size_t need);

/* Fails an entry's submission on this rank, if it has one. Called with the mutex. */
void ring_negotiation_refuse(ring_negotiation *negotiation, ring_entry *entry,
                             const ring_error *error);

#endif
