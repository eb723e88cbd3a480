/* SPDX-License-Identifier: Apache-2.0
 *
 * Across the hosts of a hierarchical allreduce (hierarchical.c): the drivers of a shard, one
 * a host, reduce it. Each algorithm is a ring_inter_host_way; they are in schedule_across_<name>.c.
 *
 * A driver has the sum of its host in scratch at `sum`, or, alone on its host, in its input. What
 * comes from other hosts lands in scratch from `came` on. The result ends in the output.
 *
 * Pieces are what the ranks of a host exchange with their drivers, in this order: the parts of a
 * shard in which this host's rounds need it, and those in which the result becomes complete. Both
 * ends know them from the host alone.
 */
#ifndef RING_SCHEDULE_INTER_HOST_H
#define RING_SCHEDULE_INTER_HOST_H

#include "schedule/builder.h"

typedef struct ring_inter_host ring_inter_host;

typedef struct ring_inter_host_way {
  /* How many pieces, and where one of them lies in a shard of so many elements. */
  int (*given)(const ring_inter_host *a);
  uint64_t (*given_piece)(const ring_inter_host *a, uint64_t shard, int piece, uint64_t *length);
  int (*results)(const ring_inter_host *a);
  uint64_t (*result_piece)(const ring_inter_host *a, uint64_t shard, int piece, uint64_t *length);
  void (*receive)(ring_inter_host *a); /* lanes from other hosts; sets the scratch they need */
  void (*combine)(const ring_inter_host *a);      /* adds up this host, too */
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
  uint64_t begin, length; /* of this rank's shard */
  uint64_t sum, came;     /* in scratch */
  int32_t heard, local;   /* lanes: the first from another host, and the combines */
  int inside, rounds;     /* doubling and halving: of so many hosts, 2^rounds */
  int partner, folds;     /* and a host beyond them, or the one of them for it; folds: 0 or 1 */
  bool folded;            /* this host is one beyond them */
};

/* Of doubling and halving: who is folded, for whom the last way is. */
void ring_inter_host_fold(ring_inter_host *a);

extern const ring_inter_host_way ring_inter_host_ring, ring_inter_host_doubling,
    ring_inter_host_halving, ring_inter_host_folded;

#endif
