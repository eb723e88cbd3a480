/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over the rows of a penalized regression: the deviance, its gradient and its curvature at some coefficients.
 * Columns are centered and scaled tile by tile in the cache, so no copy of the rows is made. A tile that is not full
 * waits for the next rows, so blocks of rows give the bits of all rows at once.
 *
 * Coefficients have numbers from 0 on, class by class: the intercept, if any, then the columns.
 */
#ifndef SPARKRING_NUMERICS_NET_PASS_H
#define SPARKRING_NUMERICS_NET_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The models of a path. `family` is the first letter of gaussian, binomial, poisson or multinomial. Only multinomial
 * has more than one class. */
typedef struct {
  char family;
  bool intercept;
  size_t columns, classes;
  const double *center, *scale; /* of the columns */
} num_net_model;

/* The coefficients of a class. */
static inline size_t num_net_width(const num_net_model *model) {
  return model->columns + model->intercept;
}

/* Rows, in any strides. A response has a number for each class. */
typedef struct {
  size_t count;
  const double *x, *y, *weights, *offset; /* `offset` is NULL for 0 */
  size_t row_step, column_step, y_row_step, y_class_step;
} num_net_rows;

/* Coefficients, of which all are 0 but the `active` ones, which increase. `b` are their values. */
typedef struct {
  size_t count;
  const int32_t *active;
  const double *b;
  bool whole; /* the gradient of all coefficients, else of the active ones */
} num_net_point;

/* The sums of a pass: the deviance, up to a term of the response alone; its negative half gradient; and its half
 * curvature, a square matrix of the active coefficients. */
size_t num_net_sums(const num_net_model *model, const num_net_point *point);

/* The numbers of the memory `state` between the blocks of a pass. */
size_t num_net_state(const num_net_model *model, const num_net_point *point);

/* Begins a pass, adds rows, and ends it. */
void num_net_open(const num_net_model *model, const num_net_point *point, double *state,
                  double *sums);
void num_net_add(const num_net_model *model, const num_net_point *point, const num_net_rows *rows,
                 double *state, double *sums);
void num_net_close(const num_net_model *model, const num_net_point *point, double *state,
                   double *sums);

/* Adds the term of the weighted deviance that depends on the response alone to `total`. */
void num_net_least(const num_net_model *model, const num_net_rows *rows, double *total);

#endif
