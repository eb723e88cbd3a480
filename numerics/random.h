/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers without a state: a number depends on its four keys alone, so a row has the same number in whatever
 * blocks and order rows are read. A key is mixed by the output function of SplitMix64 (G. Steele, D. Lea and C. Flood,
 * 2014, Fast Splittable Pseudorandom Number Generators, OOPSLA).
 */
#ifndef SPARKRING_NUMERICS_RANDOM_H
#define SPARKRING_NUMERICS_RANDOM_H

#include <stdint.h>

typedef struct {
  uint64_t seed, stream, round;
} num_random;

/* Number `index` of a stream, uniform in [0, 1). */
double num_random_uniform(const num_random *random, uint64_t index);

#endif
