/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include "dtype.h"
#include "error.h"
#include "reduce.h"

/* What a collective call is about, before a schedule is chosen. */
typedef struct collective_request {
  ring_call call;
  const void *input;
  void *output;
  uint64_t input_count, output_count; /* elements that are read and written on this rank */
} collective_request;

/* An op or dtype as the signature holds it; one that does not fit becomes one that does not exist. */
static uint8_t collective_code(int value) {
  return value < 0 || value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

static ring_status collective_invalid(ring_comm *comm, const char *what, const char *problem) {
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0, "%s: %s", what, problem);
}

/* Input may lie in the output at one place only: where its elements end up. */
static bool collective_overlaps(const ring_comm *comm, const collective_request *request,
                                size_t size) {
  uintptr_t input = (uintptr_t)request->input, output = (uintptr_t)request->output;
  uintptr_t input_bytes = request->input_count * size, output_bytes = request->output_count * size;
  bool gathers = request->call.collective == RING_COLLECTIVE_ALLGATHER;
  uintptr_t place = output + (gathers ? (uintptr_t)comm->peers.rank * input_bytes : 0);
  bool apart = input + input_bytes <= output || output + output_bytes <= input;
  return !apart && input != place;
}

/* Checks what all collectives have in common. */
static ring_status collective_check(ring_comm *comm, const char *name,
                                    const collective_request *request) {
  const ring_call *call = &request->call;
  size_t size = ring_dtype_size((ring_dtype)call->dtype);
  if (size == 0)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: %d is no dtype; see RING_DTYPE_MAP", name, (int)call->dtype);
  uint64_t most =
      request->input_count > request->output_count ? request->input_count : request->output_count;
  uint64_t widest = ring_dtype_wide_size((ring_dtype)call->dtype);
  if (most > ((uint64_t)PTRDIFF_MAX - 2 * RING_CHUNK_BYTES) / widest)
    return collective_invalid(comm, name, "the buffers would be larger than memory");
  if (request->input == NULL && request->input_count > 0)
    return collective_invalid(comm, name, "input is NULL but count is not 0");
  if (request->output == NULL && request->output_count > 0)
    return collective_invalid(comm, name, "output is NULL but count is not 0");
  if (collective_overlaps(comm, request, size))
    return collective_invalid(comm, name, "input overlaps output without being in place");
  return RING_OK;
}

static ring_status collective_plan(ring_comm *comm, const ring_call *call) {
  ring_schedule *schedule = &comm->schedule;
  int rank = comm->peers.rank, size = comm->peers.size;
  switch (call->collective) {
  case RING_COLLECTIVE_ALLREDUCE:
    return ring_schedule_allreduce(schedule, rank, size, call->count,
                                   ring_dtype_is_half((ring_dtype)call->dtype));
  case RING_COLLECTIVE_BROADCAST:
    return ring_schedule_broadcast(schedule, rank, size, call->count, call->root);
  case RING_COLLECTIVE_ALLGATHER:
    return ring_schedule_allgather(schedule, rank, size, call->count);
  default:
    return ring_schedule_barrier(schedule, rank, size);
  }
}

/* Plans and runs a call. A failure breaks the communicator. */
static ring_status collective_run(ring_comm *comm, const collective_request *request,
                                  ring_wait *wait) {
  ring_dtype dtype = (ring_dtype)request->call.dtype;
  ring_task task = {.schedule = &comm->schedule,
                    .call = request->call,
                    .input = request->input,
                    .output = request->output,
                    .element_size = ring_dtype_size(dtype),
                    .wide_size = ring_dtype_wide_size(dtype),
                    .divide = request->call.op == RING_AVG,
                    .wait = wait};
  ring_error error;
  ring_status status = collective_plan(comm, &request->call);
  if (status == RING_OK)
    status = ring_engine_run(&comm->engine, &task, &error);
  else
    ring_error_set(&error, status, comm->peers.rank, 0,
                   "rank %d is out of memory: it cannot plan the call", comm->peers.rank);
  if (status != RING_OK) ring_comm_break(comm, &task, &error);
  return status;
}

/* A checked call of the user: gives it its number and its deadline. */
static ring_status collective_call(ring_comm *comm, collective_request *request) {
  ring_wait wait;
  ring_wait_init(&wait, comm->call_timeout, comm->interrupt, comm->interrupt_arg);
  request->call.sequence = ++comm->sequence;
  comm->calls++;
  return collective_run(comm, request, &wait);
}

ring_status ring_collective_meet(ring_comm *comm, ring_collective collective, ring_wait *wait) {
  collective_request request = {.call = {.collective = (uint8_t)collective}};
  if (collective == RING_COLLECTIVE_CLOSE) request.call.sequence = ++comm->sequence;
  return collective_run(comm, &request, wait);
}

/* ---- The public functions ----------------------------------------------------------------- */

static ring_status allreduce_check(ring_comm *comm, const collective_request *request) {
  ring_op op = (ring_op)request->call.op;
  ring_dtype dtype = (ring_dtype)request->call.dtype;
  ring_status status = collective_check(comm, "allreduce", request);
  if (status != RING_OK || ring_op_allowed(op, dtype)) return status;
  if (!ring_op_valid(op))
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "allreduce: %d is no op; see RING_OP_MAP", (int)op);
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                        "allreduce: op %s is for integers, not for %s", ring_op_name(op),
                        ring_dtype_name(dtype));
}

ring_status ring_allreduce(ring_comm *comm, const void *input, void *output, size_t count,
                           ring_dtype dtype, ring_op op) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request = {.call = {.collective = RING_COLLECTIVE_ALLREDUCE,
                                         .op = collective_code((int)op),
                                         .dtype = collective_code((int)dtype),
                                         .count = count},
                                .input = input,
                                .output = output,
                                .input_count = count,
                                .output_count = count};
  status = allreduce_check(comm, &request);
  if (status == RING_OK) status = collective_call(comm, &request);
  /* With one rank nothing is reduced, but a truth value still has to become 0 or 1. */
  if (status == RING_OK && comm->peers.size == 1 && (op == RING_LAND || op == RING_LOR))
    ring_reduce(&(ring_reduction){.dtype = dtype, .op = op}, output, output, input, count);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_broadcast(ring_comm *comm, const void *input, void *output, size_t count,
                           ring_dtype dtype, int root) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request = {.call = {.collective = RING_COLLECTIVE_BROADCAST,
                                         .dtype = collective_code((int)dtype),
                                         .root = root,
                                         .count = count},
                                .input = input,
                                .output = output,
                                .input_count = comm->peers.rank == root ? count : 0,
                                .output_count = count};
  if (root < 0 || root >= comm->peers.size)
    status = ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                            "broadcast: root %d is no rank: ranks go from 0 to %d", root,
                            comm->peers.size - 1);
  else
    status = collective_check(comm, "broadcast", &request);
  if (status == RING_OK) status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                           ring_dtype dtype) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  size_t size = (size_t)comm->peers.size;
  collective_request request = {.call = {.collective = RING_COLLECTIVE_ALLGATHER,
                                         .dtype = collective_code((int)dtype),
                                         .count = count},
                                .input = input,
                                .output = output,
                                .input_count = count,
                                .output_count =
                                    count > SIZE_MAX / size ? UINT64_MAX : count * size};
  status = collective_check(comm, "allgather", &request);
  if (status == RING_OK) status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_barrier(ring_comm *comm) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request = {.call = {.collective = RING_COLLECTIVE_BARRIER}};
  status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}
