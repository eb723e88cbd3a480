/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of a hierarchical allreduce (hierarchical.c) across hosts: the drivers of a shard, one a
 * host, reduce it. Each algorithm is a ring_inter_host_way in a file of its own,
 * inter_host_<name>.c.
 *
 * A driver has the sum of its host in scratch at `sum`, or, alone on its host, in its input. Data
 * from other hosts is received in scratch from `received` on. The result ends in the output.
 *
 * Pieces are the units that the ranks of a host exchange with their drivers: first the parts of a
 * shard in the order in which the rounds of this host need them, then the parts in the order in
 * which their result becomes complete. Both sides derive them from the host alone.
 */
#ifndef RING_SCHEDULE_INTER_HOST_H
#define RING_SCHEDULE_INTER_HOST_H

#include "schedule/builder.h"

typedef struct ring_inter_host ring_inter_host;

typedef struct ring_inter_host_way {
  /* The number of pieces, and the place of a piece in a shard of so many elements. `given`: sent
   * to the driver. `results`: sent by the driver. */
  int (*given)(const ring_inter_host *a);
  uint64_t (*given_piece)(const ring_inter_host *a, uint64_t shard, int piece, uint64_t *length);
  int (*results)(const ring_inter_host *a);
  uint64_t (*result_piece)(const ring_inter_host *a, uint64_t shard, int piece, uint64_t *length);
  void (*receive)(ring_inter_host *a); /* lanes from other hosts; sets the scratch they need */
  void (*combine)(const ring_inter_host *a);      /* includes adding up this host */
  void (*send)(const ring_inter_host *a);         /* lanes to other hosts */
  void (*send_results)(const ring_inter_host *a); /* every piece, to one rank of this host */
} ring_inter_host_way;

/* Hosts are numbered in the order of their labels, places in the order of ranks. */
struct ring_inter_host {
  ring_schedule *schedule;
  const ring_inter_host_way *way;
  ring_hierarchy shape;
  bool widen, drives;
  int hosts, host, places, place;
  int *here;    /* by place: the ranks of this host */
  int *drivers; /* by host: its rank of this place */
  int *ranks;   /* by host: how many */
  uint64_t count;
  uint64_t begin, length;    /* of this rank's shard */
  uint64_t sum, received;    /* in scratch */
  int32_t first_recv, local; /* lanes: the first that receives from a host; the combines */
  int inside, rounds;        /* doubling and halving: the hosts of the rounds, 2^rounds */
  int partner, folds;        /* a folded host and the one that serves it; folds: 0 or 1 */
  bool folded;               /* this host takes no part in the rounds */
};

/* Sets inside, rounds, partner, folds and folded, for doubling and halving. A folded host uses
 * ring_inter_host_folded. */
void ring_inter_host_fold(ring_inter_host *a);

extern const ring_inter_host_way ring_inter_host_ring, ring_inter_host_doubling,
    ring_inter_host_halving, ring_inter_host_folded;

#endif
