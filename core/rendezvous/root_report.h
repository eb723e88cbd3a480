/* SPDX-License-Identifier: Apache-2.0
 *
 * Root report.
 */
#ifndef RING_RENDEZVOUS_ROOT_REPORT_H
#define RING_RENDEZVOUS_ROOT_REPORT_H

#include "rendezvous/root_state.h"

/* A rank that had joined has gone: it was lost, as `how` says, or this one was stopped, and it has given
 * it up. */
ring_status ring_root_lost_error(const root_state *root, int rank, const char *how,
                                 ring_error *error);

/* The first rank that does not want the same encryption, or -1. */
int ring_root_mismatch(const root_state *root);

/* The first rank that had come and has been away for long, or -1. */
int ring_root_find_lost(const root_state *root);

/* Whether one has come that cannot join. */
bool ring_root_failed(const root_state *root);

/* Why the rendezvous has ended with a status, in words for all ranks. */
ring_status ring_root_explain(const root_state *root, ring_status status, ring_error *error);

/* Tells the log that rank 0 has waited for long, and for whom. */
void ring_root_warn(const root_state *root);

#endif
