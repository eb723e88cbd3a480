/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena: memory that all ranks of a host have mapped, each at an address of its own. Its front
 * holds the data by which the ranks coordinate (shm/control_block.h). Behind it every rank has a region,
 * from which ring_alloc takes buffers that the other ranks can read and write without copies.
 *
 * The memory is a descriptor without a name, so nothing is left behind. Pages are taken only where
 * the memory is used. They must be reserved before they are written: a write without a page kills
 * the process (under vm.overcommit_memory=2 for example). The communicator and every buffer own the
 * arena together, so buffers stay valid after the communicator is closed. Freed memory is kept up
 * to a limit, so that a training loop uses the same pages again; beyond the limit pages go back to
 * the system.
 *
 * Any thread may allocate and free. A forked child shares the pages with its parent but not the
 * list of free memory: it allocates ordinary memory, and buffers of the arena that it frees stay
 * allocated. It does not hold its parent's place.
 */
#ifndef RING_TRANSPORT_ARENA_H
#define RING_TRANSPORT_ARENA_H

#include <stdbool.h>

#include "sparkring.h"

typedef struct ring_arena ring_arena;

/* Creates memory of `front` bytes and `ranks` regions as large as the address space allows. NULL
 * when the system has no such memory. The caller owns it. */
ring_arena *ring_arena_create(size_t front, int ranks);

/* Maps the memory of another rank from its descriptor, which the arena then owns. NULL when the
 * descriptor is no such memory, or could be truncated: the other rank may be hostile. */
ring_arena *ring_arena_map(int fd, size_t front, int ranks, size_t region);

/* Takes the place of this rank, and with it its region, until the arena is released or the process
 * ends. False when the system has no such locks. */
bool ring_arena_take(ring_arena *arena, int index);

/* Whether another rank holds its place: it is alive. */
bool ring_arena_taken(const ring_arena *arena, int index);

int ring_arena_descriptor(const ring_arena *arena);
size_t ring_arena_region(const ring_arena *arena);
void *ring_arena_front(const ring_arena *arena);

/* The offset of a buffer in the arena; false if the buffer is not inside. */
bool ring_arena_offset(const ring_arena *arena, const void *buffer, size_t bytes, uint64_t *offset);

/* The address at an offset; NULL unless all `bytes` are inside the arena. */
void *ring_arena_at(const ring_arena *arena, uint64_t offset, size_t bytes);

/* Takes the pages of all or part of the front of an arena, before they are written. False when the
 * system has none. Buffers, and memory outside arenas, need not be reserved. */
bool ring_arena_reserve(const void *memory, size_t bytes);

/* Makes a part of this rank's own region private: the contents stay, and later writes of other
 * ranks no longer reach this rank. Cannot be undone, so nothing of it may be shared again. No
 * effect on memory elsewhere, or when the system cannot do it. */
void ring_arena_withdraw(ring_arena *arena, void *memory, size_t bytes);

/* Allocates from the arena, or from ordinary memory when `arena` is NULL or full, or the system has
 * no pages for it. NULL without memory. Aligned to 64 bytes, not zeroed. */
void *ring_arena_alloc(ring_arena *arena, size_t bytes);

/* Ends the ownership of the communicator. */
void ring_arena_release(ring_arena *arena);

#endif
