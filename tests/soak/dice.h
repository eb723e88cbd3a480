/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of which every one follows from the seed: whoever throws the same dice gets the
 * same numbers, whichever process it is. SplitMix64 (Steele, Lea and Flood, 2014).
 */
#ifndef SOAK_DICE_H
#define SOAK_DICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct dice {
  uint64_t state;
} dice;

static inline uint64_t dice_mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static inline uint64_t dice_next(dice *from) {
  return dice_mix(from->state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Dice for one purpose: of a world, of a rank in a round. */
static inline dice dice_of(uint64_t seed, uint64_t purpose, uint64_t number) {
  return (dice){dice_mix(dice_mix(dice_mix(seed) + purpose) + number)};
}

/* 0 to below - 1. */
static inline uint64_t dice_below(dice *from, uint64_t below) {
  return dice_next(from) % below;
}

static inline bool dice_chance(dice *from, double probability) {
  return (double)(dice_next(from) >> 11) * 0x1p-53 < probability;
}

#endif
