/* SPDX-License-Identifier: Apache-2.0
 *
 * A generation: the ranks of a communicator, as numbers in the roster. That of the communicator that was
 * opened first has number 0 and all ranks; each shrink forms the next one.
 *
 *   message   kind u8, number u32, epoch u64, members: a bit for each rank of the roster; then HMAC(HMAC(job's
 *             key, "sparkring shrink 1", roster's epoch u64, sender u32, receiver u32), all before)
 */
#ifndef RING_SHRINK_GENERATION_H
#define RING_SHRINK_GENERATION_H

#include "peers/peers.h"

typedef enum ring_generation_kind {
  RING_GENERATION_STATE = 1, /* the sender is in it */
  RING_GENERATION_FORM = 2   /* all its members open its communicator */
} ring_generation_kind;

typedef struct ring_generation {
  uint32_t number;
  uint64_t epoch;
  uint8_t *members;
} ring_generation;

/* Outlives communicators: it belongs to the newest one of a process. */
typedef struct ring_roster {
  ring_peers peers; /* places and keys of all ranks; links during a shrink only */
  ring_generation generation;
} ring_roster;

/* Of the communicator that `of` describes, whose keys it takes. NULL without memory. */
ring_roster *ring_roster_make(ring_peers *of);
void ring_roster_free(ring_roster *roster); /* NULL is allowed */

bool ring_generation_has(const ring_generation *generation, int rank);
void ring_generation_add(ring_generation *generation, int rank);

/* How many ranks of the generation are lower than `rank`. */
int ring_generation_below(const ring_generation *generation, int rank);

/* The bytes of the members, and of a message. */
size_t ring_generation_bytes(const ring_peers *peers);
size_t ring_generation_message_bytes(const ring_peers *peers);

/* Packs a message from this rank to another. False without memory. */
bool ring_generation_pack(const ring_roster *roster, ring_generation_kind kind, int to,
                          uint8_t *message);

/* Unpacks a message of a rank to this rank. The members stay in the message. RING_AUTH, RING_NO_MEMORY. */
ring_status ring_generation_unpack(const ring_roster *roster, int from, uint8_t *message,
                                   ring_generation_kind *kind, ring_generation *generation);

/* The roster becomes part of a generation. */
void ring_generation_adopt(ring_roster *roster, const ring_generation *generation);

#endif
