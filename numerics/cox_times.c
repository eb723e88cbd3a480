/* SPDX-License-Identifier: Apache-2.0 */
#include "cox_times.h"

#include <math.h>
#include <stdbool.h>

#define COX_TOLERANCE 0x1p-26 /* the root of the distance of 1 from the next double */

double num_cox_times_sum(const double *times, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += fabs(times[i]);
  return sum;
}

static bool cox_near(double gap, double mean) {
  return gap <= COX_TOLERANCE || gap / mean <= COX_TOLERANCE;
}

void num_cox_chains(const double *times, size_t count, double mean, double *firsts) {
  for (size_t i = 0; i < count; i++)
    firsts[i] = i > 0 && cox_near(times[i] - times[i - 1], mean) ? firsts[i - 1] : times[i];
}

double num_cox_chain_before(const double *edges, size_t count, double mean) {
  double last = -INFINITY, chain = 0, found = 0;
  for (size_t rank = 0; rank < count; rank++, edges += NUM_COX_EDGE) {
    if (edges[0] == 0) continue;
    found = cox_near(edges[1] - last, mean) ? chain : edges[1];
    chain = edges[3] == edges[1] ? found : edges[3];
    last = edges[2];
  }
  return found;
}
