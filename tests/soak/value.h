/* SPDX-License-Identifier: Apache-2.0
 *
 * What buffers hold, and the plain reference. Element i of rank r's input in a call is a number
 * that follows from the call's salt, r and i, so every rank can compute what any other one has sent
 * without a message. Where nothing is reduced, and for integers, that is any bit pattern; floats
 * that are reduced are taken from so few numbers that every order of the operation is exact, NaN
 * among them for min and max. Those of a rough call are not, and are compared to within rounding
 * here, and to the bit between the ranks.
 */
#ifndef SOAK_VALUE_H
#define SOAK_VALUE_H

#include "plan.h"

/* Writes elements from `first` on of a rank's input. size: of the communicator. */
void value_fill(const plan_call *call, int size, int rank, uint64_t first, void *to, size_t count);

/* Whether `count` elements are what they should be: those from `first` on of a rank's input, or,
 * with rank REDUCED, what the call's op makes of those of all ranks. *wrong becomes the first
 * that is not. */
enum { VALUE_REDUCED = -1 };
bool value_check(const plan_call *call, int size, int rank, uint64_t first, const void *from,
                 size_t count, size_t *wrong);

#endif
