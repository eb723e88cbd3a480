/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_control.h"

#include <string.h>

ring_hub_payload *ring_pmi_control_make(ring_pmi_kind kind, size_t length) {
  ring_hub_payload *payload = ring_hub_payload_make(1 + length);
  if (payload != NULL) payload->bytes[0] = (char)kind;
  return payload;
}

ring_status ring_pmi_control_send(ring_hub *control, ring_pmi_kind kind, const void *bytes,
                                  size_t length, int peer, int tag, ring_error *error) {
  ring_hub_payload *payload = ring_pmi_control_make(kind, length);
  if (payload != NULL && length > 0) memcpy(payload->bytes + 1, bytes, length);
  return ring_hub_send(control, payload, peer, tag, error);
}
