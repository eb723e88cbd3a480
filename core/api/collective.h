/* SPDX-License-Identifier: Apache-2.0
 *
 * One collective: validates its arguments, gives it its number, has the backend run it. The arguments
 * are data (collective_args), so that a blocking call and a request differ only in when and on which
 * thread they run. entry_points.c fills the arguments; fusion.h runs groups.
 */
#ifndef RING_API_COLLECTIVE_H
#define RING_API_COLLECTIVE_H

#include "api/comm_state.h"

/* Input and output may be the same memory where element `in_at` of the input is element `out_at` of the
 * output, if `in_place` allows that. */
typedef struct collective_args {
  ring_backend_call work; /* rank, size, nodes and wait are set when it runs */
  uint64_t input_count;   /* elements that this rank reads */
  uint64_t in_at, out_at;
  bool in_place;
  ring_store *store; /* holds the copies of counts, buffers and description */
  size_t item_count; /* of a group */
  bool scaled;       /* with the factors: */
  double prescale, postscale;
} collective_args;

/* An op or dtype as the signature holds it. A value that does not fit one byte becomes one that
 * no op or dtype has. */
static inline uint8_t ring_args_code(int value) {
  return value < 0 || value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

/* Sets field by field: clearing the struct first would take as long as the rest of a short call.
 * Rank, size and nodes are set when the call runs; the store stays. */
static inline void ring_args_begin(collective_args *args, ring_collective collective,
                                   const void *input, void *output, size_t count,
                                   ring_dtype dtype) {
  args->work.outline.call = (ring_call){
      .collective = (uint8_t)collective, .dtype = ring_args_code((int)dtype), .count = count};
  args->work.outline.peer = 0;
  args->work.outline.parts = (ring_parts){NULL, 0};
  args->work.outline.received = (ring_parts){NULL, 0};
  args->work.signature = NULL;
  args->work.input = input;
  args->work.output = output;
  args->input_count = args->work.output_count = count;
  args->in_at = args->out_at = 0;
  args->in_place = true;
  args->item_count = 0;
  args->scaled = false;
}

/* Sets the communicator's error to "allreduce: <problem>". RING_INVALID. */
ring_status ring_collective_invalid(ring_comm *comm, uint8_t collective, const char *problem);

/* Checks dtype, op and buffers. RING_INVALID sets the communicator's error. */
ring_status ring_collective_check(ring_comm *comm, const collective_args *args);

/* Checks a call of the user and gives it its number. */
ring_status ring_collective_admit(ring_comm *comm, collective_args *args);

/* Runs an admitted call other than a group. A failure breaks the communicator, which keeps it. */
ring_status ring_collective_run(ring_comm *comm, collective_args *args, ring_wait *wait);

/* Records in the timeline that the call, or its time in the queue, begins or ends. */
void ring_collective_record(const ring_comm *comm, const collective_args *args,
                            ring_event_kind kind, bool begins);

/* Runs the barrier of open or close. The barrier of open also compares the selectors of all ranks. */
ring_status ring_collective_barrier(ring_comm *comm, ring_collective collective, ring_wait *wait);

/* Runs a barrier of close in the memory of the host, where calls run there: each call there compares all
 * calls before it. RING_OK at once elsewhere. */
ring_status ring_collective_barrier_shared(ring_comm *comm, ring_wait *wait);

/* Gathers one byte of each rank on all ranks, during opening: bytes[rank]. */
ring_status ring_collective_allgather_byte(ring_comm *comm, uint8_t *bytes, ring_wait *wait);

#endif
