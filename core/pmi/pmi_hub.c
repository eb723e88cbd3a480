/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_hub.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "pmi/name_service.h"
#include "pmi/pmi_failure.h"

#define PMI_HUB_JUDGE_NS UINT64_C(700000000)

ring_status ring_pmi_hub_begin(ring_pmi_hub *hub, ring_messages *messages, const int *nodes,
                               int size, ring_error *error) {
  *hub = (ring_pmi_hub){.size = size};
  hub->ranks = calloc((size_t)size, sizeof *hub->ranks);
  if (hub->ranks == NULL || !ring_pmix_hub_begin(&hub->pmix, nodes, size))
    return ring_pmi_failure_no_memory(error, messages);
  return ring_hub_begin(&hub->control, messages, RING_ANY_SOURCE, RING_PMI_TO_HUB, error);
}

void ring_pmi_hub_end(ring_pmi_hub *hub) {
  ring_hub_end(&hub->control);
  for (int rank = 0; hub->ranks != NULL && rank < hub->size; rank++)
    if (hub->ranks[rank].pairs != NULL) ring_hub_payload_drop(hub->ranks[rank].pairs);
  ring_key_values_free(&hub->names);
  ring_pmix_hub_end(&hub->pmix);
  free(hub->ranks);
  *hub = (ring_pmi_hub){0};
}

/* ---- Fences and ends ---------------------------------------------------------------------- */

/* Sends the pairs of all ranks to all ranks. */
static ring_status pmi_hub_complete_fence(ring_pmi_hub *hub, ring_error *error) {
  size_t length = 0, at = 1;
  for (int rank = 0; rank < hub->size; rank++) length += hub->ranks[rank].pairs->length - 1;
  ring_hub_payload *all = ring_pmi_control_make(RING_PMI_CONTROL_FENCE, length);
  for (int rank = 0; rank < hub->size; rank++) {
    ring_hub_payload *pairs = hub->ranks[rank].pairs;
    if (all != NULL) memcpy(all->bytes + at, pairs->bytes + 1, pairs->length - 1);
    at += pairs->length - 1;
    ring_hub_payload_drop(pairs);
    hub->ranks[rank].pairs = NULL;
  }
  hub->fenced = 0;
  return ring_hub_send_all(&hub->control, all, 0, RING_PMI_FROM_HUB, error);
}

/* A program that has ended never enters the fence that another program waits in. */
static ring_status pmi_hub_check_ends(const ring_pmi_hub *hub, ring_error *error) {
  int ended = 0, waiting = 0;
  if (hub->fenced == 0 || hub->ended == 0) return RING_OK;
  while (!hub->ranks[ended].ended) ended++;
  while (hub->ranks[waiting].pairs == NULL) waiting++;
  return ring_pmi_failure_set(error, hub->control.messages, RING_MISMATCH, ended,
                              "its program ended, and the program of rank %d waits for it in "
                              "MPI_Init or MPI_Finalize: all programs must call both, or none",
                              waiting);
}

/* A program of MPICH waits for ever for a program of Open MPI. */
static ring_status pmi_hub_check_libraries(const ring_pmi_hub *hub, ring_error *error) {
  for (int rank = 0; hub->fenced > 0 && rank < hub->size; rank++) {
    if (!hub->pmix.active[rank]) continue;
    int other = 0;
    while (hub->ranks[other].pairs == NULL) other++;
    return ring_pmi_failure_set(error, hub->control.messages, RING_MISMATCH, rank,
                                "its program uses PMIx, as Open MPI does, and the program of rank "
                                "%d uses PMI-1, as MPICH does: all programs must use one MPI "
                                "library",
                                other);
  }
  return RING_OK;
}

/* The same as pmi_hub_check_ends, for programs of PMIx. PMIx reports that a program calls PMIx_Init while the program
 * goes on, so the report may come after its end: a silent program is judged a while later. */
static ring_status pmi_hub_check_pmix_ends(const ring_pmi_hub *hub, ring_error *error) {
  uint64_t now = hub->ended > 0 ? ring_platform_now() : 0;
  for (int rank = 0; hub->ended > 0 && rank < hub->size; rank++) {
    const ring_pmi_hub_rank *ended = &hub->ranks[rank];
    if (ended->silent && hub->pmix.active[rank])
      return ring_pmi_failure_set(error, hub->control.messages, RING_ABORTED, rank,
                                  RING_PMI_FAILURE_LEFT);
    bool judges = ended->ended && (!ended->silent || now >= ended->judged);
    int waiting = judges ? ring_pmix_hub_waiting(&hub->pmix, rank, ended->silent) : -1;
    if (waiting >= 0)
      return ring_pmi_failure_set(error, hub->control.messages, RING_MISMATCH, rank,
                                  "its program ended, and the program of rank %d waits for it in "
                                  "MPI_Init or MPI_Finalize: all programs must call both, or none",
                                  waiting);
  }
  return RING_OK;
}

