/* SPDX-License-Identifier: Apache-2.0
 *
 * Element types of DLPack, by the names of the core's.
 */
#ifndef SPARKRING_DLPACK_DTYPE_H
#define SPARKRING_DLPACK_DTYPE_H

#include <stdbool.h>

#include "dlpack_abi.h"
#include "sparkring.h"

/* False for an element type that the core has not. */
bool dlpack_dtype_read(dlpack_dtype dtype, ring_dtype *found);

dlpack_dtype dlpack_dtype_of(ring_dtype dtype);

/* Writes "uint16". */
void dlpack_dtype_print(dlpack_dtype dtype, char *text, size_t size);

#endif
