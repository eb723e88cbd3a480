/* SPDX-License-Identifier: Apache-2.0 */
#include "view.h"

#include <Rversion.h>

#include "classed.h"
#include "error.h"

static const char *view_advice(SEXP x) {
  if (Rf_inherits(x, "data.frame"))
    return "is a data frame: call as.matrix() on it, or call once for each column";
  if (Rf_isFactor(x)) return "is a factor: call as.integer() on it for its codes";
  if (Rf_inherits(x, "integer64")) return "is an integer64 vector: call as.double() on it";
  if (Rf_inherits(x, "POSIXlt")) return "is a POSIXlt object: call as.POSIXct() on it";
  switch (TYPEOF(x)) {
  case NILSXP:
    return "is NULL: every rank must pass a vector of the same type and length";
  case VECSXP:
    return "is a list: unlist() it, or call once for each element";
  case STRSXP:
    return "is a character vector: charToRaw() makes one string a raw vector";
  default:
    return NULL;
  }
}

bool view_is_plain(SEXP x) {
#if R_VERSION >= R_Version(4, 5, 0)
  return !ANY_ATTRIB(x);
#else
  return ATTRIB(x) == R_NilValue;
#endif
}

static bool view_has_type(SEXP x) {
  int type = TYPEOF(x);
  return type == REALSXP || type == INTSXP || type == LGLSXP || type == RAWSXP || type == CPLXSXP;
}

/* Raw and complex vectors hold no dates. */
static bool view_has_known_class(SEXP x) {
  classed kind = classed_of(x);
  return kind == CLASSED_NOT ||
         (kind != CLASSED_UNKNOWN && TYPEOF(x) != RAWSXP && TYPEOF(x) != CPLXSXP);
}

static bool view_is_possible(SEXP x) {
  if (!view_has_type(x)) return false;
  if (view_is_plain(x)) return true;
  return !IS_S4_OBJECT(x) && view_has_known_class(x) && view_advice(x) == NULL;
}

static void view_refuse(SEXP x, const char *name) {
  const char *advice = view_advice(x);
  if (advice != NULL) error_invalid("`%s` %s", name, advice);
  if (!view_has_type(x) || IS_S4_OBJECT(x))
    error_invalid("`%s` must be a double, integer, logical, complex or raw vector, not %s", name,
                  IS_S4_OBJECT(x) ? "an S4 object" : Rf_type2char(TYPEOF(x)));
  SEXP class = PROTECT(Rf_getAttrib(x, R_ClassSymbol));
  error_invalid(
      "`%s` has class \"%.60s\", and collectives do not support this class: call unclass() "
      "on it, on every rank, and set the class of the result",
      name, Rf_translateCharUTF8(STRING_ELT(class, 0)));
}

view view_of(SEXP x) {
  return view_named(x, "x");
}

view view_named(SEXP x, const char *name) {
  if (!view_is_possible(x)) view_refuse(x, name);
  view view = {.count = (size_t)Rf_xlength(x)};
  switch (TYPEOF(x)) {
  case REALSXP:
    view.dtype = RING_FLOAT64;
    view.data = REAL_RO(x);
    break;
  case INTSXP:
    view.dtype = RING_INT32;
    view.data = INTEGER_RO(x);
    break;
  case LGLSXP:
    view.dtype = RING_INT32;
    view.data = LOGICAL_RO(x);
    break;
  case CPLXSXP:
    view.dtype = RING_COMPLEX128;
    view.data = COMPLEX_RO(x);
    break;
  default:
    view.dtype = RING_UINT8;
    view.data = RAW_RO(x);
  }
  if (view.count == 0) view.data = NULL; /* R's pointer to nothing is no address */
  return view;
}

SEXP view_vector(SEXP x, const char *name) {
  view_named(x, name);
  return classed_numbers(x);
}

R_xlen_t view_extent(SEXP x) {
  if (!Rf_isArray(x)) return Rf_xlength(x);
  SEXP dim = Rf_getAttrib(x, R_DimSymbol);
  return INTEGER_RO(dim)[Rf_length(dim) - 1];
}

R_xlen_t view_stride(SEXP x) {
  if (!Rf_isArray(x)) return 1;
  SEXP dim = Rf_getAttrib(x, R_DimSymbol);
  R_xlen_t stride = 1;
  for (int i = 0; i < Rf_length(dim) - 1; i++) stride *= INTEGER_RO(dim)[i];
  return stride;
}

void view_refuse_na(SEXP x, const char *name) {
  if (TYPEOF(x) != INTSXP && TYPEOF(x) != LGLSXP) return;
  const int *element = TYPEOF(x) == INTSXP ? INTEGER_RO(x) : LOGICAL_RO(x);
  R_xlen_t count = Rf_xlength(x);
  for (R_xlen_t i = 0; i < count; i++)
    if (element[i] == NA_INTEGER)
      error_invalid("`%s` is %s and element %.0f is NA, which only doubles can carry through a "
                    "reduction: call as.double() on it, on every rank",
                    name, TYPEOF(x) == INTSXP ? "integer" : "logical", (double)i + 1);
}

void *view_output(SEXP x) {
  if (Rf_xlength(x) == 0) return NULL;
  switch (TYPEOF(x)) {
  case REALSXP:
    return REAL(x);
  case INTSXP:
    return INTEGER(x);
  case LGLSXP:
    return LOGICAL(x);
  case CPLXSXP:
    return COMPLEX(x);
  default:
    return RAW(x);
  }
}

void view_normalise(SEXP x) {
  int *element = LOGICAL(x);
  R_xlen_t count = Rf_xlength(x);
  for (R_xlen_t i = 0; i < count; i++)
    if (element[i] != NA_LOGICAL) element[i] = element[i] != 0;
}

static void view_copy_attribute(SEXP to, SEXP from, SEXP name) {
  SEXP value = PROTECT(Rf_getAttrib(from, name));
  if (value != R_NilValue) Rf_setAttrib(to, name, value);
  UNPROTECT(1);
}

void view_copy_shape(SEXP to, SEXP from) {
  if (view_is_plain(from)) return;
  view_copy_attribute(to, from, R_DimSymbol);
  view_copy_attribute(to, from, Rf_isArray(from) ? R_DimNamesSymbol : R_NamesSymbol);
}
