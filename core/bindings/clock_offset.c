/* SPDX-License-Identifier: Apache-2.0 */
#include "bindings/clock_offset.h"

#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "base/platform.h"

#define CLOCK_OFFSET_ROUNDS 32
#define CLOCK_OFFSET_MOST                                                                          \
  (INT64_MAX / 4) /* no clock reads more nanoseconds; differences of readings do not overflow */

static bool clock_offset_is_reading(int64_t reading) {
  return reading >= 0 && reading <= CLOCK_OFFSET_MOST;
}

static bool clock_offset_is_good(const ring_clock_offset *offset) {
  return offset->nanoseconds >= -CLOCK_OFFSET_MOST && offset->nanoseconds <= CLOCK_OFFSET_MOST &&
         offset->error >= 0 && clock_offset_is_reading(offset->origin);
}

/* The lowest rank of the host of a rank. */
static int clock_offset_leader(const ring_comm *comm, int rank) {
  int leader = 0;
  while (strcmp(ring_comm_host(comm, leader), ring_comm_host(comm, rank)) != 0) leader++;
  return leader;
}

/* Rank 0: answers each message of a leader with a reading of the clock. */
static ring_status clock_offset_serve(ring_comm *comm, int leader) {
  ring_status status = RING_OK;
  for (int round = 0; status == RING_OK && round < CLOCK_OFFSET_ROUNDS; round++) {
    int64_t reading;
    status = ring_recv(comm, &reading, 1, RING_INT64, leader);
    if (status != RING_OK) break;
    reading = (int64_t)ring_platform_now();
    status = ring_send(comm, &reading, 1, RING_INT64, leader);
  }
  return status;
}

static ring_status clock_offset_ask(ring_comm *comm, ring_clock_offset *offset) {
  offset->error = INT64_MAX;
  for (int round = 0; round < CLOCK_OFFSET_ROUNDS; round++) {
    int64_t before = (int64_t)ring_platform_now(), reading = before;
    ring_status status = ring_send(comm, &reading, 1, RING_INT64, 0);
    if (status == RING_OK) status = ring_recv(comm, &reading, 1, RING_INT64, 0);
    if (status == RING_OK && !clock_offset_is_reading(reading))
      status = ring_comm_accuse(comm, 0, "an impossible reading of its clock");
    if (status != RING_OK) return status;
    int64_t half = ((int64_t)ring_platform_now() - before) / 2;
    if (half >= offset->error) continue;
    offset->error = half;
    offset->nanoseconds = reading - (before + half);
  }
  return RING_OK;
}

static ring_status clock_offset_exchange(ring_comm *comm, ring_clock_offset *offset) {
  int rank = ring_comm_rank(comm), size = ring_comm_size(comm);
  ring_status status = RING_OK;
  for (int other = 1; rank == 0 && status == RING_OK && other < size; other++)
    if (clock_offset_leader(comm, other) == other) status = clock_offset_serve(comm, other);
  if (rank > 0 && clock_offset_leader(comm, rank) == rank) status = clock_offset_ask(comm, offset);
  return status;
}

/* Takes the offset of the host's leader, and the origin of rank 0. */
static ring_status clock_offset_share(ring_comm *comm, ring_clock_offset *offset,
                                      ring_clock_offset *all) {
  ring_status status =
      ring_allgather(comm, offset, all, sizeof *offset / sizeof(int64_t), RING_INT64);
  for (int rank = 0; status == RING_OK && rank < ring_comm_size(comm); rank++)
    if (!clock_offset_is_good(&all[rank]))
      status = ring_comm_accuse(comm, rank, "an impossible offset of its clock");
  if (status != RING_OK) return status;
  *offset = all[clock_offset_leader(comm, ring_comm_rank(comm))];
  offset->origin = all[0].origin;
  return RING_OK;
}

ring_status ring_clock_offset_measure(ring_comm *comm, ring_clock_offset *offset) {
  ring_clock_offset *all = malloc((size_t)ring_comm_size(comm) * sizeof *all);
  *offset = (ring_clock_offset){.origin = (int64_t)ring_platform_now()};
  if (all == NULL) return RING_NO_MEMORY;
  ring_status status = clock_offset_exchange(comm, offset);
  if (status == RING_OK) status = clock_offset_share(comm, offset, all);
  free(all);
  return status;
}
