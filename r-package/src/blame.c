/* SPDX-License-Identifier: Apache-2.0 */
#include "blame.h"

#include "bindings/blame.h"

SEXP blame_weight(SEXP statuses) {
  size_t count = (size_t)XLENGTH(statuses);
  const char **names = (const char **)R_alloc(count + 1, sizeof *names);
  for (size_t i = 0; i < count; i++) names[i] = CHAR(STRING_ELT(statuses, (R_xlen_t)i));
  return Rf_ScalarReal(ring_blame_weight_of_names(names, count));
}

SEXP blame_first(SEXP weights, SEXP whens, SEXP ranks) {
  size_t count = (size_t)XLENGTH(weights);
  ring_blame *blames = (ring_blame *)R_alloc(count + 1, sizeof *blames);
  for (size_t i = 0; i < count; i++)
    blames[i] = (ring_blame){REAL(weights)[i], REAL(whens)[i], INTEGER(ranks)[i]};
  return Rf_ScalarInteger((int)ring_blame_first(blames, count) + 1);
}
