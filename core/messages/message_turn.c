/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/message_turn.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "peers/connector.h"

/* ---- Frames ------------------------------------------------------------------------------- */

/* Removes the transfer of a number from a queue; NULL: none. */
static ring_transfer *turn_remove(ring_transfer_queue *queue, uint64_t number) {
  ring_transfer **at = &queue->first;
  while (*at != NULL && (*at)->number != number) at = &(*at)->next;
  return *at != NULL ? transfer_remove(queue, at) : NULL;
}

/* Queues the next piece of a long message. */
static void turn_append_piece(ring_messages *messages, ring_transfer *send) {
  uint64_t left = send->bytes - send->moved;
  send->packet.frame =
      (ring_message_frame){.kind = RING_MESSAGE_DATA,
                           .length = left < RING_CHUNK_BYTES ? (uint32_t)left : RING_CHUNK_BYTES,
                           .bytes = send->bytes,
                           .number = send->number};
  send->packet.payload = send->memory + send->moved;
  send->packet.sent = 0;
  ring_protocol_append(messages, send->peer, &send->packet);
}

static void turn_sent(void *owner, ring_channel *channel, ring_packet *packet) {
  ring_messages *messages = owner;
  ring_transfer *send = packet->transfer;
  (void)channel;
  messages->queued--;
  if (send == NULL) {
    free(packet);
    return;
  }
  send->moved += packet->frame.length;
  if (send->moved < send->bytes)
    turn_append_piece(messages, send);
  else
    ring_protocol_complete(messages, send, NULL);
}

/* False where it ends the messages, and for a message that the sender had no credit for. */
static bool turn_begin_eager(ring_messages *messages, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  const ring_message_frame *frame = &in->frame;
  ring_error error;
  channel->held += message_cost(frame->bytes);
  if (channel->held > RING_EAGER_WINDOW) return false;
  in->transfer = ring_matching_take_receive(&messages->matching, channel->rank, frame->tag);
  if (in->transfer != NULL) {
    const ring_message_info info =
        ring_protocol_info(channel->rank, frame->tag, (ring_dtype)frame->dtype, frame->bytes);
    if (ring_protocol_fit(messages, in->transfer, &info, frame->bytes, &error) == RING_OK) {
      in->to = in->transfer->memory;
    } else {
      ring_protocol_complete(messages, in->transfer, &error);
      in->transfer = NULL;
    }
    return true;
  }
  in->arrival = ring_arrival_make(channel->rank, frame, frame->length);
  if (in->arrival == NULL) {
    ring_protocol_no_memory(messages);
    return false;
  }
  in->to = in->arrival->payload;
  ring_matching_keep(&messages->matching, in->arrival);
  return true;
}

static bool turn_begin_data(ring_channel *channel) {
  ring_incoming *in = &channel->in;
  ring_transfer *receive = channel->receiving.first;
  while (receive != NULL && receive->number != in->frame.number) receive = receive->next;
  if (receive == NULL || in->frame.length > receive->bytes - receive->moved) return false;
  in->transfer = receive;
  in->to = receive->memory + receive->moved;
  return true;
}

static bool turn_begin_frame(void *owner, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  if (in->frame.kind == RING_MESSAGE_EAGER) return turn_begin_eager(owner, channel);
  if (in->frame.kind == RING_MESSAGE_DATA) return turn_begin_data(channel);
  if (in->frame.kind == RING_MESSAGE_REQUEST) return channel->requests < RING_REQUESTS_MOST;
  if (in->frame.kind == RING_MESSAGE_FAIL) in->to = (uint8_t *)in->text;
  return true;
}

static void turn_end_eager(ring_messages *messages, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  ring_arrival *arrival = in->arrival;
  uint64_t cost = message_cost(in->frame.bytes);
  in->arrival = NULL;
  if (arrival == NULL) {
    if (in->transfer != NULL) ring_protocol_complete(messages, in->transfer, NULL);
    ring_protocol_return(messages, channel->rank, cost);
    return;
  }
  arrival->whole = true;
  progress_changed(&messages->progress); /* a probe may wait */
  if (arrival->taker != NULL) ring_protocol_take(messages, arrival->taker, arrival);
}

