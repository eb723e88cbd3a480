/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types and operations: what the public enums mean inside the core. Every function takes
 * any value, also one that is no dtype or op (a caller's cast, a byte from the wire).
 */
#ifndef RING_BASE_DTYPE_H
#define RING_BASE_DTYPE_H

#include <stdbool.h>

#include "sparkring.h"

/* The values of each enum go from 0 to its count - 1. */
#define DTYPE_ONE(...) +1
enum { RING_DTYPE_COUNT = 0 RING_DTYPE_MAP(DTYPE_ONE), RING_OP_COUNT = 0 RING_OP_MAP(DTYPE_ONE) };
#undef DTYPE_ONE

/* Signed and unsigned integers; bool is none. */
bool ring_dtype_is_integer(ring_dtype dtype);

/* complex64 and complex128: two floats, or doubles. */
bool ring_dtype_is_complex(ring_dtype dtype);

/* float16 and bfloat16: accumulated in float32. */
bool ring_dtype_is_half(ring_dtype dtype);

/* Bytes of one accumulator: a float32 for the halves, else the element itself; 0 for no dtype. */
size_t ring_dtype_wide_size(ring_dtype dtype);

bool ring_op_valid(ring_op op);

/* LAND, LOR and LXOR: the result is 0 or 1. */
bool ring_op_is_logical(ring_op op);

/* BAND, BOR and BXOR. */
bool ring_op_is_bitwise(ring_op op);

/* Whether op works on dtype: logical and bitwise ops work on integers and bool, SUM and PROD on
 * all, AVG on all but bool, MIN and MAX on all but complex dtypes. False for values that are no op or no dtype. */
bool ring_op_allowed(ring_op op, ring_dtype dtype);

#endif
