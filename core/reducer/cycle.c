/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/cycle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/comm_state.h"
#include "base/error.h"
#include "base/platform.h"

#define CYCLE_PAUSE_MOST UINT64_C(2000000)
#define CYCLE_DOZE UINT64_C(1000000)
#define CYCLE_TICKS UINT64_C(8) /* in the shortest deadline */
#define CYCLE_TICK_LEAST UINT64_C(1000000)

/* ---- Hooks -------------------------------------------------------------------------------- */

/* The interrupt hook of the reducer's communicator and device. A device tells the other ranks the reason. */
static int cycle_interrupt(void *arg) {
  ring_reducer *reducer = arg;
  if (atomic_load(&reducer->aborts)) {
    ring_reducer_gpu_abort(&reducer->gpu, reducer->reason);
    return 1;
  }
  return reducer->hooks && reducer->interrupt != NULL ? reducer->interrupt(reducer->interrupt_arg)
                                                      : 0;
}

/* Keeps a warning for a thread that waits. Called with the mutex. */
static void cycle_keep(void *arg, const char *text) {
  ring_reducer *reducer = arg;
  snprintf(reducer->text, sizeof reducer->text, "%s", text);
  reducer->kept = true;
}

/* Called with the mutex, which is released meanwhile. */
static void cycle_deliver(ring_reducer *reducer) {
  if (!reducer->kept) return;
  char text[sizeof reducer->text];
  memcpy(text, reducer->text, sizeof text);
  reducer->kept = false;
  reducer_unlock(reducer);
  reducer->log(reducer->log_arg, text);
  reducer_lock(reducer);
}

/* `"a", "b" and 3 more`: names in flight on this rank. Called with the mutex. */
static void cycle_list(const ring_reducer *reducer, char *text, size_t size) {
  const ring_cache *cache = &reducer->negotiation.cache;
  size_t length = 0, listed = 0;
  text[0] = '\0';
  for (size_t i = 0; i < cache->bucket_count && listed < 3; i++)
    for (const ring_entry *entry = cache->buckets[i]; entry != NULL && listed < 3;
         entry = entry->chain)
      if (entry->mine != NULL && length < size)
        length += (size_t)snprintf(text + length, size - length, "%s\"%.60s\"",
                                   listed++ > 0 ? ", " : "", entry->name);
  if (reducer->in_flight > listed && length < size)
    snprintf(text + length, size - length, " and %zu more", reducer->in_flight - listed);
}

/* Adds the tensors in flight to a text of the communicator. Called with the mutex. */
static void cycle_name_tensors(const ring_reducer *reducer, const char *message, char *text,
                               size_t size) {
  char names[256];
  cycle_list(reducer, names, sizeof names);
  snprintf(text, size, "the reducer waits%s%s: %.700s", names[0] != '\0' ? " with " : "", names,
           message);
}

/* The log hook of the reducer's communicator. An idle rank waits in a cycle for the other ranks' next tick. A
 * device reports how it is opened. */
static void cycle_log(void *arg, const char *message) {
  ring_reducer *reducer = arg;
  char text[sizeof reducer->text];
  reducer_lock(reducer);
  bool idle = reducer->in_flight == 0 && reducer->negotiation.mine == MEMBER_ACTIVE;
  if (!idle || reducer->gpu.opens) {
    if (reducer->gpu.opens)
      snprintf(text, sizeof text, "%s", message);
    else
      cycle_name_tensors(reducer, message, text, sizeof text);
    cycle_keep(reducer, text);
    if (reducer->hooks) cycle_deliver(reducer);
  }
  reducer_unlock(reducer);
}

/* ---- Ends of submissions ------------------------------------------------------------------ */

