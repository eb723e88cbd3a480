/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/wait_graph.h"

#include <assert.h>
#include <stdio.h>

#include "base/platform.h"
#include "shm/control_block.h"

/* How late the repetition of a wait report may come. */
#define WAIT_GRAPH_LATE_NS UINT64_C(1000000000)

/* ---- Suspects ----------------------------------------------------------------------------- */

/* Sets state and call of a suspect to the latest call that it is known to have reached: by its
 * announcement in shared memory, or by its latest frame. */
static void wait_graph_last_call(const ring_engine *engine, int rank, ring_suspect *suspect) {
  const ring_shm *shm = engine->shm;
  int index = shm->arena != NULL ? ring_shm_index(shm, rank) : -1;
  uint32_t latest = engine->peers->peer[rank].last_run;
  suspect->state = RING_SUSPECT_SEEN;
  if (index >= 0 && ring_shm_announced(shm, index, &suspect->call) && suspect->call.collective != 0)
    return;
  suspect->call = engine->calls[latest % RING_ENGINE_RUNS];
  if (latest != 0 && engine->runs - latest < RING_ENGINE_RUNS) return;
  suspect->call = (ring_call){0};
  suspect->state = RING_SUSPECT_UNSEEN;
}

bool ring_wait_graph_blocks(const ring_run *run, size_t lane) {
  const ring_lane *shape = run_lane(run, lane);
  return shape->kind != RING_LANE_LOCAL && shape->peer >= 0 && run->engine->progress[lane].active;
}

/* Whether a lane waits for a rank that no earlier lane waits for. */
static bool wait_graph_is_new(const ring_run *run, size_t lane) {
  if (!ring_wait_graph_blocks(run, lane)) return false;
  for (size_t before = 0; before < lane; before++)
    if (ring_wait_graph_blocks(run, before) &&
        run_lane(run, before)->peer == run_lane(run, lane)->peer)
      return false;
  return true;
}

const ring_wait_report *ring_wait_graph_report(const ring_run *run, int rank) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  const ring_outbox *outbox = peer->outbox;
  if (outbox == NULL || outbox->came == 0 || outbox->behind != peer->counters.bytes_received)
    return NULL;
  uint64_t until_next = outbox->last.waited * UINT64_C(1000000);
  if (until_next > RING_WAIT_REPORT_MOST_NS) until_next = RING_WAIT_REPORT_MOST_NS;
  bool counts = ring_platform_now() - outbox->came < until_next + WAIT_GRAPH_LATE_NS;
  return counts ? &outbox->last : NULL;
}

/* Merges two entries of one suspect: the better known call, all marks, the shorter distance. */
static void wait_graph_merge(ring_suspect *known, const ring_suspect *suspect) {
  uint8_t marks = (known->state | suspect->state) & (uint8_t)~RING_SUSPECT_STATE;
  uint32_t steps = known->steps < suspect->steps ? known->steps : suspect->steps;
  if ((suspect->state & RING_SUSPECT_STATE) > (known->state & RING_SUSPECT_STATE))
    *known = *suspect;
  known->state |= marks;
  known->steps = steps;
}

/* Adds a suspect. A report keeps the RING_SUSPECTS nearest suspects, the nearest first. */
static void wait_graph_add(ring_wait_report *report, const ring_suspect *suspect) {
  ring_suspect *list = report->suspects;
  int i = 0;
  while (i < report->count && list[i].rank != suspect->rank) i++;
  bool known = i < report->count, full = i == RING_SUSPECTS;
  if (full && list[i - 1].steps <= suspect->steps) return;
  if (full) i--;
  if (known)
    wait_graph_merge(&list[i], suspect);
  else
    list[i] = *suspect;
  if (i == report->count) report->count++;
  for (; i > 0 && list[i].steps < list[i - 1].steps; i--) {
    ring_suspect nearer = list[i];
    list[i] = list[i - 1];
    list[i - 1] = nearer;
  }
}

