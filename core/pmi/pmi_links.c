/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_links.h"

#include <stdint.h>

#include "messages/state.h"
#include "pmi/pmi_outbox.h"

/* The answer of one rank, and of all ranks. */
typedef struct pmi_report {
  int32_t code, rank;
} pmi_report;

static ring_status pmi_links_send(ring_messages *messages, const pmi_report *report, int peer) {
  return ring_messages_send(messages, report, 2, RING_INT32, peer, RING_PMI_LINKS);
}

static ring_status pmi_links_receive(ring_messages *messages, pmi_report *report, int peer) {
  return ring_messages_recv(messages, report, 2, RING_INT32, peer, RING_PMI_LINKS, NULL);
}

/* Rank 0 receives the reports of all ranks, and sends the first with a code to all. */
static ring_status pmi_links_gather(ring_messages *messages, pmi_report *report) {
  ring_status status = RING_OK;
  pmi_report theirs;
  for (int rank = 1; rank < messages->size && status == RING_OK; rank++) {
    status = pmi_links_receive(messages, &theirs, rank);
    if (status == RING_OK && report->code == 0) *report = theirs;
  }
  for (int rank = 1; rank < messages->size && status == RING_OK; rank++)
    status = pmi_links_send(messages, report, rank);
  return status;
}

ring_status ring_pmi_open_links(ring_messages *messages, int *code, int *fault) {
  pmi_report report = {*code, messages->rank};
  ring_status status;
  if (messages->rank == 0) {
    status = pmi_links_gather(messages, &report);
  } else {
    status = pmi_links_send(messages, &report, 0);
    if (status == RING_OK) status = pmi_links_receive(messages, &report, 0);
  }
  *code = report.code;
  *fault = report.rank;
  return status;
}
