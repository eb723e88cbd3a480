/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives that only copy: straight from an input to an output where one of the two ranks
 * reaches both, else through bounce buffers.
 *
 * Both functions return RING_UNSUPPORTED, on all ranks, where a bounce buffer is needed and
 * missing.
 */
#ifndef RING_SHM_COLLECTIVES_ZERO_COPY_H
#define RING_SHM_COLLECTIVES_ZERO_COPY_H

#include "shm_collectives/window.h"

/* The root has bytes for each of the other ranks (broadcast, scatter), or, `to_root`, gets bytes
 * from each of them (gather). */
ring_status ring_zero_copy_rooted(ring_window *window, bool to_root);

/* Every rank has bytes for every other rank (allgather, alltoall). */
ring_status ring_zero_copy_all(ring_window *window);

#endif
