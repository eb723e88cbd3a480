/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of sparkring_reducer.h: life, submissions, waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/comm_state.h"
#include "base/error.h"
#include "base/platform.h"
#include "reducer/cycle.h"

#define REDUCER_THRESHOLD ((size_t)128 << 20)
#define REDUCER_CYCLE_TIME 0.001
#define REDUCER_CYCLE_MOST (1e-9 * AUTOTUNE_CYCLE_MOST)
enum { REDUCER_CAPACITY = 1024 };

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

/* ---- Opening ------------------------------------------------------------------------------ */

static void reducer_release(ring_reducer *reducer) {
  ring_submission *next;
  ring_negotiation_destroy(&reducer->negotiation);
  ring_execution_destroy(&reducer->execution);
  for (ring_submission *spare = reducer->spare; spare != NULL; spare = next) {
    next = spare->next;
    free(spare);
  }
  ring_autotune_end(&reducer->autotune);
  free(reducer->stall.gathered.bytes);
  free(reducer->items);
  ring_progress_destroy(&reducer->progress);
  free(reducer);
}

static ring_status reducer_check_options(ring_comm *comm, const ring_reducer_options *options) {
  const char *problem = NULL;
  double cycle = options->cycle_time, stall = options->stall_timeout;
  if (options->struct_size != sizeof *options)
    problem = "begin the options with RING_REDUCER_OPTIONS_INIT";
  else if (cycle != RING_NEVER && !(cycle >= 0 && cycle <= REDUCER_CYCLE_MOST))
    problem = "cycle_time must be 0 to 0.005 seconds or RING_NEVER";
  else if (options->autotune_log != NULL && options->autotune != RING_ON)
    problem = "autotune_log is given, and autotune is not on";
  else if (stall != RING_NEVER && !(stall >= 0 && stall < 1e9))
    problem = "stall_timeout must be 0 or more seconds or RING_NEVER";
  if (problem == NULL) return RING_OK;
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0, "reducer: %s", problem);
}

/* A reducer on its own communicator; NULL without memory or a thread. */
static ring_reducer *reducer_make(ring_comm *child, const ring_reducer_options *options) {
  ring_reducer *reducer = calloc(1, sizeof *reducer);
  if (reducer == NULL || ring_cycle_init(reducer) != 0) {
    free(reducer);
    return NULL;
  }
  double cycle = options->cycle_time == 0            ? REDUCER_CYCLE_TIME
                 : options->cycle_time == RING_NEVER ? 0
                                                     : options->cycle_time;
  reducer->references = 1;
  reducer->comm = child;
  reducer->threshold = options->threshold > 0 ? options->threshold : REDUCER_THRESHOLD;
  reducer->cycle_time = (uint64_t)(cycle * 1e9);
  double stall = options->stall_timeout == 0 ? child->call_timeout : options->stall_timeout;
  reducer->stall.timeout = stall == RING_NEVER ? 0 : (uint64_t)(stall * 1e9);
  ring_autotune_pair pair = {reducer->threshold, reducer->cycle_time};
  if (options->autotune == RING_ON && ring_comm_rank(child) == 0)
    reducer->log_error = ring_autotune_begin(&reducer->autotune, pair, options->autotune_log);
  size_t capacity = options->cache_capacity > 0 ? options->cache_capacity : REDUCER_CAPACITY;
  ring_status status =
      ring_negotiation_init(&reducer->negotiation, child, &reducer->progress.mutex, capacity);
  if (status == RING_OK && ring_execution_init(&reducer->execution, &reducer->negotiation) &&
      ring_cycle_start(reducer) == 0)
    return reducer;
  reducer_release(reducer);
  return NULL;
}

/* The number that a rank sends of its reducer: -1 if there is none; else an errno, or 0, in the lower half and the tick
 * in the upper half. */
static int64_t reducer_state(const ring_reducer *reducer) {
  return reducer == NULL ? -1 : ring_cycle_tick(reducer) * (INT64_C(1) << 32) + reducer->log_error;
}

/* Sets the shortest tick of the states that the ranks have told. */
static void reducer_set_tick(ring_reducer *reducer, const int64_t *all, int size) {
  int64_t least = 0;
  for (int rank = 0; rank < size; rank++) {
    int64_t tick = all[3 * (ptrdiff_t)rank + 2] >> 32;
    if (tick > 0 && (least == 0 || tick < least)) least = tick;
  }
  reducer_lock(reducer);
  reducer->tick = (uint64_t)least * 1000000;
  reducer->ticked = ring_platform_now();
  progress_wake(&reducer->progress);
  reducer_unlock(reducer);
}

