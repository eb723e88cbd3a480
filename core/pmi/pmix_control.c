/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_control.h"

#include <string.h>

#include "pmi/pmi_failure.h"

ring_pmi_payload *ring_pmix_control_make(char kind, const ring_pmix_message *message, char **room) {
  ring_pmi_payload *payload =
      ring_pmi_payload_make((ring_pmi_kind)kind, RING_PMIX_FIELDS + message->length);
  if (payload == NULL) return NULL;
  uint8_t *to = ring_pmix_message_write((uint8_t *)payload->bytes + 1, message);
  if (message->bytes != NULL && message->length > 0) memcpy(to, message->bytes, message->length);
  if (room != NULL) *room = (char *)to;
  return payload;
}

ring_status ring_pmix_control_send_payload(ring_pmi_outbox *outbox, ring_pmi_payload *payload,
                                           int peer, int tag, ring_error *error) {
  if (payload == NULL) return ring_pmi_failure_no_memory(error, outbox->messages);
  ring_status status = ring_pmi_outbox_send(outbox, payload, peer, tag, error);
  ring_pmi_payload_drop(payload);
  return status;
}

ring_status ring_pmix_control_send(ring_pmi_outbox *outbox, char kind,
                                   const ring_pmix_message *message, int peer, int tag,
                                   ring_error *error) {
  return ring_pmix_control_send_payload(outbox, ring_pmix_control_make(kind, message, NULL), peer,
                                        tag, error);
}
