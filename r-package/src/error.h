/* SPDX-License-Identifier: Apache-2.0
 *
 * Raises a status as a condition. Both functions call ring_stop() of R/base-error.R, which makes all
 * conditions, and do not return.
 */
#ifndef SPARKRING_ERROR_H
#define SPARKRING_ERROR_H

#include <Rinternals.h>

#include "core/sparkring.h"

/* `error` may be NULL. It explains the status if it has the same status. */
_Noreturn void error_raise(ring_status status, const ring_error *error);

/* A bad argument that the binding finds before the core is called. */
__attribute__((format(printf, 1, 2))) _Noreturn void error_invalid(const char *format, ...);

/* An argument that is not one whole number. */
_Noreturn void error_number(SEXP x, const char *name);

#endif
