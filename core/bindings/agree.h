/* SPDX-License-Identifier: Apache-2.0
 *
 * Agreement on whether a step has succeeded on all ranks. Ranks make the same calls, so the error of one
 * rank is first sent to all ranks and then raised on each: no rank blocks, and the communicator stays
 * usable.
 */
#ifndef RING_BINDINGS_AGREE_H
#define RING_BINDINGS_AGREE_H

#include "bindings/strings.h"

typedef struct ring_agreement {
  int rank;   /* the first that has failed; -1: all have succeeded */
  char *text; /* "rank 1 (host) failed: why", for the other ranks; NULL where none has failed */
} ring_agreement;

/* Finds out, on all ranks, whether the step has failed on any rank. `failure` is the error of this rank,
 * NULL for success. Collective: one sum after a success. Free `agreement` with ring_agreement_free. */
ring_status ring_agree(ring_comm *comm, const ring_string *failure, ring_agreement *agreement);

/* The same where all ranks know already that at least one of them has failed. */
ring_status ring_agree_on_failure(ring_comm *comm, const ring_string *failure,
                                  ring_agreement *agreement);

void ring_agreement_free(ring_agreement *agreement);

#endif
