/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two communicators of the same ranks: what every collective writes, bit for bit.
 */
#ifndef RING_TEST_MPI_COMPARE_H
#define RING_TEST_MPI_COMPARE_H

#include <stdbool.h>

#include "sparkring.h"

/* Every collective with every dtype and op that it takes, in place and not. Without `all` a sample, in which every
 * collective, and every op on every dtype, still occurs. */
void compare_all(ring_comm *comms[2], bool all);

/* Every collective where only some ranks work in place: libraries choose algorithms by it. */
void compare_places(ring_comm *comms[2]);

#endif
