/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena: memory that all ranks of a host have mapped, each at an address of its own. It begins
 * with room for what they coordinate by (shm/control_block.h); behind it every rank has a region, from which
 * ring_alloc hands out buffers that the others can read and write without copies.
 *
 * The memory is a descriptor without a name, so nothing is left behind, and takes space only where
 * it is used: whoever is about to write somewhere first reserves it, as touching what the system has
 * no page for kills the process (a limit on commitments: vm.overcommit_memory=2). The communicator and every buffer own the arena together: buffers stay valid after
 * the communicator is gone. What is free is kept for the next allocation up to a limit, so that a
 * training loop touches the same pages again; beyond it pages go back to the system.
 *
 * Allocating and freeing may happen on any thread. A forked child shares the pages with its parent
 * but not the knowledge of what is free: it allocates ordinary memory, and what it frees stays. Nor
 * does it keep its parent's place taken.
 */
#ifndef RING_TRANSPORT_ARENA_H
#define RING_TRANSPORT_ARENA_H

#include <stdbool.h>

#include "sparkring.h"

typedef struct ring_arena ring_arena;

/* Creates memory of `front` bytes and `ranks` regions as large as the address space allows; NULL
 * where the system has no such memory. The caller owns it. */
ring_arena *ring_arena_create(size_t front, int ranks);

/* Maps what another rank created, from the descriptor that it passed, which the arena then owns. NULL
 * for what is no such memory, or could be cut short: that rank may be mistaken, or hostile. */
ring_arena *ring_arena_map(int fd, size_t front, int ranks, size_t region);

/* Takes the place of this rank, and with it the region that it allocates from, until it lets go of
 * the arena or its process ends; false where the system cannot tell others of that. */
bool ring_arena_take(ring_arena *arena, int index);

/* Whether another rank has taken its place, and lives. */
bool ring_arena_taken(const ring_arena *arena, int index);

int ring_arena_descriptor(const ring_arena *arena);
size_t ring_arena_region(const ring_arena *arena);
void *ring_arena_front(const ring_arena *arena);

/* The distance of a buffer from the start of the arena; false if it does not lie within it. */
bool ring_arena_offset(const ring_arena *arena, const void *buffer, size_t bytes, uint64_t *offset);

/* What lies at that distance; NULL unless `bytes` from there on lie within the arena. */
void *ring_arena_at(const ring_arena *arena, uint64_t offset, size_t bytes);

/* Takes the pages of memory that is about to be used: all or part of the front of an arena. False
 * when the system has none. What lies in no arena, and all buffers, need not be reserved. */
bool ring_arena_reserve(const void *memory, size_t bytes);

/* Takes the pages of a part of this rank's own region from the others: what they write there no longer
 * reaches this rank, which keeps what is there now. For good, so only where nothing will be shared any
 * more. Nothing happens to what lies elsewhere, or where the system cannot do that. */
void ring_arena_withdraw(ring_arena *arena, void *memory, size_t bytes);

/* `bytes` of the arena, or of ordinary memory where `arena` is NULL or full, or the system has no
 * pages for more of it; NULL when out of memory. Aligned to 64 bytes, not zeroed. */
void *ring_arena_alloc(ring_arena *arena, size_t bytes);

/* The owner lets go. */
void ring_arena_release(ring_arena *arena);

#endif
