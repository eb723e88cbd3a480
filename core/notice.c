/* SPDX-License-Identifier: Apache-2.0 */
#include "notice.h"

#include <errno.h>
#include <string.h>

#include "bytes.h"
#include "checksum.h"
#include "platform.h"

static uint8_t *notice_put_suspect(uint8_t *to, const ring_suspect *suspect) {
  to = bytes_put(to, (uint32_t)suspect->rank, 4);
  to = bytes_put(to, suspect->steps, 4);
  to = bytes_put(to, suspect->state, 1);
  return ring_call_pack(&suspect->call, to);
}

static ring_suspect notice_get_suspect(const uint8_t **from) {
  ring_suspect suspect;
  suspect.rank = (int)(int32_t)(uint32_t)bytes_get(from, 4);
  suspect.steps = (uint32_t)bytes_get(from, 4);
  suspect.state = (uint8_t)bytes_get(from, 1);
  suspect.call = ring_call_unpack(from);
  return suspect;
}

bool ring_notice_is_same(const ring_notice *one, const ring_notice *other) {
  bool same = one->count == other->count;
  for (int i = 0; i < one->count && same; i++) {
    const ring_suspect *mine = &one->suspects[i], *theirs = &other->suspects[i];
    same = mine->rank == theirs->rank && mine->steps == theirs->steps &&
           mine->state == theirs->state && ring_call_is_same(&mine->call, &theirs->call);
  }
  return same;
}

/* ---- Sending ------------------------------------------------------------------------------ */

static void notice_pack(const ring_notice *notice, uint8_t *message) {
  uint8_t *payload = message + RING_HEADER_BYTES;
  memset(payload, 0, RING_NOTICE_BYTES);
  bytes_put(payload, (uint64_t)notice->count, 4);
  uint8_t *to = bytes_put(payload + 4, notice->waited, 4);
  for (int i = 0; i < notice->count; i++) to = notice_put_suspect(to, &notice->suspects[i]);
  ring_frame frame = {.kind = RING_FRAME_NOTICE,
                      .length = RING_NOTICE_BYTES,
                      .call = notice->call,
                      .check = ring_checksum(payload, RING_NOTICE_BYTES)};
  ring_frame_pack(&frame, message);
}

static void notice_mind(ring_peer *peer) {
  peer->mailing = peer->mail->left > 0 || peer->mail->have > 0;
}

bool ring_notice_flush(ring_peer *peer) {
  struct ring_mail *mail = peer->mail;
  while (mail->left > 0) {
    struct iovec piece = {mail->out + sizeof mail->out - mail->left, mail->left};
    ssize_t sent = peer->link->ops->send(peer->link, &piece, 1);
    if (sent == 0) break;
    mail->left = sent < 0 ? 0 : mail->left - (size_t)sent;
  }
  notice_mind(peer);
  return mail->left == 0;
}

void ring_notice_send(ring_peer *peer, const ring_notice *notice) {
  struct ring_mail *mail = peer->mail;
  if (mail->left == 0 || (mail->left == sizeof mail->out && !mail->describes)) {
    notice_pack(notice, mail->out);
    mail->left = sizeof mail->out;
    mail->describes = false;
  }
  ring_notice_flush(peer);
}

bool ring_notice_describe(ring_peer *peer, const ring_call *call, const char *description) {
  struct ring_mail *mail = peer->mail;
  if (!ring_notice_flush(peer)) return false;
  if (mail->described == call->layout) return true;
  uint8_t *payload = mail->out + RING_HEADER_BYTES;
  memset(payload, 0, RING_NOTICE_BYTES);
  memcpy(payload, description, strnlen(description, RING_DESCRIPTION_BYTES - 1));
  ring_frame frame = {.kind = RING_FRAME_DESCRIPTION,
                      .length = RING_NOTICE_BYTES,
                      .call = *call,
                      .check = ring_checksum(payload, RING_NOTICE_BYTES)};
  ring_frame_pack(&frame, mail->out);
  mail->left = sizeof mail->out;
  mail->describes = true;
  mail->described = call->layout;
  return ring_notice_flush(peer);
}

const char *ring_notice_description(const ring_peer *peer, const ring_call *call) {
  const struct ring_mail *mail = peer->mail;
  return mail != NULL && mail->their_layout == call->layout ? mail->their_description : "";
}

/* ---- Receiving ---------------------------------------------------------------------------- */

static bool notice_is_whole(const uint8_t *message, ring_frame *frame) {
  if (!ring_frame_unpack(message, frame) || frame->length != RING_NOTICE_BYTES) return false;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  return true;
#else
  return ring_checksum(message + RING_HEADER_BYTES, RING_NOTICE_BYTES) == frame->check;
#endif
}

static bool notice_unpack(const uint8_t *payload, const ring_call *call, int size,
                          ring_notice *notice) {
  const uint8_t *from = payload;
  uint32_t count = (uint32_t)bytes_get(&from, 4);
  if (count > RING_SUSPECTS) return false;
  notice->call = *call;
  notice->waited = (uint32_t)bytes_get(&from, 4);
  notice->count = (int)count;
  for (int i = 0; i < notice->count; i++) {
    notice->suspects[i] = notice_get_suspect(&from);
    if (notice->suspects[i].rank < 0 || notice->suspects[i].rank >= size) return false;
  }
  return true;
}

int ring_notice_read(ring_peer *peer, int size) {
  struct ring_mail *mail = peer->mail;
  while (mail->have < sizeof mail->in) {
    struct iovec piece = {mail->in + mail->have, sizeof mail->in - mail->have};
    ssize_t got = peer->link->ops->receive(peer->link, &piece, 1);
    if (got < 0) return (int)got;
    mail->have += (size_t)got;
    notice_mind(peer);
    if (got == 0) return 0;
  }
  mail->have = 0;
  notice_mind(peer);
  const uint8_t *payload = mail->in + RING_HEADER_BYTES;
  ring_frame frame;
  ring_notice notice;
  if (!notice_is_whole(mail->in, &frame)) return -EBADMSG;
  if (frame.kind == RING_FRAME_DESCRIPTION) {
    mail->their_layout = frame.call.layout;
    memcpy(mail->their_description, payload, RING_DESCRIPTION_BYTES - 1);
    return 1;
  }
  if (!notice_unpack(payload, &frame.call, size, &notice)) return -EBADMSG;
  mail->last = notice;
  mail->came = ring_platform_now();
  mail->behind = peer->counters.bytes_received;
  return 1;
}

void ring_notice_take(ring_peer *peer, const uint8_t *header) {
  memcpy(peer->mail->in, header, RING_HEADER_BYTES);
  peer->mail->have = RING_HEADER_BYTES;
  notice_mind(peer);
}
