/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi/pmi_links.h"

#include <string.h>

#include "messages/message_progress.h"
#include "pmi/pmi_control.h"
#include "pmi/pmi_failure.h"

static ring_status pmi_links_send(ring_messages *messages, const ring_pmi_report *report,
                                  int peer) {
  return ring_messages_send(messages, report, sizeof *report, RING_UINT8, peer, RING_PMI_LINKS);
}

/* Whether a report has its length, a rank that exists, and a problem with an end. */
static bool pmi_links_is_report(const ring_messages *messages, const ring_pmi_report *report,
                                size_t length) {
  return length == sizeof *report && report->rank >= 0 && report->rank < messages->size &&
         memchr(report->problem, '\0', sizeof report->problem) != NULL;
}

static ring_status pmi_links_receive(ring_messages *messages, ring_pmi_report *report, int peer) {
  ring_message_info info;
  ring_status status =
      ring_messages_recv(messages, report, sizeof *report, RING_UINT8, peer, RING_PMI_LINKS, &info);
  if (status != RING_OK || pmi_links_is_report(messages, report, info.count)) return status;
  ring_error *error = ring_messages_reason();
  status = ring_pmi_failure_invalid_message(error, messages, peer);
  ring_messages_fail(messages, error);
  return status;
}

/* Rank 0 receives the reports of all ranks, and sends the first code and the first problem to all. */
static ring_status pmi_links_gather(ring_messages *messages, ring_pmi_report *report) {
  ring_status status = RING_OK;
  ring_pmi_report theirs, first = {.code = report->code, .rank = report->rank};
  ring_pmi_failure_keep(first.problem, messages, 0, report->problem);
  for (int rank = 1; rank < messages->size && status == RING_OK; rank++) {
    theirs = (ring_pmi_report){0};
    status = pmi_links_receive(messages, &theirs, rank);
    ring_pmi_failure_keep(first.problem, messages, rank, theirs.problem);
    if (theirs.code == 0 || first.code != 0) continue;
    first.code = theirs.code;
    first.rank = rank;
  }
  for (int rank = 1; rank < messages->size && status == RING_OK; rank++)
    status = pmi_links_send(messages, &first, rank);
  *report = first;
  return status;
}

ring_status ring_pmi_open_links(ring_messages *messages, ring_pmi_report *report) {
  if (messages->rank == 0) return pmi_links_gather(messages, report);
  ring_status status = pmi_links_send(messages, report, 0);
  return status == RING_OK ? pmi_links_receive(messages, report, 0) : status;
}
