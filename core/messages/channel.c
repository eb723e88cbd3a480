/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "peers/wait_report.h"

#define CHANNEL_BURST ((size_t)2 * 1024 * 1024) /* bytes that one call moves, about */

void ring_channel_init(ring_channel *channel, int rank) {
  *channel = (ring_channel){.rank = rank, .credit = RING_EAGER_WINDOW};
  channel->end = &channel->first;
  transfer_queue_clear(&channel->awaiting);
  transfer_queue_clear(&channel->receiving);
}

void ring_channel_clear(ring_channel *channel) {
  while (channel->first != NULL) {
    ring_packet *packet = channel->first;
    channel->first = packet->next;
    if (packet->transfer == NULL) free(packet);
  }
  channel->end = &channel->first;
  transfer_queue_clear(&channel->awaiting);
  transfer_queue_clear(&channel->receiving);
  if (channel->in.arrival != NULL && channel->in.arrival->taker != NULL) free(channel->in.arrival);
  channel->in = (ring_incoming){0};
}

/* ---- Sending ------------------------------------------------------------------------------ */

ring_packet *ring_packet_make(const ring_message_frame *frame, const void *payload) {
  ring_packet *packet = malloc(sizeof *packet + frame->length);
  if (packet == NULL) return NULL;
  *packet = (ring_packet){.frame = *frame, .payload = (const uint8_t *)(packet + 1)};
  if (payload != NULL) memcpy(packet + 1, payload, frame->length);
  return packet;
}

void ring_channel_append(ring_channel *channel, ring_packet *packet) {
  packet->next = NULL;
  *channel->end = packet;
  channel->end = &packet->next;
}

static size_t packet_bytes(const ring_packet *packet) {
  return RING_HEADER_BYTES + packet->frame.length;
}

/* Packs the header when the frame begins. */
static void packet_begin(ring_packet *packet, const ring_link *link) {
  bool checks = link->ops->unchecked && packet->frame.length > 0;
  packet->frame.check = checks ? ring_checksum(packet->payload, packet->frame.length) : 0;
  ring_message_frame_pack(&packet->frame, packet->header);
}

/* False when the link takes no more. */
static bool channel_send(ring_channel *channel, ring_link *link, ring_packet *packet) {
  struct iovec pieces[2];
  int count = 0;
  if (packet->sent == 0) packet_begin(packet, link);
  size_t skip = packet->sent > RING_HEADER_BYTES ? packet->sent - RING_HEADER_BYTES : 0;
  if (packet->sent < RING_HEADER_BYTES)
    pieces[count++] =
        (struct iovec){packet->header + packet->sent, RING_HEADER_BYTES - packet->sent};
  if (skip < packet->frame.length)
    pieces[count++] =
        (struct iovec){(void *)(uintptr_t)(packet->payload + skip), packet->frame.length - skip};
  ssize_t moved = link->ops->send(link, pieces, count);
  if (moved < 0) channel->mute = true;
  if (moved <= 0) return false;
  packet->sent += (size_t)moved;
  channel->moved++;
  return packet->sent == packet_bytes(packet);
}

/* Whether frames can be sent: not behind a part of a wait report from the opening. */
static bool channel_is_ready(const ring_channel *channel, ring_peer *peer) {
  if (peer->link == NULL || peer->ended || channel->mute) return false;
  return !peer->outbox_busy || ring_wait_report_flush(peer);
}

void ring_channel_try(ring_channel *channel, ring_peer *peer, ring_packet *packet) {
  if (channel_is_ready(channel, peer)) channel_send(channel, peer->link, packet);
}

void ring_channel_flush(ring_channel *channel, ring_peer *peer, const ring_channel_owner *owner) {
  if (channel->first == NULL || !channel_is_ready(channel, peer)) return;
  size_t moved = 0;
  while (channel->first != NULL && moved < CHANNEL_BURST) {
    ring_packet *packet = channel->first;
    if (!channel_send(channel, peer->link, packet)) return;
    moved += packet_bytes(packet);
    channel->first = packet->next;
    if (channel->first == NULL) channel->end = &channel->first;
    owner->sent(owner->owner, channel, packet);
  }
}

/* ---- Receiving ---------------------------------------------------------------------------- */

/* Receives the rest of the header. 1: it is there; else 0 or -errno. */
static int channel_receive_header(ring_channel *channel, ring_link *link,
                                  const ring_channel_owner *owner) {
  ring_incoming *in = &channel->in;
  struct iovec piece = {in->header + in->have, sizeof in->header - in->have};
  ssize_t got = link->ops->receive(link, &piece, 1);
  if (got <= 0) return (int)got;
  channel->moved++;
  in->have += (size_t)got;
  if (in->have < sizeof in->header) return 0;
  in->to = NULL;
  in->transfer = NULL;
  in->arrival = NULL;
  ring_message_header header = ring_message_frame_unpack(in->header, &in->frame);
  in->left = in->frame.length;
  if (header == RING_MESSAGE_HEADER_SKIP) return 1;
  if (header == RING_MESSAGE_HEADER_BAD && !ring_frame_is_whole(in->header)) return -EBADMSG;
  if (header == RING_MESSAGE_HEADER_BAD || !owner->begin(owner->owner, channel)) return -EPROTO;
  return 1;
}

/* Receives a piece of the payload. 1: there was one; else 0 or -errno. */
static int channel_receive_payload(ring_channel *channel, ring_link *link) {
  ring_incoming *in = &channel->in;
  uint8_t discarded[4096];
  size_t most = in->to != NULL || in->left < sizeof discarded ? in->left : sizeof discarded;
  struct iovec piece = {in->to != NULL ? in->to : discarded, most};
  ssize_t got = link->ops->receive(link, &piece, 1);
  if (got <= 0) return (int)got;
  channel->moved++;
  in->left -= (size_t)got;
  if (in->to != NULL) in->to += got;
  return 1;
}

static bool channel_is_intact(const ring_incoming *in, const ring_link *link) {
  size_t length = in->frame.length;
  bool checks = in->frame.kind == RING_MESSAGE_FAIL || link->ops->unchecked;
  return !checks || in->to == NULL || length == 0 ||
         ring_checksum(in->to - length, length) == in->frame.check;
}

int ring_channel_receive(ring_channel *channel, ring_peer *peer, const ring_channel_owner *owner) {
  ring_incoming *in = &channel->in;
  ring_link *link = peer->link;
  size_t moved = 0;
  while (moved < CHANNEL_BURST) {
    int got = 1;
    if (in->have < sizeof in->header) got = channel_receive_header(channel, link, owner);
    if (got == 1 && in->left > 0) got = channel_receive_payload(channel, link);
    if (got <= 0) return got;
    if (in->left > 0) continue;
    if (!channel_is_intact(in, link)) return -EBADMSG;
    in->have = 0;
    moved += RING_HEADER_BYTES + in->frame.length;
    if (!owner->end(owner->owner, channel)) break;
  }
  return 0;
}
