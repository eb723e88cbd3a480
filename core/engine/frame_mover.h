/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves the frames of a run's lanes over their links, as far as they move without blocking.
 *
 * A step travels as frames of at most RING_CHUNK_BYTES of elements; a step without elements is one
 * empty frame. Both ends cut steps alike, so a receiver knows each header before it comes and reads
 * header and payload straight to their place. A frame moves when the watermark that its step
 * follows has passed its last element.
 */
#ifndef RING_ENGINE_FRAME_MOVER_H
#define RING_ENGINE_FRAME_MOVER_H

#include "engine/run.h"

/* Gives every lane one turn, and sets run->moved. The last lane comes first: sends, for which peers
 * wait, follow what is received (schedule.h). */
ring_status ring_frame_mover_turn(ring_run *run);

#endif
