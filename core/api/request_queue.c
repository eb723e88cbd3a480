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

#define QUEUE_SLICE_MS 100
#define QUEUE_SLICE_NS (QUEUE_SLICE_MS * UINT64_C(1000000))

/* Pauses of the helper. The longest is what a request waits at most that no thread waits for. */
#define QUEUE_PAUSE_NS UINT64_C(50000)
#define QUEUE_LONGEST_PAUSE_NS UINT64_C(1000000)
#define QUEUE_IDLE_NS UINT64_C(20000000) /* the helper of an empty queue ends */

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
  pthread_mutex_lock(&queue->mutex);
  snprintf(queue->text, sizeof queue->text, "%s", message);
  atomic_store(&queue->kept, true);
  pthread_mutex_unlock(&queue->mutex);
}

void ring_queue_deliver_log(ring_queue *queue) {
  if (!atomic_exchange(&queue->kept, false)) return;
  char text[sizeof queue->text];
  memcpy(text, queue->text, sizeof text);
  pthread_mutex_unlock(&queue->mutex);
  queue->alarm.log(queue->alarm.log_arg, text);
  pthread_mutex_lock(&queue->mutex);
}

ring_status ring_queue_create(ring_comm *comm) {
  ring_queue *queue = calloc(1, sizeof *queue);
  int code = ENOMEM;
  if (queue == NULL) goto failed;
  code = ring_platform_pipe(queue->bell);
  if (code != 0) goto failed;
  code = ring_platform_condition_init(&queue->changed);
  if (code == 0) code = ring_platform_condition_init(&queue->closing);
  if (code == 0) code = pthread_mutex_init(&queue->mutex, NULL);
  if (code != 0) {
    close(queue->bell[0]);
    close(queue->bell[1]);
    goto failed;
  }
  queue->process = comm->process;
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

/* In a forked child the mutex is in its state at the fork, perhaps locked, and is not touched. */
void ring_queue_free(ring_queue *queue) {
  while (queue->spare != NULL) {
    ring_request *request = queue->spare;
    queue->spare = request->next;
    ring_store_free(&request->store);
    free(request);
  }
  if (queue_is_mine(queue)) {
    pthread_mutex_destroy(&queue->mutex);
    pthread_cond_destroy(&queue->changed);
    pthread_cond_destroy(&queue->closing);
  }
  free(queue);
}

/* Joins the helper once it has announced its end. */
static void queue_join(ring_queue *queue) {
  if (queue->helper == QUEUE_HELPER_ENDED) pthread_join(queue->thread, NULL);
  queue->helper = QUEUE_NO_HELPER;
}

void ring_queue_detach(ring_comm *comm) {
  ring_queue *queue = comm->queue;
  if (queue == NULL) return;
  bool mine = queue_is_mine(queue);
  if (mine) {
    pthread_mutex_lock(&queue->mutex);
    queue->detached = true;
    pthread_cond_signal(&queue->closing);
    while (!queue_is_empty(queue) || queue->helper == QUEUE_HELPER_RUNS)
      pthread_cond_wait(&queue->changed, &queue->mutex);
    queue_join(queue);
  }
  close(queue->bell[0]);
  close(queue->bell[1]);
  comm->native.engine.bell = -1;
  comm->queue = NULL;
  queue->comm = NULL;
  bool last = --queue->references == 0;
  if (mine) pthread_mutex_unlock(&queue->mutex);
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
  pthread_cond_broadcast(&queue->changed);
}

/* Runs the first request of the queue. Called with the mutex, which is released meanwhile. */
static void queue_run_next(ring_queue *queue, ring_interrupt_fn interrupt,
                           const ring_alarm *alarm) {
  ring_comm *comm = queue->comm;
  ring_request *request = queue->first;
  ring_wait wait;
  queue->first = request->next;
  queue->running = request;
  ring_collective_record(comm, &request->args, RING_EVENT_QUEUE, false);
  queue->driver = pthread_self();
  pthread_mutex_unlock(&queue->mutex);
  comm_prepare_wait(comm, comm->call_timeout, &wait);
  wait.interrupt = interrupt;
  wait.alarm = alarm;
  ring_wait_begin(&wait);
  ring_status status = ring_fusion_run(comm, &request->args, &wait);
  pthread_mutex_lock(&queue->mutex);
  queue->running = NULL;
  if (status != RING_OK && queue->failure.status == RING_OK) queue->failure = comm->failure;
  queue_complete(queue, request, status == RING_OK ? RING_OK : queue->failure.status);
  if (status != RING_OK) queue_fail(queue);
  if (queue->deferred) {
    queue->deferred = false;
    queue_break(queue);
  }
  if (request->awaited || queue->first == NULL || queue->stop)
    pthread_cond_broadcast(&queue->changed);
}

/* Wakes a thread that waits for a request which nobody runs. */
static void queue_hand_on(ring_queue *queue) {
  if (queue->first != NULL) pthread_cond_broadcast(&queue->changed);
}

/* Runs what lies in the queue after each pause. A pause that others left nothing to run for is doubled. */
static void *queue_helper_main(void *arg) {
  ring_queue *queue = arg;
  uint64_t pause = QUEUE_PAUSE_NS, idle = 0;
  pthread_mutex_lock(&queue->mutex);
  while (queue->first != NULL || (!queue->detached && idle < QUEUE_IDLE_NS)) {
    ring_platform_condition_wait_ns(&queue->closing, &queue->mutex, pause);
    idle = queue->first == NULL ? idle + pause : 0;
    pause = 2 * pause < QUEUE_LONGEST_PAUSE_NS ? 2 * pause : QUEUE_LONGEST_PAUSE_NS;
    while (queue->first != NULL && queue->running == NULL && !queue->stop) {
      queue_run_next(queue, NULL, &queue->keeper);
      pause = QUEUE_PAUSE_NS;
    }
  }
  queue->helper = QUEUE_HELPER_ENDED;
  pthread_cond_broadcast(&queue->changed);
  pthread_mutex_unlock(&queue->mutex);
  return NULL;
}

/* Starts the helper thread unless it runs. */
static bool queue_start_helper(ring_queue *queue) {
  if (queue->helper == QUEUE_HELPER_RUNS) return true;
  queue_join(queue);
  if (ring_platform_thread(&queue->thread, queue_helper_main, queue) != 0) return false;
  queue->helper = QUEUE_HELPER_RUNS;
  return true;
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
  queue->running = request;
  queue->driver = pthread_self();
  pthread_mutex_unlock(&queue->mutex);
  bool started = ring_shm_await_starts(&queue->comm->shm, request->args.work.outline.call.sequence,
                                       QUEUE_PATIENCE_NS);
  pthread_mutex_lock(&queue->mutex);
  queue->running = NULL;
  pthread_cond_broadcast(&queue->changed);
  unsigned more = 2 * queue->misses + 1;
  queue->misses = started ? 0 : more < QUEUE_MOST_SKIPS ? more : QUEUE_MOST_SKIPS;
  queue->skips = queue->misses;
  return started;
}

void ring_queue_dispatch(ring_queue *queue, ring_request *request) {
  bool alone = queue->first == request && queue->running == NULL, here = false;
  if (queue_publishes_start(queue, request)) {
    ring_shm_publish_start(&queue->comm->shm, request->args.work.outline.call.sequence);
    here = alone && !queue->comm->spare_cores && queue_await_starts(queue, request);
  }
  if (queue->stop) return;
  if (!here && !queue_start_helper(queue)) ring_queue_wait(queue, request);
  if (here) {
    queue_run_next(queue, queue->interrupt, &queue->alarm);
    queue_hand_on(queue);
  }
  if (queue->helper == QUEUE_HELPER_ENDED) queue_join(queue); /* no start may follow */
}

/* ---- Ending ------------------------------------------------------------------------------- */

/* Called with the mutex. The extra count of `outstanding` keeps calls of other threads out until
 * the communicator is broken, even when the last request still succeeds. In a hook of the
 * running request the function returns before the end of the request. */
static void queue_abort(ring_queue *queue, const ring_error *error) {
  bool in_hook = queue_is_in_hook(queue);
  if (queue->stop) {
    while (!in_hook && !queue_is_empty(queue)) pthread_cond_wait(&queue->changed, &queue->mutex);
    return;
  }
  queue->ending = true;
  queue->deferred = in_hook;
  atomic_fetch_add_explicit(&queue->comm->outstanding, 1, memory_order_relaxed);
  queue->cause = *error;
  atomic_store(&queue->comm->stop_cause, &queue->cause);
  atomic_store(&queue->stop, true);
  atomic_store(&queue->comm->stopping, true);
  while (write(queue->bell[1], "", 1) < 0 && errno == EINTR) continue;
  if (in_hook) return;
  while (queue->running != NULL) pthread_cond_wait(&queue->changed, &queue->mutex);
  queue_break(queue);
}

bool ring_queue_runs_here(ring_comm *comm) {
  ring_queue *queue = comm->queue;
  if (queue == NULL) return false;
  pthread_mutex_lock(&queue->mutex);
  bool in_hook = queue_is_in_hook(queue);
  pthread_mutex_unlock(&queue->mutex);
  return in_hook;
}

bool ring_queue_abort(ring_comm *comm, const ring_error *error) {
  ring_queue *queue = comm->queue;
  if (queue == NULL) {
    ring_comm_break(comm, error);
    return true;
  }
  pthread_mutex_lock(&queue->mutex);
  queue_abort(queue, error);
  bool ended = queue->running == NULL;
  pthread_mutex_unlock(&queue->mutex);
  return ended;
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Whether a request is done; with NULL, whether all requests are. */
static bool queue_is_done(const ring_queue *queue, const ring_request *request) {
  return request != NULL ? request_is_done(request) : queue_is_empty(queue);
}

/* Calls the interrupt hook without the mutex. When the hook ends the wait, all requests end. */
static void queue_poll_interrupt(ring_queue *queue, const ring_request *request) {
  pthread_mutex_unlock(&queue->mutex);
  bool ends = queue->interrupt(queue->interrupt_arg) != 0;
  pthread_mutex_lock(&queue->mutex);
  if (!ends || queue_is_done(queue, request)) return;
  ring_error error;
  int rank = queue->comm->peers.rank;
  char call[RING_CALL_TEXT] = "its requests";
  if (request != NULL) ring_call_describe(&request->args.work.outline.call, call, sizeof call);
  ring_error_set(&error, RING_ABORTED, rank, 0, "rank %d was interrupted while it waited for %s",
                 rank, call);
  queue_abort(queue, &error);
}

void ring_queue_wait(ring_queue *queue, ring_request *request) {
  uint64_t asked = 0; /* when the hook was called last; 0: the wait has not begun */
  while (!queue_is_done(queue, request)) {
    if (queue->running == NULL && !queue->stop) {
      queue_run_next(queue, queue->interrupt, &queue->alarm);
      asked = 0;
      continue;
    }
    if (asked == 0) asked = ring_platform_now();
    if (request != NULL) request->awaited = true;
    ring_platform_condition_wait(&queue->changed, &queue->mutex, QUEUE_SLICE_MS);
    ring_queue_deliver_log(queue);
    bool due = ring_platform_now() - asked >= QUEUE_SLICE_NS && !queue_is_done(queue, request);
    if (!due || queue->interrupt == NULL) continue;
    queue_poll_interrupt(queue, request);
    asked = ring_platform_now();
  }
  queue_hand_on(queue);
}

/* Waits until nothing is outstanding. False in a hook of a request that this thread runs itself. */
static bool queue_drain(ring_comm *comm) {
  ring_queue *queue = comm->queue;
  pthread_mutex_lock(&queue->mutex);
  bool in_hook = queue_is_in_hook(queue);
  if (!in_hook) ring_queue_wait(queue, NULL);
  pthread_mutex_unlock(&queue->mutex);
  return !in_hook;
}

ring_status ring_comm_enter(ring_comm *comm) {
  ring_status status = ring_comm_acquire(comm);
  if (status != RING_OK) return status;
  if (atomic_load_explicit(&comm->outstanding, memory_order_acquire) > 0 && !queue_drain(comm)) {
    ring_comm_leave(comm);
    return RING_BUSY;
  }
  return ring_comm_check_open(comm);
}
