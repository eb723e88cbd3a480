/* SPDX-License-Identifier: Apache-2.0
 *
 * The path of penalties of an elastic net. At each penalty, Newton's method replaces the loss by a quadratic function,
 * whose gradient and curvature are sums over the ranks. Both are summed for columns that may be in the model only: the
 * active columns, and those that the strong rules (R. Tibshirani and others, 2012, Journal of the Royal Statistical
 * Society B 74) do not exclude. A penalty is done when all columns satisfy the conditions of Karush, Kuhn and Tucker.
 *
 * The objective is half of the deviance plus `lambda * penalty * ((1 - alpha) / 2 * b^2 / spread + alpha * abs(b))`.
 * All ranks compute the same path from the same sums.
 */
#ifndef SPARKRING_NUMERICS_NET_PATH_H
#define SPARKRING_NUMERICS_NET_PATH_H

#include "net_pass.h"

/* `penalty` has a factor for each coefficient: an infinite one leaves the coefficient out. `least` is that of all ranks
 * (num_net_least). A penalty is done when no condition is violated by more than `tolerance` times the largest gradient,
 * or after `steps` of Newton's method.
 *
 * The path has `count` penalties. They are `lambda` if `ratio` is 0, which may be the memory of the path. Else they decrease from the smallest one with which
 * all coefficients are 0, to `ratio` times that; and if `ends`, the path ends when nearly all deviance is explained, or
 * a step explains little more. */
typedef struct {
  const num_net_model *model;
  const double *penalty, *lambda;
  double alpha, spread, least, tolerance, ratio;
  size_t steps, count;
  bool ends;
} num_net_problem;

/* The caller's part of a path. `look` makes a pass of all ranks, and returns the sums, in memory that the path
 * writes to until the next pass. `share` gives all ranks the numbers of one rank. Either may fail: NULL, and false. */
typedef struct {
  double *(*look)(void *context, const num_net_point *point);
  bool (*share)(void *context, double *numbers, size_t count);
  void *context;
} num_net_ranks;

/* The path: for each penalty the coefficients, the deviance, the largest violation of a condition as a part of the
 * largest gradient, and the number of Newton's steps. `null` is the deviance of the intercepts alone. */
typedef struct {
  double *lambda, *coefficients, *deviance, *violation, *steps, null;
  size_t count;
} num_net_path;

/* The numbers of the memory that num_net_follow() uses. */
size_t num_net_follow_scratch(const num_net_model *model);

/* Follows the path. Returns whether no function of the caller has failed. */
bool num_net_follow(const num_net_problem *problem, const num_net_ranks *ranks, num_net_path *path,
                    double *scratch);

/* The pass at a point for the squared loss, from the sums of all coefficients at 0, whose deviance includes the least
 * one. */
void num_net_squares(const num_net_model *model, const double *sums, const num_net_point *point,
                     double *found);

/* The coefficients of columns as they are, from one penalty of a path, to `slopes`, class by class; and the intercepts
 * of the classes, with the response `mean` more, to `levels`. */
void num_net_unscale(const num_net_model *model, const double *coefficients, double mean,
                     double *slopes, double *levels);

#endif