/* Completes everything in flight with the failure. Called with the mutex. */
static void cycle_fail_all(ring_reducer *reducer) {
  ring_cache *cache = &reducer->negotiation.cache;
  for (size_t i = 0; i < cache->bucket_count; i++)
    for (ring_entry *entry = cache->buckets[i]; entry != NULL; entry = entry->chain) {
      if (entry->mine != NULL) ring_submission_complete(entry->mine, &reducer->failure);
      if (entry->deferred != NULL) ring_submission_complete(entry->deferred, &reducer->failure);
      entry->mine = entry->deferred = NULL;
    }
  reducer->in_flight = 0;
}

static void cycle_fail(ring_reducer *reducer, const ring_error *error) {
  reducer->broken = true;
  reducer->failure = *error;
  if (reducer->reason[0] != '\0' || error->status == RING_OK)
    ring_error_set(&reducer->failure, RING_ABORTED, reducer->negotiation.rank, 0, "%s",
                   reducer->reason);
  else if (error->status == RING_TIMEOUT)
    cycle_name_tensors(reducer, error->message, reducer->failure.message,
                       sizeof reducer->failure.message);
  cycle_fail_all(reducer);
  progress_changed(&reducer->progress);
  progress_wake(&reducer->progress);
}

/* Ranks that close will submit nothing more. */
static void cycle_fail_for_closing(ring_reducer *reducer) {
  const ring_negotiation *negotiation = &reducer->negotiation;
  ring_error error;
  int rank = 0;
  while (negotiation->members[rank] != MEMBER_CLOSING) rank++;
  ring_error_set(&error, RING_MISMATCH, rank, 0,
                 "rank %d (%s) has closed its reducer: submit the same tensors on all ranks", rank,
                 ring_comm_name(negotiation->comm, rank));
  reducer->failure = error;
  cycle_fail_all(reducer);
}

/* Aborts between two cycles. */
static void cycle_abort_now(ring_reducer *reducer) {
  ring_error error;
  ring_comm_abort(reducer->comm, reducer->reason);
  ring_error_set(&error, RING_ABORTED, reducer->negotiation.rank, 0, "%s", reducer->reason);
  cycle_fail(reducer, &error);
}

void ring_cycle_abort(ring_reducer *reducer, const char *reason) {
  if (reducer->broken || atomic_load(&reducer->aborts)) return;
  snprintf(reducer->reason, sizeof reducer->reason, "%s", reason);
  atomic_store(&reducer->aborts, true);
  if (!reducer->progress.moving) cycle_abort_now(reducer);
}

/* ---- A cycle ------------------------------------------------------------------------------ */

/* Completes the submissions of `runs` runs. */
static void cycle_complete(ring_reducer *reducer, ring_ready *const *items, size_t count,
                           const ring_error *refusal, uint64_t runs) {
  reducer_lock(reducer);
  for (size_t i = 0; i < count; i++) {
    if (items[i]->submission == NULL) continue;
    ring_cache_withdraw(&reducer->negotiation.cache, items[i]->entry);
    ring_submission_complete(items[i]->submission, refusal->status == RING_OK ? NULL : refusal);
    items[i]->submission = NULL;
    reducer->in_flight--;
    reducer->operations++;
  }
  reducer->runs += runs;
  reducer->gpu_runs = reducer->gpu.runs;
  progress_changed(&reducer->progress);
  reducer_unlock(reducer);
}

static bool cycle_reserve_items(ring_reducer *reducer, size_t count) {
  if (count <= reducer->item_capacity) return true;
  ring_ready **items = realloc(reducer->items, 2 * count * sizeof(ring_ready *));
  if (items == NULL) return false;
  reducer->items = items;
  reducer->item_capacity = 2 * count;
  return true;
}

