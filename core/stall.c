/* SPDX-License-Identifier: Apache-2.0 */
#include "stall.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "failure.h"
#include "platform.h"
#include "share.h"

/* When the first notices go out. They are repeated when a wait has lasted twice as long, but after so
 * long at the latest; and when they would say something else. */
#define STALL_FIRST_NS UINT64_C(500000000)
#define STALL_MOST_NS UINT64_C(10000000000)
#define STALL_LEAST_NS UINT64_C(50000000)
#define STALL_LATE_NS UINT64_C(1000000000) /* how late a repetition may come */

/* Ranks that open have met a moment before, and are many at once. */
#define STALL_FIRST_OPENING_NS UINT64_C(10000000000)

/* A host that owes an answer for so long is gone. */
#define STALL_SILENCE_MS 50000

/* ---- What is known ------------------------------------------------------------------------ */

/* What a rank was last seen in: it says so in shared memory, or what it sent last shows it. */
static void stall_last_call(const ring_engine *engine, int rank, ring_suspect *suspect) {
  const ring_share *share = engine->share;
  int index = share->arena != NULL ? ring_share_index(share, rank) : -1;
  uint32_t heard = engine->peers->peer[rank].heard;
  suspect->state = RING_SUSPECT_HEARD;
  if (index >= 0 && ring_share_heard(share, index, &suspect->call) && suspect->call.collective != 0)
    return;
  suspect->call = engine->calls[heard % RING_ENGINE_RUNS];
  if (heard != 0 && engine->runs - heard < RING_ENGINE_RUNS) return;
  suspect->call = (ring_call){0};
  suspect->state = RING_SUSPECT_UNHEARD;
}

/* Whether a lane can only go on when its peer does something. */
static bool stall_blocks(const ring_run *run, size_t lane) {
  const ring_lane *shape = run_lane(run, lane);
  return shape->kind != RING_LANE_LOCAL && shape->peer >= 0 && run->engine->progress[lane].active;
}

/* The same, but for a rank that a lane before this one waits for. */
static bool stall_blocks_first(const ring_run *run, size_t lane) {
  if (!stall_blocks(run, lane)) return false;
  for (size_t before = 0; before < lane; before++)
    if (stall_blocks(run, before) && run_lane(run, before)->peer == run_lane(run, lane)->peer)
      return false;
  return true;
}

/* What a rank has said that still counts, or NULL. */
static const ring_notice *stall_said(const ring_run *run, int rank) {
  const ring_peer *peer = &run->engine->peers->peer[rank];
  const struct ring_mail *mail = peer->mail;
  if (mail == NULL || mail->came == 0 || mail->behind != peer->counters.bytes_received) return NULL;
  uint64_t until_next = mail->last.waited * UINT64_C(1000000);
  if (until_next > STALL_MOST_NS) until_next = STALL_MOST_NS;
  bool counts = ring_platform_now() - mail->came < until_next + STALL_LATE_NS;
  return counts ? &mail->last : NULL;
}

/* What is known of one suspect from two sides. */
static void stall_merge(ring_suspect *known, const ring_suspect *suspect) {
  uint8_t needed = (known->state | suspect->state) & RING_SUSPECT_NEEDED;
  uint32_t steps = known->steps < suspect->steps ? known->steps : suspect->steps;
  if ((suspect->state & RING_SUSPECT_STATE) > (known->state & RING_SUSPECT_STATE))
    *known = *suspect;
  known->state |= needed;
  known->steps = steps;
}

/* Keeps the nearest ones, the nearest first. */
static void stall_add(ring_notice *notice, const ring_suspect *suspect) {
  ring_suspect *list = notice->suspects;
  int i = 0;
  while (i < notice->count && list[i].rank != suspect->rank) i++;
  bool known = i < notice->count, full = i == RING_SUSPECTS;
  if (full && list[i - 1].steps <= suspect->steps) return;
  if (full) i--;
  if (known)
    stall_merge(&list[i], suspect);
  else
    list[i] = *suspect;
  if (i == notice->count) notice->count++;
  for (; i > 0 && list[i].steps < list[i - 1].steps; i--) {
    ring_suspect nearer = list[i];
    list[i] = list[i - 1];
    list[i - 1] = nearer;
  }
}

/* Adds a rank that is waited for, or in its place those that it suspects itself. Of all ranks in a row the
 * last is size - 2 steps from who waits for the first: what has come farther went round in a circle. */
