/* SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#include <stdbool.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"

typedef union number {
  int64_t integer;
  float single;
  double real;
} number;

uint32_t fold_bits(int rank, size_t i) {
  uint32_t x = (uint32_t)i * 0x9e3779b1u + (uint32_t)(rank + 1) * 0x85ebca6bu;
  x = (x ^ x >> 15) * 0x2c1b3c6du;
  return x ^ x >> 13;
}

double fold_real(int rank, size_t i) {
  uint32_t x = fold_bits(rank, i);
  uint64_t bits = (uint64_t)(x & 16) << 59 | (uint64_t)(1017 + x % 12) << 52 | (uint64_t)x << 20;
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static bool is_integer(ring_dtype dtype) {
  return dtype <= RING_INT64;
}

static number load(ring_dtype dtype, const void *from) {
  number value = {0};
  uint16_t half;
  memcpy(&half, from, 2 <= ring_dtype_size(dtype) ? 2 : 0);
  switch (dtype) {
  case RING_INT8:
    value.integer = *(const int8_t *)from;
    break;
  case RING_UINT8:
    value.integer = *(const uint8_t *)from;
    break;
  case RING_INT32:
    value.integer = *(const int32_t *)from;
    break;
  case RING_INT64:
    value.integer = *(const int64_t *)from;
    break;
  case RING_FLOAT16:
    value.single = ring_float16_to_float32(half);
    break;
  case RING_BFLOAT16:
    value.single = ring_bfloat16_to_float32(half);
    break;
  case RING_FLOAT32:
    value.single = *(const float *)from;
    break;
  case RING_FLOAT64:
    value.real = *(const double *)from;
    break;
  }
  return value;
}

static void store(ring_dtype dtype, void *to, number value) {
  uint16_t half = dtype == RING_FLOAT16 ? ring_float16_from_float32(value.single) : 0;
  if (dtype == RING_BFLOAT16) half = ring_bfloat16_from_float32(value.single);
  if (is_integer(dtype))
    memcpy(to, &value.integer,
           ring_dtype_size(dtype)); /* wraps, as this machine is little-endian */
  else if (dtype == RING_FLOAT64)
    memcpy(to, &value.real, sizeof value.real);
  else if (dtype == RING_FLOAT32)
    memcpy(to, &value.single, sizeof value.single);
  else
    memcpy(to, &half, sizeof half);
}

void fold_put(ring_dtype dtype, void *to, int rank, size_t i) {
  number value;
  if (is_integer(dtype))
    value.integer = (int64_t)((uint64_t)fold_bits(rank, i) << 32 | fold_bits(rank, i + 1));
  else if (dtype == RING_FLOAT64)
    value.real = fold_real(rank, i);
  else
    value.single = (float)fold_real(rank, i);
  store(dtype, to, value);
}

#define COMBINE(type, a, b)                                                                        \
  do {                                                                                             \
    type x = (a), y = (b);                                                                         \
    (a) = op == RING_SUM || op == RING_AVG ? x + y                                                 \
          : op == RING_PROD                ? x * y                                                 \
          : op == RING_MIN                 ? (y < x ? y : x)                                       \
                                           : (y > x ? y : x);                                      \
  } while (0)

static number combine(ring_dtype dtype, ring_op op, number one, number other) {
  if (dtype == RING_FLOAT64)
    COMBINE(double, one.real, other.real);
  else if (!is_integer(dtype))
    COMBINE(float, one.single, other.single);
  else if (op == RING_LAND)
    one.integer = one.integer != 0 && other.integer != 0;
  else if (op == RING_LOR)
    one.integer = one.integer != 0 || other.integer != 0;
  else if (op == RING_MIN || op == RING_MAX)
    COMBINE(int64_t, one.integer, other.integer);
  else
    COMBINE(uint64_t, one.integer, other.integer);
  return one;
}

static number divide(ring_dtype dtype, number value, int size) {
  uint8_t wrapped[8];
  if (dtype == RING_FLOAT64) {
    value.real /= size;
  } else if (!is_integer(dtype)) {
    value.single /= (float)size;
  } else {
    store(dtype, wrapped, value);
    value.integer = load(dtype, wrapped).integer / size;
  }
  return value;
}

void fold_ranks(ring_dtype dtype, ring_op op, int size, void *to, size_t i) {
  uint8_t bytes[8];
  number value = {0};
  for (int rank = 0; rank < size; rank++) {
    fold_put(dtype, bytes, rank, i);
    number next = load(dtype, bytes);
    value = rank == 0 ? next : combine(dtype, op, value, next);
  }
  store(dtype, to, op == RING_AVG ? divide(dtype, value, size) : value);
}
