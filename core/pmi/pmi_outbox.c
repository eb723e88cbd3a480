/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_outbox.h"

#include <stdlib.h>
#include <string.h>

#include "messages/transfer.h"
#include "pmi/pmi_failure.h"

ring_pmi_payload *ring_pmi_payload_make(ring_pmi_kind kind, size_t length) {
  ring_pmi_payload *payload = malloc(sizeof *payload + 1 + length);
  if (payload == NULL) return NULL;
  payload->references = 1;
  payload->length = 1 + length;
  payload->bytes[0] = (char)kind;
  return payload;
}

void ring_pmi_payload_drop(ring_pmi_payload *payload) {
  if (--payload->references == 0) free(payload);
}

ring_status ring_pmi_outbox_send(ring_pmi_outbox *outbox, ring_pmi_payload *payload, int peer,
                                 int tag, ring_error *error) {
  ring_pmi_sending *sending = malloc(sizeof *sending);
  if (sending == NULL) return ring_pmi_failure_no_memory(error, outbox->messages);
  ring_status status = ring_messages_send_start(outbox->messages, payload->bytes, payload->length,
                                                RING_UINT8, peer, tag, &sending->transfer);
  if (status != RING_OK) {
    free(sending);
    *error = *ring_messages_error(outbox->messages);
    return status;
  }
  payload->references++;
  sending->payload = payload;
  sending->next = outbox->first;
  outbox->first = sending;
  return RING_OK;
}

ring_status ring_pmi_outbox_post(ring_pmi_outbox *outbox, ring_pmi_kind kind, const void *bytes,
                                 size_t length, int peer, int tag, ring_error *error) {
  ring_pmi_payload *payload = ring_pmi_payload_make(kind, length);
  if (payload == NULL) return ring_pmi_failure_no_memory(error, outbox->messages);
  if (length > 0) memcpy(payload->bytes + 1, bytes, length);
  ring_status status = ring_pmi_outbox_send(outbox, payload, peer, tag, error);
  ring_pmi_payload_drop(payload);
  return status;
}

static void pmi_outbox_remove(ring_pmi_sending **at) {
  ring_pmi_sending *sending = *at;
  *at = sending->next;
  ring_transfer_free(sending->transfer);
  ring_pmi_payload_drop(sending->payload);
  free(sending);
}

void ring_pmi_outbox_sweep(ring_pmi_outbox *outbox) {
  for (ring_pmi_sending **at = &outbox->first; *at != NULL;) {
    if (transfer_is_done((*at)->transfer))
      pmi_outbox_remove(at);
    else
      at = &(*at)->next;
  }
}

void ring_pmi_outbox_finish(ring_pmi_outbox *outbox) {
  while (outbox->first != NULL) pmi_outbox_remove(&outbox->first);
}
