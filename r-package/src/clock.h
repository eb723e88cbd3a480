/* SPDX-License-Identifier: Apache-2.0
 *
 * A monotonic clock. R's own, also that of proc.time(), jumps when the clock of the machine is set.
 */
#ifndef SPARKRING_CLOCK_H
#define SPARKRING_CLOCK_H

#include <Rinternals.h>

/* Seconds since some moment. */
SEXP clock_seconds(void);

#endif
