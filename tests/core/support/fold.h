/* SPDX-License-Identifier: Apache-2.0
 *
 * A fold in rank order of values for which the order matters: the bits that a reduction must give.
 */
#ifndef RING_FOLD_H
#define RING_FOLD_H

#include "sparkring.h"

/* Pseudorandom bits, of element i of a rank. */
uint32_t fold_bits(int rank, size_t i);

/* Values of all magnitudes from 2^-6 to 2^5, with all bits, and no zeros. */
double fold_real(int rank, size_t i);

/* Element i of a rank's input. */
void fold_put(ring_dtype dtype, void *to, int rank, size_t i);

/* One step on integers or bool: *to becomes a op b, divided by `divisor` unless that is 0. */
void fold_pair(ring_dtype dtype, ring_op op, int divisor, const void *a, const void *b, void *to);

/* Element i of the reduction of all inputs, in rank order. */
void fold_ranks(ring_dtype dtype, ring_op op, int size, void *to, size_t i);

#endif
