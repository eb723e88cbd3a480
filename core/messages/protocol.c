/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/platform.h"
#include "peers/connector.h"

#define PROTOCOL_FINISH_NS UINT64_C(200000000) /* for a frame that is sent in part, at a failure */

static const char *protocol_host(const ring_messages *messages, int rank) {
  return ring_peers_host(&messages->comm->peers, rank);
}

void ring_protocol_describe(const ring_messages *messages, bool sends, int peer, int tag,
                            char *text, size_t size) {
  char whom[RING_PROTOCOL_TEXT - 64];
  if (peer == RING_ANY_SOURCE)
    snprintf(whom, sizeof whom, "any rank");
  else
    snprintf(whom, sizeof whom, "rank %d (%.255s)", peer, protocol_host(messages, peer));
  if (tag == RING_ANY_TAG)
    snprintf(text, size, "%s %s with any tag", sends ? "to" : "from", whom);
  else
    snprintf(text, size, "%s %s with tag %d", sends ? "to" : "from", whom, tag);
}

/* ---- Ends --------------------------------------------------------------------------------- */

void ring_protocol_complete(ring_messages *messages, ring_transfer *transfer,
                            const ring_error *error) {
  if (transfer->newer != NULL)
    transfer->newer->older = transfer->older;
  else
    messages->newest = transfer->older;
  if (transfer->older != NULL) transfer->older->newer = transfer->newer;
  messages->in_flight--;
  ring_transfer_complete(transfer, error);
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed);
}

/* Sends the rest of a frame that is sent in part: its receiver would take a FAIL frame for payload. */
static void protocol_finish_frames(ring_messages *messages) {
  uint64_t deadline = ring_platform_now() + PROTOCOL_FINISH_NS;
  for (int rank = 0; rank < messages->size; rank++) {
    ring_channel *channel = &messages->channels[rank];
    ring_peer *peer = messages_peer(messages, rank);
    ring_packet *packet = channel->first;
    if (packet == NULL || packet->sent == 0 || peer->link == NULL) continue;
    while (packet->sent < RING_HEADER_BYTES + packet->frame.length && !channel->mute &&
           ring_platform_now() < deadline)
      ring_channel_try(channel, peer, packet);
    if (packet->sent < RING_HEADER_BYTES + packet->frame.length) peer->ended = true;
  }
}

void ring_protocol_fail(ring_messages *messages, const ring_error *error) {
  if (messages->broken || messages->closed) return;
  messages->failure = *error;
  protocol_finish_frames(messages);
  messages->broken = true;
  ring_comm_break(messages->comm, &messages->failure);
  while (messages->newest != NULL)
    ring_protocol_complete(messages, messages->newest, &messages->failure);
  ring_matching_clear(&messages->matching);
  for (int rank = 0; rank < messages->size; rank++) ring_channel_clear(&messages->channels[rank]);
  messages->queued = 0;
  pthread_cond_broadcast(&messages->changed);
}

static void protocol_no_memory(ring_messages *messages) {
  ring_error error;
  ring_error_no_memory(&error, messages->rank);
  ring_protocol_fail(messages, &error);
}

/* ---- Sending ------------------------------------------------------------------------------ */

void ring_protocol_want(ring_messages *messages, int source) {
  int first = source == RING_ANY_SOURCE ? 0 : source;
  int last = source == RING_ANY_SOURCE ? messages->size - 1 : source;
  for (int rank = first; rank <= last; rank++) {
    const ring_peer *peer = messages_peer(messages, rank);
    if (rank == messages->rank || peer->link != NULL || peer->ended) continue;
    messages->channels[rank].wanted = true;
    messages->wants = true;
  }
}

static void protocol_append(ring_messages *messages, int rank, ring_packet *packet) {
  ring_channel_append(&messages->channels[rank], packet);
  messages->queued++;
  ring_protocol_want(messages, rank);
}

