/* SPDX-License-Identifier: Apache-2.0 */
#include "clock.h"

#include <time.h>

SEXP clock_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return Rf_ScalarReal((double)now.tv_sec + (double)now.tv_nsec / 1e9);
}
