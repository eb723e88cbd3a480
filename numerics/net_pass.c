/* SPDX-License-Identifier: Apache-2.0 */
#include "net_pass.h"

#include <math.h>
#include <string.h>

#include "gram.h"
#include "lanes.h"

_Static_assert(sizeof(double) >= sizeof(double *) && sizeof(double) >= sizeof(size_t),
               "the state holds pointers and numbers in places of doubles");

/* A pass, whose parts are in its state. Active coefficients of a class are those from `first[label]` up to `first[label
 * + 1]`; `values` point to the columns of the tile, and `own` to those of the active coefficients. `wanted` are the
 * columns that the pass needs. For each class a tile has the response, the linear predictor, the mean (of many classes)
 * and the weighted residual. The weights are 0 after the last row. `curvature` has the weights, too. */
typedef struct {
  const num_net_model *model;
  const num_net_point *point;
  size_t width, *filled, *first, *wanted;
  const double **values, **own;
  double *columns, *weights, *curvature, *offset, *y, *eta, *mean, *residual, *sums;
} pass;

/* ---- State ------------------------------------------------------------------------------------------------------ */

size_t num_net_sums(const num_net_model *model, const num_net_point *point) {
  size_t known = point->whole ? num_net_width(model) * model->classes : point->count;
  return 1 + known + point->count * point->count;
}

size_t num_net_state(const num_net_model *model, const num_net_point *point) {
  size_t width = num_net_width(model), classes = model->classes;
  return 2 + classes + 2 * width + point->count + (width + 3 + 4 * classes) * NUM_TILE;
}

static pass pass_of(const num_net_model *model, const num_net_point *point, double *state,
                    double *sums) {
  size_t width = num_net_width(model), classes = model->classes;
  pass p = {.model = model, .point = point, .width = width, .sums = sums};
  p.filled = (size_t *)(void *)state;
  p.first = p.filled + 1;
  p.wanted = p.first + classes + 1;
  p.values = (const double **)(void *)(state + 2 + classes + width);
  p.own = p.values + width;
  p.columns = state + 2 + classes + 2 * width + point->count;
  p.weights = p.columns + width * NUM_TILE;
  p.curvature = p.weights + NUM_TILE;
  p.offset = p.curvature + NUM_TILE;
  p.y = p.offset + NUM_TILE;
  p.eta = p.y + classes * NUM_TILE;
  p.mean = p.eta + classes * NUM_TILE;
  p.residual = p.mean + classes * NUM_TILE;
  return p;
}

/* Adds the places of the active coefficients. */
static void pass_activate(const pass *p) {
  for (size_t k = 0; k < p->width; k++) p->wanted[k] = p->point->whole;
  for (size_t label = 0; label <= p->model->classes; label++) p->first[label] = 0;
  for (size_t i = 0; i < p->point->count && p->width > 0; i++) {
    size_t place = (size_t)p->point->active[i], column = place % p->width;
    p->own[i] = p->values[column];
    p->wanted[column] = 1;
    p->first[place / p->width + 1] = i + 1;
  }
  for (size_t label = 1; label <= p->model->classes; label++)
    if (p->first[label] < p->first[label - 1]) p->first[label] = p->first[label - 1];
}

void num_net_open(const num_net_model *model, const num_net_point *point, double *state,
                  double *sums) {
  memset(state, 0, num_net_state(model, point) * sizeof *state);
  memset(sums, 0, num_net_sums(model, point) * sizeof *sums);
  pass p = pass_of(model, point, state, sums);
  for (size_t k = 0; k < p.width; k++) p.values[k] = p.columns + k * NUM_TILE;
  pass_activate(&p);
  if (model->intercept)
    for (size_t i = 0; i < NUM_TILE; i++) p.columns[i] = 1;
}

/* ---- A tile ----------------------------------------------------------------------------------------------------- */

