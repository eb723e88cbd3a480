/* SPDX-License-Identifier: Apache-2.0
 *
 * Asking how a collective would be done; R/comm-explain.R says what the arguments mean.
 */
#ifndef SPARKRING_EXPLAIN_H
#define SPARKRING_EXPLAIN_H

#include <Rinternals.h>

SEXP explain_call(SEXP comm, SEXP collective, SEXP bytes, SEXP dtype, SEXP root);

#endif
