/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "messages/message_progress.h"

enum { HUB_HELLO_TAG = 0, HUB_TAG = 1 };
#define HUB_SPARE_SECONDS 3 /* for the decision of rank 0, beyond the answers */

typedef enum device_hub_kind {
  HUB_REFUSE_NCCL = 2,
  HUB_LATE = 3,
  HUB_ASK = 4,
  HUB_ANSWER = 5
} device_hub_kind;

/* ---- Control messages ---------------------------------------------------------------------- */

static const ring_call device_hub_no_call;

/* The bytes after the call stay 0. NULL without memory. */
static ring_hub_payload *device_hub_pack(device_hub_kind kind, const ring_call *call,
                                         double seconds) {
  ring_hub_payload *payload = ring_hub_payload_make(RING_DEVICE_MESSAGE_BYTES);
  if (payload == NULL) return NULL;
  memset(payload->bytes, 0, payload->length);
  uint8_t *to = bytes_put((uint8_t *)payload->bytes, kind, 1);
  to = bytes_put(to, (uint64_t)(1000 * seconds), 8);
  ring_call_pack(call, to);
  return payload;
}

/* A failure of the messages reaches the posted receive. */
static void device_hub_check(ring_device *device, ring_status status, const ring_error *error) {
  if (status == RING_NO_MEMORY) ring_device_hub_report(device, error);
}

static void device_hub_send(ring_device *device, int rank, device_hub_kind kind,
                            const ring_call *call, double seconds) {
  ring_error error;
  device_hub_check(device,
                   ring_hub_send(&device->hub.control, device_hub_pack(kind, call, seconds), rank,
                                 HUB_TAG, &error),
                   &error);
}

static void device_hub_send_all(ring_device *device, device_hub_kind kind, const ring_call *call) {
  ring_error error;
  device_hub_check(
      device,
      ring_hub_send_all(&device->hub.control, device_hub_pack(kind, call, 0), 1, HUB_TAG, &error),
      &error);
}

/* ---- Decisions ----------------------------------------------------------------------------- */

/* Whether sequence number `one` was given out before `other`, where numbers wrap around. */
static bool device_hub_is_before(uint32_t one, uint32_t other) {
  return (int32_t)(one - other) < 0;
}

/* The answer of this rank: its call of the same number, or its last one when it has not made as many. A call that is
 * too old to be remembered was made, and has ended. */
static ring_call device_hub_answer(ring_device *device, const ring_call *asked) {
  ring_call answer = *asked;
  pthread_mutex_lock(&device->mutex);
  const ring_call *made = &device->calls[asked->sequence % RING_DEVICE_CALLS];
  if (device_hub_is_before(device->sequence, asked->sequence))
    answer.sequence = device->sequence;
  else if (made->sequence == asked->sequence)
    answer = *made;
  pthread_mutex_unlock(&device->mutex);
  return answer;
}

static void device_hub_begin(ring_device *device, const ring_call *call, int rank, double seconds,
                             double patience) {
  ring_device_hub *hub = &device->hub;
  hub->late = true;
  hub->late_call = *call;
  hub->late_rank = rank;
  hub->late_seconds = seconds;
  ring_wait_init(&hub->wait, patience, NULL, NULL);
}

/* Rank 0 asks all ranks. */
static void device_hub_ask(ring_device *device, const ring_call *call, int rank, double seconds) {
  ring_device_hub *hub = &device->hub;
  if (hub->late) return;
  device_hub_begin(device, call, rank, seconds, device_answer_seconds(device));
  for (int i = 0; i < device->size; i++) hub->answers[i].given = false;
  hub->answers[rank] = (ring_device_answer){true, *call};
  if (rank != 0) hub->answers[0] = (ring_device_answer){true, device_hub_answer(device, call)};
  device_hub_send_all(device, HUB_ASK, call);
}

static bool device_hub_has_all(const ring_device *device) {
  for (int rank = 0; rank < device->size; rank++)
    if (!device->hub.answers[rank].given) return false;
  return true;
}

/* The fault of a rank, in words; RING_OK: none. */
static ring_status device_hub_judge(const ring_device *device, int rank, char *text, size_t size) {
  const ring_call *answer = &device->hub.answers[rank].call, *call = &device->hub.late_call;
  char other[RING_CALL_TEXT];
  ring_call_describe(answer, other, sizeof other);
  const char *host = device_host(device, rank);
  if (!device->hub.answers[rank].given) {
    snprintf(text, size, "rank %d (%s) does not answer: it or its host is stopped", rank, host);
    return RING_TIMEOUT;
  }
  if (device_hub_is_before(answer->sequence, call->sequence)) {
    snprintf(text, size, "rank %d (%s) has not made that call; it has made %u", rank, host,
             answer->sequence);
    return RING_TIMEOUT;
  }
  if (ring_call_is_same(answer, call)) return RING_OK;
  snprintf(text, size, "rank %d (%s) called %s", rank, host, other);
  return RING_MISMATCH;
}

