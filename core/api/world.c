/* SPDX-License-Identifier: Apache-2.0 */
#include "api/world.h"

#include <stdlib.h>

ring_world *ring_world_make(void) {
  ring_world *world = calloc(1, sizeof *world);
  if (world == NULL) return NULL;
  atomic_flag_clear(&world->noting);
  atomic_init(&world->references, 1);
  return world;
}

ring_world *ring_world_share(ring_world *world) {
  atomic_fetch_add(&world->references, 1);
  return world;
}

void ring_world_drop(ring_world *world) {
  if (world != NULL && atomic_fetch_sub(&world->references, 1) == 1) free(world);
}

void ring_world_note(ring_world *world, const ring_error *error, int world_rank) {
  if (error->status != RING_PEER_LOST && error->status != RING_TIMEOUT) return;
  if (world == NULL || atomic_flag_test_and_set(&world->noting)) return;
  world->loss = *error;
  world->loss.rank = world_rank;
  atomic_store(&world->noted, &world->loss);
}

const ring_error *ring_world_loss(const ring_world *world) {
  return world != NULL ? atomic_load(&world->noted) : NULL;
}
