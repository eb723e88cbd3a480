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
  float singles[2]; /* complex64; the first is `single` */
  double reals[2];  /* complex128; the first is `real` */
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

/* Integers and bool, whose bytes are those of an integer. */
static bool is_integer(ring_dtype dtype) {
  return ring_dtype_is_integer(dtype) || dtype == RING_BOOL;
}

static int64_t load_integer(ring_dtype dtype, const void *from) {
  bool is_signed = ring_dtype_name(dtype)[0] == 'i';
  int unused = 64 - 8 * (int)ring_dtype_size(dtype);
  uint64_t bits = 0;
  memcpy(&bits, from, ring_dtype_size(dtype)); /* this machine is little-endian */
  if (dtype == RING_BOOL) return bits != 0;
  return is_signed ? (int64_t)(bits << unused) >> unused : (int64_t)bits;
}

/* Floats of double width, in one or two parts. */
static bool is_double(ring_dtype dtype) {
  return dtype == RING_FLOAT64 || dtype == RING_COMPLEX128;
}

static number load(ring_dtype dtype, const void *from) {
  number value = {.reals = {0, 0}};
  uint16_t half;
  memcpy(&half, from, 2 <= ring_dtype_size(dtype) ? 2 : 0);
  switch (dtype) {
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
  case RING_COMPLEX64:
  case RING_COMPLEX128:
    memcpy(&value, from, ring_dtype_size(dtype));
    break;
  default:
    value.integer = load_integer(dtype, from);
  }
  return value;
}

static void store(ring_dtype dtype, void *to, number value) {
  uint16_t half = dtype == RING_FLOAT16 ? ring_float16_from_float32(value.single) : 0;
  if (dtype == RING_BFLOAT16) half = ring_bfloat16_from_float32(value.single);
  if (is_integer(dtype))
    memcpy(to, &value.integer, ring_dtype_size(dtype)); /* wraps */
  else if (ring_dtype_is_half(dtype))
    memcpy(to, &half, sizeof half);
  else
    memcpy(to, &value, ring_dtype_size(dtype));
}

void fold_put(ring_dtype dtype, void *to, int rank, size_t i) {
  number value = {.reals = {0, 0}};
  if (is_integer(dtype))
    value.integer = dtype == RING_BOOL && fold_bits(rank, i) % 3 == 0 /* else mostly true */
                        ? 0
                        : (int64_t)((uint64_t)fold_bits(rank, i) << 32 | fold_bits(rank, i + 1));
  else if (is_double(dtype))
    value.reals[0] = fold_real(rank, i), value.reals[1] = fold_real(rank, i + 1);
  else
    value.singles[0] = (float)fold_real(rank, i), value.singles[1] = (float)fold_real(rank, i + 1);
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

/* What an op does to bool, which holds no other number than 0 and 1. */
static ring_op bool_op(ring_op op) {
  if (op == RING_SUM || op == RING_MAX || op == RING_BOR) return RING_LOR;
  if (op == RING_PROD || op == RING_MIN || op == RING_BAND) return RING_LAND;
  return op == RING_BXOR ? RING_LXOR : op;
}

static int64_t combine_integers(ring_dtype dtype, ring_op op, int64_t a, int64_t b) {
  switch (op) {
  case RING_LAND:
    return a != 0 && b != 0;
  case RING_LOR:
    return a != 0 || b != 0;
  case RING_LXOR:
    return (a != 0) != (b != 0);
  case RING_BAND:
    return a & b;
  case RING_BOR:
    return a | b;
  case RING_BXOR:
    return a ^ b;
  default:
    if (dtype != RING_UINT64 && (op == RING_MIN || op == RING_MAX))
      COMBINE(int64_t, a, b);
    else
      COMBINE(uint64_t, a, b);
    return a;
  }
}

#define COMBINE_PARTS(type, a, b)                                                                  \
  do {                                                                                             \
    volatile type ac = (a)[0] * (b)[0], bd = (a)[1] * (b)[1];                                      \
    volatile type ad = (a)[0] * (b)[1], bc = (a)[1] * (b)[0];                                      \
    type real = op == RING_PROD ? ac - bd : (a)[0] + (b)[0];                                       \
    (a)[1] = op == RING_PROD ? ad + bc : (a)[1] + (b)[1];                                          \
    (a)[0] = real;                                                                                 \
  } while (0)

static number combine(ring_dtype dtype, ring_op op, number one, number other) {
  if (dtype == RING_COMPLEX128)
    COMBINE_PARTS(double, one.reals, other.reals);
  else if (dtype == RING_COMPLEX64)
    COMBINE_PARTS(float, one.singles, other.singles);
  else if (dtype == RING_FLOAT64)
    COMBINE(double, one.real, other.real);
  else if (!is_integer(dtype))
    COMBINE(float, one.single, other.single);
  else
    one.integer =
        combine_integers(dtype, dtype == RING_BOOL ? bool_op(op) : op, one.integer, other.integer);
  return one;
}

static number divide(ring_dtype dtype, number value, int size) {
  uint8_t wrapped[8];
  if (is_double(dtype)) {
    value.reals[0] /= size;
    value.reals[1] /= size;
  } else if (!is_integer(dtype)) {
    value.singles[0] /= (float)size;
    value.singles[1] /= (float)size;
  } else {
    store(dtype, wrapped, value);
    int64_t whole = load(dtype, wrapped).integer;
    value.integer =
        dtype == RING_UINT64 ? (int64_t)((uint64_t)whole / (uint64_t)size) : whole / size;
  }
  return value;
}

void fold_pair(ring_dtype dtype, ring_op op, int divisor, const void *a, const void *b, void *to) {
  number value = combine(dtype, op, load(dtype, a), load(dtype, b));
  store(dtype, to, divisor > 0 ? divide(dtype, value, divisor) : value);
}

void fold_ranks(ring_dtype dtype, ring_op op, int size, void *to, size_t i) {
  uint8_t bytes[16];
  number value = {.reals = {0, 0}};
  for (int rank = 0; rank < size; rank++) {
    fold_put(dtype, bytes, rank, i);
    number next = load(dtype, bytes);
    value = rank == 0 ? next : combine(dtype, op, value, next);
  }
  store(dtype, to, op == RING_AVG ? divide(dtype, value, size) : value);
}
