/* SPDX-License-Identifier: Apache-2.0 */
#include "quantile.h"

#include "numerics/quantile.h"

SEXP quantile_places(SEXP count, SEXP probs, SEXP type) {
  if (!Rf_isReal(probs)) Rf_error("the probabilities are not doubles");
  int length = (int)Rf_xlength(probs);
  SEXP result = PROTECT(Rf_allocMatrix(REALSXP, 3, length));
  for (int i = 0; i < length; i++) {
    num_quantile place =
        num_quantile_place(Rf_asReal(count), REAL_RO(probs)[i], Rf_asInteger(type));
    double *to = REAL(result) + (R_xlen_t)3 * i;
    to[0] = place.below, to[1] = place.above, to[2] = place.share;
  }
  UNPROTECT(1);
  return result;
}

SEXP quantile_between(SEXP below, SEXP above, SEXP share) {
  R_xlen_t length = Rf_xlength(share);
  if (!Rf_isReal(below) || !Rf_isReal(above) || !Rf_isReal(share) || Rf_xlength(below) != length ||
      Rf_xlength(above) != length)
    Rf_error("the order statistics do not belong to the shares");
  SEXP result = PROTECT(Rf_allocVector(REALSXP, length));
  for (R_xlen_t i = 0; i < length; i++)
    REAL(result)[i] = num_quantile_between(REAL_RO(below)[i], REAL_RO(above)[i], REAL_RO(share)[i]);
  UNPROTECT(1);
  return result;
}
