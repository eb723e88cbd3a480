/* SPDX-License-Identifier: Apache-2.0
 *
 * How the engine waits: it tries on for a moment, then sleeps on every link it has, and hears what
 * came on those that no lane is reading.
 */
#include <errno.h>
#include <sched.h>

#include "base/error.h"
#include "base/platform.h"
#include "engine/detector/failure.h"
#include "engine/detector/stall.h"
#include "engine/run.h"
#include "peers/peers.h"

/* With a core for every local rank, a moment of spinning saves a wake-up; with fewer, the core is
 * better given to the rank that is waited for; with far fewer, yielding only gives it to others
 * that wait, too. The moment is ten times what a wake-up takes: ranks that put each other to sleep
 * are woken on the same core, as if there were no other one, and stay there as long as they never
 * run at the same time (2 MiB between two ranks: 400 instead of 1,000 to 1,400 us). */
#define ENGINE_SPIN_NS UINT64_C(300000)
#define ENGINE_YIELDS 50

/* A core that is away for so long has gone to a stranger, not to a rank, and would again: the next
 * waits sleep at once, which wakes in time. */
#define ENGINE_STRANGER_NS UINT64_C(1000000)
#define ENGINE_WARY 2048

/* How long a header that has come in part is left alone, whose link stays ready. */
#define ENGINE_REST_MS 1

/* While spinning, one try in so many looks at the clock. */
#define ENGINE_LOOK 8

/* What each link is to be polled for: lanes that are blocked on it, and news on all others. */
static void engine_watch(ring_run *run) {
  ring_engine *engine = run->engine;
  ring_peers *peers = engine->peers;
  ring_poll_set_reset(&engine->poll_set);
  for (int i = 0; i < peers->linked_count; i++) {
    ring_peer *peer = &peers->peer[peers->linked[i]];
    short events = peer->early || peer->ended ? 0 : POLLIN;
    if (peer->outbox_busy && peer->outbox->left > 0) events |= POLLOUT;
    peer->slot = SIZE_MAX;
    if (!peer->ended) peer->slot = ring_poll_set_add(&engine->poll_set, peer->link->fd, events);
  }
  for (size_t lane = 0; lane < run->task->schedule->lane_count; lane++) {
    const ring_lane *shape = run_lane(run, lane);
    if (!engine->progress[lane].active || shape->kind == RING_LANE_LOCAL) continue;
    const ring_peer *peer = &peers->peer[shape->peer];
    if (peer->link == NULL || peer->slot >= engine->poll_set.count) continue;
    short *events = &engine->poll_set.entries[peer->slot].events;
    *events = (short)(*events | (shape->kind == RING_LANE_SEND ? POLLOUT : POLLIN));
  }
  if (engine->bell >= 0) ring_poll_set_add(&engine->poll_set, engine->bell, POLLIN);
  for (int i = 0; i < peers->linked_count; i++) {
    const ring_peer *peer = &peers->peer[peers->linked[i]];
    if (peer->slot >= engine->poll_set.count) continue;
    struct pollfd *entry = &engine->poll_set.entries[peer->slot];
    entry->events = peer->link->ops->arm(peer->link, entry->events);
    if (entry->events == 0) entry->fd = -1;
  }
  ring_peers_watch(peers, &engine->poll_set);
}

/* Looks at what came on a link that no lane is reading: a failure, an end, or bytes of later. */
static ring_status engine_news(ring_run *run, int rank) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  ring_status status;
  uint8_t header[RING_HEADER_BYTES];
  if (ring_failure_fails(run, rank, &status)) return status;
  ssize_t got = peer->link->ops->peek(peer->link, header, sizeof header);
  peer->early = got == (ssize_t)sizeof header;
  if (got > 0 && !peer->early) poll(NULL, 0, ENGINE_REST_MS);
  if (got >= 0) return RING_OK;
  /* A rank that has finished closing may go; whoever still needs it reads from it. */
  peer->ended = true;
  bool closing = run->task->call.collective == RING_COLLECTIVE_CLOSE;
  return closing ? RING_OK : ring_failure_lost(run, rank, (int)-got);
}

