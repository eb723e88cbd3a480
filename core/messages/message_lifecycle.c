/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of messages: open, close, abort, free.
 */
#include <stdlib.h>

#include "api/comm_lifecycle.h"
#include "api/split.h"
#include "base/error.h"
#include "base/platform.h"
#include "messages/message_progress.h"
#include "peers/connector.h"
#include "peers/peers.h"
#include "peers/shutdown.h"

/* ---- Opening ------------------------------------------------------------------------------ */

/* Messages on their own communicator; NULL without memory, descriptors or a thread. */
static ring_messages *messages_make(ring_comm *child) {
  ring_messages *messages = calloc(1, sizeof *messages);
  if (messages == NULL || ring_message_progress_init(messages) != 0) {
    free(messages);
    return NULL;
  }
  messages->references = 1;
  messages->comm = child;
  messages->rank = ring_comm_rank(child);
  messages->size = ring_comm_size(child);
  messages->bell[0] = messages->bell[1] = messages->completions = -1;
  messages->channels = calloc((size_t)messages->size, sizeof *messages->channels);
  for (int rank = 0; messages->channels != NULL && rank < messages->size; rank++)
    ring_channel_init(&messages->channels[rank], rank);
  if (messages->channels != NULL && ring_matching_init(&messages->matching, messages->size) &&
      ring_platform_pipe(messages->bell) == 0 && ring_message_progress_begin(messages) == 0)
    return messages;
  ring_messages_release(messages);
  return NULL;
}

/* Whether all ranks have messages. */
static ring_status messages_agree(ring_comm *comm, ring_comm *child, bool made) {
  const int32_t lacking = made ? -1 : ring_comm_rank(child);
  int32_t most;
  ring_status status = ring_allreduce(child, &lacking, &most, 1, RING_INT32, RING_MAX);
  if (status == RING_OK && most >= ring_comm_size(child))
    status = ring_comm_accuse(child, -1, "a rank that does not exist");
  if (status != RING_OK) {
    comm->error = *ring_comm_error(child);
    return status;
  }
  if (most < 0) return RING_OK;
  return ring_error_set(&comm->error, RING_SYSTEM, most, 0,
                        "rank %d (%s) has no memory, descriptors or thread for messages", most,
                        ring_comm_name(child, most));
}

ring_status ring_messages_open(ring_comm *comm, ring_messages **messages) {
  ring_comm *child;
  if (messages == NULL || comm == NULL) return RING_INVALID;
  *messages = NULL;
  ring_status status = ring_comm_split_native(comm, &child);
  if (status != RING_OK) return status;
  ring_messages *made = messages_make(child);
  status = messages_agree(comm, child, made != NULL);
  if (status == RING_OK) {
    *messages = made;
    return RING_OK;
  }
  if (made != NULL) ring_message_progress_end(made);
  ring_comm_close(child);
  ring_comm_free(child);
  if (made != NULL) ring_messages_release(made);
  return status;
}

/* ---- Ending ------------------------------------------------------------------------------- */

static bool messages_is_drained(const ring_messages *messages, const void *unused) {
  (void)unused;
  return messages->in_flight == 0;
}

static bool messages_is_sent(const ring_messages *messages, const void *unused) {
  (void)unused;
  return messages->queued == 0;
}

/* The token of one round of the barrier. */
typedef struct messages_token {
  int from, round;
} messages_token;

static bool messages_has_token(const ring_messages *messages, const void *arg) {
  const messages_token *token = arg;
  return (messages->channels[token->from].tokens >> token->round & 1) != 0;
}

/* Waits until every rank has called close: a dissemination barrier. Called with the mutex. */
static void messages_barrier(ring_messages *messages) {
  int rank = messages->rank, size = messages->size, round = 0;
  for (int64_t step = 1; step < size && !messages->broken; step *= 2, round++) {
    int to = (int)((rank + step) % size), from = (int)((rank - step + size) % size);
    const messages_token token = {from, round};
    const ring_message_progress_aim aim = {.goal = messages_has_token,
                                           .arg = &token,
                                           .what =
                                               "the close of messages, which a token announces,",
                                           .peer = from,
                                           .tag = RING_ANY_TAG};
    ring_protocol_notify(messages, to, RING_MESSAGE_TOKEN, (uint64_t)round);
    ring_protocol_want(messages, from);
    ring_message_progress_await(messages, &aim);
  }
}

