/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a world: how many ranks it has and where they are, what they call in which round, and
 * what goes wrong. It follows from the seed and the number of the world alone, so every rank makes
 * it for itself, and a world that failed can be played again.
 *
 * Ranks are played by workers, processes that live on from world to world, so that what leaks adds
 * up. Who is to die is played by one of the upper half of them; the lower half, the elders, live
 * through all worlds, and their memory is what is watched.
 */
#ifndef SOAK_PLAN_H
#define SOAK_PLAN_H

#include <stddef.h>

#include "dice.h"
#include "sparkring.h"

enum {
  PLAN_RANKS = 8,
  PLAN_ELDERS = PLAN_RANKS / 2,
  PLAN_ROUNDS = 96,
  PLAN_BUFFERS = 6,
  PLAN_COLORS = 2,
  PLAN_LANES = 3
};

/* X(name, whether it reduces) */
#define PLAN_KIND_MAP(X)                                                                           \
  X(allreduce, true)                                                                               \
  X(allreduce_group, true)                                                                         \
  X(reduce, true)                                                                                  \
  X(reduce_scatter, true)                                                                          \
  X(broadcast, false)                                                                              \
  X(allgather, false)                                                                              \
  X(allgatherv, false)                                                                             \
  X(gather, false)                                                                                 \
  X(gatherv, false)                                                                                \
  X(scatter, false)                                                                                \
  X(scatterv, false)                                                                               \
  X(alltoall, false)                                                                               \
  X(alltoallv, false)                                                                              \
  X(barrier, false)                                                                                \
  X(message, false)

typedef enum plan_kind {
#define PLAN_KIND_ENUM(name, reduces) PLAN_##name,
  PLAN_KIND_MAP(PLAN_KIND_ENUM)
#undef PLAN_KIND_ENUM
#define PLAN_KIND_COUNT(name, reduces) +1
      PLAN_KINDS = 0 PLAN_KIND_MAP(PLAN_KIND_COUNT)
#undef PLAN_KIND_COUNT
} plan_kind;

const char *plan_kind_name(plan_kind kind);
bool plan_kind_reduces(plan_kind kind);

/* What all ranks of a communicator call in a round. Ranks here are those of PLAN_RANKS; a smaller
 * communicator takes them modulo its size. A message goes from root to peer. */
typedef struct plan_call {
  plan_kind kind;
  bool child; /* on the communicator that was split off */
  bool rough; /* floats whose sum depends on the order */
  ring_dtype dtype;
  ring_op op;
  size_t count;
  uint64_t salt; /* of its values, its uneven counts and its buffers */
  int root, peer;
  int buffers; /* of a group */
} plan_call;

/* What happens to the victim, and from when on. What has a delay comes from outside, at any moment:
 * so long after the victim has begun to open, to split, its round, or to close. */
typedef enum plan_family {
  PLAN_FAMILY_NONE,
  PLAN_FAMILY_KILLED,
  PLAN_FAMILY_STOPPED, /* and continued when the others have given it up */
  PLAN_FAMILY_ENDED,
  PLAN_FAMILY_DISAGREES,
  PLAN_FAMILIES
} plan_family;

typedef enum plan_moment {
  PLAN_MOMENT_NONE,
  PLAN_MOMENT_OPENING,
  PLAN_MOMENT_SPLITTING,
  PLAN_MOMENT_ROUND,
  PLAN_MOMENT_CLOSING
} plan_moment;

/* X(name, family, the moment from which its delay counts, "what it is called in reports") */
#define PLAN_FAULT_MAP(X)                                                                          \
  X(NONE, NONE, NONE, "none")                                                                      \
  X(DIES, KILLED, NONE, "killed between calls")                                                    \
  X(DIES_LATER, KILLED, ROUND, "killed at any moment")                                             \
  X(DIES_OPENING, KILLED, OPENING, "killed while opening")                                         \
  X(DIES_SPLITTING, KILLED, SPLITTING, "killed while splitting")                                   \
  X(DIES_CLOSING, KILLED, CLOSING, "killed while closing")                                         \
  X(STOPS, STOPPED, ROUND, "stopped at any moment")                                                \
  X(STOPS_OPENING, STOPPED, OPENING, "stopped while opening")                                      \
  X(STOPS_SPLITTING, STOPPED, SPLITTING, "stopped while splitting")                                \
  X(STOPS_CLOSING, STOPPED, CLOSING, "stopped while closing")                                      \
  X(ABORTS, ENDED, NONE, "aborted")                                                                \
  X(DROPS, ENDED, NONE, "freed without closing")                                                   \
  X(DIFFERS, DISAGREES, NONE, "called something different")                                        \
  X(SKIPS, DISAGREES, NONE, "left out a call")                                                     \
  X(LEAVES, DISAGREES, NONE, "closed early")

typedef enum plan_fault_kind {
#define PLAN_FAULT_ENUM(name, family, moment, text) PLAN_FAULT_##name,
  PLAN_FAULT_MAP(PLAN_FAULT_ENUM)
#undef PLAN_FAULT_ENUM
#define PLAN_FAULT_COUNT(name, family, moment, text) +1
      PLAN_FAULTS = 0 PLAN_FAULT_MAP(PLAN_FAULT_COUNT)
#undef PLAN_FAULT_COUNT
} plan_fault_kind;

const char *plan_fault_name(plan_fault_kind kind);
plan_family plan_fault_family(plan_fault_kind kind);
plan_moment plan_fault_moment(plan_fault_kind kind);

/* "killed", "stopped", "ended", "disagreed" */
const char *plan_family_name(plan_family family);

/* One rank, the victim, does it at the beginning of a round, on the communicator of that round. */
typedef struct plan_fault {
  plan_fault_kind kind;
  int rank;
  int round;
  int delay_us; /* of what comes at any moment */
} plan_fault;

typedef struct plan_world {
  uint64_t seed, number;
  int size;
  int worker[PLAN_RANKS]; /* that plays the rank */
  bool shares;            /* memory, where ranks have the same host */
  int connections;        /* of links between hosts, and of all where no memory is shared */
  bool encrypts;
  bool exchanges; /* the rendezvous is by an exchange, not by addresses */
  int host[PLAN_RANKS];
  char algorithms[256];
  bool splits;
  int color[PLAN_RANKS], key[PLAN_RANKS];
  int depth; /* requests that a rank may have outstanding */
  int rounds;
  plan_call calls[PLAN_ROUNDS];
  plan_fault fault;
  bool twice; /* a second time, which has to give the same bits */
} plan_world;

/* What links may be: TCP, the same encrypted, shared memory where ranks have the same host, or, world
 * by world, any of them. */
typedef enum plan_link { PLAN_LINK_ANY, PLAN_LINK_TCP, PLAN_LINK_TLS, PLAN_LINK_SHM } plan_link;

/* What the user has fixed. */
typedef struct plan_bounds {
  uint64_t seed;
  int ranks_from, ranks_to;
  double faults;    /* the share of worlds that have one */
  plan_family only; /* NONE: faults of any family */
  plan_link link;
} plan_bounds;

void plan_make(plan_world *world, const plan_bounds *bounds, uint64_t number);

/* The rank that a rank of the world has in its child, the child's size, and back. */
int plan_child_rank(const plan_world *world, int rank);
int plan_child_size(const plan_world *world, int rank);

/* "shm", "tcp", "tls, connections", "shm and tcp" */
const char *plan_link_name(const plan_world *world);

/* "world 17: 5 ranks on 2 hosts, shm, ..." */
void plan_describe(const plan_world *world, char *text, size_t size);

#endif
