/* SPDX-License-Identifier: Apache-2.0 */
#include "wide.h"

#include <limits.h>
#include <stdint.h>

#include "shared.h"

_Static_assert(sizeof(int64_t) == sizeof(double), "a double vector holds as many of them");

/* The name of the attribute with the wide numbers. It differs for sums and products. */
static SEXP wide_name(ring_op op) {
  return Rf_install(op == RING_SUM ? "sparkring sums" : "sparkring products");
}

bool wide_is_for(SEXP x, ring_op op) {
  return (op == RING_SUM || op == RING_PROD) && (TYPEOF(x) == INTSXP || TYPEOF(x) == LGLSXP);
}

SEXP wide_numbers(const comm_handle *handle, SEXP x, ring_op op) {
  R_xlen_t count = Rf_xlength(x);
  SEXP numbers = PROTECT(shared_vector(handle, REALSXP, count));
  const int *from = TYPEOF(x) == INTSXP ? INTEGER_RO(x) : LOGICAL_RO(x);
  double *products = REAL(numbers);
  int64_t *sums = (int64_t *)(void *)products;
  if (op == RING_SUM)
    for (R_xlen_t i = 0; i < count; i++) sums[i] = from[i];
  else
    for (R_xlen_t i = 0; i < count; i++) products[i] = from[i];
  UNPROTECT(1);
  return numbers;
}

view wide_view(SEXP numbers, ring_op op) {
  view view = view_of(numbers);
  view.dtype = op == RING_SUM ? RING_INT64 : RING_FLOAT64;
  return view;
}

SEXP wide_output(const comm_handle *handle, R_xlen_t length, ring_op op, SEXP numbers) {
  SEXP output = PROTECT(shared_vector(handle, INTSXP, length));
  if (numbers == R_NilValue) numbers = shared_vector(handle, REALSXP, length);
  PROTECT(numbers);
  Rf_setAttrib(output, wide_name(op), numbers);
  UNPROTECT(2);
  return output;
}

void *wide_memory(SEXP output, ring_op op) {
  return view_output(Rf_getAttrib(output, wide_name(op)));
}

/* INT_MIN is NA to R. */
static bool wide_narrow_sums(const int64_t *from, int *to, R_xlen_t count) {
  bool overflow = false;
  for (R_xlen_t i = 0; i < count; i++) {
    bool fits = from[i] > INT_MIN && from[i] <= INT_MAX;
    to[i] = fits ? (int)from[i] : NA_INTEGER;
    overflow |= !fits;
  }
  return overflow;
}

/* A factor 0 makes NaN of what has become infinite. */
static bool wide_narrow_products(const double *from, int *to, R_xlen_t count) {
  bool overflow = false;
  for (R_xlen_t i = 0; i < count; i++) {
    double product = ISNAN(from[i]) ? 0 : from[i];
    bool fits = product > INT_MIN && product <= INT_MAX;
    to[i] = fits ? (int)product : NA_INTEGER;
    overflow |= !fits;
  }
  return overflow;
}

static bool wide_finish_of(SEXP output, ring_op op) {
  SEXP numbers = Rf_getAttrib(output, wide_name(op));
  if (numbers == R_NilValue) return false;
  PROTECT(numbers);
  R_xlen_t count = Rf_xlength(output);
  const double *from = REAL_RO(numbers);
  bool overflow =
      op == RING_SUM ? wide_narrow_sums((const int64_t *)(const void *)from, INTEGER(output), count)
                     : wide_narrow_products(from, INTEGER(output), count);
  Rf_setAttrib(output, wide_name(op), R_NilValue);
  shared_release(numbers);
  UNPROTECT(1);
  return overflow;
}

bool wide_finish(SEXP output) {
  if (view_is_plain(output)) return false;
  return wide_finish_of(output, RING_SUM) || wide_finish_of(output, RING_PROD);
}