/* Completes what GPUs carry out, when they have. All runs of the cycle are on the stream before the wait. */
static ring_status cycle_await_gpu(ring_reducer *reducer, uint64_t runs) {
  const ring_negotiation *negotiation = &reducer->negotiation;
  const ring_error none = {.status = RING_OK};
  size_t count = 0;
  if (runs == 0) return RING_OK;
  ring_status status = ring_reducer_gpu_await(&reducer->gpu);
  for (size_t i = 0; i < negotiation->ready_count; i++)
    if (negotiation->ready[i].tensor.memory == RING_MEMORY_GPU)
      reducer->items[count++] = &negotiation->ready[i];
  if (status == RING_OK) cycle_complete(reducer, reducer->items, count, &none, runs);
  return status;
}

static ring_status cycle_run_ready(ring_reducer *reducer) {
  ring_negotiation *negotiation = &reducer->negotiation;
  uint64_t gpu_runs = 0;
  ring_fusion_plan plan = {.ready = negotiation->ready,
                           .count = negotiation->ready_count,
                           .threshold = reducer->threshold};
  if (!cycle_reserve_items(reducer, plan.count)) return ring_negotiation_no_memory(negotiation);
  for (size_t count; (count = ring_fusion_plan_next(&plan, reducer->items)) > 0;) {
    ring_error refusal;
    ring_status status = ring_execution_run(&reducer->execution, reducer->items, count, &refusal);
    if (status == RING_INVALID) /* on this rank alone: the other ranks wait in the operation */
      ring_comm_abort(reducer->comm, ring_comm_error(reducer->comm)->message);
    if (status != RING_OK) return status;
    if (reducer->items[0]->tensor.memory == RING_MEMORY_GPU && refusal.status == RING_OK)
      gpu_runs++;
    else
      cycle_complete(reducer, reducer->items, count, &refusal, 1);
  }
  return cycle_await_gpu(reducer, gpu_runs);
}

/* All ranks take the settings of rank 0. */
static ring_status cycle_tune(ring_reducer *reducer) {
  ring_status status = ring_autotune_move(&reducer->autotune, reducer->comm);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  reducer->threshold = (size_t)reducer->autotune.now.threshold;
  reducer->cycle_time = reducer->autotune.now.cycle_time;
  reducer_unlock(reducer);
  return RING_OK;
}

/* A device fails alone: the communicator ends with it. No memory is in use when the submissions complete. */
static void cycle_break(ring_reducer *reducer, ring_error *error) {
  *error = reducer->gpu.failure;
  if (error->status == RING_OK) *error = *ring_comm_error(reducer->comm);
  ring_reducer_gpu_fail(&reducer->gpu, error->message);
  ring_comm_abort(reducer->comm, error->message);
}

/* Without the mutex. *progress: something was agreed on or completed. */
static ring_status cycle_run(ring_reducer *reducer, bool *progress) {
  ring_negotiation *negotiation = &reducer->negotiation;
  uint64_t flags = ring_stall_is_due(&reducer->stall, negotiation) ? NEGOTIATION_STALL : 0;
  if (reducer->autotune.moves) flags |= NEGOTIATION_TUNE;
  ring_status status = ring_negotiation_run(negotiation, &flags);
  *progress = negotiation->ready_count > 0 || (flags & ~(uint64_t)NEGOTIATION_STALL) != 0;
  if (status == RING_OK && negotiation->ready_count > 0) status = cycle_run_ready(reducer);
  if (status == RING_OK) ring_autotune_count(&reducer->autotune, negotiation);
  if (status == RING_OK && (flags & NEGOTIATION_STALL) != 0)
    status = ring_stall_run(&reducer->stall, negotiation);
  if (status == RING_OK && (flags & NEGOTIATION_TUNE) != 0) status = cycle_tune(reducer);
  return status;
}

