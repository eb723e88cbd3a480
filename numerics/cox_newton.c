/* SPDX-License-Identifier: Apache-2.0 */
#include "cox_newton.h"

#include <math.h>

#include "cox.h"
#include "positive.h"

#define COX_NOISE                                                                                  \
  1e-13 /* of the weight of the events; scaled covariates have information of that size at first */

double num_cox_step(const double *sums, size_t width, int first, double tolerance, int32_t *kept,
                    double *step, double *variance, double *scratch) {
  const double *score = sums + NUM_COX_SCORE, *information = score + width;
  double least = first ? COX_NOISE * sums[NUM_COX_EVENTS] : 0;
  num_positive_kept(information, width, least, tolerance, kept, scratch);
  num_positive_invert(information, width, kept, variance, scratch);
  return num_positive_multiply(variance, width, score, step);
}

/* A likelihood of 0, of strata of one row each, has no ratio. */
double num_cox_change(double before, double now) {
  return before == now ? 0 : fabs(1 - before / now);
}
