/* SPDX-License-Identifier: Apache-2.0 */
#include "api/comm_state.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/platform.h"
#include "transport/socket.h"

/* ---- Entering and leaving ----------------------------------------------------------------- */

#define COMM_END_MS                                                                                \
  10000 /* of a stopped call: far more than the time between two looks at the clock */
#define COMM_END_NS 100000

static _Thread_local char comm_thread_mark; /* its address stands for the thread */

bool ring_comm_try(ring_comm *comm) {
  if (atomic_flag_test_and_set_explicit(&comm->busy, memory_order_acquire)) return false;
  atomic_store_explicit(&comm->holder, &comm_thread_mark, memory_order_relaxed);
  return true;
}

void ring_comm_settle(ring_comm *comm, ring_world *world) {
  comm->world = world;
  comm->stop.above = &world->shrunk;
}

bool ring_comm_is_mine(const ring_comm *comm) {
  return atomic_load_explicit(&comm->holder, memory_order_relaxed) == &comm_thread_mark;
}

bool ring_comm_is_orphan(const ring_comm *comm, const char *what, ring_error *error) {
  int rank = comm->peers.rank;
  if (comm->world == NULL || !ring_stop_is_set(comm->world->shrunk.above)) return false;
  ring_error_set(
      error, RING_ABORTED, rank, 0,
      "rank %d (%s) has shrunk the communicator that %s was made of: make another of the "
      "communicator that shrink() has returned",
      rank, ring_peers_name(&comm->peers, rank), what);
  return true;
}

/* Ends a communicator when one that it was made of was shrunk. */
static void comm_follow(ring_comm *comm) {
  ring_error error;
  if (comm->state != RING_COMM_OPEN || !ring_comm_is_orphan(comm, "this communicator", &error))
    return;
  ring_comm_stop(comm, &error);
  if (ring_comm_try(comm)) ring_comm_leave(comm);
}

ring_status ring_comm_acquire(ring_comm *comm) {
  if (comm == NULL) return RING_INVALID;
  if (comm->process != ring_platform_process())
    return ring_error_set(&comm->error, RING_INVALID, -1, 0,
                          "this communicator belongs to the process that forked this one: open "
                          "one of its own here");
  comm_follow(comm);
  const ring_error *cause = atomic_load_explicit(&comm->stop_cause, memory_order_acquire);
  if (cause != NULL && comm->state != RING_COMM_CLOSED) return cause->status;
  return ring_comm_try(comm) ? RING_OK : RING_BUSY;
}

void ring_comm_stop(ring_comm *comm, const ring_error *cause) {
  const ring_error *none = NULL;
  if (atomic_flag_test_and_set(&comm->aborted)) return;
  comm->abort_cause = *cause;
  atomic_compare_exchange_strong(&comm->stop_cause, &none, &comm->abort_cause);
  atomic_store(&comm->stop.set, true);
}

bool ring_comm_acquire_stopped(ring_comm *comm) {
  uint64_t end = ring_platform_now() + COMM_END_MS * UINT64_C(1000000);
  while (!ring_comm_try(comm)) {
    if (ring_platform_now() >= end) return false;
    nanosleep(&(struct timespec){.tv_nsec = COMM_END_NS}, NULL);
  }
  return true;
}

bool ring_comm_acquire_idle(ring_comm *comm) {
  uint64_t end = ring_platform_now() + COMM_END_MS * UINT64_C(1000000);
  if (!ring_comm_acquire_stopped(comm)) return false;
  while (atomic_load_explicit(&comm->outstanding, memory_order_acquire) > 0) {
    if (ring_platform_now() >= end) {
      ring_comm_leave(comm);
      return false;
    }
    nanosleep(&(struct timespec){.tv_nsec = COMM_END_NS}, NULL);
  }
  return true;
}

