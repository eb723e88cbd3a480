/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native.h"

#include "base/dtype.h"
#include "base/error.h"
#include "engine/detector/failure.h"
#include "engine/detector/failure_broadcast.h"
#include "shm/shm_failure.h"
#include "shm_collectives/shm_collective.h"

static ring_native *native_of(ring_backend *backend) {
  return (ring_native *)backend;
}

/* ---- Choosing ----------------------------------------------------------------------------- */

/* Whether the call uses the memory of the host: all ranks share it, and no rule of the user names an
 * algorithm for the call. */
static bool native_shares(const ring_native *native, const ring_outline *outline) {
  const ring_selector *selector = &native->plans.selector;
  bool unfit;
  if (!ring_shm_collective_serves(native->shm, outline)) return false;
  if (selector->rules.count == 0) return true;
  uint64_t bytes = ring_selection_bytes(&outline->call, outline->size);
  return ring_rules_find(&selector->rules, &outline->call, selector->topology, bytes, &unfit) ==
         NULL;
}

static bool native_explain(const ring_backend *backend, const ring_outline *outline,
                           ring_backend_way *way) {
  if (!native_shares((const ring_native *)backend, outline)) return false;
  way->algorithm = ring_shm_collective_way(outline, &way->cost);
  way->reason = "shared memory";
  way->traffic = "no links and no messages: the ranks read and write the memory they share";
  return true;
}

/* ---- Running ------------------------------------------------------------------------------ */

static const ring_call *native_signature(const ring_backend_call *call) {
  return call->signature != NULL ? call->signature : &call->outline.call;
}

/* Plans a call and runs it over links. */
static ring_status native_run_schedule(ring_native *native, const ring_backend_call *call,
                                       ring_task *task, ring_error *error) {
  ring_shm *shm = native->shm;
  task->call = *native_signature(call);
  bool announces = shm->arena != NULL && !ring_collective_opens(task->call.collective);
  ring_status status = ring_plan_find(&native->plans, &call->outline, &task->schedule);
  if (status != RING_OK) {
    task->schedule = &ring_schedule_empty; /* not half a plan */
    native->engine.lanes = 0;
    int rank = call->outline.rank;
    return ring_error_set(error, status, rank, 0,
                          "rank %d is out of memory: it cannot plan the call", rank);
  }
  if (announces) ring_shm_announce(shm, &task->call);
  status = ring_engine_run(&native->engine, task, error);
  if (status == RING_OK && announces) ring_shm_retire(shm);
  /* A failure that ranks of this host have recorded is nearer to the cause than a broken link. */
  if (status != RING_OK) ring_shm_failed(shm, task->wait, error);
  return status == RING_OK ? RING_OK : error->status;
}

static ring_status native_run(ring_backend *backend, const ring_backend_call *call,
                              ring_error *error) {
  ring_native *native = native_of(backend);
  const ring_call *asked = &call->outline.call;
  ring_dtype dtype = (ring_dtype)asked->dtype;
  bool reduces = ring_collective_reduces(asked->collective);
  ring_task task; /* task.call is set where it is needed: the copy takes nanoseconds */
  task.schedule = NULL;
  task.input = call->input;
  task.output = call->output;
  task.output_count = call->output_count;
  task.dtype = asked->dtype;
  task.op = asked->op;
  task.element_size = ring_dtype_size(dtype);
  task.wide_size = reduces ? ring_dtype_wide_size(dtype) : task.element_size;
  task.divide = reduces && asked->op == RING_AVG;
  task.wait = call->wait;
  task.description = native->shm->description = call->description;
  ring_status status = RING_UNSUPPORTED;
  if (native_shares(native, &call->outline))
    status =
        ring_shm_collective_run(native->shm, &task, &call->outline, native_signature(call), error);
  if (status == RING_UNSUPPORTED) status = native_run_schedule(native, call, &task, error);
  if (status != RING_OK && task.schedule != NULL) native->failed = task;
  return status;
}

/* ---- Failing and closing ------------------------------------------------------------------ */

void ring_native_set_opening(ring_native *native) {
  native->failed =
      (ring_task){.schedule = &ring_schedule_empty, .call.collective = RING_COLLECTIVE_OPEN};
  native->engine.lanes = 0;
}

bool ring_native_peer_failed(ring_native *native, const ring_call *call, ring_error *error) {
  return ring_shm_failed(native->shm, NULL, error) ||
         ring_failure_await_report(&native->engine, call, error);
}

static void native_fail(ring_backend *backend, const ring_error *error) {
  ring_native *native = native_of(backend);
  ring_shm_fail(native->shm, error);
  ring_failure_broadcast(&native->engine, native->failed.schedule != NULL ? &native->failed : NULL,
                         error);
}

static void native_close(ring_backend *backend, bool torn) {
  ring_native *native = native_of(backend);
  if (torn) return;
  ring_engine_fini(&native->engine);
  ring_plans_free(&native->plans);
}

static const ring_backend_table native_table = {.name = "native",
                                                .run = native_run,
                                                .explain = native_explain,
                                                .fail = native_fail,
                                                .close = native_close};

void ring_native_init(ring_native *native, ring_peers *peers, ring_shm *shm) {
  native->base.table = &native_table;
  native->shm = shm;
  native->engine.peers = peers;
  native->engine.shm = shm;
  native->engine.bell = -1;
}
