/* SPDX-License-Identifier: Apache-2.0
 *
 * Algorithms as data. A schedule lists the actions of one rank in a collective as lanes of steps,
 * without I/O, pointers or dtype. A lane is an in-order queue: sends to one peer, receives from one
 * peer, or local copies. Steps of two lanes run independently of each other, except that a step may
 * follow the watermark of another lane. There is at most one lane for each peer and direction. One
 * send step matches one receive step of the peer.
 *
 * The watermark of a lane is the number of elements it has moved plus the number of steps it has
 * finished. Element i of a step with `after` and `mark` may move once that lane's watermark is at
 * least mark + i + 1. The step may finish once the watermark is at least mark + count + 1. So a
 * step that forwards received data follows it element by element, without further steps; the same
 * rule orders steps without elements (of a barrier). A step with RING_STEP_WHOLE instead begins
 * once the watermark is at least mark.
 *
 * Only sends and local steps wait for a lane. Receives never wait, so that the failure of a peer is
 * not held up behind data that it sent before. Data that may not be reduced yet is received in
 * scratch, and a local COMBINE reduces it in its turn.
 */
#ifndef RING_SCHEDULE_SCHEDULE_H
#define RING_SCHEDULE_SCHEDULE_H

#include <stdbool.h>

#include "sparkring.h"

typedef enum ring_step_op {
  RING_STEP_SEND,   /* source → peer */
  RING_STEP_RECV,   /* peer → destination */
  RING_STEP_REDUCE, /* source op (what the peer sent) → destination */
  RING_STEP_COPY,   /* source → destination */
  RING_STEP_COMBINE /* source op scratch[with] → destination */
} ring_step_op;

/* The memory that an offset counts from. INPUT and OUTPUT are buffers of the caller; SCRATCH
 * holds accumulators. */
typedef enum ring_space { RING_SPACE_INPUT, RING_SPACE_OUTPUT, RING_SPACE_SCRATCH } ring_space;

enum {
  RING_STEP_WIDE = 1,        /* the received data, or scratch[with], are accumulators */
  RING_STEP_SOURCE_WIDE = 2, /* COMBINE, COPY to the output: so is the source */
  RING_STEP_SWAPPED = 4,     /* COMBINE: scratch[with] op source */
  RING_STEP_LAST = 8,        /* the last reduction of its elements; an average is divided here */
  RING_STEP_WHOLE = 16       /* waits for the watermark as a whole, not element by element */
};

enum { RING_STEP_FREE = -1 }; /* `after` of a step that waits for no lane */

typedef struct ring_step {
  uint8_t op, source, destination, flags;
  int32_t after;
  uint64_t mark;
  uint64_t from; /* in elements of the source space */
  uint64_t to;   /* in elements of the destination space */
  uint64_t with; /* COMBINE: in elements of scratch */
  uint64_t count;
} ring_step;

typedef enum ring_lane_kind { RING_LANE_SEND, RING_LANE_RECV, RING_LANE_LOCAL } ring_lane_kind;

typedef struct ring_lane {
  ring_lane_kind kind;
  int peer; /* -1 for RING_LANE_LOCAL */
  size_t first, count;
} ring_lane;

typedef struct ring_schedule {
  ring_lane *lanes;
  ring_step *steps;
  size_t lane_count, step_count;
  size_t lane_capacity, step_capacity;
  uint64_t scratch; /* accumulators needed */
  bool reduces;     /* some step is a REDUCE */
} ring_schedule;

/* A schedule without lanes. */
extern const ring_schedule ring_schedule_empty;

/* A buffer cut into one part a rank. Part i begins at offsets[i] and ends at offsets[i+1].
 * Without offsets, all parts have `count` elements. */
typedef struct ring_parts {
  const uint64_t *offsets;
  uint64_t count;
} ring_parts;

/* A zeroed schedule is empty. Building into a schedule again reuses its memory. Builders are
 * named after the collective and the algorithm, and return RING_OK or RING_NO_MEMORY. With
 * `widen`, partial results travel as accumulators. */
void ring_schedule_free(ring_schedule *schedule);

/* Ring (Patarasuk and Yuan, 2009): size-1 rounds reduce, size-1 rounds gather. */
ring_status ring_schedule_allreduce_ring(ring_schedule *schedule, int rank, int size,
                                         uint64_t count, bool widen);

/* All ranks send everything to all and reduce in rank order. One round. */
ring_status ring_schedule_allreduce_direct(ring_schedule *schedule, int rank, int size,
                                           uint64_t count, bool widen);

/* Recursive doubling. Each rank beyond a power of two is folded into another rank. */
ring_status ring_schedule_allreduce_doubling(ring_schedule *schedule, int rank, int size,
                                             uint64_t count, bool widen);

