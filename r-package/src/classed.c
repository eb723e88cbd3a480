/* SPDX-License-Identifier: Apache-2.0 */
#include "classed.h"

#include "error.h"

classed classed_of(SEXP x) {
  if (!Rf_isObject(x)) return CLASSED_NOT;
  if (Rf_inherits(x, "Date")) return CLASSED_DATE;
  if (Rf_inherits(x, "POSIXct")) return CLASSED_TIME;
  if (Rf_inherits(x, "difftime")) return CLASSED_DURATION;
  return Rf_inherits(x, "table") ? CLASSED_TABLE : CLASSED_UNKNOWN;
}

static bool classed_is_time(classed kind) {
  return kind == CLASSED_DATE || kind == CLASSED_TIME || kind == CLASSED_DURATION;
}

SEXP classed_numbers(SEXP x) {
  if (TYPEOF(x) != INTSXP && TYPEOF(x) != LGLSXP) return x;
  return classed_is_time(classed_of(x)) ? Rf_coerceVector(x, REALSXP) : x;
}

bool classed_is_logical(ring_op op) {
  return op == RING_LAND || op == RING_LOR || op == RING_LXOR;
}

static bool classed_has_op(classed kind, ring_op op) {
  if (!classed_is_time(kind) || op == RING_MIN || op == RING_MAX || op == RING_AVG) return true;
  return kind == CLASSED_DURATION && op == RING_SUM;
}

void classed_check_op(SEXP x, const char *name, ring_op op, const char *text) {
  static const char *const classes[] = {
      [CLASSED_DATE] = "Date", [CLASSED_TIME] = "POSIXct", [CLASSED_DURATION] = "difftime"};
  classed kind = classed_of(x);
  if (classed_has_op(kind, op)) return;
  error_invalid(
      "\"%s\" is not defined for \"%s\" objects, and `%s` is one: use \"min\", \"max\"%s or "
      "\"avg\", or call as.numeric() on it",
      text, classes[kind], name, kind == CLASSED_DURATION ? ", \"sum\"" : "");
}

static void classed_copy(SEXP to, SEXP x, const char *name) {
  SEXP symbol = Rf_install(name);
  SEXP value = PROTECT(Rf_getAttrib(x, symbol));
  if (value != R_NilValue) Rf_setAttrib(to, symbol, value);
  UNPROTECT(1);
}

static void classed_copy_details(SEXP to, SEXP x, classed kind) {
  if (kind == CLASSED_TIME) classed_copy(to, x, "tzone");
  if (kind == CLASSED_DURATION) classed_copy(to, x, "units");
}

void classed_keep(SEXP to, SEXP x) {
  classed kind = classed_of(x);
  if (kind == CLASSED_NOT) return;
  classed_copy_details(to, x, kind);
  classed_copy(to, x, "class");
}

static void classed_set_class(SEXP to, const char *first, const char *second) {
  SEXP class = PROTECT(Rf_allocVector(STRSXP, second == NULL ? 1 : 2));
  SET_STRING_ELT(class, 0, Rf_mkChar(first));
  if (second != NULL) SET_STRING_ELT(class, 1, Rf_mkChar(second));
  Rf_setAttrib(to, R_ClassSymbol, class);
  UNPROTECT(1);
}

/* Sets the class of mean(x). A class that inherits from these may require integers. */
static void classed_keep_average(SEXP to, SEXP x, classed kind) {
  classed_copy_details(to, x, kind);
  if (kind == CLASSED_DATE) classed_set_class(to, "Date", NULL);
  if (kind == CLASSED_TIME) classed_set_class(to, "POSIXct", "POSIXt");
  if (kind == CLASSED_DURATION) classed_set_class(to, "difftime", NULL);
}

void classed_keep_reduced(SEXP to, SEXP x, ring_op op) {
  classed kind = classed_of(x);
  if (kind == CLASSED_TABLE && classed_is_logical(op)) return; /* the result is logical */
  if (op == RING_AVG && classed_is_time(kind))
    classed_keep_average(to, x, kind);
  else
    classed_keep(to, x);
}

void classed_keep_together(SEXP to, SEXP x) {
  if (classed_of(x) != CLASSED_TABLE) classed_keep(to, x);
}

void classed_refuse_table(SEXP x) {
  if (classed_of(x) == CLASSED_TABLE)
    error_invalid("`x` is a table, and parts of any length lose the names of the last dimension: "
                  "call ring_table() for one table of all ranks, ring_allgather_object() for "
                  "the tables of all ranks, or unclass() for the numbers alone");
}
