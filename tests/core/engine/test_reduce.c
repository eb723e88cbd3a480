/* SPDX-License-Identifier: Apache-2.0
 *
 * Every op on every dtype against a reference that computes one element at a time, on values that
 * include every special one. The reference shares no code with the kernels: integers are folded by fold.h,
 * 16-bit floats are decoded and rounded by halves.h.
 */
#include <float.h>
#include <math.h>

#include "base/dtype.h"
#include "base/half.h"
#include "check.h"
#include "engine/reduce.h"
#include "fold.h"
#include "halves.h"
#include "values.h"

enum { COUNT_MAX = 1003, SLACK = 8 };

static const size_t counts[] = {0, 1, 7, 64, 511, 513, COUNT_MAX};

static double least(double a, double b) {
  if (isnan(a) || isnan(b)) return NAN;
  if (a == b) return signbit(a) ? a : b;
  return a < b ? a : b;
}

#define DEFINE_REDUCE_FLOATS(name, type)                                                           \
  static type name(const ring_reduction *reduction, type a, type b) {                              \
    switch (reduction->op) {                                                                       \
    case RING_SUM:                                                                                 \
      return a + b;                                                                                \
    case RING_AVG:                                                                                 \
      return reduction->divisor > 0 ? (a + b) / (type)reduction->divisor : a + b;                  \
    case RING_PROD:                                                                                \
      return a * b;                                                                                \
    case RING_MIN:                                                                                 \
      return (type)least(a, b);                                                                    \
    default:                                                                                       \
      return (type) - least(-a, -b);                                                               \
    }                                                                                              \
  }

DEFINE_REDUCE_FLOATS(reduce_floats, float)
DEFINE_REDUCE_FLOATS(reduce_doubles, double)

static const int64_t special_integers[] = {0,         1,         -1,        2,         -2,
                                           INT8_MIN,  INT8_MAX,  UINT8_MAX, INT32_MIN, INT32_MAX,
                                           INT64_MIN, INT64_MAX, 3,         -7,        100};

static const double special_floats[] = {
    0.0,     -0.0,         1.0,      -1.0,     (double)NAN, (double)INFINITY, -(double)INFINITY,
    DBL_MAX, -DBL_MAX,     FLT_MAX,  -FLT_MAX, DBL_MIN,     5e-324,           -5e-324,
    FLT_MIN, 1.401298e-45, -7.0e-45, 65504.0,  -65504.0,    5.9604645e-08,    0x1p-14};

#define LENGTH(array) (sizeof(array) / sizeof *(array))

static void store_float(ring_dtype dtype, void *to, double value) {
  float single = (float)value;
  uint16_t half = ring_dtype_is_half(dtype) ? half_encode(half_format_of(dtype), value) : 0;
  const void *from = dtype == RING_FLOAT64 ? (const void *)&value : (const void *)&single;
  memcpy(to, ring_dtype_is_half(dtype) ? &half : from, ring_dtype_size(dtype));
}

/* The first elements go through all pairs of special values (`stride` is 1 on one side and the
 * number of values on the other); the rest are random bits or, for floats, moderate values. */
static void fill(ring_dtype dtype, void *array, size_t count, int second) {
  if (ring_dtype_is_complex(dtype)) {
    fill(dtype == RING_COMPLEX64 ? RING_FLOAT32 : RING_FLOAT64, array, 2 * count, second);
    return;
  }
  size_t size = ring_dtype_size(dtype);
  int integer = ring_op_allowed(RING_LAND, dtype);
  size_t specials = integer ? LENGTH(special_integers) : LENGTH(special_floats);
  for (size_t i = 0; i < count; i++) {
    char *to = (char *)array + i * size;
    size_t chosen = second ? i / specials : i % specials;
    uint64_t bits = random_bits();
    if (i < specials * specials && integer)
      memcpy(to, &special_integers[chosen], size); /* the low bytes: little endian */
    else if (i < specials * specials)
      store_float(dtype, to, special_floats[chosen]);
    else if (integer || bits % 4 == 0)
      memcpy(to, &bits, size);
    else
      store_float(dtype, to, (double)(int64_t)bits * 0x1p-55);
  }
}

