/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends the wait reports of this rank (peers/wait_report.h) over all its links.
 */
#ifndef RING_ENGINE_DETECTOR_OUTBOX_H
#define RING_ENGINE_DETECTOR_OUTBOX_H

#include "engine/run.h"

/* Sends a wait report over all links that stand between two frames, if the report is due or differs
 * from the latest report of `search`. Returns whether it has sent the report. */
bool ring_outbox_send(const ring_run *run, ring_search *search, const ring_wait_report *report,
                      bool due);

/* Withdraws the latest report of `search`, if this rank sent it in the call of `run`: sends a
 * report without suspects. */
void ring_outbox_withdraw(const ring_run *run, ring_search *search);

#endif
