/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/opening.h"

#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "api/comm_state.h"
#include "base/error.h"
#include "base/platform.h"

#define REDUCER_THRESHOLD ((size_t)128 << 20)
#define REDUCER_CYCLE_TIME 0.001
#define REDUCER_CYCLE_MOST (1e-9 * AUTOTUNE_CYCLE_MOST)
enum { REDUCER_CAPACITY = 1024 };

void ring_reducer_release(ring_reducer *reducer) {
  ring_submission *next;
  ring_negotiation_destroy(&reducer->negotiation);
  ring_execution_destroy(&reducer->execution);
  ring_reducer_gpu_destroy(&reducer->gpu);
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
  else if (options->device != NULL && options->device->struct_size != sizeof *options->device)
    problem = "begin the options of the device with RING_DEVICE_OPTIONS_INIT";
  else if (options->device != NULL &&
           (options->device->path < RING_DEVICE_AUTO || options->device->path > RING_DEVICE_HOST))
    problem = "the path of the device does not exist";
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
  bool enough = ring_reducer_gpu_init(&reducer->gpu, child, options->device);
  ring_status status =
      ring_negotiation_init(&reducer->negotiation, child, &reducer->progress.mutex, capacity);
  enough = ring_execution_init(&reducer->execution, &reducer->negotiation, &reducer->gpu) && enough;
  if (status == RING_OK && enough && ring_cycle_start(reducer) == 0) return reducer;
  ring_reducer_release(reducer);
  return NULL;
}

/* The number that a rank sends of its reducer: -1 if there is none; else an errno, or 0, in the lower half and the tick
 * in the upper half. */
static int64_t reducer_state(const ring_reducer *reducer) {
  return reducer == NULL ? -1 : ring_cycle_tick(reducer) * (INT64_C(1) << 32) + reducer->log_error;
}

/* Sets the shortest tick of the states that the ranks have sent. */
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
  if (made != NULL) ring_reducer_release(made);
  return status;
}