ring_status ring_comm_check_open(ring_comm *comm) {
  if (comm->state == RING_COMM_OPEN) return RING_OK;
  ring_status status = comm->failure.status;
  if (comm->state == RING_COMM_CLOSED)
    status = ring_error_set(&comm->error, RING_INVALID, -1, 0, "the communicator is closed");
  else
    comm->error = comm->failure;
  ring_comm_leave(comm);
  return status;
}

ring_status ring_comm_enter_beside(ring_comm *comm) {
  ring_status status = ring_comm_acquire(comm);
  return status == RING_OK ? ring_comm_check_open(comm) : status;
}

static void comm_release(ring_comm *comm) {
  atomic_store_explicit(&comm->holder, NULL, memory_order_relaxed);
  atomic_flag_clear_explicit(&comm->busy, memory_order_release);
}

/* A call that an abort has stopped too late, or in its last hook, succeeds; the communicator breaks after it. */
void ring_comm_leave(ring_comm *comm) {
  bool stopped = atomic_load(&comm->stop.set) && comm->state == RING_COMM_OPEN;
  if (stopped && atomic_load(&comm->outstanding) == 0) ring_comm_break(comm, &comm->abort_cause);
  comm->described = 0;
  comm->scaled = false;
  comm->place.run = NULL;
  comm_release(comm);
}

/* ---- Describing the next call ------------------------------------------------------------- */

/* Bytes of a text that fit, without a part of a character of UTF-8 at their end. */
static size_t comm_fitting(const char *text, size_t capacity) {
  size_t length = strnlen(text, capacity);
  while (length == capacity || (length > 0 && ((uint8_t)text[length] & 0xc0) == 0x80)) length--;
  return length;
}

void ring_comm_describe(ring_comm *comm, uint64_t digest, const char *text) {
  if (ring_comm_enter_beside(comm) != RING_OK) return; /* the call itself will return the error */
  size_t length = comm_fitting(text, sizeof comm->description);
  memset(comm->description, 0, sizeof comm->description);
  memcpy(comm->description, text, length);
  comm->described = digest;
  comm_release(comm);
}

void ring_comm_scale(ring_comm *comm, double prescale, double postscale) {
  if (ring_comm_enter_beside(comm) != RING_OK) return; /* the call itself will return the error */
  comm->prescale = prescale;
  comm->postscale = postscale;
  comm->scaled = prescale != 1 || postscale != 1;
  comm_release(comm);
}

void ring_comm_place(ring_comm *comm, const ring_place *place) {
  if (ring_comm_enter_beside(comm) != RING_OK) return; /* the call itself will return the error */
  comm->place = *place;
  comm_release(comm);
}

/* ---- Breaking ----------------------------------------------------------------------------- */

void ring_comm_break(ring_comm *comm, const ring_error *error) {
  const ring_error *cause = atomic_load(&comm->stop_cause);
  bool orphan = cause == NULL && ring_comm_is_orphan(comm, "this communicator", &comm->failure);
  if (!orphan) comm->failure = cause != NULL ? *cause : *error;
  comm->state = RING_COMM_BROKEN;
  int rank = comm->failure.rank;
  if (rank >= 0 && rank < comm->peers.size)
    ring_world_note(comm->world, &comm->failure, comm->peers.peer[rank].world_rank);
  comm->backend->table->fail(comm->backend, &comm->failure);
  if (comm->lasting) {
    comm->listener = ring_acceptor_release(&comm->peers.acceptor);
    return;
  }
  ring_acceptor_close(&comm->peers.acceptor);
  ring_keys_wipe(&comm->peers.keys); /* no link opens any more */
}

void ring_comm_resign(ring_comm *comm) {
  comm->lasting = false;
  if (comm->state == RING_COMM_OPEN) return;
  ring_socket_close(&comm->listener);
  ring_keys_wipe(&comm->peers.keys);
  ring_roster_free(comm->roster);
  comm->roster = NULL;
}

void ring_store_free(ring_store *store) {
  free(store->offsets);
  free(store->items);
  *store = (ring_store){0};
}
