/* SPDX-License-Identifier: Apache-2.0 */
#include "api/request.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- Starting ----------------------------------------------------------------------------- */

/* Leaves after a start that failed. A lack of memory or of descriptors breaks the communicator as
 * in any call, so that other ranks do not wait for this rank. */
static ring_status request_fail(ring_comm *comm, ring_status status) {
  ring_error error = comm->error;
  bool lacks = (status == RING_NO_MEMORY || status == RING_SYSTEM) && comm->place.run == NULL;
  if (lacks && comm->state == RING_COMM_OPEN) ring_queue_abort(comm, &error);
  ring_comm_leave(comm);
  return status;
}

static ring_request *queue_take_spare(ring_queue *queue) {
  queue_lock(queue);
  ring_request *request = queue->spare;
  if (request != NULL) queue->spare = request->next;
  queue_unlock(queue);
  return request;
}

ring_status ring_request_begin(ring_comm *comm, ring_request **out, collective_args **args) {
  if (out != NULL) *out = NULL;
  ring_status status = ring_comm_enter_beside(comm);
  if (status != RING_OK) return status;
  ring_request *request = NULL;
  if (out == NULL) {
    status = ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                            "request is NULL: pass where to put it");
  } else if (comm->queue == NULL) {
    status = ring_queue_create(comm);
  }
  if (status == RING_OK) {
    request = queue_take_spare(comm->queue);
    if (request == NULL) request = calloc(1, sizeof *request);
    if (request == NULL)
      status =
          ring_error_set(&comm->error, RING_NO_MEMORY, comm->peers.rank, 0,
                         "rank %d is out of memory: it cannot make a request", comm->peers.rank);
  }
  if (request == NULL) return request_fail(comm, status);
  request->queue = comm->queue;
  request->next = NULL;
  request->status = RING_OK;
  request->awaited = false;
  atomic_store_explicit(&request->done, false, memory_order_relaxed);
  request->args.store = &request->store;
  *out = request; /* NOLINT(clang-analyzer-core.NullDereference): out is not NULL with a request */
  *args = &request->args;
  return RING_OK;
}

/* Called with the mutex. The call gets its number last, when nothing can fail any more. */
static ring_status queue_add(ring_queue *queue, ring_request *request) {
  ring_comm *comm = queue->comm;
  if (comm->state != RING_COMM_OPEN) { /* since ring_request_begin */
    comm->error = comm->failure;
    return comm->failure.status;
  }
  ring_status status = ring_collective_admit(comm, &request->args);
  if (status != RING_OK) return status;
  if (queue->first == NULL)
    queue->first = request;
  else
    queue->last->next = request;
  queue->last = request;
  ring_collective_record(comm, &request->args, RING_EVENT_QUEUE, true);
  queue->references++;
  atomic_fetch_add_explicit(&comm->outstanding, 1, memory_order_relaxed);
  return RING_OK;
}

/* A call on memory of a GPU needs no thread: the request is complete when the work is on the stream. */
static ring_status request_place(ring_comm *comm, ring_request *request) {
  ring_status status = ring_collective_admit(comm, &request->args);
  if (status == RING_OK) status = ring_fusion_run_here(comm, &request->args);
  atomic_store_explicit(&request->done, status == RING_OK, memory_order_release);
  return status;
}

ring_status ring_request_launch(ring_comm *comm, ring_status status, ring_request **out) {
  ring_queue *queue = comm->queue;
  ring_request *request = *out;
  bool placed = comm->place.run != NULL;
  if (status == RING_OK && placed) status = request_place(comm, request);
  queue_lock(queue);
  if (status == RING_OK && placed) {
    queue->references++;
    queue_unlock(queue);
    ring_comm_leave(comm);
    return RING_OK;
  }
  if (status == RING_OK) status = queue_add(queue, request);
  if (status == RING_OK) {
    ring_comm_leave(comm); /* the request may run here, as one that a thread waits for */
    ring_queue_dispatch(queue, request);
    queue_unlock(queue);
    return RING_OK;
  }
  request->next = queue->spare;
  queue->spare = request;
  *out = NULL;
  queue_unlock(queue);
  return request_fail(comm, status);
}

/* ---- Requests ----------------------------------------------------------------------------- */

/* Passes a kept text to the log hook, also for a request that is done. */
static void request_deliver_log(const ring_request *request) {
  ring_queue *queue = request->queue;
  if (!atomic_load_explicit(&queue->kept, memory_order_relaxed) || !queue_is_mine(queue)) return;
  queue_lock(queue);
  ring_queue_deliver_log(queue);
  queue_unlock(queue);
}

ring_status ring_request_test(ring_request *request, int *done) {
  if (done != NULL) *done = 0;
  if (request == NULL || done == NULL) return RING_INVALID;
  request_deliver_log(request);
  if (!request_is_done(request)) return queue_is_mine(request->queue) ? RING_OK : RING_INVALID;
  *done = 1;
  return request->status;
}

ring_status ring_request_wait(ring_request *request) {
  if (request == NULL) return RING_INVALID;
  ring_queue *queue = request->queue;
  request_deliver_log(request);
  if (!request_is_done(request)) {
    if (!queue_is_mine(queue)) return RING_INVALID;
    queue_lock(queue);
    bool in_hook = queue_is_in_hook(queue);
    if (!in_hook) ring_queue_wait(queue, request);
    queue_unlock(queue);
    if (in_hook) return RING_BUSY;
  }
  return request->status;
}

const ring_error *ring_request_error(const ring_request *request) {
  static const ring_error none = {.rank = -1};
  bool failed = request_is_done(request) && request->status != RING_OK;
  return failed ? &request->queue->failure : &none;
}

void ring_request_free(ring_request *request) {
  if (request == NULL) return;
  ring_queue *queue = request->queue;
  bool mine = queue_is_mine(queue);
  if (mine) {
    queue_lock(queue);
    ring_queue_wait(queue, request);
  }
  request->next = queue->spare;
  queue->spare = request;
  bool last = --queue->references == 0;
  if (mine) queue_unlock(queue);
  if (last) ring_queue_free(queue);
}
