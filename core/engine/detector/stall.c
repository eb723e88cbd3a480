/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/stall.h"

#include <errno.h>
#include <stdio.h>

#include "base/platform.h"
#include "engine/detector/failure.h"
#include "engine/detector/mismatch.h"
#include "engine/detector/split_wait.h"
#include "engine/detector/wait_graph.h"
#include "shm/control_block.h"

/* When the first wait reports go out. They are repeated when a wait has lasted twice as long, but after
 * RING_WAIT_REPORT_MOST_NS at the latest; and when they would say something else. */
#define STALL_FIRST_NS UINT64_C(500000000)
#define STALL_LEAST_NS UINT64_C(50000000)

/* Ranks that open have met a moment before, and are many at once: they wait for longer, unless one that
 * waits for them may already be past that. */
#define STALL_FIRST_OPENING_NS UINT64_C(10000000000)
#define STALL_FIRST_ASKED_NS UINT64_C(2000000000)

/* A host that owes an answer for so long is gone. */
#define STALL_SILENCE_MS 50000

void ring_stall_warn(const ring_run *run) {
  char call[RING_CALL_TEXT], whom[640], above[320],
      text[sizeof whom + sizeof above + sizeof call + 64];
  ring_call_describe(&run->task->call, call, sizeof call);
  ring_wait_graph_whom(run, whom, sizeof whom);
  ring_split_wait_describe(run->engine->split_wait, above, sizeof above);
  snprintf(text, sizeof text, "rank %d has waited %.1f s in %s for: %s%s", run->engine->peers->rank,
           ring_wait_seconds(run->task->wait), call, whom, above);
  ring_wait_tell(run->task->wait, text);
}

/* Whether the link to a rank stands between two frames. */
static bool stall_may_say(const ring_run *run, int rank) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  if (peer->ended || peer->hung_up || peer->told) return false;
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_progress *progress = &run->engine->progress[lane];
    const ring_lane *shape = run_lane(run, lane);
    if (shape->kind == RING_LANE_SEND && shape->peer == rank && progress->active)
      return progress->moved == 0;
  }
  return true;
}

bool ring_stall_say(const ring_run *run, ring_search *search, const ring_wait_report *report,
                    bool due) {
  ring_peers *peers = run->engine->peers;
  uint64_t now = ring_platform_now();
  bool changed = !ring_wait_report_is_same(report, &search->said);
  if (!due && (!changed || now - search->sent < STALL_LEAST_NS)) return false;
  search->said = *report;
  search->sent = now;
  for (int i = 0; i < peers->linked_count; i++)
    if (stall_may_say(run, peers->linked[i]))
      ring_wait_report_send(&peers->peer[peers->linked[i]], report);
  return true;
}

/* Ranks of this host that are in a call in shared memory hear no wait reports. They look at the control block, where
 * a message that its receiver does not take now says who that is. */
static void stall_show(const ring_run *run) {
  const ring_engine *engine = run->engine;
  ring_call shown = run->task->call;
  int receiver = ring_wait_graph_first(run);
  bool sends = shown.collective == RING_COLLECTIVE_MESSAGE && shown.root == engine->peers->rank;
  if (!sends || engine->shm->arena == NULL || receiver < 0) return;
  if (engine->peers->peer[receiver].link == NULL) return; /* it may take it when it is connected */
  shown.digest = ring_shm_receiver(receiver);
  ring_shm_announce(engine->shm, &shown);
}

/* There it says, too, for whom this rank waits: who keeps them all may be behind several ranks. */
static void stall_show_whom(const ring_run *run) {
  const ring_shm *shm = run->engine->shm;
  if (shm->arena == NULL) return;
  ring_shm_set_awaited(shm, ring_shm_index(shm, ring_wait_graph_first(run)));
}

void ring_stall_withdraw(const ring_run *run, ring_search *search) {
  const ring_wait_report nobody = {.call = run->task->call};
  bool said = search->said.count > 0 && ring_call_is_same(&search->said.call, &nobody.call);
  if (said) ring_stall_say(run, search, &nobody, true);
}

void ring_stall_end(const ring_run *run, ring_status status) {
  ring_engine *engine = run->engine;
  const ring_wait_report *said = &engine->search.said;
  bool opening = false;
  if (engine->shm->arena != NULL) ring_shm_set_awaited(engine->shm, -1);
  for (int i = 0; i < said->count; i++)
    opening = opening || (said->suspects[i].state & RING_SUSPECT_OPENING) != 0;
  if (status == RING_OK && opening) ring_stall_withdraw(run, &engine->search);
}

/* A host that has vanished leaves what was sent to it without an answer. */
static ring_status stall_listen(ring_run *run) {
  const ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (!peer->ended && peer->link->ops->silence(peer->link) >= STALL_SILENCE_MS)
      return ring_failure_lost(run, peers->linked[i], ETIMEDOUT);
  }
  return RING_OK;
}

/* Whether another rank says that it waits. */
static bool stall_is_asked(const ring_run *run) {
  const ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_wait_report *theirs = ring_wait_graph_said(run, peers->linked[i]);
    if (theirs != NULL && theirs->waited > 0) return true;
  }
  return false;
}

/* How long a wait lasts before the others are told. */
static uint64_t stall_first(const ring_run *run) {
  bool opening = ring_collective_opens(run->task->call.collective);
  uint64_t first = STALL_FIRST_NS, most = run->task->wait->patience / 4;
  if (opening) first = stall_is_asked(run) ? STALL_FIRST_ASKED_NS : STALL_FIRST_OPENING_NS;
  return first < most ? first : most;
}

ring_status ring_stall_search(ring_run *run) {
  const ring_wait *wait = run->task->wait;
  ring_search *search = &run->engine->search;
  uint64_t lasted = wait->now - wait->begun;
  bool begun = search->begun == wait->begun;
  if (wait->now < wait->begun || (!begun && lasted < stall_first(run))) return RING_OK;
  if (!begun) *search = (ring_search){.begun = wait->begun};
  ring_wait_report report;
  ring_wait_graph_compose(run, &report);
  bool due = lasted >= search->next;
  if (ring_stall_say(run, search, &report, due)) run->said = true;
  if (run->said) stall_show_whom(run);
  ring_status status = RING_OK;
  if (run->engine->split_wait != NULL) status = ring_split_wait_search(run, &report, due);
  if (status != RING_OK) return status;
  if (!due) return ring_mismatch_check(run, &report);
  stall_show(run);
  search->next = lasted + (lasted < RING_WAIT_REPORT_MOST_NS ? lasted : RING_WAIT_REPORT_MOST_NS);
  status = stall_listen(run);
  return status == RING_OK ? ring_mismatch_check(run, &report) : status;
}
