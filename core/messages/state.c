/* SPDX-License-Identifier: Apache-2.0 */
#include "messages/state.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"

ring_error *ring_messages_reason(void) {
  static _Thread_local ring_error reason = {.rank = -1};
  return &reason;
}

const ring_error *ring_messages_error(const ring_messages *messages) {
  (void)messages;
  return ring_messages_reason();
}

bool ring_messages_are_mine(const ring_messages *messages) {
  return ring_progress_is_mine(&messages->progress);
}

ring_status ring_messages_invalid(const char *problem) {
  return ring_error_set(ring_messages_reason(), RING_INVALID, -1, 0, "%s", problem);
}

ring_status ring_messages_check(const ring_messages *messages) {
  if (messages == NULL) return ring_messages_invalid("messages is NULL");
  if (!ring_messages_are_mine(messages))
    return ring_messages_invalid("these messages belong to the process that forked this one");
  return RING_OK;
}

bool ring_messages_failure(ring_messages *messages, ring_error *failure) {
  messages_lock(messages);
  bool broken = messages->broken;
  if (broken) *failure = messages->failure;
  messages_unlock(messages);
  return broken;
}

void ring_messages_announce_completions(ring_messages *messages, int fd) {
  messages_lock(messages);
  messages->completions = fd;
  messages_unlock(messages);
}

void ring_messages_release(ring_messages *messages) {
  for (int rank = 0; messages->channels != NULL && rank < messages->size; rank++)
    ring_channel_clear(&messages->channels[rank]);
  ring_matching_destroy(&messages->matching);
  ring_poll_set_fini(&messages->poll_set);
  while (messages->spare != NULL) {
    ring_transfer *spare = messages->spare;
    messages->spare = spare->next;
    free(spare);
  }
  if (messages->bell[0] >= 0) close(messages->bell[0]);
  if (messages->bell[1] >= 0) close(messages->bell[1]);
  ring_progress_destroy(&messages->progress);
  free(messages->channels);
  free(messages);
}

void ring_messages_drop(ring_messages *messages) {
  bool last = --messages->references == 0;
  messages_unlock(messages);
  if (last) ring_messages_release(messages);
}
