/* SPDX-License-Identifier: Apache-2.0
 *
 * The identity of an op: the value that an op combines with any other to that other value.
 */
#ifndef RING_BASE_IDENTITY_H
#define RING_BASE_IDENTITY_H

#include "sparkring.h"

/* Fills `to` with `count` identities. MIN and MAX of floats have an infinity; an AVG is a SUM. The op
 * works on the dtype (ring_op_allowed). */
void ring_identity_fill(ring_dtype dtype, ring_op op, void *to, size_t count);

#endif
