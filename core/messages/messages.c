/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of sparkring_messages.h: life, sends and receives, probes, transfers.
 */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/platform.h"
#include "messages/message_driver.h"
#include "peers/connector.h"
#include "peers/peers.h"
#include "peers/shutdown.h"

/* Why the last call of this thread on messages has failed. */
static _Thread_local ring_error messages_error = {.rank = -1};

const ring_error *ring_messages_error(const ring_messages *messages) {
  (void)messages;
  return &messages_error;
}

static bool messages_are_mine(const ring_messages *messages) {
  return messages->process == ring_platform_process();
}

static ring_status messages_invalid(const char *problem) {
  return ring_error_set(&messages_error, RING_INVALID, -1, 0, "%s", problem);
}

/* RING_OK where this process may use the messages. */
static ring_status messages_check(const ring_messages *messages) {
  if (messages == NULL) return messages_invalid("messages is NULL");
  if (!messages_are_mine(messages))
    return messages_invalid("these messages belong to the process that forked this one");
  return RING_OK;
}

/* Locks, and checks that nothing has failed. Unlocks where it returns another status than RING_OK. */
static ring_status messages_enter(ring_messages *messages) {
  ring_status status = messages_check(messages);
  if (status != RING_OK) return status;
  messages_lock(messages);
  if (messages->broken) {
    messages_error = messages->failure;
    status = messages_error.status;
  } else if (messages->closing || messages->closed) {
    status = messages_invalid("the messages are closed");
  }
  if (status != RING_OK) messages_unlock(messages);
  return status;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static void messages_release(ring_messages *messages) {
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
  if (messages_are_mine(messages)) {
    pthread_mutex_destroy(&messages->mutex);
    pthread_cond_destroy(&messages->work);
    pthread_cond_destroy(&messages->changed);
  }
  free(messages->channels);
  free(messages);
}

/* Messages on their own communicator; NULL without memory, descriptors or a thread. */
static ring_messages *messages_make(ring_comm *child) {
  ring_messages *messages = calloc(1, sizeof *messages);
  if (messages == NULL) return NULL;
  messages->process = ring_platform_process();
  messages->references = 1;
  messages->comm = child;
  messages->rank = ring_comm_rank(child);
  messages->size = ring_comm_size(child);
  messages->bell[0] = messages->bell[1] = -1;
  pthread_mutex_init(&messages->mutex, NULL);
  ring_platform_condition_init(&messages->work);
  ring_platform_condition_init(&messages->changed);
  messages->channels = calloc((size_t)messages->size, sizeof *messages->channels);
  for (int rank = 0; messages->channels != NULL && rank < messages->size; rank++)
    ring_channel_init(&messages->channels[rank], rank);
  if (messages->channels != NULL && ring_matching_init(&messages->matching, messages->size) &&
      ring_platform_pipe(messages->bell) == 0 && ring_message_driver_begin(messages) == 0)
    return messages;
  messages_release(messages);
  return NULL;
}

/* Whether all ranks have messages. */
static ring_status messages_agree(ring_comm *comm, ring_comm *child, bool made) {
  const int32_t lacking = made ? -1 : ring_comm_rank(child);
  int32_t most;
  ring_status status = ring_allreduce(child, &lacking, &most, 1, RING_INT32, RING_MAX);
  if (status != RING_OK) {
    comm->error = *ring_comm_error(child);
    return status;
  }
  if (most < 0) return RING_OK;
  return ring_error_set(&comm->error, RING_SYSTEM, most, 0,
                        "rank %d (%s) has no memory, descriptors or thread for messages", most,
                        ring_comm_host(child, most));
}

ring_status ring_messages_open(ring_comm *comm, ring_messages **messages) {
  ring_comm *child;
  if (messages == NULL || comm == NULL) return RING_INVALID;
  *messages = NULL;
  ring_status status = ring_comm_split(comm, 0, 0, &child);
  if (status != RING_OK) return status;
  ring_messages *made = messages_make(child);
  status = messages_agree(comm, child, made != NULL);
  if (status == RING_OK) {
    *messages = made;
    return RING_OK;
  }
  if (made != NULL) ring_message_driver_end(made);
  ring_comm_close(child);
  ring_comm_free(child);
  if (made != NULL) messages_release(made);
  return status;
}

/* ---- Arguments ---------------------------------------------------------------------------- */

/* What a send or a receive is given. */
typedef struct messages_given {
  const void *memory;
  size_t count;
  ring_dtype dtype;
  int peer, tag;
} messages_given;

static ring_status messages_check_address(const ring_messages *messages, int peer, int tag,
                                          bool any) {
  if ((peer < 0 || peer >= messages->size) && !(any && peer == RING_ANY_SOURCE))
    return ring_error_set(&messages_error, RING_INVALID, messages->rank, 0,
                          "%s %d is not in 0 to %d", any ? "source" : "peer", peer,
                          messages->size - 1);
  if (tag < 0 && !(any && tag == RING_ANY_TAG))
    return ring_error_set(&messages_error, RING_INVALID, messages->rank, 0,
                          "tag %d is negative: tags are 0 to %d", tag, INT_MAX);
  return RING_OK;
}

static ring_status messages_check_memory(const messages_given *given) {
  size_t width = ring_dtype_size(given->dtype);
  size_t step = ring_dtype_is_complex(given->dtype) ? width / 2 : width;
  if (width == 0)
    return ring_error_set(&messages_error, RING_INVALID, -1, 0, "%d is no dtype",
                          (int)given->dtype);
  if (given->count > SIZE_MAX / 2 / width)
    return messages_invalid("the message has more bytes than memory can hold");
  if (given->count > 0 && (given->memory == NULL || (uintptr_t)given->memory % step != 0))
    return messages_invalid("the buffer is NULL or not aligned for its dtype");
  return RING_OK;
}

/* ---- Starting ----------------------------------------------------------------------------- */

/* Makes and begins a transfer. Called with the mutex. */
static ring_status messages_begin(ring_messages *messages, const messages_given *given, bool sends,
                                  ring_transfer **transfer) {
  ring_transfer *spare = messages->spare;
  if (spare != NULL) messages->spare = spare->next;
  ring_transfer *made = ring_transfer_make(spare);
  if (made == NULL) {
    ring_error_no_memory(&messages_error, messages->rank);
    return RING_NO_MEMORY;
  }
  made->sends = sends;
  made->takes = !sends && given->memory == NULL && given->count == SIZE_MAX;
  made->peer = given->peer;
  made->tag = given->tag;
  made->dtype = given->dtype;
  made->memory = (uint8_t *)(uintptr_t)given->memory;
  made->bytes = made->takes ? 0 : (uint64_t)given->count * ring_dtype_size(given->dtype);
  messages->references++;
  ring_protocol_begin(messages, made);
  *transfer = made;
  return RING_OK;
}

static ring_status messages_start(ring_messages *messages, const messages_given *given, bool sends,
                                  ring_transfer **transfer) {
  if (transfer == NULL) return messages_invalid("transfer is NULL");
  *transfer = NULL;
  ring_status status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, given->peer, given->tag, !sends);
  if (status == RING_OK) status = messages_begin(messages, given, sends, transfer);
  if (status == RING_OK && !transfer_is_done(*transfer)) ring_message_driver_poll(messages);
  ring_message_driver_notice(messages);
  messages_unlock(messages);
  return status;
}

