/* SPDX-License-Identifier: Apache-2.0
 *
 * Failures of the servers: an error with the rank at fault and its host in front of the text.
 */
#ifndef RING_PMI_PMI_FAILURE_H
#define RING_PMI_PMI_FAILURE_H

#include "sparkring.h"

/* Of a program that ended between MPI_Init and MPI_Finalize. */
#define RING_PMI_FAILURE_LEFT                                                                      \
  "the program closed its connection of PMI before it called MPI_Finalize"

/* Fills *error: "rank 1 (host): ...". `fault`: the rank at fault. Returns the status. */
ring_status ring_pmi_failure_set(ring_error *error, const ring_messages *messages,
                                 ring_status status, int fault, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* This rank has no memory for its server. */
ring_status ring_pmi_failure_no_memory(ring_error *error, const ring_messages *messages);

/* Rank `fault` has sent a control message that no server sends. */
ring_status ring_pmi_failure_invalid_message(ring_error *error, const ring_messages *messages,
                                             int fault);

/* Keeps the reason of a rank why PMIx cannot be served, unless that of an earlier rank is kept. Both have
 * RING_PMIX_PROBLEM bytes. */
void ring_pmi_failure_keep(char *kept, const ring_messages *messages, int rank,
                           const char *problem);

#endif
