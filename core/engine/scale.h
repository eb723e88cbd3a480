/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies elements by a factor: integers in float64, halves in float32, all else in its own
 * precision.
 */
#ifndef RING_ENGINE_SCALE_H
#define RING_ENGINE_SCALE_H

#include "sparkring.h"

/* to[i] = factor * from[i] for i < count; `to` may be `from`. Integers truncate towards zero, and end at
 * the limits of their dtype; NaN becomes 0. Complex numbers are scaled part by part; bool is copied. */
void ring_scale(ring_dtype dtype, void *to, const void *from, size_t count, double factor);

#endif
