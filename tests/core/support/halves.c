/* SPDX-License-Identifier: Apache-2.0 */
#include "halves.h"

#include <math.h>

#include "base/half.h"
#include "check.h"

const half_format half_formats[] = {
    {RING_FLOAT16, 10, 15, ring_float16_to_float32, ring_float16_from_float32},
    {RING_BFLOAT16, 7, 127, ring_bfloat16_to_float32, ring_bfloat16_from_float32},
};

const half_format *half_format_of(ring_dtype dtype) {
  return dtype == RING_FLOAT16 ? &half_formats[0] : &half_formats[1];
}

double half_decode(const half_format *format, uint16_t half) {
  int fraction = half & ((1 << format->fraction_bits) - 1);
  int exponent = (half & 0x7fff) >> format->fraction_bits;
  int largest = 0x7fff >> format->fraction_bits;
  double sign = half & 0x8000 ? -1.0 : 1.0;
  if (exponent == largest) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
  int whole = exponent == 0 ? 0 : 1 << format->fraction_bits;
  int scale = (exponent == 0 ? 1 : exponent) - format->bias - format->fraction_bits;
  return sign * ldexp(whole + fraction, scale);
}

uint16_t half_encode(const half_format *format, double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  uint16_t infinity = (uint16_t)(0x7fff >> format->fraction_bits << format->fraction_bits);
  uint16_t quiet = (uint16_t)(1u << (format->fraction_bits - 1));
  if (isnan(value)) return sign | infinity | quiet;
  if (isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  int exponent = 0;
  frexp(value, &exponent);
  int lowest = 1 - format->bias;
  int scale = (exponent - 1 < lowest ? lowest : exponent - 1) - format->fraction_bits;
  double units = nearbyint(ldexp(fabs(value), -scale)); /* in the default mode: ties to even */
  if (ldexp(units, scale) >= ldexp(1, format->bias + 1)) return sign | infinity;
  int below = (scale + format->fraction_bits - lowest) << format->fraction_bits;
  return (uint16_t)(sign | (below + (int)units));
}

static int half_is_nan(const half_format *format, uint16_t half) {
  return isnan(half_decode(format, half));
}

void half_check(const half_format *format, uint16_t actual, uint16_t expected) {
  if (half_is_nan(format, expected))
    CHECK(half_is_nan(format, actual) && (actual >> (format->fraction_bits - 1) & 1));
  else
    CHECK_INT(actual, expected);
}
