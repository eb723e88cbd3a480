/* SPDX-License-Identifier: Apache-2.0
 *
 * Large reductions. A reduction is cut into chunks. The rank that has a chunk reads it from all
 * inputs and writes it to all outputs, if all of them lie in the arena; else the reduction goes
 * through bounce buffers. Results that exceed the caches bypass them (non-temporal stores), unless
 * they replace the input that was just read.
 */
#ifndef RING_SHM_COLLECTIVES_LARGE_REDUCE_H
#define RING_SHM_COLLECTIVES_LARGE_REDUCE_H

#include "shm_collectives/window.h"

/* Allreduce, reduce and reduce_scatter(v); `bytes` of all counts of the call. RING_UNSUPPORTED, on all ranks,
 * where a bounce buffer is needed and missing. */
ring_status ring_large_reduce(ring_window *window, size_t bytes);

#endif
