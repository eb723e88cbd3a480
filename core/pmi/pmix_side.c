/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmix_side.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "messages/state.h"
#include "messages/transfer.h"
#include "pmi/pmi_failure.h"

/* ---- The PMIx server ---------------------------------------------------------------------- */

static bool pmix_side_leads(const ring_pmix_side *side) {
  return side->process.pid != 0;
}

static ring_status pmix_side_fail(const ring_pmix_side *side, const char *problem,
                                  ring_error *error) {
  return ring_pmi_failure_set(error, side->messages, RING_SYSTEM, side->rank,
                              "the PMIx server of its host %s", problem);
}

static ring_status pmix_side_refuse(const ring_pmix_side *side, ring_error *error) {
  return pmix_side_fail(
      side, "sent an invalid message: sparkring-pmix must be of the same sparkring", error);
}

static void pmix_side_answer(ring_pmix_side *side, uint64_t ticket, bool good, const char *bytes,
                             size_t length) {
  const ring_pmix_message answer = {
      .ticket = ticket, .value = good, .bytes = bytes, .length = length};
  ring_pmix_channel_send(&side->process.channel, RING_PMIX_ANSWER, &answer);
}

/* ---- States ------------------------------------------------------------------------------- */

static void pmix_side_set_news(ring_pmix_side *side, int state, int exit_code, uint64_t ticket) {
  side->news = (ring_pmix_news){true, (ring_pmi_state)state, exit_code, ticket};
}

/* Posts a receive for the reply of a rank. */
static ring_status pmix_side_await_reply(ring_pmix_side *side, int rank, ring_error *error) {
  ring_pmix_reply *reply = malloc(sizeof *reply);
  if (reply == NULL) return ring_pmi_failure_no_memory(error, side->messages);
  ring_status status =
      ring_messages_take_start(side->messages, rank, RING_PMIX_TO_LEAD, &reply->receive);
  if (status != RING_OK) {
    *error = *ring_messages_error(side->messages);
    free(reply);
    return status;
  }
  reply->next = side->replies;
  side->replies = reply;
  return RING_OK;
}

/* Reports a new state of a program to its rank. The rank shows the state before the program goes on: an exit right
 * after PMIx_Finalize finds the state finalized. */
static ring_status pmix_side_report_state(ring_pmix_side *side, ring_pmi_state state,
                                          const ring_pmix_message *event, ring_error *error) {
  if (event->rank == side->rank) {
    pmix_side_set_news(side, (int)state, event->value, event->ticket);
    return RING_OK;
  }
  const ring_pmix_message message = {
      .ticket = event->ticket, .rank = event->value, .value = (int32_t)state};
  ring_status status = pmix_side_await_reply(side, event->rank, error);
  if (status != RING_OK) return status;
  return ring_pmix_control_send(side->control, RING_PMIX_STATE, &message, event->rank,
                                RING_PMIX_TO_RANK, error);
}

ring_status ring_pmix_side_known(ring_pmix_side *side, ring_error *error) {
  const ring_pmix_message message = {.ticket = side->news.ticket};
  ring_status status = RING_OK;
  side->news.has = false;
  if (side->news.state == RING_PMI_ACTIVE)
    status = ring_pmix_control_send(side->control, RING_PMIX_ACTIVE, &message, 0, RING_PMI_TO_HUB,
                                    error);
  if (status == RING_OK && side->rank != side->lead)
    return ring_pmix_control_send(side->control, RING_PMIX_KNOWN, &message, side->lead,
                                  RING_PMIX_TO_LEAD, error);
  if (side->rank == side->lead) pmix_side_answer(side, message.ticket, true, NULL, 0);
  return status;
}

/* ---- Messages of the PMIx server ---------------------------------------------------------- */

/* Whether the message is good and, where it is of a program, of a program of this host. */
static bool pmix_side_is_good(const ring_pmix_side *side, char kind,
                              const ring_pmix_message *message) {
  const ring_topology *topology = &side->messages->comm->topology;
  bool of_program =
      kind == RING_PMIX_CONNECTED || kind == RING_PMIX_FINALIZED || kind == RING_PMIX_ABORTED;
  return ring_pmix_message_is_good(kind, message, topology->size) &&
         (!of_program || topology->nodes[message->rank] == side->host);
}

static ring_status pmix_side_take_message(ring_pmix_side *side, char kind,
                                          const ring_pmix_message *message, ring_error *error) {
  if (!pmix_side_is_good(side, kind, message)) return pmix_side_refuse(side, error);
  switch (kind) {
  case RING_PMIX_CONNECTED:
    return pmix_side_report_state(side, RING_PMI_ACTIVE, message, error);
  case RING_PMIX_FINALIZED:
    return pmix_side_report_state(side, RING_PMI_FINALIZED, message, error);
  case RING_PMIX_ABORTED:
    return pmix_side_report_state(side, RING_PMI_ABORTED, message, error);
  case RING_PMIX_FENCE:
  case RING_PMIX_MODEX:
  case RING_PMIX_FETCHED:
  case RING_PMIX_NAME:
    return ring_pmix_control_send(side->control, kind, message, 0, RING_PMI_TO_HUB, error);
  default:
    return pmix_side_refuse(side, error);
  }
}

