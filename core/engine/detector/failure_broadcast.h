/* SPDX-License-Identifier: Apache-2.0
 *
 * Broadcasts a failure. A rank that fails, or receives a failure, reports it once on all its links,
 * so that every rank receives the first failure and its cause.
 */
#ifndef RING_ENGINE_DETECTOR_FAILURE_BROADCAST_H
#define RING_ENGINE_DETECTOR_FAILURE_BROADCAST_H

#include "engine/run.h"

/* Sends an error to every linked rank that has not received one, within a fraction of a second.
 * While the communicator opens, also sends it on links that open only now. task: the task that
 * failed, or NULL when none was running. */
void ring_failure_broadcast(ring_engine *engine, const ring_task *task, const ring_error *error);

#endif
