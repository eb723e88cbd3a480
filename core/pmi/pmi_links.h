/* SPDX-License-Identifier: Apache-2.0
 *
 * The links of the servers: a barrier with rank 0 that opens them, and reports whether each rank has a server, and each
 * host can serve PMIx. A call timeout and the hooks of the communicator end the barrier.
 */
#ifndef RING_PMI_PMI_LINKS_H
#define RING_PMI_PMI_LINKS_H

#include "pmi/pmix_message.h"
#include "sparkring.h"

/* The report of one rank, and of all ranks. */
typedef struct ring_pmi_report {
  int32_t code, rank;              /* 0, or the errno for which the rank has no server */
  char problem[RING_PMIX_PROBLEM]; /* "", or why its host does not serve PMIx */
} ring_pmi_report;

/* After RING_OK all ranks have the same report: the code of the lowest rank whose code was not 0, with this rank, and
 * the problem of the lowest rank that has one. Else ring_messages_error explains. Collective. */
ring_status ring_pmi_open_links(ring_messages *messages, ring_pmi_report *report);

#endif