/* Recursive halving, then recursive doubling (Rabenseifner, 2004), folded likewise. Not for
 * dtypes whose accumulators are wider. */
ring_status ring_schedule_allreduce_halving(ring_schedule *schedule, int rank, int size,
                                            uint64_t count);

/* The shape of a hierarchical allreduce, and the choice of the builder. `smallest` is the least
 * number of ranks on a host. */
typedef enum ring_inter_host_name {
  RING_INTER_HOST_DOUBLING,
  RING_INTER_HOST_HALVING,
  RING_INTER_HOST_RING
} ring_inter_host_name;

typedef struct ring_hierarchy {
  int shards; /* `smallest` at most; 0: chosen by the builder */
  ring_inter_host_name inter_host;
} ring_hierarchy;

ring_hierarchy ring_hierarchy_choose(uint64_t count, int hosts, int smallest);

/* Reduce-scatter within each host, allreduce of each shard across hosts, allgather within each
 * host. node[r], from 0 to size-1, is the host of rank r; all ranks pass the same. */
ring_status ring_schedule_allreduce_hierarchical(ring_schedule *schedule, int rank, int size,
                                                 const int *node, uint64_t count, bool widen,
                                                 ring_hierarchy shape);

/* Part `rank` of the reduced input ends in the output. Ring of size-1 rounds, or one round in
 * which all ranks send all parts directly. */
ring_status ring_schedule_reduce_scatter_ring(ring_schedule *schedule, int rank, int size,
                                              ring_parts parts, bool widen);
ring_status ring_schedule_reduce_scatter_direct(ring_schedule *schedule, int rank, int size,
                                                ring_parts parts, bool widen);

/* Binomial tree; or a chain of all ranks, through which long buffers flow in chunks. */
ring_status ring_schedule_broadcast_tree(ring_schedule *schedule, int rank, int size,
                                         uint64_t count, int root);
ring_status ring_schedule_broadcast_chain(ring_schedule *schedule, int rank, int size,
                                          uint64_t count, int root);
ring_status ring_schedule_reduce_tree(ring_schedule *schedule, int rank, int size, uint64_t count,
                                      int root, bool widen);
ring_status ring_schedule_reduce_chain(ring_schedule *schedule, int rank, int size, uint64_t count,
                                       int root, bool widen);

/* Scan, inclusive or exclusive, which writes no output on rank 0: ceil(log2 size) rounds (Hillis and
 * Steele, 1986); or a chain of all ranks. */
ring_status ring_schedule_scan_doubling(ring_schedule *schedule, int rank, int size, uint64_t count,
                                        bool widen, bool exclusive);
ring_status ring_schedule_scan_chain(ring_schedule *schedule, int rank, int size, uint64_t count,
                                     bool widen, bool exclusive);

/* Ring of size-1 rounds, or ceil(log2 size) rounds of growing blocks (Bruck et al., 1997). Every
 * block is received at its place, so there is no rotation at the end. */
ring_status ring_schedule_allgather_ring(ring_schedule *schedule, int rank, int size,
                                         ring_parts parts);
ring_status ring_schedule_allgather_bruck(ring_schedule *schedule, int rank, int size,
                                          ring_parts parts);

/* Binomial tree, whose inner ranks store the parts of their subtree; or directly. */
ring_status ring_schedule_gather_tree(ring_schedule *schedule, int rank, int size, ring_parts parts,
                                      int root);
ring_status ring_schedule_gather_direct(ring_schedule *schedule, int rank, int size,
                                        ring_parts parts, int root);
ring_status ring_schedule_scatter_tree(ring_schedule *schedule, int rank, int size,
                                       ring_parts parts, int root);
ring_status ring_schedule_scatter_direct(ring_schedule *schedule, int rank, int size,
                                         ring_parts parts, int root);

/* Pairwise: round d sends to the rank d ahead; the parts of input and output may differ. Or
 * ceil(log2 size) rounds of Bruck, in which every block travels by the bits of its distance. */
ring_status ring_schedule_alltoall_pairwise(ring_schedule *schedule, int rank, int size,
                                            ring_parts input, ring_parts output);
ring_status ring_schedule_alltoall_bruck(ring_schedule *schedule, int rank, int size,
                                         uint64_t count);

/* Dissemination (Hensgen, Finkel and Manber, 1988): round k sends to the rank 2^k ahead. */
ring_status ring_schedule_barrier(ring_schedule *schedule, int rank, int size);

/* One message between two ranks. */
ring_status ring_schedule_send(ring_schedule *schedule, int peer, uint64_t count);
ring_status ring_schedule_recv(ring_schedule *schedule, int peer, uint64_t count);

#endif