/* A link that breaks although there is nothing to arm it for has not ended in order. */
static bool engine_broke(const ring_run *run, const ring_peer *peer) {
  bool broke = (run->engine->poll_set.entries[peer->slot].revents & (POLLERR | POLLHUP)) != 0;
  return broke && peer->link->ops->arm(peer->link, 0) != 0;
}

static ring_status engine_hear(ring_run *run) {
  ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    int rank = peers->linked[i];
    ring_peer *peer = &peers->peer[rank];
    if (peer->outbox_busy) ring_wait_report_flush(peer);
    if (peer->ended || !ring_poll_set_ready(&run->engine->poll_set, peer->slot)) continue;
    if (run_listens(run, rank)) continue;
    if (peer->early && !engine_broke(run, peer)) continue;
    ring_status status = peer->early ? ring_failure_lost(run, rank, EPIPE) : engine_news(run, rank);
    if (status != RING_OK) return status;
  }
  return ring_failure_unlinked(run, ring_peers_serve(peers, &run->engine->poll_set, run->error));
}

/* A look at the clock is not free for a short call, so the deadline of a call begins when it first
 * waits; that of open has begun before. */
static uint64_t engine_clock(ring_run *run) {
  if (run->timed) return ring_platform_now();
  run->timed = true;
  ring_wait_begin(run->task->wait);
  return run->task->wait->begun;
}

ring_status ring_engine_check(ring_run *run) {
  bool opening = ring_collective_opens(run->task->call.collective);
  engine_clock(run);
  if (run->progressed && !opening) ring_wait_renew(run->task->wait);
  run->progressed = false;
  ring_status status = ring_wait_check(run->task->wait);
  if (status != RING_OK) return ring_failure_impatient(run, status);
  if (ring_wait_lasts(run->task->wait)) ring_stall_warn(run);
  return ring_stall_search(run);
}

static ring_status engine_sleep(ring_run *run) {
  ring_status status =
      ring_poll_set_sleep(&run->engine->poll_set, ring_wait_slice(run->task->wait));
  if (status != RING_OK)
    return ring_error_set(run->error, status, run->engine->peers->rank, errno,
                          "rank %d cannot wait for the others", run->engine->peers->rank);
  status = engine_hear(run);
  if (status != RING_OK) return status;
  return ring_engine_check(run);
}

/* Tries on, on a core of its own. */
static ring_status engine_spin(ring_run *run, uint64_t begun) {
  ring_status status = RING_OK;
  for (unsigned tries = 1; status == RING_OK && !run->moved; tries++) {
    if (tries % ENGINE_LOOK == 0 && ring_platform_now() - begun > ENGINE_SPIN_NS) break;
    ring_platform_pause();
    status = ring_engine_turn(run);
  }
  return status;
}

/* Tries on, and between tries gives the core to the rank that is waited for. */
static ring_status engine_give_way(ring_run *run, uint64_t begun) {
  ring_engine *engine = run->engine;
  ring_status status = RING_OK;
  if (engine->wary > 0) engine->wary--;
  for (int i = 0; i < ENGINE_YIELDS && engine->wary == 0 && status == RING_OK && !run->moved; i++) {
    sched_yield();
    uint64_t now = ring_platform_now();
    if (now - begun > ENGINE_STRANGER_NS) engine->wary = ENGINE_WARY;
    begun = now;
    status = ring_engine_turn(run);
  }
  return status;
}

ring_status ring_engine_wait(ring_run *run) {
  uint64_t begun = engine_clock(run);
  ring_cores cores = run->engine->peers->cores;
  ring_status status = RING_OK;
  if (cores == RING_CORES_SUFFICE) status = engine_spin(run, begun);
  if (cores == RING_CORES_SHARED) status = engine_give_way(run, begun);
  if (status == RING_OK && !run->moved && run->lanes_left > 0) {
    engine_watch(run);
    status = engine_sleep(run);
  }
  engine_counter_add(&run->engine->wait_ns, ring_platform_now() - begun);
  return status;
}
