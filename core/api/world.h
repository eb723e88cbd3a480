/* SPDX-License-Identifier: Apache-2.0
 *
 * The world: what a communicator shares with all communicators that split() makes of it in this process.
 * It keeps the first rank at fault that one of them has learned of. So a rank that aborts another of them
 * because of that names the rank at fault, not itself.
 */
#ifndef RING_API_WORLD_H
#define RING_API_WORLD_H

#include <stdatomic.h>

#include "base/error.h"

typedef struct ring_world {
  atomic_size_t references;
  atomic_flag noting;
  _Atomic(const ring_error *) noted; /* NULL: all is well as far as known */
  ring_error loss; /* written once, before `noted`; its rank is that in the world */
} ring_world;

/* With one reference; NULL without memory. */
ring_world *ring_world_make(void);

ring_world *ring_world_share(ring_world *world);
void ring_world_drop(ring_world *world);

/* Keeps the first PEER_LOST or TIMEOUT that names a rank. Any thread. */
void ring_world_note(ring_world *world, const ring_error *error, int world_rank);

/* NULL: none was noted. Any thread. */
const ring_error *ring_world_loss(const ring_world *world);

#endif
