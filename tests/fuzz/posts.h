/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages for targets, on a communicator whose links the target makes; no thread moves them.
 */
#ifndef FUZZ_POSTS_H
#define FUZZ_POSTS_H

#include "base/platform.h"
#include "comms.h"
#include "messages/message_turn.h"

static inline ring_messages *make_messages(ring_comm *comm) {
  ring_messages *messages = calloc(1, sizeof *messages);
  FUZZ_PROMISE(messages != NULL);
  pthread_mutex_init(&messages->mutex, NULL);
  ring_platform_condition_init(&messages->work);
  ring_platform_condition_init(&messages->changed);
  messages->process = ring_platform_process();
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
