/* SPDX-License-Identifier: Apache-2.0
 *
 * When the hub judges a program that has ended in silence: PMIx may report the program's PMIx_Init after its end. The
 * clock of rank 0 stands still, and goes on when the test lets it.
 */
#include "pmi/pmi_hub.h"

#include <unistd.h>

#include "base/platform.h"
#include "check.h"
#include "pmi/pmi_failure.h"
#include "ranks.h"

#define HUB_PATIENCE_NS UINT64_C(700000000)

typedef struct judgement {
  bool reports; /* the report comes, as late as it may */
  int turn;     /* of rank 1: 1: its program ends; 2: PMIx reports its program; 3: it leaves */
} judgement;

static uint64_t standing; /* 0: the clock goes on */

uint64_t __real_ring_platform_now(void);
uint64_t __wrap_ring_platform_now(void);
uint64_t __wrap_ring_platform_now(void) {
  return standing != 0 ? standing : __real_ring_platform_now();
}

static void send_to_hub(ring_messages *messages, const char *bytes, size_t length) {
  CHECK_INT(ring_messages_send(messages, bytes, length, RING_UINT8, 0, RING_PMI_TO_HUB), RING_OK);
}

static void send_pmix(ring_messages *messages, char kind) {
  char bytes[1 + RING_PMIX_FIELDS + 1] = {kind}; /* a fence of all ranks has the name "" */
  ring_pmix_message_write((uint8_t *)bytes + 1, &(ring_pmix_message){0});
  send_to_hub(messages, bytes, sizeof bytes - (kind != RING_PMIX_FENCE));
}

/* Turns until the hub has handled a message. */
static ring_status take_one(ring_pmi_hub *hub, ring_error *error) {
  bool moved = false;
  ring_status status = RING_OK;
  while (!moved && status == RING_OK) {
    status = ring_pmi_hub_turn(hub, &moved, error);
    usleep(100);
  }
  return status;
}

/* The program of rank 0 waits in a fence, and that of rank 1 has ended. */
static void judge(ring_messages *messages, judgement *of) {
  static const int nodes[] = {0, 1};
  ring_pmi_hub hub;
  ring_error error = {.status = RING_OK};
  bool moved = false;
  standing = __real_ring_platform_now();
  CHECK_INT(ring_pmi_hub_begin(&hub, messages, nodes, 2, &error), RING_OK);
  send_pmix(messages, RING_PMIX_FENCE);
  CHECK_INT(take_one(&hub, &error), RING_OK);
  __sync_fetch_and_add(&of->turn, 1);
  CHECK_INT(take_one(&hub, &error), RING_OK);
  standing += HUB_PATIENCE_NS - 1;
  CHECK_INT(ring_pmi_hub_turn(&hub, &moved, &error), RING_OK);
  __sync_fetch_and_add(&of->turn, of->reports ? 1 : 2);
  standing += of->reports ? 0 : 1;
  CHECK_INT(take_one(&hub, &error), of->reports ? RING_ABORTED : RING_MISMATCH);
  CHECK_INT(error.rank, 1);
  CHECK_CONTAINS(error.message,
                 of->reports ? RING_PMI_FAILURE_LEFT : "the program of rank 0 waits for it");
  __sync_fetch_and_add(&of->turn, 1);
  ring_pmi_hub_end(&hub);
  standing = 0;
}

static void end_in_silence(ring_comm *comm, void *shared) {
  judgement *of = shared;
  ring_messages *messages;
  CHECK_INT(ring_messages_open(comm, &messages), RING_OK);
  if (ring_comm_rank(comm) == 0) {
    judge(messages, of);
  } else {
    const char silent[] = {RING_PMI_CONTROL_END, 's'};
    await_count(&of->turn, 1);
    send_to_hub(messages, silent, sizeof silent);
    await_count(&of->turn, 2);
    if (of->reports) send_pmix(messages, RING_PMIX_ACTIVE);
    await_count(&of->turn, 3);
  }
  CHECK_INT(ring_messages_close(messages), RING_OK);
  ring_messages_free(messages);
}

static void test_a_silent_program_is_judged_after_a_late_report(void) {
  RUN_COMMS(2, end_in_silence, (judgement){.reports = true});
}

static void test_a_silent_program_without_a_report_is_judged_in_time(void) {
  RUN_COMMS(2, end_in_silence, (judgement){0});
}

int main(void) {
  RUN(test_a_silent_program_is_judged_after_a_late_report);
  RUN(test_a_silent_program_without_a_report_is_judged_in_time);
  return 0;
}