static ring_status pmi_hub_check(const ring_pmi_hub *hub, ring_error *error) {
  ring_status status = pmi_hub_check_ends(hub, error);
  if (status == RING_OK) status = pmi_hub_check_libraries(hub, error);
  return status == RING_OK ? pmi_hub_check_pmix_ends(hub, error) : status;
}

/* ---- Control messages --------------------------------------------------------------------- */

static ring_status pmi_hub_take_fence(ring_pmi_hub *hub, int rank, const char *pairs, size_t length,
                                      ring_error *error) {
  if (length > RING_PMI_UNFENCED_MOST || !ring_key_values_are_pairs(pairs, length))
    return ring_pmi_failure_invalid_message(error, hub->control.messages, rank);
  ring_hub_payload *kept = ring_pmi_control_make(RING_PMI_CONTROL_FENCE, length);
  if (kept == NULL) return ring_pmi_failure_no_memory(error, hub->control.messages);
  if (length > 0) memcpy(kept->bytes + 1, pairs, length);
  hub->ranks[rank].pairs = kept;
  return ++hub->fenced < hub->size ? RING_OK : pmi_hub_complete_fence(hub, error);
}

static ring_status pmi_hub_take_name(ring_pmi_hub *hub, int rank, const char *text, size_t length,
                                     ring_error *error) {
  char answer[RING_PMI_ANSWER_MOST + 1];
  if (ring_pmi_line_read(&hub->line, text, length, NULL) != RING_OK ||
      !ring_name_service_takes(&hub->line))
    return ring_pmi_failure_invalid_message(error, hub->control.messages, rank);
  ring_name_service_answer(&hub->names, &hub->line, answer);
  return ring_pmi_control_send(&hub->control, RING_PMI_CONTROL_NAME, answer, strlen(answer), rank,
                               RING_PMI_FROM_HUB, error);
}

static ring_status pmi_hub_take_end(ring_pmi_hub *hub, int rank, bool silent, ring_error *error) {
  hub->ranks[rank].ended = true;
  hub->ranks[rank].silent = silent;
  if (silent) hub->due = hub->ranks[rank].judged = ring_platform_now() + PMI_HUB_JUDGE_NS;
  if (++hub->ended < hub->size) return RING_OK;
  hub->due = 0;
  return ring_hub_send_all(&hub->control, ring_pmi_control_make(RING_PMI_CONTROL_END, 0), 0,
                           RING_PMI_FROM_HUB, error);
}

/* Handles one control message of a rank. */
static ring_status pmi_hub_take(ring_pmi_hub *hub, int rank, const char *bytes, size_t length,
                                ring_error *error) {
  bool may = length > 0 && !hub->ranks[rank].ended && hub->ranks[rank].pairs == NULL;
  char kind = may ? bytes[0] : '\0';
  ring_status status;
  if (kind == RING_PMI_CONTROL_FENCE)
    status = pmi_hub_take_fence(hub, rank, bytes + 1, length - 1, error);
  else if (kind == RING_PMI_CONTROL_NAME)
    status = pmi_hub_take_name(hub, rank, bytes + 1, length - 1, error);
  else if (kind == RING_PMI_CONTROL_END)
    status = pmi_hub_take_end(hub, rank, length > 1, error);
  else if (length > 0 && ring_pmix_hub_takes(bytes[0])) /* also of a lead whose program has ended */
    status = ring_pmix_hub_take(&hub->pmix, &hub->control, &hub->names, rank, bytes[0], bytes + 1,
                                length - 1, error);
  else
    status = ring_pmi_failure_invalid_message(error, hub->control.messages, rank);
  return status == RING_OK ? pmi_hub_check(hub, error) : status;
}

/* The last silent program is due last, so all are judged then. */
static ring_status pmi_hub_check_due(ring_pmi_hub *hub, ring_error *error) {
  if (hub->due == 0 || ring_platform_now() < hub->due) return RING_OK;
  hub->due = 0;
  return pmi_hub_check(hub, error);
}

/* No receive is posted once all programs have ended. */
ring_status ring_pmi_hub_turn(ring_pmi_hub *hub, bool *moved, ring_error *error) {
  ring_hub_message message;
  ring_hub_arrival arrival = ring_hub_receive(&hub->control, &message, error);
  if (arrival == RING_HUB_NOTHING) return pmi_hub_check_due(hub, error);
  *moved = true;
  if (arrival == RING_HUB_FAILURE) return error->status;
  ring_status status = pmi_hub_take(hub, message.source, message.bytes, message.length, error);
  ring_free(message.bytes);
  if (status != RING_OK || hub->ended == hub->size) return status;
  return ring_hub_post(&hub->control, error);
}
