/* SPDX-License-Identifier: Apache-2.0 */
#include "elastic_net.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fields.h"
#include "gram.h"

typedef struct {
  char family; /* the first letter of its name */
  bool intercept;
  R_xlen_t rows;
  size_t width, classes; /* of the coefficients: with the intercept */
  const double *x, *y, *weights, *offset, *center, *scale;
} net_rows;

/* Active coefficients of a class are those from `first[label]` up to `first[label + 1]`; `column` is the column of
 * each, and `values` point to it. `wanted` are the columns that a pass needs. */
typedef struct {
  size_t count, *column, *first;
  const double *b, **values;
  bool whole, *wanted;
} net_active;

/* The rows of a tile: the columns, and for each class the linear predictor, the mean (of many classes) and the weighted
 * residual. The weights are 0 behind the last row. `curvature` has the weights, too. */
typedef struct {
  R_xlen_t from;
  size_t count;
  double *columns, *eta, *mean, *residual, weights[ROWS_OF_TILE], curvature[ROWS_OF_TILE];
} net_tile;

/* ---- Arguments ------------------------------------------------------------------------------------- */

static net_rows net_open(SEXP rows) {
  SEXP family = fields_get(rows, "family"), x = fields_matrix(rows, "x"),
       y = fields_matrix(rows, "y");
  if (!Rf_isString(family) || Rf_xlength(family) != 1) Rf_error("family must be a string");
  net_rows r = {.family = CHAR(STRING_ELT(family, 0))[0], .rows = Rf_nrows(x)};
  if (!strchr("gbpm", r.family)) Rf_error("there is no family %s", CHAR(STRING_ELT(family, 0)));
  r.intercept = fields_logicals(rows, "intercept", 1)[0] == TRUE;
  r.width = (size_t)Rf_ncols(x) + r.intercept;
  r.classes = (size_t)Rf_ncols(y);
  if (Rf_nrows(y) != r.rows || r.classes == 0 || (r.family != 'm' && r.classes > 1))
    Rf_error("the response does not belong to the rows");
  r.x = REAL_RO(x);
  r.y = REAL_RO(y);
  r.weights = fields_doubles(rows, "weights", r.rows);
  r.offset = fields_doubles(rows, "offset", r.rows);
  r.center = fields_doubles(rows, "center", Rf_ncols(x));
  r.scale = fields_doubles(rows, "scale", Rf_ncols(x));
  return r;
}

static net_active net_activate(const net_rows *r, SEXP b, SEXP active, SEXP whole) {
  if (!Rf_isInteger(active) || !Rf_isReal(b) || Rf_xlength(b) != Rf_xlength(active))
    Rf_error("the active coefficients must be integers, with a double for each");
  net_active a = {.count = (size_t)Rf_xlength(active), .b = REAL_RO(b)};
  a.whole = Rf_asLogical(whole) == TRUE;
  a.column = (size_t *)R_alloc(a.count + r->classes + 1, sizeof *a.column);
  a.first = a.column + a.count;
  a.values = (const double **)R_alloc(a.count + 1, sizeof *a.values);
  a.wanted = (bool *)R_alloc(r->width + 1, sizeof *a.wanted);
  memset(a.wanted, a.whole, r->width);
  memset(a.first, 0, (r->classes + 1) * sizeof *a.first);
  for (size_t i = 0; i < a.count; i++) {
    int place = INTEGER_RO(active)[i];
    if (place < 1 || (size_t)place > r->width * r->classes ||
        (i > 0 && place <= INTEGER_RO(active)[i - 1]))
      Rf_error("the active coefficients must be increasing, and there is none of number %d", place);
    a.column[i] = (size_t)(place - 1) % r->width;
    a.wanted[a.column[i]] = true;
    a.first[(size_t)(place - 1) / r->width + 1] = i + 1;
  }
  for (size_t label = 1; label <= r->classes; label++) {
    if (a.first[label] < a.first[label - 1]) a.first[label] = a.first[label - 1];
  }
  return a;
}

static double *net_zeros(size_t count) {
  double *found = (double *)R_alloc(count + 1, sizeof *found);
  memset(found, 0, count * sizeof *found);
  return found;
}

