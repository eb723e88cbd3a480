/* SPDX-License-Identifier: Apache-2.0 */
#include "quantile.h"

#include <float.h>
#include <math.h>

#define QUANTILE_FUZZ (4 * DBL_EPSILON)

static double quantile_share(double index, double below) {
  return fabs(index - below) < QUANTILE_FUZZ ? 0 : index - below;
}

/* Types 1 to 3, whose quantiles are order statistics or means of two. */
static num_quantile quantile_step(double count, double prob, int type) {
  double index = type == 3 ? count * prob - 0.5 : count * prob;
  double below = floor(index + QUANTILE_FUZZ), share = index > below;
  if (type == 2) share = (share + 1) / 2;
  if (type == 3) share = index != below || fmod(below, 2) != 0;
  return (num_quantile){below, below + 1, share};
}

static num_quantile quantile_line(double count, double prob, int type) {
  static const double before[] = {0, 0.5, 0, 1, 1.0 / 3, 3.0 / 8};
  static const double after[] = {1, 0.5, 0, 1, 1.0 / 3, 3.0 / 8};
  double a = before[type - 4], b = after[type - 4];
  double index = a + prob * (count + 1 - a - b), below = floor(index + QUANTILE_FUZZ);
  return (num_quantile){below, below + 1, quantile_share(index, below)};
}

/* Type 7 computes its place in another order than its formula, as R does. */
static num_quantile quantile_mode(double count, double prob) {
  double index = 1 + (count - 1) * prob, below = floor(index + QUANTILE_FUZZ);
  return (num_quantile){below, ceil(index - QUANTILE_FUZZ), quantile_share(index, below)};
}

num_quantile num_quantile_place(double count, double prob, int type) {
  num_quantile found = type == 7  ? quantile_mode(count, prob)
                       : type < 4 ? quantile_step(count, prob, type)
                                  : quantile_line(count, prob, type);
  found.below = fmin(fmax(found.below, 1), count);
  found.above = fmin(fmax(found.above, 1), count);
  return found;
}

double num_quantile_between(double below, double above, double share) {
  if (share == 0 || below == above) return below;
  return share == 1 ? above : (1 - share) * below + share * above;
}