static void protocol_send(ring_messages *messages, int rank, const ring_message_frame *frame) {
  ring_packet *packet = ring_packet_make(frame, NULL);
  if (packet == NULL)
    protocol_no_memory(messages);
  else
    protocol_append(messages, rank, packet);
}

void ring_protocol_notify(ring_messages *messages, int peer, ring_message_kind kind,
                          uint64_t number) {
  const ring_message_frame frame = {.kind = kind, .number = number};
  protocol_send(messages, peer, &frame);
}

bool ring_protocol_is_short(const ring_messages *messages, int peer, uint64_t bytes) {
  return bytes <= RING_EAGER_BYTES && messages->channels[peer].credit >= message_cost(bytes);
}

/* ---- Receiving ---------------------------------------------------------------------------- */

/* Returns room for short messages to their sender, half of the window at a time. */
static void protocol_return(ring_messages *messages, int source, uint64_t cost) {
  ring_channel *channel = &messages->channels[source];
  if (source == messages->rank) {
    channel->credit += cost;
    return;
  }
  channel->owed += cost;
  if (channel->owed < RING_EAGER_WINDOW / 2 || channel->ended) return;
  const ring_message_frame frame = {.kind = RING_MESSAGE_CREDIT, .bytes = channel->owed};
  channel->owed = 0;
  protocol_send(messages, source, &frame);
}

/* Fills the info of a receive, and allocates its output where the library does. An error where the message does
 * not fit. */
static ring_status protocol_fit(const ring_messages *messages, ring_transfer *receive,
                                const ring_message_info *info, uint64_t bytes, ring_error *error) {
  char text[RING_PROTOCOL_TEXT];
  receive->info = *info;
  uint64_t room = receive->bytes;
  receive->bytes = bytes;
  if (receive->takes) {
    receive->dtype = info->dtype;
    if (bytes == 0) return RING_OK;
    ring_status status = ring_alloc(messages->comm, bytes, &receive->output);
    receive->memory = receive->output;
    if (status == RING_OK) return RING_OK;
    return ring_error_set(error, status, messages->rank, 0,
                          "rank %d has no memory for a message of %llu bytes", messages->rank,
                          (unsigned long long)bytes);
  }
  ring_protocol_describe(messages, false, info->source, info->tag, text, sizeof text);
  if (receive->dtype != info->dtype)
    return ring_error_set(error, RING_MISMATCH, info->source, 0,
                          "the message %s is of %s, and the receive of %s: pass the same dtype",
                          text, ring_dtype_name(info->dtype), ring_dtype_name(receive->dtype));
  if (bytes <= room) return RING_OK;
  return ring_error_set(
      error, RING_MISMATCH, info->source, 0,
      "the message %s has %zu elements, and the buffer of the receive room for %zu: "
      "probe for the length first, or receive into a longer buffer",
      text, info->count, (size_t)(room / ring_dtype_size(info->dtype)));
}

static ring_message_info protocol_info(int source, int tag, ring_dtype dtype, uint64_t bytes) {
  return (ring_message_info){source, tag, dtype, (size_t)(bytes / ring_dtype_size(dtype))};
}

/* A long message has met a receive. */
static void protocol_accept(ring_messages *messages, ring_transfer *receive, int source,
                            const ring_message_frame *frame) {
  const ring_message_info info =
      protocol_info(source, frame->tag, (ring_dtype)frame->dtype, frame->bytes);
  ring_error error;
  ring_status status = protocol_fit(messages, receive, &info, frame->bytes, &error);
  bool wants = status == RING_OK && frame->bytes > 0;
  const ring_message_frame ready = {
      .kind = RING_MESSAGE_READY, .bytes = wants ? frame->bytes : 0, .number = frame->number};
  receive->number = frame->number;
  if (wants)
    transfer_append(&messages->channels[source].receiving, receive);
  else
    ring_protocol_complete(messages, receive, status == RING_OK ? NULL : &error);
  protocol_send(messages, source, &ready);
}

