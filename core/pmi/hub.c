/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/hub.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "pmi/name_service.h"

static bool hub_receive(ring_hub *hub) {
  return ring_messages_take_start(hub->outbox.messages, RING_ANY_SOURCE, RING_PMI_TO_HUB,
                                  &hub->receive) == RING_OK;
}

bool ring_hub_begin(ring_hub *hub, ring_messages *messages, int size) {
  *hub = (ring_hub){.size = size, .outbox.messages = messages};
  hub->ranks = calloc((size_t)size, sizeof *hub->ranks);
  return hub->ranks != NULL && hub_receive(hub);
}

void ring_hub_end(ring_hub *hub) {
  if (hub->receive != NULL) {
    ring_transfer_cancel(hub->receive);
    ring_transfer_free(hub->receive);
  }
  if (hub->ranks != NULL) ring_pmi_outbox_finish(&hub->outbox);
  for (int rank = 0; hub->ranks != NULL && rank < hub->size; rank++)
    if (hub->ranks[rank].pairs != NULL) ring_pmi_payload_drop(hub->ranks[rank].pairs);
  ring_key_values_free(&hub->names);
  free(hub->ranks);
  *hub = (ring_hub){0};
}

/* ---- Fences and ends ---------------------------------------------------------------------- */

/* Sends one payload to all ranks, and drops it. */
static bool hub_broadcast(ring_hub *hub, ring_pmi_payload *payload) {
  bool good = payload != NULL;
  for (int rank = 0; rank < hub->size && good; rank++)
    good = ring_pmi_outbox_send(&hub->outbox, payload, rank, RING_PMI_FROM_HUB);
  if (payload != NULL) ring_pmi_payload_drop(payload);
  return good;
}

/* Sends the pairs of all ranks to all. */
static bool hub_complete_fence(ring_hub *hub) {
  size_t length = 0, at = 1;
  for (int rank = 0; rank < hub->size; rank++) length += hub->ranks[rank].pairs->length - 1;
  ring_pmi_payload *all = ring_pmi_payload_make(RING_PMI_MAIL_FENCE, length);
  for (int rank = 0; rank < hub->size; rank++) {
    ring_pmi_payload *pairs = hub->ranks[rank].pairs;
    if (all != NULL) memcpy(all->bytes + at, pairs->bytes + 1, pairs->length - 1);
    at += pairs->length - 1;
    ring_pmi_payload_drop(pairs);
    hub->ranks[rank].pairs = NULL;
  }
  hub->fenced = 0;
  return hub_broadcast(hub, all);
}

/* A program that has ended will not come to the fence that another one waits in. */
static ring_status hub_check_ends(const ring_hub *hub, ring_error *error) {
  int ended = 0, waiting = 0;
  if (hub->fenced == 0 || hub->ended == 0) return RING_OK;
  while (!hub->ranks[ended].ended) ended++;
  while (hub->ranks[waiting].pairs == NULL) waiting++;
  return ring_error_set(
      error, RING_MISMATCH, ended, 0,
      "its program ended, and that of rank %d waits for it in a barrier of PMI: all "
      "programs have to call MPI_Init and MPI_Finalize, or none",
      waiting);
}

/* ---- Mail --------------------------------------------------------------------------------- */

/* False without memory, and when the messages have failed. */
static bool hub_take_fence(ring_hub *hub, int rank, const char *pairs, size_t length) {
  ring_pmi_payload *kept = ring_pmi_payload_make(RING_PMI_MAIL_FENCE, length);
  if (kept == NULL) return false;
  if (length > 0) memcpy(kept->bytes + 1, pairs, length);
  hub->ranks[rank].pairs = kept;
  return ++hub->fenced < hub->size || hub_complete_fence(hub);
}

static bool hub_take_name(ring_hub *hub, int rank, const char *text, size_t length) {
  char answer[RING_PMI_ANSWER_MOST + 1];
  if (ring_pmi_line_read(&hub->line, text, length, NULL) != RING_OK) return false;
  ring_name_service_answer(&hub->names, &hub->line, answer);
  return ring_pmi_outbox_post(&hub->outbox, RING_PMI_MAIL_NAME, answer, strlen(answer), rank,
                              RING_PMI_FROM_HUB);
}

static bool hub_take_end(ring_hub *hub, int rank) {
  hub->ranks[rank].ended = true;
  if (++hub->ended < hub->size) return true;
  return hub_broadcast(hub, ring_pmi_payload_make(RING_PMI_MAIL_END, 0));
}

/* Handles one message of a rank. */
static ring_status hub_take(ring_hub *hub, int rank, const char *bytes, size_t length,
                            ring_error *error) {
  bool good = true;
  char kind = length > 0 ? bytes[0] : '\0';
  bool may = !hub->ranks[rank].ended && hub->ranks[rank].pairs == NULL;
  if (may && kind == RING_PMI_MAIL_FENCE && ring_key_values_are_pairs(bytes + 1, length - 1))
    good = hub_take_fence(hub, rank, bytes + 1, length - 1);
  else if (may && kind == RING_PMI_MAIL_NAME)
    good = hub_take_name(hub, rank, bytes + 1, length - 1);
  else if (may && kind == RING_PMI_MAIL_END)
    good = hub_take_end(hub, rank);
  else
    return ring_error_set(error, RING_SYSTEM, rank, 0,
                          "its PMI server sent nonsense: all ranks need the same sparkring");
  return good ? hub_check_ends(hub, error) : ring_error_no_memory(error, 0);
}

ring_status ring_hub_turn(ring_hub *hub, bool *moved, ring_error *error) {
  int done = 0;
  error->status = RING_OK;
  ring_pmi_outbox_sweep(&hub->outbox);
  if (hub->receive == NULL) return RING_OK; /* all programs have ended */
  ring_status status = ring_transfer_test(hub->receive, &done);
  if (!done || status != RING_OK) return status;
  *moved = true;
  ring_message_info info = ring_transfer_info(hub->receive);
  void *bytes = ring_transfer_take_output(hub->receive);
  ring_transfer_free(hub->receive);
  hub->receive = NULL;
  status = hub_take(hub, info.source, bytes, info.count, error);
  ring_free(bytes);
  if (status != RING_OK || hub->ended == hub->size) return status;
  return hub_receive(hub) ? RING_OK : RING_ABORTED;
}
