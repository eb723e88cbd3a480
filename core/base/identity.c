/* SPDX-License-Identifier: Apache-2.0 */
#include "base/identity.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"

static double identity_real(ring_op op) {
  if (op == RING_MIN) return (double)INFINITY;
  if (op == RING_MAX) return -(double)INFINITY;
  return op == RING_PROD ? 1 : 0;
}

/* The low bytes are the integer of any width, of 64 bits at most. */
static uint64_t identity_integer(ring_dtype dtype, ring_op op) {
  bool is_signed = ring_dtype_name(dtype)[0] == 'i';
  unsigned bits = 8 * (unsigned)ring_dtype_size(dtype);
  uint64_t highest = UINT64_MAX >> (64 - bits + (is_signed ? 1 : 0));
  switch (op) {
  case RING_PROD:
  case RING_LAND:
    return 1;
  case RING_MIN:
    return highest;
  case RING_MAX:
    return is_signed ? ~highest : 0;
  case RING_BAND:
    return UINT64_MAX;
  default:
    return 0;
  }
}

/* On bool, PROD, MIN, BAND and LAND are LAND; the identity of all others is false. */
static bool identity_bool(ring_op op) {
  return op == RING_PROD || op == RING_MIN || op == RING_BAND || op == RING_LAND;
}

void ring_identity_fill(ring_dtype dtype, ring_op op, void *to, size_t count) {
  uint8_t one[2 * sizeof(double)] = {0};
  size_t width = ring_dtype_size(dtype);
  double real = identity_real(op);
  float narrow = (float)real;
  uint16_t half = dtype == RING_FLOAT16 ? ring_float16_from_float32(narrow)
                                        : ring_bfloat16_from_float32(narrow);
  if (ring_dtype_is_half(dtype))
    memcpy(one, &half, sizeof half);
  else if (dtype == RING_FLOAT32 || dtype == RING_COMPLEX64)
    memcpy(one, &narrow, sizeof narrow);
  else if (dtype == RING_FLOAT64 || dtype == RING_COMPLEX128)
    memcpy(one, &real, sizeof real);
  else if (dtype == RING_BOOL)
    one[0] = identity_bool(op);
  else
    memcpy(one, &(uint64_t){identity_integer(dtype, op)}, width); /* of a little-endian machine */
  for (size_t i = 0; i < count; i++) memcpy((uint8_t *)to + i * width, one, width);
}