ring_status ring_messages_send_start(ring_messages *messages, const void *input, size_t count,
                                     ring_dtype dtype, int peer, int tag,
                                     ring_transfer **transfer) {
  const messages_given given = {input, count, dtype, peer, tag};
  if (transfer != NULL) *transfer = NULL;
  ring_status status = messages_check_memory(&given);
  return status == RING_OK ? messages_start(messages, &given, true, transfer) : status;
}

ring_status ring_messages_recv_start(ring_messages *messages, void *output, size_t capacity,
                                     ring_dtype dtype, int source, int tag,
                                     ring_transfer **transfer) {
  const messages_given given = {output, capacity, dtype, source, tag};
  if (transfer != NULL) *transfer = NULL;
  ring_status status = messages_check_memory(&given);
  return status == RING_OK ? messages_start(messages, &given, false, transfer) : status;
}

ring_status ring_messages_take_start(ring_messages *messages, int source, int tag,
                                     ring_transfer **transfer) {
  const messages_given given = {NULL, SIZE_MAX, RING_UINT8, source, tag};
  return messages_start(messages, &given, false, transfer);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

static bool messages_is_done(const ring_messages *messages, const void *transfer) {
  (void)messages;
  return transfer_is_done(transfer);
}

/* Called with the mutex. */
static void messages_await(ring_messages *messages, const ring_transfer *transfer) {
  const ring_message_driver_aim aim = {.goal = messages_is_done,
                                       .arg = transfer,
                                       .what = "a message",
                                       .sends = transfer->sends,
                                       .peer = transfer->peer,
                                       .tag = transfer->tag};
  if (!transfer_is_done(transfer)) ring_message_driver_await(messages, &aim);
}

/* Frees the messages with the last reference. Called with the mutex, which is released. */
static void messages_drop(ring_messages *messages) {
  bool last = --messages->references == 0;
  messages_unlock(messages);
  if (last) messages_release(messages);
}

/* Called with the mutex. */
static void messages_recycle(ring_messages *messages, ring_transfer *transfer) {
  ring_transfer_clear(transfer);
  transfer->next = messages->spare;
  messages->spare = transfer;
}

/* Waits for a transfer, keeps why it failed, and frees it. Called with the mutex. */
static ring_status messages_finish(ring_messages *messages, ring_transfer *transfer) {
  messages_await(messages, transfer);
  ring_status status = transfer->status;
  if (status != RING_OK) messages_error = *ring_transfer_error(transfer);
  messages_recycle(messages, transfer);
  messages->references--;
  return status;
}

ring_status ring_messages_send(ring_messages *messages, const void *input, size_t count,
                               ring_dtype dtype, int peer, int tag) {
  const messages_given given = {input, count, dtype, peer, tag};
  ring_transfer *transfer;
  ring_status status = messages_check_memory(&given);
  if (status == RING_OK) status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, peer, tag, false);
  if (status == RING_OK) status = messages_begin(messages, &given, true, &transfer);
  if (status == RING_OK) status = messages_finish(messages, transfer);
  ring_message_driver_notice(messages);
  messages_unlock(messages);
  return status;
}

