/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/checksum.h"
#include "base/platform.h"
#include "engine/detector/failure.h"
#include "peers/connector.h"
#include "peers/peers.h"

/* The same where an exchange may let go of some ranks as much later as Spark's allGather does, which
 * asks once a second whether all have come. */
#define FAILURE_TELL_EXCHANGED_NS UINT64_C(1500000000)

void ring_failure_sleep(ring_link *link, short events) {
  struct pollfd entry = {.fd = link->fd, .events = link->ops->arm(link, events)};
  poll(&entry, 1, 10);
}

/* Sends all of it before `give_up`; false when that cannot be done. */
static bool failure_send_out(ring_link *link, const uint8_t *bytes, size_t length,
                             uint64_t give_up) {
  while (length > 0) {
    struct iovec piece = {(void *)(uintptr_t)bytes, length};
    ssize_t sent = link->ops->send(link, &piece, 1);
    if (sent < 0) return false;
    bytes += sent;
    length -= (size_t)sent;
    if (sent > 0) continue;
    if (ring_platform_now() >= give_up) return false;
    ring_failure_sleep(link, POLLOUT);
  }
  return true;
}

/* Finishes a frame that is half sent: its receiver could not tell what follows from payload. */
static void failure_finish_frame(ring_engine *engine, const ring_task *task, size_t lane,
                                 uint64_t give_up) {
  const ring_lane *shape = &task->schedule->lanes[lane];
  ring_progress *progress = &engine->progress[lane];
  if (shape->kind != RING_LANE_SEND || !progress->active || progress->moved == 0) return;
  ring_peer *peer = &engine->peers->peer[shape->peer];
  struct iovec pieces[2];
  int count = run_pieces(progress, run_header(progress, 0), pieces);
  for (int i = 0; i < count && !peer->ended; i++)
    peer->ended = !failure_send_out(peer->link, pieces[i].iov_base, pieces[i].iov_len, give_up);
}

/* The same for a wait report; one that has not begun is left out. */
static bool failure_finish_notice(ring_peer *peer, uint64_t give_up) {
  ring_outbox *outbox = peer->outbox;
  size_t left = outbox->left < sizeof outbox->out ? outbox->left : 0;
  outbox->left = 0;
  return failure_send_out(peer->link, outbox->out + sizeof outbox->out - left, left, give_up);
}

/* Says it to every rank that has a link and has not heard it yet. */
static void failure_say(ring_peers *peers, const ring_error *error, uint64_t give_up) {
  uint8_t message[RING_HEADER_BYTES + sizeof error->message];
  size_t length = strlen(error->message);
  ring_frame fail = {.kind = RING_FRAME_FAIL,
                     .length = (uint32_t)length,
                     .call = {.op = (uint8_t)error->status, .root = error->rank},
                     .check = ring_checksum(error->message, length)};
  ring_frame_pack(&fail, message);
  memcpy(message + RING_HEADER_BYTES, error->message, length);
  for (int i = 0; i < peers->linked_count; i++) {
    ring_peer *peer = &peers->peer[peers->linked[i]];
    if (peer->told) continue;
    peer->ended = peer->ended || !failure_finish_notice(peer, give_up);
    if (!peer->ended) failure_send_out(peer->link, message, RING_HEADER_BYTES + length, give_up);
    peer->link->ops->finish(peer->link);
    peer->told = true;
  }
}

/* Sleeps for a moment, in which links that were being opened may be finished. */
static void failure_linger(ring_engine *engine) {
  ring_poll_set_reset(&engine->poll_set);
  ring_peers_watch(engine->peers, &engine->poll_set);
  ring_peers_watch_links(engine->peers, &engine->poll_set);
  if (ring_poll_set_sleep(&engine->poll_set, 10) == RING_OK)
    ring_peers_serve(engine->peers, &engine->poll_set, NULL);
}

/* Whether a rank that is to hear of the failure may still open a link: all that have a part in the call
 * with this one, or any if that is not known, but who is at fault. */
static bool failure_expects(const ring_engine *engine, const ring_task *task, int fault) {
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

/* Begins the links that this rank has to open to lower ones, which wait in the call that failed here. */
static void failure_seek(const ring_engine *engine, const ring_task *task, int fault) {
  if (task == NULL || !ring_collective_opens(task->call.collective)) return;
  for (size_t lane = 0; lane < task->schedule->lane_count; lane++) {
    int peer = task->schedule->lanes[lane].peer;
    bool lower = peer >= 0 && peer < engine->peers->rank && peer != fault;
    if (lower && engine->peers->peer[peer].link == NULL)
      ring_connector_start(engine->peers, peer, NULL);
  }
}

void ring_failure_tell(ring_engine *engine, const ring_task *task, const ring_error *error) {
  uint64_t begun = ring_platform_now(), give_up = begun + RING_FAILURE_TELL_NS, last = give_up;
  engine->peers->starved = 0; /* the next link may open all the same */
  failure_seek(engine, task, error->rank);
  for (size_t lane = 0; task != NULL && lane < engine->lanes; lane++)
    failure_finish_frame(engine, task, lane, give_up);
  for (;;) {
    failure_say(engine->peers, error, last);
    bool ended = ring_peers_drain(engine->peers);
    bool expects = failure_expects(engine, task, error->rank);
    if (expects && engine->peers->exchanged) last = begun + FAILURE_TELL_EXCHANGED_NS;
    if ((ended && !expects) || ring_platform_now() >= last) return;
    failure_linger(engine);
  }
}
