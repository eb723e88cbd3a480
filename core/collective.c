/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include <stdlib.h>

#include "dtype.h"
#include "error.h"
#include "reduce.h"

/* What a collective call is about. Input and output may be the same memory where element `in_at` of
 * the input is element `out_at` of the output, if `in_place` allows that. */
typedef struct collective_request {
  ring_outline outline;
  const void *input;
  void *output;
  uint64_t input_count, output_count; /* elements that are read and written on this rank */
  uint64_t in_at, out_at;
  bool in_place;
} collective_request;

/* ---- Checking ----------------------------------------------------------------------------- */

/* An op or dtype as the signature holds it; one that does not fit becomes one that does not exist. */
static uint8_t collective_code(int value) {
  return value < 0 || value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

static uint64_t collective_times(uint64_t count, int size) {
  return count > UINT64_MAX / (uint64_t)size ? UINT64_MAX : count * (uint64_t)size;
}

static ring_status collective_invalid(ring_comm *comm, uint8_t collective, const char *problem) {
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0, "%s: %s",
                        ring_collective_name(collective), problem);
}

static bool collective_overlaps(const collective_request *request, size_t size) {
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

static ring_status collective_check(ring_comm *comm, const collective_request *request) {
  const ring_call *call = &request->outline.call;
  size_t size = ring_dtype_size((ring_dtype)call->dtype);
  if (size == 0)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: %d is no dtype; see RING_DTYPE_MAP",
                          ring_collective_name(call->collective), (int)call->dtype);
  uint64_t most =
      request->input_count > request->output_count ? request->input_count : request->output_count;
  uint64_t widest = ring_dtype_wide_size((ring_dtype)call->dtype);
  if (most > ((uint64_t)PTRDIFF_MAX - 2 * RING_CHUNK_BYTES) / widest)
    return collective_invalid(comm, call->collective, "the buffers would be larger than memory");
  if (request->input == NULL && request->input_count > 0)
    return collective_invalid(comm, call->collective, "input is NULL but count is not 0");
  if (request->output == NULL && request->output_count > 0)
    return collective_invalid(comm, call->collective, "output is NULL but count is not 0");
  if (collective_overlaps(request, size))
    return collective_invalid(comm, call->collective,
                              "input overlaps output without being in place");
  return RING_OK;
}

static ring_status collective_check_rank(ring_comm *comm, uint8_t collective, const char *role,
                                         int rank) {
  if (rank >= 0 && rank < comm->peers.size) return RING_OK;
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                        "%s: %s %d is no rank: ranks go from 0 to %d",
                        ring_collective_name(collective), role, rank, comm->peers.size - 1);
}

/* ---- Running ------------------------------------------------------------------------------ */

static bool collective_reduces(uint8_t collective) {
  return collective == RING_COLLECTIVE_ALLREDUCE || collective == RING_COLLECTIVE_REDUCE ||
         collective == RING_COLLECTIVE_REDUCE_SCATTER;
}

/* With one rank nothing is reduced, but a truth value still has to become 0 or 1. */
static void collective_settle(const ring_comm *comm, const collective_request *request) {
  const ring_call *call = &request->outline.call;
  bool logical = call->op == RING_LAND || call->op == RING_LOR;
  if (comm->peers.size > 1 || !logical || !collective_reduces(call->collective)) return;
  ring_reduction reduction = {.dtype = (ring_dtype)call->dtype, .op = (ring_op)call->op};
  ring_reduction_apply(&reduction, request->output, request->output, request->input,
                       request->output_count);
}

/* Plans and runs a call. A failure breaks the communicator. */
static ring_status collective_run(ring_comm *comm, collective_request *request, ring_wait *wait) {
  ring_outline *outline = &request->outline;
  ring_dtype dtype = (ring_dtype)outline->call.dtype;
  bool reduces = collective_reduces(outline->call.collective);
  outline->rank = comm->peers.rank;
  outline->size = comm->peers.size;
  ring_task task = {.call = outline->call,
                    .input = request->input,
                    .output = request->output,
                    .element_size = ring_dtype_size(dtype),
                    .wide_size = reduces ? ring_dtype_wide_size(dtype) : ring_dtype_size(dtype),
                    .divide = reduces && outline->call.op == RING_AVG,
                    .wait = wait};
  ring_error error;
  ring_status status = ring_plan_find(&comm->plans, outline, &task.schedule);
  if (status == RING_OK) {
    status = ring_engine_run(&comm->engine, &task, &error);
    if (status == RING_OK) collective_settle(comm, request);
  } else {
    ring_error_set(&error, status, comm->peers.rank, 0,
                   "rank %d is out of memory: it cannot plan the call", comm->peers.rank);
  }
  if (status != RING_OK) ring_comm_break(comm, &task, &error);
  return status;
}

