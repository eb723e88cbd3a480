/* SPDX-License-Identifier: Apache-2.0
 *
 * The world: the tree of the communicators that split() makes of one in this process. Each communicator has a
 * place in it. The root keeps the first rank at fault that one of them has learned of. So a rank that aborts another
 * of them because of that names the rank at fault, not itself. A place outlives its communicator while there are
 * places below it.
 */
#ifndef RING_API_WORLD_H
#define RING_API_WORLD_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/wait.h"

typedef struct ring_world {
  atomic_size_t references; /* its communicator, and the places below it */
  struct ring_world *above; /* NULL: the root */
  ring_stop shrunk;         /* its communicator was shrunk; those below it end */
  atomic_flag noting;
  _Atomic(const ring_error *) noted; /* of the root; NULL: all is well as far as known */
  ring_error loss; /* written once, before `noted`; its rank is that in the world */
} ring_world;

/* A place below that of the communicator that was split; NULL: the root of a new world. NULL without memory. */
ring_world *ring_world_make(ring_world *above);
void ring_world_drop(ring_world *world); /* NULL is allowed */

/* Keeps the first PEER_LOST or TIMEOUT that names a rank. Any thread. */
void ring_world_note(ring_world *world, const ring_error *error, int world_rank);

/* NULL: none was noted. Any thread. */
const ring_error *ring_world_loss(const ring_world *world);

#endif
