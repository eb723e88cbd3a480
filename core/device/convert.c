/* SPDX-License-Identifier: Apache-2.0 */
#include "device/convert.h"

#include <string.h>

#include "base/dtype.h"
#include "base/half.h"

enum { CONVERT_CHUNK = 1024 }; /* elements that stay in the cache meanwhile */

#define CONVERT_LOOP(count, value)                                                                 \
  for (size_t i = 0; i < (count); i++) out[i] = (value)

static void convert_widen(ring_dtype dtype, const void *from, size_t first, size_t count,
                          float *out) {
  const uint16_t *halves = (const uint16_t *)from + first;
  if (dtype == RING_FLOAT16)
    CONVERT_LOOP(count, ring_float16_to_float32(halves[i]));
  else if (dtype == RING_BFLOAT16)
    CONVERT_LOOP(count, ring_bfloat16_to_float32(halves[i]));
  else
    memcpy(out, (const float *)from + first, count * sizeof *out);
}

static void convert_narrow(ring_dtype dtype, const float *values, size_t first, size_t count,
                           void *to) {
  uint16_t *out = (uint16_t *)to + first;
  if (dtype == RING_FLOAT16)
    CONVERT_LOOP(count, ring_float16_from_float32(values[i]));
  else if (dtype == RING_BFLOAT16)
    CONVERT_LOOP(count, ring_bfloat16_from_float32(values[i]));
  else
    memcpy((float *)to + first, values, count * sizeof *values);
}

void ring_convert(ring_dtype from, const void *input, ring_dtype to, void *output, size_t count,
                  double scale) {
  float out[CONVERT_CHUNK];
  if (from == to && scale == 1) {
    if (count > 0) memcpy(output, input, count * ring_dtype_size(from));
    return;
  }
  for (size_t first = 0; first < count; first += CONVERT_CHUNK) {
    size_t some = count - first < CONVERT_CHUNK ? count - first : CONVERT_CHUNK;
    convert_widen(from, input, first, some, out);
    CONVERT_LOOP(some, out[i] * (float)scale);
    convert_narrow(to, out, first, some, output);
  }
}
