/* SPDX-License-Identifier: Apache-2.0 */
#include "fields.h"

#include <string.h>

SEXP fields_get(SEXP list, const char *name) {
  SEXP names = Rf_getAttrib(list, R_NamesSymbol);
  for (R_xlen_t i = 0; TYPEOF(list) == VECSXP && i < Rf_xlength(names); i++) {
    if (strcmp(CHAR(STRING_ELT(names, i)), name) == 0) return VECTOR_ELT(list, i);
  }
  Rf_error("the list has no element %s", name);
}

static SEXP fields_of(SEXP list, const char *name, SEXPTYPE type, R_xlen_t length) {
  SEXP found = fields_get(list, name);
  if ((SEXPTYPE)TYPEOF(found) != type || Rf_xlength(found) != length) {
    Rf_error("%s must be of type %s and length %.0f", name, Rf_type2char(type), (double)length);
  }
  return found;
}

const double *fields_doubles(SEXP list, const char *name, R_xlen_t length) {
  return REAL_RO(fields_of(list, name, REALSXP, length));
}

const int *fields_integers(SEXP list, const char *name, R_xlen_t length) {
  return INTEGER_RO(fields_of(list, name, INTSXP, length));
}

const int *fields_logicals(SEXP list, const char *name, R_xlen_t length) {
  return LOGICAL_RO(fields_of(list, name, LGLSXP, length));
}

SEXP fields_matrix(SEXP list, const char *name) {
  SEXP found = fields_get(list, name);
  if (!Rf_isReal(found) || !Rf_isMatrix(found)) Rf_error("%s must be a matrix of doubles", name);
  return found;
}