/* Copies some rows to the end of the tile. */
static void pass_read(const pass *p, const num_net_rows *rows, size_t from, size_t count) {
  const num_net_model *model = p->model;
  size_t at = *p->filled;
  for (size_t k = 0; k < model->columns; k++) {
    if (!p->wanted[k + model->intercept]) continue;
    double *to = p->columns + (k + model->intercept) * NUM_TILE + at;
    const double *x = rows->x + from * rows->row_step + k * rows->column_step;
    double center = model->center[k], factor = 1 / model->scale[k];
    size_t step = rows->row_step;
    if (step == 1) /* for vector instructions */
      for (size_t i = 0; i < count; i++) to[i] = (x[i] - center) * factor;
    else
      for (size_t i = 0; i < count; i++) to[i] = (x[i * step] - center) * factor;
  }
  for (size_t label = 0; label < model->classes; label++)
    for (size_t i = 0; i < count; i++)
      p->y[label * NUM_TILE + at + i] =
          rows->y[(from + i) * rows->y_row_step + label * rows->y_class_step];
  memcpy(p->weights + at, rows->weights + from, count * sizeof(double));
  if (rows->offset) memcpy(p->offset + at, rows->offset + from, count * sizeof(double));
}

LANES_CLONES static void pass_predict(const pass *p) {
  for (size_t label = 0; label < p->model->classes; label++) {
    double *eta = p->eta + label * NUM_TILE;
    memcpy(eta, p->offset, NUM_TILE * sizeof *eta);
    for (size_t k = p->first[label]; k < p->first[label + 1]; k++) {
      double b = p->point->b[k];
      if (b == 0) continue;
      for (size_t i = 0; i < NUM_TILE; i += LANES)
        LANES_PUT(eta + i, LANES_AT(eta + i) + b * LANES_AT(p->own[k] + i));
    }
  }
}

/* The sum of w log(1 + odds) over the rows of a tile, in [0, 1]. Rows of equal weight share a logarithm: their product
 * is at most 2^64. */
static double pass_logs(const double *odds, const double *weights) {
  double sum = 0, product = 1, weight = 0;
  for (size_t i = 0; i < NUM_TILE; i++) {
    if (weights[i] != weight) {
      sum += weight * log(product);
      weight = weights[i];
      product = 1;
    }
    product *= 1 + odds[i];
  }
  return sum + weight * log(product);
}

/* The rest of a tile of two classes, from exp(-abs(eta)): the residuals and the curvature. Returns the part of the
 * deviance without logarithms. */
LANES_CLONES static double pass_shares(const pass *p, const double *odds) {
  double linear[NUM_TILE];
  for (size_t i = 0; i < NUM_TILE; i++) {
    double share = 1 / (1 + odds[i]), eta = p->eta[i];
    double mean = eta > 0 ? share : odds[i] * share;
    p->residual[i] = p->weights[i] * (p->y[i] - mean);
    p->curvature[i] = p->weights[i] * (odds[i] * share * share);
    linear[i] = (eta > 0 ? eta : 0) - p->y[i] * eta;
  }
  double sum = 0;
  num_gram_dots(&sum, p->weights, (const double *[]){linear}, 1);
  return sum;
}

static double pass_two(const pass *p) {
  double odds[NUM_TILE];
  for (size_t i = 0; i < NUM_TILE; i++) odds[i] = exp(-fabs(p->eta[i]));
  return 2 * (pass_shares(p, odds) + pass_logs(odds, p->weights));
}

/* One row of a family of numbers: the residual and the curvature. Returns the deviance. */
static double pass_number(const pass *p, size_t i) {
  double y = p->y[i], eta = p->eta[i], weight = p->weights[i];
  bool poisson = p->model->family == 'p';
  double mean = poisson ? exp(eta) : eta;
  p->residual[i] = weight * (y - mean);
  p->curvature[i] = poisson ? weight * mean : weight;
  return poisson ? 2 * (mean - y * eta) : (y - eta) * (y - eta);
}

/* One row of many classes, of which pass_curve() makes the curvature. */
static double pass_many(const pass *p, size_t i) {
  double *eta = p->eta + i, *mean = p->mean + i, *residual = p->residual + i;
  size_t end = p->model->classes * NUM_TILE;
  double most = eta[0], chosen = 0;
  for (size_t at = NUM_TILE; at < end; at += NUM_TILE) most = fmax(most, eta[at]);
  double sum = mean[0] = exp(eta[0] - most);
  for (size_t at = NUM_TILE; at < end; at += NUM_TILE) sum += mean[at] = exp(eta[at] - most);
  for (size_t at = 0; at < end; at += NUM_TILE) {
    double y = p->y[at + i];
    mean[at] /= sum;
    residual[at] = p->weights[i] * (y - mean[at]);
    chosen += y * eta[at];
  }
  return 2 * (most + log(sum) - chosen);
}

