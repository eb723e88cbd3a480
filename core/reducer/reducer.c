/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of sparkring_reducer.h but for the open: submissions, waits, joins, ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/comm_state.h"
#include "base/error.h"
#include "base/platform.h"
#include "reducer/opening.h"
#include "reducer/operands.h"

/* Why the last call of this thread on a reducer has failed. */
static _Thread_local ring_error reducer_error = {.rank = -1};

const ring_error *ring_reducer_error(const ring_reducer *reducer) {
  (void)reducer;
  return &reducer_error;
}

static bool reducer_is_mine(const ring_reducer *reducer) {
  return ring_progress_is_mine(&reducer->progress);
}

static ring_status reducer_invalid(const char *problem) {
  return ring_error_set(&reducer_error, RING_INVALID, -1, 0, "%s", problem);
}

/* RING_OK where the reducer may be used by this process. */
static ring_status reducer_check(const ring_reducer *reducer) {
  if (reducer == NULL) return reducer_invalid("reducer is NULL");
  if (!reducer_is_mine(reducer))
    return reducer_invalid("this reducer belongs to the process that forked this one");
  return RING_OK;
}

/* ---- Submitting ---------------------------------------------------------------------------- */

/* Why this rank may not submit now. Called with the mutex. */
static ring_status reducer_check_state(const ring_reducer *reducer, const ring_entry *entry,
                                       const char *name) {
  if (reducer->failure.status != RING_OK) {
    reducer_error = reducer->failure;
    return reducer_error.status;
  }
  const char *problem = NULL;
  if (reducer->negotiation.mine == MEMBER_CLOSING || reducer->closed)
    problem = "the reducer is closed";
  else if (reducer->joins)
    problem = "this rank has joined, and submits nothing until all ranks have";
  else if (entry == NULL)
    return ring_error_no_memory(&reducer_error, reducer->negotiation.rank);
  else if (entry->mine != NULL || entry->deferred != NULL)
    problem = "this name is in flight on this rank: wait for it first";
  if (problem == NULL) return RING_OK;
  return ring_error_set(&reducer_error, RING_INVALID, reducer->negotiation.rank, 0,
                        "\"%.200s\": %s", name, problem);
}

/* Puts a submission where negotiation finds it. The failure of a name is also the result of a rank that
 * submits it later. Called with the mutex. False without memory. */
static bool reducer_place(ring_reducer *reducer, ring_entry *entry, ring_submission *submission) {
  ring_cache *cache = &reducer->negotiation.cache;
  if (entry == NULL) return false;
  if (entry->state == ENTRY_FAILED && !entry->consumed) {
    ring_error error;
    ring_error_set(&error, RING_MISMATCH, -1, 0, "%s",
                   entry->failure != NULL ? entry->failure : "out of memory for the reason");
    ring_cache_withdraw(cache, entry);
    ring_submission_complete(submission, &error);
    return true;
  }
  if (entry->state == ENTRY_FAILED)
    entry->deferred = submission;
  else if (!ring_cache_submit(cache, entry, submission))
    return false;
  reducer->in_flight++;
  reducer->submitted++;
  reducer->pause = 0;
  progress_wake(&reducer->progress);
  return true;
}

/* Called with the mutex. */
static ring_status reducer_submit(ring_reducer *reducer, const ring_operation *operation,
                                  ring_cuda_event mark, ring_submission **out) {
  bool usable = reducer->failure.status == RING_OK;
  ring_entry *entry = !usable ? NULL
                              : ring_cache_get(&reducer->negotiation.cache, operation->name,
                                               strlen(operation->name));
  ring_status status = reducer_check_state(reducer, entry, operation->name);
  if (status != RING_OK) return status;
  ring_submission *spare = reducer->spare;
  if (spare != NULL) reducer->spare = spare->next;
  ring_submission *made = ring_submission_make(spare, operation, reducer->negotiation.size);
  if (made == NULL || !reducer_place(reducer, entry, made)) {
    free(made);
    return ring_error_no_memory(&reducer_error, reducer->negotiation.rank);
  }
  made->reducer = reducer;
  made->mark = mark;
  reducer->references++;
  *out = made;
  return RING_OK;
}

