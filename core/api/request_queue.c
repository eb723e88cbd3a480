/* SPDX-License-Identifier: Apache-2.0 */
#include "api/request_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/platform.h"
#include "shm/sync.h"

/* Waits for the starts of the other ranks. The shortest call is one whose run costs about as much as two
 * wake-ups of a helper. */
#define QUEUE_START_BYTES (64 * 1024)
#define QUEUE_PATIENCE_NS UINT64_C(2000000)
#define QUEUE_MOST_SKIPS 63

/* ---- Life --------------------------------------------------------------------------------- */

/* The log hook of requests that the helper runs: keeps the text for a thread that waits. A newer
 * text replaces an older one. The hook of the user runs on threads of the user only. */
static void queue_keep_log(void *arg, const char *message) {
  ring_queue *queue = arg;
  queue_lock(queue);
  snprintf(queue->text, sizeof queue->text, "%s", message);
  atomic_store(&queue->kept, true);
  queue_unlock(queue);
}

void ring_queue_deliver_log(ring_queue *queue) {
  if (!atomic_exchange(&queue->kept, false)) return;
  char text[sizeof queue->text];
  memcpy(text, queue->text, sizeof text);
  queue_unlock(queue);
  queue->alarm.log(queue->alarm.log_arg, text);
  queue_lock(queue);
}

void ring_queue_free(ring_queue *queue) {
  while (queue->spare != NULL) {
    ring_request *request = queue->spare;
    queue->spare = request->next;
    ring_store_free(&request->store);
    free(request);
  }
  ring_progress_destroy(&queue->progress);
  free(queue);
}

void ring_queue_detach(ring_comm *comm) {
  ring_queue *queue = comm->queue;
  if (queue == NULL) return;
  bool mine = queue_is_mine(queue);
  if (mine) {
    queue_lock(queue);
    while (!queue_is_empty(queue)) ring_progress_sleep(&queue->progress, 0);
    ring_progress_stop(&queue->progress); /* no start follows, which could start it again */
  }
  close(queue->bell[0]);
  close(queue->bell[1]);
  comm->native.engine.bell = -1;
  comm->queue = NULL;
  queue->comm = NULL;
  bool last = --queue->references == 0;
  if (mine) queue_unlock(queue);
  if (last) ring_queue_free(queue);
}

/* ---- Running ------------------------------------------------------------------------------ */

static void queue_complete(ring_queue *queue, ring_request *request, ring_status status) {
  request->status = status;
  atomic_store_explicit(&request->done, true, memory_order_release);
  atomic_fetch_sub_explicit(&queue->comm->outstanding, 1, memory_order_release);
}

/* Completes everything queued with the failure of the communicator. */
static void queue_fail(ring_queue *queue) {
  if (queue->failure.status == RING_OK) queue->failure = queue->comm->failure;
  while (queue->first != NULL) {
    ring_request *request = queue->first;
    queue->first = request->next;
    queue_complete(queue, request, queue->failure.status);
  }
}

/* Finishes an abort once no request runs any more. */
static void queue_break(ring_queue *queue) {
  ring_comm *comm = queue->comm;
  if (comm->state == RING_COMM_OPEN) ring_comm_break(comm, &queue->cause);
  queue_fail(queue);
  queue->ending = false;
  atomic_fetch_sub_explicit(&comm->outstanding, 1, memory_order_release);
  progress_changed(&queue->progress);
}

/* Runs the first request of the queue. Called with the mutex, which is released meanwhile. */
static void queue_run_next(ring_queue *queue, ring_interrupt_fn interrupt,
                           const ring_alarm *alarm) {
  ring_comm *comm = queue->comm;
  ring_request *request = queue->first;
  ring_wait wait;
  queue->first = request->next;
  ring_collective_record(comm, &request->args, RING_EVENT_QUEUE, false);
  ring_progress_begin(&queue->progress);
  queue_unlock(queue);
  comm_prepare_wait(comm, comm->call_timeout, &wait);
  wait.interrupt = interrupt;
  wait.alarm = alarm;
  ring_wait_begin(&wait);
  ring_status status = ring_fusion_run(comm, &request->args, &wait);
  queue_lock(queue);
  ring_progress_end(&queue->progress);
  if (status != RING_OK && queue->failure.status == RING_OK) queue->failure = comm->failure;
  queue_complete(queue, request, status == RING_OK ? RING_OK : queue->failure.status);
  if (status != RING_OK) queue_fail(queue);
  if (queue->deferred) {
    queue->deferred = false;
    queue_break(queue);
  }
  if (request->awaited || queue->first == NULL || queue->stop) progress_changed(&queue->progress);
}

