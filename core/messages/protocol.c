/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/platform.h"

#define PROTOCOL_FINISH_NS UINT64_C(200000000) /* for a frame that is sent in part, at a failure */

const char *ring_protocol_host(const ring_messages *messages, int rank) {
  return ring_peers_name(&messages->comm->peers, rank);
}

void ring_protocol_describe(const ring_messages *messages, bool sends, int peer, int tag,
                            char *text, size_t size) {
  char whom[RING_PROTOCOL_TEXT - 64];
  if (peer == RING_ANY_SOURCE)
    snprintf(whom, sizeof whom, "any rank");
  else
    snprintf(whom, sizeof whom, "rank %d (%.255s)", peer, ring_protocol_host(messages, peer));
  if (tag == RING_ANY_TAG)
    snprintf(text, size, "%s %s with any tag", sends ? "to" : "from", whom);
  else
    snprintf(text, size, "%s %s with tag %d", sends ? "to" : "from", whom, tag);
}

/* ---- Ends --------------------------------------------------------------------------------- */

/* A full pipe already wakes its reader. */
static void protocol_announce(int fd) {
  while (write(fd, "", 1) < 0 && errno == EINTR) continue;
}

void ring_protocol_complete(ring_messages *messages, ring_transfer *transfer,
                            const ring_error *error) {
  if (transfer->newer != NULL)
    transfer->newer->older = transfer->older;
  else
    messages->newest = transfer->older;
  if (transfer->older != NULL) transfer->older->newer = transfer->newer;
  messages->in_flight--;
  messages->news = true;
  ring_transfer_complete(transfer, error);
  if (messages->completions >= 0) protocol_announce(messages->completions);
  progress_changed(&messages->progress);
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
  for (int rank = 0; rank < messages->size; rank++) ring_channel_clear(&messages->channels[rank]);
  ring_matching_clear(&messages->matching); /* the messages that channels still name */
  messages->queued = 0;
  progress_changed(&messages->progress);
}

void ring_protocol_no_memory(ring_messages *messages) {
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
    messages->wants = messages->news = true;
  }
}

void ring_protocol_append(ring_messages *messages, int rank, ring_packet *packet) {
  ring_channel_append(&messages->channels[rank], packet);
  messages->queued++;
  messages->news = true;
  ring_protocol_want(messages, rank);
}

static void protocol_send(ring_messages *messages, int rank, const ring_message_frame *frame) {
  ring_packet *packet = ring_packet_make(frame, NULL);
  if (packet == NULL)
    ring_protocol_no_memory(messages);
  else
    ring_protocol_append(messages, rank, packet);
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

void ring_protocol_return(ring_messages *messages, int source, uint64_t cost) {
  ring_channel *channel = &messages->channels[source];
  if (source == messages->rank) {
    channel->credit += cost;
    return;
  }
  channel->owed += cost;
  if (channel->owed < RING_EAGER_WINDOW / 2 || channel->ended) return;
  const ring_message_frame frame = {.kind = RING_MESSAGE_CREDIT, .bytes = channel->owed};
  channel->held -= channel->owed;
  channel->owed = 0;
  protocol_send(messages, source, &frame);
}

ring_status ring_protocol_fit(const ring_messages *messages, ring_transfer *receive,
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

ring_message_info ring_protocol_info(int source, int tag, ring_dtype dtype, uint64_t bytes) {
  return (ring_message_info){source, tag, dtype, (size_t)(bytes / ring_dtype_size(dtype))};
}

void ring_protocol_accept(ring_messages *messages, ring_transfer *receive, int source,
                          const ring_message_frame *frame) {
  const ring_message_info info =
      ring_protocol_info(source, frame->tag, (ring_dtype)frame->dtype, frame->bytes);
  ring_error error;
  ring_status status = ring_protocol_fit(messages, receive, &info, frame->bytes, &error);
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

/* A message whose payload is in the memory of this rank has matched a receive. */
static void protocol_deliver(ring_messages *messages, ring_transfer *receive,
                             const ring_message_info *info, const void *payload, uint64_t bytes) {
  ring_error error;
  ring_status status = ring_protocol_fit(messages, receive, info, bytes, &error);
  if (status == RING_OK && bytes > 0) memcpy(receive->memory, payload, bytes);
  ring_protocol_complete(messages, receive, status == RING_OK ? NULL : &error);
}

void ring_protocol_take(ring_messages *messages, ring_transfer *receive, ring_arrival *arrival) {
  const ring_message_info info =
      ring_protocol_info(arrival->source, arrival->tag, arrival->dtype, arrival->bytes);
  if (arrival->sender != NULL) {
    ring_transfer *send = arrival->sender;
    protocol_deliver(messages, receive, &info, send->memory, send->bytes);
    ring_protocol_complete(messages, send, NULL);
  } else if (arrival->requested) {
    const ring_message_frame frame = {.tag = arrival->tag,
                                      .dtype = (uint8_t)arrival->dtype,
                                      .bytes = arrival->bytes,
                                      .number = arrival->number};
    messages->channels[arrival->source].requests--;
    ring_protocol_accept(messages, receive, arrival->source, &frame);
  } else if (arrival->whole) {
    protocol_deliver(messages, receive, &info, arrival->payload, arrival->bytes);
    ring_protocol_return(messages, arrival->source, message_cost(arrival->bytes));
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
      ring_protocol_info(messages->rank, frame->tag, (ring_dtype)frame->dtype, frame->bytes);
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
    ring_protocol_no_memory(messages);
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
  if (!messages->progress.moving && channel->first == NULL)
    ring_channel_try(channel, messages_peer(messages, rank), &packet);
  if (packet.sent == RING_HEADER_BYTES + frame->length) return;
  ring_packet *copy = ring_packet_make(frame, payload);
  if (copy == NULL) {
    ring_protocol_no_memory(messages);
    return;
  }
  copy->sent = packet.sent;
  memcpy(copy->header, packet.header, sizeof copy->header);
  ring_protocol_append(messages, rank, copy);
}

ring_status ring_protocol_ended(const ring_messages *messages, int rank, ring_error *error) {
  return ring_error_set(error, RING_MISMATCH, rank, 0,
                        "rank %d (%s) has closed its messages: every message needs a send and a "
                        "receive",
                        rank, ring_protocol_host(messages, rank));
}

ring_status ring_protocol_check_source(const ring_messages *messages, int source,
                                       ring_error *error) {
  if (source != RING_ANY_SOURCE)
    return messages->channels[source].ended ? ring_protocol_ended(messages, source, error)
                                            : RING_OK;
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
    ring_protocol_take(messages, receive, arrival);
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
    ring_protocol_ended(messages, send->peer, &error);
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
