/* SPDX-License-Identifier: Apache-2.0 */
#include "peers/wait_report.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/platform.h"

static uint8_t *wait_report_put_suspect(uint8_t *to, const ring_suspect *suspect) {
  to = bytes_put(to, (uint32_t)suspect->rank, 4);
  to = bytes_put(to, suspect->steps, 4);
  to = bytes_put(to, suspect->state, 1);
  return ring_call_pack(&suspect->call, to);
}

static ring_suspect wait_report_get_suspect(const uint8_t **from) {
  ring_suspect suspect;
  suspect.rank = (int)(int32_t)(uint32_t)bytes_get(from, 4);
  suspect.steps = (uint32_t)bytes_get(from, 4);
  suspect.state = (uint8_t)bytes_get(from, 1);
  suspect.call = ring_call_unpack(from);
  return suspect;
}

bool ring_wait_report_is_same(const ring_wait_report *one, const ring_wait_report *other) {
  bool same = one->count == other->count;
  for (int i = 0; i < one->count && same; i++) {
    const ring_suspect *mine = &one->suspects[i], *theirs = &other->suspects[i];
    same = mine->rank == theirs->rank && mine->steps == theirs->steps &&
           mine->state == theirs->state && ring_call_is_same(&mine->call, &theirs->call);
  }
  return same;
}

/* ---- Sending ------------------------------------------------------------------------------ */

static void wait_report_pack(const ring_wait_report *report, uint8_t *message) {
  uint8_t *payload = message + RING_HEADER_BYTES;
  memset(payload, 0, RING_WAIT_REPORT_BYTES);
  bytes_put(payload, (uint64_t)report->count, 4);
  uint8_t *to = bytes_put(payload + 4, report->waited, 4);
  for (int i = 0; i < report->count; i++) to = wait_report_put_suspect(to, &report->suspects[i]);
  ring_frame frame = {.kind = RING_FRAME_WAIT_REPORT,
                      .length = RING_WAIT_REPORT_BYTES,
                      .call = report->call,
                      .check = ring_checksum(payload, RING_WAIT_REPORT_BYTES)};
  ring_frame_pack(&frame, message);
}

static void wait_report_update(ring_peer *peer) {
  peer->outbox_busy = peer->outbox->left > 0 || peer->outbox->have > 0;
}

bool ring_wait_report_flush(ring_peer *peer) {
  ring_outbox *outbox = peer->outbox;
  while (outbox->left > 0) {
    struct iovec piece = {outbox->out + sizeof outbox->out - outbox->left, outbox->left};
    ssize_t sent = peer->link->ops->send(peer->link, &piece, 1);
    if (sent == 0) break;
    outbox->left = sent < 0 ? 0 : outbox->left - (size_t)sent;
  }
  wait_report_update(peer);
  return outbox->left == 0;
}

void ring_wait_report_send(ring_peer *peer, const ring_wait_report *report) {
  ring_outbox *outbox = peer->outbox;
  if (outbox->left == 0 || (outbox->left == sizeof outbox->out && !outbox->describes)) {
    wait_report_pack(report, outbox->out);
    outbox->left = sizeof outbox->out;
    outbox->describes = false;
  }
  ring_wait_report_flush(peer);
}

bool ring_wait_report_describe(ring_peer *peer, const ring_call *call, const char *description) {
  ring_outbox *outbox = peer->outbox;
  if (!ring_wait_report_flush(peer)) return false;
  if (outbox->described == call->digest) return true;
  uint8_t *payload = outbox->out + RING_HEADER_BYTES;
  memset(payload, 0, RING_WAIT_REPORT_BYTES);
  memcpy(payload, description, strnlen(description, RING_DESCRIPTION_BYTES - 1));
  ring_frame frame = {.kind = RING_FRAME_DESCRIPTION,
                      .length = RING_WAIT_REPORT_BYTES,
                      .call = *call,
                      .check = ring_checksum(payload, RING_WAIT_REPORT_BYTES)};
  ring_frame_pack(&frame, outbox->out);
  outbox->left = sizeof outbox->out;
  outbox->describes = true;
  outbox->described = call->digest;
  return ring_wait_report_flush(peer);
}

const char *ring_wait_report_description(const ring_peer *peer, const ring_call *call) {
  const ring_outbox *outbox = peer->outbox;
  return outbox != NULL && outbox->their_digest == call->digest ? outbox->their_description : "";
}

/* ---- Receiving ---------------------------------------------------------------------------- */

static bool wait_report_is_whole(const uint8_t *message, ring_frame *frame) {
  if (!ring_frame_unpack(message, frame) || frame->length != RING_WAIT_REPORT_BYTES) return false;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return true;
#else
  return ring_checksum(message + RING_HEADER_BYTES, RING_WAIT_REPORT_BYTES) == frame->check;
#endif
}

static bool wait_report_unpack(const uint8_t *payload, const ring_call *call, int size,
                               ring_wait_report *report) {
  const uint8_t *from = payload;
  uint32_t count = (uint32_t)bytes_get(&from, 4);
  if (count > RING_SUSPECTS) return false;
  report->call = *call;
  report->waited = (uint32_t)bytes_get(&from, 4);
  report->count = (int)count;
  for (int i = 0; i < report->count; i++) {
    report->suspects[i] = wait_report_get_suspect(&from);
    if (report->suspects[i].rank < 0 || report->suspects[i].rank >= size) return false;
  }
  return true;
}

int ring_wait_report_read(ring_peer *peer, int size) {
  ring_outbox *outbox = peer->outbox;
  while (outbox->have < sizeof outbox->in) {
    struct iovec piece = {outbox->in + outbox->have, sizeof outbox->in - outbox->have};
    ssize_t got = peer->link->ops->receive(peer->link, &piece, 1);
    if (got < 0) return (int)got;
    outbox->have += (size_t)got;
    wait_report_update(peer);
    if (got == 0) return 0;
  }
  outbox->have = 0;
  wait_report_update(peer);
  const uint8_t *payload = outbox->in + RING_HEADER_BYTES;
  ring_frame frame;
  ring_wait_report report;
  if (!wait_report_is_whole(outbox->in, &frame)) return -EBADMSG;
  if (frame.kind == RING_FRAME_DESCRIPTION) {
    outbox->their_digest = frame.call.digest;
    memcpy(outbox->their_description, payload, RING_DESCRIPTION_BYTES - 1);
    return 1;
  }
  if (!wait_report_unpack(payload, &frame.call, size, &report)) return -EBADMSG;
  outbox->last = report;
  outbox->came = ring_platform_now();
  outbox->behind = peer->counters.bytes_received;
  return 1;
}

void ring_wait_report_begin(ring_peer *peer, const uint8_t *header) {
  memcpy(peer->outbox->in, header, RING_HEADER_BYTES);
  peer->outbox->have = RING_HEADER_BYTES;
  wait_report_update(peer);
}
