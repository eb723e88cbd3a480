/* SPDX-License-Identifier: Apache-2.0 */
#include "device/device_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/platform.h"
#include "device/pending.h"
#include "messages/message_driver.h"

#define HUB_TAG 1
#define HUB_ANSWER_NS UINT64_C(1000000000)  /* that ranks have for an answer */
#define HUB_VERDICT_NS UINT64_C(3000000000) /* that rank 0 has for a verdict */

typedef enum device_hub_kind {
  HUB_HELLO = 1,
  HUB_GIVE_UP = 2,
  HUB_LATE = 3,
  HUB_ASK = 4,
  HUB_ANSWER = 5
} device_hub_kind;

/* ---- Notes --------------------------------------------------------------------------------- */

static const ring_call device_hub_no_call;

/* The rest of the bytes stays 0. */
static void device_hub_pack(uint8_t *note, device_hub_kind kind, const ring_call *call,
                            double seconds) {
  memset(note, 0, RING_HUB_NOTE_BYTES);
  uint8_t *to = bytes_put(note, kind, 1);
  to = bytes_put(to, (uint64_t)(1000 * seconds), 8);
  ring_call_pack(call, to);
}

/* Short messages leave before the receive, so that a send does not wait. A failure reaches the posted receive. */
static void device_hub_send(ring_device *device, int rank, device_hub_kind kind,
                            const ring_call *call, double seconds) {
  uint8_t note[RING_HUB_NOTE_BYTES];
  device_hub_pack(note, kind, call, seconds);
  ring_messages_send(device->hub.messages, note, sizeof note, RING_UINT8, rank, HUB_TAG);
}

static void device_hub_send_all(ring_device *device, device_hub_kind kind, const ring_call *call) {
  for (int rank = 1; rank < device->size; rank++) device_hub_send(device, rank, kind, call, 0);
}

static void device_hub_post(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  int source = device->rank == 0 ? RING_ANY_SOURCE : 0;
  if (ring_messages_recv_start(hub->messages, hub->note, sizeof hub->note, RING_UINT8, source,
                               HUB_TAG, &hub->receive) != RING_OK)
    ring_device_set_failure(device, ring_messages_error(hub->messages));
}

/* ---- Verdicts ------------------------------------------------------------------------------ */

/* What this rank has to say of the call that another rank waits for. */
static ring_call device_hub_answer(ring_device *device, const ring_call *asked) {
  ring_call answer = *asked; /* it was made, and has ended */
  pthread_mutex_lock(&device->mutex);
  const ring_pending *pending = ring_pending_find(device, asked->sequence);
  if (device->sequence < asked->sequence) answer.sequence = device->sequence;
  if (pending != NULL) answer = pending->call;
  pthread_mutex_unlock(&device->mutex);
  return answer;
}

/* Rank 0 asks all ranks. */
static void device_hub_ask(ring_device *device, const ring_call *call, int rank, double seconds) {
  ring_device_hub *hub = &device->hub;
  if (hub->late) return;
  hub->late = true;
  hub->late_call = *call;
  hub->late_rank = rank;
  hub->late_seconds = seconds;
  hub->due = ring_platform_now() + HUB_ANSWER_NS;
  for (int i = 0; i < device->size; i++) hub->answers[i].sequence = UINT32_MAX;
  hub->answers[rank] = *call;
  if (rank != 0) hub->answers[0] = device_hub_answer(device, call);
  device_hub_send_all(device, HUB_ASK, call);
}

static bool device_hub_has_all(const ring_device *device) {
  for (int rank = 0; rank < device->size; rank++)
    if (device->hub.answers[rank].sequence == UINT32_MAX) return false;
  return true;
}

/* What is wrong with a rank; RING_OK: nothing. */
static ring_status device_hub_judge(const ring_device *device, int rank, char *text, size_t size) {
  const ring_call *answer = &device->hub.answers[rank], *call = &device->hub.late_call;
  char other[RING_CALL_TEXT];
  ring_call_describe(answer, other, sizeof other);
  const char *host = device_host(device, rank);
  if (answer->sequence == UINT32_MAX) {
    snprintf(text, size, "rank %d (%s) does not answer: it or its host is stopped", rank, host);
    return RING_TIMEOUT;
  }
  if (answer->sequence < call->sequence) {
    snprintf(text, size, "rank %d (%s) has not made that call; it has made %u", rank, host,
             answer->sequence);
    return RING_TIMEOUT;
  }
  if (ring_call_is_same(answer, call)) return RING_OK;
  snprintf(text, size, "rank %d (%s) called %s", rank, host, other);
  return RING_MISMATCH;
}

