/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages between the server of each rank and rank 0: a byte for the kind, and what the kind needs.
 */
#ifndef RING_PMI_PMI_CONTROL_H
#define RING_PMI_PMI_CONTROL_H

#include "hub/hub.h"

/* The first byte of a payload. */
typedef enum ring_pmi_kind {
  RING_PMI_CONTROL_NONE = 0,
  RING_PMI_CONTROL_FENCE = 'f', /* pairs of one rank; of all ranks */
  RING_PMI_CONTROL_NAME = 'n',  /* a line of the name service; its answer */
  RING_PMI_CONTROL_END = 'e'    /* the program has ended; all programs have */
} ring_pmi_kind;

/* Tags: to rank 0 as the hub, from the hub, and of the barrier that opens the links (pmi_links.h). */
enum { RING_PMI_TO_HUB = 0, RING_PMI_FROM_HUB = 1, RING_PMI_LINKS = 2 };

/* A payload with room for `length` bytes after its kind; NULL without memory. */
ring_hub_payload *ring_pmi_control_make(ring_pmi_kind kind, size_t length);

/* Makes a payload of the bytes and sends it. RING_OK, or *error: no memory, or why the messages have failed. */
ring_status ring_pmi_control_send(ring_hub *control, ring_pmi_kind kind, const void *bytes,
                                  size_t length, int peer, int tag, ring_error *error);

#endif