/* A rank whose own kernels keep a call has made it, too, so nobody is at fault for a call that all have made. */
static void device_hub_decide(ring_device *device) {
  const ring_device_hub *hub = &device->hub;
  char call[RING_CALL_TEXT], fault[400];
  ring_error error;
  int rank = 0;
  ring_status status = RING_OK;
  for (; rank < device->size && status == RING_OK; rank++)
    status = device_hub_judge(device, rank, fault, sizeof fault);
  rank--;
  if (status == RING_OK) {
    rank = -1;
    status = RING_TIMEOUT;
    snprintf(fault, sizeof fault,
             "every rank has made the call, which a GPU or NCCL does not end: kernels before it "
             "may run for longer than the call timeout");
  }
  ring_call_describe(&hub->late_call, call, sizeof call);
  ring_error_set(&error, status, rank, 0, "rank %d (%s) waited %.1f s for %s on its GPU: %s",
                 hub->late_rank, device_host(device, hub->late_rank), hub->late_seconds, call,
                 fault);
  ring_device_hub_report(device, &error);
}

/* Rank 0 has not decided. */
static void device_hub_decide_alone(ring_device *device) {
  char call[RING_CALL_TEXT];
  ring_error error;
  ring_call_describe(&device->hub.late_call, call, sizeof call);
  ring_error_set(
      &error, RING_TIMEOUT, 0, 0,
      "rank %d (%s) waited %.1f s for %s on its GPU, and rank 0 (%s) does not answer: it "
      "or its host is stopped",
      device->rank, device_host(device, device->rank), device->hub.late_seconds, call,
      device_host(device, 0));
  ring_device_hub_report(device, &error);
}

double ring_device_hub_patience(const ring_device *device) {
  return device_answer_seconds(device) + HUB_SPARE_SECONDS;
}

void ring_device_hub_report_late(ring_device *device, const ring_call *call, double seconds) {
  if (device->hub.late) return;
  if (device->rank == 0) {
    device_hub_ask(device, call, 0, seconds);
    return;
  }
  device_hub_begin(device, call, device->rank, seconds, ring_device_hub_patience(device));
  device_hub_send(device, 0, HUB_LATE, call, seconds);
}

/* ---- Receiving ----------------------------------------------------------------------------- */

/* False where no rank sends these bytes. */
static bool device_hub_is_good(const ring_hub_message *message) {
  const uint8_t *kind = message->bytes;
  return message->length == RING_DEVICE_MESSAGE_BYTES && *kind >= HUB_REFUSE_NCCL &&
         *kind <= HUB_ANSWER;
}

static void device_hub_take(ring_device *device, const ring_hub_message *message) {
  ring_device_hub *hub = &device->hub;
  const uint8_t *from = message->bytes;
  device_hub_kind kind = (device_hub_kind)bytes_get(&from, 1);
  double seconds = 1e-3 * (double)bytes_get(&from, 8);
  ring_call call = ring_call_unpack(&from);
  if (kind == HUB_REFUSE_NCCL) {
    if (device->rank == 0 && !hub->nccl_refused)
      device_hub_send_all(device, HUB_REFUSE_NCCL, &device_hub_no_call);
    hub->nccl_refused = true;
  } else if (kind == HUB_LATE && device->rank == 0) {
    device_hub_ask(device, &call, message->source, seconds);
  } else if (kind == HUB_ASK) {
    const ring_call answer = device_hub_answer(device, &call);
    device_hub_send(device, 0, HUB_ANSWER, &answer, 0);
  } else if (kind == HUB_ANSWER && hub->late) {
    hub->answers[message->source] = (ring_device_answer){true, call};
  }
}

static void device_hub_accuse(ring_device *device, int rank) {
  ring_error error;
  ring_error_set(
      &error, RING_MISMATCH, rank, 0,
      "rank %d (%s) sent a device a message that is none: its memory or its sparkring is "
      "faulty, or it is hostile",
      rank, device_host(device, rank));
  ring_device_hub_report(device, &error);
}

/* The posted receive has failed: a rank has failed, or has closed its messages, which only ranks do that have passed
 * the barrier of close. */
static void device_hub_end_receive(ring_device *device, ring_error *error) {
  if (ring_messages_failure(device->hub.messages, error) || !device->closing)
    ring_device_set_failure(device, error);
}

