/* SPDX-License-Identifier: Apache-2.0
 *
 * The cost of an algorithm: a model after Hockney (1994), with the terms that Thakur, Rabenseifner
 * and Gropp (2005) use to choose among algorithms. For n ranks, K bytes (the larger of a rank's two
 * buffers), p the largest power of two in n, d = log2 p, f = 1 where n > p and else 0, q = n-p, and
 * L = ceil(log2 n):
 *
 *                          rounds   messages: one, all       bytes: one              all
 *   allreduce  direct      1        n-1      n (n-1)         (n-1) K                 n (n-1) K
 *              doubling    d+2f     d+f      p d + 2 q       (d+f) K                 (p d + 2 q) K
 *              halving     2 (d+f)  2d+f     2 p d + 2 q     (2 (p-1)/p + f) K       2 (p-1+q) K
 *              ring        2 (n-1)  2 (n-1)  2 n (n-1)       2 (n-1)/n K             2 (n-1) K
 *   reduce,    tree        L        L        n-1             L K                     (n-1) K
 *   broadcast  chain       n-1      1        n-1             K + n-2 chunks          (n-1) K
 *   reduce_    direct      1        n-1      n (n-1)         (n-1)/n K               (n-1) K
 *   scatter    ring        n-1      n-1      n (n-1)         (n-1)/n K               (n-1) K
 *   allgather  bruck       L        2L-1     n L + n-1 - L   (n-1)/n K               (n-1) K
 *              ring        n-1      n-1      n (n-1)         (n-1)/n K               (n-1) K
 *   gather,    tree        L        pieces   2 (n-1) - L     (n-1)/n K               subtrees K/n
 *   scatter    direct      1        n-1      n-1             (n-1)/n K               (n-1)/n K
 *   alltoall   bruck       L        L        n L             bits K/n                bits K
 *              pairwise    1        n-1      n (n-1)         (n-1)/n K               (n-1) K
 *   scan,      doubling    L        L        n L - 2^L + 1   L K                     (n L - 2^L + 1) K
 *   exscan     chain       n-1      1        n-1             K + n-2 chunks          (n-1) K
 *   barrier    dissem.     L        L        n L             0                       0
 *
 * Rounds are messages that must follow each other. "one" is the busiest direction of the busiest
 * rank, "all" the sum over ranks. `subtrees` is the sum of the sizes of all subtrees below
 * the root, `pieces` the parts and blocks that the root's children have, `bits` the bits set in the
 * numbers below n. A chain has to fill, with one chunk a rank. Of float16 and bfloat16, partial
 * results travel as float32, which is left out here.
 *
 * Hierarchical allreduce of h hosts, at most g ranks on each, with s shards that are moved in p
 * pieces (h where the hosts form a ring, else 1), does this within a host; across hosts each shard
 * is a ring, or doubling, of h ranks and K/s bytes.
 *
 *              hierarch.  2        (s+g-2) p  2 s (g-1) p    (s+g-2)/s K             2 (g-1) K
 *
 * The time is a sum of products: `latency` for each round, `message` for each message of one rank
 * and `busy` for those of all, `path` for each byte of one rank and `shared` for those of all, and
 * `reduce` for each byte that the busiest rank reduces. `busy` and `shared` are what the ranks of
 * one host, which share processors and memory, take from each other; between hosts they are 0.
 * A row of the table corrects the sum for one algorithm: a percentage of the first three products and
 * one of the others. Everything is an integer, so that all ranks find the same least cost,
 * independently of compilers and floating point.
 *
 * The ranks of a host share its memory and its interface to other hosts. Hierarchical
 * allreduce moves bytes within and between hosts at the same time: the slower of both counts, and
 * one frame of the other, until it flows. Of the bytes of other algorithms, as many leave a
 * host as if ranks were placed at random; of rings and chains, those whose next rank is elsewhere.
 */
#ifndef RING_TUNER_COST_H
#define RING_TUNER_COST_H

#include "schedule/algorithm.h"

/* "shm", "loopback", "network". Static storage. */
const char *ring_tier_name(ring_tier tier);

/* The columns of the table above, and what the busiest rank reduces. */
typedef struct ring_effort {
  uint64_t rounds;
  uint64_t messages, all_messages;
  uint64_t bytes, all_bytes;
  uint64_t reduced;
} ring_effort;

/* For a flat algorithm that serves the collective, and 2 ranks or more; one rank
 * costs nothing. */
ring_effort ring_effort_of(ring_algorithm algorithm, uint8_t collective, int size, uint64_t bytes);

/* Of hierarchical allreduce, in a topology that is nested, on links within hosts and on those between
 * them. "All" are the ranks of the largest host, and all ranks. */
typedef struct ring_nested_effort {
  int shards;
  ring_effort inside, inter_host;
} ring_nested_effort;
ring_nested_effort ring_effort_of_hierarchical(const ring_topology *topology, uint64_t count,
                                               uint64_t bytes);

/* The time in picoseconds; UINT64_MAX where it does not fit. */
uint64_t ring_cost_of(ring_tier tier, ring_algorithm algorithm, uint8_t collective, int size,
                      uint64_t bytes);

/* The same in a topology that is nested: of a flat algorithm, and of hierarchical allreduce. */
uint64_t ring_cost_over(const ring_topology *topology, ring_algorithm algorithm, uint8_t collective,
                        uint64_t bytes);
uint64_t ring_cost_of_hierarchical(const ring_topology *topology, uint64_t count, uint64_t bytes);

/* A digest of the table: ranks whose tables differ would choose differently. */
uint64_t ring_cost_digest(void);

#endif
