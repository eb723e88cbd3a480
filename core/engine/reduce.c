/* SPDX-License-Identifier: Apache-2.0
 *
 * One kernel is one loop over three arrays with one expression of a and b; REDUCE_KERNEL makes it.
 * A dtype's kernels form a row of `reduce_kernels`, indexed by op, so applying a kernel is a
 * look-up. float16 and bfloat16 have no kernels: blocks that stay in the first-level cache are
 * widened, go through float32's kernel, and are narrowed. Complex sums are sums of twice as many
 * floats. Multiplication and addition are never fused, as a fused product depends on the order of its
 * factors, and so on the rank.
 *
 * Packages are built with -O2, where older gcc does not vectorise: REDUCE_VECTORISED turns
 * vectorisation on, function by function. REDUCE_INDEPENDENT promises what reduce.h requires of the
 * buffers (the same or apart), which saves the check at run time.
 */
#include "engine/reduce.h"

#include "base/dtype.h"
#include "base/half.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#define REDUCE_VECTORISED
#if __has_feature(undefined_behavior_sanitizer)
#define REDUCE_INDEPENDENT /* its checks forbid vectors, and the pragma would warn */
#else
#define REDUCE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#endif
#else
#define REDUCE_VECTORISED                                                                          \
  __attribute__((optimize("O3", "vect-cost-model=dynamic", "fp-contract=off")))
#define REDUCE_INDEPENDENT _Pragma("GCC ivdep")
#endif

typedef void reduce_kernel(void *destination, const void *local, const void *received, size_t count,
                           int divisor);

#define REDUCE_KERNEL(name, type, result)                                                          \
  REDUCE_VECTORISED static void reduce_##name(void *destination, const void *local,                \
                                              const void *received, size_t count, int divisor) {   \
    type *to = destination;                                                                        \
    const type *left = local, *right = received;                                                   \
    (void)divisor;                                                                                 \
    REDUCE_INDEPENDENT                                                                             \
    for (size_t i = 0; i < count; i++) {                                                           \
      type a = left[i], b = right[i];                                                              \
      to[i] = (type)(result);                                                                      \
    }                                                                                              \
  }

/* Sums and products are of an unsigned type, where overflow wraps; uint16_t would be promoted to int. Quotients of up to 32 bits are
 * exact after truncation when computed in double, which vectorises; integer division does not. */
