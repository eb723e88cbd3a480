/* SPDX-License-Identifier: Apache-2.0 */
#include "descent.h"

#include <stdio.h>

#include "failure.h"
#include "share.h"
#include "stall.h"
#include "suspicion.h"

static void descent_show(const ring_descent *descent, int rank) {
  const ring_share *share = descent->engine->share;
  if (share->arena == NULL) return;
  ring_share_show(share, rank >= 0 ? ring_share_index(share, rank) : -1);
}

static void descent_withdraw(ring_descent *descent, ring_search *search) {
  const ring_task split = {.schedule = &ring_schedule_empty, .call = descent->call};
  const ring_run above = {.engine = descent->engine, .task = &split};
  ring_stall_withdraw(&above, search);
}

ring_status ring_descent_begin(ring_descent *descent) {
  const ring_task split = {.schedule = &ring_schedule_empty, .call = descent->call};
  ring_run above = {.engine = descent->engine, .task = &split, .error = &descent->failure};
  const ring_peers *peers = descent->engine->peers;
  descent_withdraw(descent, &descent->engine->search);
  ring_status status = ring_failure_hear(&above);
  for (int i = 0; i < peers->linked_count; i++) peers->peer[peers->linked[i]].mail->came = 0;
  return status;
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
  ring_suspicion_compose_above(&above, descent, notice, &descent->suspects);
  ring_stall_say(&above, &descent->search, &descent->suspects, due);
  descent_show(descent, descent->suspects.count > 0 ? descent->suspects.suspects[0].rank : -1);
  return RING_OK;
}

void ring_descent_end(ring_descent *descent) {
  descent_withdraw(descent, &descent->search);
  descent_show(descent, -1);
}

void ring_descent_describe(const ring_descent *descent, char *text, size_t size) {
  text[0] = '\0';
  if (descent == NULL || descent->suspects.count == 0) return;
  int rank = descent->suspects.suspects[0].rank;
  snprintf(text, size, "; in the communicator that is being split all wait for rank %d (%s)", rank,
           ring_peers_host(descent->engine->peers, rank));
}
