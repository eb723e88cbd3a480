/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a communicator: opening, closing, aborting, freeing. The public functions are in sparkring.h. split.c
 * opens children by ring_comm_alloc and ring_comm_gather_up. The layers above name ranks and accuse them.
 */
#ifndef RING_API_COMM_LIFECYCLE_H
#define RING_API_COMM_LIFECYCLE_H

#include "api/comm_state.h"

/* A communicator whose peers have no places yet. NULL without memory. */
ring_comm *ring_comm_alloc(int rank, int size, double call_timeout);

/* Frees a communicator that has not opened. NULL is allowed. */
void ring_comm_discard(ring_comm *comm);

/* The child of a communicator gets its options and hooks. */
void ring_comm_inherit(ring_comm *child, const ring_comm *parent);

/* Ends every opening, once the places of all peers are known. A first barrier proves that the ranks
 * reach each other; then the ranks of each host join its shared memory. Every other setup that all
 * ranks do before their first call belongs here. A failure breaks the communicator and is sent to the
 * other ranks. */
ring_status ring_comm_gather_up(ring_comm *comm, ring_wait *wait, ring_error *error);

/* Ends the communicator on all ranks, as ring_comm_abort does, and keeps what ring_comm_shrink needs. */
void ring_comm_revoke(ring_comm *comm, const char *reason);

/* The host of a rank as errors name it: with its number in the world, where split() gave it another. */
const char *ring_comm_name(const ring_comm *comm, int rank);

/* Ends the communicator on all ranks with an error that accuses a rank: bytes of it that were received as the data
 * of a call cannot be right. `what` completes "rank 1 (host) sent ...". `rank` -1: any other rank may have sent them.
 * Call it between two calls. Returns the status of the error that the communicator has then, RING_MISMATCH. */
ring_status ring_comm_accuse(ring_comm *comm, int rank, const char *what);

#endif
