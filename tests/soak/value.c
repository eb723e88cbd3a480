/* SPDX-License-Identifier: Apache-2.0 */
#include "value.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define VALUE_NAN UINT64_C(0x7ff8000000000000)

static bool value_is_whole(ring_dtype dtype) {
  return dtype <= RING_INT64;
}

static uint64_t value_hash(const plan_call *call, int rank, uint64_t i) {
  uint64_t x =
      (i + call->salt) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)rank * 0xd6e8feb86659fd93;
  return (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93) >> 7;
}

/* ---- Floats ------------------------------------------------------------------------------- */

static double value_number(const plan_call *call, int size, int rank, uint64_t i) {
  static const double factors[] = {1, 2, -1, 0.5};
  uint64_t hash = value_hash(call, rank, i);
  if (call->rough) return ldexp(1 + (double)(hash % 127) / 128, (int)(hash >> 40 & 15) - 8);
  switch (call->op) {
  case RING_PROD:
    return factors[hash & 3];
  case RING_AVG:
    return size * ((double)(hash % 5) - 2);
  case RING_MIN:
  case RING_MAX:
    return hash >> 40 & 255 ? (double)(hash % 257) - 128 : NAN;
  default:
    return (double)(hash % 9) - 4;
  }
}

/* The bits of a number that the dtype can hold. */
static uint64_t value_encode(ring_dtype dtype, double number) {
  float single = (float)number;
  uint64_t wide = 0;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  memcpy(&wide, &number, sizeof wide);
  if (dtype == RING_FLOAT64) return isnan(number) ? VALUE_NAN : wide;
  if (dtype == RING_FLOAT32) return bits;
  if (dtype == RING_BFLOAT16) return bits >> 16;
  uint32_t sign = bits >> 16 & 0x8000;
  if (isnan(number)) return 0x7e00;
  if (number == 0) return sign;
  return sign | ((bits >> 23 & 0xff) - 112) << 10 | (bits >> 13 & 0x3ff);
}

static double value_decode(ring_dtype dtype, uint64_t bits) {
  double number;
  float single;
  uint32_t narrow = (uint32_t)(dtype == RING_BFLOAT16 ? bits << 16 : bits);
  memcpy(&number, &bits, sizeof number);
  memcpy(&single, &narrow, sizeof single);
  if (dtype == RING_FLOAT64) return number;
  if (dtype != RING_FLOAT16) return single;
  int exponent = (int)(bits >> 10 & 31), mantissa = (int)(bits & 0x3ff);
  double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) magnitude = mantissa == 0 ? INFINITY : NAN;
  return bits & 0x8000 ? -magnitude : magnitude;
}

static double value_fold(const plan_call *call, int size, uint64_t i) {
  double all = value_number(call, size, 0, i);
  for (int rank = 1; rank < size; rank++) {
    double one = value_number(call, size, rank, i);
    if (call->op == RING_PROD)
      all *= one;
    else if (call->op == RING_MIN || call->op == RING_MAX)
      all = isnan(one) || (!isnan(all) && (one < all) == (call->op == RING_MIN)) ? one : all;
    else
      all += one;
  }
  return call->op == RING_AVG ? all / size : all;
}

/* Each partial sum and the quotient may be off by half a unit of the last place. */
static double value_tolerance(const plan_call *call, int size) {
  if (!call->rough) return 0;
  double unit = call->dtype == RING_FLOAT64   ? DBL_EPSILON
                : call->dtype == RING_FLOAT32 ? FLT_EPSILON
                : call->dtype == RING_FLOAT16 ? 0x1p-10
                                              : 0x1p-7;
  return unit * (size + 1);
}

static bool value_is_close(double number, double wanted, double tolerance) {
  if (isnan(wanted)) return isnan(number);
  return fabs(number - wanted) <= tolerance * fabs(wanted);
}

/* ---- Integers ----------------------------------------------------------------------------- */

static uint64_t value_bits(const plan_call *call, int size, int rank, uint64_t i) {
  if (plan_kind_reduces(call->kind) && !value_is_whole(call->dtype))
    return value_encode(call->dtype, value_number(call, size, rank, i));
  uint64_t hash = value_hash(call, rank, i);
  bool logical = call->op == RING_LAND || call->op == RING_LOR;
  if (logical && (hash >> 40 & 7) == 0) return 0;
  return hash ^ hash << 50;
}

/* As the dtype holds it: cut, and widened by its sign. */
static int64_t value_wrap(ring_dtype dtype, uint64_t bits) {
  switch (dtype) {
  case RING_INT8:
    return (int8_t)bits;
  case RING_UINT8:
    return (uint8_t)bits;
  case RING_INT32:
    return (int32_t)bits;
  default:
    return (int64_t)bits;
  }
}

static int64_t value_combine(ring_op op, int64_t a, int64_t b) {
  switch (op) {
  case RING_PROD:
    return (int64_t)((uint64_t)a * (uint64_t)b);
  case RING_MIN:
    return a < b ? a : b;
  case RING_MAX:
    return a > b ? a : b;
  case RING_LAND:
    return a != 0 && b != 0;
  case RING_LOR:
    return a != 0 || b != 0;
  default:
    return (int64_t)((uint64_t)a + (uint64_t)b);
  }
}

static int64_t value_fold_whole(const plan_call *call, int size, uint64_t i) {
  int64_t all = value_wrap(call->dtype, value_bits(call, size, 0, i));
  if (call->op == RING_LAND || call->op == RING_LOR) all = all != 0;
  for (int rank = 1; rank < size; rank++)
    all = value_combine(call->op, all, value_wrap(call->dtype, value_bits(call, size, rank, i)));
  all = value_wrap(call->dtype, (uint64_t)all);
  return call->op == RING_AVG ? all / size : all;
}

/* ---- Buffers ------------------------------------------------------------------------------ */

void value_fill(const plan_call *call, int size, int rank, uint64_t first, void *to, size_t count) {
  size_t width = ring_dtype_size(call->dtype);
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = value_bits(call, size, rank, first + i);
    memcpy((uint8_t *)to + i * width, &bits, width); /* little-endian, as are all that we run on */
  }
}

static bool value_is_right(const plan_call *call, int size, int rank, uint64_t i, uint64_t bits) {
  uint64_t mask = UINT64_MAX >> (64 - 8 * ring_dtype_size(call->dtype));
  if (rank != VALUE_REDUCED) return bits == (value_bits(call, size, rank, i) & mask);
  if (value_is_whole(call->dtype))
    return bits == ((uint64_t)value_fold_whole(call, size, i) & mask);
  return value_is_close(value_decode(call->dtype, bits), value_fold(call, size, i),
                        value_tolerance(call, size));
}

bool value_check(const plan_call *call, int size, int rank, uint64_t first, const void *from,
                 size_t count, size_t *wrong) {
  size_t width = ring_dtype_size(call->dtype);
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)from + i * width, width);
    *wrong = i;
    if (!value_is_right(call, size, rank, first + i, bits)) return false;
  }
  return true;
}
