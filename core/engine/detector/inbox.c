/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/detector/inbox.h"

#include <errno.h>

#include "engine/detector/mismatch.h"
#include "engine/detector/run_error.h"

/* Reads on in a wait report. Sets *got to 1 when the report is complete (peers/wait_report.h). */
static ring_status inbox_read(ring_run *run, int rank, int *got) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  *got = ring_wait_report_read(peer, run->engine->peers->size);
  if (*got == 1) return ring_mismatch_received(run, rank);
  return *got == -EBADMSG ? ring_run_error_damage(run, rank) : RING_OK;
}

ring_status ring_inbox_receive(ring_run *run, int rank) {
  ring_peer *peer = &run->engine->peers->peer[rank];
  uint8_t header[RING_HEADER_BYTES];
  ring_frame frame;
  ring_status status = RING_OK;
  for (int got = 1; got == 1 && status == RING_OK;) {
    struct iovec piece = {header, sizeof header};
    if (peer->outbox->have == 0) {
      if (peer->link->ops->peek(peer->link, header, sizeof header) < (ssize_t)sizeof header) break;
      if (!ring_frame_unpack(header, &frame) || frame.kind < RING_FRAME_WAIT_REPORT) break;
      if (peer->link->ops->receive(peer->link, &piece, 1) < (ssize_t)sizeof header) break;
      ring_wait_report_begin(peer, header);
    }
    status = inbox_read(run, rank, &got);
  }
  return status;
}

ring_status ring_inbox_receive_all(ring_run *run) {
  const ring_peers *peers = run->engine->peers;
  ring_status status = RING_OK;
  for (int i = 0; i < peers->linked_count && status == RING_OK; i++) {
    int rank = peers->linked[i];
    if (!peers->peer[rank].ended && !run_reads_from(run, rank))
      status = ring_inbox_receive(run, rank);
  }
  return status;
}

ring_status ring_inbox_begin(ring_run *run, int rank, const uint8_t *header) {
  int got;
  ring_wait_report_begin(&run->engine->peers->peer[rank], header);
  return inbox_read(run, rank, &got);
}