static net_tile net_tile_open(const net_rows *r, net_active *a) {
  net_tile t = {.columns = net_zeros(r->width * ROWS_OF_TILE)};
  t.eta = net_zeros(3 * r->classes * ROWS_OF_TILE);
  t.mean = t.eta + r->classes * ROWS_OF_TILE;
  t.residual = t.mean + r->classes * ROWS_OF_TILE;
  for (size_t i = 0; i < a->count; i++) a->values[i] = t.columns + a->column[i] * ROWS_OF_TILE;
  return t;
}

/* ---- A tile ---------------------------------------------------------------------------------------- */

static void net_scale(double *restrict to, const double *restrict x, size_t count, double center,
                      double factor) {
  if (count == ROWS_OF_TILE) { /* for vector instructions */
    for (size_t i = 0; i < ROWS_OF_TILE; i++) to[i] = (x[i] - center) * factor;
  } else {
    for (size_t i = 0; i < count; i++) to[i] = (x[i] - center) * factor;
  }
}

static void net_read(net_tile *t, const net_rows *r, const net_active *a, R_xlen_t from) {
  R_xlen_t left = r->rows - from;
  t->from = from;
  t->count = left < ROWS_OF_TILE ? (size_t)left : ROWS_OF_TILE;
  memset(t->weights, 0, sizeof t->weights);
  memcpy(t->weights, r->weights + from, t->count * sizeof(double));
  for (size_t column = 0; column < r->width; column++) {
    if (!a->wanted[column]) continue;
    double *to = t->columns + column * ROWS_OF_TILE;
    if (r->intercept && column == 0) {
      for (size_t i = 0; i < t->count; i++) to[i] = 1;
      continue;
    }
    size_t k = column - r->intercept;
    net_scale(to, r->x + (R_xlen_t)k * r->rows + from, t->count, r->center[k], 1 / r->scale[k]);
  }
}

static void net_move(double *restrict eta, const double *restrict column, double b) {
  for (size_t i = 0; i < ROWS_OF_TILE; i++) eta[i] += b * column[i];
}

static void net_predict(net_tile *t, const net_rows *r, const net_active *a) {
  for (size_t label = 0; label < r->classes; label++) {
    double *eta = t->eta + label * ROWS_OF_TILE;
    memcpy(eta, r->offset + t->from, t->count * sizeof *eta);
    for (size_t k = a->first[label]; k < a->first[label + 1]; k++) {
      if (a->b[k] != 0) net_move(eta, a->values[k], a->b[k]);
    }
  }
}

/* The sum of w log(1 + odds) over the rows of a tile, in [0, 1]. Rows of equal weight share a logarithm: their product
 * is at most 2^64. */
static double net_logs(const double *odds, const double *weights) {
  double sum = 0, product = 1, weight = 0;
  for (size_t i = 0; i < ROWS_OF_TILE; i++) {
    if (weights[i] != weight) {
      sum += weight * log(product);
      weight = weights[i];
      product = 1;
    }
    product *= 1 + odds[i];
  }
  return sum + weight * log(product);
}

/* A tile of two classes: the weighted residuals and curvature; returns the weighted deviance. */
static double net_compare_two(net_tile *t, const net_rows *r) {
  double y[ROWS_OF_TILE] = {0}, odds[ROWS_OF_TILE], linear[ROWS_OF_TILE];
  memcpy(y, r->y + t->from, t->count * sizeof *y);
  for (size_t i = 0; i < ROWS_OF_TILE; i++) odds[i] = exp(-fabs(t->eta[i]));
  for (size_t i = 0; i < ROWS_OF_TILE; i++) {
    double share = 1 / (1 + odds[i]), eta = t->eta[i];
    double mean = eta > 0 ? share : odds[i] * share;
    t->residual[i] = t->weights[i] * (y[i] - mean);
    t->curvature[i] = t->weights[i] * (odds[i] * share * share);
    linear[i] = (eta > 0 ? eta : 0) - y[i] * eta;
  }
  return 2 * (gram_dot(t->weights, linear) + net_logs(odds, t->weights));
}

/* The same of one row of a family of numbers; returns its deviance. */
static double net_compare_number(net_tile *t, const net_rows *r, size_t i) {
  double y = r->y[t->from + (R_xlen_t)i], eta = t->eta[i], weight = t->weights[i];
  double mean = r->family == 'p' ? exp(eta) : eta;
  t->residual[i] = weight * (y - mean);
  t->curvature[i] = r->family == 'p' ? weight * mean : weight;
  return r->family == 'p' ? 2 * (mean - y * eta) : (y - eta) * (y - eta);
}

