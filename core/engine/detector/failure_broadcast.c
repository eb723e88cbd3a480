/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/failure_broadcast.h"

#include "base/platform.h"
#include "engine/detector/failure_frame.h"
#include "peers/connector.h"
#include "peers/peers.h"

/* The most time for a broadcast when the rendezvous was an exchange. Spark's allGather asks once a
 * second whether all ranks have come, so the exchange may release a peer that much later than this
 * rank. */
#define FAILURE_BROADCAST_EXCHANGED_NS UINT64_C(1500000000)

#define FAILURE_BROADCAST_LINGER_MS 10

/* Sends all bytes before the deadline; false when it cannot. */
static bool failure_broadcast_send_bytes(ring_link *link, const uint8_t *bytes, size_t length,
                                         uint64_t deadline) {
  while (length > 0) {
    struct iovec piece = {(void *)(uintptr_t)bytes, length};
    ssize_t sent = link->ops->send(link, &piece, 1);
    if (sent < 0) return false;
    bytes += sent;
    length -= (size_t)sent;
    if (sent > 0) continue;
    if (ring_platform_now() >= deadline) return false;
    ring_failure_frame_sleep(link, POLLOUT);
  }
  return true;
}

/* Finishes a frame that is sent in part: its receiver would take a FAIL frame for payload. */
static void failure_broadcast_finish_frame(ring_engine *engine, const ring_task *task, size_t lane,
                                           uint64_t deadline) {
  const ring_lane *shape = &task->schedule->lanes[lane];
  ring_lane_progress *progress = &engine->progress[lane];
  if (shape->kind != RING_LANE_SEND || !progress->active || progress->moved == 0) return;
  ring_peer *peer = &engine->peers->peer[shape->peer];
  struct iovec pieces[2];
  int count = run_pieces(progress, run_header(progress, 0), pieces);
  for (int i = 0; i < count && !peer->ended; i++)
    peer->ended =
        !failure_broadcast_send_bytes(peer->link, pieces[i].iov_base, pieces[i].iov_len, deadline);
}

/* Finishes a wait report that is sent in part, and drops a report that has not begun. */
static bool failure_broadcast_finish_report(ring_peer *peer, uint64_t deadline) {
  ring_outbox *outbox = peer->outbox;
  size_t left = outbox->left < sizeof outbox->out ? outbox->left : 0;
  outbox->left = 0;
  return failure_broadcast_send_bytes(peer->link, outbox->out + sizeof outbox->out - left, left,
                                      deadline);
}

/* Sends the error to every linked rank that has not received it. */
static void failure_broadcast_send(ring_peers *peers, const ring_error *error, uint64_t deadline) {
  uint8_t frame[RING_FAILURE_FRAME_BYTES];
  size_t length = ring_failure_frame_pack(error, frame);
  for (int i = 0; i < peers->linked_count; i++) {
    ring_peer *peer = &peers->peer[peers->linked[i]];
    if (peer->failure_sent) continue;
    peer->ended = peer->ended || !failure_broadcast_finish_report(peer, deadline);
    if (!peer->ended) failure_broadcast_send_bytes(peer->link, frame, length, deadline);
    peer->link->ops->finish(peer->link);
    peer->failure_sent = true;
  }
}

/* Sleeps for a moment, in which links that are opening may open. */
static void failure_broadcast_linger(ring_engine *engine) {
  ring_poll_set_reset(&engine->poll_set);
  ring_peers_watch(engine->peers, &engine->poll_set);
  ring_peers_watch_links(engine->peers, &engine->poll_set);
  if (ring_poll_set_sleep(&engine->poll_set, FAILURE_BROADCAST_LINGER_MS) == RING_OK)
    ring_peers_serve(engine->peers, &engine->poll_set, NULL);
}

/* Whether a rank that needs the error may still open a link: a peer in the schedule of the call or,
 * while the schedule is not known, any rank. The rank at fault does not count. */
static bool failure_broadcast_expects(const ring_engine *engine, const ring_task *task, int fault) {
  const ring_peers *peers = engine->peers;
  if (task == NULL || !ring_collective_opens(task->call.collective)) return false;
  const ring_schedule *schedule = task->schedule;
  for (size_t lane = 0; lane < schedule->lane_count; lane++) {
    int peer = schedule->lanes[lane].peer;
    if (peer >= 0 && peer != peers->rank && peer != fault && peers->peer[peer].link == NULL)
      return true;
  }
  if (schedule->lane_count > 0) return false;
  bool lost = fault >= 0 && fault < peers->size && fault != peers->rank;
  int unlinked = peers->size - 1 - peers->linked_count;
  return unlinked > (lost && peers->peer[fault].link == NULL ? 1 : 0);
}

/* Begins the links to lower ranks that wait in the failed call: the higher rank of a link
 * connects. */
static void failure_broadcast_connect(const ring_engine *engine, const ring_task *task, int fault) {
  if (task == NULL || !ring_collective_opens(task->call.collective)) return;
  for (size_t lane = 0; lane < task->schedule->lane_count; lane++) {
    int peer = task->schedule->lanes[lane].peer;
    bool lower = peer >= 0 && peer < engine->peers->rank && peer != fault;
    if (lower && engine->peers->peer[peer].link == NULL)
      ring_connector_start(engine->peers, peer, NULL);
  }
}

void ring_failure_broadcast(ring_engine *engine, const ring_task *task, const ring_error *error) {
  uint64_t begun = ring_platform_now(), deadline = begun + RING_FAILURE_FRAME_NS, last = deadline;
  engine->peers->starved =
      0; /* lack of memory for one link does not keep the next link from opening */
  failure_broadcast_connect(engine, task, error->rank);
  for (size_t lane = 0; task != NULL && lane < engine->lanes; lane++)
    failure_broadcast_finish_frame(engine, task, lane, deadline);
  for (;;) {
    failure_broadcast_send(engine->peers, error, last);
    bool ended = ring_peers_drain(engine->peers);
    bool expects = failure_broadcast_expects(engine, task, error->rank);
    if (expects && engine->peers->exchanged) last = begun + FAILURE_BROADCAST_EXCHANGED_NS;
    if ((ended && !expects) || ring_platform_now() >= last) return;
    failure_broadcast_linger(engine);
  }
}
