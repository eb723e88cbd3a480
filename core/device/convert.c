/* SPDX-License-Identifier: Apache-2.0 */
#include "device/convert.h"

#include <string.h>

#include "base/dtype.h"
#include "engine/reduce.h"

enum { CONVERT_CHUNK = 1024 }; /* elements that stay in the cache meanwhile */

static void convert_widen(ring_dtype dtype, const void *from, size_t first, size_t count,
                          float *out) {
  if (ring_dtype_is_half(dtype))
    ring_reduction_widen(dtype, out, (const uint16_t *)from + first, count);
  else
    memcpy(out, (const float *)from + first, count * sizeof *out);
}

static void convert_narrow(ring_dtype dtype, const float *values, size_t first, size_t count,
                           void *to) {
  if (ring_dtype_is_half(dtype))
    ring_reduction_narrow(dtype, (uint16_t *)to + first, values, count);
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
    for (size_t i = 0; i < some; i++) out[i] *= (float)scale;
    convert_narrow(to, out, first, some, output);
  }
}