/* Handles what has come, if anything has. */
static ring_hub_arrival device_hub_receive(ring_device *device) {
  ring_hub *control = &device->hub.control;
  ring_hub_message message;
  ring_error error;
  ring_hub_arrival arrival = ring_hub_receive(control, &message, &error);
  if (arrival == RING_HUB_FAILURE) device_hub_end_receive(device, &error);
  if (arrival != RING_HUB_MESSAGE) return arrival;
  if (device_hub_is_good(&message))
    device_hub_take(device, &message);
  else
    device_hub_accuse(device, message.source);
  ring_free(message.bytes);
  if (!device->failed && ring_hub_post(control, &error) != RING_OK)
    ring_device_set_failure(device, &error);
  return arrival;
}

void ring_device_hub_poll(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  ring_hub_arrival arrival;
  do {
    ring_hub_move(&hub->control);
    arrival = device_hub_receive(device);
  } while (arrival == RING_HUB_MESSAGE && !device->failed);
  if (arrival == RING_HUB_FAILURE || device->failed || !hub->late) return;
  bool due = ring_wait_check(&hub->wait) != RING_OK;
  if (device->rank == 0 && (due || device_hub_has_all(device))) device_hub_decide(device);
  if (device->rank != 0 && due) device_hub_decide_alone(device);
}

void ring_device_hub_refuse_nccl(ring_device *device) {
  if (device->hub.nccl_refused) return;
  if (device->rank == 0) device_hub_send_all(device, HUB_REFUSE_NCCL, &device_hub_no_call);
  if (device->rank != 0) device_hub_send(device, 0, HUB_REFUSE_NCCL, &device_hub_no_call, 0);
  device->hub.nccl_refused = true;
}

ring_status ring_device_hub_report(ring_device *device, const ring_error *error) {
  ring_messages *messages = device->hub.messages;
  ring_error cause = *error;
  if (messages != NULL) {
    ring_messages_fail(messages, error);
    ring_messages_failure(messages, &cause);
  }
  return ring_device_set_failure(device, &cause);
}

ring_status ring_device_hub_report_cuda(ring_device *device, ring_cuda_result result,
                                        const char *what) {
  ring_error error;
  ring_error_set(&error, RING_SYSTEM, device->rank, 0, "rank %d (%s): %s failed with %d (%s)",
                 device->rank, device_host(device, device->rank), what, (int)result,
                 ring_cuda_text(&device->cuda, result));
  return ring_device_hub_report(device, &error);
}

/* ---- Life ---------------------------------------------------------------------------------- */

/* Rank 0 and every other rank exchange a message each way, which opens the links. */
static ring_status device_hub_link(ring_device *device) {
  ring_messages *messages = device->hub.messages;
  uint8_t hello = 0, theirs;
  ring_status status = RING_OK;
  int first = device->rank == 0 ? 1 : 0, end = device->rank == 0 ? device->size : 1;
  for (int rank = first; rank < end && status == RING_OK; rank++)
    status = ring_messages_sendrecv(messages, &hello, 1, RING_UINT8, rank, HUB_HELLO_TAG, &theirs,
                                    1, RING_UINT8, rank, HUB_HELLO_TAG, NULL);
  if (status != RING_OK) device->comm->error = *ring_messages_error(messages);
  return status;
}

ring_status ring_device_hub_open(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  ring_status status = ring_messages_open(device->comm, &hub->messages);
  if (status == RING_OK) status = device_hub_link(device);
  if (status != RING_OK) return status;
  hub->answers = calloc((size_t)device->size, sizeof *hub->answers);
  if (hub->answers == NULL) return ring_error_no_memory(&device->comm->error, device->rank);
  int source = device->rank == 0 ? RING_ANY_SOURCE : 0;
  status = ring_hub_begin(&hub->control, hub->messages, source, HUB_TAG, &device->comm->error);
  return status == RING_OK ? RING_OK : ring_device_set_failure(device, &device->comm->error);
}

/* Control messages that were never received are of no use any more: a rank without NCCL, a question that was answered. */
ring_status ring_device_hub_close(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  ring_hub_end(&hub->control);
  if (ring_messages_close(hub->messages) == RING_OK) return RING_OK;
  return ring_messages_failure(hub->messages, ring_device_reason()) ? ring_device_reason()->status
                                                                    : RING_OK;
}

void ring_device_hub_free(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  ring_messages_free(hub->messages);
  ring_hub_end(&hub->control);
  free(hub->answers);
  *hub = (ring_device_hub){0};
}
