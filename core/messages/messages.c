/* SPDX-License-Identifier: Apache-2.0
 *
 * The other public functions of sparkring_messages.h: sends and receives, probes, transfers.
 */
#include <limits.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/error.h"
#include "messages/message_progress.h"

/* ---- Arguments ---------------------------------------------------------------------------- */

/* The arguments of a send or a receive. */
typedef struct messages_given {
  const void *memory;
  size_t count;
  ring_dtype dtype;
  int peer, tag;
} messages_given;

static ring_status messages_check_address(const ring_messages *messages, int peer, int tag,
                                          bool any) {
  if ((peer < 0 || peer >= messages->size) && !(any && peer == RING_ANY_SOURCE))
    return ring_error_set(ring_messages_reason(), RING_INVALID, messages->rank, 0,
                          "%s %d is not in 0 to %d", any ? "source" : "peer", peer,
                          messages->size - 1);
  if (tag < 0 && !(any && tag == RING_ANY_TAG))
    return ring_error_set(ring_messages_reason(), RING_INVALID, messages->rank, 0,
                          "tag %d is negative: tags are 0 to %d", tag, INT_MAX);
  return RING_OK;
}

static ring_status messages_check_memory(const messages_given *given) {
  size_t width = ring_dtype_size(given->dtype);
  size_t step = ring_dtype_is_complex(given->dtype) ? width / 2 : width;
  if (width == 0)
    return ring_error_set(ring_messages_reason(), RING_INVALID, -1, 0, "%d is no dtype",
                          (int)given->dtype);
  if (given->count > SIZE_MAX / 2 / width)
    return ring_messages_invalid("the message has more bytes than memory can hold");
  if (given->count > 0 && (given->memory == NULL || (uintptr_t)given->memory % step != 0))
    return ring_messages_invalid("the buffer is NULL or not aligned for its dtype");
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
    ring_error_no_memory(ring_messages_reason(), messages->rank);
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
  if (transfer == NULL) return ring_messages_invalid("transfer is NULL");
  *transfer = NULL;
  ring_status status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, given->peer, given->tag, !sends);
  if (status == RING_OK) status = messages_begin(messages, given, sends, transfer);
  if (status == RING_OK && !transfer_is_done(*transfer)) ring_message_progress_poll(messages);
  ring_message_progress_notice(messages);
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
  const ring_message_progress_aim aim = {.goal = messages_is_done,
                                         .arg = transfer,
                                         .what = "a message",
                                         .sends = transfer->sends,
                                         .peer = transfer->peer,
                                         .tag = transfer->tag};
  if (!transfer_is_done(transfer)) ring_message_progress_await(messages, &aim);
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
  if (status != RING_OK) *ring_messages_reason() = *ring_transfer_error(transfer);
  messages_recycle(messages, transfer);
  messages->references--;
  return status;
}

ring_status ring_messages_send(ring_messages *messages, const void *input, size_t count,
                               ring_dtype dtype, int peer, int tag) {
  const messages_given given = {input, count, dtype, peer, tag};
  ring_transfer *transfer;
  ring_status status = messages_check_memory(&given);
  if (status == RING_OK) status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, peer, tag, false);
  if (status == RING_OK) status = messages_begin(messages, &given, true, &transfer);
  if (status == RING_OK) status = messages_finish(messages, transfer);
  ring_message_progress_notice(messages);
  messages_unlock(messages);
  return status;
}

