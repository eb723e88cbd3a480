/* SPDX-License-Identifier: Apache-2.0
 *
 * The offset between the clock of this rank and that of rank 0. Processes of one host read one clock, so
 * their offset is 0. For each other host its lowest rank measures the offset by Cristian's algorithm: of
 * several round trips with rank 0 the shortest one counts, and rank 0's reading belongs to its middle. The
 * offset is then wrong by half of that round trip at most.
 */
#ifndef RING_BINDINGS_CLOCK_OFFSET_H
#define RING_BINDINGS_CLOCK_OFFSET_H

#include "sparkring.h"

typedef struct ring_clock_offset {
  int64_t nanoseconds; /* that this host's clock is behind rank 0's */
  int64_t error;       /* the most that `nanoseconds` is wrong by */
  int64_t origin;      /* rank 0's clock during the call; the same on every rank */
} ring_clock_offset;

/* Measures the offset. Collective. */
ring_status ring_clock_offset_measure(ring_comm *comm, ring_clock_offset *offset);

#endif