/* Runs a cycle. Called with the mutex, while no thread is in a cycle. */
static void cycle_turn(ring_reducer *reducer, bool hooks) {
  bool progress = false;
  ring_progress_begin(&reducer->progress);
  reducer->hooks = hooks;
  uint64_t before = reducer->submitted;
  reducer_unlock(reducer);
  ring_error error;
  ring_status status = cycle_run(reducer, &progress);
  if (status != RING_OK) cycle_break(reducer, &error);
  reducer_lock(reducer);
  ring_progress_end(&reducer->progress);
  reducer->in_flight -= reducer->negotiation.settled;
  reducer->operations += reducer->negotiation.settled;
  progress = progress || reducer->negotiation.settled > 0 || before != reducer->submitted;
  reducer->negotiation.settled = 0;
  if (status != RING_OK) {
    cycle_fail(reducer, &error);
  } else if (reducer->negotiation.closing == reducer->negotiation.size) {
    reducer->closed = true;
  } else if (atomic_load(&reducer->aborts)) { /* during the cycle, which did not notice */
    cycle_abort_now(reducer);
  } else if (reducer->negotiation.closing > 0 && reducer->negotiation.mine != MEMBER_CLOSING) {
    cycle_fail_for_closing(reducer);
  }
  reducer->pause = progress ? 0 : progress_longer(reducer->pause, CYCLE_PAUSE_MOST);
  reducer->ticked = ring_platform_now();
  if (reducer->pause > 0) reducer->rested = reducer->ticked;
  progress_changed(&reducer->progress);
}

/* Whether this rank has to enter cycles. */
static bool cycle_is_busy(const ring_reducer *reducer) {
  const ring_negotiation *negotiation = &reducer->negotiation;
  if (reducer->closed || reducer->broken || atomic_load(&reducer->aborts)) return false;
  if (negotiation->mine == MEMBER_CLOSING) return true;
  if (reducer->failure.status != RING_OK) return false;
  return reducer->in_flight > 0 || negotiation->mine != MEMBER_ACTIVE;
}

/* Nanoseconds until the next cycle may begin. */
static uint64_t cycle_rest(const ring_reducer *reducer) {
  if (reducer->pause == 0) return 0;
  uint64_t rested = ring_platform_now() - reducer->rested;
  return rested < reducer->pause ? reducer->pause - rested : 0;
}

/* ---- The thread --------------------------------------------------------------------------- */

int64_t ring_cycle_tick(const ring_reducer *reducer) {
  uint64_t least = (uint64_t)(reducer->comm->call_timeout * 1e9);
  uint64_t stall = reducer->stall.timeout;
  if (stall > 0 && stall < least) least = stall;
  if (reducer->negotiation.size == 1) return 0;
  least /= CYCLE_TICKS * CYCLE_TICK_LEAST;
  return least == 0 ? 1 : least > INT32_MAX ? INT32_MAX : (int64_t)least;
}

/* Nanoseconds until an idle rank enters a cycle. */
static uint64_t cycle_until_tick(const ring_reducer *reducer) {
  bool ends = reducer->closed || reducer->broken || atomic_load(&reducer->aborts) ||
              reducer->failure.status != RING_OK;
  if (reducer->tick == 0 || ends) return RING_PROGRESS_FOREVER;
  uint64_t since = ring_platform_now() - reducer->ticked;
  return since < reducer->tick ? reducer->tick - since : 0;
}

/* How long the thread of an idle reducer rests. */
static uint64_t cycle_nap(const ring_reducer *reducer) {
  uint64_t rest = cycle_until_tick(reducer);
  if (rest == RING_PROGRESS_FOREVER) return rest;
  return rest > 0 && !reducer->progress.moving ? rest : CYCLE_DOZE;
}

/* How long the thread sleeps before it runs a cycle. */
static uint64_t cycle_doze(const ring_reducer *reducer) {
  uint64_t rest = cycle_rest(reducer), doze = reducer->cycle_time;
  if (reducer->progress.moving && doze < CYCLE_DOZE) return CYCLE_DOZE;
  return rest > doze ? rest : doze;
}

/* The thread of an idle reducer rests until a submission wakes it. It is idle when nothing was submitted
 * since it last looked: so a thread that submits and waits in turn does not wake it each time. */
