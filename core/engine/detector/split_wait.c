/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/split_wait.h"

#include <stdio.h>

#include "engine/detector/inbox.h"
#include "engine/detector/outbox.h"
#include "engine/detector/wait_graph.h"
#include "shm/control_block.h"

/* Shows to the ranks of this host that this rank waits for a rank; -1: for none. */
static void split_wait_show(const ring_split_wait *split_wait, int rank) {
  const ring_shm *shm = split_wait->engine->shm;
  if (shm->arena == NULL) return;
  ring_shm_set_awaited(shm, rank >= 0 ? ring_shm_index(shm, rank) : -1);
}

static void split_wait_withdraw(ring_split_wait *split_wait, ring_search *search) {
  const ring_task split = {.schedule = &ring_schedule_empty, .call = split_wait->call};
  const ring_run above = {.engine = split_wait->engine, .task = &split};
  ring_outbox_withdraw(&above, search);
}

ring_status ring_split_wait_begin(ring_split_wait *split_wait) {
  const ring_task split = {.schedule = &ring_schedule_empty, .call = split_wait->call};
  ring_run above = {.engine = split_wait->engine, .task = &split, .error = &split_wait->failure};
  const ring_peers *peers = split_wait->engine->peers;
  split_wait_withdraw(split_wait, &split_wait->engine->search);
  ring_status status = ring_inbox_receive_all(&above);
  for (int i = 0; i < peers->linked_count; i++) peers->peer[peers->linked[i]].outbox->came = 0;
  return status;
}

ring_status ring_split_wait_search(ring_run *run, const ring_wait_report *report, bool due) {
  ring_split_wait *split_wait = run->engine->split_wait;
  const ring_task split = {
      .schedule = &ring_schedule_empty, .call = split_wait->call, .wait = run->task->wait};
  ring_run above = {.engine = split_wait->engine, .task = &split, .error = &split_wait->failure};
  ring_status status = ring_inbox_receive_all(&above);
  if (status != RING_OK) {
    *run->error = split_wait->failure;
    run->error->rank = -1;
    return status;
  }
  ring_wait_graph_compose_above(&above, split_wait, report, &split_wait->suspects);
  ring_outbox_send(&above, &split_wait->search, &split_wait->suspects, due);
  split_wait_show(split_wait,
                  split_wait->suspects.count > 0 ? split_wait->suspects.suspects[0].rank : -1);
  return RING_OK;
}

void ring_split_wait_end(ring_split_wait *split_wait) {
  split_wait_withdraw(split_wait, &split_wait->search);
  split_wait_show(split_wait, -1);
}

void ring_split_wait_describe(const ring_split_wait *split_wait, char *text, size_t size) {
  text[0] = '\0';
  if (split_wait == NULL || split_wait->suspects.count == 0) return;
  int rank = split_wait->suspects.suspects[0].rank;
  snprintf(text, size, "; in the communicator that is being split all wait for rank %d (%s)", rank,
           ring_peers_host(split_wait->engine->peers, rank));
}