/* Adds the suspects of a peer's report; returns how many. In a row of all ranks the last rank is
 * size - 2 steps away from the rank that waits for the first. A suspect that is farther away has
 * gone round in a circle. */
static int wait_graph_add_suspects(const ring_run *run, const ring_wait_report *theirs,
                                   ring_wait_report *report) {
  const ring_peers *peers = run->engine->peers;
  bool here = ring_call_is_same(&theirs->call, &report->call);
  uint32_t most = (uint32_t)peers->size - 2;
  int passed = 0;
  for (int i = 0; i < theirs->count; i++) {
    ring_suspect suspect = theirs->suspects[i];
    if (suspect.rank == peers->rank || suspect.steps++ >= most) continue;
    if (!here) suspect.state &= (uint8_t)~RING_SUSPECT_NEEDED;
    wait_graph_add(report, &suspect);
    passed++;
  }
  return passed;
}

/* The most steps between two ranks of an open communicator: it has links at all distances that are
 * powers of two. */
static uint32_t wait_graph_hops(int size) {
  uint32_t hops = 0;
  while (size >> hops > 0) hops++;
  return hops;
}

/* Whether a suspect in the parent keeps a split wait: all ranks need it in the split, or it is a
 * rank of the child. */
static bool wait_graph_keeps_split(const ring_split_wait *split_wait, const ring_suspect *suspect) {
  if ((suspect->state & RING_SUSPECT_NEEDED) != 0) return true;
  for (int i = 0; i < split_wait->size; i++)
    if (split_wait->ranks[i] == suspect->rank) return true;
  return false;
}

/* Adds the suspects of a peer's report that keep a split wait or, without a split wait, ranks in
 * open(). All ranks pass these suspects on. A suspect that has come more steps than the ranks are
 * apart is out of date, and is dropped. */
static void wait_graph_add_keepers(const ring_run *run, const ring_wait_report *theirs,
                                   const ring_split_wait *split_wait, ring_wait_report *report) {
  uint32_t most = wait_graph_hops(run->engine->peers->size);
  ring_wait_report keepers = {.call = theirs->call};
  for (int i = 0; i < theirs->count; i++) {
    const ring_suspect *suspect = &theirs->suspects[i];
    bool opening = (suspect->state & RING_SUSPECT_OPENING) != 0;
    bool counts = split_wait != NULL ? wait_graph_keeps_split(split_wait, suspect) : opening;
    if (counts && suspect->steps <= most) keepers.suspects[keepers.count++] = *suspect;
  }
  wait_graph_add_suspects(run, &keepers, report);
}

/* Finds the suspects that keep other ranks in open(). A rank that opens itself has links to all
 * ranks that it waits for, and receives their reports. */
static void wait_graph_find_openers(const ring_run *run, ring_wait_report *openers) {
  const ring_peers *peers = run->engine->peers;
  *openers = (ring_wait_report){.call = run->task->call};
  if (ring_collective_opens(openers->call.collective)) return;
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_wait_report *theirs = ring_wait_graph_report(run, peers->linked[i]);
    if (theirs != NULL) wait_graph_add_keepers(run, theirs, NULL, openers);
  }
  for (int i = 0; i < openers->count; i++)
    openers->suspects[i].state &= (uint8_t)~RING_SUSPECT_NEEDED;
}

/* Whether nothing shows that a rank is past open(). */
static bool wait_graph_may_open(const ring_run *run, int rank) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  bool reported = peer->outbox != NULL && peer->outbox->came != 0;
  if (reported && !ring_collective_opens(peer->outbox->last.call.collective)) return false;
  ring_suspect last;
  wait_graph_last_call(run->engine, rank, &last);
  return last.state == RING_SUSPECT_UNSEEN || ring_collective_opens(last.call.collective);
}