static void turn_end_request(ring_messages *messages, ring_channel *channel) {
  const ring_message_frame *frame = &channel->in.frame;
  ring_transfer *receive =
      ring_matching_take_receive(&messages->matching, channel->rank, frame->tag);
  if (receive != NULL) {
    ring_protocol_accept(messages, receive, channel->rank, frame);
    return;
  }
  ring_arrival *arrival = ring_arrival_make(channel->rank, frame, 0);
  if (arrival == NULL) {
    ring_protocol_no_memory(messages);
    return;
  }
  arrival->requested = true;
  channel->requests++;
  ring_matching_keep(&messages->matching, arrival);
  progress_changed(&messages->progress);
}

static void turn_end_ready(ring_messages *messages, ring_channel *channel) {
  ring_transfer *send = turn_remove(&channel->awaiting, channel->in.frame.number);
  if (send == NULL) return; /* of a send that failed when the peer closed */
  if (channel->in.frame.bytes == 0)
    ring_protocol_complete(messages, send, NULL);
  else
    turn_append_piece(messages, send);
}

static void turn_end_data(ring_messages *messages, ring_channel *channel) {
  ring_transfer *receive = channel->in.transfer;
  receive->moved += channel->in.frame.length;
  if (receive->moved < receive->bytes) return;
  turn_remove(&channel->receiving, receive->number);
  ring_protocol_complete(messages, receive, NULL);
}

static void turn_fail_posted(ring_messages *messages, int source, const ring_error *error) {
  ring_transfer *receive;
  while ((receive = ring_matching_first_posted(&messages->matching, source)) != NULL) {
    ring_matching_withdraw(&messages->matching, receive);
    ring_protocol_complete(messages, receive, error);
  }
}

/* The peer has closed: what waits for it fails. */
static void turn_end_end(ring_messages *messages, ring_channel *channel) {
  ring_error error;
  channel->ended = true;
  ring_protocol_ended(messages, channel->rank, &error);
  while (channel->awaiting.first != NULL)
    ring_protocol_complete(messages, transfer_remove(&channel->awaiting, &channel->awaiting.first),
                           &error);
  turn_fail_posted(messages, channel->rank, &error);
  if (ring_protocol_check_source(messages, RING_ANY_SOURCE, &error) != RING_OK)
    turn_fail_posted(messages, RING_ANY_SOURCE, &error);
  progress_changed(&messages->progress);
}

static void turn_end_fail(ring_messages *messages, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  ring_error error;
  int status = in->frame.dtype, rank = in->frame.tag;
  in->text[in->frame.length] = '\0';
  if (status <= RING_OK || status > RING_SYSTEM) status = RING_PEER_LOST;
  if (rank < 0 || rank >= messages->size) rank = -1;
  if (in->frame.length > 0)
    ring_error_set(&error, (ring_status)status, rank, 0, "%s", in->text);
  else
    ring_error_set(&error, (ring_status)status, rank, 0,
                   "rank %d (%s) failed and reported no cause", channel->rank,
                   ring_protocol_host(messages, channel->rank));
  messages_peer(messages, channel->rank)->ended = true;
  ring_protocol_fail(messages, &error);
}

static bool turn_end_frame(void *owner, ring_channel *channel) {
  ring_messages *messages = owner;
  const ring_message_frame *frame = &channel->in.frame;
  uint64_t credit = channel->credit + frame->bytes;
  switch (frame->kind) {
  case RING_MESSAGE_NONE:
    break;
  case RING_MESSAGE_EAGER:
    turn_end_eager(messages, channel);
    break;
  case RING_MESSAGE_REQUEST:
    turn_end_request(messages, channel);
    break;
  case RING_MESSAGE_READY:
    turn_end_ready(messages, channel);
    break;
  case RING_MESSAGE_DATA:
    turn_end_data(messages, channel);
    break;
  case RING_MESSAGE_CREDIT:
    channel->credit = credit < RING_EAGER_WINDOW ? credit : RING_EAGER_WINDOW;
    break;
  case RING_MESSAGE_END:
    turn_end_end(messages, channel);
    break;
  case RING_MESSAGE_TOKEN:
    channel->tokens |= UINT32_C(1) << frame->number;
    break;
  case RING_MESSAGE_FAIL:
    turn_end_fail(messages, channel);
    break;
  }
  return !messages->broken;
}

