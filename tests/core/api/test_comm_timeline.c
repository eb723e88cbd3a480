/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of a communicator: what it holds of calls, of waits and of frames, also of requests, and that
 * it holds nothing before it is switched on and after it is switched off.
 */
#include <stdlib.h>

#include "check.h"
#include "ranks.h"

enum { COUNT = 100000, EVENTS = 4096, KINDS = RING_EVENT_CYCLE + 1 };

typedef struct seen {
  int begun[KINDS], ended[KINDS]; /* events by kind */
  int peers;                      /* frames with the other rank */
} seen;

/* Reads all new events, which are in order. */
static seen read_events(const ring_comm *comm, uint64_t *next, uint32_t sequence) {
  static ring_event events[EVENTS];
  seen found = {0};
  uint64_t last = 0;
  size_t count = ring_comm_timeline_read(comm, next, events, EVENTS);
  for (size_t i = 0; i < count; i++) {
    const ring_event *event = &events[i];
    CHECK(event->time >= last);
    CHECK_INT(event->sequence, sequence);
    CHECK(strcmp(ring_event_collective(event), "allreduce") == 0);
    if (event->kind == RING_EVENT_CALL) CHECK_INT(event->bytes, COUNT * sizeof(float));
    found.peers += event->kind == RING_EVENT_FRAME && event->peer == 1 - ring_comm_rank(comm);
    int *kinds = event->begins ? found.begun : found.ended;
    kinds[event->kind]++;
    last = event->time;
  }
  return found;
}

static void check_call(const seen *found) {
  const char *shared = getenv("SPARKRING_SHARED_MEMORY");
  bool links = shared != NULL && strcmp(shared, "0") == 0;
  CHECK_INT(found->begun[RING_EVENT_CALL], 1);
  for (int kind = RING_EVENT_CALL; kind < KINDS; kind++)
    CHECK_INT(found->begun[kind], found->ended[kind]);
  CHECK((found->begun[RING_EVENT_FRAME] > 0) == links);
  CHECK_INT(found->peers, 2 * found->begun[RING_EVENT_FRAME]); /* begins and ends */
}

static void record(int rank, int size, void *shared) {
  (void)shared;
  static float x[COUNT];
  ring_options options = rank_options(rank, size);
  ring_request *request;
  ring_event event;
  uint64_t next = 0;
  ring_comm *comm = open_with(&options);
  CHECK_INT(ring_allreduce(comm, x, x, COUNT, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_comm_timeline_read(comm, &next, &event, 1), 0);

  CHECK_INT(ring_comm_timeline(comm, EVENTS), RING_OK);
  CHECK_INT(ring_allreduce(comm, x, x, COUNT, RING_FLOAT32, RING_SUM), RING_OK);
  seen found = read_events(comm, &next, 2);
  check_call(&found);

  CHECK_INT(ring_allreduce_start(comm, x, x, COUNT, RING_FLOAT32, RING_SUM, &request), RING_OK);
  CHECK_INT(ring_request_wait(request), RING_OK);
  ring_request_free(request);
  found = read_events(comm, &next, 3);
  check_call(&found);
  CHECK_INT(found.begun[RING_EVENT_QUEUE], 1);

  CHECK_INT(ring_comm_timeline(comm, 0), RING_OK);
  CHECK_INT(ring_allreduce(comm, x, x, COUNT, RING_FLOAT32, RING_SUM), RING_OK);
  CHECK_INT(ring_comm_timeline_read(comm, &next, &event, 1), 0);
  CHECK_INT(ring_comm_timeline(comm, EVENTS), RING_OK); /* freed with the communicator */
  close_rank(comm);
}

static void test_calls_waits_and_frames(void) {
  run_ranks(2, record, NULL);
}

int main(void) {
  RUN(test_calls_waits_and_frames);
  return 0;
}
