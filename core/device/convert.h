/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions on the host, for calls whose GPUs have no kernels.
 */
#ifndef RING_DEVICE_CONVERT_H
#define RING_DEVICE_CONVERT_H

#include "sparkring.h"

/* output[i] = input[i] * scale for i < count. The dtypes are float32 and halves, or the same and the factor is 1. The
 * memory does not overlap. */
void ring_convert(ring_dtype from, const void *input, ring_dtype to, void *output, size_t count,
                  double scale);

#endif
