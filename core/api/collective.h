/* SPDX-License-Identifier: Apache-2.0
 *
 * Collectives: validates what is asked, chooses the algorithm, and has the engine run its schedule.
 * What is asked is data (collective_args), so a call that waits and one that is started differ
 * only in when and on which thread ring_collective_run is called. The public functions are in
 * entry_points.c.
 */
#ifndef RING_COLLECTIVE_H
#define RING_COLLECTIVE_H

#include "api/comm.h"

/* What a collective call is about. Input and output may be the same memory where element `in_at` of
 * the input is element `out_at` of the output, if `in_place` allows that. */
typedef struct collective_args {
  ring_outline outline;
  const ring_call *signature; /* what its frames say; NULL: outline.call */
  const void *input;
  uint64_t input_count, in_at; /* counts: elements that are read and written on this rank */
  void *output;
  uint64_t output_count, out_at;
  bool in_place;
  ring_store *store;       /* where its counts and buffers were copied to */
  size_t buffer_count;     /* of an allreduce_group */
  const char *description; /* of the array, in the store; NULL: none */
} collective_args;

/* "allreduce: <problem>" becomes the communicator's error. RING_INVALID. */
ring_status ring_collective_invalid(ring_comm *comm, uint8_t collective, const char *problem);

/* RING_INVALID, with the communicator's error set, for buffers or a dtype that cannot be. */
ring_status ring_collective_check(ring_comm *comm, const collective_args *request);

/* Checks a call of the user and gives it its number. */
ring_status ring_collective_admit(ring_comm *comm, collective_args *request);

/* Whether a call runs in the memory of its host: all ranks share that, and the user has not chosen an
 * algorithm for it. */
bool ring_collective_is_local(const ring_comm *comm, const ring_outline *outline);

/* Plans and runs an admitted call. A failure breaks the communicator, which then knows why. The one
 * place that all collectives go through, on whichever thread. */
ring_status ring_collective_run(ring_comm *comm, collective_args *request, ring_wait *wait);

/* Runs one that was admitted, on the calling thread and with a deadline of its own. */
ring_status ring_collective_run_here(ring_comm *comm, collective_args *request);

/* Runs the barrier inside open or close, on a communicator that has been entered. */
ring_status ring_collective_meet(ring_comm *comm, ring_collective collective, ring_wait *wait);

/* Where calls run in the memory of the host, which compares each with those before it: runs one more
 * there, so that all are compared. */
ring_status ring_collective_compare(ring_comm *comm, ring_wait *wait);

/* Tells all ranks a byte of each while the communicator is being opened: bytes[rank]. */
ring_status ring_collective_tell(ring_comm *comm, uint8_t *bytes, ring_wait *wait);

#endif
