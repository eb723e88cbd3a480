/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests: started collectives. Each communicator has one queue, which runs its requests one at a
 * time, in the order of their starts.
 *
 * Invariants. The mutex of `progress` guards the queue, except the field `done` of a request, which is set
 * last. At most one thread moves the queue: it runs a request, without the mutex. No other thread then touches
 * the backend or the peers: a blocking call waits until nothing is outstanding. The progress thread, the helper,
 * runs requests. A start does not wake the helper, which looks at the queue after a pause: a thread that waits
 * soon after its start runs the request itself, at the cost of a blocking call. The pause grows while others take
 * all requests, and is shortest after the helper has run one. The helper starts with a request and ends when the
 * queue has been empty for a while.
 *
 * A helper takes its time from the ranks' own threads where a host has no processor for helpers. A start
 * of a large request there waits a short time for the other ranks to start it, and then runs it. The wait
 * has a bound, so a rank that starts later, or waits for this rank meanwhile, cannot block it.
 *
 * Once `stop` is set no request begins, and the running one ends soon; the thread that set it breaks the
 * communicator.
 *
 * Wake-ups, beside those of progress/README.md. tests/core/api/test_request_wakeups.c runs all orders.
 *
 *   waits              on       until                               woken by
 *   ring_queue_wait    changed  the request is done, or nothing     the end of a run if the request is awaited, the
 *                               runs and the thread runs the next   queue is empty or stops; a thread that ran its
 *                                                                   own request and leaves others; queue_break
 *   queue_abort        changed  nothing runs                        the end of a run once `stop` is set; the end of a
 *                                                                   wait for starts
 *   a second abort     changed  the queue is empty                  queue_break
 *   ring_queue_detach  changed  the queue is empty                  the end of the last run; queue_break
 *
 * The communicator and every request that was not freed hold a reference to the queue, so requests
 * outlive the communicator. Freed requests are reused by later starts.
 */
#ifndef RING_REQUEST_QUEUE_H
#define RING_REQUEST_QUEUE_H

#include "api/fusion.h"
#include "progress/progress.h"

typedef struct ring_queue {
  ring_progress progress;
  ring_comm *comm; /* NULL when it was freed */
  ring_request *first, *last;
  ring_request *spare;
  size_t references;      /* one of the communicator, one of each request that was not freed */
  unsigned misses, skips; /* waits for starts: missed in a row, about; to leave out from now on */
  atomic_bool stop;
  bool ending;        /* by a thread that is about to break the communicator */
  bool deferred;      /* the abort is finished when the running thread returns from its hook */
  ring_error cause;   /* why it was stopped */
  ring_error failure; /* of all requests that fail */
  int bell[2];        /* a pipe that wakes the engine of the running thread */
  ring_alarm alarm;   /* the communicator's */
  ring_alarm keeper;  /* of requests that the helper runs; keeps the text in `text` */
  atomic_bool kept;
  char text[sizeof(((ring_error *)0)->message)];
  ring_interrupt_fn interrupt;
  void *interrupt_arg;
} ring_queue;

struct ring_request {
  ring_queue *queue;
  ring_request *next; /* in the queue, or of the spare ones */
  collective_args args;
  ring_store store;
  ring_status status;
  bool awaited; /* a thread waits until it is done */
  atomic_bool done;
};

static inline bool queue_is_mine(const ring_queue *queue) {
  return ring_progress_is_mine(&queue->progress);
}

static inline bool queue_is_empty(const ring_queue *queue) {
  return queue->first == NULL && !queue->progress.moving && !queue->ending;
}

static inline void queue_lock(ring_queue *queue) {
  pthread_mutex_lock(&queue->progress.mutex);
}

static inline void queue_unlock(ring_queue *queue) {
  pthread_mutex_unlock(&queue->progress.mutex);
}

/* Whether this thread is in a hook of the request that it runs, so that it cannot wait for the
 * end of the request. Called with the mutex. */
static inline bool queue_is_in_hook(const ring_queue *queue) {
  return ring_progress_moves_here(&queue->progress);
}

static inline bool request_is_done(const ring_request *request) {
  return atomic_load_explicit(&request->done, memory_order_acquire);
}

/* Enters the communicator when all outstanding requests are done. RING_BUSY also in a hook of a request
 * that this thread runs itself. */
ring_status ring_comm_enter(ring_comm *comm);

/* Makes the queue of a communicator. RING_NO_MEMORY or RING_SYSTEM sets the error of the communicator. */
ring_status ring_queue_create(ring_comm *comm);

/* Frees a queue without references, and its spare requests. */
void ring_queue_free(ring_queue *queue);

/* Has a request run that has just been queued: by the helper, or by this thread where the host has no
 * processor for the helper and all ranks start the request at about the same time, and where no thread can
 * be started. Called with the mutex, which is released meanwhile. */
void ring_queue_dispatch(ring_queue *queue, ring_request *request);

/* Waits until a request is done; with NULL, until all are. Runs requests that the helper has not taken,
 * and calls the hooks of the user. Called with the mutex, which is released meanwhile. The communicator
 * exists as long as a request is outstanding. */
void ring_queue_wait(ring_queue *queue, ring_request *request);

/* Passes the kept text to the log hook, on the calling thread. Called with the mutex, which is released
 * meanwhile. */
void ring_queue_deliver_log(ring_queue *queue);

/* Whether this thread is in a hook of a request that it runs. */
bool ring_queue_runs_here(ring_comm *comm);

/* Completes everything outstanding with `error`, then breaks the communicator. False where both are
 * deferred until this thread leaves the hook of a request that it runs itself. */
bool ring_queue_abort(ring_comm *comm, const ring_error *error);

/* Ends the queue's use of a communicator that is no longer open. */
void ring_queue_detach(ring_comm *comm);

#endif