/* A message whose payload is in the memory of this rank has met a receive. */
static void protocol_deliver(ring_messages *messages, ring_transfer *receive,
                             const ring_message_info *info, const void *payload, uint64_t bytes) {
  ring_error error;
  ring_status status = protocol_fit(messages, receive, info, bytes, &error);
  if (status == RING_OK && bytes > 0) memcpy(receive->memory, payload, bytes);
  ring_protocol_complete(messages, receive, status == RING_OK ? NULL : &error);
}

/* A receive meets a message that was kept. */
static void protocol_take(ring_messages *messages, ring_transfer *receive, ring_arrival *arrival) {
  const ring_message_info info =
      protocol_info(arrival->source, arrival->tag, arrival->dtype, arrival->bytes);
  if (arrival->sender != NULL) {
    ring_transfer *send = arrival->sender;
    protocol_deliver(messages, receive, &info, send->memory, send->bytes);
    ring_protocol_complete(messages, send, NULL);
  } else if (arrival->requested) {
    const ring_message_frame frame = {.tag = arrival->tag,
                                      .dtype = (uint8_t)arrival->dtype,
                                      .bytes = arrival->bytes,
                                      .number = arrival->number};
    protocol_accept(messages, receive, arrival->source, &frame);
  } else if (arrival->whole) {
    protocol_deliver(messages, receive, &info, arrival->payload, arrival->bytes);
    protocol_return(messages, arrival->source, message_cost(arrival->bytes));
  } else {
    arrival->taker = receive;
    return;
  }
  free(arrival);
}

/* ---- Posting ------------------------------------------------------------------------------ */

/* A message of this rank to itself. `send`: a long one, else NULL. */
static void protocol_send_self(ring_messages *messages, const ring_message_frame *frame,
                               const void *payload, ring_transfer *send) {
  const ring_message_info info =
      protocol_info(messages->rank, frame->tag, (ring_dtype)frame->dtype, frame->bytes);
  ring_transfer *receive =
      ring_matching_take_receive(&messages->matching, messages->rank, frame->tag);
  if (receive != NULL) {
    protocol_deliver(messages, receive, &info, payload, frame->bytes);
    if (send != NULL) ring_protocol_complete(messages, send, NULL);
    return;
  }
  size_t kept = send == NULL ? (size_t)frame->bytes : 0;
  ring_arrival *arrival = ring_arrival_make(messages->rank, frame, kept);
  if (arrival == NULL) {
    protocol_no_memory(messages);
    return;
  }
  if (kept > 0) memcpy(arrival->payload, payload, kept);
  arrival->whole = true;
  arrival->sender = send;
  if (send == NULL) messages->channels[messages->rank].credit -= message_cost(frame->bytes);
  ring_matching_keep(&messages->matching, arrival);
}

void ring_protocol_send_short(ring_messages *messages, int rank, const ring_message_frame *frame,
                              const void *payload) {
  if (rank == messages->rank) {
    protocol_send_self(messages, frame, payload, NULL);
    return;
  }
  ring_channel *channel = &messages->channels[rank];
  ring_packet packet = {.frame = *frame, .payload = payload};
  channel->credit -= message_cost(frame->bytes);
  if (!messages->driving && channel->first == NULL)
    ring_channel_try(channel, messages_peer(messages, rank), &packet);
  if (packet.sent == RING_HEADER_BYTES + frame->length) return;
  ring_packet *copy = ring_packet_make(frame, payload);
  if (copy == NULL) {
    protocol_no_memory(messages);
    return;
  }
  copy->sent = packet.sent;
  memcpy(copy->header, packet.header, sizeof copy->header);
  protocol_append(messages, rank, copy);
}

/* Why nothing goes to or comes from a rank any more. */
static ring_status protocol_ended(const ring_messages *messages, int rank, ring_error *error) {
  return ring_error_set(error, RING_MISMATCH, rank, 0,
                        "rank %d (%s) has closed its messages: every message needs a send and a "
                        "receive",
                        rank, protocol_host(messages, rank));
}

