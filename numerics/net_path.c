/* SPDX-License-Identifier: Apache-2.0 */
#include "net_path.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "gram.h"
#include "net_descent.h"

enum { PATH_PARTS = 11, PATH_HALVINGS = 30, PATH_LEAST_STEPS = 5 };

/* The state of a path. `b` are the coefficients, and `sums` the last pass, at the coefficients `active`, of which there
 * are `count`. `gradient` is NaN if the pass has not summed it. `wanted` are the coefficients that the next pass needs.
 * `first` and `second` are the factors of abs(b) and b^2 / 2. */
typedef struct {
  const num_net_problem *problem;
  const num_net_ranks *ranks;
  size_t width, count;
  double *b, *gradient, *first, *second, *target, *packed, *scratch, *sums, *gram, deviance;
  int32_t *active;
  bool *wanted, whole;
} path;

size_t num_net_follow_scratch(const num_net_model *model) {
  size_t width = num_net_width(model) * model->classes;
  return PATH_PARTS * width + num_net_minimize_scratch(width);
}

static path path_of(const num_net_problem *problem, const num_net_ranks *ranks, double *scratch) {
  path p = {.problem = problem, .ranks = ranks};
  p.width = num_net_width(problem->model) * problem->model->classes;
  double **parts[] = {&p.b, &p.gradient, &p.first, &p.second, &p.target};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) *parts[i] = scratch + i * p.width;
  p.active = (int32_t *)(void *)(scratch + 5 * p.width);
  p.wanted = (bool *)(void *)(scratch + 6 * p.width);
  p.packed = scratch + 7 * p.width;
  p.scratch = scratch + PATH_PARTS * p.width;
  memset(p.b, 0, p.width * sizeof *p.b);
  memset(p.wanted, 0, p.width * sizeof *p.wanted);
  return p;
}

static bool path_is_intercept(const path *p, size_t k) {
  return p->problem->model->intercept && k % num_net_width(p->problem->model) == 0;
}

static bool path_is_punished(const path *p, size_t k) {
  return p->problem->penalty[k] > 0 && isfinite(p->problem->penalty[k]);
}

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

/* Makes a pass at the coefficients `b`, which are active. */
static bool path_look(path *p, const double *b, bool whole) {
  for (size_t i = 0; i < p->count; i++) p->packed[i] = b[p->active[i]];
  num_net_point point = {p->count, p->active, p->packed, whole};
  p->sums = p->ranks->look(p->ranks->context, &point);
  if (!p->sums) return false;
  p->deviance = p->sums[0] + p->problem->least;
  p->gram = p->sums + num_net_sums(p->problem->model, &point) - p->count * p->count;
  p->whole = whole;
  for (size_t k = 0; k < p->width; k++) p->gradient[k] = whole ? p->sums[1 + k] : NAN;
  for (size_t i = 0; i < p->count && !whole; i++) p->gradient[p->active[i]] = p->sums[1 + i];
  return true;
}

/* Makes the wanted coefficients active in a whole pass. */
static bool path_look_wide(path *p) {
  p->count = 0;
  for (size_t k = 0; k < p->width; k++)
    if (p->wanted[k]) p->active[p->count++] = (int32_t)k;
  return path_look(p, p->b, true);
}

/* Leaves only the wanted coefficients active. Returns false if one of them is not. */
static bool path_narrow(path *p) {
  size_t wanted = 0, kept = 0;
  for (size_t k = 0; k < p->width; k++) wanted += p->wanted[k];
  for (size_t i = 0; i < p->count; i++) kept += p->wanted[p->active[i]];
  if (kept < wanted) return false;
  double *to = p->gram;
  for (size_t i = 0; i < p->count; i++)
    for (size_t j = 0; j < p->count && p->wanted[p->active[i]]; j++)
      if (p->wanted[p->active[j]]) *to++ = p->gram[i * p->count + j];
  kept = 0;
  for (size_t i = 0; i < p->count; i++)
    if (p->wanted[p->active[i]]) p->active[kept++] = p->active[i];
  p->count = kept;
  return true;
}

/* ---- One penalty ------------------------------------------------------------------------------------------------ */

/* The costs of the coefficients. With an infinite `lambda`, those with a penalty are out; if `alone`, all but the
 * intercepts. */
static void path_charge(path *p, double lambda, bool alone) {
  for (size_t k = 0; k < p->width; k++) {
    double penalty = alone ? !path_is_intercept(p, k) : p->problem->penalty[k];
    bool out = isinf(penalty) || (penalty > 0 && isinf(lambda));
    double known = out || penalty == 0 ? 0 : lambda * penalty;
    p->first[k] = out ? INFINITY : p->problem->alpha * known;
    p->second[k] = (1 - p->problem->alpha) * known / p->problem->spread;
  }
}