static void device_hub_decide(ring_device *device) {
  const ring_device_hub *hub = &device->hub;
  char call[RING_CALL_TEXT], fault[400];
  ring_error error;
  int rank = 0;
  ring_status status = RING_OK;
  for (; rank < device->size && status == RING_OK; rank++)
    status = device_hub_judge(device, rank, fault, sizeof fault);
  if (status == RING_OK) {
    rank = hub->late_rank;
    status = RING_TIMEOUT;
    snprintf(fault, sizeof fault, "every rank has made the call, which a GPU or NCCL does not end");
  } else {
    rank--;
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

void ring_device_hub_complain(ring_device *device, const ring_call *call, double seconds) {
  ring_device_hub *hub = &device->hub;
  if (hub->late) return;
  if (device->rank == 0) {
    device_hub_ask(device, call, 0, seconds);
    return;
  }
  hub->late = true;
  hub->late_call = *call;
  hub->late_rank = device->rank;
  hub->late_seconds = seconds;
  hub->due = ring_platform_now() + HUB_VERDICT_NS;
  device_hub_send(device, 0, HUB_LATE, call, seconds);
}

/* ---- What comes ---------------------------------------------------------------------------- */

static void device_hub_take(ring_device *device, int source) {
  ring_device_hub *hub = &device->hub;
  const uint8_t *from = hub->note;
  device_hub_kind kind = (device_hub_kind)bytes_get(&from, 1);
  double seconds = 1e-3 * (double)bytes_get(&from, 8);
  ring_call call = ring_call_unpack(&from);
  if (kind == HUB_GIVE_UP) {
    if (device->rank == 0 && !hub->gives_up)
      device_hub_send_all(device, HUB_GIVE_UP, &device_hub_no_call);
    hub->gives_up = true;
  } else if (kind == HUB_LATE && device->rank == 0) {
    device_hub_ask(device, &call, source, seconds);
  } else if (kind == HUB_ASK) {
    const ring_call answer = device_hub_answer(device, &call);
    device_hub_send(device, 0, HUB_ANSWER, &answer, 0);
  } else if (kind == HUB_ANSWER && hub->late) {
    hub->answers[source] = call;
  }
}

void ring_device_hub_poll(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  for (int done = 1; done && !device->failed;) {
    ring_status status = ring_transfer_test(hub->receive, &done);
    if (!done) break;
    if (status != RING_OK) {
      ring_device_set_failure(device, ring_transfer_error(hub->receive));
      return;
    }
    device_hub_take(device, ring_transfer_info(hub->receive).source);
    ring_transfer_free(hub->receive);
    hub->receive = NULL;
    device_hub_post(device);
  }
  if (device->failed || !hub->late) return;
  bool due = ring_platform_now() > hub->due;
  if (device->rank == 0 && (due || device_hub_has_all(device))) device_hub_decide(device);
  if (device->rank != 0 && due) device_hub_decide_alone(device);
}

void ring_device_hub_give_up(ring_device *device) {
  if (device->hub.gives_up) return;
  if (device->rank == 0) device_hub_send_all(device, HUB_GIVE_UP, &device_hub_no_call);
  if (device->rank != 0) device_hub_send(device, 0, HUB_GIVE_UP, &device_hub_no_call, 0);
  device->hub.gives_up = true;
}

ring_status ring_device_hub_report(ring_device *device, const ring_error *error) {
  ring_messages *messages = device->hub.messages;
  ring_error cause = *error;
  if (messages != NULL) {
    ring_messages_fail(messages, error);
    messages_lock(messages);
    if (messages->broken) cause = messages->failure;
    messages_unlock(messages);
  }
  return ring_device_set_failure(device, &cause);
}

/* ---- Life ---------------------------------------------------------------------------------- */

/* Rank 0 and every other rank exchange a message each way, which opens the links. */
static ring_status device_hub_link(ring_device *device) {
  ring_messages *messages = device->hub.messages;
  uint8_t note[RING_HUB_NOTE_BYTES];
  ring_status status = RING_OK;
  device_hub_pack(note, HUB_HELLO, &device_hub_no_call, 0);
  int first = device->rank == 0 ? 1 : 0, end = device->rank == 0 ? device->size : 1;
  for (int rank = first; rank < end && status == RING_OK; rank++)
    status = ring_messages_sendrecv(messages, note, sizeof note, RING_UINT8, rank, 0,
                                    device->hub.note, sizeof note, RING_UINT8, rank, 0, NULL);
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
  device_hub_post(device);
  if (device->failed) device->comm->error = device->failure;
  return device->failed ? device->failure.status : RING_OK;
}

ring_status ring_device_hub_close(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  ring_transfer_cancel(hub->receive);
  ring_status status = ring_messages_close(hub->messages);
  if (status != RING_OK) *ring_device_reason() = *ring_messages_error(hub->messages);
  return status;
}

void ring_device_hub_free(ring_device *device) {
  ring_device_hub *hub = &device->hub;
  ring_messages_free(hub->messages);
  ring_transfer_free(hub->receive);
  free(hub->answers);
  *hub = (ring_device_hub){0};
}
