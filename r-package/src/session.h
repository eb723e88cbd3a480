/* SPDX-License-Identifier: Apache-2.0
 *
 * Weak references, by which a model finds its rows in this process and in no other (R/model-session.R):
 * a serialized weak reference is empty.
 */
#ifndef SPARKRING_SESSION_H
#define SPARKRING_SESSION_H

#include <Rinternals.h>

/* A reference to `value`, which keeps `value` alive as long as `key` is reachable. */
SEXP session_refer(SEXP key, SEXP value);

/* The value of a reference; NULL in another process. */
SEXP session_value(SEXP reference);

#endif
