/* SPDX-License-Identifier: Apache-2.0
 *
 * Stalls: names that some ranks have submitted long ago and others have not. When a submission has waited
 * for the time of a warning, or for the timeout, all ranks exchange which names each of them has in
 * flight. So a warning names the ranks that miss a tensor, and a name fails on all ranks that have it.
 */
#ifndef RING_REDUCER_STALL_H
#define RING_REDUCER_STALL_H

#include "reducer/negotiation.h"

typedef struct ring_stall {
  uint64_t warn_after, timeout; /* nanoseconds; 0: never */
  uint64_t next;                /* time of the next look at the submissions */
  ring_log_fn log;
  void *log_arg;
  ring_bytes gathered;
} ring_stall;

/* Whether a submission has waited for so long that the next cycle has to exchange. Takes the mutex. */
bool ring_stall_is_due(ring_stall *stall, ring_negotiation *negotiation);

/* The exchange. Collective. */
ring_status ring_stall_run(ring_stall *stall, ring_negotiation *negotiation);

#endif