/* How far a coefficient is from the conditions of Karush, Kuhn and Tucker; NaN if its gradient is. */
static double path_violation(const path *p, size_t k) {
  double b = p->b[k], gradient = p->gradient[k];
  if (b == 0) {
    double over = fabs(gradient) - p->first[k];
    return over < 0 ? 0 : over;
  }
  double first = isfinite(p->first[k]) ? p->first[k] : 0;
  return fabs(gradient - ((b > 0 ? first : -first) + p->second[k] * b));
}

/* The largest violation. Wants coefficients whose violation is over `limit`. */
static double path_worst(path *p, double limit) {
  double worst = 0;
  for (size_t k = 0; k < p->width; k++) {
    double violation = path_violation(p, k);
    if (violation > worst) worst = violation;
    if (violation > limit) p->wanted[k] = true;
  }
  return worst;
}

static bool path_wants_more(const path *p) {
  size_t wanted = 0;
  for (size_t k = 0; k < p->width; k++) wanted += p->wanted[k];
  return wanted > p->count;
}

/* The objective at the coefficients `b` of the last pass. */
static double path_worth(const path *p, const double *b) {
  double first = 0, second = 0;
  for (size_t k = 0; k < p->width; k++) {
    if (b[k] == 0) continue;
    first += p->first[k] * fabs(b[k]);
    second += p->second[k] * (b[k] * b[k]);
  }
  return p->deviance / 2 + first + second / 2;
}

/* Moves the active coefficients to the minimum of the quadratic function, or less far, so that the objective does not
 * rise. */
static bool path_step(path *p, bool whole) {
  double *gradient = p->packed, *first = gradient + p->width, *second = first + p->width;
  double *b = second + p->width;
  for (size_t i = 0; i < p->count; i++) {
    int32_t k = p->active[i];
    gradient[i] = p->gradient[k], first[i] = p->first[k], second[i] = p->second[k], b[i] = p->b[k];
  }
  double before = path_worth(p, p->b);
  num_net_minimize(p->count, p->gram, gradient, first, second, b, p->scratch);
  memcpy(p->target, p->b, p->width * sizeof *p->b);
  for (size_t i = 0; i < p->count; i++) p->target[p->active[i]] = b[i];
  for (int half = 0; half < PATH_HALVINGS; half++) {
    for (size_t k = 0; k < p->width && half > 0; k++) p->target[k] = (p->target[k] + p->b[k]) / 2;
    if (!path_look(p, p->target, whole)) return false;
    double after = path_worth(p, p->target);
    if (isfinite(after) && after <= before + 1e-14 * (1 + fabs(before))) break;
  }
  memcpy(p->b, p->target, p->width * sizeof *p->b);
  return true;
}

/* The size of a violation that counts as 1, before the largest gradient is known. */
static double path_size(const path *p, bool alone) {
  double size = 1;
  for (size_t k = 0; k < p->width; k++)
    if (alone ? !path_is_intercept(p, k) : path_is_punished(p, k))
      size = fmax(size, fabs(p->gradient[k]));
  return size;
}

/* Newton's iterations at the costs, on the wanted coefficients and those that violate the conditions. A pass has the
 * gradient of all coefficients only if the conditions may hold for the active ones: a step of Newton's method squares
 * what is left of the violation. */
static bool path_settle(path *p, double size, double *violation, double *steps) {
  double limit = p->problem->tolerance * size;
  *steps = 0;
  if (!path_narrow(p) && !path_look_wide(p)) return false;
  for (size_t step = 0; step < p->problem->steps; step++) {
    double worst = path_worst(p, limit);
    if (worst <= limit && p->whole) break;
    if ((worst <= limit || path_wants_more(p)) && !path_look_wide(p)) return false;
    if (worst <= limit) continue;
    if (!path_step(p, worst <= sqrt(p->problem->tolerance) * size)) return false;
    *steps += 1;
  }
  if (!p->whole && !path_look_wide(p)) return false;
  *violation = path_worst(p, INFINITY) / size;
  return true;
}

/* ---- The path --------------------------------------------------------------------------------------------------- */

/* The model of the intercepts alone, and then of all coefficients without a penalty. */
static bool path_begin(path *p, double *null) {
  double violation, steps;
  bool more = false;
  for (size_t k = 0; k < p->width; k++) {
    p->wanted[k] = path_is_intercept(p, k);
    more = more || (p->problem->penalty[k] == 0 && !p->wanted[k]);
  }
  if (!path_look_wide(p)) return false;
  path_charge(p, INFINITY, true);
  if (!path_settle(p, path_size(p, true), &violation, &steps)) return false;
  *null = p->deviance;
  if (!more) return true;
  for (size_t k = 0; k < p->width; k++) p->wanted[k] = p->problem->penalty[k] == 0;
  path_charge(p, INFINITY, false);
  return path_settle(p, path_size(p, false), &violation, &steps);
}