ring_status ring_reducer_submit(ring_reducer *reducer, const ring_operation *operation,
                                ring_submission **submission) {
  if (submission == NULL || operation == NULL)
    return reducer_invalid("submit: an argument is NULL");
  *submission = NULL;
  if (operation->struct_size != sizeof *operation)
    return reducer_invalid("submit: begin the operation with RING_OPERATION_INIT");
  ring_status status = reducer_check(reducer);
  if (status != RING_OK) return status;
  int rank = reducer->negotiation.rank;
  ring_cuda_event mark = NULL;
  status = ring_tensor_check(operation, rank, reducer->negotiation.size, &reducer_error);
  if (status == RING_OK) status = ring_reducer_check_operands(operation, rank, &reducer_error);
  if (status == RING_OK && operation->memory == RING_MEMORY_GPU)
    status = ring_reducer_gpu_take(&reducer->gpu, operation, &mark, &reducer_error);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  status = reducer_submit(reducer, operation, mark, submission);
  reducer_unlock(reducer);
  if (status != RING_OK) ring_side_stream_forget(&reducer->gpu.side, mark);
  return status;
}

/* ---- Joining and ending ------------------------------------------------------------------- */

static bool reducer_is_drained(const ring_reducer *reducer, const void *unused) {
  (void)unused;
  return reducer->in_flight == 0 || reducer->failure.status != RING_OK;
}

static bool reducer_has_joined(const ring_reducer *reducer, const void *joins) {
  return reducer->negotiation.joins > *(const uint64_t *)joins ||
         reducer->failure.status != RING_OK;
}

static bool reducer_is_closed(const ring_reducer *reducer, const void *unused) {
  (void)unused;
  return reducer->closed || reducer->broken;
}

/* Tells the other ranks that this rank submits nothing more. Called with the mutex. */
static void reducer_announce(ring_reducer *reducer, ring_member member) {
  reducer->negotiation.mine = member;
  reducer->submitted++;
  reducer->pause = 0;
  progress_wake(&reducer->progress);
}

/* Called with the mutex. */
static ring_status reducer_join(ring_reducer *reducer, int *last) {
  uint64_t joins = reducer->negotiation.joins;
  if (reducer->joins || reducer->negotiation.mine != MEMBER_ACTIVE)
    return reducer_invalid("join: this rank has joined or closed already");
  reducer->joins = true;
  ring_cycle_await(reducer, reducer_is_drained, NULL);
  if (reducer->failure.status == RING_OK) {
    reducer_announce(reducer, MEMBER_JOINED);
    ring_cycle_await(reducer, reducer_has_joined, &joins);
  }
  reducer->joins = false;
  *last = reducer->negotiation.last_joined;
  if (reducer->negotiation.joins > joins) return RING_OK;
  reducer_error = reducer->failure;
  return reducer_error.status;
}

ring_status ring_reducer_join(ring_reducer *reducer, int *last) {
  int ignored;
  ring_status status = reducer_check(reducer);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  status = reducer_join(reducer, last != NULL ? last : &ignored);
  reducer_unlock(reducer);
  return status;
}

ring_status ring_reducer_leave(ring_reducer *reducer) {
  ring_status status = reducer_check(reducer);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  if (reducer->joins || (reducer->in_flight > 0 && reducer->failure.status == RING_OK))
    status = reducer_invalid("leave: this rank has joined, or has submissions in flight");
  if (status == RING_OK && reducer->negotiation.mine == MEMBER_ACTIVE) {
    reducer->leaves = true;
    reducer_announce(reducer, MEMBER_CLOSING);
  }
  reducer_unlock(reducer);
  return status;
}

/* Called with the mutex. */
static ring_status reducer_close(ring_reducer *reducer) {
  bool leaves = reducer->leaves;
  reducer->leaves = false; /* a second close is refused */
  if (!leaves && (reducer->negotiation.mine != MEMBER_ACTIVE || reducer->joins || reducer->closed))
    return reducer_invalid("close: the reducer is closed, or this rank has joined");
  ring_cycle_await(reducer, reducer_is_drained, NULL);
  if (!leaves) reducer_announce(reducer, MEMBER_CLOSING);
  ring_cycle_await(reducer, reducer_is_closed, NULL);
  if (!reducer->broken) return RING_OK;
  reducer_error = reducer->failure;
  return reducer_error.status;
}

