/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/fusion_plan.h"

static bool plan_fuses(const ring_tensor *tensor) {
  return tensor->kind == RING_OPERATION_ALLREDUCE ||
         (tensor->kind == RING_OPERATION_ALLREDUCE_GROUP && !tensor->mixed);
}

static bool plan_is_alike(const ring_tensor *one, const ring_tensor *other) {
  return plan_fuses(other) && one->memory == other->memory && one->dtype == other->dtype &&
         one->op == other->op && one->prescale == other->prescale &&
         one->postscale == other->postscale;
}

size_t ring_fusion_plan_next(ring_fusion_plan *plan, ring_ready **items) {
  size_t count = 0;
  uint64_t bytes = 0;
  while (plan->next < plan->count && plan->ready[plan->next].planned) plan->next++;
  for (size_t i = plan->next; i < plan->count; i++) {
    ring_ready *ready = &plan->ready[i];
    if (ready->planned || (count > 0 && !plan_is_alike(&items[0]->tensor, &ready->tensor)))
      continue;
    bytes += ring_tensor_bytes(&ready->tensor);
    if (count > 0 && bytes > plan->threshold) break;
    ready->planned = true;
    items[count++] = ready;
    if (!plan_fuses(&ready->tensor)) break;
  }
  return count;
}
