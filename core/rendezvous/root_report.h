/* SPDX-License-Identifier: Apache-2.0
 *
 * The root report: rank 0's explanation of a rendezvous that fails. It names the ranks that are
 * missing, were lost, disagree or cannot join.
 */
#ifndef RING_RENDEZVOUS_ROOT_REPORT_H
#define RING_RENDEZVOUS_ROOT_REPORT_H

#include "rendezvous/root_state.h"

/* The first rank whose wish for encryption differs from rank 0's, or -1. */
int ring_root_mismatch(const root_state *root);

/* The first rank whose connection ended and that has not come back in time, or -1. */
int ring_root_find_lost(const root_state *root);

/* Whether a rank has reported that it cannot join. */
bool ring_root_failed(const root_state *root);

/* The error of a rank that has joined and was lost; `how` describes the loss. Or, if this process was
 * suspended, the error that the rank timed out waiting for rank 0. */
ring_status ring_root_lost_error(const root_state *root, int rank, const char *how,
                                 ring_error *error);

/* The error of a rendezvous that ended with `status`, for all ranks. */
ring_status ring_root_explain(const root_state *root, ring_status status, ring_error *error);

/* Warns the user that rank 0 still waits, and for which ranks. */
void ring_root_warn(const root_state *root);

#endif