/* Rows of weight 0 have neither residuals nor curvature: their mean may be infinite. */
static double pass_compare(const pass *p) {
  if (p->model->family == 'b') return pass_two(p);
  double deviance = 0;
  memset(p->residual, 0, p->model->classes * NUM_TILE * sizeof *p->residual);
  memset(p->curvature, 0, NUM_TILE * sizeof *p->curvature);
  for (size_t i = 0; i < *p->filled; i++) {
    if (p->weights[i] == 0) continue;
    double own = p->model->family == 'm' ? pass_many(p, i) : pass_number(p, i);
    deviance += p->weights[i] * own;
  }
  return deviance;
}

/* ---- Sums ------------------------------------------------------------------------------------------------------- */

static void pass_add_gradient(const pass *p, double *gradient) {
  for (size_t label = 0; label < p->model->classes; label++) {
    const double *residual = p->residual + label * NUM_TILE;
    size_t from = p->first[label];
    if (p->point->whole)
      num_gram_dots(gradient + label * p->width, residual, p->values, p->width);
    else
      num_gram_dots(gradient + from, residual, p->own + from, p->first[label + 1] - from);
  }
}

/* The curvature between two of many classes. */
static void pass_curve(const pass *p, size_t first, size_t second) {
  const double *mean = p->mean + first * NUM_TILE, *other = p->mean + second * NUM_TILE;
  for (size_t i = 0; i < *p->filled; i++) {
    double product = mean[i] * ((first == second) - other[i]);
    p->curvature[i] = p->weights[i] == 0 ? 0 : p->weights[i] * product;
  }
}

static void pass_add_curvature(const pass *p, double *gram) {
  size_t count = p->point->count;
  for (size_t first = 0; first < p->model->classes; first++) {
    for (size_t second = first; second < p->model->classes; second++) {
      if (p->model->family == 'm') pass_curve(p, first, second);
      size_t row = p->first[first], column = p->first[second];
      num_gram_add(gram + row * count + column, count, p->own + row, p->first[first + 1] - row,
                   p->own + column, p->first[second + 1] - column, p->curvature);
    }
  }
}

static void pass_flush(const pass *p) {
  size_t known = num_net_sums(p->model, p->point) - p->point->count * p->point->count;
  pass_predict(p);
  p->sums[0] += pass_compare(p);
  pass_add_gradient(p, p->sums + 1);
  pass_add_curvature(p, p->sums + known);
  memset(p->weights, 0, NUM_TILE * sizeof *p->weights);
  *p->filled = 0;
}

void num_net_add(const num_net_model *model, const num_net_point *point, const num_net_rows *rows,
                 double *state, double *sums) {
  pass p = pass_of(model, point, state, sums);
  for (size_t from = 0, count; from < rows->count; from += count) {
    size_t left = rows->count - from, room = NUM_TILE - *p.filled;
    count = left < room ? left : room;
    pass_read(&p, rows, from, count);
    *p.filled += count;
    if (*p.filled == NUM_TILE) pass_flush(&p);
  }
}

void num_net_close(const num_net_model *model, const num_net_point *point, double *state,
                   double *sums) {
  pass p = pass_of(model, point, state, sums);
  if (*p.filled > 0) pass_flush(&p);
  num_gram_mirror(sums + num_net_sums(model, point) - point->count * point->count, point->count);
}

static double pass_xlogx(double x) {
  return x > 0 && x != 1 ? x * log(x) : 0;
}

void num_net_least(const num_net_model *model, const num_net_rows *rows, double *total) {
  if (model->family != 'b' && model->family != 'p') return;
  for (size_t i = 0; i < rows->count; i++) {
    double y = rows->y[i * rows->y_row_step];
    double other = model->family == 'b' ? pass_xlogx(1 - y) : -y;
    *total += rows->weights[i] * (2 * (pass_xlogx(y) + other));
  }
}
