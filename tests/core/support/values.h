/* SPDX-License-Identifier: Apache-2.0
 *
 * Values to reduce, of every dtype, and digests of what comes out.
 */
#ifndef RING_VALUES_H
#define RING_VALUES_H

#include "sparkring.h"

/* Element i of a buffer becomes `value`; a float16 that is not 0 has to be a normal number. */
void put(void *buffer, ring_dtype dtype, size_t i, double value);

/* Small numbers, whose sums every dtype holds exactly. */
double exact(int rank, size_t i);

/* Positive numbers far apart, whose sums depend on the order. */
double rough(int rank, size_t i);

/* The next of a fixed sequence (xorshift, Marsaglia 2003): the same values in every run. */
uint64_t random_bits(void);

uint64_t digest_of(const void *buffer, size_t bytes);

#endif
