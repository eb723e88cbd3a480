/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives: validates what is asked, chooses the algorithm, and has the engine run its schedule.
 */
#ifndef RING_COLLECTIVE_H
#define RING_COLLECTIVE_H

#include "comm.h"

/* Runs the barrier inside open or close, on a communicator that has been entered. */
ring_status ring_collective_meet(ring_comm *comm, ring_collective collective, ring_wait *wait);

#endif
