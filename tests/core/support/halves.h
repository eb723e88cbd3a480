/* SPDX-License-Identifier: Apache-2.0
 *
 * The 16-bit floats by the book: decoded and rounded with ldexp and nearbyint in double, which holds every
 * intermediate value exactly. Nothing is shared with base/half.h.
 */
#ifndef RING_HALVES_H
#define RING_HALVES_H

#include <stdint.h>

#include "sparkring.h"

typedef struct half_format {
  ring_dtype dtype;
  int fraction_bits, bias;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
} half_format;

extern const half_format half_formats[2];

const half_format *half_format_of(ring_dtype dtype);

double half_decode(const half_format *format, uint16_t half);

/* Rounds to nearest, ties to even, whatever the magnitude. NaN becomes some quiet NaN. */
uint16_t half_encode(const half_format *format, double value);

/* Any quiet NaN is as good as another. */
void half_check(const half_format *format, uint16_t actual, uint16_t expected);

#endif
