/* SPDX-License-Identifier: Apache-2.0 */
#include "elastic_net.h"

#include <string.h>

#include "fields.h"
#include "numerics/net_path.h"

enum { ROWS_UNTIL_PAUSE = 1 << 16 };

static double *net_memory(size_t count) {
  return (double *)R_alloc(count + 1, sizeof(double));
}

/* ---- Arguments -------------------------------------------------------------------------------------------------- */

static num_net_model net_model(SEXP rows) {
  SEXP family = fields_get(rows, "family"), x = fields_matrix(rows, "x"),
       y = fields_matrix(rows, "y");
  if (!Rf_isString(family) || Rf_xlength(family) != 1) Rf_error("family must be a string");
  num_net_model model = {.family = CHAR(STRING_ELT(family, 0))[0]};
  if (!strchr("gbpm", model.family)) Rf_error("there is no family %s", CHAR(STRING_ELT(family, 0)));
  model.intercept = fields_logicals(rows, "intercept", 1)[0] == TRUE;
  model.columns = (size_t)Rf_ncols(x);
  model.classes = (size_t)Rf_ncols(y);
  if (Rf_nrows(y) != Rf_nrows(x) || model.classes == 0 ||
      (model.family != 'm' && model.classes > 1))
    Rf_error("the response does not belong to the rows");
  model.center = fields_doubles(rows, "center", Rf_ncols(x));
  model.scale = fields_doubles(rows, "scale", Rf_ncols(x));
  return model;
}

static num_net_rows net_rows(SEXP rows) {
  SEXP x = fields_matrix(rows, "x"), y = fields_matrix(rows, "y");
  size_t count = (size_t)Rf_nrows(x);
  return (num_net_rows){.count = count,
                        .x = REAL_RO(x),
                        .y = REAL_RO(y),
                        .weights = fields_doubles(rows, "weights", (R_xlen_t)count),
                        .offset = fields_doubles(rows, "offset", (R_xlen_t)count),
                        .row_step = 1,
                        .column_step = count,
                        .y_row_step = 1,
                        .y_class_step = count};
}

/* The rows of `rows` from `from` on, of which the user may interrupt R. */
static num_net_rows net_part(const num_net_rows *rows, size_t from) {
  num_net_rows part = *rows;
  R_CheckUserInterrupt();
  part.x += from, part.y += from, part.weights += from, part.offset += from;
  part.count = rows->count - from < ROWS_UNTIL_PAUSE ? rows->count - from : ROWS_UNTIL_PAUSE;
  return part;
}

static num_net_point net_point(const num_net_model *model, SEXP b, SEXP active, SEXP whole) {
  if (!Rf_isInteger(active) || !Rf_isReal(b) || Rf_xlength(b) != Rf_xlength(active))
    Rf_error("the active coefficients must be integers, with a double for each");
  size_t count = (size_t)Rf_xlength(active), all = num_net_width(model) * model->classes;
  int32_t *places = (int32_t *)R_alloc(count + 1, sizeof *places);
  for (size_t i = 0; i < count; i++) {
    int place = INTEGER_RO(active)[i];
    if (place < 1 || (size_t)place > all || (i > 0 && place - 1 <= places[i - 1]))
      Rf_error("the active coefficients must be increasing, and there is none of number %d", place);
    places[i] = place - 1;
  }
  return (num_net_point){count, places, REAL_RO(b), Rf_asLogical(whole) == TRUE};
}

/* ---- Passes ----------------------------------------------------------------------------------------------------- */

SEXP elastic_net_pass(SEXP rows, SEXP b, SEXP active, SEXP whole) {
  num_net_model model = net_model(rows);
  num_net_rows all = net_rows(rows), part;
  num_net_point point = net_point(&model, b, active, whole);
  double *state = net_memory(num_net_state(&model, &point));
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)num_net_sums(&model, &point)));
  num_net_open(&model, &point, state, REAL(result));
  for (size_t from = 0; from < all.count; from += part.count) {
    part = net_part(&all, from);
    num_net_add(&model, &point, &part, state, REAL(result));
  }
  num_net_close(&model, &point, state, REAL(result));
  UNPROTECT(1);
  return result;
}

SEXP elastic_net_least(SEXP rows) {
  num_net_model model = net_model(rows);
  num_net_rows all = net_rows(rows);
  double total = 0;
  num_net_least(&model, &all, &total);
  return Rf_ScalarReal(total);
}

SEXP elastic_net_squares(SEXP rows, SEXP sums, SEXP b, SEXP active, SEXP whole) {
  num_net_model model = net_model(rows);
  num_net_point point = net_point(&model, b, active, whole);
  size_t width = num_net_width(&model);
  if (!Rf_isReal(sums) || (size_t)Rf_xlength(sums) != 1 + width + width * width)
    Rf_error("the sums are not those of %.0f coefficients", (double)width);
  SEXP result = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)num_net_sums(&model, &point)));
  num_net_squares(&model, REAL_RO(sums), &point, REAL(result));
  UNPROTECT(1);
  return result;
}

