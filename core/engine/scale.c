/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scale.h"

#include <math.h>
#include <string.h>

#include "base/half.h"

#define SCALE_LOOP(type, value)                                                                    \
  do {                                                                                             \
    type *out = to;                                                                                \
    const type *in = from;                                                                         \
    for (size_t i = 0; i < count; i++) out[i] = (value);                                           \
    return;                                                                                        \
  } while (0)

/* A whole number of 64 bits from a product: the conversion of a double beyond them is undefined. */
static int64_t scale_signed(double product, int64_t least, int64_t most) {
  if (product >= (double)most) return most;
  if (product <= (double)least) return least;
  return isnan(product) ? 0 : (int64_t)product;
}

static uint64_t scale_unsigned(double product, uint64_t most) {
  if (product >= (double)most) return most;
  return product > 0 ? (uint64_t)product : 0;
}

#define SCALE_SIGNED(bits)                                                                         \
  SCALE_LOOP(int##bits##_t, (int##bits##_t)scale_signed((double)in[i] * factor, INT##bits##_MIN,   \
                                                        INT##bits##_MAX))
#define SCALE_UNSIGNED(bits)                                                                       \
  SCALE_LOOP(uint##bits##_t,                                                                       \
             (uint##bits##_t)scale_unsigned((double)in[i] * factor, UINT##bits##_MAX))

void ring_scale(ring_dtype dtype, void *to, const void *from, size_t count, double factor) {
  float narrow = (float)factor;
  if (dtype == RING_COMPLEX64 || dtype == RING_COMPLEX128) count *= 2;
  switch (dtype) {
  case RING_FLOAT32:
  case RING_COMPLEX64:
    SCALE_LOOP(float, in[i] * narrow);
  case RING_FLOAT64:
  case RING_COMPLEX128:
    SCALE_LOOP(double, in[i] * factor);
  case RING_FLOAT16:
    SCALE_LOOP(uint16_t, ring_float16_from_float32(ring_float16_to_float32(in[i]) * narrow));
  case RING_BFLOAT16:
    SCALE_LOOP(uint16_t, ring_bfloat16_from_float32(ring_bfloat16_to_float32(in[i]) * narrow));
  case RING_INT8:
    SCALE_SIGNED(8);
  case RING_INT16:
    SCALE_SIGNED(16);
  case RING_INT32:
    SCALE_SIGNED(32);
  case RING_INT64:
    SCALE_SIGNED(64);
  case RING_UINT8:
    SCALE_UNSIGNED(8);
  case RING_UINT16:
    SCALE_UNSIGNED(16);
  case RING_UINT32:
    SCALE_UNSIGNED(32);
  case RING_UINT64:
    SCALE_UNSIGNED(64);
  case RING_BOOL:
    break;
  }
  if (to != from && count > 0) memcpy(to, from, count);
}
