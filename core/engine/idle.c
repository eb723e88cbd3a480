/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/idle.h"

#include <errno.h>
#include <sched.h>

#include "base/counter.h"
#include "base/error.h"
#include "base/platform.h"
#include "engine/detector/failure.h"
#include "engine/detector/stall.h"
#include "engine/frame_mover.h"
#include "peers/peers.h"

/* With a core for every local rank, spinning for a moment saves a wake-up. With fewer cores, a rank
 * yields its core to the awaited rank. With far fewer cores, yielding would only pass the core to
 * other waiting ranks. The moment is ten times as long as a wake-up takes: the kernel wakes ranks
 * that put each other to sleep on one core, where they stay as long as they never run at the same
 * time (2 MiB between two ranks: 400 instead of 1,000 to 1,400 us). */
#define IDLE_SPIN_NS UINT64_C(300000)
#define IDLE_YIELDS 50

/* A yield that lasts this long gave the core to another program, not to a rank, and the next yield
 * would too. So the next IDLE_WARY waits sleep at once: a sleeping rank wakes in time. */
#define IDLE_OTHER_NS UINT64_C(1000000)
#define IDLE_WARY 2048

/* Pause after a header that has come in part: its link stays readable, so poll() would return at
 * once. */
#define IDLE_REST_MS 1

/* While spinning, one try in IDLE_LOOK reads the clock. */
#define IDLE_LOOK 8

/* Polls each link for the lanes that are blocked on it. All other links are polled for reports. */
static void idle_watch(ring_run *run) {
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
  for (size_t lane = 0; lane < run->task->schedule->lane_count && !run->outside; lane++) {
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

/* Inspects what came on a link that no lane reads from: a failure, the end, or bytes of a later
 * call. */
static ring_status idle_inspect(ring_run *run, int rank) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  ring_status status;
  uint8_t header[RING_HEADER_BYTES];
  if (ring_failure_receive(run, rank, &status)) return status;
  ssize_t got = peer->link->ops->peek(peer->link, header, sizeof header);
  peer->early = got == (ssize_t)sizeof header;
  if (got > 0 && !peer->early) poll(NULL, 0, IDLE_REST_MS);
  if (got >= 0) return RING_OK;
  /* A rank that has finished closing may go: a lane that still needs the rank reads from it. */
  peer->ended = true;
  bool closing = run->task->call.collective == RING_COLLECTIVE_CLOSE;
  return closing ? RING_OK : ring_failure_lost(run, rank, (int)-got);
}

/* Whether a link reports an error without an orderly end of its peer, after which arm() returns
 * 0. */
static bool idle_is_broken(const ring_run *run, const ring_peer *peer) {
  bool broke = (run->engine->poll_set.entries[peer->slot].revents & (POLLERR | POLLHUP)) != 0;
  return broke && peer->link->ops->arm(peer->link, 0) != 0;
}

/* After a sleep: flushes wait reports, inspects links that no lane reads from, and serves links
 * that open. */
static ring_status idle_serve(ring_run *run) {
  ring_peers *peers = run->engine->peers;
  for (int i = 0; i < peers->linked_count; i++) {
    int rank = peers->linked[i];
    ring_peer *peer = &peers->peer[rank];
    if (peer->outbox_busy) ring_wait_report_flush(peer);
    if (peer->ended || !ring_poll_set_ready(&run->engine->poll_set, peer->slot)) continue;
    if (run_reads_from(run, rank)) continue;
    if (peer->early && !idle_is_broken(run, peer)) continue;
    ring_status status =
        peer->early ? ring_failure_lost(run, rank, EPIPE) : idle_inspect(run, rank);
    if (status != RING_OK) return status;
  }
  return ring_failure_unlinked(run, ring_peers_serve(peers, &run->engine->poll_set, run->error));
}

/* Reads the clock. The deadline of a call begins when the call first waits, because reading the
 * clock costs a short call too much. The deadline of open has begun before. */
static uint64_t idle_clock(ring_run *run) {
  if (run->timed) return ring_platform_now();
  run->timed = true;
  ring_wait_begin(run->task->wait);
  return run->task->wait->begun;
}

ring_status ring_idle_check(ring_run *run) {
  bool opening = ring_collective_opens(run->task->call.collective);
  idle_clock(run);
  if (run->progressed && !opening) ring_wait_renew(run->task->wait);
  run->progressed = false;
  ring_status status = ring_wait_check(run->task->wait);
  if (status != RING_OK) return ring_failure_wait_ended(run, status);
  if (ring_wait_lasts(run->task->wait)) ring_stall_warn(run);
  return ring_stall_search(run);
}

static ring_status idle_sleep(ring_run *run, int milliseconds) {
  ring_status status = ring_poll_set_sleep(&run->engine->poll_set, milliseconds);
  if (status != RING_OK)
    return ring_error_set(run->error, status, run->engine->peers->rank, errno,
                          "rank %d cannot wait for the others", run->engine->peers->rank);
  status = idle_serve(run);
  if (status != RING_OK) return status;
  return ring_idle_check(run);
}

/* Keeps trying, on a core of its own. */
static ring_status idle_spin(ring_run *run, uint64_t begun) {
  ring_status status = RING_OK;
  for (unsigned tries = 1; status == RING_OK && !run->moved; tries++) {
    if (tries % IDLE_LOOK == 0 && ring_platform_now() - begun > IDLE_SPIN_NS) break;
    ring_platform_pause();
    status = ring_frame_mover_turn(run);
  }
  return status;
}

/* Keeps trying, and between tries yields the core to the awaited rank. */
static ring_status idle_yield(ring_run *run, uint64_t begun) {
  ring_engine *engine = run->engine;
  ring_status status = RING_OK;
  if (engine->wary > 0) engine->wary--;
  for (int i = 0; i < IDLE_YIELDS && engine->wary == 0 && status == RING_OK && !run->moved; i++) {
    sched_yield();
    uint64_t now = ring_platform_now();
    if (now - begun > IDLE_OTHER_NS) engine->wary = IDLE_WARY;
    begun = now;
    status = ring_frame_mover_turn(run);
  }
  return status;
}

ring_status ring_idle_wait(ring_run *run) {
  uint64_t begun = idle_clock(run);
  ring_timeline *timeline = run->engine->timeline;
  ring_timeline_record(timeline, RING_EVENT_WAIT, true, &run->task->call, -1, 0);
  ring_cores cores = run->engine->peers->cores;
  ring_status status = RING_OK;
  if (cores == RING_CORES_SUFFICE) status = idle_spin(run, begun);
  if (cores == RING_CORES_SHARED) status = idle_yield(run, begun);
  if (status == RING_OK && !run->moved && run->lanes_left > 0) {
    idle_watch(run);
    status = idle_sleep(run, ring_wait_slice(run->task->wait));
  }
  ring_counter_add(&run->engine->wait_ns, ring_platform_now() - begun);
  ring_timeline_record(timeline, RING_EVENT_WAIT, false, &run->task->call, -1, 0);
  return status;
}

ring_status ring_idle_look(ring_run *run) {
  idle_clock(run);
  idle_watch(run);
  return idle_sleep(run, 0);
}
