/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/outbox.h"

#include "base/platform.h"

/* The shortest time between two reports of which the second is not due. */
#define OUTBOX_LEAST_NS UINT64_C(50000000)

/* Whether the link to a rank stands between two frames. */
static bool outbox_may_send(const ring_run *run, int rank) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  if (peer->ended || peer->write_closed || peer->failure_sent) return false;
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane_progress *progress = &run->engine->progress[lane];
    const ring_lane *shape = run_lane(run, lane);
    if (shape->kind == RING_LANE_SEND && shape->peer == rank && progress->active)
      return progress->moved == 0;
  }
  return true;
}

bool ring_outbox_send(const ring_run *run, ring_search *search, const ring_wait_report *report,
                      bool due) {
  ring_peers *peers = run->engine->peers;
  uint64_t now = ring_platform_now();
  bool changed = !ring_wait_report_is_same(report, &search->report);
  if (!due && (!changed || now - search->sent < OUTBOX_LEAST_NS)) return false;
  search->report = *report;
  search->sent = now;
  for (int i = 0; i < peers->linked_count; i++)
    if (outbox_may_send(run, peers->linked[i]))
      ring_wait_report_send(&peers->peer[peers->linked[i]], report);
  return true;
}

void ring_outbox_withdraw(const ring_run *run, ring_search *search) {
  const ring_wait_report empty = {.call = run->task->call};
  bool sent = search->report.count > 0 && ring_call_is_same(&search->report.call, &empty.call);
  if (sent) ring_outbox_send(run, search, &empty, true);
}
