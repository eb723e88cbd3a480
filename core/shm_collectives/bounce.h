/* SPDX-License-Identifier: Apache-2.0
 *
 * Large collectives of buffers that lie outside of the arena. Every rank has a bounce buffer in the
 * arena, small enough for its second-level cache, and the bytes go through the bounce buffers piece
 * by piece. A buffer that lies in the arena is read or written in place.
 *
 * Such a call is a row of steps, each of them a call of the shm group: write to the own bounce
 * buffer, publish, wait for the other ranks, read their bounce buffers. All ranks derive the same
 * number of steps from the signature of the call and the posts.
 *
 * The alternative, copies from process to process by the system (process_vm_readv), is slower,
 * because it works page by page, and is often forbidden.
 */
#ifndef RING_SHM_COLLECTIVES_BOUNCE_H
#define RING_SHM_COLLECTIVES_BOUNCE_H

#include "shm_collectives/window.h"

/* Copies the first piece of the input of an allreduce or reduce to where it is reduced, if the
 * input lies outside of the arena. Before the post. */
void ring_bounce_prepare(const ring_shm_job *job, uint8_t *bounce);

/* Allreduce and reduce; `bytes` of the result. */
ring_status ring_bounce_reduce(ring_window *window, size_t bytes);

ring_status ring_bounce_reduce_scatter(const ring_window *window);

/* All collectives that only copy. */
ring_status ring_bounce_copy(const ring_window *window);

#endif
