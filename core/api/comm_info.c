/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries: identity and counters of a communicator, and memory that its host shares. They are not
 * part of the order of calls, and may run while a request runs.
 */
#include "api/comm_state.h"
#include "base/counter.h"
#include "base/platform.h"

const ring_error *ring_comm_error(const ring_comm *comm) {
  const ring_error *cause = atomic_load_explicit(&comm->stop_cause, memory_order_acquire);
  bool stopped = cause != NULL && comm->process == ring_platform_process();
  return stopped ? cause : &comm->error;
}

int ring_comm_rank(const ring_comm *comm) {
  return comm->peers.rank;
}

int ring_comm_size(const ring_comm *comm) {
  return comm->peers.size;
}

int ring_comm_local_rank(const ring_comm *comm) {
  return comm->local_rank;
}

int ring_comm_local_size(const ring_comm *comm) {
  return comm->local_size;
}

const char *ring_comm_host(const ring_comm *comm, int rank) {
  return rank < 0 || rank >= comm->peers.size ? NULL : ring_peers_host(&comm->peers, rank);
}

const char *ring_comm_name(const ring_comm *comm, int rank) {
  return ring_peers_name(&comm->peers, rank);
}

uint64_t ring_comm_epoch(const ring_comm *comm) {
  return comm->peers.epoch;
}

int ring_comm_authenticated(const ring_comm *comm) {
  return comm->peers.authenticated;
}

int ring_comm_encrypted(const ring_comm *comm) {
  return comm->peers.encrypted;
}

int ring_comm_usable(const ring_comm *comm) {
  return comm->state == RING_COMM_OPEN && comm->process == ring_platform_process() &&
         !atomic_load(&comm->stop.set) && !atomic_load(&comm->ending);
}

int ring_comm_holds_buffers(const ring_comm *comm) {
  return comm->state == RING_COMM_BROKEN && comm->backend != &comm->native.base;
}

static void comm_add_counters(ring_counters *sum, const ring_counters *more) {
  sum->bytes_sent += ring_counter_read(&more->bytes_sent);
  sum->bytes_received += ring_counter_read(&more->bytes_received);
  sum->messages_sent += ring_counter_read(&more->messages_sent);
  sum->messages_received += ring_counter_read(&more->messages_received);
}

ring_status ring_comm_counters(const ring_comm *comm, int peer, ring_counters *counters) {
  *counters = (ring_counters){0};
  if (peer < -1 || peer >= comm->peers.size) return RING_INVALID;
  if (peer >= 0) {
    comm_add_counters(counters, &comm->peers.peer[peer].counters);
    return RING_OK;
  }
  for (int rank = 0; rank < comm->peers.size; rank++)
    comm_add_counters(counters, &comm->peers.peer[rank].counters);
  counters->calls = ring_counter_read(&comm->calls);
  counters->bytes_shared = ring_counter_read(&comm->shm.bytes_shared);
  counters->wait_ns =
      ring_counter_read(&comm->native.engine.wait_ns) + ring_counter_read(&comm->shm.wait_ns);
  return RING_OK;
}

ring_status ring_alloc(ring_comm *comm, size_t bytes, void **memory) {
  if (memory == NULL) return RING_INVALID;
  *memory = NULL;
  if (comm == NULL) return RING_INVALID;
  *memory = ring_arena_alloc(comm->shm.arena, bytes);
  return *memory == NULL ? RING_NO_MEMORY : RING_OK;
}

const char *ring_comm_link(const ring_comm *comm, int peer) {
  if (peer == comm->peers.rank) return "self";
  if (peer < 0 || peer >= comm->peers.size) return "";
  const char *name = atomic_load_explicit(&comm->peers.peer[peer].link_name, memory_order_relaxed);
  return name == NULL ? "" : name;
}
