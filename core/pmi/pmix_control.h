/* SPDX-License-Identifier: Apache-2.0
 *
 * Control messages of PMIx: between the hub and the leads, and between a lead and the ranks of its host.
 */
#ifndef RING_PMI_PMIX_CONTROL_H
#define RING_PMI_PMIX_CONTROL_H

#include "pmi/pmi_control.h"
#include "pmi/pmix_message.h"

/* Tags, beside those of pmi_control.h: from a lead to a rank of its host, back, and of the start. */
enum { RING_PMIX_TO_RANK = 3, RING_PMIX_TO_LEAD = 4, RING_PMIX_START = 5 };

/* A payload with room for message->length bytes, at *room (may be NULL), which come from message->bytes unless
 * that is NULL. NULL without memory. */
ring_hub_payload *ring_pmix_control_make(char kind, const ring_pmix_message *message, char **room);

/* Starts to send. RING_OK, or *error: no memory, or why the messages have failed. */
ring_status ring_pmix_control_send(ring_hub *control, char kind, const ring_pmix_message *message,
                                   int peer, int tag, ring_error *error);

#endif
