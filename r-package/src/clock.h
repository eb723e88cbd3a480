/* SPDX-License-Identifier: Apache-2.0
 *
 * A clock that nobody sets: R's own, also that of proc.time(), jumps when somebody sets that of the
 * machine, and a wait by it with it.
 */
#ifndef SPARKRING_CLOCK_H
#define SPARKRING_CLOCK_H

#include <Rinternals.h>

/* Seconds since some moment. */
SEXP clock_seconds(void);

#endif