ring_status ring_messages_recv(ring_messages *messages, void *output, size_t capacity,
                               ring_dtype dtype, int source, int tag, ring_message_info *info) {
  const messages_given given = {output, capacity, dtype, source, tag};
  ring_transfer *transfer;
  ring_status status = messages_check_memory(&given);
  if (status == RING_OK) status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, source, tag, true);
  if (status == RING_OK) status = messages_begin(messages, &given, false, &transfer);
  if (status == RING_OK) {
    messages_await(messages, transfer);
    if (info != NULL) *info = transfer->info;
    status = messages_finish(messages, transfer);
  }
  messages_unlock(messages);
  return status;
}

ring_status ring_messages_sendrecv(ring_messages *messages, const void *input, size_t count,
                                   ring_dtype dtype, int peer, int tag, void *output,
                                   size_t capacity, ring_dtype output_dtype, int source,
                                   int source_tag, ring_message_info *info) {
  const messages_given outward = {input, count, dtype, peer, tag};
  const messages_given inward = {output, capacity, output_dtype, source, source_tag};
  ring_transfer *send, *receive;
  ring_status status = messages_check_memory(&outward);
  if (status == RING_OK) status = messages_check_memory(&inward);
  if (status == RING_OK) status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, peer, tag, false);
  if (status == RING_OK) status = messages_check_address(messages, source, source_tag, true);
  if (status == RING_OK) status = messages_begin(messages, &inward, false, &receive);
  if (status == RING_OK) {
    ring_status sent = messages_begin(messages, &outward, true, &send);
    if (sent == RING_OK) sent = messages_finish(messages, send);
    if (sent != RING_OK && ring_matching_withdraw(&messages->matching, receive))
      ring_protocol_complete(messages, receive, &messages_error);
    messages_await(messages, receive);
    if (info != NULL) *info = receive->info;
    status = messages_finish(messages, receive);
    if (status == RING_OK) status = sent;
  }
  messages_unlock(messages);
  return status;
}