/* Checks a call of the user, and gives it its number and its deadline. */
static ring_status collective_call(ring_comm *comm, collective_request *request) {
  ring_wait wait;
  ring_call *call = &request->outline.call;
  ring_status status = collective_check(comm, request);
  if (status == RING_OK && collective_reduces(call->collective))
    status = collective_check_op(comm, call);
  if (status != RING_OK) return status;
  ring_wait_init(&wait, comm->call_timeout, comm->interrupt, comm->interrupt_arg);
  if (call->collective == RING_COLLECTIVE_MESSAGE) {
    ring_messages *messages = &comm->messages[request->outline.peer];
    call->sequence = call->root == comm->peers.rank ? ++messages->sent : ++messages->received;
  } else {
    call->sequence = ++comm->sequence;
  }
  comm->calls++;
  return collective_run(comm, request, &wait);
}

/* The public functions are this between entering and leaving. */
static ring_status collective_enter_and_call(ring_comm *comm, collective_request *request) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  status = collective_call(comm, request);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_collective_meet(ring_comm *comm, ring_collective collective, ring_wait *wait) {
  collective_request request = {.outline.call = {.collective = (uint8_t)collective}};
  if (collective == RING_COLLECTIVE_CLOSE) request.outline.call.sequence = ++comm->sequence;
  return collective_run(comm, &request, wait);
}

/* ---- Reductions --------------------------------------------------------------------------- */

static collective_request reduction_request(ring_collective collective, const void *input,
                                            void *output, size_t count, ring_dtype dtype,
                                            ring_op op) {
  return (collective_request){.outline.call = {.collective = (uint8_t)collective,
                                               .op = collective_code((int)op),
                                               .dtype = collective_code((int)dtype),
                                               .count = count},
                              .input = input,
                              .output = output,
                              .input_count = count,
                              .output_count = count,
                              .in_place = true};
}

ring_status ring_allreduce(ring_comm *comm, const void *input, void *output, size_t count,
                           ring_dtype dtype, ring_op op) {
  collective_request request =
      reduction_request(RING_COLLECTIVE_ALLREDUCE, input, output, count, dtype, op);
  return collective_enter_and_call(comm, &request);
}

ring_status ring_reduce(ring_comm *comm, const void *input, void *output, size_t count,
                        ring_dtype dtype, ring_op op, int root) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request =
      reduction_request(RING_COLLECTIVE_REDUCE, input, output, count, dtype, op);
  request.outline.call.root = root;
  if (comm->peers.rank != root) request.output_count = 0;
  status = collective_check_rank(comm, RING_COLLECTIVE_REDUCE, "root", root);
  if (status == RING_OK) status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_reduce_scatter(ring_comm *comm, const void *input, void *output, size_t count,
                                ring_dtype dtype, ring_op op) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request =
      reduction_request(RING_COLLECTIVE_REDUCE_SCATTER, input, output, count, dtype, op);
  request.input_count = collective_times(count, comm->peers.size);
  request.in_at = (uint64_t)comm->peers.rank * count;
  status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

/* ---- Without parts ------------------------------------------------------------------------ */

ring_status ring_broadcast(ring_comm *comm, const void *input, void *output, size_t count,
                           ring_dtype dtype, int root) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request = {.outline.call = {.collective = RING_COLLECTIVE_BROADCAST,
                                                 .dtype = collective_code((int)dtype),
                                                 .root = root,
                                                 .count = count},
                                .input = input,
                                .output = output,
                                .input_count = comm->peers.rank == root ? count : 0,
                                .output_count = count,
                                .in_place = true};
  status = collective_check_rank(comm, RING_COLLECTIVE_BROADCAST, "root", root);
  if (status == RING_OK) status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_barrier(ring_comm *comm) {
  collective_request request = {.outline.call = {.collective = RING_COLLECTIVE_BARRIER}};
  return collective_enter_and_call(comm, &request);
}

