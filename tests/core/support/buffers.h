/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers of a rank, in memory that the ranks of a host share (the arena) or outside of it.
 */
#ifndef RING_BUFFERS_H
#define RING_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>

#include "sparkring.h"

/* Zeroed memory. */
void *buffer_alloc(ring_comm *comm, bool arena, size_t bytes);
void buffer_free(void *buffer, bool arena);

#endif
