/* SPDX-License-Identifier: Apache-2.0 */
#include "api/world.h"

#include <stdlib.h>

ring_world *ring_world_make(ring_world *above) {
  ring_world *world = calloc(1, sizeof *world);
  if (world == NULL) return NULL;
  atomic_flag_clear(&world->noting);
  atomic_init(&world->references, 1);
  world->above = above;
  if (above == NULL) return world;
  world->shrunk.above = &above->shrunk;
  atomic_fetch_add(&above->references, 1);
  return world;
}

void ring_world_drop(ring_world *world) {
  while (world != NULL && atomic_fetch_sub(&world->references, 1) == 1) {
    ring_world *above = world->above;
    free(world);
    world = above;
  }
}

void ring_world_note(ring_world *world, const ring_error *error, int world_rank) {
  if (error->status != RING_PEER_LOST && error->status != RING_TIMEOUT) return;
  if (world == NULL) return;
  while (world->above != NULL) world = world->above;
  if (atomic_flag_test_and_set(&world->noting)) return;
  world->loss = *error;
  world->loss.rank = world_rank;
  atomic_store(&world->noted, &world->loss);
}

const ring_error *ring_world_loss(const ring_world *world) {
  while (world != NULL && world->above != NULL) world = world->above;
  return world != NULL ? atomic_load(&world->noted) : NULL;
}
