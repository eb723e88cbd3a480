/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of an operation: its memory, which a collective would refuse on this rank alone.
 */
#ifndef RING_REDUCER_OPERANDS_H
#define RING_REDUCER_OPERANDS_H

#include "sparkring.h"

/* RING_INVALID for memory that is missing, not aligned, or overlaps without being in place. The description has passed
 * ring_tensor_check(). */
ring_status ring_reducer_check_operands(const ring_operation *operation, int rank,
                                        ring_error *error);

#endif
