/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages for targets, on a communicator whose links the target makes; no thread moves them.
 */
#ifndef FUZZ_POSTS_H
#define FUZZ_POSTS_H

#include "base/platform.h"
#include "comms.h"
#include "messages/message_progress.h"
#include "messages/message_turn.h"

static inline ring_messages *make_messages(ring_comm *comm) {
  ring_messages *messages = calloc(1, sizeof *messages);
  FUZZ_PROMISE(messages != NULL && ring_message_progress_init(messages) == 0);
  messages->references = 1;
  messages->comm = comm;
  messages->rank = comm->peers.rank;
  messages->size = comm->peers.size;
  messages->bell[0] = messages->bell[1] = messages->completions = -1;
  messages->channels = calloc((size_t)messages->size, sizeof *messages->channels);
  FUZZ_PROMISE(messages->channels != NULL &&
               ring_matching_init(&messages->matching, messages->size));
  for (int rank = 0; rank < messages->size; rank++)
    ring_channel_init(&messages->channels[rank], rank);
  return messages;
}

/* Ends the messages, their communicator and the world. */
static inline void end_messages(ring_messages *messages, ring_comm *comm) {
  messages_lock(messages);
  messages->comm = NULL;
  ring_messages_drop(messages);
  ring_comm_free(comm);
  world_end();
}

/* Writes a frame with its payload. Returns its bytes. */
static inline size_t put_frame(uint8_t *to, ring_message_frame *frame, input payload) {
  frame->length = (uint32_t)payload.left;
  ring_message_frame_pack(frame, to);
  if (payload.left > 0) memcpy(to + RING_HEADER_BYTES, payload.at, payload.left);
  return RING_HEADER_BYTES + payload.left;
}

enum { STREAM_MOST = 1 << 16 };

/* Adds short messages with a tag: each is a piece of the input, from the rank that the byte before it chooses among
 * those from `first` on. */
static inline void make_streams(input *from, int tag, int first, int size,
                                uint8_t (*streams)[STREAM_MOST], size_t *lengths) {
  while (from->left > 0) {
    int rank = first + (int)(input_byte(from) % (unsigned)(size - first));
    input piece = input_piece(from);
    if (lengths[rank] + RING_HEADER_BYTES + piece.left > STREAM_MOST) return;
    ring_message_frame frame = {
        .kind = RING_MESSAGE_EAGER, .dtype = RING_UINT8, .tag = tag, .bytes = piece.left};
    lengths[rank] += put_frame(streams[rank] + lengths[rank], &frame, piece);
  }
}

/* A link to a rank that sends these bytes. No fuzzer guesses the checks of payloads. */
static inline void add_stream(ring_comm *comm, int rank, ring_link_ops *ops, input stream) {
  ring_link *link = ring_link_tcp(world_connection(stream, (input){NULL, 0}));
  FUZZ_PROMISE(link != NULL);
  *ops = *link->ops;
  ops->unchecked = false;
  link->ops = ops;
  add_link(comm, rank, link);
}

#endif
