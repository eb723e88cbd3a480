/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions of the 16-bit floats: all 65536 patterns, and float32 in the middle between two.
 */
#include <math.h>

#include "base/half.h"
#include "check.h"
#include "halves.h"
#include "values.h"

static void test_every_half_widens_and_returns(void) {
  for (size_t f = 0; f < 2; f++) {
    const half_format *format = &half_formats[f];
    for (uint32_t half = 0; half <= 0xffff; half++) {
      float wide = format->widen((uint16_t)half);
      double expected = half_decode(format, (uint16_t)half);
      CHECK_INT(signbit(wide) != 0, half >> 15);
      if (isnan(expected)) {
        uint32_t quieted = half | (1u << (format->fraction_bits - 1));
        CHECK_INT(format->narrow(wide), quieted);
        CHECK(isnan(wide) && (ring_float32_bits(wide) & 0x00400000u) != 0);
      } else {
        CHECK((double)wide == expected);
        CHECK_INT(format->narrow(wide), half);
      }
    }
  }
}

static void check_narrow(const half_format *format, float value) {
  half_check(format, format->narrow(value), half_encode(format, value));
  half_check(format, format->narrow(-value), half_encode(format, -value));
}

/* Between each half and the next one up: the middle, and the float32 on either side of it. */
static void test_narrowing_rounds_to_nearest_even(void) {
  for (size_t f = 0; f < 2; f++) {
    const half_format *format = &half_formats[f];
    for (uint32_t half = 0; half < 0x7fff; half++) {
      double low = half_decode(format, (uint16_t)half),
             high = half_decode(format, (uint16_t)(half + 1));
      if (isinf(high)) high = ldexp(1, format->bias + 1);
      if (isnan(low) || isnan(high) || isinf(low)) continue;
      float middle = (float)((low + high) / 2);
      CHECK((double)middle == (low + high) / 2);
      check_narrow(format, middle);
      check_narrow(format, nextafterf(middle, 0));
      check_narrow(format, nextafterf(middle, INFINITY));
    }
  }
}

static void test_narrowing_of_all_kinds_of_float32(void) {
  static const uint32_t special[] = {0,          1,          0x007fffff, 0x00800000, 0x7f7fffff,
                                     0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff, 0x477fefff,
                                     0x477ff000, 0x33000000, 0x33000001, 0x387fffff, 0x38800000};
  for (size_t f = 0; f < 2; f++) {
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
      check_narrow(&half_formats[f], ring_float32_from_bits(special[i]));
    for (int i = 0; i < 1000000; i++)
      check_narrow(&half_formats[f], ring_float32_from_bits((uint32_t)random_bits()));
  }
}

#ifdef __FLT16_MANT_DIG__
static void test_float16_agrees_with_the_compiler(void) {
  for (uint32_t half = 0; half <= 0xffff; half++) {
    uint16_t bits = (uint16_t)half, back;
    _Float16 value;
    memcpy(&value, &bits, sizeof value);
    float wide = ring_float16_to_float32(bits);
    CHECK(isnan(wide) ? value != value : wide == (float)value);
    float third = wide / 3;
    value = (_Float16)third;
    memcpy(&back, &value, sizeof back);
    if (!isnan(third)) CHECK_INT(ring_float16_from_float32(third), back);
  }
}
#endif

int main(void) {
  RUN(test_every_half_widens_and_returns);
  RUN(test_narrowing_rounds_to_nearest_even);
  RUN(test_narrowing_of_all_kinds_of_float32);
#ifdef __FLT16_MANT_DIG__
  RUN(test_float16_agrees_with_the_compiler);
#endif
  return 0;
}