static void check_float(double actual, double expected) {
  if (isnan(expected)) {
    CHECK(isnan(actual));
    return;
  }
  CHECK(actual == expected);
  CHECK_INT(signbit(actual) != 0, signbit(expected) != 0);
}

/* Parts of element i; a product needs all four. */
#define DEFINE_CHECK_COMPLEX(name, type, reduce)                                                   \
  static void name(const ring_reduction *reduction, const void *destination, const void *local,    \
                   const void *received, size_t i) {                                               \
    const type *x = (const type *)local + 2 * i, *y = (const type *)received + 2 * i;              \
    const type *result = (const type *)destination + 2 * i;                                        \
    if (reduction->op == RING_PROD) {                                                              \
      volatile type ac = x[0] * y[0], bd = x[1] * y[1], ad = x[0] * y[1], bc = x[1] * y[0];        \
      check_float(result[0], ac - bd);                                                             \
      check_float(result[1], ad + bc);                                                             \
    } else {                                                                                       \
      for (int part = 0; part < 2; part++)                                                         \
        check_float(result[part], reduce(reduction, x[part], y[part]));                            \
    }                                                                                              \
  }

DEFINE_CHECK_COMPLEX(check_complex64, float, reduce_floats)
DEFINE_CHECK_COMPLEX(check_complex128, double, reduce_doubles)

static float load_wide(ring_dtype dtype, int wide, const void *from, size_t i) {
  if (wide) return ((const float *)from)[i];
  return (float)half_decode(half_format_of(dtype), ((const uint16_t *)from)[i]);
}

static void check_half_element(const ring_reduction *reduction, const void *destination,
                               const void *local, const void *received, size_t i) {
  ring_dtype dtype = reduction->dtype;
  float a = load_wide(dtype, reduction->local_wide, local, i);
  float b = load_wide(dtype, reduction->received_wide, received, i);
  float expected = reduce_floats(reduction, a, b);
  if (reduction->destination_wide)
    check_float(((const float *)destination)[i], expected);
  else
    half_check(half_format_of(dtype), ((const uint16_t *)destination)[i],
               half_encode(half_format_of(dtype), expected));
}

static void check_element(const ring_reduction *reduction, const void *destination,
                          const void *local, const void *received, size_t i) {
  ring_dtype dtype = reduction->dtype;
  if (ring_dtype_is_half(dtype)) {
    check_half_element(reduction, destination, local, received, i);
  } else if (dtype == RING_COMPLEX64) {
    check_complex64(reduction, destination, local, received, i);
  } else if (dtype == RING_COMPLEX128) {
    check_complex128(reduction, destination, local, received, i);
  } else if (dtype == RING_FLOAT32) {
    const float *a = local, *b = received, *result = destination;
    check_float(result[i], reduce_floats(reduction, a[i], b[i]));
  } else if (dtype == RING_FLOAT64) {
    const double *a = local, *b = received, *result = destination;
    check_float(result[i], reduce_doubles(reduction, a[i], b[i]));
  } else {
    uint8_t expected[8];
    size_t width = ring_dtype_size(dtype), at = i * width;
    fold_pair(dtype, reduction->op, reduction->divisor, (const char *)local + at,
              (const char *)received + at, expected);
    CHECK(memcmp((const char *)destination + at, expected, width) == 0);
  }
}

static _Alignas(16) char local[(COUNT_MAX + SLACK) * 16], received[(COUNT_MAX + SLACK) * 16];
static _Alignas(16) char original[(COUNT_MAX + SLACK) * 16], result[(COUNT_MAX + SLACK) * 16];

