/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"

SEXP session_refer(SEXP key, SEXP value) {
  return R_MakeWeakRef(key, value, R_NilValue, FALSE);
}

SEXP session_value(SEXP reference) {
  return R_WeakRefValue(reference);
}