static ring_status message_call(ring_comm *comm, const void *input, void *output, size_t count,
                                ring_dtype dtype, int peer, bool sends) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request = {.outline = {.call = {.collective = RING_COLLECTIVE_MESSAGE,
                                                     .dtype = collective_code((int)dtype),
                                                     .root = sends ? comm->peers.rank : peer,
                                                     .count = count},
                                            .peer = peer},
                                .input = input,
                                .output = output,
                                .input_count = sends ? count : 0,
                                .output_count = sends ? 0 : count};
  status = collective_check_rank(comm, RING_COLLECTIVE_MESSAGE, "peer", peer);
  if (status == RING_OK && peer == comm->peers.rank)
    status = collective_invalid(comm, RING_COLLECTIVE_MESSAGE,
                                "peer is this rank itself: copy the buffer");
  if (status == RING_OK) status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

ring_status ring_send(ring_comm *comm, const void *input, size_t count, ring_dtype dtype,
                      int peer) {
  return message_call(comm, input, NULL, count, dtype, peer, true);
}

ring_status ring_recv(ring_comm *comm, void *output, size_t count, ring_dtype dtype, int peer) {
  return message_call(comm, NULL, output, count, dtype, peer, false);
}

/* ---- With parts --------------------------------------------------------------------------- */

/* Where the parts of a call with counts begin, in one of the communicator's two tables; *layout
 * becomes a digest (FNV-1a) that differs where counts do. RING_INVALID when the sum overflows. */
static ring_status parts_read(ring_comm *comm, int table, const size_t *counts, ring_parts *parts,
                              uint64_t *layout) {
  size_t size = (size_t)comm->peers.size;
  if (counts == NULL) return RING_INVALID;
  if (comm->offsets == NULL) comm->offsets = calloc(2 * (size + 1), sizeof *comm->offsets);
  if (comm->offsets == NULL) return RING_NO_MEMORY;
  uint64_t *offsets = comm->offsets + (size_t)table * (size + 1);
  *layout = UINT64_C(14695981039346656037);
  for (size_t i = 0; i < size; i++) {
    if (counts[i] > PTRDIFF_MAX - offsets[i]) return RING_INVALID;
    offsets[i + 1] = offsets[i] + counts[i];
    for (int byte = 0; byte < 8; byte++) {
      *layout ^= counts[i] >> (8 * byte) & 0xff;
      *layout *= UINT64_C(1099511628211);
    }
  }
  *parts = (ring_parts){offsets, 0};
  return RING_OK;
}

/* The parts of a call: of `count` elements each, or of counts, whose sum then is the call's count. */
static ring_status parts_set(ring_comm *comm, collective_request *request, const size_t *counts,
                             bool counted) {
  ring_call *call = &request->outline.call;
  request->outline.parts = (ring_parts){NULL, call->count};
  request->outline.came = request->outline.parts;
  if (!counted) return RING_OK;
  ring_status status = parts_read(comm, 0, counts, &request->outline.parts, &call->layout);
  if (status == RING_OK) call->count = request->outline.parts.offsets[comm->peers.size];
  if (status == RING_INVALID)
    return collective_invalid(comm, call->collective,
                              counts == NULL ? "counts is NULL: pass one number a rank"
                                             : "the sum of counts is larger than memory");
  if (status != RING_OK)
    ring_error_set(&comm->error, status, comm->peers.rank, 0, "rank %d is out of memory",
                   comm->peers.rank);
  return status;
}

static uint64_t parts_begin(ring_parts parts, int rank) {
  return parts.offsets != NULL ? parts.offsets[rank] : (uint64_t)rank * parts.count;
}

/* Allgather, gather and scatter: the side that has all parts, and the one that has its own. */
static ring_status parts_call(ring_comm *comm, ring_collective collective, const void *input,
                              void *output, size_t count, const size_t *counts, ring_dtype dtype,
                              int root) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  int rank = comm->peers.rank, size = comm->peers.size;
  bool counted = collective >= RING_COLLECTIVE_ALLGATHERV;
  bool scatters = collective == RING_COLLECTIVE_SCATTER || collective == RING_COLLECTIVE_SCATTERV;
  bool to_all = collective == RING_COLLECTIVE_ALLGATHER || collective == RING_COLLECTIVE_ALLGATHERV;
  collective_request request = {.outline.call = {.collective = (uint8_t)collective,
                                                 .dtype = collective_code((int)dtype),
                                                 .root = root,
                                                 .count = count},
                                .input = input,
                                .output = output,
                                .in_place = true};
  status = collective_check_rank(comm, (uint8_t)collective, "root", root);
  if (status == RING_OK) status = parts_set(comm, &request, counts, counted);
  if (status == RING_OK) {
    ring_parts parts = request.outline.parts;
    uint64_t at = parts_begin(parts, rank);
    uint64_t own = counted ? parts.offsets[rank + 1] - at : count;
    uint64_t all = counted ? parts.offsets[size] : collective_times(count, size);
    if (!to_all && rank != root) all = 0;
    request.input_count = scatters ? all : own;
    request.output_count = scatters ? own : all;
    request.in_at = scatters ? at : 0;
    request.out_at = scatters ? 0 : at;
    status = collective_call(comm, &request);
  }
  ring_comm_leave(comm);
  return status;
}

