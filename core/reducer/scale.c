/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/scale.h"

#include <string.h>

#include "base/half.h"

#define SCALE_LOOP(type, value)                                                                    \
  do {                                                                                             \
    type *out = to;                                                                                \
    const type *in = from;                                                                         \
    for (size_t i = 0; i < count; i++) out[i] = (value);                                           \
  } while (0)

void ring_scale(ring_dtype dtype, void *to, const void *from, size_t count, double factor) {
  float narrow = (float)factor;
  if (dtype == RING_FLOAT32)
    SCALE_LOOP(float, in[i] * narrow);
  else if (dtype == RING_FLOAT64)
    SCALE_LOOP(double, in[i] * factor);
  else if (dtype == RING_FLOAT16)
    SCALE_LOOP(uint16_t, ring_float16_from_float32(ring_float16_to_float32(in[i]) * narrow));
  else if (dtype == RING_BFLOAT16)
    SCALE_LOOP(uint16_t, ring_bfloat16_from_float32(ring_bfloat16_to_float32(in[i]) * narrow));
  else if (to != from && count > 0)
    memcpy(to, from, count * ring_dtype_size(dtype));
}