static void fill_all(const ring_reduction *reduction, size_t shift) {
  ring_dtype left = reduction->local_wide ? RING_FLOAT32 : reduction->dtype;
  ring_dtype right = reduction->received_wide ? RING_FLOAT32 : reduction->dtype;
  fill(left, local, COUNT_MAX + SLACK, 0);
  fill(right, received, COUNT_MAX + SLACK, 1);
  memcpy(original, local, sizeof local);
  memset(result, 0x5a, sizeof result);
  CHECK(shift < SLACK);
}

/* Starts `shift` elements into the arrays, so that the kernels' vectors are unaligned, too; checks
 * each element and that nothing beyond the last one was written. */
static void check_reduction(const ring_reduction *reduction, size_t count, size_t shift,
                            int in_place) {
  size_t size = ring_dtype_size(reduction->dtype);
  size_t to_size = reduction->destination_wide ? sizeof(float) : size;
  size_t local_size = reduction->local_wide ? sizeof(float) : size;
  size_t from_size = reduction->received_wide ? sizeof(float) : size;
  fill_all(reduction, shift);
  char *whole = in_place ? local : result;
  char guard[16];
  char *to = whole + shift * to_size, *end = to + count * to_size;
  memcpy(guard, end, to_size);
  const char *from = received + shift * from_size;
  ring_reduction_apply(reduction, to, local + shift * local_size, from, count);
  for (size_t i = 0; i < count; i++)
    check_element(reduction, to, original + shift * local_size, from, i);
  CHECK(memcmp(guard, end, to_size) == 0);
  if (!in_place) CHECK(memcmp(local, original, sizeof local) == 0);
}

static void check_counts(const ring_reduction *reduction) {
  for (size_t c = 0; c < LENGTH(counts); c++) {
    check_reduction(reduction, counts[c], c % 4, 0);
    if (reduction->destination_wide == reduction->local_wide)
      check_reduction(reduction, counts[c], c % 3, 1);
  }
}

static void check_widths(ring_reduction reduction) {
  int variants = ring_dtype_is_half(reduction.dtype) ? 8 : 1;
  for (int wide = 0; wide < variants; wide++) {
    reduction.received_wide = wide & 1;
    reduction.destination_wide = wide & 2;
    reduction.local_wide = wide & 4;
    check_counts(&reduction);
  }
}

static void test_every_op_on_every_dtype(void) {
  int checked = 0;
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (int op = 0; op < RING_OP_COUNT; op++) {
      if (!ring_op_allowed((ring_op)op, (ring_dtype)dtype)) continue;
      check_widths((ring_reduction){.dtype = (ring_dtype)dtype, .op = (ring_op)op});
      checked++;
    }
  CHECK_INT(checked, 8 * 11 + 10 + 4 * 5 + 2 * 3);
}

static void test_averages(void) {
  static const int divisors[] = {1, 2, 3, 7, 100, 300, 65536, 16777217, 2147483647};
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++)
    for (size_t i = 0; i < LENGTH(divisors); i++)
      if (ring_op_allowed(RING_AVG, (ring_dtype)dtype))
        check_widths(
            (ring_reduction){.dtype = (ring_dtype)dtype, .op = RING_AVG, .divisor = divisors[i]});
}

static void test_minimum_and_maximum_do_not_depend_on_order(void) {
  float zeros[2] = {0.0f, -0.0f}, swapped[2] = {-0.0f, 0.0f}, smallest[2], largest[2];
  ring_reduction minimum = {.dtype = RING_FLOAT32, .op = RING_MIN};
  ring_reduction maximum = {.dtype = RING_FLOAT32, .op = RING_MAX};
  ring_reduction_apply(&minimum, smallest, zeros, swapped, 2);
  ring_reduction_apply(&maximum, largest, zeros, swapped, 2);
  for (int i = 0; i < 2; i++) {
    CHECK(signbit(smallest[i]));
    CHECK(!signbit(largest[i]));
  }
}

