/* SPDX-License-Identifier: Apache-2.0
 *
 * float16 (IEEE 754 binary16) and bfloat16 (the upper half of a float32) to and from float32.
 * Widening is exact. Narrowing rounds to nearest, ties to even; what is too large becomes infinity,
 * NaN stays NaN (made quiet, its upper payload kept), signs stay.
 *
 * Selections are masks, not branches, so that compilers turn loops over these into vector code. No
 * conversion needs a float32 subnormal as an operand or a result, so processes that flush them to
 * zero (libraries built with -ffast-math switch that on) get the same bits.
 */
#ifndef RING_BASE_HALF_H
#define RING_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ring_float32_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float ring_float32_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* All ones where a < b, else zero; neither may be negative. A comparison would do, but gcc makes
 * branches of it and no vectors. */
static inline int32_t ring_half_below(int32_t a, int32_t b) {
  return (a - b) >> 31;
}

static inline float ring_float16_to_float32(uint16_t half) {
  int32_t magnitude = half & 0x7fff;
  int32_t subnormal = ring_half_below(magnitude, 0x0400),
          special = ring_half_below(0x7bff, magnitude);
  /* The exponent's bias grows from 15 to 127; infinity and NaN go on to the largest exponent. A
   * subnormal gets the implicit 1 that it lacks, to be taken away again. */
  int32_t bits = (magnitude << 13) + 0x38000000 + (special & 0x38000000) + (subnormal & 0x00800000);
  float excess = ring_float32_from_bits((uint32_t)(subnormal & 0x38800000));
  float value = ring_float32_from_bits((uint32_t)bits) - excess;
  return ring_float32_from_bits(ring_float32_bits(value) | (uint32_t)(half & 0x8000) << 16);
}

static inline uint16_t ring_float16_from_float32(float value) {
  uint32_t bits = ring_float32_bits(value);
  int32_t magnitude = (int32_t)(bits & 0x7fffffffu);
  int32_t subnormal = ring_half_below(magnitude, 0x38800000); /* below 2^-14 */
  int32_t infinite = ring_half_below(0x477fefff, magnitude);  /* from 65520 on, and NaN */
  int32_t nan = ring_half_below(0x7f800000, magnitude);
  int32_t normal = (magnitude - 0x38000000 + 0x0fff + ((magnitude >> 13) & 1)) >> 13;
  /* A float32 in [0.5, 1) counts in steps of 2^-24, float16's subnormals: the addition rounds. */
  float shifted = ring_float32_from_bits((uint32_t)magnitude) + 0.5f;
  int32_t small = (int32_t)ring_float32_bits(shifted) - 0x3f000000;
  int32_t finite = (small & subnormal) | (normal & ~subnormal);
  int32_t payload = 0x0200 | ((magnitude >> 13) & 0x03ff);
  int32_t half = (finite & ~infinite) | (0x7c00 & infinite) | (payload & nan);
  return (uint16_t)((uint32_t)half | ((bits >> 16) & 0x8000u));
}

static inline float ring_bfloat16_to_float32(uint16_t half) {
  int32_t nan = ring_half_below(0x7f80, half & 0x7fff);
  return ring_float32_from_bits((uint32_t)half << 16 | ((uint32_t)nan & 0x00400000u));
}

static inline uint16_t ring_bfloat16_from_float32(float value) {
  uint32_t bits = ring_float32_bits(value);
  uint32_t nan = (uint32_t)ring_half_below(0x7f800000, (int32_t)(bits & 0x7fffffffu));
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  uint32_t quiet = bits >> 16 | 0x0040u;
  return (uint16_t)((quiet & nan) | (rounded & ~nan));
}

#endif