static void stall_add_rank(const ring_run *run, int rank, ring_notice *notice) {
  const ring_peers *peers = run->engine->peers;
  const ring_notice *theirs = stall_said(run, rank);
  bool here = theirs != NULL && ring_call_is_same(&theirs->call, &notice->call);
  uint32_t most = (uint32_t)peers->size - 2;
  int passed = 0;
  for (int i = 0; theirs != NULL && i < theirs->count; i++) {
    ring_suspect suspect = theirs->suspects[i];
    if (suspect.rank == peers->rank || suspect.steps++ >= most) continue;
    if (!here) suspect.state &= RING_SUSPECT_STATE;
    stall_add(notice, &suspect);
    passed++;
  }
  if (here || passed > 0) return;
  ring_suspect suspect = {.rank = rank, .state = RING_SUSPECT_WAITS};
  if (theirs != NULL)
    suspect.call = theirs->call;
  else
    stall_last_call(run->engine, rank, &suspect);
  suspect.state |= RING_SUSPECT_NEEDED;
  stall_add(notice, &suspect);
}

/* Whom this rank suspects, and in which call. */
static void stall_compose(const ring_run *run, ring_notice *notice) {
  *notice = (ring_notice){.call = run->task->call};
  notice->waited = (uint32_t)(ring_wait_seconds(run->task->wait) * 1e3);
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++)
    if (stall_blocks_first(run, lane)) stall_add_rank(run, run_lane(run, lane)->peer, notice);
}

/* Whether two notices suspect the same ranks, in the same calls. */
static bool stall_is_same(const ring_notice *one, const ring_notice *other) {
  bool same = one->count == other->count;
  for (int i = 0; i < one->count && same; i++) {
    const ring_suspect *mine = &one->suspects[i], *theirs = &other->suspects[i];
    same = mine->rank == theirs->rank && mine->steps == theirs->steps &&
           mine->state == theirs->state && ring_call_is_same(&mine->call, &theirs->call);
  }
  return same;
}

/* ---- Its words ---------------------------------------------------------------------------- */

/* A firewall drops without a word, so nothing but silence tells of it. */
static const char stall_unconnected[] =
    "it is late, or a firewall stands between (open a port range, and pass it on all ranks)";

/* "last heard in barrier() as call 16"; of a link that opens also how far it has come. */
static void stall_describe(const ring_run *run, const ring_suspect *suspect, char *text,
                           size_t size) {
  const ring_peer *peer = &run->engine->peers->peer[suspect->rank];
  const ring_strand *strand = peer->strand;
  bool waits = (suspect->state & RING_SUSPECT_STATE) == RING_SUSPECT_WAITS;
  char name[RING_CALL_TEXT];
  ring_call_describe(&suspect->call, name, sizeof name);
  if (strand != NULL && strand->have > 0)
    snprintf(text, size, "of whose link %d of the %d lanes are open", strand->have, strand->lanes);
  else if ((suspect->state & RING_SUSPECT_STATE) != RING_SUSPECT_UNHEARD)
    snprintf(text, size, "%s in %s", waits ? "waits" : "last heard", name);
  else if (peer->link == NULL && peer->dial != NULL)
    snprintf(text, size, "not connected: %s", stall_unconnected);
  else if (peer->heard != 0)
    snprintf(text, size, "last heard %u calls ago", (unsigned)(run->engine->runs - peer->heard));
  else
    snprintf(text, size, "nothing heard since the start");
}

/* The first rank that a lane waits for, or -1. */
static int stall_first(const ring_run *run) {
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++)
    if (stall_blocks(run, lane)) return run_lane(run, lane)->peer;
  return -1;
}

int ring_stall_whom(const ring_run *run, char *text, size_t size) {
  const ring_peers *peers = run->engine->peers;
  ring_notice notice;
  size_t length = 0;
  int first = stall_first(run);
  bool direct = false;
  stall_compose(run, &notice);
  for (int i = 0; i < notice.count && length < size; i++) {
    const ring_suspect *suspect = &notice.suspects[i];
    char last[RING_CALL_TEXT + 32];
    static_assert(sizeof last > sizeof stall_unconnected + 16, "there is room for each text");
    direct = direct || suspect->rank == first;
    stall_describe(run, suspect, last, sizeof last);
    length +=
        (size_t)snprintf(text + length, size - length, "%srank %d (%s; %s)", i == 0 ? "" : ", ",
                         suspect->rank, ring_peers_host(peers, suspect->rank), last);
  }
  if (first < 0) {
    snprintf(text, size, "other ranks");
    return -1;
  }
  if (notice.count == 0)
    snprintf(text, size, "rank %d (%s; in the same call, as all others that it knows of)", first,
             ring_peers_host(peers, first));
  else if (!direct && length < size)
    snprintf(text + length, size - length, ", for which rank %d waits, too", first);
  return notice.count == 0 ? first : notice.suspects[0].rank;
}

