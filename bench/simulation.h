/* SPDX-License-Identifier: Apache-2.0
 *
 * Costs schedules without a network: an event simulation of lanes, frames and watermarks as the
 * engine runs them, on a modelled cluster of equal hosts, ranks in order of hosts.
 *
 * The model. A frame waits until its step may move and its lane has sent the one before, then for
 * its host's interface, which all ranks of the host share and which serves whoever came first; it
 * leaves in bytes / bandwidth, and its head is at the other host after alpha, where it waits
 * likewise for that interface's other direction. Between ranks of one host a message takes
 * local_alpha and each rank's own local_bandwidth in and out. What is reduced or copied takes gamma
 * a byte, on one processor a rank. There is no loss, no congestion between interfaces and no cost of
 * sending but these.
 *
 * Symmetry. Where a rotation of the hosts, or an exclusive or of their numbers, maps the schedules
 * of all ranks onto each other, all hosts do the same at the same time, and one host's ranks are
 * enough: what they receive is what they send themselves. The lanes and steps of these ranks are
 * compared with those of the ranks they are to stand for; of a large machine with some of them.
 */
#ifndef BENCH_SIMULATION_H
#define BENCH_SIMULATION_H

#include <stdbool.h>
#include <stdint.h>

#include "schedule/schedule.h"

/* Seconds, and bytes a second. */
typedef struct cluster {
  int ranks, per_host; /* a last host may have fewer */
  double alpha, bandwidth;
  double local_alpha, local_bandwidth;
  double gamma;       /* a byte */
  double frame_bytes; /* the longest frame: RING_CHUNK_BYTES of base/call.h as the engine runs */
} cluster;

/* What is run: builds the schedule of a rank of this cluster. */
typedef struct workload {
  ring_status (*build)(ring_schedule *schedule, int rank, const struct workload *w);
  int ranks;
  uint64_t count;       /* elements, for the builder */
  double element_bytes; /* any fraction, so that shares can be even as in closed forms */
  const int *node;      /* of hierarchical algorithms */
  ring_hierarchy shape;
} workload;

typedef enum symmetry { SYMMETRY_NONE, SYMMETRY_ROTATE, SYMMETRY_XOR } symmetry;

typedef struct outcome {
  const char *error; /* NULL, or why there are no figures */
  double seconds;
  uint64_t frames;
  double frame_bytes; /* as in the cluster, or more where there would be too many frames */
  symmetry symmetry;
} outcome;

/* Finds a symmetry if there is one and simulates; or, with `whole`, all ranks in any case. */
outcome simulate(const cluster *cluster, const workload *work, bool whole);

#endif