/* Whether one of `openers` may keep an awaited rank in open(). */
static bool wait_graph_is_kept(const ring_run *run, int rank, const ring_wait_report *openers) {
  for (int i = 0; i < openers->count; i++)
    if (openers->suspects[i].rank == rank) return false;
  return openers->count > 0 && wait_graph_may_open(run, rank);
}

/* Adds an awaited rank or, if it has reported, its suspects. marks: RING_SUSPECT_NEEDED and so
 * on. */
static void wait_graph_add_rank(const ring_run *run, int rank, uint8_t marks,
                                ring_wait_report *report) {
  const ring_wait_report *theirs = ring_wait_graph_report(run, rank);
  bool here = theirs != NULL && ring_call_is_same(&theirs->call, &report->call);
  int passed = theirs != NULL ? wait_graph_add_suspects(run, theirs, report) : 0;
  if (here || passed > 0) return;
  ring_suspect suspect = {.rank = rank, .state = RING_SUSPECT_WAITS};
  if (theirs != NULL && theirs->waited > 0)
    suspect.call = theirs->call;
  else
    wait_graph_last_call(run->engine, rank, &suspect);
  suspect.state |= marks;
  wait_graph_add(report, &suspect);
}

void ring_wait_graph_compose(const ring_run *run, ring_wait_report *report) {
  *report = (ring_wait_report){.call = run->task->call};
  report->waited = 1 + (uint32_t)(ring_wait_seconds(run->task->wait) * 1e3);
  bool opens = ring_collective_opens(report->call.collective), kept = false;
  uint8_t marks = RING_SUSPECT_NEEDED | (opens ? RING_SUSPECT_OPENING : 0);
  ring_wait_report openers;
  wait_graph_find_openers(run, &openers);
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    int rank = run_lane(run, lane)->peer;
    if (!wait_graph_is_new(run, lane)) continue;
    if (wait_graph_is_kept(run, rank, &openers))
      kept = true;
    else
      wait_graph_add_rank(run, rank, marks, report);
  }
  for (int i = 0; i < openers.count && kept; i++) wait_graph_add(report, &openers.suspects[i]);
}

/* Adds a rank without a link as if it were far away: reports of other ranks may name a nearer
 * suspect. */
static void wait_graph_add_unlinked(const ring_run *run, int rank, ring_wait_report *report) {
  ring_suspect suspect = {.rank = rank, .steps = wait_graph_hops(run->engine->peers->size)};
  wait_graph_last_call(run->engine, rank, &suspect);
  wait_graph_add(report, &suspect);
}

void ring_wait_graph_compose_above(const ring_run *run, const ring_split_wait *split_wait,
                                   const ring_wait_report *below, ring_wait_report *report) {
  const ring_peers *peers = run->engine->peers;
  *report = (ring_wait_report){.call = run->task->call, .waited = below->waited};
  for (int i = 0; i < below->count; i++) {
    int rank = split_wait->ranks[below->suspects[i].rank];
    if (peers->peer[rank].link != NULL) wait_graph_add_rank(run, rank, 0, report);
  }
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_wait_report *theirs = ring_wait_graph_report(run, peers->linked[i]);
    if (theirs != NULL && ring_call_is_same(&theirs->call, &report->call))
      wait_graph_add_keepers(run, theirs, split_wait, report);
  }
  bool unknown = report->count == 0;
  for (int i = 0; i < below->count && unknown; i++) {
    int rank = split_wait->ranks[below->suspects[i].rank];
    if (peers->peer[rank].link == NULL) wait_graph_add_unlinked(run, rank, report);
  }
}

/* ---- Description -------------------------------------------------------------------------- */

/* A firewall that drops packets looks like a late rank. */
static const char wait_graph_unconnected[] =
    "it is late, or a firewall stands between (open a port range, and pass it on all ranks)";

