/* SPDX-License-Identifier: Apache-2.0
 *
 * One rank's side of one planned call: its buffers, the call itself, waited for or started, and the
 * check of what came out. Where a rank has its buffers (ordinary memory or the arena, aligned as
 * little as allowed, in place or not) is its own affair and decided by its own dice. Behind every
 * buffer lies a guard that must stay as it is, as must an input that is not in place.
 */
#ifndef SOAK_CALL_H
#define SOAK_CALL_H

#include "plan.h"

typedef struct call_memory {
  uint8_t *block; /* what was allocated */
  uint8_t *bytes; /* what is used */
  size_t size;
  bool arena;
} call_memory;

/* The input and output of a call; a group has several. */
typedef struct call_pair {
  size_t input, output;       /* elements */
  size_t input_at, output_at; /* in place: elements of the memory before them */
  uint64_t first;             /* the number of the input's first element */
  bool in_place;              /* both lie in memory[0] */
  call_memory memory[2];
} call_pair;

typedef struct call_live {
  const plan_call *plan;
  ring_comm *comm;
  int rank, size, root, peer;
  size_t parts[PLAN_RANKS], receives[PLAN_RANKS];
  int pair_count;
  call_pair pairs[PLAN_BUFFERS];
  ring_request *request;
} call_live;

/* Whether the rank has a part in it: everybody has, but for a message. */
bool call_concerns(const plan_call *plan, int rank, int size);

/* Makes and fills the buffers. False when out of memory. */
bool call_prepare(call_live *live, const plan_call *plan, ring_comm *comm, dice *from);

/* Makes the call, or starts it. A message is never started. */
ring_status call_run(call_live *live, bool starts);

/* After it has succeeded: whether all buffers are as they should be. If not, why. */
bool call_check(const call_live *live, char *why, size_t size);

/* A digest of the outputs. */
uint64_t call_digest(const call_live *live);

/* Frees the buffers. */
void call_end(call_live *live);

/* "allreduce(count 17, float16, sum)" */
void call_describe(const plan_call *plan, char *text, size_t size);

#endif
