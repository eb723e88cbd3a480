/* SPDX-License-Identifier: Apache-2.0 */
#include "hub/hub.h"

#include <stdlib.h>

#include "base/error.h"
#include "messages/state.h"
#include "messages/transfer.h"

/* ---- Receiving ---------------------------------------------------------------------------- */

ring_status ring_hub_post(ring_hub *hub, ring_error *error) {
  ring_status status =
      ring_messages_take_start(hub->messages, hub->source, hub->tag, &hub->receive);
  if (status != RING_OK) *error = *ring_messages_error(hub->messages);
  return status;
}

ring_status ring_hub_begin(ring_hub *hub, ring_messages *messages, int source, int tag,
                           ring_error *error) {
  *hub = (ring_hub){.messages = messages, .source = source, .tag = tag};
  return ring_hub_post(hub, error);
}

/* Why a receive has failed: with the messages, or alone. */
static void hub_explain(const ring_transfer *receive, ring_error *error) {
  ring_messages *messages = receive->messages;
  if (!ring_messages_failure(messages, error)) *error = *ring_transfer_error(receive);
  if (error->status == RING_NO_MEMORY && error->rank < 0) /* nor for the reason */
    ring_error_no_memory(error, messages->rank);
}

ring_hub_arrival ring_hub_take(ring_transfer **receive, ring_hub_message *message,
                               ring_error *error) {
  ring_transfer *done = *receive;
  if (done == NULL || !transfer_is_done(done)) return RING_HUB_NOTHING;
  bool failed = done->status != RING_OK;
  if (failed) hub_explain(done, error);
  const ring_message_info info = ring_transfer_info(done);
  *message = (ring_hub_message){info.source, info.count, ring_transfer_take_output(done)};
  ring_transfer_free(done);
  *receive = NULL;
  return failed ? RING_HUB_FAILURE : RING_HUB_MESSAGE;
}

/* ---- Sending ------------------------------------------------------------------------------ */

ring_hub_payload *ring_hub_payload_make(size_t length) {
  ring_hub_payload *payload = malloc(sizeof *payload + length);
  if (payload != NULL) *payload = (ring_hub_payload){.references = 1, .length = length};
  return payload;
}

void ring_hub_payload_drop(ring_hub_payload *payload) {
  if (--payload->references == 0) free(payload);
}

ring_status ring_hub_share(ring_hub *hub, ring_hub_payload *payload, int peer, int tag,
                           ring_error *error) {
  ring_hub_sending *sending = malloc(sizeof *sending);
  if (sending == NULL) return ring_error_no_memory(error, hub->messages->rank);
  ring_status status = ring_messages_send_start(hub->messages, payload->bytes, payload->length,
                                                RING_UINT8, peer, tag, &sending->transfer);
  if (status != RING_OK) {
    free(sending);
    *error = *ring_messages_error(hub->messages);
    return status;
  }
  payload->references++;
  sending->payload = payload;
  sending->next = hub->sending;
  hub->sending = sending;
  return RING_OK;
}

ring_status ring_hub_send(ring_hub *hub, ring_hub_payload *payload, int peer, int tag,
                          ring_error *error) {
  if (payload == NULL) return ring_error_no_memory(error, hub->messages->rank);
  ring_status status = ring_hub_share(hub, payload, peer, tag, error);
  ring_hub_payload_drop(payload);
  return status;
}

ring_status ring_hub_send_all(ring_hub *hub, ring_hub_payload *payload, int first, int tag,
                              ring_error *error) {
  ring_status status = RING_OK;
  if (payload == NULL) return ring_error_no_memory(error, hub->messages->rank);
  for (int rank = first; rank < hub->messages->size && status == RING_OK; rank++)
    status = ring_hub_share(hub, payload, rank, tag, error);
  ring_hub_payload_drop(payload);
  return status;
}

/* Waits for a send that is not done. */
static void hub_remove(ring_hub_sending **at) {
  ring_hub_sending *sending = *at;
  *at = sending->next;
  ring_transfer_free(sending->transfer);
  ring_hub_payload_drop(sending->payload);
  free(sending);
}

static void hub_sweep(ring_hub *hub) {
  for (ring_hub_sending **at = &hub->sending; *at != NULL;) {
    if (transfer_is_done((*at)->transfer))
      hub_remove(at);
    else
      at = &(*at)->next;
  }
}

ring_hub_arrival ring_hub_receive(ring_hub *hub, ring_hub_message *message, ring_error *error) {
  hub_sweep(hub);
  return ring_hub_take(&hub->receive, message, error);
}

void ring_hub_move(const ring_hub *hub) {
  int done;
  if (hub->receive != NULL) ring_transfer_test(hub->receive, &done);
}

void ring_hub_end(ring_hub *hub) {
  ring_transfer_free(hub->receive); /* cancels it */
  hub->receive = NULL;
  while (hub->sending != NULL) hub_remove(&hub->sending);
}