/* ---- Probing ------------------------------------------------------------------------------ */

typedef struct messages_probe {
  int source, tag;
} messages_probe;

static bool messages_has_arrival(const ring_messages *messages, const void *arg) {
  const messages_probe *probe = arg;
  ring_error error;
  return ring_matching_find(&messages->matching, probe->source, probe->tag) != NULL ||
         ring_protocol_check_source(messages, probe->source, &error) != RING_OK;
}

/* Fills the info of what a probe has found. Called with the mutex. */
static bool messages_found(const ring_messages *messages, const messages_probe *probe,
                           ring_message_info *info) {
  const ring_arrival *arrival = ring_matching_find(&messages->matching, probe->source, probe->tag);
  if (arrival != NULL && info != NULL)
    *info = (ring_message_info){arrival->source, arrival->tag, arrival->dtype,
                                (size_t)(arrival->bytes / ring_dtype_size(arrival->dtype))};
  return arrival != NULL;
}

ring_status ring_messages_probe(ring_messages *messages, int source, int tag,
                                ring_message_info *info) {
  const messages_probe probe = {source, tag};
  const ring_message_driver_aim aim = {
      .goal = messages_has_arrival, .arg = &probe, .what = "a message", .peer = source, .tag = tag};
  ring_status status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, source, tag, true);
  if (status == RING_OK) {
    ring_protocol_want(messages, source);
    ring_message_driver_await(messages, &aim);
    bool found = !messages->broken && messages_found(messages, &probe, info);
    if (messages->broken) messages_error = messages->failure;
    if (!messages->broken && !found) ring_protocol_check_source(messages, source, &messages_error);
    if (!found) status = messages_error.status;
  }
  messages_unlock(messages);
  return status;
}

ring_status ring_messages_iprobe(ring_messages *messages, int source, int tag, int *found,
                                 ring_message_info *info) {
  const messages_probe probe = {source, tag};
  if (found == NULL) return messages_invalid("iprobe: found is NULL");
  *found = 0;
  ring_status status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, source, tag, true);
  if (status == RING_OK && !messages_found(messages, &probe, NULL)) {
    ring_protocol_want(messages, source);
    ring_message_driver_poll(messages);
    if (messages->broken) messages_error = messages->failure;
    if (messages->broken) status = messages_error.status;
  }
  if (status == RING_OK) *found = messages_found(messages, &probe, info);
  messages_unlock(messages);
  return status;
}

/* ---- Transfers ---------------------------------------------------------------------------- */

ring_status ring_transfer_test(ring_transfer *transfer, int *done) {
  if (transfer == NULL || done == NULL) return messages_invalid("test: an argument is NULL");
  if (!transfer_is_done(transfer) && messages_are_mine(transfer->messages)) {
    messages_lock(transfer->messages);
    ring_message_driver_poll(transfer->messages);
    messages_unlock(transfer->messages);
  }
  *done = transfer_is_done(transfer);
  return *done ? transfer->status : RING_OK;
}

ring_status ring_transfer_wait(ring_transfer *transfer) {
  if (transfer == NULL) return messages_invalid("wait: transfer is NULL");
  if (transfer_is_done(transfer)) return transfer->status;
  ring_messages *messages = transfer->messages;
  ring_status status = messages_check(messages);
  if (status != RING_OK) return status;
  messages_lock(messages);
  messages_await(messages, transfer);
  messages_unlock(messages);
  return transfer->status;
}

void ring_transfer_cancel(ring_transfer *transfer) {
  if (transfer == NULL || transfer->sends || transfer_is_done(transfer) ||
      !messages_are_mine(transfer->messages))
    return;
  ring_messages *messages = transfer->messages;
  ring_error error;
  messages_lock(messages);
  if (!transfer_is_done(transfer) && ring_matching_withdraw(&messages->matching, transfer)) {
    ring_error_set(&error, RING_ABORTED, messages->rank, 0, "rank %d cancelled the receive",
                   messages->rank);
    ring_protocol_complete(messages, transfer, &error);
  }
  messages_unlock(messages);
}