/* Wakes a thread that waits for a request which nobody runs. */
static void queue_hand_on(ring_queue *queue) {
  if (queue->first != NULL) progress_changed(&queue->progress);
}

/* A pause of the helper. One that others left nothing to run for is doubled. */
static bool queue_rest(void *arg) {
  ring_queue *queue = arg;
  ring_progress *progress = &queue->progress;
  bool ends = progress->stops || progress->idle >= RING_PROGRESS_IDLE_NS;
  if (queue->first == NULL && ends) return false;
  uint64_t pause = progress->pause;
  ring_progress_rest(progress, pause, false);
  progress->idle = queue->first == NULL ? progress->idle + pause : 0;
  progress->pause = progress_longer(pause, RING_PROGRESS_LONGEST_NS);
  return true;
}

/* Runs what lies in the queue. */
static void queue_turn(void *arg) {
  ring_queue *queue = arg;
  while (queue->first != NULL && !queue->stop) {
    queue_run_next(queue, NULL, &queue->keeper);
    queue->progress.pause = RING_PROGRESS_PAUSE_NS;
  }
}

/* Whether ranks publish the start of a request: all share memory, and the request is large. */
static bool queue_publishes_start(const ring_queue *queue, const ring_request *request) {
  const ring_comm *comm = queue->comm;
  const ring_call *call = &request->args.work.outline.call;
  return comm->shm.formed && comm->shm.size == comm->peers.size &&
         call->count * ring_dtype_size((ring_dtype)call->dtype) >= QUEUE_START_BYTES;
}

/* Waits until all ranks have started the request. After a wait in vain, the next ones are left out, twice as
 * many each time: the ranks do not start together. */
static bool queue_await_starts(ring_queue *queue, ring_request *request) {
  if (queue->skips > 0) {
    queue->skips--;
    return false;
  }
  ring_progress_begin(&queue->progress);
  queue_unlock(queue);
  bool started = ring_shm_await_starts(&queue->comm->shm, request->args.work.outline.call.sequence,
                                       QUEUE_PATIENCE_NS);
  queue_lock(queue);
  ring_progress_end(&queue->progress);
  progress_changed(&queue->progress);
  unsigned more = 2 * queue->misses + 1;
  queue->misses = started ? 0 : more < QUEUE_MOST_SKIPS ? more : QUEUE_MOST_SKIPS;
  queue->skips = queue->misses;
  return started;
}

void ring_queue_dispatch(ring_queue *queue, ring_request *request) {
  bool alone = queue->first == request && !queue->progress.moving, here = false;
  if (queue_publishes_start(queue, request)) {
    ring_shm_publish_start(&queue->comm->shm, request->args.work.outline.call.sequence);
    here = alone && !queue->comm->spare_cores && queue_await_starts(queue, request);
  }
  if (queue->stop) return;
  if (!here && ring_progress_start(&queue->progress) != 0) ring_queue_wait(queue, request);
  if (here) {
    queue_run_next(queue, queue->interrupt, &queue->alarm);
    queue_hand_on(queue);
  }
  ring_progress_reap(&queue->progress); /* no start may follow */
}

/* ---- Ending ------------------------------------------------------------------------------- */

/* Called with the mutex. The extra count of `outstanding` keeps calls of other threads out until
 * the communicator is broken, even when the last request still succeeds. In a hook of the
 * running request the function returns before the end of the request. */
static void queue_abort(ring_queue *queue, const ring_error *error) {
  bool in_hook = queue_is_in_hook(queue);
  if (queue->stop) {
    while (!in_hook && !queue_is_empty(queue)) ring_progress_sleep(&queue->progress, 0);
    return;
  }
  queue->ending = true;
  queue->deferred = in_hook;
  atomic_fetch_add_explicit(&queue->comm->outstanding, 1, memory_order_relaxed);
  queue->cause = *error;
  atomic_store(&queue->comm->stop_cause, &queue->cause);
  atomic_store(&queue->stop, true);
  atomic_store(&queue->comm->stop.set, true);
  while (write(queue->bell[1], "", 1) < 0 && errno == EINTR) continue;
  if (in_hook) return;
  while (queue->progress.moving) ring_progress_sleep(&queue->progress, 0);
  queue_break(queue);
}

bool ring_queue_runs_here(ring_comm *comm) {
  ring_queue *queue = comm->queue;
  if (queue == NULL) return false;
  queue_lock(queue);
  bool in_hook = queue_is_in_hook(queue);
  queue_unlock(queue);
  return in_hook;
}

