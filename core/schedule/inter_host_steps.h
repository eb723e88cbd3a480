/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of an allreduce across hosts, which doubling, halving and the ring are built of. Each
 * function adds steps to the lane that was begun last.
 */
#ifndef RING_SCHEDULE_INTER_HOST_STEPS_H
#define RING_SCHEDULE_INTER_HOST_STEPS_H

#include "schedule/inter_host.h"

/* The piece functions of a shard that is one piece. */
int ring_inter_host_one(const ring_inter_host *a);
uint64_t ring_inter_host_whole(const ring_inter_host *a, uint64_t shard, int piece,
                               uint64_t *length);

void ring_inter_host_send(const ring_inter_host *a, ring_space space, uint64_t from, uint64_t count,
                          int32_t after, uint64_t mark);
void ring_inter_host_receive(const ring_inter_host *a, ring_space space, uint64_t to,
                             uint64_t count, bool wide);

/* Adds a combine. `step` has everything but op, destination and the flags of widths. */
void ring_inter_host_combine(const ring_inter_host *a, ring_step step, bool source_wide, bool wide,
                             bool last);

/* Sends part of the sum of this host once it is added up. `mark`: the watermark of the combines
 * then. */
void ring_inter_host_send_sum(const ring_inter_host *a, uint64_t offset, uint64_t count,
                              uint64_t mark);

/* Adds up [offset, offset + length) of the shard, once the lanes from this host have reached
 * `mark`. */
void ring_inter_host_add_up(const ring_inter_host *a, uint64_t offset, uint64_t length,
                            uint64_t mark);

/* The place of the sum of this host. A rank alone on its host adds nothing up. */
static inline ring_space inter_host_sum_space(const ring_inter_host *a) {
  return a->places > 1 ? RING_SPACE_SCRATCH : RING_SPACE_INPUT;
}

static inline uint64_t inter_host_sum(const ring_inter_host *a) {
  return a->places > 1 ? a->sum : a->begin;
}

#endif
