/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/comm_state.h"
#include "base/error.h"
#include "base/platform.h"

#define DRIVER_SLICE UINT64_C(100000000)
#define DRIVER_PAUSE_FIRST UINT64_C(50000)
#define DRIVER_PAUSE_MOST UINT64_C(2000000)
#define DRIVER_DOZE UINT64_C(1000000)
#define DRIVER_TICKS UINT64_C(8) /* in the shortest deadline */
#define DRIVER_TICK_LEAST UINT64_C(1000000)

/* ---- Hooks -------------------------------------------------------------------------------- */

/* The interrupt hook of the reducer's communicator. */
static int driver_interrupt(void *arg) {
  ring_reducer *reducer = arg;
  if (atomic_load(&reducer->aborts)) return 1;
  return reducer->hooks && reducer->interrupt != NULL ? reducer->interrupt(reducer->interrupt_arg)
                                                      : 0;
}

/* Keeps a warning for a thread that waits. Called with the mutex. */
static void driver_keep(void *arg, const char *text) {
  ring_reducer *reducer = arg;
  snprintf(reducer->text, sizeof reducer->text, "%s", text);
  reducer->kept = true;
}

/* Called with the mutex, which is released meanwhile. */
static void driver_deliver(ring_reducer *reducer) {
  if (!reducer->kept) return;
  char text[sizeof reducer->text];
  memcpy(text, reducer->text, sizeof text);
  reducer->kept = false;
  pthread_mutex_unlock(&reducer->mutex);
  reducer->log(reducer->log_arg, text);
  pthread_mutex_lock(&reducer->mutex);
}

