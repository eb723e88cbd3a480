/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a run's lanes: places in the buffers, watermarks, and what happens in memory. Bytes between ranks are
 * moved by the caller: frame_mover.c over links, backend/mpi_messages.c by MPI. A step is cut into frames of
 * run->chunk elements at most, by both ends alike.
 */
#ifndef RING_ENGINE_LANE_H
#define RING_ENGINE_LANE_H

#include "engine/run.h"

/* Clears the progress of all lanes, and lays out scratch and staging. RING_NO_MEMORY: run->error explains. */
ring_status ring_lane_prepare(ring_run *run);

/* Whether elements up to `end` of a step may move. */
bool ring_lane_may_move(const ring_run *run, const ring_step *step, uint64_t end);

/* Begins the next frame of a lane, of at most `chunk` elements, if they may move: progress->payload is the place of
 * *bytes to send, or to receive. The lane is not finished, and has no frame under way. Lanes to and from other ranks
 * have run->chunk. */
bool ring_lane_begin(ring_run *run, size_t lane, uint64_t chunk, size_t *bytes);

/* Copies or reduces the frame of a local lane. The caller ends it. */
void ring_lane_local(ring_run *run, size_t lane);

/* The frame has moved: reduces it, moves the watermark past it, and the lane to its next step when the current step is
 * finished. */
void ring_lane_end(ring_run *run, size_t lane);

#endif
