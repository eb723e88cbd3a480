/* SPDX-License-Identifier: Apache-2.0
 *
 * Receives wait reports (peers/wait_report.h) from links that no lane reads from, and checks each
 * against the calls of this rank (mismatch.h). The engine's lanes receive the reports of their
 * links.
 */
#ifndef RING_ENGINE_DETECTOR_INBOX_H
#define RING_ENGINE_DETECTOR_INBOX_H

#include "engine/run.h"

/* Receives the wait reports that come next from a rank. Fails when a report is damaged or shows a
 * mismatch. */
ring_status ring_inbox_receive(ring_run *run, int rank);

/* Receives the wait reports that come next from each rank that no lane reads from. */
ring_status ring_inbox_receive_all(ring_run *run);

/* Receives a wait report whose header has been read as the header of a frame. */
ring_status ring_inbox_begin(ring_run *run, int rank, const uint8_t *header);

#endif
