/* SPDX-License-Identifier: Apache-2.0 */
#include "api/collective.h"

#include <string.h>

#include "api/fusion.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"
#include "engine/reduce.h"
#include "shm/shm_failure.h"
#include "shm_collectives/shm_collective.h"

#define COLLECTIVE_MOST ((uint64_t)PTRDIFF_MAX - 2 * RING_CHUNK_BYTES) /* bytes of a buffer */

/* ---- Checking ----------------------------------------------------------------------------- */

ring_status ring_collective_invalid(ring_comm *comm, uint8_t collective, const char *problem) {
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0, "%s: %s",
                        ring_collective_name(collective), problem);
}

static bool collective_overlaps(const collective_args *request, size_t size) {
  uintptr_t input = (uintptr_t)request->input, output = (uintptr_t)request->output;
  uintptr_t input_bytes = request->input_count * size, output_bytes = request->output_count * size;
  bool apart = input + input_bytes <= output || output + output_bytes <= input;
  if (apart) return false;
  return !request->in_place || input + request->in_at * size != output + request->out_at * size;
}

static ring_status collective_check_op(ring_comm *comm, const ring_call *call) {
  ring_op op = (ring_op)call->op;
  ring_dtype dtype = (ring_dtype)call->dtype;
  const char *name = ring_collective_name(call->collective);
  if (ring_op_allowed(op, dtype)) return RING_OK;
  if (!ring_op_valid(op))
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: %d is no op; see RING_OP_MAP", name, (int)op);
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                        "%s: op %s is for integers, not for %s", name, ring_op_name(op),
                        ring_dtype_name(dtype));
}

ring_status ring_collective_check(ring_comm *comm, const collective_args *request) {
  const ring_call *call = &request->outline.call;
  size_t size = ring_dtype_size((ring_dtype)call->dtype);
  if (size == 0)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: %d is no dtype; see RING_DTYPE_MAP",
                          ring_collective_name(call->collective), (int)call->dtype);
  uint64_t most =
      request->input_count > request->output_count ? request->input_count : request->output_count;
  if (most > COLLECTIVE_MOST / sizeof(double) &&
      most > COLLECTIVE_MOST / ring_dtype_wide_size((ring_dtype)call->dtype))
    return ring_collective_invalid(comm, call->collective,
                                   "the buffers would be larger than memory");
  if (request->input == NULL && request->input_count > 0)
    return ring_collective_invalid(comm, call->collective, "input is NULL but count is not 0");
  if (request->output == NULL && request->output_count > 0)
    return ring_collective_invalid(comm, call->collective, "output is NULL but count is not 0");
  if (collective_overlaps(request, size))
    return ring_collective_invalid(comm, call->collective,
                                   "input overlaps output without being in place");
  return RING_OK;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* With one rank nothing is reduced, but a truth value still has to become 0 or 1. */
static void collective_settle(const ring_comm *comm, const collective_args *request) {
  const ring_call *call = &request->outline.call;
  bool logical = call->op == RING_LAND || call->op == RING_LOR;
  if (comm->peers.size > 1 || !logical || !ring_collective_reduces(call->collective)) return;
  ring_reduction reduction = {.dtype = (ring_dtype)call->dtype, .op = (ring_op)call->op};
  ring_reduction_apply(&reduction, request->output, request->output, request->input,
                       request->output_count);
}

/* Plans a call and runs it over links. */
static ring_status collective_engage(ring_comm *comm, const ring_outline *outline,
                                     const ring_call *signature, ring_task *task,
                                     ring_error *error) {
  task->call = *signature;
  bool opens = ring_collective_opens(task->call.collective);
  bool shares = comm->shm.arena != NULL && !opens;
  ring_status status = ring_plan_find(&comm->plans, outline, &task->schedule);
  if (status != RING_OK) {
    task->schedule = &ring_schedule_empty; /* not half a plan */
    comm->engine.lanes = 0;
    return ring_error_set(error, status, comm->peers.rank, 0,
                          "rank %d is out of memory: it cannot plan the call", comm->peers.rank);
  }
  if (shares) ring_shm_announce(&comm->shm, &task->call);
  status = ring_engine_run(&comm->engine, task, error);
  if (status == RING_OK && shares) ring_shm_retire(&comm->shm);
  /* What the ranks of this host know is nearer to the cause than a link that broke. */
  if (status != RING_OK) ring_shm_failed(&comm->shm, task->wait, error);
  return status == RING_OK ? RING_OK : error->status;
}

bool ring_collective_is_local(const ring_comm *comm, const ring_outline *outline) {
  const ring_rules *rules = &comm->plans.selector.rules;
  bool unfit;
  if (!ring_shm_collective_serves(&comm->shm, outline)) return false;
  if (rules->count == 0) return true;
  uint64_t bytes = ring_selection_bytes(&outline->call, outline->size);
  return ring_rules_find(rules, &outline->call, &comm->topology, bytes, &unfit) == NULL;
}

