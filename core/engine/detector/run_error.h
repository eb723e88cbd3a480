/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of a run that several units of the detector and the engine report.
 */
#ifndef RING_ENGINE_DETECTOR_RUN_ERROR_H
#define RING_ENGINE_DETECTOR_RUN_ERROR_H

#include "engine/run.h"

/* A rank called `theirs` where this rank called `own`. Returns RING_MISMATCH. */
ring_status ring_run_error_mismatch(const ring_run *run, int rank, const ring_call *theirs,
                                    const ring_call *own);

/* Bytes that a rank sent fail their checksum. Returns RING_PEER_LOST. */
ring_status ring_run_error_damage(const ring_run *run, int rank);

#endif
