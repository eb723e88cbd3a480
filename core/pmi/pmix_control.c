/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_control.h"

#include <string.h>

ring_hub_payload *ring_pmix_control_make(char kind, const ring_pmix_message *message, char **room) {
  ring_hub_payload *payload =
      ring_pmi_control_make((ring_pmi_kind)kind, RING_PMIX_FIELDS + message->length);
  if (payload == NULL) return NULL;
  uint8_t *to = ring_pmix_message_write((uint8_t *)payload->bytes + 1, message);
  if (message->bytes != NULL && message->length > 0) memcpy(to, message->bytes, message->length);
  if (room != NULL) *room = (char *)to;
  return payload;
}

ring_status ring_pmix_control_send(ring_hub *control, char kind, const ring_pmix_message *message,
                                   int peer, int tag, ring_error *error) {
  return ring_hub_send(control, ring_pmix_control_make(kind, message, NULL), peer, tag, error);
}
