/* SPDX-License-Identifier: Apache-2.0 */
#include "coxph.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "fields.h"
#include "gram.h"

enum { GROUPS_UNTIL_PAUSE = 1 << 14 };

typedef struct {
  R_xlen_t rows, groups, width;
  const double *x, *sign, *strata, *died;
  const int *event, *first, *deaths;
} coxph_records;

static coxph_records coxph_open(SEXP records) {
  SEXP x = fields_matrix(records, "x");
  coxph_records r = {.rows = Rf_ncols(x), .width = Rf_nrows(x), .x = REAL_RO(x)};
  r.groups = Rf_xlength(fields_get(records, "first"));
  r.sign = fields_doubles(records, "sign", r.rows);
  r.event = fields_logicals(records, "event", r.rows);
  r.first = fields_integers(records, "first", r.groups);
  r.strata = fields_doubles(records, "strata", r.groups);
  r.deaths = fields_integers(records, "deaths", r.groups);
  r.died = fields_doubles(records, "died", r.groups);
  for (R_xlen_t g = 0; g < r.groups; g++) {
    R_xlen_t before = g > 0 ? r.first[g - 1] : 0;
    if (r.first[g] <= before || r.first[g] > r.rows || (g == 0 && r.first[g] != 1))
      Rf_error("the groups of records are not in order");
  }
  if (r.rows > 0 && r.groups == 0) Rf_error("the records have no groups");
  return r;
}

/* The record behind the last one of a group; records are counted from 0. */
static R_xlen_t coxph_end(const coxph_records *r, R_xlen_t group) {
  return group + 1 < r->groups ? r->first[group + 1] - 1 : r->rows;
}

/* ---- The sweep ------------------------------------------------------------------------------------- */

/* `at_risk` and `dead` are the sums of the risk and, behind it, of the risk times the covariates. Rows that have not
 * started are subtracted, so the sums are long. The last four pointers are NULL without details. */
typedef struct {
  coxph_records records;
  bool efron;
  const double *risk;
  long double *at_risk, *dead;
  double *mean;
  double log, *score, *hazard, *tied, *squared, *expected, *moved, *shared;
  gram squares;
} coxph_state;

static void coxph_add(long double *sums, double risk, const double *row, R_xlen_t width) {
  sums[0] += risk;
  for (R_xlen_t k = 0; k < width; k++) sums[k + 1] += risk * row[k];
}

static void coxph_add_detail(coxph_state *s, R_xlen_t group, double weight, double hazard,
                             double fraction, double squared) {
  R_xlen_t width = s->records.width;
  s->squared[group] += squared;
  for (R_xlen_t k = 0; k < width; k++) {
    double mean = s->mean[k];
    s->expected[group * width + k] += weight * mean;
    s->moved[group * width + k] += hazard * mean;
    s->shared[group * width + k] += fraction * hazard * mean;
  }
}

/* One step, with the weight of its deaths. */
static void coxph_step(coxph_state *s, R_xlen_t group, double weight, double fraction) {
  R_xlen_t width = s->records.width;
  double risk = (double)(s->at_risk[0] - fraction * s->dead[0]), hazard = weight / risk;
  for (R_xlen_t k = 0; k < width; k++) {
    s->mean[k] = (double)(s->at_risk[k + 1] - fraction * s->dead[k + 1]) / risk;
    s->score[k] += weight * s->mean[k];
  }
  s->log += weight * log(risk);
  s->hazard[group] += hazard;
  s->tied[group] += fraction * hazard;
  gram_row(&s->squares, s->mean, weight);
  if (s->squared) coxph_add_detail(s, group, weight, hazard, fraction, hazard / risk);
}

static void coxph_visit(coxph_state *s, R_xlen_t group) {
  const coxph_records *r = &s->records;
  bool begins = group + 1 < r->groups && r->strata[group] != r->strata[group + 1];
  for (R_xlen_t k = 0; k <= r->width; k++) {
    s->dead[k] = 0;
    if (begins) s->at_risk[k] = 0;
  }
  for (R_xlen_t i = r->first[group] - 1; i < coxph_end(r, group); i++) {
    const double *row = r->x + i * r->width;
    coxph_add(s->at_risk, r->sign[i] * s->risk[i], row, r->width);
    if (r->event[i]) coxph_add(s->dead, s->risk[i], row, r->width);
  }
  if (r->deaths[group] == 0) return;
  int steps = s->efron ? r->deaths[group] : 1;
  for (int step = 0; step < steps; step++)
    coxph_step(s, group, r->died[group] / steps, (double)step / steps);
}