static void test_halves_round_once(void) {
  uint16_t one = half_encode(&half_formats[0], 1.0),
           half_step = half_encode(&half_formats[0], 0x1p-11), out;
  float partial;
  ring_reduction first = {.dtype = RING_FLOAT16, .op = RING_SUM, .destination_wide = true};
  ring_reduction last = {.dtype = RING_FLOAT16, .op = RING_SUM, .received_wide = true};
  ring_reduction_apply(&first, &partial, &one, &half_step, 1);
  ring_reduction_apply(&last, &out, &half_step, &partial, 1);
  CHECK_INT(out, half_encode(&half_formats[0], 1.0 + 0x1p-10));
}

static void test_all_three_buffers_may_be_one(void) {
  int32_t values[9] = {0, 5, -3, 0, 1, 1 << 30, 2, 0, -1};
  ring_reduction logical = {.dtype = RING_INT32, .op = RING_LAND};
  ring_reduction_apply(&logical, values, values, values, 9);
  static const int32_t expected[9] = {0, 1, 1, 0, 1, 1, 1, 0, 1};
  CHECK(memcmp(values, expected, sizeof values) == 0);
}

/* Sums that were made elsewhere, of which some are -0. */
static void test_sums_of_elsewhere_are_finished(void) {
  enum { COUNT = 1300 };
  float wide[COUNT], floats[COUNT];
  uint16_t halves[COUNT];
  int32_t integers[COUNT];
  double parts[2 * COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    halves[i] = ring_float16_from_float32(i % 7 == 0 ? -0.0F : (float)i - 600);
    integers[i] = 3 * (int32_t)i - 2000;
    floats[i] = i % 5 == 0 ? -0.0F : 3 * (float)i;
    parts[2 * i] = 4 * (double)i;
    parts[2 * i + 1] = -0.0;
  }
  ring_reduction_widen(RING_FLOAT16, wide, halves, COUNT);
  for (size_t i = 0; i < COUNT; i++) wide[i] *= 3;
  ring_reduction_finish(RING_FLOAT16, 3, halves, wide, COUNT);
  ring_reduction_finish(RING_INT32, 3, integers, integers, COUNT);
  ring_reduction_finish(RING_FLOAT32, 3, floats, floats, COUNT);
  ring_reduction_finish(RING_COMPLEX128, 4, parts, parts, COUNT);
  for (size_t i = 0; i < COUNT; i++) {
    float half = ring_float16_to_float32(halves[i]);
    CHECK(half == (i % 7 == 0 ? 0 : (float)i - 600));
    CHECK_INT(signbit(half) != 0, i % 7 == 0 || i < 600);
    CHECK_INT(integers[i], (3 * (int32_t)i - 2000) / 3);
    CHECK(floats[i] == (i % 5 == 0 ? 0 : (float)i));
    CHECK_INT(signbit(floats[i]) != 0, i % 5 == 0);
    CHECK(parts[2 * i] == (double)i && parts[2 * i + 1] == 0 && signbit(parts[2 * i + 1]) != 0);
  }
  wide[0] = 1.00048828125F; /* halfway between two float16: to even */
  wide[1] = 65520;
  ring_reduction_finish(RING_FLOAT16, 0, halves, wide, 2);
  CHECK_INT(halves[0], 0x3c00);
  CHECK_INT(halves[1], 0x7c00);
}

static void test_nothing_to_do(void) {
  for (int dtype = 0; dtype < RING_DTYPE_COUNT; dtype++) {
    ring_reduction reduction = {.dtype = (ring_dtype)dtype, .op = RING_SUM};
    ring_reduction_apply(&reduction, NULL, NULL, NULL, 0);
  }
}

int main(void) {
  RUN(test_every_op_on_every_dtype);
  RUN(test_averages);
  RUN(test_minimum_and_maximum_do_not_depend_on_order);
  RUN(test_halves_round_once);
  RUN(test_all_three_buffers_may_be_one);
  RUN(test_sums_of_elsewhere_are_finished);
  RUN(test_nothing_to_do);
  return 0;
}
