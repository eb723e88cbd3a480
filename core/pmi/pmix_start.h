/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts the PMIx side of all ranks' servers, in two steps, and ends it: a PMIx server starts while the ranks open
 * their links.
 */
#ifndef RING_PMI_PMIX_START_H
#define RING_PMI_PMIX_START_H

#include "pmi/pmix_side.h"

/* On a lead, starts the PMIx server of its host, or sets side->problem. Without `wanted` there is none. Does not
 * wait. */
void ring_pmix_start_begin(ring_pmix_side *side, const ring_comm *comm, bool wanted);

/* Gets the environment of this rank's program from the PMIx server. Collective, before the threads serve, and only
 * where no rank had a problem. No host has a server where one does not start, and side->problem explains. RING_OK, or
 * *error: no memory, an interrupt, or why the messages have failed. */
ring_status ring_pmix_start_finish(ring_pmix_side *side, ring_messages *messages, ring_hub *control,
                                   ring_error *error);

/* Ends the PMIx server of this host, and frees everything but side->environment and side->problem. The thread has
 * ended. Programs that still run lose their connection. */
void ring_pmix_end(ring_pmix_side *side);

#endif