ring_status ring_protocol_check_source(const ring_messages *messages, int source,
                                       ring_error *error) {
  if (source != RING_ANY_SOURCE)
    return messages->channels[source].ended ? protocol_ended(messages, source, error) : RING_OK;
  for (int rank = 0; rank < messages->size; rank++)
    if (rank != messages->rank && !messages->channels[rank].ended) return RING_OK;
  if (messages->size == 1) return RING_OK;
  return ring_error_set(
      error, RING_MISMATCH, -1, 0,
      "all other ranks have closed their messages: every message needs a send and "
      "a receive");
}

static void protocol_begin_receive(ring_messages *messages, ring_transfer *receive) {
  ring_error error;
  ring_arrival *arrival = ring_matching_take(&messages->matching, receive->peer, receive->tag);
  if (arrival != NULL) {
    protocol_take(messages, receive, arrival);
  } else if (ring_protocol_check_source(messages, receive->peer, &error) != RING_OK) {
    ring_protocol_complete(messages, receive, &error);
  } else {
    ring_matching_post(&messages->matching, receive);
    ring_protocol_want(messages, receive->peer);
  }
}

static void protocol_begin_send(ring_messages *messages, ring_transfer *send) {
  ring_channel *channel = &messages->channels[send->peer];
  ring_error error;
  ring_message_frame frame = {.kind = RING_MESSAGE_REQUEST,
                              .dtype = (uint8_t)send->dtype,
                              .tag = send->tag,
                              .bytes = send->bytes};
  if (channel->ended) {
    protocol_ended(messages, send->peer, &error);
    ring_protocol_complete(messages, send, &error);
  } else if (ring_protocol_is_short(messages, send->peer, send->bytes)) {
    frame.kind = RING_MESSAGE_EAGER;
    frame.length = (uint32_t)send->bytes;
    ring_protocol_send_short(messages, send->peer, &frame, send->memory);
    if (!transfer_is_done(send)) ring_protocol_complete(messages, send, NULL);
  } else if (send->peer == messages->rank) {
    protocol_send_self(messages, &frame, send->memory, send);
  } else {
    frame.number = send->number = ++channel->number;
    transfer_append(&channel->awaiting, send);
    protocol_send(messages, send->peer, &frame);
  }
}

void ring_protocol_begin(ring_messages *messages, ring_transfer *transfer) {
  transfer->messages = messages;
  transfer->older = messages->newest;
  if (messages->newest != NULL) messages->newest->newer = transfer;
  messages->newest = transfer;
  messages->in_flight++;
  if (transfer->sends)
    protocol_begin_send(messages, transfer);
  else
    protocol_begin_receive(messages, transfer);
}

/* ---- Frames ------------------------------------------------------------------------------- */

/* Removes the transfer of a number from a queue; NULL: none. */
static ring_transfer *protocol_remove(ring_transfer_queue *queue, uint64_t number) {
  ring_transfer **at = &queue->first;
  while (*at != NULL && (*at)->number != number) at = &(*at)->next;
  return *at != NULL ? transfer_remove(queue, at) : NULL;
}

/* Queues the next piece of a long message. */
static void protocol_append_piece(ring_messages *messages, ring_transfer *send) {
  uint64_t left = send->bytes - send->moved;
  send->packet.frame =
      (ring_message_frame){.kind = RING_MESSAGE_DATA,
                           .length = left < RING_CHUNK_BYTES ? (uint32_t)left : RING_CHUNK_BYTES,
                           .bytes = send->bytes,
                           .number = send->number};
  send->packet.payload = send->memory + send->moved;
  send->packet.sent = 0;
  protocol_append(messages, send->peer, &send->packet);
}

static void protocol_sent(void *owner, ring_channel *channel, ring_packet *packet) {
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
    protocol_append_piece(messages, send);
  else
    ring_protocol_complete(messages, send, NULL);
}