ring_status ring_messages_recv(ring_messages *messages, void *output, size_t capacity,
                               ring_dtype dtype, int source, int tag, ring_message_info *info) {
  const messages_given given = {output, capacity, dtype, source, tag};
  ring_transfer *transfer;
  ring_status status = messages_check_memory(&given);
  if (status == RING_OK) status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, source, tag, true);
  if (status == RING_OK) status = messages_begin(messages, &given, false, &transfer);
  if (status == RING_OK) {
    messages_await(messages, transfer);
    if (info != NULL) *info = transfer->info;
    status = messages_finish(messages, transfer);
  }
  ring_message_progress_notice(messages);
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
  if (status == RING_OK) status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, peer, tag, false);
  if (status == RING_OK) status = messages_check_address(messages, source, source_tag, true);
  if (status == RING_OK) status = messages_begin(messages, &inward, false, &receive);
  if (status == RING_OK) {
    ring_status sent = messages_begin(messages, &outward, true, &send);
    if (sent == RING_OK) sent = messages_finish(messages, send);
    if (sent != RING_OK && ring_matching_withdraw(&messages->matching, receive))
      ring_protocol_complete(messages, receive, ring_messages_reason());
    messages_await(messages, receive);
    if (info != NULL) *info = receive->info;
    status = messages_finish(messages, receive);
    if (status == RING_OK) status = sent;
  }
  ring_message_progress_notice(messages);
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
  const ring_message_progress_aim aim = {
      .goal = messages_has_arrival, .arg = &probe, .what = "a message", .peer = source, .tag = tag};
  ring_status status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, source, tag, true);
  if (status == RING_OK) {
    ring_protocol_want(messages, source);
    ring_message_progress_await(messages, &aim);
    bool found = !messages->broken && messages_found(messages, &probe, info);
    if (messages->broken) *ring_messages_reason() = messages->failure;
    if (!messages->broken && !found)
      ring_protocol_check_source(messages, source, ring_messages_reason());
    if (!found) status = ring_messages_reason()->status;
  }
  messages_unlock(messages);
  return status;
}

ring_status ring_messages_iprobe(ring_messages *messages, int source, int tag, int *found,
                                 ring_message_info *info) {
  const messages_probe probe = {source, tag};
  if (found == NULL) return ring_messages_invalid("iprobe: found is NULL");
  *found = 0;
  ring_status status = ring_messages_enter(messages);
  if (status != RING_OK) return status;
  status = messages_check_address(messages, source, tag, true);
  if (status == RING_OK && !messages_found(messages, &probe, NULL)) {
    ring_protocol_want(messages, source);
    ring_message_progress_poll(messages);
    if (messages->broken) *ring_messages_reason() = messages->failure;
    if (messages->broken) status = ring_messages_reason()->status;
  }
  if (status == RING_OK) *found = messages_found(messages, &probe, info);
  ring_message_progress_notice(messages);
  messages_unlock(messages);
  return status;
}

/* ---- Transfers ---------------------------------------------------------------------------- */

ring_status ring_transfer_test(ring_transfer *transfer, int *done) {
  if (transfer == NULL || done == NULL) return ring_messages_invalid("test: an argument is NULL");
  if (!transfer_is_done(transfer) && ring_messages_are_mine(transfer->messages)) {
    messages_lock(transfer->messages);
    ring_message_progress_poll(transfer->messages);
    ring_message_progress_notice(transfer->messages);
    messages_unlock(transfer->messages);
  }
  *done = transfer_is_done(transfer);
  return *done ? transfer->status : RING_OK;
}

ring_status ring_transfer_wait(ring_transfer *transfer) {
  if (transfer == NULL) return ring_messages_invalid("wait: transfer is NULL");
  if (transfer_is_done(transfer)) return transfer->status;
  ring_messages *messages = transfer->messages;
  ring_status status = ring_messages_check(messages);
  if (status != RING_OK) return status;
  messages_lock(messages);
  messages_await(messages, transfer);
  messages_unlock(messages);
  return transfer->status;
}

void ring_transfer_cancel(ring_transfer *transfer) {
  if (transfer == NULL || transfer->sends || transfer_is_done(transfer) ||
      !ring_messages_are_mine(transfer->messages))
    return;
  ring_messages *messages = transfer->messages;
  ring_error error;
  messages_lock(messages);
  if (!transfer_is_done(transfer) && ring_matching_withdraw(&messages->matching, transfer)) {
    ring_error_set(&error, RING_ABORTED, messages->rank, 0, "rank %d cancelled the receive",
                   messages->rank);
    ring_protocol_complete(messages, transfer, &error);
  }
  ring_message_progress_notice(messages);
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
  if (!ring_messages_are_mine(messages)) {
    ring_transfer_clear(transfer);
    free(transfer);
    return;
  }
  ring_transfer_cancel(transfer);
  ring_transfer_wait(transfer);
  messages_lock(messages);
  messages_recycle(messages, transfer);
  ring_messages_drop(messages);
}