static ring_status pmix_side_report_end(ring_pmix_side *side, ring_error *error) {
  char how[RING_PMIX_PROBLEM], problem[2 * RING_PMIX_PROBLEM];
  ring_pmix_process_describe(&side->process, how);
  snprintf(problem, sizeof problem, "%s, and programs cannot go on without it", how);
  return pmix_side_fail(side, problem, error);
}

static ring_status pmix_side_take_messages(ring_pmix_side *side, bool *moved, ring_error *error) {
  ring_pmix_message message;
  char kind;
  while (!side->news.has) {
    ring_status status = RING_OK;
    switch (ring_pmix_channel_receive(&side->process.channel, &kind, &message)) {
    case RING_PMIX_NOTHING:
      return RING_OK;
    case RING_PMIX_MESSAGE:
      status = pmix_side_take_message(side, kind, &message, error);
      break;
    case RING_PMIX_END:
      return pmix_side_report_end(side, error);
    case RING_PMIX_INVALID:
      return pmix_side_refuse(side, error);
    case RING_PMIX_NO_MEMORY:
      return ring_pmi_failure_no_memory(error, side->messages);
    }
    *moved = true;
    if (status != RING_OK) return status;
  }
  return RING_OK;
}

/* ---- Turns -------------------------------------------------------------------------------- */

/* Whether a receive has got a control message. A receive that fails does so together with the server's own, which
 * reports it. */
static bool pmix_side_receive(ring_transfer **receive, ring_pmix_message *message) {
  ring_hub_message got;
  ring_error error;
  if (ring_hub_take(receive, &got, &error) != RING_HUB_MESSAGE) return false;
  if (got.length == 0 || !ring_pmix_message_read((char *)got.bytes + 1, got.length - 1, message))
    *message = (ring_pmix_message){.value = -1};
  ring_free(got.bytes);
  return true;
}

static void pmix_side_take_replies(ring_pmix_side *side, bool *moved) {
  ring_pmix_message message;
  for (ring_pmix_reply **at = &side->replies; *at != NULL;) {
    ring_pmix_reply *reply = *at;
    if (!pmix_side_receive(&reply->receive, &message)) {
      at = &reply->next;
      continue;
    }
    *at = reply->next;
    *moved = true;
    pmix_side_answer(side, message.ticket, true, NULL, 0);
    free(reply);
  }
}

static ring_status pmix_side_take_state(ring_pmix_side *side, bool *moved, ring_error *error) {
  ring_pmix_message message;
  if (!pmix_side_receive(&side->receive, &message)) return RING_OK;
  *moved = true;
  if (message.value != RING_PMI_ACTIVE && message.value != RING_PMI_FINALIZED &&
      message.value != RING_PMI_ABORTED)
    return ring_pmi_failure_invalid_message(error, side->messages, side->lead);
  pmix_side_set_news(side, message.value, message.rank, message.ticket);
  return ring_pmix_side_begin(side, error);
}

ring_status ring_pmix_side_begin(ring_pmix_side *side, ring_error *error) {
  side->receive = NULL;
  if (!side->served || side->rank == side->lead) return RING_OK;
  ring_status status =
      ring_messages_take_start(side->messages, side->lead, RING_PMIX_TO_RANK, &side->receive);
  if (status != RING_OK) *error = *ring_messages_error(side->messages);
  return status;
}

ring_status ring_pmix_side_turn(ring_pmix_side *side, bool *moved, ring_error *error) {
  if (!side->served || side->news.has) return RING_OK;
  if (!pmix_side_leads(side)) return pmix_side_take_state(side, moved, error);
  pmix_side_take_replies(side, moved);
  return pmix_side_take_messages(side, moved, error);
}

/* ---- Control messages of the hub ---------------------------------------------------------- */

bool ring_pmix_side_takes(char kind) {
  return kind == RING_PMIX_FENCE || kind == RING_PMIX_MODEX || kind == RING_PMIX_FETCHED ||
         kind == RING_PMIX_NAME;
}

static ring_status pmix_side_end_fence(ring_pmix_side *side, const ring_pmix_message *message,
                                       ring_error *error) {
  size_t tickets = 8 * (size_t)message->value;
  if (message->value <= side->host || message->length < tickets)
    return ring_pmi_failure_invalid_message(error, side->messages, 0);
  const uint8_t *mine = (const uint8_t *)message->bytes + 8 * (size_t)side->host;
  const ring_pmix_message answer = {.ticket = bytes_get(&mine, 8),
                                    .rank = message->rank,
                                    .value = true,
                                    .bytes = message->bytes + tickets,
                                    .length = message->length - tickets};
  ring_pmix_channel_send(&side->process.channel, RING_PMIX_ANSWER, &answer);
  return RING_OK;
}

ring_status ring_pmix_side_take(ring_pmix_side *side, char kind, const char *bytes, size_t length,
                                ring_error *error) {
  ring_pmix_message message;
  if (!pmix_side_leads(side) || !ring_pmix_message_read(bytes, length, &message) ||
      message.length > RING_PMIX_MOST ||
      (kind == RING_PMIX_MODEX && !ring_pmix_message_is_good(kind, &message, side->size)))
    return ring_pmi_failure_invalid_message(error, side->messages, 0);
  if (kind == RING_PMIX_FENCE) return pmix_side_end_fence(side, &message, error);
  if (kind == RING_PMIX_MODEX)
    ring_pmix_channel_send(&side->process.channel, RING_PMIX_MODEX, &message);
  else
    pmix_side_answer(side, message.ticket, message.value == 1, message.bytes, message.length);
  return RING_OK;
}
