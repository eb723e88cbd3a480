/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantiles of sorted numbers, by the types 1 to 9 (R. Hyndman and Y. Fan, 1996, Sample quantiles in statistical
 * packages, The American Statistician 50), with the tolerance for rounded places of R's quantile().
 */
#ifndef SPARKRING_NUMERICS_QUANTILE_H
#define SPARKRING_NUMERICS_QUANTILE_H

/* A quantile lies between two order statistics, which count from 1. `share` is that of the upper one. */
typedef struct {
  double below, above, share;
} num_quantile;

/* The place of the quantile of `prob` of `count` numbers, 1 or more. */
num_quantile num_quantile_place(double count, double prob, int type);

/* The quantile, from the order statistics of its place. */
double num_quantile_between(double below, double above, double share);

#endif
