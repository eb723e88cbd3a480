/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of reductions: every op on every dtype, element by element, vectorised by the
 * compiler. It uses no ranks and no buffers of its own.
 *
 * Integers wrap (two's complement). MIN and MAX give NaN where either side is NaN, and take -0 for
 * less than +0 (IEEE 754-2019 minimum and maximum), so neither depends on the order of the ranks.
 * Complex products are the textbook's, without special cases for infinities.
 * The halves are computed in float32. Partial results may stay in float32 ("wide") until the last
 * step rounds them once, to nearest, ties to even.
 */
#ifndef RING_ENGINE_REDUCE_H
#define RING_ENGINE_REDUCE_H

#include <stdbool.h>

#include "sparkring.h"

typedef struct ring_reduction {
  ring_dtype dtype;
  ring_op op;            /* ring_op_allowed() allows it; AVG accumulates as SUM */
  int divisor;           /* of the last step of AVG: the sum is divided by it; else 0 */
  bool local_wide;       /* halves only: local holds accumulators (float32) */
  bool received_wide;    /* halves only: received holds accumulators */
  bool destination_wide; /* halves only: destination gets accumulators */
} ring_reduction;

/* destination[i] = local[i] op received[i] for i < count. Buffers are aligned for their elements.
 * Any two buffers are the same or do not overlap; a wide buffer is never the same as a narrow
 * one. */
void ring_reduction_apply(const ring_reduction *reduction, void *destination, const void *local,
                          const void *received, size_t count);

/* destination[i] = sources[0][i] op sources[1][i] op ... of `number` >= 2 sources, from left to
 * right, divided by `divisor` unless that is 0. Of the reduction only dtype and op are used. The
 * destination may be one of the sources. */
void ring_reduction_fold(const ring_reduction *reduction, int divisor, const void *const *sources,
                         int number, void *destination, size_t count);

/* Converts halves of a dtype to float32, and back. */
void ring_reduction_widen(ring_dtype dtype, float *to, const void *from, size_t count);
void ring_reduction_narrow(ring_dtype dtype, void *to, const float *from, size_t count);

/* Finishes elements that were reduced elsewhere, as MPI does: to[i] = from[i] divided by `divisor`, unless that is 0.
 * `from` are accumulators, float32 for halves, else elements; `to` may be `from` if both are elements. */
void ring_reduction_finish(ring_dtype dtype, int divisor, void *to, const void *from, size_t count);

#endif