#define REDUCE_INTEGER(name, type, wrap, quotient)                                                 \
  REDUCE_KERNEL(name##_sum, type, (wrap)a + (wrap)b)                                               \
  REDUCE_KERNEL(name##_avg, type, (quotient)(type)((wrap)a + (wrap)b) / (quotient)divisor)         \
  REDUCE_KERNEL(name##_prod, type, (wrap)a *(wrap)b)                                               \
  REDUCE_KERNEL(name##_min, type, a < b ? a : b)                                                   \
  REDUCE_KERNEL(name##_max, type, a > b ? a : b)                                                   \
  REDUCE_KERNEL(name##_land, type, (a != 0) & (b != 0))                                            \
  REDUCE_KERNEL(name##_lor, type, (a != 0) | (b != 0))                                             \
  REDUCE_KERNEL(name##_lxor, type, (a != 0) ^ (b != 0))                                            \
  REDUCE_KERNEL(name##_band, type, a &b)                                                           \
  REDUCE_KERNEL(name##_bor, type, a | b)                                                           \
  REDUCE_KERNEL(name##_bxor, type, a ^ b)

REDUCE_INTEGER(int8, int8_t, uint8_t, double)
REDUCE_INTEGER(uint8, uint8_t, uint8_t, double)
REDUCE_INTEGER(int16, int16_t, uint32_t, double)
REDUCE_INTEGER(uint16, uint16_t, uint32_t, double)
REDUCE_INTEGER(int32, int32_t, uint32_t, double)
REDUCE_INTEGER(uint32, uint32_t, uint32_t, double)
REDUCE_INTEGER(int64, int64_t, uint64_t, int64_t)
REDUCE_INTEGER(uint64, uint64_t, uint64_t, uint64_t)

/* The smaller of two values, by their bits: a where not a > b, b where not a < b, and the bits of
 * both or'ed where neither is smaller. So equal zeros give -0 if either is -0, and a NaN stays a
 * NaN. */
#define REDUCE_MINIMUM(name, type, bits_type)                                                      \
  static inline type reduce_##name##_minimum(type a, type b) {                                     \
    bits_type a_bits, b_bits;                                                                      \
    memcpy(&a_bits, &a, sizeof a);                                                                 \
    memcpy(&b_bits, &b, sizeof b);                                                                 \
    bits_type less = a < b ? ~(bits_type)0 : 0;                                                    \
    bits_type greater = a > b ? ~(bits_type)0 : 0;                                                 \
    bits_type bits = (a_bits & ~greater) | (b_bits & ~less);                                       \
    memcpy(&a, &bits, sizeof a);                                                                   \
    return a;                                                                                      \
  }

#define REDUCE_FLOATING(name, type, bits_type)                                                     \
  REDUCE_MINIMUM(name, type, bits_type)                                                            \
  REDUCE_KERNEL(name##_sum, type, a + b)                                                           \
  REDUCE_KERNEL(name##_avg, type, (a + b) / (type)divisor)                                         \
  REDUCE_KERNEL(name##_prod, type, a *b)                                                           \
  REDUCE_KERNEL(name##_min, type, reduce_##name##_minimum(a, b))                                   \
  REDUCE_KERNEL(name##_max, type, -reduce_##name##_minimum(-a, -b))

REDUCE_FLOATING(float32, float, uint32_t)
REDUCE_FLOATING(float64, double, uint64_t)

#define REDUCE_COMPLEX_PRODUCT(name, type)                                                         \
  REDUCE_VECTORISED static void reduce_##name##_prod(                                              \
      void *destination, const void *local, const void *received, size_t count, int divisor) {     \
    type *to = destination;                                                                        \
    const type *left = local, *right = received;                                                   \
    (void)divisor;                                                                                 \
    REDUCE_INDEPENDENT                                                                             \
    for (size_t i = 0; i < count; i++) {                                                           \
      type a = left[2 * i], b = left[2 * i + 1], c = right[2 * i], d = right[2 * i + 1];           \
      to[2 * i] = a * c - b * d;                                                                   \
      to[2 * i + 1] = a * d + b * c;                                                               \
    }                                                                                              \
  }

REDUCE_COMPLEX_PRODUCT(complex64, float)
REDUCE_COMPLEX_PRODUCT(complex128, double)

#define REDUCE_ROW(name)                                                                           \
  [RING_SUM] = reduce_##name##_sum, [RING_PROD] = reduce_##name##_prod,                            \
  [RING_MIN] = reduce_##name##_min, [RING_MAX] = reduce_##name##_max,                              \
  [RING_AVG] = reduce_##name##_avg
#define REDUCE_INTEGER_ROW(name)                                                                   \
  REDUCE_ROW(name), [RING_LAND] = reduce_##name##_land, [RING_LOR] = reduce_##name##_lor,          \
                    [RING_LXOR] = reduce_##name##_lxor, [RING_BAND] = reduce_##name##_band,        \
                    [RING_BOR] = reduce_##name##_bor, [RING_BXOR] = reduce_##name##_bxor
#define REDUCE_BOOL_ROW                                                                            \
  [RING_SUM] = reduce_uint8_lor, [RING_PROD] = reduce_uint8_land, [RING_MIN] = reduce_uint8_land,  \
  [RING_MAX] = reduce_uint8_lor, [RING_LAND] = reduce_uint8_land, [RING_LOR] = reduce_uint8_lor,   \
  [RING_LXOR] = reduce_uint8_lxor, [RING_BAND] = reduce_uint8_land, [RING_BOR] = reduce_uint8_lor, \
  [RING_BXOR] = reduce_uint8_lxor

#define REDUCE_COMPLEX_ROW(name, part)                                                             \
  [RING_SUM] = reduce_##part##_sum, [RING_PROD] = reduce_##name##_prod,                            \
  [RING_AVG] = reduce_##part##_avg

static reduce_kernel *const reduce_kernels[RING_DTYPE_COUNT][RING_OP_COUNT] = {
    [RING_BOOL] = {REDUCE_BOOL_ROW},
    [RING_INT8] = {REDUCE_INTEGER_ROW(int8)},
    [RING_UINT8] = {REDUCE_INTEGER_ROW(uint8)},
    [RING_INT16] = {REDUCE_INTEGER_ROW(int16)},
    [RING_UINT16] = {REDUCE_INTEGER_ROW(uint16)},
    [RING_INT32] = {REDUCE_INTEGER_ROW(int32)},
    [RING_UINT32] = {REDUCE_INTEGER_ROW(uint32)},
    [RING_INT64] = {REDUCE_INTEGER_ROW(int64)},
    [RING_UINT64] = {REDUCE_INTEGER_ROW(uint64)},
    [RING_FLOAT16] = {REDUCE_ROW(float32)},
    [RING_BFLOAT16] = {REDUCE_ROW(float32)},
    [RING_FLOAT32] = {REDUCE_ROW(float32)},
    [RING_FLOAT64] = {REDUCE_ROW(float64)},
    [RING_COMPLEX64] = {REDUCE_COMPLEX_ROW(complex64, float32)},
    [RING_COMPLEX128] = {REDUCE_COMPLEX_ROW(complex128, float64)},
};

#define REDUCE_CONVERT(name, from_type, to_type, convert)                                          \
  REDUCE_VECTORISED static void reduce_##name(to_type *to, const from_type *from, size_t count) {  \
    REDUCE_INDEPENDENT                                                                             \
    for (size_t i = 0; i < count; i++) to[i] = convert(from[i]);                                   \
  }

REDUCE_CONVERT(float16_widen, uint16_t, float, ring_float16_to_float32)
REDUCE_CONVERT(float16_narrow, float, uint16_t, ring_float16_from_float32)
REDUCE_CONVERT(bfloat16_widen, uint16_t, float, ring_bfloat16_to_float32)
REDUCE_CONVERT(bfloat16_narrow, float, uint16_t, ring_bfloat16_from_float32)

void ring_reduction_widen(ring_dtype dtype, float *to, const void *from, size_t count) {
  (dtype == RING_FLOAT16 ? reduce_float16_widen : reduce_bfloat16_widen)(to, from, count);
}

void ring_reduction_narrow(ring_dtype dtype, void *to, const float *from, size_t count) {
  (dtype == RING_FLOAT16 ? reduce_float16_narrow : reduce_bfloat16_narrow)(to, from, count);
}

enum { REDUCE_BLOCK = 512 };

static void reduce_halves(const ring_reduction *reduction, reduce_kernel *kernel, void *destination,
                          const void *local, const void *received, size_t count) {
  ring_dtype dtype = reduction->dtype;
  float local_block[REDUCE_BLOCK], block[REDUCE_BLOCK];
  for (size_t done = 0, length; done < count; done += length) {
    length = count - done < REDUCE_BLOCK ? count - done : REDUCE_BLOCK;
    const float *left = reduction->local_wide ? (const float *)local + done : local_block;
    const float *right = reduction->received_wide ? (const float *)received + done : block;
    float *to = reduction->destination_wide ? (float *)destination + done : block;
    if (!reduction->local_wide)
      ring_reduction_widen(dtype, local_block, (const uint16_t *)local + done, length);
    if (!reduction->received_wide)
      ring_reduction_widen(dtype, block, (const uint16_t *)received + done, length);
    kernel(to, left, right, length, reduction->divisor);
    if (!reduction->destination_wide)
      ring_reduction_narrow(dtype, (uint16_t *)destination + done, to, length);
  }
}

void ring_reduction_apply(const ring_reduction *reduction, void *destination, const void *local,
                          const void *received, size_t count) {
  ring_op op = reduction->op == RING_AVG && reduction->divisor == 0 ? RING_SUM : reduction->op;
  reduce_kernel *kernel = reduce_kernels[reduction->dtype][op];
  if (ring_dtype_is_complex(reduction->dtype) && op != RING_PROD) count *= 2;
  if (ring_dtype_is_half(reduction->dtype))
    reduce_halves(reduction, kernel, destination, local, received, count);
  else
    kernel(destination, local, received, count, reduction->divisor);
}

/* Blocks keep the partial results in the first-level cache. */
static void reduce_many(const ring_reduction *reduction, int divisor, const void *const *sources,
                        int number, void *destination, size_t count) {
  _Alignas(64) uint8_t partial[REDUCE_BLOCK * 2 * sizeof(double)];
  size_t width = ring_dtype_size(reduction->dtype);
  bool half = ring_dtype_is_half(reduction->dtype);
  for (size_t done = 0, length; done < count; done += length) {
    length = count - done < REDUCE_BLOCK ? count - done : REDUCE_BLOCK;
    const void *left = (const uint8_t *)sources[0] + done * width;
    for (int i = 1; i < number; i++) {
      bool last = i == number - 1;
      ring_reduction next = {.dtype = reduction->dtype,
                             .op = reduction->op,
                             .divisor = last ? divisor : 0,
                             .local_wide = half && i > 1,
                             .destination_wide = half && !last};
      void *to = last ? (uint8_t *)destination + done * width : partial;
      ring_reduction_apply(&next, to, left, (const uint8_t *)sources[i] + done * width, length);
      left = partial;
    }
  }
}

void ring_reduction_fold(const ring_reduction *reduction, int divisor, const void *const *sources,
                         int number, void *destination, size_t count) {
  if (number != 2) {
    reduce_many(reduction, divisor, sources, number, destination, count);
    return;
  }
  ring_reduction both = {.dtype = reduction->dtype, .op = reduction->op, .divisor = divisor};
  ring_reduction_apply(&both, destination, sources[0], sources[1], count);
}

/* Halves are divided where they are still float32. All other quotients are those of the average of two, of
 * which one adds nothing: -0 to floats, so that a sum of -0 stays -0. */
static void reduce_divide(ring_dtype dtype, int divisor, void *to, const void *from, size_t count) {
  _Alignas(64) uint8_t nothing[REDUCE_BLOCK * 2 * sizeof(double)] = {0};
  bool complex = ring_dtype_is_complex(dtype), integer = ring_dtype_is_integer(dtype);
  size_t width = ring_dtype_wide_size(dtype) / (complex ? 2 : 1);
  if (complex) count *= 2;
  for (size_t i = 0; i < REDUCE_BLOCK && !integer; i++) {
    if (width == sizeof(float))
      ((float *)(void *)nothing)[i] = -0.0F;
    else
      ((double *)(void *)nothing)[i] = -0.0;
  }
  for (size_t done = 0, length; done < count; done += length) {
    length = count - done < REDUCE_BLOCK ? count - done : REDUCE_BLOCK;
    reduce_kernels[dtype][RING_AVG]((uint8_t *)to + done * width,
                                    (const uint8_t *)from + done * width, nothing, length, divisor);
  }
}

void ring_reduction_finish(ring_dtype dtype, int divisor, void *to, const void *from,
                           size_t count) {
  if (!ring_dtype_is_half(dtype)) {
    if (divisor != 0) reduce_divide(dtype, divisor, to, from, count);
    return;
  }
  float block[REDUCE_BLOCK];
  for (size_t done = 0, length; done < count; done += length) {
    length = count - done < REDUCE_BLOCK ? count - done : REDUCE_BLOCK;
    const float *sums = (const float *)from + done;
    if (divisor != 0) reduce_divide(dtype, divisor, block, sums, length);
    ring_reduction_narrow(dtype, (uint16_t *)to + done, divisor != 0 ? block : sums, length);
  }
}
