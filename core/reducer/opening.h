/* SPDX-License-Identifier: Apache-2.0
 *
 * How a reducer comes to be: its options, its parts, what the ranks agree on; and how its memory goes.
 */
#ifndef RING_REDUCER_OPENING_H
#define RING_REDUCER_OPENING_H

#include "reducer/cycle.h"

/* Frees a reducer whose thread has ended, without its communicator and its device. */
void ring_reducer_release(ring_reducer *reducer);

#endif