ring_status ring_collective_run(ring_comm *comm, collective_args *request, ring_wait *wait) {
  ring_outline *outline = &request->outline;
  if (outline->call.collective == RING_COLLECTIVE_ALLREDUCE_GROUP)
    return ring_fusion_run(comm, request, wait);
  ring_dtype dtype = (ring_dtype)outline->call.dtype;
  bool reduces = ring_collective_reduces(outline->call.collective);
  outline->rank = comm->peers.rank;
  outline->size = comm->peers.size;
  outline->nodes = comm->topology.nodes;
  const ring_call *signature = request->signature != NULL ? request->signature : &outline->call;
  ring_task task; /* its call is set where it is needed: to copy it takes nanoseconds */
  task.schedule = NULL;
  task.input = request->input;
  task.output = request->output;
  task.output_count = request->output_count;
  task.element_size = ring_dtype_size(dtype);
  task.wide_size = reduces ? ring_dtype_wide_size(dtype) : task.element_size;
  task.divide = reduces && outline->call.op == RING_AVG;
  task.wait = wait;
  task.description = comm->shm.description = request->description;
  ring_error error;
  ring_status status = RING_UNSUPPORTED;
  if (ring_collective_is_local(comm, outline))
    status = ring_shm_collective_run(&comm->shm, &task, outline, signature, &error);
  if (status == RING_UNSUPPORTED)
    status = collective_engage(comm, outline, signature, &task, &error);
  if (status == RING_OK)
    collective_settle(comm, request);
  else
    ring_comm_break(comm, task.schedule != NULL ? &task : NULL, &error);
  return status;
}

/* Makes the description of the array, if it has one, a part of the call. A message has none: both of
 * its ends name a buffer of their own. */
static void collective_describe(ring_comm *comm, collective_args *request) {
  ring_call *call = &request->outline.call;
  request->description = NULL;
  if (comm->described == 0 || call->collective == RING_COLLECTIVE_MESSAGE) return;
  call->digest = bytes_digest(call->digest, comm->described);
  memcpy(request->store->description, comm->description, sizeof comm->description);
  request->description = request->store->description;
}

ring_status ring_collective_admit(ring_comm *comm, collective_args *request) {
  ring_call *call = &request->outline.call;
  collective_describe(comm, request);
  ring_status status = ring_collective_check(comm, request);
  if (status == RING_OK && ring_collective_reduces(call->collective))
    status = collective_check_op(comm, call);
  if (status != RING_OK) return status;
  if (call->collective == RING_COLLECTIVE_MESSAGE) {
    ring_messages *messages = &comm->peers.peer[request->outline.peer].messages;
    call->sequence = call->root == comm->peers.rank ? ++messages->sent : ++messages->received;
  } else {
    call->sequence = ++comm->sequence;
  }
  engine_counter_add(&comm->calls, 1);
  return RING_OK;
}

ring_status ring_collective_run_here(ring_comm *comm, collective_args *request) {
  ring_wait wait;
  comm_prepare_wait(comm, comm->call_timeout, &wait);
  ring_status status = ring_collective_run(comm, request, &wait);
  if (status != RING_OK) comm->error = comm->failure;
  return status;
}

ring_status ring_collective_meet(ring_comm *comm, ring_collective collective, ring_wait *wait) {
  collective_args request = {.outline.call = {.collective = (uint8_t)collective}};
  if (collective == RING_COLLECTIVE_CLOSE) request.outline.call.sequence = ++comm->sequence;
  if (collective == RING_COLLECTIVE_OPEN)
    request.outline.call.digest = bytes_digest(ring_selector_digest(&comm->plans.selector),
                                               (uint64_t)comm->peers.connections);
  return ring_collective_run(comm, &request, wait);
}

ring_status ring_collective_compare(ring_comm *comm, ring_wait *wait) {
  ring_call close = {.collective = RING_COLLECTIVE_CLOSE};
  collective_args request = {
      .outline = {.call.collective = RING_COLLECTIVE_BARRIER, .size = comm->peers.size},
      .signature = &close};
  if (!ring_shm_collective_serves(&comm->shm, &request.outline)) return RING_OK;
  close.sequence = ++comm->sequence;
  return ring_collective_run(comm, &request, wait);
}

ring_status ring_collective_tell(ring_comm *comm, uint8_t *bytes, ring_wait *wait) {
  static const ring_call tell = {
      .collective = RING_COLLECTIVE_TELL, .dtype = RING_UINT8, .count = 1};
  collective_args request = {.outline = {.call = tell, .parts.count = 1},
                             .signature = &tell,
                             .input = bytes + comm->peers.rank,
                             .output = bytes};
  request.outline.call.collective = RING_COLLECTIVE_ALLGATHER;
  return ring_collective_run(comm, &request, wait);
}