/* Puts a vector or a matrix of zeros into a list. */
static double *coxph_zeros(SEXP list, int place, R_xlen_t rows, R_xlen_t columns, bool matrix) {
  SEXP found = matrix ? Rf_allocMatrix(REALSXP, (int)rows, (int)columns)
                      : Rf_allocVector(REALSXP, rows * columns);
  SET_VECTOR_ELT(list, place, found);
  memset(REAL(found), 0, (size_t)Rf_xlength(found) * sizeof(double));
  return REAL(found);
}

SEXP coxph_sweep(SEXP records, SEXP risk, SEXP carried, SEXP efron, SEXP detail) {
  const char *names[] = {"log",     "score",    "squares", "hazard", "tied",
                         "squared", "expected", "moved",   "shared", ""};
  bool details = Rf_asLogical(detail) == TRUE;
  if (!details) names[5] = "";
  coxph_state s = {.records = coxph_open(records), .efron = Rf_asLogical(efron) == TRUE};
  R_xlen_t width = s.records.width, groups = s.records.groups;
  if (!Rf_isReal(risk) || Rf_xlength(risk) != s.records.rows || !Rf_isReal(carried) ||
      Rf_xlength(carried) != width + 1)
    Rf_error("the risk and the carried sums do not belong to the records");
  s.risk = REAL_RO(risk);
  s.at_risk = (long double *)R_alloc((size_t)(2 * width + 2), sizeof(long double));
  s.dead = s.at_risk + width + 1;
  s.mean = (double *)R_alloc((size_t)width, sizeof(double));
  for (R_xlen_t k = 0; k <= width; k++) s.at_risk[k] = REAL_RO(carried)[k];
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  s.score = coxph_zeros(result, 1, width, 1, false);
  s.squares = gram_open((size_t)width, coxph_zeros(result, 2, width, width, true));
  s.hazard = coxph_zeros(result, 3, groups, 1, false);
  s.tied = coxph_zeros(result, 4, groups, 1, false);
  if (details) {
    s.squared = coxph_zeros(result, 5, groups, 1, false);
    s.expected = coxph_zeros(result, 6, width, groups, true);
    s.moved = coxph_zeros(result, 7, width, groups, true);
    s.shared = coxph_zeros(result, 8, width, groups, true);
  }
  for (R_xlen_t group = groups - 1; group >= 0; group--) {
    if (group % GROUPS_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
    coxph_visit(&s, group);
  }
  gram_close(&s.squares);
  SET_VECTOR_ELT(result, 0, Rf_ScalarReal(s.log));
  UNPROTECT(1);
  return result;
}

/* ---- Residuals ------------------------------------------------------------------------------------- */

SEXP coxph_residuals(SEXP records, SEXP sweep, SEXP hazard, SEXP total, SEXP moved) {
  coxph_records r = coxph_open(records);
  R_xlen_t width = r.width;
  const double *tied = fields_doubles(sweep, "tied", r.groups),
               *expected = fields_doubles(sweep, "expected", r.groups * width),
               *shared = fields_doubles(sweep, "shared", r.groups * width);
  if (!Rf_isReal(hazard) || Rf_xlength(hazard) != r.rows || !Rf_isReal(total) ||
      Rf_xlength(total) != r.groups || !Rf_isReal(moved) || Rf_xlength(moved) != r.groups * width)
    Rf_error("the hazards do not belong to the records");
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, (int)width, (int)r.rows));
  for (R_xlen_t group = 0; group < r.groups; group++) {
    if (group % GROUPS_UNTIL_PAUSE == 0) R_CheckUserInterrupt();
    R_xlen_t at = group * width;
    for (R_xlen_t i = r.first[group] - 1; i < coxph_end(&r, group); i++) {
      double *to = REAL(result) + i * width, h = REAL_RO(hazard)[i];
      for (R_xlen_t k = 0; k < width; k++) {
        double x = r.x[i * width + k];
        to[k] = -r.sign[i] * h * (x * REAL_RO(total)[group] - REAL_RO(moved)[at + k]);
        if (r.event[i])
          to[k] += x - expected[at + k] / r.died[group] + h * (x * tied[group] - shared[at + k]);
      }
    }
  }
  UNPROTECT(1);
  return result;
}
