/* SPDX-License-Identifier: Apache-2.0
 *
 * From a status to a condition. Both functions call ring_stop() of R/base-error.R, the one place where
 * conditions are made, and do not return.
 */
#ifndef SPARKRING_ERROR_H
#define SPARKRING_ERROR_H

#include <Rinternals.h>

#include "core/sparkring.h"

/* `error` explains the status where it is about it; NULL is allowed. */
_Noreturn void error_raise(ring_status status, const ring_error *error);

/* A bad argument that the core has not seen. */
__attribute__((format(printf, 1, 2))) _Noreturn void error_invalid(const char *format, ...);

/* An argument that is not one whole number. */
_Noreturn void error_number(SEXP x, const char *name);

#endif