/* "last seen in barrier() as call 16"; while its link opens, the number of open connections. */
static void wait_graph_describe_suspect(const ring_run *run, const ring_suspect *suspect,
                                        char *text, size_t size) {
  const ring_peer *peer = &run->engine->peers->peer[suspect->rank];
  const ring_pending_link *pending_link = peer->pending_link;
  bool waits = (suspect->state & RING_SUSPECT_STATE) == RING_SUSPECT_WAITS;
  char name[RING_CALL_TEXT];
  ring_call_describe(&suspect->call, name, sizeof name);
  if (pending_link != NULL && pending_link->have > 0)
    snprintf(text, size, "of whose link %d of the %d connections are open", pending_link->have,
             pending_link->connections);
  else if (run->outside && !waits) /* calls outside of the links leave no trace here */
    snprintf(text, size, "not waiting");
  else if ((suspect->state & RING_SUSPECT_STATE) != RING_SUSPECT_UNSEEN)
    snprintf(text, size, "%s in %s", waits ? "waits" : "last seen", name);
  else if (peer->link == NULL && peer->connector != NULL)
    snprintf(text, size, "not connected: %s", wait_graph_unconnected);
  else if (peer->last_run != 0)
    snprintf(text, size, "last seen %u calls ago", (unsigned)(run->engine->runs - peer->last_run));
  else
    snprintf(text, size, "not seen since the start");
}

int ring_wait_graph_first(const ring_run *run) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++)
    if (ring_wait_graph_blocks(run, lane)) return run_lane(run, lane)->peer;
  return -1;
}

/* Whether a suspect keeps other ranks in open() while this rank is past it. */
static bool wait_graph_keeps_open(const ring_run *run, const ring_suspect *suspect) {
  bool past = !ring_collective_opens(run->task->call.collective);
  return past && (suspect->state & RING_SUSPECT_OPENING) != 0;
}

/* Whether another rank than the first suspect may be at fault. Outside of the links a rank that does not wait is
 * late or, where the collective has ranks that need not wait for all, past the call. */
static bool wait_graph_is_open(const ring_run *run, const ring_wait_report *report) {
  const ring_peers *peers = run->engine->peers;
  uint8_t collective = run->task->call.collective;
  bool leaves = ring_collective_has_root(collective) || ring_collective_scans(collective);
  bool hidden = peers->linked_count < peers->size - 1;
  int silent = 0;
  for (int i = 0; i < report->count; i++)
    silent += (report->suspects[i].state & RING_SUSPECT_STATE) != RING_SUSPECT_WAITS;
  return run->outside && (silent > 1 || (silent == 1 && leaves && hidden));
}

int ring_wait_graph_describe(const ring_run *run, char *text, size_t size) {
  const ring_peers *peers = run->engine->peers;
  ring_wait_report report;
  size_t length = 0;
  int first = ring_wait_graph_first(run);
  bool direct = false;
  ring_wait_graph_compose(run, &report);
  for (int i = 0; i < report.count && length < size; i++) {
    const ring_suspect *suspect = &report.suspects[i];
    char last[RING_CALL_TEXT + 32];
    static_assert(sizeof last > sizeof wait_graph_unconnected + 16, "there is room for each text");
    direct = direct || suspect->rank == first;
    wait_graph_describe_suspect(run, suspect, last, sizeof last);
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s; %s)", i == 0 ? "" : ", ",
                         suspect->rank, ring_peers_name(peers, suspect->rank), last);
  }
  if (first < 0) {
    snprintf(text, size, "other ranks");
    return -1;
  }
  if (report.count == 0)
    snprintf(text, size, "rank %d (%s; in the same call, as are all ranks known to it)", first,
             ring_peers_name(peers, first));
  else if (!direct && length < size && wait_graph_keeps_open(run, &report.suspects[0]))
    snprintf(text + length, size - length, ", which keeps other ranks in open()");
  else if (!direct && length < size)
    snprintf(text + length, size - length, ", for which rank %d waits, too", first);
  if (wait_graph_is_open(run, &report)) return -1;
  return report.count == 0 ? first : report.suspects[0].rank;
}