/* Whether all ranks have a reducer, with the same options. */
static ring_status reducer_agree(ring_comm *comm, ring_comm *child, ring_reducer *reducer,
                                 const ring_reducer_options *options) {
  int size = ring_comm_size(child);
  int64_t mine[3] = {(int64_t)options->threshold, (int64_t)options->cache_capacity,
                     reducer_state(reducer)};
  int64_t *all = calloc((size_t)size, sizeof mine);
  if (all == NULL) {
    ring_comm_abort(child, "out of memory for a reducer");
    return ring_error_set(&comm->error, RING_NO_MEMORY, comm->peers.rank, 0,
                          "rank %d is out of memory for a reducer", comm->peers.rank);
  }
  ring_status status = ring_allgather(child, mine, all, 3, RING_INT64);
  if (status != RING_OK) comm->error = *ring_comm_error(child);
  for (int rank = 0; status == RING_OK && rank < size; rank++) {
    const int64_t *its = all + 3 * (ptrdiff_t)rank;
    int code = (int)(its[2] & INT32_MAX);
    if (its[2] < 0)
      status = ring_error_set(&comm->error, RING_SYSTEM, rank, 0,
                              "rank %d (%s) has no memory or no thread for a reducer", rank,
                              ring_comm_name(child, rank));
    else if (code > 0)
      status = ring_error_set(&comm->error, RING_SYSTEM, rank, code,
                              "rank %d (%s) cannot write the file of autotune_log", rank,
                              ring_comm_name(child, rank));
    else if (memcmp(its, all, 2 * sizeof *its) != 0)
      status =
          ring_error_set(&comm->error, RING_MISMATCH, rank, 0,
                         "the options of the reducer differ between rank 0 and rank %d (%s): pass "
                         "the same threshold and cache_capacity on all ranks",
                         rank, ring_comm_name(child, rank));
  }
  if (status == RING_OK && reducer != NULL) reducer_set_tick(reducer, all, size);
  free(all);
  return status;
}

ring_status ring_reducer_open(ring_comm *comm, const ring_reducer_options *options,
                              ring_reducer **reducer) {
  static const ring_reducer_options defaults = RING_REDUCER_OPTIONS_INIT;
  ring_comm *child;
  if (options == NULL) options = &defaults;
  if (reducer == NULL || comm == NULL) return RING_INVALID;
  *reducer = NULL;
  ring_status status = reducer_check_options(comm, options);
  if (status == RING_OK) status = ring_comm_split(comm, 0, 0, &child);
  if (status != RING_OK) return status;
  ring_reducer *made = reducer_make(child, options);
  status = reducer_agree(comm, child, made, options);
  if (status == RING_OK) {
    *reducer = made;
    return RING_OK;
  }
  if (made != NULL) ring_cycle_stop(made);
  ring_comm_close(child);
  ring_comm_free(child);
  if (made != NULL) reducer_release(made);
  return status;
}

/* ---- Submitting --------------------------------------------------------------------------- */

static bool reducer_is_bad_memory(const void *memory, uint64_t elements, size_t width) {
  return elements > 0 && (memory == NULL || (uintptr_t)memory % width != 0);
}

/* Checks the memory of one buffer, which the collective would refuse on this rank alone. */
static ring_status reducer_check_buffer(const ring_operation *operation, ring_dtype dtype,
                                        const void *input, const void *output, uint64_t elements) {
  size_t width = ring_dtype_size(dtype);
  bool own = operation->kind >= RING_OPERATION_REDUCE_SCATTER &&
             operation->kind != RING_OPERATION_BROADCAST;
  uintptr_t in = (uintptr_t)input, out = (uintptr_t)output, bytes = elements * width;
  const char *problem = NULL;
  if (reducer_is_bad_memory(input, elements, width))
    problem = "input is NULL or not aligned for its dtype";
  else if (!own && reducer_is_bad_memory(output, elements, width))
    problem = "output is NULL or not aligned for its dtype";
  else if (!own && in != out && in < out + bytes && out < in + bytes)
    problem = "input overlaps output without being in place";
  if (problem == NULL) return RING_OK;
  return ring_error_set(&reducer_error, RING_INVALID, -1, 0, "\"%.200s\": %s", operation->name,
                        problem);
}

static ring_status reducer_check_memory(const ring_operation *operation, int rank) {
  ring_status status = RING_OK;
  uint64_t elements = 1;
  if (operation->kind == RING_OPERATION_BARRIER) return RING_OK;
  for (size_t i = 0; i < operation->buffer_count && status == RING_OK &&
                     operation->kind == RING_OPERATION_ALLREDUCE_GROUP;
       i++) {
    const ring_buffer *buffer = &operation->buffers[i];
    ring_dtype dtype = operation->dtypes != NULL ? operation->dtypes[i] : operation->dtype;
    status = reducer_check_buffer(operation, dtype, buffer->input, buffer->output, buffer->count);
  }
  if (operation->kind == RING_OPERATION_ALLREDUCE_GROUP) return status;
  for (int i = 0; i < operation->dimensions; i++) elements *= (uint64_t)operation->shape[i];
  const void *input = operation->input, *output = operation->output;
  bool broadcast = operation->kind == RING_OPERATION_BROADCAST;
  if (broadcast && operation->root != rank) input = output;
  if (broadcast && output == NULL) output = input;
  return reducer_check_buffer(operation, operation->dtype, input, output, elements);
}

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
                                  ring_submission **out) {
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
  status = ring_tensor_check(operation, rank, reducer->negotiation.size, &reducer_error);
  if (status == RING_OK) status = reducer_check_memory(operation, rank);
  if (status != RING_OK) return status;
  reducer_lock(reducer);
  status = reducer_submit(reducer, operation, submission);
  reducer_unlock(reducer);
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
  if (last) reducer_release(reducer);
}

void ring_reducer_free(ring_reducer *reducer) {
  if (reducer == NULL) return;
  if (!reducer_is_mine(
          reducer)) { /* a forked child: the mutex may be locked, and submissions may remain */
    ring_comm_free(reducer->comm);
    reducer->comm = NULL;
    return;
  }
  ring_reducer_abort(reducer, "a rank has freed its reducer without closing it");
  ring_cycle_stop(reducer);
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
                                      .cached = negotiation->cache.used,
                                      .threshold = reducer->threshold,
                                      .cycle_time = (double)reducer->cycle_time / 1e9};
  reducer_unlock(reducer);
}