/* ---- Turns -------------------------------------------------------------------------------- */

static void turn_open_links(ring_messages *messages) {
  ring_error error;
  messages->wants = false;
  for (int rank = 0; rank < messages->size && !messages->broken; rank++) {
    ring_channel *channel = &messages->channels[rank];
    bool opens = channel->wanted && messages_peer(messages, rank)->link == NULL;
    channel->wanted = false;
    if (opens && ring_connector_start(&messages->comm->peers, rank, &error) != RING_OK)
      ring_protocol_fail(messages, &error);
  }
}

/* The link of a rank has ended, or what came on it cannot be. */
static void turn_lose(ring_messages *messages, ring_channel *channel, int code) {
  ring_peer *peer = messages_peer(messages, channel->rank);
  const char *host = ring_protocol_host(messages, channel->rank);
  ring_error error;
  peer->ended = true;
  if (channel->ended && (code == EPIPE || code == ECONNRESET)) {
    for (const ring_packet *packet = channel->first; packet != NULL; packet = packet->next)
      messages->queued--;
    ring_channel_clear(channel);
    return;
  }
  if (code == EPROTO)
    ring_error_set(&error, RING_MISMATCH, channel->rank, 0,
                   "rank %d (%s) sent a message that it may not send: its memory or its sparkring "
                   "is faulty, or it is hostile",
                   channel->rank, host);
  else if (code == EBADMSG)
    ring_error_set(&error, RING_PEER_LOST, channel->rank, 0,
                   "what rank %d (%s) sent arrived damaged: a network card, a cable, a router or "
                   "memory between the two is faulty",
                   channel->rank, host);
  else if (code == ENOMEM)
    ring_error_no_memory(&error, messages->rank);
  else
    ring_error_set(&error, RING_PEER_LOST, channel->rank, code == EPIPE ? 0 : code,
                   "rank %d (%s) was lost%s", channel->rank, host,
                   code == EPIPE ? ": it ended the connection without closing its messages" : "");
  ring_protocol_fail(messages, &error);
}

static void turn_serve(ring_messages *messages, int rank, bool receives) {
  const ring_channel_owner owner = {turn_sent, turn_begin_frame, turn_end_frame, messages};
  ring_channel *channel = &messages->channels[rank];
  ring_peer *peer = messages_peer(messages, rank);
  uint64_t before = channel->moved;
  if (messages->closing && !channel->announced) {
    channel->announced = true;
    ring_protocol_notify(messages, rank, RING_MESSAGE_END, 0);
  }
  ring_channel_flush(channel, peer, &owner);
  if (receives || channel->mute) {
    int code = ring_channel_receive(channel, peer, &owner);
    if (code < 0 && !messages->broken) turn_lose(messages, channel, -code);
    if (!messages->broken) ring_channel_flush(channel, peer, &owner);
  }
  messages->moved += channel->moved - before;
}

void ring_message_turn(ring_messages *messages, bool all) {
  const ring_peers *peers = &messages->comm->peers;
  if (messages->wants) turn_open_links(messages);
  for (int i = 0; i < peers->linked_count && !messages->broken; i++) {
    int rank = peers->linked[i];
    const ring_peer *peer = &peers->peer[rank];
    if (peer->ended) continue;
    bool ready = all || ring_poll_set_ready(&messages->poll_set, peer->slot);
    if (ready || messages->channels[rank].first != NULL || messages->closing)
      turn_serve(messages, rank, ready);
  }
}