ring_status ring_reducer_close(ring_reducer *reducer) {
  ring_status status = reducer_check(reducer);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  status = reducer_close(reducer);
  reducer_unlock(reducer);
  if (status != RING_OK) return status;
  ring_cycle_stop(reducer);
  status = ring_reducer_gpu_close(&reducer->gpu, &reducer_error);
  if (status != RING_OK) return status;
  status = ring_comm_close(reducer->comm);
  if (status != RING_OK) reducer_error = *ring_comm_error(reducer->comm);
  return status;
}

void ring_reducer_abort(ring_reducer *reducer, const char *reason) {
  if (reducer_check(reducer) != RING_OK) return;
  reducer_lock(reducer);
  if (!reducer->closed)
    ring_cycle_abort(reducer, reason != NULL ? reason : "the reducer was aborted");
  reducer_unlock(reducer);
}

/* Frees the reducer with the last reference. Called with the mutex, which is released. */
static void reducer_drop(ring_reducer *reducer) {
  bool last = --reducer->references == 0;
  reducer_unlock(reducer);
  if (last) ring_reducer_release(reducer);
}

void ring_reducer_free(ring_reducer *reducer) {
  if (reducer == NULL) return;
  if (!reducer_is_mine(
          reducer)) { /* a forked child: the mutex may be locked, and submissions may remain */
    ring_reducer_gpu_free(&reducer->gpu);
    ring_comm_free(reducer->comm);
    reducer->comm = NULL;
    return;
  }
  ring_reducer_abort(reducer, "a rank has freed its reducer without closing it");
  ring_cycle_stop(reducer);
  ring_reducer_gpu_free(&reducer->gpu);
  ring_comm_free(reducer->comm);
  reducer_lock(reducer);
  reducer->comm = NULL;
  reducer_drop(reducer);
}

/* ---- Submissions -------------------------------------------------------------------------- */

static bool reducer_is_done(const ring_reducer *reducer, const void *submission) {
  (void)reducer;
  return submission_is_done(submission);
}

ring_status ring_submission_test(ring_submission *submission, int *done) {
  if (submission == NULL || done == NULL) return reducer_invalid("test: an argument is NULL");
  *done = submission_is_done(submission);
  return *done ? submission->status : RING_OK;
}

ring_status ring_submission_wait(ring_submission *submission) {
  if (submission == NULL) return reducer_invalid("wait: submission is NULL");
  if (submission_is_done(submission)) return submission->status;
  ring_reducer *reducer = submission->reducer;
  ring_status status = reducer_check(reducer);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  ring_cycle_await(reducer, reducer_is_done, submission);
  reducer_unlock(reducer);
  return submission->status;
}

void ring_submission_free(ring_submission *submission) {
  if (submission == NULL) return;
  ring_reducer *reducer = submission->reducer;
  if (!reducer_is_mine(reducer)) {
    ring_submission_clear(submission);
    free(submission);
    return;
  }
  ring_submission_wait(submission);
  ring_submission_clear(submission);
  ring_side_stream_forget(&reducer->gpu.side, submission->mark);
  reducer_lock(reducer);
  submission->next = reducer->spare;
  reducer->spare = submission;
  reducer_drop(reducer);
}

/* ---- Counters ----------------------------------------------------------------------------- */

void ring_reducer_counters_read(ring_reducer *reducer, ring_reducer_counters *counters) {
  *counters = (ring_reducer_counters){0};
  if (reducer_check(reducer) != RING_OK) return;
  reducer_lock(reducer);
  const ring_negotiation *negotiation = &reducer->negotiation;
  *counters = (ring_reducer_counters){.cycles = negotiation->cycles,
                                      .negotiations = negotiation->negotiations,
                                      .operations = reducer->operations,
                                      .runs = reducer->runs,
                                      .gpu_runs = reducer->gpu_runs,
                                      .cached = negotiation->cache.used,
                                      .threshold = reducer->threshold,
                                      .cycle_time = (double)reducer->cycle_time / 1e9};
  reducer_unlock(reducer);
}

ring_status ring_reducer_explain_device(ring_reducer *reducer,
                                        ring_device_explanation *explanation) {
  ring_status status = reducer_check(reducer);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  ring_device *device = reducer->gpu_runs > 0 ? reducer->gpu.device : NULL;
  status = device != NULL ? ring_device_explain(device, explanation)
                          : reducer_invalid("explain: the reducer has no device yet");
  if (device != NULL && status != RING_OK) reducer_error = *ring_device_error(device);
  reducer_unlock(reducer);
  return status;
}
