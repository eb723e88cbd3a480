/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine executes schedules over links, driven by the calling thread (README.md).
 */
#ifndef RING_ENGINE_ENGINE_H
#define RING_ENGINE_ENGINE_H

#include "engine/run.h"

/* Runs a task to its end. On failure *error explains; the caller then passes it to
 * ring_failure_broadcast (detector/failure_broadcast.h). */
ring_status ring_engine_run(ring_engine *engine, const ring_task *task, ring_error *error);

void ring_engine_fini(ring_engine *engine);

#endif
