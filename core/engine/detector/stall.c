/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/stall.h"

#include <errno.h>
#include <stdio.h>

#include "base/platform.h"
#include "engine/detector/failure.h"
#include "engine/detector/mismatch.h"
#include "engine/detector/outbox.h"
#include "engine/detector/split_wait.h"
#include "engine/detector/wait_graph.h"
#include "shm/control_block.h"

/* How long a wait lasts before the first wait report. The report is repeated when the wait has
 * lasted twice as long, or after RING_WAIT_REPORT_MOST_NS at the latest. A report that differs is
 * sent earlier (outbox.c). */
#define STALL_FIRST_NS UINT64_C(500000000)

/* The same while the communicator opens. All ranks have just joined and would report at once, so the
 * first report is later, unless a peer already reports that it waits. */
#define STALL_FIRST_OPENING_NS UINT64_C(10000000000)
#define STALL_FIRST_REPORTED_NS UINT64_C(2000000000)

/* A host that has not answered for this long has failed. */
#define STALL_SILENCE_MS 50000

void ring_stall_warn(const ring_run *run) {
  char call[RING_CALL_TEXT], suspects[640], above[320],
      text[sizeof suspects + sizeof above + sizeof call + 64];
  ring_call_describe(&run->task->call, call, sizeof call);
  ring_wait_graph_describe(run, suspects, sizeof suspects);
  ring_split_wait_describe(run->engine->split_wait, above, sizeof above);
  snprintf(text, sizeof text, "rank %d has waited %.1f s in %s for: %s%s", run->engine->peers->rank,
           ring_wait_seconds(run->task->wait), call, suspects, above);
  ring_wait_warn(run->task->wait, text);
}

/* Announces in shared memory the receiver of a message that this rank sends and the receiver does
 * not receive. Ranks of this host in a call in shared memory receive no wait reports, but read
 * announcements. */
static void stall_announce(const ring_run *run) {
  const ring_engine *engine = run->engine;
  ring_call shown = run->task->call;
  int receiver = ring_wait_graph_first(run);
  bool sends = shown.collective == RING_COLLECTIVE_MESSAGE && shown.root == engine->peers->rank;
  if (!sends || engine->shm->arena == NULL || receiver < 0) return;
  if (engine->peers->peer[receiver].link == NULL)
    return; /* the receiver may come once it is connected */
  shown.digest = ring_shm_receiver(receiver);
  ring_shm_announce(engine->shm, &shown);
}

/* Shows in shared memory the rank that this rank waits for: ranks of this host follow these entries
 * from rank to rank to the cause. */
static void stall_show_awaited(const ring_run *run) {
  const ring_shm *shm = run->engine->shm;
  if (shm->arena == NULL) return;
  ring_shm_set_awaited(shm, ring_shm_index(shm, ring_wait_graph_first(run)));
}

void ring_stall_end(const ring_run *run, ring_status status) {
  ring_engine *engine = run->engine;
  const ring_wait_report *report = &engine->search.report;
  bool opening = false;
  if (engine->shm->arena != NULL) ring_shm_set_awaited(engine->shm, -1);
  for (int i = 0; i < report->count; i++)
    opening = opening || (report->suspects[i].state & RING_SUSPECT_OPENING) != 0;
  if (status == RING_OK && opening) ring_outbox_withdraw(run, &engine->search);
}

/* Finds a host that has vanished: it does not answer to what this rank has sent. */
static ring_status stall_check_silence(ring_run *run) {
  const ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (!peer->ended && peer->link->ops->silence(peer->link) >= STALL_SILENCE_MS)
      return ring_failure_lost(run, peers->linked[i], ETIMEDOUT);
  }
  return RING_OK;
}

/* Whether a peer reports that it waits. */
static bool stall_has_reports(const ring_run *run) {
  const ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_wait_report *theirs = ring_wait_graph_report(run, peers->linked[i]);
    if (theirs != NULL && theirs->waited > 0) return true;
  }
  return false;
}

/* How long a wait lasts before the first wait report. */
static uint64_t stall_first(const ring_run *run) {
  bool opening = ring_collective_opens(run->task->call.collective);
  uint64_t first = STALL_FIRST_NS, most = run->task->wait->patience / 4;
  if (opening) first = stall_has_reports(run) ? STALL_FIRST_REPORTED_NS : STALL_FIRST_OPENING_NS;
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
  if (ring_outbox_send(run, search, &report, due)) run->reported = true;
  if (run->reported) stall_show_awaited(run);
  ring_status status = RING_OK;
  if (run->engine->split_wait != NULL) status = ring_split_wait_search(run, &report, due);
  if (status != RING_OK) return status;
  if (!due) return ring_mismatch_check(run, &report);
  stall_announce(run);
  search->next = lasted + (lasted < RING_WAIT_REPORT_MOST_NS ? lasted : RING_WAIT_REPORT_MOST_NS);
  status = stall_check_silence(run);
  return status == RING_OK ? ring_mismatch_check(run, &report) : status;
}