void ring_stall_warn(const ring_run *run) {
  char call[RING_CALL_TEXT], whom[640], text[sizeof run->error->message];
  ring_call_describe(&run->task->call, call, sizeof call);
  ring_stall_whom(run, whom, sizeof whom);
  snprintf(text, sizeof text, "rank %d has waited %.1f s in %s for: %s", run->engine->peers->rank,
           ring_wait_seconds(run->task->wait), call, whom);
  ring_wait_tell(run->task->wait, text);
}

/* ---- Contradictions ----------------------------------------------------------------------- */

static bool stall_is_numbered(const ring_call *call) {
  return call->collective != 0 && call->collective != RING_COLLECTIVE_MESSAGE &&
         !ring_collective_opens(call->collective);
}

/* The calls of this rank, over links and in shared memory, from the i-th one that is known; false
 * behind the last one. */
static bool stall_own_call(const ring_engine *engine, uint32_t i, ring_call *call) {
  const ring_share *share = engine->share;
  *call = (ring_call){0};
  if (i < RING_ENGINE_RUNS) {
    *call = engine->calls[i];
    return true;
  }
  if (share->arena == NULL || i - RING_ENGINE_RUNS >= RING_SLOTS) return false;
  *call = ring_share_said(share, share->index, i - RING_ENGINE_RUNS);
  return true;
}

/* Whether what a rank called is not what this one called in its place. */
static bool stall_differs(const ring_run *run, int rank, const ring_call *theirs, ring_call *own) {
  const ring_peers *peers = run->engine->peers;
  if (theirs->collective == RING_COLLECTIVE_MESSAGE) {
    *own = run->task->call;
    return theirs->root == peers->rank &&
           (int32_t)(theirs->sequence - peers->peer[rank].messages.sent) > 0;
  }
  if (!stall_is_numbered(theirs)) return false;
  for (uint32_t i = 0; stall_own_call(run->engine, i, own); i++)
    if (stall_is_numbered(own) && own->sequence == theirs->sequence)
      return !ring_call_is_same(theirs, own);
  return false;
}

/* Whether this rank is known not to have come to a call yet. */
static bool stall_is_ahead(const ring_engine *engine, const ring_call *call) {
  bool known = engine->runs < RING_ENGINE_RUNS;
  ring_call own;
  if (!stall_is_numbered(call)) return false;
  for (uint32_t i = 0; stall_own_call(engine, i, &own); i++) {
    if (!stall_is_numbered(&own)) continue;
    known = true;
    if ((int32_t)(own.sequence - call->sequence) >= 0) return false;
  }
  return known;
}

/* Whether a rank that this one waits for cannot go on without this one. */
static bool stall_turns_round(const ring_run *run, const ring_notice *theirs) {
  for (int i = 0; i < theirs->count; i++)
    if (theirs->suspects[i].rank == run->engine->peers->rank &&
        (theirs->suspects[i].state & RING_SUSPECT_NEEDED) != 0)
      return stall_is_ahead(run->engine, &theirs->call);
  return false;
}

/* Whether a rank of this host shows on the board (stall_show) that it sends this one a message, which
 * this one has not begun to take. Its link stands inside a frame, and carries no notices. */
static bool stall_is_offered(const ring_run *run, int rank, ring_call *theirs) {
  const ring_share *share = run->engine->share;
  const ring_peers *peers = run->engine->peers;
  int index = share->arena != NULL ? ring_share_index(share, rank) : -1;
  return index >= 0 && ring_share_heard(share, index, theirs) &&
         theirs->collective == RING_COLLECTIVE_MESSAGE &&
         theirs->layout == ring_share_receiver(peers->rank) &&
         (int32_t)(theirs->sequence - peers->peer[rank].messages.received) > 0;
}