/* The same of one row with many classes; net_curve() makes the curvature. */
static double net_compare_many(net_tile *t, const net_rows *r, size_t i) {
  R_xlen_t row = t->from + (R_xlen_t)i;
  double *eta = t->eta + i, *mean = t->mean + i, *residual = t->residual + i;
  size_t end = r->classes * ROWS_OF_TILE;
  double most = eta[0], chosen = 0;
  for (size_t at = ROWS_OF_TILE; at < end; at += ROWS_OF_TILE) most = fmax(most, eta[at]);
  double sum = mean[0] = exp(eta[0] - most);
  for (size_t at = ROWS_OF_TILE; at < end; at += ROWS_OF_TILE)
    sum += mean[at] = exp(eta[at] - most);
  for (size_t at = 0; at < end; at += ROWS_OF_TILE) {
    double y = r->y[(R_xlen_t)(at / ROWS_OF_TILE) * r->rows + row];
    mean[at] /= sum;
    residual[at] = t->weights[i] * (y - mean[at]);
    chosen += y * eta[at];
  }
  return 2 * (most + log(sum) - chosen);
}

/* Rows of weight 0 have neither residuals nor curvature: their mean may be infinite. */
static double net_compare(net_tile *t, const net_rows *r) {
  if (r->family == 'b') return net_compare_two(t, r);
  double deviance = 0;
  memset(t->residual, 0, r->classes * ROWS_OF_TILE * sizeof *t->residual);
  memset(t->curvature, 0, sizeof t->curvature);
  for (size_t i = 0; i < t->count; i++) {
    if (t->weights[i] == 0) continue;
    double own = r->family == 'm' ? net_compare_many(t, r, i) : net_compare_number(t, r, i);
    deviance += t->weights[i] * own;
  }
  return deviance;
}

static void net_add_gradient(const net_tile *t, const net_rows *r, const net_active *a,
                             double *gradient) {
  for (size_t label = 0; label < r->classes; label++) {
    const double *residual = t->residual + label * ROWS_OF_TILE;
    if (a->whole) {
      for (size_t k = 0; k < r->width; k++)
        gradient[label * r->width + k] += gram_dot(residual, t->columns + k * ROWS_OF_TILE);
    } else {
      for (size_t k = a->first[label]; k < a->first[label + 1]; k++)
        gradient[k] += gram_dot(residual, a->values[k]);
    }
  }
}

/* The curvature between two of many classes. */
static void net_curve(net_tile *t, size_t first, size_t second) {
  const double *mean = t->mean + first * ROWS_OF_TILE, *other = t->mean + second * ROWS_OF_TILE;
  for (size_t i = 0; i < t->count; i++) {
    double product = mean[i] * ((first == second) - other[i]);
    t->curvature[i] = t->weights[i] == 0 ? 0 : t->weights[i] * product;
  }
}

static void net_add_curvature(net_tile *t, const net_rows *r, const net_active *a, double *sums) {
  for (size_t first = 0; first < r->classes; first++) {
    for (size_t second = first; second < r->classes; second++) {
      if (r->family == 'm') net_curve(t, first, second);
      size_t row = a->first[first], column = a->first[second];
      gram_add(sums + row * a->count + column, a->count, a->values + row, a->first[first + 1] - row,
               a->values + column, a->first[second + 1] - column, t->curvature);
    }
  }
}

SEXP elastic_net_pass(SEXP rows, SEXP b, SEXP active, SEXP whole) {
  net_rows r = net_open(rows);
  net_active a = net_activate(&r, b, active, whole);
  net_tile t = net_tile_open(&r, &a);
  size_t length = a.whole ? r.width * r.classes : a.count;
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)(1 + length + a.count * a.count)));
  double *found = REAL(result), *gram = found + 1 + length;
  memset(found, 0, (size_t)Rf_xlength(result) * sizeof *found);
  for (R_xlen_t from = 0, tiles = 0; from < r.rows; from += ROWS_OF_TILE, tiles++) {
    if (tiles % TILES_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
    net_read(&t, &r, &a, from);
    net_predict(&t, &r, &a);
    found[0] += net_compare(&t, &r);
    net_add_gradient(&t, &r, &a, found + 1);
    net_add_curvature(&t, &r, &a, gram);
  }
  gram_mirror(gram, a.count);
  UNPROTECT(1);
  return result;
}