ring_status ring_allgather(ring_comm *comm, const void *input, void *output, size_t count,
                           ring_dtype dtype) {
  return parts_call(comm, RING_COLLECTIVE_ALLGATHER, input, output, count, NULL, dtype, 0);
}

ring_status ring_allgatherv(ring_comm *comm, const void *input, void *output, const size_t *counts,
                            ring_dtype dtype) {
  return parts_call(comm, RING_COLLECTIVE_ALLGATHERV, input, output, 0, counts, dtype, 0);
}

ring_status ring_gather(ring_comm *comm, const void *input, void *output, size_t count,
                        ring_dtype dtype, int root) {
  return parts_call(comm, RING_COLLECTIVE_GATHER, input, output, count, NULL, dtype, root);
}

ring_status ring_gatherv(ring_comm *comm, const void *input, void *output, const size_t *counts,
                         ring_dtype dtype, int root) {
  return parts_call(comm, RING_COLLECTIVE_GATHERV, input, output, 0, counts, dtype, root);
}

ring_status ring_scatter(ring_comm *comm, const void *input, void *output, size_t count,
                         ring_dtype dtype, int root) {
  return parts_call(comm, RING_COLLECTIVE_SCATTER, input, output, count, NULL, dtype, root);
}

ring_status ring_scatterv(ring_comm *comm, const void *input, void *output, const size_t *counts,
                          ring_dtype dtype, int root) {
  return parts_call(comm, RING_COLLECTIVE_SCATTERV, input, output, 0, counts, dtype, root);
}

ring_status ring_alltoall(ring_comm *comm, const void *input, void *output, size_t count,
                          ring_dtype dtype) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  collective_request request = {.outline.call = {.collective = RING_COLLECTIVE_ALLTOALL,
                                                 .dtype = collective_code((int)dtype),
                                                 .count = count},
                                .input = input,
                                .output = output,
                                .input_count = collective_times(count, comm->peers.size),
                                .output_count = collective_times(count, comm->peers.size)};
  status = parts_set(comm, &request, NULL, false);
  if (status == RING_OK) status = collective_call(comm, &request);
  ring_comm_leave(comm);
  return status;
}

/* What a rank sends to each is known to it alone, so neither count nor layout are in the signature. */
ring_status ring_alltoallv(ring_comm *comm, const void *input, const size_t *sends, void *output,
                           const size_t *receives, ring_dtype dtype) {
  ring_status status = ring_comm_enter(comm);
  if (status != RING_OK) return status;
  int rank = comm->peers.rank, size = comm->peers.size;
  collective_request request = {.outline.call = {.collective = RING_COLLECTIVE_ALLTOALLV,
                                                 .dtype = collective_code((int)dtype)},
                                .input = input,
                                .output = output};
  ring_outline *outline = &request.outline;
  status = parts_read(comm, 0, sends, &outline->parts, &outline->call.layout);
  if (status == RING_OK)
    status = parts_read(comm, 1, receives, &outline->came, &outline->call.layout);
  outline->call.layout = 0;
  if (status != RING_OK) {
    status = ring_error_set(&comm->error, status, rank, 0,
                            "alltoallv: sends and receives must hold one number a rank, whose sum "
                            "fits into memory");
  } else if (sends[rank] != receives[rank]) {
    status = ring_error_set(&comm->error, RING_INVALID, rank, 0,
                            "alltoallv: rank %d sends itself %zu elements but receives %zu", rank,
                            sends[rank], receives[rank]);
  } else {
    request.input_count = outline->parts.offsets[size];
    request.output_count = outline->came.offsets[size];
    status = collective_call(comm, &request);
  }
  ring_comm_leave(comm);
  return status;
}
