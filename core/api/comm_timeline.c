/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline of a communicator (base/timeline.h): switched on and off by its user between two calls.
 */
#include <stdlib.h>

#include "api/request.h"
#include "base/error.h"

ring_status ring_comm_timeline(ring_comm *comm, size_t events) {
  ring_timeline *timeline = NULL;
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  if (events > 0) timeline = ring_timeline_new(events);
  if (events > 0 && timeline == NULL) {
    status = ring_error_no_memory(&comm->error, comm->peers.rank);
  } else {
    free(comm->timeline);
    comm->timeline = comm->native.engine.timeline = comm->shm.timeline = timeline;
  }
  ring_comm_leave(comm);
  return status;
}

size_t ring_comm_timeline_read(const ring_comm *comm, uint64_t *next, ring_event *events,
                               size_t most) {
  return comm->timeline == NULL ? 0 : ring_timeline_read(comm->timeline, next, events, most);
}

const char *ring_event_collective(const ring_event *event) {
  return ring_collective_name(event->collective);
}
