/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of groups: many buffers, each for a collective of its own, in one call. fusion.h runs them.
 */
#ifndef RING_API_GROUP_H
#define RING_API_GROUP_H

#include "api/collective.h"

/* Copies and checks the items, and fills *args. The signature has the sum of the counts, a digest of them,
 * and the dtype of all items or RING_CALL_MIXED. RING_INVALID and RING_NO_MEMORY set the communicator's
 * error. */
ring_status ring_group_fill(ring_comm *comm, collective_args *args, ring_group_kind kind,
                            const ring_group_item *items, size_t item_count, ring_op op, int root);

/* The same for ring_allreduce_group. */
ring_status ring_group_fill_buffers(ring_comm *comm, collective_args *args,
                                    const ring_buffer *buffers, size_t buffer_count,
                                    ring_dtype dtype, ring_op op);

#endif
