/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums in twice the precision: a sum has a second number with what was rounded off (T. Ogita, S. Rump and S. Oishi,
 * 2005, Accurate Sum and Dot Product, SIAM Journal on Scientific Computing 26, algorithm Sum2).
 */
#ifndef SPARKRING_NUMERICS_EXACT_H
#define SPARKRING_NUMERICS_EXACT_H

/* Adds `x` to the sum, and the rounding error to the rest. The caller has the variables `added` and `turn`, of the type
 * of the numbers, which may be `lanes`. */
#define EXACT_ADD(sum, rest, x)                                                                    \
  do {                                                                                             \
    added = (sum) + (x);                                                                           \
    turn = added - (sum);                                                                          \
    (rest) += ((sum) - (added - turn)) + ((x) - turn);                                             \
    (sum) = added;                                                                                 \
  } while (0)

#endif