static ring_status stall_check_lane(const ring_run *run, size_t lane) {
  int rank = run_lane(run, lane)->peer;
  const ring_notice *theirs = stall_said(run, rank);
  ring_call own = run->task->call, offered;
  if (stall_is_offered(run, rank, &offered)) return ring_failure_differ(run, rank, &offered, &own);
  if (theirs == NULL || run_lane(run, lane)->kind != RING_LANE_RECV) return RING_OK;
  bool message = theirs->call.collective == RING_COLLECTIVE_MESSAGE;
  if ((message && stall_differs(run, rank, &theirs->call, &own)) || stall_turns_round(run, theirs))
    return ring_failure_differ(run, rank, &theirs->call, &own);
  return RING_OK;
}

/* Whether this rank waits for one that will not come. */
static ring_status stall_check(const ring_run *run, const ring_notice *notice) {
  ring_status status = RING_OK;
  ring_call own;
  for (size_t lane = 0; lane < run->task->schedule->lane_count && status == RING_OK; lane++)
    if (stall_blocks(run, lane)) status = stall_check_lane(run, lane);
  for (int i = 0; i < notice->count && status == RING_OK; i++) {
    const ring_suspect *suspect = &notice->suspects[i];
    bool waits = (suspect->state & RING_SUSPECT_STATE) == RING_SUSPECT_WAITS;
    if (waits && stall_differs(run, suspect->rank, &suspect->call, &own))
      status = ring_failure_differ(run, suspect->rank, &suspect->call, &own);
  }
  return status;
}

ring_status ring_stall_heard(const ring_run *run, int rank) {
  const ring_call *theirs = &run->engine->peers->peer[rank].mail->last.call;
  ring_call own;
  if (theirs->collective == RING_COLLECTIVE_MESSAGE) return RING_OK; /* see stall_check_lane */
  if (!stall_differs(run, rank, theirs, &own)) return RING_OK;
  return ring_failure_differ(run, rank, theirs, &own);
}

/* ---- Searching ---------------------------------------------------------------------------- */

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

static void stall_say(const ring_run *run, const ring_notice *notice) {
  ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++)
    if (stall_may_say(run, peers->linked[i]))
      ring_notice_send(&peers->peer[peers->linked[i]], notice);
}

/* Ranks of this host that are in a call in shared memory hear no notices. They look at the board, where
 * a message that its receiver does not take now says who that is. */
static void stall_show(const ring_run *run) {
  const ring_engine *engine = run->engine;
  ring_call shown = run->task->call;
  int receiver = stall_first(run);
  bool sends = shown.collective == RING_COLLECTIVE_MESSAGE && shown.root == engine->peers->rank;
  if (!sends || engine->share->arena == NULL || receiver < 0) return;
  if (engine->peers->peer[receiver].link == NULL) return; /* it may take it when it is connected */
  shown.layout = ring_share_receiver(receiver);
  ring_share_announce(engine->share, &shown);
}

/* There it says, too, for whom this rank waits: who keeps them all may be behind several ranks. */
static void stall_show_whom(ring_run *run) {
  const ring_share *share = run->engine->share;
  if (share->arena == NULL) return;
  ring_share_show(share, ring_share_index(share, stall_first(run)));
  run->shown = true;
}

void ring_stall_end(const ring_run *run) {
  ring_share_show(run->engine->share, -1);
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

ring_status ring_stall_search(ring_run *run) {
  const ring_wait *wait = run->task->wait;
  ring_search *search = &run->engine->search;
  uint64_t lasted = wait->now - wait->begun;
  bool opening = ring_collective_opens(run->task->call.collective);
  uint64_t first = opening ? STALL_FIRST_OPENING_NS : STALL_FIRST_NS;
  if (first > wait->patience / 4) first = wait->patience / 4;
  if (lasted < first || wait->now < wait->begun) return RING_OK;
  if (search->begun != wait->begun) *search = (ring_search){.begun = wait->begun, .next = first};
  ring_notice notice;
  stall_compose(run, &notice);
  bool due = lasted >= search->next;
  bool changed = !stall_is_same(&notice, &search->said);
  if (due || (changed && wait->now - search->sent >= STALL_LEAST_NS)) {
    search->said = notice;
    search->sent = wait->now;
    stall_say(run, &notice);
    stall_show_whom(run);
  }
  if (!due) return stall_check(run, &notice);
  stall_show(run);
  search->next = lasted + (lasted < STALL_MOST_NS ? lasted : STALL_MOST_NS);
  ring_status status = stall_listen(run);
  return status == RING_OK ? stall_check(run, &notice) : status;
}
