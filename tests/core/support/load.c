/* SPDX-License-Identifier: Apache-2.0 */
#include "load.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

double load_stretch(double most) {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return 1;
  return fmin(most, fmax(1, load / (double)sysconf(_SC_NPROCESSORS_ONLN) / 2));
}