/* ---- The path --------------------------------------------------------------------------------------------------- */

/* The functions of R. `sums` are those of the last pass, which `index` protects. */
typedef struct {
  const num_net_model *model;
  SEXP look, share, sums;
  PROTECT_INDEX index;
} net_caller;

static double *net_look(void *context, const num_net_point *point) {
  net_caller *caller = context;
  SEXP b = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)point->count));
  SEXP active = PROTECT(Rf_allocVector(INTSXP, (R_xlen_t)point->count));
  SEXP whole = PROTECT(Rf_ScalarLogical(point->whole));
  memcpy(REAL(b), point->b, point->count * sizeof(double));
  for (size_t i = 0; i < point->count; i++) INTEGER(active)[i] = point->active[i] + 1;
  SEXP call = PROTECT(Rf_lang4(caller->look, b, active, whole));
  REPROTECT(caller->sums = Rf_eval(call, R_BaseEnv), caller->index);
  UNPROTECT(4);
  size_t count = num_net_sums(caller->model, point);
  if (!Rf_isReal(caller->sums) || (size_t)Rf_xlength(caller->sums) != count)
    Rf_error("a pass has not the %.0f sums of its point", (double)count);
  return REAL(caller->sums);
}

static bool net_share(void *context, double *numbers, size_t count) {
  net_caller *caller = context;
  SEXP own = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)count));
  memcpy(REAL(own), numbers, count * sizeof *numbers);
  SEXP call = PROTECT(Rf_lang2(caller->share, own));
  SEXP shared = PROTECT(Rf_eval(call, R_BaseEnv));
  if (!Rf_isReal(shared) || (size_t)Rf_xlength(shared) != count)
    Rf_error("rank 0 has not shared %.0f numbers", (double)count);
  memcpy(numbers, REAL_RO(shared), count * sizeof *numbers);
  UNPROTECT(3);
  return true;
}

static double net_number(SEXP problem, const char *name) {
  return fields_doubles(problem, name, 1)[0];
}

static num_net_problem net_problem(SEXP problem, const num_net_model *model) {
  size_t width = num_net_width(model) * model->classes;
  num_net_problem found = {.model = model,
                           .penalty = fields_doubles(problem, "penalty", (R_xlen_t)width),
                           .alpha = net_number(problem, "alpha"),
                           .spread = net_number(problem, "spread"),
                           .least = net_number(problem, "least"),
                           .tolerance = net_number(problem, "tolerance"),
                           .ratio = net_number(problem, "ratio"),
                           .steps = (size_t)net_number(problem, "steps"),
                           .count = (size_t)net_number(problem, "count"),
                           .ends = fields_logicals(problem, "ends", 1)[0] == TRUE};
  if (found.ratio == 0) found.lambda = fields_doubles(problem, "lambda", (R_xlen_t)found.count);
  return found;
}

/* The doubles of a new element of the list `result`. */
static double *net_element(SEXP result, int place, size_t count) {
  SET_VECTOR_ELT(result, place, Rf_allocVector(REALSXP, (R_xlen_t)count));
  return REAL(VECTOR_ELT(result, place));
}

static SEXP net_result(const num_net_model *model, const num_net_path *path, double mean) {
  const char *names[] = {"lambda", "deviance", "violation", "steps",
                         "null",   "slopes",   "levels",    ""};
  SEXP result = PROTECT(Rf_mkNamed(VECSXP, names));
  const double *from[] = {path->lambda, path->deviance, path->violation, path->steps};
  for (int i = 0; i < 4; i++)
    memcpy(net_element(result, i, path->count), from[i], path->count * sizeof(double));
  net_element(result, 4, 1)[0] = path->null;
  size_t columns = model->columns * model->classes;
  size_t width = num_net_width(model) * model->classes;
  double *slopes = net_element(result, 5, columns * path->count);
  double *levels = net_element(result, 6, model->classes * path->count);
  for (size_t step = 0; step < path->count; step++)
    num_net_unscale(model, path->coefficients + step * width, mean, slopes + step * columns,
                    levels + step * model->classes);
  UNPROTECT(1);
  return result;
}

SEXP elastic_net_path(SEXP rows, SEXP problem, SEXP look, SEXP share) {
  num_net_model model = net_model(rows);
  num_net_problem of = net_problem(problem, &model);
  net_caller caller = {.model = &model, .look = look, .share = share, .sums = R_NilValue};
  PROTECT_WITH_INDEX(caller.sums, &caller.index);
  num_net_ranks ranks = {net_look, net_share, &caller};
  double *numbers = net_memory(4 * of.count);
  num_net_path path = {.lambda = numbers,
                       .deviance = numbers + of.count,
                       .violation = numbers + 2 * of.count,
                       .steps = numbers + 3 * of.count};
  path.coefficients = net_memory(of.count * num_net_width(&model) * model.classes);
  num_net_follow(&of, &ranks, &path, net_memory(num_net_follow_scratch(&model)));
  SEXP result = net_result(&model, &path, net_number(problem, "mean"));
  UNPROTECT(1);
  return result;
}
