/* SPDX-License-Identifier: Apache-2.0 */
#include "values.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

uint64_t random_bits(void) {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static void put_integer(void *buffer, ring_dtype dtype, size_t i, int64_t value) {
  size_t width = ring_dtype_size(dtype);
  memcpy((uint8_t *)buffer + i * width, &value, width); /* the low bytes: little-endian */
}

void put(void *buffer, ring_dtype dtype, size_t i, double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  switch (dtype) {
  case RING_BOOL:
    ((uint8_t *)buffer)[i] = value != 0;
    break;
  case RING_FLOAT16: /* normal numbers only; the mantissa is cut */
    ((uint16_t *)buffer)[i] =
        (uint16_t)(value == 0 ? 0 : ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff));
    break;
  case RING_BFLOAT16:
    ((uint16_t *)buffer)[i] = (uint16_t)(bits >> 16);
    break;
  case RING_FLOAT32:
    ((float *)buffer)[i] = single;
    break;
  case RING_FLOAT64:
    ((double *)buffer)[i] = value;
    break;
  case RING_COMPLEX64:
    ((float *)buffer)[2 * i] = single;
    ((float *)buffer)[2 * i + 1] = 0;
    break;
  case RING_COMPLEX128:
    ((double *)buffer)[2 * i] = value;
    ((double *)buffer)[2 * i + 1] = 0;
    break;
  default:
    put_integer(buffer, dtype, i, (int64_t)value);
  }
}

double exact(int rank, size_t i) {
  return (double)((i * 7 + (size_t)rank * 3) % 5);
}

double rough(int rank, size_t i) {
  uint64_t x = (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * 0xc2b2ae35u;
  x ^= x >> 29;
  return ldexp(1.0 + (double)(x % 1021) / 1024, (int)(x >> 40 & 15) - 8);
}

uint64_t digest_of(const void *buffer, size_t bytes) {
  const uint8_t *byte = buffer;
  uint64_t digest = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < bytes; i++) digest = (digest ^ byte[i]) * UINT64_C(1099511628211);
  return digest;
}