/* `"a", "b" and 3 more`: names in flight on this rank. Called with the mutex. */
static void driver_list(const ring_reducer *reducer, char *text, size_t size) {
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
static void driver_name_tensors(const ring_reducer *reducer, const char *message, char *text,
                                size_t size) {
  char names[256];
  driver_list(reducer, names, sizeof names);
  snprintf(text, size, "the reducer waits%s%s: %.700s", names[0] != '\0' ? " with " : "", names,
           message);
}

/* The log hook of the reducer's communicator. An idle rank waits in a cycle for the other ranks' next tick. */
static void driver_log(void *arg, const char *message) {
  ring_reducer *reducer = arg;
  char text[sizeof reducer->text];
  pthread_mutex_lock(&reducer->mutex);
  bool idle = reducer->in_flight == 0 && reducer->negotiation.mine == MEMBER_ACTIVE;
  if (!idle) {
    driver_name_tensors(reducer, message, text, sizeof text);
    driver_keep(reducer, text);
    if (reducer->hooks) driver_deliver(reducer);
  }
  pthread_mutex_unlock(&reducer->mutex);
}

/* ---- Ends of submissions ------------------------------------------------------------------ */

/* Completes everything in flight with the failure. Called with the mutex. */
static void driver_fail_all(ring_reducer *reducer) {
  ring_cache *cache = &reducer->negotiation.cache;
  for (size_t i = 0; i < cache->bucket_count; i++)
    for (ring_entry *entry = cache->buckets[i]; entry != NULL; entry = entry->chain) {
      if (entry->mine != NULL) ring_submission_complete(entry->mine, &reducer->failure);
      if (entry->deferred != NULL) ring_submission_complete(entry->deferred, &reducer->failure);
      entry->mine = entry->deferred = NULL;
    }
  reducer->in_flight = 0;
}

static void driver_fail(ring_reducer *reducer, const ring_error *error) {
  reducer->broken = true;
  reducer->failure = *error;
  if (reducer->reason[0] != '\0' || error->status == RING_OK)
    ring_error_set(&reducer->failure, RING_ABORTED, reducer->negotiation.rank, 0, "%s",
                   reducer->reason);
  else if (error->status == RING_TIMEOUT)
    driver_name_tensors(reducer, error->message, reducer->failure.message,
                        sizeof reducer->failure.message);
  driver_fail_all(reducer);
  pthread_cond_broadcast(&reducer->changed);
  pthread_cond_broadcast(&reducer->work);
}

/* Ranks that close will submit nothing more. */
static void driver_fail_for_closing(ring_reducer *reducer) {
  const ring_negotiation *negotiation = &reducer->negotiation;
  ring_error error;
  int rank = 0;
  while (negotiation->members[rank] != MEMBER_CLOSING) rank++;
  ring_error_set(&error, RING_MISMATCH, rank, 0,
                 "rank %d (%s) has closed its reducer: submit the same tensors on all ranks", rank,
                 ring_comm_name(negotiation->comm, rank));
  reducer->failure = error;
  driver_fail_all(reducer);
}

/* Aborts between two cycles. */
static void driver_abort_now(ring_reducer *reducer) {
  ring_error error;
  ring_comm_abort(reducer->comm, reducer->reason);
  ring_error_set(&error, RING_ABORTED, reducer->negotiation.rank, 0, "%s", reducer->reason);
  driver_fail(reducer, &error);
}

void ring_driver_abort(ring_reducer *reducer, const char *reason) {
  if (reducer->broken || atomic_load(&reducer->aborts)) return;
  snprintf(reducer->reason, sizeof reducer->reason, "%s", reason);
  atomic_store(&reducer->aborts, true);
  if (!reducer->driving) driver_abort_now(reducer);
}

/* ---- A cycle ------------------------------------------------------------------------------ */

static void driver_complete(ring_reducer *reducer, ring_ready *const *items, size_t count,
                            const ring_error *refusal) {
  pthread_mutex_lock(&reducer->mutex);
  for (size_t i = 0; i < count; i++) {
    if (items[i]->submission == NULL) continue;
    ring_cache_withdraw(&reducer->negotiation.cache, items[i]->entry);
    ring_submission_complete(items[i]->submission, refusal->status == RING_OK ? NULL : refusal);
    reducer->in_flight--;
    reducer->operations++;
  }
  reducer->runs++;
  if (reducer->waiters > 0) pthread_cond_broadcast(&reducer->changed);
  pthread_mutex_unlock(&reducer->mutex);
}

static bool driver_reserve_items(ring_reducer *reducer, size_t count) {
  if (count <= reducer->item_capacity) return true;
  ring_ready **items = realloc(reducer->items, 2 * count * sizeof(ring_ready *));
  if (items == NULL) return false;
  reducer->items = items;
  reducer->item_capacity = 2 * count;
  return true;
}

static ring_status driver_run_ready(ring_reducer *reducer) {
  ring_negotiation *negotiation = &reducer->negotiation;
  ring_fusion_plan plan = {.ready = negotiation->ready,
                           .count = negotiation->ready_count,
                           .threshold = reducer->threshold};
  if (!driver_reserve_items(reducer, plan.count)) return ring_negotiation_no_memory(negotiation);
  for (size_t count; (count = ring_fusion_plan_next(&plan, reducer->items)) > 0;) {
    ring_error refusal;
    ring_status status = ring_execution_run(&reducer->execution, reducer->items, count, &refusal);
    if (status == RING_INVALID) /* on this rank alone: the other ranks wait in the operation */
      ring_comm_abort(reducer->comm, ring_comm_error(reducer->comm)->message);
    if (status != RING_OK) return status;
    driver_complete(reducer, reducer->items, count, &refusal);
  }
  return RING_OK;
}

/* All ranks take the settings of rank 0. */
static ring_status driver_tune(ring_reducer *reducer) {
  ring_status status = ring_autotune_move(&reducer->autotune, reducer->comm);
  if (status != RING_OK) return status;
  pthread_mutex_lock(&reducer->mutex);
  reducer->threshold = (size_t)reducer->autotune.now.threshold;
  reducer->cycle_time = reducer->autotune.now.cycle_time;
  pthread_mutex_unlock(&reducer->mutex);
  return RING_OK;
}

/* Without the mutex. *progress: something was agreed on or completed. */
static ring_status driver_cycle(ring_reducer *reducer, bool *progress) {
  ring_negotiation *negotiation = &reducer->negotiation;
  uint64_t flags = ring_stall_is_due(&reducer->stall, negotiation) ? NEGOTIATION_STALL : 0;
  if (reducer->autotune.moves) flags |= NEGOTIATION_TUNE;
  ring_status status = ring_negotiation_run(negotiation, &flags);
  *progress = negotiation->ready_count > 0 || (flags & ~(uint64_t)NEGOTIATION_STALL) != 0;
  if (status == RING_OK && negotiation->ready_count > 0) status = driver_run_ready(reducer);
  if (status == RING_OK) ring_autotune_count(&reducer->autotune, negotiation);
  if (status == RING_OK && (flags & NEGOTIATION_STALL) != 0)
    status = ring_stall_run(&reducer->stall, negotiation);
  if (status == RING_OK && (flags & NEGOTIATION_TUNE) != 0) status = driver_tune(reducer);
  return status;
}

/* Called with the mutex, by a thread that drives from now on. */
static void driver_turn(ring_reducer *reducer, bool hooks) {
  bool progress = false;
  reducer->driving = true;
  reducer->hooks = hooks;
  uint64_t before = reducer->submitted;
  pthread_mutex_unlock(&reducer->mutex);
  ring_status status = driver_cycle(reducer, &progress);
  pthread_mutex_lock(&reducer->mutex);
  reducer->driving = false;
  reducer->in_flight -= reducer->negotiation.settled;
  reducer->operations += reducer->negotiation.settled;
  progress = progress || reducer->negotiation.settled > 0 || before != reducer->submitted;
  reducer->negotiation.settled = 0;
  if (status != RING_OK) {
    driver_fail(reducer, ring_comm_error(reducer->comm));
  } else if (reducer->negotiation.closing == reducer->negotiation.size) {
    reducer->closed = true;
  } else if (atomic_load(&reducer->aborts)) { /* during the cycle, which did not notice */
    driver_abort_now(reducer);
  } else if (reducer->negotiation.closing > 0 && reducer->negotiation.mine != MEMBER_CLOSING) {
    driver_fail_for_closing(reducer);
  }
  if (progress)
    reducer->pause = 0;
  else
    reducer->pause = reducer->pause == 0 ? DRIVER_PAUSE_FIRST : 2 * reducer->pause;
  if (reducer->pause > DRIVER_PAUSE_MOST) reducer->pause = DRIVER_PAUSE_MOST;
  reducer->ticked = ring_platform_now();
  if (reducer->pause > 0) reducer->rested = reducer->ticked;
  if (reducer->waiters > 0) pthread_cond_broadcast(&reducer->changed);
}

/* Whether this rank has to enter cycles. */
static bool driver_is_busy(const ring_reducer *reducer) {
  const ring_negotiation *negotiation = &reducer->negotiation;
  if (reducer->closed || reducer->broken || atomic_load(&reducer->aborts)) return false;
  if (negotiation->mine == MEMBER_CLOSING) return true;
  if (reducer->failure.status != RING_OK) return false;
  return reducer->in_flight > 0 || negotiation->mine != MEMBER_ACTIVE;
}

/* Nanoseconds until the next cycle may begin. */
static uint64_t driver_rest(const ring_reducer *reducer) {
  if (reducer->pause == 0) return 0;
  uint64_t rested = ring_platform_now() - reducer->rested;
  return rested < reducer->pause ? reducer->pause - rested : 0;
}

static void driver_sleep(ring_reducer *reducer, uint64_t nanoseconds, bool wakes) {
  reducer->sleepers += wakes;
  if (nanoseconds == 0)
    pthread_cond_wait(&reducer->work, &reducer->mutex);
  else
    ring_platform_condition_wait_ns(&reducer->work, &reducer->mutex, nanoseconds);
  reducer->sleepers -= wakes;
}

/* ---- The thread --------------------------------------------------------------------------- */

int64_t ring_driver_tick(const ring_reducer *reducer) {
  uint64_t least = (uint64_t)(reducer->comm->call_timeout * 1e9);
  uint64_t stall = reducer->stall.timeout;
  if (stall > 0 && stall < least) least = stall;
  if (reducer->negotiation.size == 1) return 0;
  least /= DRIVER_TICKS * DRIVER_TICK_LEAST;
  return least == 0 ? 1 : least > INT32_MAX ? INT32_MAX : (int64_t)least;
}

/* Nanoseconds until an idle rank enters a cycle; UINT64_MAX: it does not. */
static uint64_t driver_until_tick(const ring_reducer *reducer) {
  bool ends = reducer->closed || reducer->broken || atomic_load(&reducer->aborts) ||
              reducer->failure.status != RING_OK;
  if (reducer->tick == 0 || ends) return UINT64_MAX;
  uint64_t since = ring_platform_now() - reducer->ticked;
  return since < reducer->tick ? reducer->tick - since : 0;
}

/* How long the thread of an idle reducer sleeps; 0: until it is woken. */
static uint64_t driver_nap(const ring_reducer *reducer) {
  uint64_t rest = driver_until_tick(reducer);
  if (rest == UINT64_MAX) return 0;
  return rest > 0 && !reducer->driving ? rest : DRIVER_DOZE;
}

/* How long the thread sleeps before it runs a cycle. */
static uint64_t driver_doze(const ring_reducer *reducer) {
  uint64_t rest = driver_rest(reducer), doze = reducer->cycle_time;
  if (reducer->driving && doze < DRIVER_DOZE) return DRIVER_DOZE;
  return rest > doze ? rest : doze;
}

/* The thread of an idle reducer sleeps until a submission wakes it. It is idle when nothing was submitted
 * since it last looked: so a thread that submits and waits in turn does not wake it each time. */
static void *driver_main(void *arg) {
  ring_reducer *reducer = arg;
  pthread_mutex_lock(&reducer->mutex);
  while (!reducer->stops) {
    bool idle = !driver_is_busy(reducer) && reducer->seen == reducer->submitted;
    uint64_t doze = idle ? driver_nap(reducer) : driver_doze(reducer);
    reducer->seen = reducer->submitted;
    if (idle || doze > 0) driver_sleep(reducer, doze, idle || doze > reducer->cycle_time);
    if (reducer->stops || reducer->driving) continue;
    bool due = !idle && driver_is_busy(reducer) && driver_rest(reducer) == 0;
    if (due || driver_until_tick(reducer) == 0) driver_turn(reducer, false);
  }
  pthread_mutex_unlock(&reducer->mutex);
  return NULL;
}

int ring_driver_start(ring_reducer *reducer) {
  ring_comm *comm = reducer->comm;
  reducer->interrupt = comm->interrupt;
  reducer->interrupt_arg = comm->interrupt_arg;
  reducer->log = comm->alarm.log;
  reducer->log_arg = comm->alarm.log_arg;
  reducer->stall.warn_after = comm->alarm.log == NULL ? 0 : comm->alarm.after;
  reducer->stall.log = driver_keep;
  reducer->stall.log_arg = reducer;
  comm->interrupt = driver_interrupt;
  comm->interrupt_arg = reducer;
  if (comm->alarm.log != NULL) comm->alarm.log = driver_log;
  comm->alarm.log_arg = reducer;
  int code = ring_platform_thread(&reducer->thread, driver_main, reducer);
  reducer->threaded = code == 0;
  return code;
}

void ring_driver_stop(ring_reducer *reducer) {
  if (!reducer->threaded) return;
  pthread_mutex_lock(&reducer->mutex);
  reducer->stops = true;
  pthread_cond_broadcast(&reducer->work);
  pthread_mutex_unlock(&reducer->mutex);
  pthread_join(reducer->thread, NULL);
  reducer->threaded = false;
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* Called with the mutex, which is released meanwhile. */
static void driver_ask(ring_reducer *reducer) {
  pthread_mutex_unlock(&reducer->mutex);
  bool ends = reducer->interrupt(reducer->interrupt_arg) != 0;
  pthread_mutex_lock(&reducer->mutex);
  if (!ends) return;
  char reason[128];
  snprintf(reason, sizeof reason, "rank %d was interrupted while it waited for the reducer",
           reducer->negotiation.rank);
  ring_driver_abort(reducer, reason);
}

/* Until a cycle has ended or the rest before the next one is over. */
static void driver_wait_once(ring_reducer *reducer) {
  uint64_t rest = driver_rest(reducer);
  if (!reducer->driving && driver_is_busy(reducer)) {
    if (rest == 0)
      driver_turn(reducer, true);
    else
      driver_sleep(reducer, rest, true);
    return;
  }
  reducer->waiters++;
  ring_platform_condition_wait_ns(&reducer->changed, &reducer->mutex, DRIVER_SLICE);
  reducer->waiters--;
}

/* A closing rank waits on after the failure of its submissions, for the other ranks. */
void ring_driver_wait(ring_reducer *reducer, ring_driver_until_fn until, const void *arg) {
  uint64_t asked = 0;
  while (!until(reducer, arg)) {
    driver_wait_once(reducer);
    driver_deliver(reducer);
    if (reducer->interrupt == NULL || until(reducer, arg)) continue;
    uint64_t now = ring_platform_now();
    if (asked == 0) asked = now;
    if (now - asked < DRIVER_SLICE) continue;
    asked = now;
    driver_ask(reducer);
  }
}
