/* SPDX-License-Identifier: Apache-2.0 */
#include "tuner/plan.h"

#include "base/dtype.h"

/* ---- Building ----------------------------------------------------------------------------- */

static ring_status plan_reduction(ring_schedule *s, const ring_outline *o,
                                  ring_algorithm algorithm) {
  uint64_t count = o->call.count;
  bool widen = ring_dtype_is_half((ring_dtype)o->call.dtype);
  bool counted = o->call.collective == RING_COLLECTIVE_REDUCE_SCATTERV;
  bool scatters = ring_collective_scatters_sums(o->call.collective);
  ring_parts parts = counted ? o->parts : (ring_parts){NULL, count};
  switch (algorithm) {
  case RING_ALGORITHM_DIRECT:
    return scatters ? ring_schedule_reduce_scatter_direct(s, o->rank, o->size, parts, widen)
                    : ring_schedule_allreduce_direct(s, o->rank, o->size, count, widen);
  case RING_ALGORITHM_DOUBLING:
    return ring_schedule_allreduce_doubling(s, o->rank, o->size, count, widen);
  case RING_ALGORITHM_HALVING:
    return ring_schedule_allreduce_halving(s, o->rank, o->size, count);
  case RING_ALGORITHM_HIERARCHICAL:
    return ring_schedule_allreduce_hierarchical(s, o->rank, o->size, o->nodes, count, widen,
                                                (ring_hierarchy){0});
  case RING_ALGORITHM_TREE:
    return ring_schedule_reduce_tree(s, o->rank, o->size, count, o->call.root, widen);
  case RING_ALGORITHM_CHAIN:
    return ring_schedule_reduce_chain(s, o->rank, o->size, count, o->call.root, widen);
  default:
    return scatters ? ring_schedule_reduce_scatter_ring(s, o->rank, o->size, parts, widen)
                    : ring_schedule_allreduce_ring(s, o->rank, o->size, count, widen);
  }
}

static ring_status plan_scan(ring_schedule *s, const ring_outline *o, ring_algorithm algorithm) {
  bool exclusive = o->call.collective == RING_COLLECTIVE_EXSCAN;
  bool widen = ring_dtype_is_half((ring_dtype)o->call.dtype);
  if (algorithm == RING_ALGORITHM_CHAIN)
    return ring_schedule_scan_chain(s, o->rank, o->size, o->call.count, widen, exclusive);
  return ring_schedule_scan_doubling(s, o->rank, o->size, o->call.count, widen, exclusive);
}

ring_status ring_plan_build(ring_schedule *s, const ring_outline *o, ring_algorithm algorithm) {
  const ring_call *call = &o->call;
  bool tree = algorithm == RING_ALGORITHM_TREE, bruck = algorithm == RING_ALGORITHM_BRUCK;
  switch (call->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_REDUCE_SCATTERV:
    return plan_reduction(s, o, algorithm);
  case RING_COLLECTIVE_SCAN:
  case RING_COLLECTIVE_EXSCAN:
    return plan_scan(s, o, algorithm);
  case RING_COLLECTIVE_BROADCAST:
    return tree ? ring_schedule_broadcast_tree(s, o->rank, o->size, call->count, call->root)
                : ring_schedule_broadcast_chain(s, o->rank, o->size, call->count, call->root);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
    return bruck ? ring_schedule_allgather_bruck(s, o->rank, o->size, o->parts)
                 : ring_schedule_allgather_ring(s, o->rank, o->size, o->parts);
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_GATHERV:
    return tree ? ring_schedule_gather_tree(s, o->rank, o->size, o->parts, call->root)
                : ring_schedule_gather_direct(s, o->rank, o->size, o->parts, call->root);
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_SCATTERV:
    return tree ? ring_schedule_scatter_tree(s, o->rank, o->size, o->parts, call->root)
                : ring_schedule_scatter_direct(s, o->rank, o->size, o->parts, call->root);
  case RING_COLLECTIVE_ALLTOALL:
  case RING_COLLECTIVE_ALLTOALLV:
    return bruck ? ring_schedule_alltoall_bruck(s, o->rank, o->size, call->count)
                 : ring_schedule_alltoall_pairwise(s, o->rank, o->size, o->parts, o->received);
  case RING_COLLECTIVE_MESSAGE:
    return call->root == o->rank ? ring_schedule_send(s, o->peer, call->count)
                                 : ring_schedule_recv(s, o->peer, call->count);
  default:
    return ring_schedule_barrier(s, o->rank, o->size);
  }
}

/* ---- Keeping ------------------------------------------------------------------------------ */

static ring_status plan_select(const ring_plans *plans, ring_schedule *schedule,
                               const ring_outline *outline) {
  ring_selection selection = ring_select(&plans->selector, &outline->call, outline->size);
  return ring_plan_build(schedule, outline, selection.algorithm);
}

static bool plan_keeps(uint8_t collective) {
  return !ring_collective_has_counts(collective) && collective != RING_COLLECTIVE_MESSAGE;
}

static bool plan_fits(const ring_plan *plan, const ring_call *call) {
  const ring_call *kept = &plan->call;
  return plan->used > 0 && kept->collective == call->collective && kept->dtype == call->dtype &&
         kept->root == call->root && kept->count == call->count;
}

/* The kept plan that fits the call, or else that whose last use is the longest ago. */
static ring_plan *plan_place(ring_plans *plans, const ring_call *call) {
  ring_plan *plan = &plans->kept[plans->latest];
  if (plan_fits(plan, call)) return plan;
  for (int i = 0; i < RING_PLANS_KEPT; i++) {
    ring_plan *kept = &plans->kept[i];
    if (plan_fits(kept, call)) return kept;
    if (kept->used < plan->used) plan = kept;
  }
  return plan;
}

ring_status ring_plan_find(ring_plans *plans, const ring_outline *outline,
                           const ring_schedule **schedule) {
  *schedule = &plans->passing;
  if (!plan_keeps(outline->call.collective)) return plan_select(plans, &plans->passing, outline);
  ring_plan *plan = plan_place(plans, &outline->call);
  plans->latest = (int)(plan - plans->kept);
  if (!plan_fits(plan, &outline->call)) {
    plan->used = 0;
    ring_status status = plan_select(plans, &plan->schedule, outline);
    if (status != RING_OK) return status;
    plan->call = outline->call;
  }
  plan->used = ++plans->clock;
  *schedule = &plan->schedule;
  return RING_OK;
}

void ring_plans_free(ring_plans *plans) {
  for (int i = 0; i < RING_PLANS_KEPT; i++) ring_schedule_free(&plans->kept[i].schedule);
  ring_schedule_free(&plans->passing);
  *plans = (ring_plans){0};
}