/* False where it ends the messages. */
static bool protocol_begin_eager(ring_messages *messages, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  const ring_message_frame *frame = &in->frame;
  ring_error error;
  in->transfer = ring_matching_take_receive(&messages->matching, channel->rank, frame->tag);
  if (in->transfer != NULL) {
    const ring_message_info info =
        protocol_info(channel->rank, frame->tag, (ring_dtype)frame->dtype, frame->bytes);
    if (protocol_fit(messages, in->transfer, &info, frame->bytes, &error) == RING_OK) {
      in->to = in->transfer->memory;
    } else {
      ring_protocol_complete(messages, in->transfer, &error);
      in->transfer = NULL;
    }
    return true;
  }
  in->arrival = ring_arrival_make(channel->rank, frame, frame->length);
  if (in->arrival == NULL) {
    protocol_no_memory(messages);
    return false;
  }
  in->to = in->arrival->payload;
  ring_matching_keep(&messages->matching, in->arrival);
  return true;
}

static bool protocol_begin_data(ring_channel *channel) {
  ring_incoming *in = &channel->in;
  ring_transfer *receive = channel->receiving.first;
  while (receive != NULL && receive->number != in->frame.number) receive = receive->next;
  if (receive == NULL || in->frame.length > receive->bytes - receive->moved) return false;
  in->transfer = receive;
  in->to = receive->memory + receive->moved;
  return true;
}

static bool protocol_begin_frame(void *owner, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  if (in->frame.kind == RING_MESSAGE_EAGER) return protocol_begin_eager(owner, channel);
  if (in->frame.kind == RING_MESSAGE_DATA) return protocol_begin_data(channel);
  if (in->frame.kind == RING_MESSAGE_FAIL) in->to = (uint8_t *)in->text;
  return true;
}

static void protocol_end_eager(ring_messages *messages, ring_channel *channel) {
  ring_incoming *in = &channel->in;
  ring_arrival *arrival = in->arrival;
  uint64_t cost = message_cost(in->frame.bytes);
  in->arrival = NULL;
  if (arrival == NULL) {
    if (in->transfer != NULL) ring_protocol_complete(messages, in->transfer, NULL);
    protocol_return(messages, channel->rank, cost);
    return;
  }
  arrival->whole = true;
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed); /* a probe may wait */
  if (arrival->taker != NULL) protocol_take(messages, arrival->taker, arrival);
}

static void protocol_end_request(ring_messages *messages, const ring_channel *channel) {
  const ring_message_frame *frame = &channel->in.frame;
  ring_transfer *receive =
      ring_matching_take_receive(&messages->matching, channel->rank, frame->tag);
  if (receive != NULL) {
    protocol_accept(messages, receive, channel->rank, frame);
    return;
  }
  ring_arrival *arrival = ring_arrival_make(channel->rank, frame, 0);
  if (arrival == NULL) {
    protocol_no_memory(messages);
    return;
  }
  arrival->requested = true;
  ring_matching_keep(&messages->matching, arrival);
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed);
}

static void protocol_end_ready(ring_messages *messages, ring_channel *channel) {
  ring_transfer *send = protocol_remove(&channel->awaiting, channel->in.frame.number);
  if (send == NULL) return; /* of a send that failed when the peer closed */
  if (channel->in.frame.bytes == 0)
    ring_protocol_complete(messages, send, NULL);
  else
    protocol_append_piece(messages, send);
}

static void protocol_end_data(ring_messages *messages, ring_channel *channel) {
  ring_transfer *receive = channel->in.transfer;
  receive->moved += channel->in.frame.length;
  if (receive->moved < receive->bytes) return;
  protocol_remove(&channel->receiving, receive->number);
  ring_protocol_complete(messages, receive, NULL);
}

static void protocol_fail_posted(ring_messages *messages, int source, const ring_error *error) {
  ring_transfer *receive;
  while ((receive = ring_matching_first_posted(&messages->matching, source)) != NULL) {
    ring_matching_withdraw(&messages->matching, receive);
    ring_protocol_complete(messages, receive, error);
  }
}

