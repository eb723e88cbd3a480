/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend of sparkring itself: direct access to the memory that all ranks share, where it serves
 * the call, else a schedule over links, run by the engine.
 */
#ifndef RING_BACKEND_NATIVE_H
#define RING_BACKEND_NATIVE_H

#include "backend/backend.h"
#include "engine/engine.h"
#include "shm/control_block.h"
#include "tuner/plan.h"

typedef struct ring_native {
  ring_backend base;
  ring_shm *shm; /* the communicator's */
  ring_engine engine;
  ring_plans plans;
  ring_task failed; /* the run that failed, or opening; without a schedule: none */
} ring_native;

/* Binds the backend to the communicator's peers and shared memory. It serves calls of opening at once,
 * and all calls once plans.selector is set. */
void ring_native_init(ring_native *native, ring_peers *peers, ring_shm *shm);

/* Declares that the ranks are between two calls of opening. A failure is then also sent to ranks that
 * connect only after it. */
void ring_native_set_opening(ring_native *native);

/* Whether another rank of the host, or one with a link, has reported a failure; then *error is that.
 * Takes 20 ms at most. `call`: the one that this rank is in. */
bool ring_native_peer_failed(ring_native *native, const ring_call *call, ring_error *error);

#endif
