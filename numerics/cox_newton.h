/* SPDX-License-Identifier: Apache-2.0
 *
 * Newton's iterations to the largest partial likelihood: `sums` are those of num_cox_end(), added over all ranks.
 */
#ifndef SPARKRING_NUMERICS_COX_NEWTON_H
#define SPARKRING_NUMERICS_COX_NEWTON_H

#include <stddef.h>
#include <stdint.h>

/* The step, and the variance, the inverse of the information: both are 0 for columns that are not kept. Clears `kept`
 * for columns that depend on columns before them, by `tolerance` (see num_positive_kept()), and `first`, before the
 * first step, for those without information. Returns the score statistic. `scratch` is that of positive.h. */
double num_cox_step(const double *sums, size_t width, int first, double tolerance, int32_t *kept,
                    double *step, double *variance, double *scratch);

/* How much the log likelihood has changed, as a part of what it is. */
double num_cox_change(double before, double now);

#endif