bool ring_queue_abort(ring_comm *comm, const ring_error *error) {
  ring_queue *queue = comm->queue;
  if (queue == NULL) {
    ring_comm_break(comm, error);
    return true;
  }
  queue_lock(queue);
  queue_abort(queue, error);
  bool ended = !queue->progress.moving;
  queue_unlock(queue);
  return ended;
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Whether a request is done; with NULL, whether all requests are. */
static bool queue_is_done(const ring_queue *queue, const ring_request *request) {
  return request != NULL ? request_is_done(request) : queue_is_empty(queue);
}

/* Calls the interrupt hook without the mutex. When the hook ends the wait, all requests end. */
static void queue_poll_interrupt(ring_queue *queue, const ring_request *request) {
  queue_unlock(queue);
  bool ends = queue->interrupt(queue->interrupt_arg) != 0;
  queue_lock(queue);
  if (!ends || queue_is_done(queue, request)) return;
  ring_error error;
  int rank = queue->comm->peers.rank;
  char call[RING_CALL_TEXT] = "its requests";
  if (request != NULL) ring_call_describe(&request->args.work.outline.call, call, sizeof call);
  ring_error_set(&error, RING_ABORTED, rank, 0, "rank %d was interrupted while it waited for %s",
                 rank, call);
  queue_abort(queue, &error);
}

static bool queue_wait_is_over(const void *queue, const void *request) {
  return queue_is_done(queue, request);
}

static bool queue_move(void *arg, void *request) {
  ring_queue *queue = arg;
  (void)request;
  if (queue->stop) return false;
  queue_run_next(queue, queue->interrupt, &queue->alarm);
  return true;
}

static void queue_check(void *arg, void *request, bool due) {
  ring_queue *queue = arg;
  ring_queue_deliver_log(queue);
  if (due && queue->interrupt != NULL && !queue_is_done(queue, request))
    queue_poll_interrupt(queue, request);
}

static const ring_progress_ops queue_ops = {.is_over = queue_wait_is_over,
                                            .move = queue_move,
                                            .check = queue_check,
                                            .rest = queue_rest,
                                            .turn = queue_turn};

ring_status ring_queue_create(ring_comm *comm) {
  ring_queue *queue = calloc(1, sizeof *queue);
  int code = ENOMEM;
  if (queue == NULL) goto failed;
  code = ring_platform_pipe(queue->bell);
  if (code != 0) goto failed;
  code = ring_progress_init(&queue->progress, &queue_ops, queue);
  if (code != 0) {
    close(queue->bell[0]);
    close(queue->bell[1]);
    goto failed;
  }
  queue->comm = comm;
  queue->references = 1;
  queue->interrupt = comm->interrupt;
  queue->interrupt_arg = comm->interrupt_arg;
  queue->alarm = comm->alarm;
  queue->keeper = (ring_alarm){.after = comm->alarm.log == NULL ? 0 : comm->alarm.after,
                               .log = queue_keep_log,
                               .log_arg = queue};
  comm->native.engine.bell = queue->bell[0];
  comm->queue = queue;
  return RING_OK;
failed:
  free(queue);
  return ring_error_set(&comm->error, code == ENOMEM ? RING_NO_MEMORY : RING_SYSTEM,
                        comm->peers.rank, code, "rank %d cannot make a queue for requests",
                        comm->peers.rank);
}

void ring_queue_wait(ring_queue *queue, ring_request *request) {
  if (request != NULL) request->awaited = true;
  ring_progress_wait(&queue->progress, request);
  ring_queue_deliver_log(queue);
  queue_hand_on(queue);
}

/* Waits until nothing is outstanding. False in a hook of a request that this thread runs itself. */
static bool queue_drain(ring_comm *comm) {
  ring_queue *queue = comm->queue;
  queue_lock(queue);
  bool in_hook = queue_is_in_hook(queue);
  if (!in_hook) ring_queue_wait(queue, NULL);
  queue_unlock(queue);
  return !in_hook;
}

ring_status ring_comm_enter(ring_comm *comm) {
  ring_status status = ring_comm_acquire(comm);
  if (status != RING_OK) return status;
  bool waits = atomic_load_explicit(&comm->outstanding, memory_order_acquire) > 0 &&
               comm->place.run == NULL; /* a device orders its calls apart */
  if (waits && !queue_drain(comm)) {
    ring_comm_leave(comm);
    return RING_BUSY;
  }
  return ring_comm_check_open(comm);
}