/* The smallest penalty of the absolute coefficients with which all are 0. */
static double path_most(const path *p) {
  double most = 0;
  for (size_t k = 0; k < p->width; k++)
    if (path_is_punished(p, k)) most = fmax(most, fabs(p->gradient[k]) / p->problem->penalty[k]);
  return most;
}

/* The penalties. One rank computes logarithms: those of other C libraries have other bits. */
static bool path_lambda(const path *p, double most, double *lambda) {
  const num_net_problem *problem = p->problem;
  if (problem->ratio == 0) {
    memmove(lambda, problem->lambda, problem->count * sizeof *lambda);
    return true;
  }
  most = fmax(most / fmax(problem->alpha, 1e-3), DBL_MIN / problem->ratio);
  double from = log(most), to = log(most * problem->ratio);
  double step = problem->count > 1 ? (to - from) / (double)(problem->count - 1) : 0;
  for (size_t i = 0; i < problem->count; i++) lambda[i] = exp(from + (double)i * step);
  return p->ranks->share(p->ranks->context, lambda, problem->count);
}

/* The strong rules. They keep all columns after a large step, so half of the penalty is enough then: columns that
 * violate the conditions are added later. */
static void path_want(path *p, double lambda, double before) {
  double least = fmax(2 * lambda - before, lambda / 2);
  for (size_t k = 0; k < p->width; k++) {
    double penalty = p->problem->penalty[k];
    p->wanted[k] =
        isfinite(penalty) && (penalty == 0 || p->b[k] != 0 ||
                              fabs(p->gradient[k]) >= p->problem->alpha * penalty * least);
  }
}

/* The rule of glmnet: nearly all deviance is explained, or a step explains little more. */
static bool path_ends(const num_net_path *found) {
  const double *last = found->deviance + found->count;
  if (found->count <= PATH_LEAST_STEPS) return false;
  double explained = 1 - last[-1] / found->null, before = 1 - last[-2] / found->null;
  return explained > 0.999 || explained - before < 1e-5 * explained;
}

bool num_net_follow(const num_net_problem *problem, const num_net_ranks *ranks, num_net_path *found,
                    double *scratch) {
  path p = path_of(problem, ranks, scratch);
  found->count = 0;
  if (!path_begin(&p, &found->null)) return false;
  double most = path_most(&p), size = most > 0 ? most : 1;
  if (!path_lambda(&p, most, found->lambda)) return false;
  double before = fmax(most / fmax(problem->alpha, 1e-3), found->lambda[0]);
  for (size_t step = 0; step < problem->count; step++) {
    double lambda = found->lambda[step];
    path_want(&p, lambda, before);
    path_charge(&p, lambda, false);
    if (!path_settle(&p, size, found->violation + step, found->steps + step)) return false;
    memcpy(found->coefficients + step * p.width, p.b, p.width * sizeof *p.b);
    found->deviance[step] = p.deviance;
    found->count++;
    before = lambda;
    if (problem->ends && path_ends(found)) break;
  }
  return true;
}

void num_net_squares(const num_net_model *model, const double *sums, const num_net_point *point,
                     double *found) {
  size_t width = num_net_width(model), known = point->whole ? width : point->count;
  const double *gram = sums + 1 + width;
  double explained = 0;
  found[0] = sums[0];
  for (size_t k = 0; k < known; k++) {
    size_t at = point->whole ? k : (size_t)point->active[k];
    double gradient = sums[1 + at];
    for (size_t i = 0; i < point->count; i++)
      if (point->b[i] != 0) gradient -= gram[at * width + (size_t)point->active[i]] * point->b[i];
    found[1 + k] = gradient;
  }
  for (size_t i = 0; i < point->count; i++) {
    size_t at = (size_t)point->active[i];
    explained += point->b[i] * (sums[1 + at] + found[1 + (point->whole ? at : i)]);
    for (size_t j = 0; j < point->count; j++)
      found[1 + known + i * point->count + j] = gram[at * width + (size_t)point->active[j]];
  }
  found[0] -= explained;
}

void num_net_unscale(const num_net_model *model, const double *coefficients, double mean,
                     double *slopes, double *levels) {
  double total = 0;
  for (size_t label = 0; label < model->classes; label++) {
    const double *own = coefficients + label * num_net_width(model);
    double level = model->intercept ? own[0] + mean : 0;
    for (size_t k = 0; k < model->columns; k++) {
      double slope = own[model->intercept + k] / model->scale[k];
      *slopes++ = slope;
      if (model->intercept) level -= slope * model->center[k];
    }
    levels[label] = level;
    total += level;
  }
  if (model->classes > 1)
    for (size_t label = 0; label < model->classes; label++)
      levels[label] -= total / (double)model->classes;
}
