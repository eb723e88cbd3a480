/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of an algorithm for a collective. R/comm-explain.R documents the arguments.
 */
#ifndef SPARKRING_EXPLAIN_H
#define SPARKRING_EXPLAIN_H

#include <Rinternals.h>

SEXP explain_call(SEXP comm, SEXP collective, SEXP bytes, SEXP dtype, SEXP root);

#endif