ring_message_info ring_transfer_info(const ring_transfer *transfer) {
  return transfer->info;
}

const ring_error *ring_transfer_error(const ring_transfer *transfer) {
  static const ring_error none = {.rank = -1};
  static const ring_error unknown = {
      .status = RING_NO_MEMORY, .rank = -1, .message = "out of memory for the reason"};
  if (!transfer_is_done(transfer) || transfer->status == RING_OK) return &none;
  return transfer->error != NULL ? transfer->error : &unknown;
}

void *ring_transfer_take_output(ring_transfer *transfer) {
  void *output = transfer->output;
  transfer->output = NULL;
  return output;
}

void ring_transfer_free(ring_transfer *transfer) {
  if (transfer == NULL) return;
  ring_messages *messages = transfer->messages;
  if (!messages_are_mine(messages)) {
    ring_transfer_clear(transfer);
    free(transfer);
    return;
  }
  ring_transfer_cancel(transfer);
  ring_transfer_wait(transfer);
  messages_lock(messages);
  messages_recycle(messages, transfer);
  messages_drop(messages);
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
    const ring_message_driver_aim aim = {.goal = messages_has_token,
                                         .arg = &token,
                                         .what = "the close of messages, which a token announces,",
                                         .peer = from,
                                         .tag = RING_ANY_TAG};
    ring_protocol_notify(messages, to, RING_MESSAGE_TOKEN, (uint64_t)round);
    ring_protocol_want(messages, from);
    ring_message_driver_await(messages, &aim);
  }
}

static void messages_await_all(ring_messages *messages, ring_message_driver_goal_fn goal,
                               bool sends) {
  const ring_message_driver_aim aim = {.goal = goal,
                                       .what = "its messages",
                                       .sends = sends,
                                       .peer = RING_ANY_SOURCE,
                                       .tag = RING_ANY_TAG};
  ring_message_driver_await(messages, &aim);
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
  return ring_error_set(&messages_error, RING_MISMATCH, arrival->source, 0,
                        "rank %d has closed its messages and never received the message %s",
                        messages->rank, text);
}

/* Called with the mutex. */
static ring_status messages_close(ring_messages *messages) {
  ring_wait wait;
  messages_await_all(messages, messages_is_drained, true);
  messages->closing = true;
  messages->waiting++;
  while (messages->driving && !messages->broken) { /* connections are the driver's */
    ring_message_driver_notice(messages);
    ring_platform_condition_wait(&messages->changed, &messages->mutex, 1);
  }
  messages->waiting--;
  if (!messages->broken) messages_cancel_connections(messages);
  messages_barrier(messages);
  messages_await_all(messages, messages_is_sent, true);
  if (messages->broken) {
    messages_error = messages->failure;
    return messages_error.status;
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
  ring_status status = messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_close(messages);
  messages_unlock(messages);
  ring_message_driver_end(messages);
  return status;
}

void ring_messages_abort(ring_messages *messages, const char *reason) {
  ring_error error;
  if (messages_check(messages) != RING_OK) return;
  messages_lock(messages);
  ring_error_set(&error, RING_ABORTED, messages->rank, 0, "rank %d (%s) aborted its messages: %s",
                 messages->rank, ring_comm_host(messages->comm, messages->rank),
                 reason != NULL && reason[0] != '\0' ? reason : "no reason was given");
  ring_message_driver_fail(messages, &error);
  messages_unlock(messages);
}

void ring_messages_free(ring_messages *messages) {
  if (messages == NULL) return;
  if (!messages_are_mine(messages)) { /* a forked child: the mutex may be locked */
    ring_comm_free(messages->comm);
    messages->comm = NULL;
    return;
  }
  ring_messages_abort(messages, "it freed them without closing them");
  ring_message_driver_end(messages);
  ring_comm_free(messages->comm);
  messages_lock(messages);
  messages->comm = NULL;
  messages_drop(messages);
}
