/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and operations: what the public enums mean inside the core. Every function takes
 * any value, also one that is no dtype or op (a caller's cast, a byte from the wire).
 */
#ifndef RING_BASE_DTYPE_H
#define RING_BASE_DTYPE_H

#include <stdbool.h>

#include "sparkring.h"

/* float16 and bfloat16: accumulated in float32. */
bool ring_dtype_is_half(ring_dtype dtype);

/* Bytes of one accumulator: a float32 for the halves, else the element itself; 0 for no dtype. */
size_t ring_dtype_wide_size(ring_dtype dtype);

bool ring_op_valid(ring_op op);

/* Whether op works on dtype: all do on all, but LAND and LOR on integers only. False for values
 * that are no op or no dtype. */
bool ring_op_allowed(ring_op op, ring_dtype dtype);

#endif
