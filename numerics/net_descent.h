/* SPDX-License-Identifier: Apache-2.0
 *
 * The minimum of a quadratic function with the penalty of the elastic net: coordinate descent (J. Friedman, T. Hastie
 * and R. Tibshirani, 2010, Journal of Statistical Software 33), until the signs stay, and then the solution of linear
 * equations.
 */
#ifndef SPARKRING_NUMERICS_NET_DESCENT_H
#define SPARKRING_NUMERICS_NET_DESCENT_H

#include <stddef.h>

/* The numbers of the memory that num_net_minimize() uses. */
size_t num_net_minimize_scratch(size_t width);

/* Moves `b` to the minimum of the quadratic function with the curvature `gram`, and the negative gradient `gradient` at
 * `b`, plus the penalties `first * abs(b)` and `second / 2 * b^2`. A small multiple of the distance from `b` makes the
 * minimum unique, and does not move the fixed point of Newton's iterations. `gram` is changed. */
void num_net_minimize(size_t width, double *gram, const double *gradient, const double *first,
                      const double *second, double *b, double *scratch);

#endif
