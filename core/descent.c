/* SPDX-License-Identifier: Apache-2.0 */
#include "descent.h"

#include "failure.h"
#include "share.h"
#include "stall.h"
#include "suspicion.h"

static void descent_show(const ring_descent *descent, int rank) {
  const ring_share *share = descent->engine->share;
  if (share->arena == NULL) return;
  ring_share_show(share, rank >= 0 ? ring_share_index(share, rank) : -1);
}

ring_status ring_descent_search(ring_run *run, const ring_notice *notice, bool due) {
  ring_descent *descent = run->engine->descent;
  const ring_task split = {
      .schedule = &ring_schedule_empty, .call = descent->call, .wait = run->task->wait};
  ring_run above = {.engine = descent->engine, .task = &split, .error = &descent->failure};
  ring_status status = ring_failure_hear(&above);
  if (status != RING_OK) {
    *run->error = descent->failure;
    run->error->rank = -1;
    return status;
  }
  ring_suspicion_compose_above(&above, notice, descent->ranks, &descent->suspects);
  if (ring_stall_say(&above, &descent->search, &descent->suspects, due))
    descent_show(descent, descent->suspects.count > 0 ? descent->suspects.suspects[0].rank : -1);
  return RING_OK;
}

void ring_descent_end(const ring_descent *descent) {
  descent_show(descent, -1);
}
