/* SPDX-License-Identifier: Apache-2.0
 *
 * Multiplies floating-point elements by a factor; halves are computed in float32.
 */
#ifndef RING_REDUCER_SCALE_H
#define RING_REDUCER_SCALE_H

#include "sparkring.h"

/* to[i] = factor * from[i]; `to` may be `from`. Other dtypes are copied. */
void ring_scale(ring_dtype dtype, void *to, const void *from, size_t count, double factor);

#endif
