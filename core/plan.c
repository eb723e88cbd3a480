/* SPDX-License-Identifier: Apache-2.0 */
#include "plan.h"

#include "dtype.h"

#define PLAN_KIB UINT64_C(1024)

/* From here on the ring's 2(N-1) rounds cost more than halving's loss of pipelining. */
#define PLAN_RING_RANKS 64

/* ---- Choosing ----------------------------------------------------------------------------- */

static ring_algorithm plan_allreduce(uint64_t bytes, int size, bool half) {
  if (size <= 4 && bytes <= 8 * PLAN_KIB) return RING_ALGORITHM_DIRECT;
  if (bytes <= 64 * PLAN_KIB) return RING_ALGORITHM_DOUBLING;
  bool long_shares = bytes / (uint64_t)size >= 64 * PLAN_KIB;
  return half || size < PLAN_RING_RANKS || long_shares ? RING_ALGORITHM_RING
                                                       : RING_ALGORITHM_HALVING;
}

/* A chain pays when its chunks outnumber its ranks. */
static ring_algorithm plan_flow(uint64_t bytes, int size) {
  bool flows = bytes > 256 * PLAN_KIB && bytes / (256 * PLAN_KIB) >= (uint64_t)size / 4;
  return flows ? RING_ALGORITHM_CHAIN : RING_ALGORITHM_TREE;
}

ring_algorithm ring_algorithm_choose(const ring_call *call, int size) {
  ring_dtype dtype = (ring_dtype)call->dtype;
  uint64_t bytes = call->count * ring_dtype_size(dtype), total = bytes * (uint64_t)size;
  switch (call->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
    return plan_allreduce(bytes, size, ring_dtype_is_half(dtype));
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_BROADCAST:
    return plan_flow(bytes, size);
  case RING_COLLECTIVE_REDUCE_SCATTER:
    return size <= 8 && total <= 64 * PLAN_KIB ? RING_ALGORITHM_DIRECT : RING_ALGORITHM_RING;
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_TELL:
    return total <= 128 * PLAN_KIB ? RING_ALGORITHM_BRUCK : RING_ALGORITHM_RING;
  case RING_COLLECTIVE_ALLGATHERV:
    return bytes <= 128 * PLAN_KIB ? RING_ALGORITHM_BRUCK : RING_ALGORITHM_RING;
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_SCATTER:
    return total <= 1024 * PLAN_KIB ? RING_ALGORITHM_TREE : RING_ALGORITHM_DIRECT;
  case RING_COLLECTIVE_GATHERV:
  case RING_COLLECTIVE_SCATTERV:
    return bytes <= 1024 * PLAN_KIB ? RING_ALGORITHM_TREE : RING_ALGORITHM_DIRECT;
  case RING_COLLECTIVE_ALLTOALL:
    return size >= 8 && bytes <= 256 ? RING_ALGORITHM_BRUCK : RING_ALGORITHM_PAIRWISE;
  case RING_COLLECTIVE_ALLTOALLV:
    return RING_ALGORITHM_PAIRWISE;
  case RING_COLLECTIVE_MESSAGE:
    return RING_ALGORITHM_MESSAGE;
  default:
    return RING_ALGORITHM_DISSEMINATION;
  }
}

/* ---- Building ----------------------------------------------------------------------------- */

static ring_status plan_reduction(ring_schedule *s, const ring_outline *o,
                                  ring_algorithm algorithm) {
  uint64_t count = o->call.count;
  bool widen = ring_dtype_is_half((ring_dtype)o->call.dtype);
  bool scatters = o->call.collective == RING_COLLECTIVE_REDUCE_SCATTER;
  switch (algorithm) {
  case RING_ALGORITHM_DIRECT:
    return scatters ? ring_schedule_reduce_scatter_direct(s, o->rank, o->size, count, widen)
                    : ring_schedule_allreduce_direct(s, o->rank, o->size, count, widen);
  case RING_ALGORITHM_DOUBLING:
    return ring_schedule_allreduce_doubling(s, o->rank, o->size, count, widen);
  case RING_ALGORITHM_HALVING:
    return ring_schedule_allreduce_halving(s, o->rank, o->size, count);
  case RING_ALGORITHM_TREE:
    return ring_schedule_reduce_tree(s, o->rank, o->size, count, o->call.root, widen);
  case RING_ALGORITHM_CHAIN:
    return ring_schedule_reduce_chain(s, o->rank, o->size, count, o->call.root, widen);
  default:
    return scatters ? ring_schedule_reduce_scatter_ring(s, o->rank, o->size, count, widen)
                    : ring_schedule_allreduce_ring(s, o->rank, o->size, count, widen);
  }
}

static ring_status plan_build(ring_schedule *s, const ring_outline *o) {
  const ring_call *call = &o->call;
  ring_algorithm algorithm = ring_algorithm_choose(call, o->size);
  bool tree = algorithm == RING_ALGORITHM_TREE, bruck = algorithm == RING_ALGORITHM_BRUCK;
  switch (call->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
  case RING_COLLECTIVE_REDUCE:
  case RING_COLLECTIVE_REDUCE_SCATTER:
    return plan_reduction(s, o, algorithm);
  case RING_COLLECTIVE_BROADCAST:
    return tree ? ring_schedule_broadcast_tree(s, o->rank, o->size, call->count, call->root)
                : ring_schedule_broadcast_chain(s, o->rank, o->size, call->count, call->root);
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_ALLGATHERV:
  case RING_COLLECTIVE_TELL:
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
                 : ring_schedule_alltoall_pairwise(s, o->rank, o->size, o->parts, o->came);
  case RING_COLLECTIVE_MESSAGE:
    return call->root == o->rank ? ring_schedule_send(s, o->peer, call->count)
                                 : ring_schedule_recv(s, o->peer, call->count);
  default:
    return ring_schedule_barrier(s, o->rank, o->size);
  }
}

/* ---- Keeping ------------------------------------------------------------------------------ */

static bool plan_keeps(uint8_t collective) {
  return collective < RING_COLLECTIVE_ALLGATHERV;
}

static bool plan_fits(const ring_plan *plan, const ring_call *call) {
  const ring_call *kept = &plan->call;
  return plan->used > 0 && kept->collective == call->collective && kept->dtype == call->dtype &&
         kept->root == call->root && kept->count == call->count;
}

ring_status ring_plan_find(ring_plans *plans, const ring_outline *outline,
                           const ring_schedule **schedule) {
  *schedule = &plans->passing;
  if (!plan_keeps(outline->call.collective)) return plan_build(&plans->passing, outline);
  ring_plan *plan = &plans->kept[0];
  for (int i = 0; i < RING_PLANS_KEPT; i++) {
    ring_plan *kept = &plans->kept[i];
    if (plan_fits(kept, &outline->call)) {
      kept->used = ++plans->clock;
      *schedule = &kept->schedule;
      return RING_OK;
    }
    if (kept->used < plan->used) plan = kept;
  }
  plan->used = 0;
  ring_status status = plan_build(&plan->schedule, outline);
  if (status != RING_OK) return status;
  plan->call = outline->call;
  plan->used = ++plans->clock;
  *schedule = &plan->schedule;
  return RING_OK;
}

void ring_plans_free(ring_plans *plans) {
  for (int i = 0; i < RING_PLANS_KEPT; i++) ring_schedule_free(&plans->kept[i].schedule);
  ring_schedule_free(&plans->passing);
  *plans = (ring_plans){0};
}
