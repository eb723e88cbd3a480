/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank that forges messages to devices: it makes the calls of an open by hand, and sends a report whose texts have no
 * end. The open of the other ranks fails and names it.
 */
#include "api/split.h"
#include "check.h"
#include "ranks.h"

enum { SIZE = 3, FORGER = 1, REPORT_BYTES = 8 + 3 * 256 };

/* The calls of ring_device_open before the reports. */
static ring_messages *forge_open(ring_comm *comm, ring_comm **child) {
  const uint8_t hello = 0;
  uint8_t theirs;
  const int32_t nobody = -1;
  int32_t most;
  ring_messages *messages;
  CHECK_INT(ring_comm_split_native(comm, child), RING_OK);
  CHECK_INT(ring_allreduce(*child, &nobody, &most, 1, RING_INT32, RING_MAX), RING_OK);
  CHECK_INT(ring_messages_open(*child, &messages), RING_OK);
  CHECK_INT(ring_messages_sendrecv(messages, &hello, 1, RING_UINT8, 0, 0, &theirs, 1, RING_UINT8, 0,
                                   0, NULL),
            RING_OK);
  return messages;
}

static void try_report(ring_comm *comm, void *shared) {
  static uint8_t report[REPORT_BYTES], all[SIZE * REPORT_BYTES];
  (void)shared;
  if (ring_comm_rank(comm) != FORGER) {
    ring_device *device;
    ranks_expect(comm, ring_device_open(comm, NULL, &device), RING_MISMATCH, FORGER,
                 "rank 1 (127.0.0.1) sent a device's report with a text that has no end");
    CHECK(device == NULL);
    return;
  }
  ring_comm *child;
  ring_messages *messages = forge_open(comm, &child);
  memset(report, 'A', sizeof report);
  ring_allgather(child, report, all, sizeof report, RING_UINT8);
  CHECK(ring_barrier(child) != RING_OK);
  ring_messages_free(messages);
  ring_comm_free(child);
}

static void test_reports(void) {
  run_comms(SIZE, try_report, NULL);
}

int main(void) {
  RUN(test_reports);
  return 0;
}
