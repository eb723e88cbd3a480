/* SPDX-License-Identifier: Apache-2.0 */
#include "stall.h"

#include <assert.h>
#include <stdio.h>

#include "share.h"

/* What a rank was last seen in: it says so in shared memory, or what it sent last shows it. */
static bool stall_last_call(const ring_engine *engine, int rank, ring_call *call) {
  const ring_share *share = engine->share;
  int index = share->arena != NULL ? ring_share_index(share, rank) : -1;
  if (index >= 0 && ring_share_heard(share, index, call) && call->collective != 0) return true;
  uint32_t heard = engine->peers->peer[rank].heard;
  if (heard == 0 || engine->runs - heard >= RING_ENGINE_RUNS) return false;
  *call = engine->calls[heard % RING_ENGINE_RUNS];
  return true;
}

/* A firewall drops without a word, so nothing but silence tells of it. */
static const char stall_unconnected[] =
    "it is late, or a firewall stands between (open a port range, and pass it on all ranks)";

/* "last heard in barrier() as call 16"; of a link that opens also how far it has come. */
static void stall_describe(const ring_engine *engine, int rank, char *text, size_t size) {
  const ring_peer *peer = &engine->peers->peer[rank];
  const ring_strand *strand = peer->strand;
  char name[RING_CALL_TEXT];
  ring_call call;
  if (strand != NULL && strand->have > 0) {
    snprintf(text, size, "of whose link %d of the %d lanes are open", strand->have, strand->lanes);
  } else if (stall_last_call(engine, rank, &call)) {
    ring_call_describe(&call, name, sizeof name);
    snprintf(text, size, "last heard in %s", name);
  } else if (peer->link == NULL && peer->dial != NULL) {
    snprintf(text, size, "not connected: %s", stall_unconnected);
  } else if (peer->heard == 0) {
    snprintf(text, size, "nothing heard since the start");
  } else {
    snprintf(text, size, "last heard %u calls ago", (unsigned)(engine->runs - peer->heard));
  }
}

/* Whether a lane can only go on when its peer does something. */
static bool stall_blocks(const ring_run *run, size_t lane) {
  const ring_lane *shape = run_lane(run, lane);
  return shape->kind != RING_LANE_LOCAL && shape->peer >= 0 && run->engine->progress[lane].active;
}

/* Whether a lane before this one waits for the same rank. */
static bool stall_is_listed(const ring_run *run, size_t lane) {
  for (size_t before = 0; before < lane; before++)
    if (stall_blocks(run, before) && run_lane(run, before)->peer == run_lane(run, lane)->peer)
      return true;
  return false;
}

int ring_stall_whom(const ring_run *run, char *text, size_t size) {
  int first = -1;
  size_t length = 0;
  text[0] = '\0';
  for (size_t lane = 0; lane < run->task->schedule->lane_count && length < size; lane++) {
    if (!stall_blocks(run, lane) || stall_is_listed(run, lane)) continue;
    char last[RING_CALL_TEXT + 32];
    static_assert(sizeof last > sizeof stall_unconnected + 16, "there is room for each text");
    int rank = run_lane(run, lane)->peer;
    stall_describe(run->engine, rank, last, sizeof last);
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s; %s)", first < 0 ? "" : ", ",
                         rank, ring_peers_host(run->engine->peers, rank), last);
    if (first < 0) first = rank;
  }
  if (first < 0) snprintf(text, size, "other ranks");
  return first;
}

void ring_stall_warn(const ring_run *run) {
  char call[RING_CALL_TEXT], whom[512], text[sizeof run->error->message];
  ring_call_describe(&run->task->call, call, sizeof call);
  ring_stall_whom(run, whom, sizeof whom);
  snprintf(text, sizeof text, "rank %d has waited %.0f s in %s for: %s", run->engine->peers->rank,
           ring_wait_seconds(run->task->wait), call, whom);
  ring_wait_tell(run->task->wait, text);
}
