/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/inter_host_steps.h"

void ring_inter_host_send(const ring_inter_host *a, ring_space space, uint64_t from, uint64_t count,
                          int32_t after, uint64_t mark) {
  ring_schedule_step(a->schedule, (ring_step){.op = RING_STEP_SEND,
                                              .source = (uint8_t)space,
                                              .after = after,
                                              .mark = mark,
                                              .from = from,
                                              .count = count});
}

void ring_inter_host_receive(const ring_inter_host *a, ring_space space, uint64_t to,
                             uint64_t count, bool wide) {
  ring_schedule_step(a->schedule, (ring_step){.op = RING_STEP_RECV,
                                              .destination = (uint8_t)space,
                                              .flags = a->widen && wide ? RING_STEP_WIDE : 0,
                                              .after = RING_STEP_FREE,
                                              .to = to,
                                              .count = count});
}

void ring_inter_host_combine(const ring_inter_host *a, ring_step step, bool source_wide, bool wide,
                             bool last) {
  step.op = RING_STEP_COMBINE;
  step.destination = last ? RING_SPACE_OUTPUT : RING_SPACE_SCRATCH;
  if (a->widen && source_wide) step.flags |= RING_STEP_SOURCE_WIDE;
  if (a->widen && wide) step.flags |= RING_STEP_WIDE;
  if (last) step.flags |= RING_STEP_LAST;
  ring_schedule_step(a->schedule, step);
}

void ring_inter_host_send_sum(const ring_inter_host *a, uint64_t offset, uint64_t count,
                              uint64_t mark) {
  bool adds = a->places > 1;
  ring_inter_host_send(a, inter_host_sum_space(a), inter_host_sum(a) + offset, count,
                       adds ? a->local : RING_STEP_FREE, adds ? mark : 0);
}

void ring_inter_host_add_up(const ring_inter_host *a, uint64_t offset, uint64_t length,
                            uint64_t mark) {
  for (int away = 1; away < a->places; away++) {
    bool first = away == 1, last = away == a->places - 1 && a->hosts == 1;
    ring_step step = {.source = first ? RING_SPACE_INPUT : RING_SPACE_SCRATCH,
                      .after = away - 1,
                      .mark = mark,
                      .from = (first ? a->begin : a->sum) + offset,
                      .to = (last ? a->begin : a->sum) + offset,
                      .with = (uint64_t)(away - 1) * a->length + offset,
                      .count = length};
    ring_inter_host_combine(a, step, !first, false, last);
  }
}

int ring_inter_host_one(const ring_inter_host *a) {
  (void)a;
  return 1;
}

uint64_t ring_inter_host_whole(const ring_inter_host *a, uint64_t shard, int piece,
                               uint64_t *length) {
  (void)a, (void)piece;
  *length = shard;
  return 0;
}
