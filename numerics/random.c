/* SPDX-License-Identifier: Apache-2.0 */
#include "random.h"

static uint64_t random_mix(uint64_t state, uint64_t key) {
  uint64_t z = state + key * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

double num_random_uniform(const num_random *random, uint64_t index) {
  uint64_t mixed =
      random_mix(random_mix(random_mix(0, random->seed), random->stream), random->round);
  return (double)(random_mix(mixed, index) >> 11) * 0x1p-53;
}
