/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbolic verifier: runs the schedules of all ranks on values that record which contributions
 * they hold, and checks that each element of each output holds each contribution exactly once. A
 * lane may be ahead of or behind any other as far as its watermarks allow, so a case runs under
 * several orders (receives first, sends first, random pieces). A send copies its values when it
 * happens, as a socket does.
 */
#ifndef RING_VERIFIER_H
#define RING_VERIFIER_H

#include "schedule/schedule.h"

#define RANKS (SPARKRING_SANITIZED ? 16 : 40) /* sanitizers are slow */
#define RANKS_SPLIT (SPARKRING_SANITIZED ? RANKS : 24)

/* Contributions (a bit a rank) and the element they belong to. */
typedef struct value {
  uint64_t ranks;
  uint64_t element;
  bool wide; /* an accumulator */
} value;

typedef struct pipe {
  value *values;
  uint64_t written, read;
  uint64_t steps_sent, steps_received; /* ends of steps travel, too */
} pipe;

typedef struct machine {
  int size;
  bool widen; /* scratch holds accumulators, and the flags of all steps have to mark them */
  ring_schedule schedules[RANKS];
  value *spaces[RANKS][3];
  pipe pipes[RANKS][RANKS];
  uint64_t *watermarks[RANKS];
  uint64_t *elements[RANKS]; /* done of the lane's current step */
  size_t *steps[RANKS];
  unsigned order;
  uint64_t random;
} machine;

enum { RECEIVES_FIRST, SENDS_FIRST, RANDOM_PIECES, ORDERS };

/* The call to plan: the part of each rank in `parts`; of collectives without parts, all of
 * count. */
typedef struct plan_case {
  int size, root;
  bool in_place;
  uint64_t count;
  ring_parts parts;
  bool widen;
  const int *node; /* of hierarchical ones: rank by rank, the host */
  ring_hierarchy shape;
} plan_case;

/* A kind of collective: how many elements a rank has, and what its output is to be. `place` is where
 * in the output the input lies when in place; NOWHERE where there is no such thing. */
typedef struct collective {
  uint64_t (*inputs)(const plan_case *c, int rank);
  uint64_t (*outputs)(const plan_case *c, int rank);
  value (*expected)(const plan_case *c, int rank, uint64_t i);
  int64_t (*place)(const plan_case *c, int rank);
} collective;

typedef ring_status (*planner)(ring_schedule *s, int rank, const plan_case *c);

/* The collectives, as they are to be. */
extern const collective verified_allreduce, verified_reduce, verified_broadcast, verified_allgather,
    verified_gather, verified_scatter, verified_reduce_scatter, verified_scan, verified_exscan,
    verified_alltoall;

/* Every count of a rank, of collectives without parts. */
uint64_t whole(const plan_case *c, int rank);

/* A random number. */
uint64_t draw(machine *m);

/* A machine whose rank r holds as input elements of contribution r. */
machine *make_machine(const collective *kind, planner plan, const plan_case *c);
void free_machine(machine *m, const collective *kind, const plan_case *c);

/* Gives a lane one turn of up to `most` elements; true when anything moved. */
bool turn(machine *m, int rank, size_t index, uint64_t most);

/* Runs until all lanes of all ranks have finished. A pass in which nothing moves is a deadlock. */
void run_machine(machine *m);

/* Runs a case under one order, or under each, and checks all outputs. */
void verify_order(const collective *kind, planner plan, const plan_case *c, unsigned order);
void verify_case(const collective *kind, planner plan, const plan_case *c);

#endif