static void messages_await_all(ring_messages *messages, ring_message_progress_goal_fn goal,
                               bool sends) {
  const ring_message_progress_aim aim = {.goal = goal,
                                         .what = "its messages",
                                         .sends = sends,
                                         .peer = RING_ANY_SOURCE,
                                         .tag = RING_ANY_TAG};
  ring_message_progress_await(messages, &aim);
}

/* Links that only receives wanted, which are over, open no more: their ranks may end first. */
static void messages_cancel_connections(ring_messages *messages) {
  ring_peers *peers = &messages->comm->peers;
  for (int i = peers->connecting_count - 1; i >= 0; i--)
    if (messages->channels[peers->connecting[i]].first == NULL)
      ring_connector_cancel(peers, peers->connecting[i]);
  for (int rank = 0; rank < messages->size; rank++)
    messages->channels[rank].wanted = messages->channels[rank].first != NULL;
}

/* RING_MISMATCH where a message was never received. Called with the mutex. */
static ring_status messages_check_rest(const ring_messages *messages) {
  const ring_arrival *arrival =
      ring_matching_find(&messages->matching, RING_ANY_SOURCE, RING_ANY_TAG);
  char text[RING_PROTOCOL_TEXT];
  if (arrival == NULL) return RING_OK;
  ring_protocol_describe(messages, false, arrival->source, arrival->tag, text, sizeof text);
  return ring_error_set(ring_messages_reason(), RING_MISMATCH, arrival->source, 0,
                        "rank %d has closed its messages and never received the message %s",
                        messages->rank, text);
}

/* Called with the mutex. */
static ring_status messages_close(ring_messages *messages) {
  ring_wait wait;
  messages_await_all(messages, messages_is_drained, true);
  messages->closing = true;
  messages->progress.waiting++;
  while (messages->progress.moving && !messages->broken) { /* connections are the mover's */
    messages->news = true;
    ring_message_progress_notice(messages);
    ring_progress_sleep(&messages->progress, 1);
  }
  messages->progress.waiting--;
  if (!messages->broken) messages_cancel_connections(messages);
  messages_barrier(messages);
  messages_await_all(messages, messages_is_sent, true);
  if (messages->broken) {
    *ring_messages_reason() = messages->failure;
    return ring_messages_reason()->status;
  }
  messages->closed = true;
  messages->comm->state = RING_COMM_CLOSED;
  comm_prepare_wait(messages->comm, messages->comm->call_timeout, &wait);
  ring_wait_begin(&wait);
  ring_shutdown(&messages->comm->peers, &messages->poll_set, &wait);
  ring_peers_close(&messages->comm->peers);
  ring_keys_wipe(&messages->comm->peers.keys);
  return messages_check_rest(messages);
}

ring_status ring_messages_close(ring_messages *messages) {
  ring_status status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_close(messages);
  messages_unlock(messages);
  ring_message_progress_end(messages);
  return status;
}

void ring_messages_abort(ring_messages *messages, const char *reason) {
  ring_error error;
  if (ring_messages_check(messages) != RING_OK) return;
  ring_error_set(&error, RING_ABORTED, messages->rank, 0, "rank %d (%s) aborted its messages: %s",
                 messages->rank, ring_comm_name(messages->comm, messages->rank),
                 reason != NULL && reason[0] != '\0' ? reason : "no reason was given");
  ring_messages_fail(messages, &error);
}

void ring_messages_free(ring_messages *messages) {
  if (messages == NULL) return;
  if (!ring_messages_are_mine(messages)) { /* a forked child: the mutex may be locked */
    ring_comm_free(messages->comm);
    messages->comm = NULL;
    return;
  }
  ring_messages_abort(messages, "it freed them without closing them");
  ring_message_progress_end(messages);
  ring_comm_free(messages->comm);
  messages_lock(messages);
  messages->comm = NULL;
  ring_messages_drop(messages);
}