/* The peer has closed: what waits for it fails. */
static void protocol_end_end(ring_messages *messages, ring_channel *channel) {
  ring_error error;
  channel->ended = true;
  protocol_ended(messages, channel->rank, &error);
  while (channel->awaiting.first != NULL)
    ring_protocol_complete(messages, transfer_remove(&channel->awaiting, &channel->awaiting.first),
                           &error);
  protocol_fail_posted(messages, channel->rank, &error);
  if (ring_protocol_check_source(messages, RING_ANY_SOURCE, &error) != RING_OK)
    protocol_fail_posted(messages, RING_ANY_SOURCE, &error);
  if (messages->sleeping > 0) pthread_cond_broadcast(&messages->changed);
}

static void protocol_end_fail(ring_messages *messages, ring_channel *channel) {
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
                   protocol_host(messages, channel->rank));
  messages_peer(messages, channel->rank)->ended = true;
  ring_protocol_fail(messages, &error);
}

static bool protocol_end_frame(void *owner, ring_channel *channel) {
  ring_messages *messages = owner;
  const ring_message_frame *frame = &channel->in.frame;
  uint64_t credit = channel->credit + frame->bytes;
  switch (frame->kind) {
  case RING_MESSAGE_EAGER:
    protocol_end_eager(messages, channel);
    break;
  case RING_MESSAGE_REQUEST:
    protocol_end_request(messages, channel);
    break;
  case RING_MESSAGE_READY:
    protocol_end_ready(messages, channel);
    break;
  case RING_MESSAGE_DATA:
    protocol_end_data(messages, channel);
    break;
  case RING_MESSAGE_CREDIT:
    channel->credit = credit < RING_EAGER_WINDOW ? credit : RING_EAGER_WINDOW;
    break;
  case RING_MESSAGE_END:
    protocol_end_end(messages, channel);
    break;
  case RING_MESSAGE_TOKEN:
    channel->tokens |= UINT32_C(1) << frame->number;
    break;
  case RING_MESSAGE_FAIL:
    protocol_end_fail(messages, channel);
    break;
  }
  return !messages->broken;
}

/* ---- Turns -------------------------------------------------------------------------------- */

static void protocol_open_links(ring_messages *messages) {
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
static void protocol_lose(ring_messages *messages, ring_channel *channel, int code) {
  ring_peer *peer = messages_peer(messages, channel->rank);
  const char *host = protocol_host(messages, channel->rank);
  ring_error error;
  peer->ended = true;
  if (channel->ended && (code == EPIPE || code == ECONNRESET)) {
    for (const ring_packet *packet = channel->first; packet != NULL; packet = packet->next)
      messages->queued--;
    ring_channel_clear(channel);
    return;
  }
  if (code == EBADMSG || code == EPROTO)
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

static void protocol_serve(ring_messages *messages, int rank, bool receives) {
  const ring_channel_owner owner = {protocol_sent, protocol_begin_frame, protocol_end_frame,
                                    messages};
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
    if (code < 0 && !messages->broken) protocol_lose(messages, channel, -code);
    if (!messages->broken) ring_channel_flush(channel, peer, &owner);
  }
  messages->moved += channel->moved - before;
}

void ring_protocol_turn(ring_messages *messages, bool all) {
  const ring_peers *peers = &messages->comm->peers;
  if (messages->wants) protocol_open_links(messages);
  for (int i = 0; i < peers->linked_count && !messages->broken; i++) {
    int rank = peers->linked[i];
    const ring_peer *peer = &peers->peer[rank];
    if (peer->ended) continue;
    bool ready = all || ring_poll_set_ready(&messages->poll_set, peer->slot);
    if (ready || messages->channels[rank].first != NULL || messages->closing)
      protocol_serve(messages, rank, ready);
  }
}