static bool cycle_thread_rest(void *arg) {
  ring_reducer *reducer = arg;
  ring_progress *progress = &reducer->progress;
  if (progress->stops) return false;
  bool idle = !cycle_is_busy(reducer) && reducer->seen == reducer->submitted;
  uint64_t doze = idle ? cycle_nap(reducer) : cycle_doze(reducer);
  reducer->seen = reducer->submitted;
  reducer->idle = idle;
  if (doze > 0) ring_progress_rest(progress, doze, idle || doze > reducer->cycle_time);
  return !progress->stops;
}

static void cycle_thread_turn(void *arg) {
  ring_reducer *reducer = arg;
  bool due = !reducer->idle && cycle_is_busy(reducer) && cycle_rest(reducer) == 0;
  if (due || cycle_until_tick(reducer) == 0) cycle_turn(reducer, false);
}

int ring_cycle_start(ring_reducer *reducer) {
  ring_comm *comm = reducer->comm;
  reducer->interrupt = comm->interrupt;
  reducer->interrupt_arg = comm->interrupt_arg;
  reducer->log = comm->alarm.log;
  reducer->log_arg = comm->alarm.log_arg;
  reducer->stall.warn_after = comm->alarm.log == NULL ? 0 : comm->alarm.after;
  reducer->stall.log = cycle_keep;
  reducer->stall.log_arg = reducer;
  comm->interrupt = cycle_interrupt;
  comm->interrupt_arg = reducer;
  if (comm->alarm.log != NULL) comm->alarm.log = cycle_log;
  comm->alarm.log_arg = reducer;
  return ring_progress_start(&reducer->progress);
}

void ring_cycle_stop(ring_reducer *reducer) {
  reducer_lock(reducer);
  ring_progress_stop(&reducer->progress);
  reducer_unlock(reducer);
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Called with the mutex, which is released meanwhile. */
static void cycle_ask(ring_reducer *reducer) {
  reducer_unlock(reducer);
  bool ends = reducer->interrupt(reducer->interrupt_arg) != 0;
  reducer_lock(reducer);
  if (!ends) return;
  char reason[128];
  snprintf(reason, sizeof reason, "rank %d was interrupted while it waited for the reducer",
           reducer->negotiation.rank);
  ring_cycle_abort(reducer, reason);
}

typedef struct cycle_aim {
  ring_cycle_until_fn until;
  const void *arg;
} cycle_aim;

static bool cycle_wait_is_over(const void *reducer, const void *arg) {
  const cycle_aim *aim = arg;
  return aim->until(reducer, aim->arg);
}

/* A cycle, or the rest before it. */
static bool cycle_move(void *arg, void *aim) {
  ring_reducer *reducer = arg;
  (void)aim;
  if (!cycle_is_busy(reducer)) return false;
  uint64_t rest = cycle_rest(reducer);
  if (rest == 0)
    cycle_turn(reducer, true);
  else
    ring_progress_rest(&reducer->progress, rest, true);
  return true;
}

static void cycle_check(void *arg, void *aim, bool due) {
  ring_reducer *reducer = arg;
  cycle_deliver(reducer);
  if (due && reducer->interrupt != NULL && !cycle_wait_is_over(reducer, aim)) cycle_ask(reducer);
}

static const ring_progress_ops cycle_ops = {.is_over = cycle_wait_is_over,
                                            .move = cycle_move,
                                            .check = cycle_check,
                                            .rest = cycle_thread_rest,
                                            .turn = cycle_thread_turn};

int ring_cycle_init(ring_reducer *reducer) {
  return ring_progress_init(&reducer->progress, &cycle_ops, reducer);
}

/* A closing rank waits on after the failure of its submissions, for the other ranks. */
void ring_cycle_await(ring_reducer *reducer, ring_cycle_until_fn until, const void *arg) {
  cycle_aim aim = {until, arg};
  ring_progress_wait(&reducer->progress, &aim);
  cycle_deliver(reducer);
}
