/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/execution.h"

#include <stdlib.h>
#include <string.h>

#include "api/comm_lifecycle.h"
#include "base/error.h"
#include "engine/scale.h"

bool ring_execution_init(ring_execution *execution, const ring_negotiation *negotiation,
                         ring_reducer_gpu *gpu) {
  size_t size = (size_t)negotiation->size;
  *execution = (ring_execution){.negotiation = negotiation,
                                .gpu = gpu,
                                .sends = calloc(size, sizeof(size_t)),
                                .receives = calloc(size, sizeof(size_t)),
                                .send_rows = calloc(size, sizeof(int64_t)),
                                .receive_rows = calloc(size, sizeof(int64_t))};
  return execution->sends != NULL && execution->receives != NULL && execution->send_rows != NULL &&
         execution->receive_rows != NULL;
}

void ring_execution_destroy(ring_execution *execution) {
  free(execution->buffers);
  free(execution->zeros.bytes);
  free(execution->padded.bytes);
  free(execution->sends);
  free(execution->receives);
  free(execution->send_rows);
  free(execution->receive_rows);
}

static ring_comm *execution_comm(const ring_execution *execution) {
  return execution->negotiation->comm;
}

/* The other ranks are in the same operation, so they have to learn of it. */
static ring_status execution_no_memory(const ring_execution *execution) {
  ring_comm_abort(execution_comm(execution), "out of memory in a reducer");
  return RING_NO_MEMORY;
}

/* Zeroed memory of a rank that has joined; NULL without memory. */
static uint8_t *execution_host_zeros(ring_execution *execution, size_t bytes) {
  if (!ring_bytes_reserve(&execution->zeros, bytes + 1)) return NULL;
  memset(execution->zeros.bytes, 0, bytes);
  return execution->zeros.bytes;
}

/* The same, where the tensors of the other ranks are. */
static ring_status execution_zeros(ring_execution *execution, ring_memory memory, size_t bytes,
                                   void **zeros) {
  if (memory == RING_MEMORY_GPU) return ring_reducer_gpu_zeros(execution->gpu, bytes, zeros);
  *zeros = execution_host_zeros(execution, bytes);
  return *zeros != NULL ? RING_OK : execution_no_memory(execution);
}

/* Memory of a result, which the user frees with ring_free. */
static ring_status execution_result(const ring_execution *execution, ring_submission *submission,
                                    int64_t rows, size_t row_bytes) {
  submission->result_rows = rows;
  if (rows == 0 || row_bytes == 0) return RING_OK;
  ring_status status =
      ring_alloc(execution_comm(execution), (size_t)rows * row_bytes, &submission->result);
  return status == RING_OK ? RING_OK : execution_no_memory(execution);
}

/* ---- Allreduce ---------------------------------------------------------------------------- */

static bool execution_add(ring_execution *execution, const ring_buffer *buffer) {
  if (execution->buffer_count == execution->buffer_capacity) {
    size_t grown = execution->buffer_capacity == 0 ? 64 : 2 * execution->buffer_capacity;
    ring_buffer *buffers = realloc(execution->buffers, grown * sizeof *buffers);
    if (buffers == NULL) return false;
    execution->buffers = buffers;
    execution->buffer_capacity = grown;
  }
  execution->buffers[execution->buffer_count++] = *buffer;
  return true;
}

/* Adds buffers of zeros for a tensor that this rank has not submitted: those of a dtype. */
static bool execution_add_zeros(ring_execution *execution, const ring_tensor *tensor,
                                ring_dtype dtype, uint8_t **zeros) {
  bool group = tensor->kind == RING_OPERATION_ALLREDUCE_GROUP;
  bool enough = true;
  for (uint32_t i = 0; enough && i < (group ? tensor->extent_count : 1); i++) {
    if (ring_tensor_dtype(tensor, i) != dtype) continue;
    size_t elements =
        group ? (size_t)ring_tensor_extent(tensor, i) : ring_tensor_elements(tensor, 0);
    enough = execution_add(execution, &(ring_buffer){*zeros, *zeros, elements});
    if (elements > 0) *zeros += elements * ring_dtype_size(dtype); /* else it may be NULL */
  }
  return enough;
}

static bool execution_add_ready(ring_execution *execution, const ring_ready *ready,
                                ring_dtype dtype) {
  const ring_submission *submission = ready->submission;
  bool enough = true;
  if (ready->tensor.kind == RING_OPERATION_ALLREDUCE) {
    ring_buffer one = {submission->input, submission->output,
                       ring_tensor_elements(&ready->tensor, 0)};
    return execution_add(execution, &one);
  }
  for (size_t i = 0; enough && i < submission->buffer_count; i++)
    if (ring_tensor_dtype(&ready->tensor, (uint32_t)i) == dtype)
      enough = execution_add(execution, &submission->buffers[i]);
  return enough;
}

/* Zeros for the tensors that only the other ranks know, so the sum of their bytes may be anything. */
static ring_status execution_missing(ring_execution *execution, ring_ready *const *items,
                                     size_t count, uint8_t **zeros) {
  size_t missing = 0;
  void *memory = NULL;
  ring_status status = RING_OK;
  for (size_t i = 0; i < count; i++)
    if (items[i]->submission == NULL &&
        __builtin_add_overflow(missing, ring_tensor_bytes(&items[i]->tensor), &missing))
      return execution_no_memory(execution);
  if (missing > 0) status = execution_zeros(execution, items[0]->tensor.memory, missing, &memory);
  *zeros = memory;
  return status;
}

/* Lists the buffers of a dtype. */
static ring_status execution_list(ring_execution *execution, ring_ready *const *items, size_t count,
                                  ring_dtype dtype) {
  uint8_t *zeros;
  bool enough = true;
  ring_status status = execution_missing(execution, items, count, &zeros);
  execution->buffer_count = 0;
  for (size_t i = 0; status == RING_OK && enough && i < count; i++)
    enough = items[i]->submission != NULL
                 ? execution_add_ready(execution, items[i], dtype)
                 : execution_add_zeros(execution, &items[i]->tensor, dtype, &zeros);
  return enough ? status : execution_no_memory(execution);
}

static void execution_prescale(ring_execution *execution, const ring_tensor *tensor,
                               ring_dtype dtype) {
  for (size_t i = 0; tensor->prescale != 1 && i < execution->buffer_count; i++) {
    ring_buffer *buffer = &execution->buffers[i];
    ring_scale(dtype, buffer->output, buffer->input, buffer->count, tensor->prescale);
    buffer->input = buffer->output;
  }
}

static void execution_postscale(const ring_execution *execution, const ring_tensor *tensor,
                                ring_dtype dtype) {
  for (size_t i = 0; tensor->postscale != 1 && i < execution->buffer_count; i++) {
    const ring_buffer *buffer = &execution->buffers[i];
    ring_scale(dtype, buffer->output, buffer->output, buffer->count, tensor->postscale);
  }
}

static ring_status execution_reduce(ring_execution *execution, ring_dtype dtype, ring_op op) {
  ring_comm *comm = execution_comm(execution);
  const ring_buffer *buffers = execution->buffers;
  if (execution->buffer_count == 1)
    return ring_allreduce(comm, buffers->input, buffers->output, buffers->count, dtype, op);
  return ring_allreduce_group(comm, buffers, execution->buffer_count, dtype, op);
}

/* The device multiplies by the factors. */
static ring_status execution_reduce_on_gpu(ring_execution *execution, const ring_tensor *tensor,
                                           ring_dtype dtype) {
  ring_comm_scale(execution_comm(execution), tensor->prescale, tensor->postscale);
  ring_reducer_gpu_place(execution->gpu);
  return execution_reduce(execution, dtype, tensor->op);
}

static ring_status execution_allreduce(ring_execution *execution, ring_ready *const *items,
                                       size_t count, ring_dtype dtype) {
  const ring_tensor *tensor = &items[0]->tensor;
  ring_status status = execution_list(execution, items, count, dtype);
  if (status != RING_OK) return status;
  if (tensor->memory == RING_MEMORY_GPU) return execution_reduce_on_gpu(execution, tensor, dtype);
  execution_prescale(execution, tensor, dtype);
  status = execution_reduce(execution, dtype, tensor->op);
  if (status == RING_OK) execution_postscale(execution, tensor, dtype);
  return status;
}

/* A group of several dtypes: a collective for each, in the order in which they come. */
static ring_status execution_allreduce_mixed(ring_execution *execution, ring_ready *const *items) {
  const ring_tensor *tensor = &items[0]->tensor;
  ring_status status = RING_OK;
  for (uint32_t i = 0; status == RING_OK && i < tensor->extent_count; i++) {
    ring_dtype dtype = ring_tensor_dtype(tensor, i);
    if (memchr(tensor->dtypes, (int)dtype, i) == NULL)
      status = execution_allreduce(execution, items, 1, dtype);
  }
  return status;
}

/* ---- Reduce-scatter ----------------------------------------------------------------------- */

/* The place of the first row of rank r. */
static int64_t execution_row_at(int64_t rows, int size, int r) {
  int64_t extra = rows % size;
  return r * (rows / size) + (r < extra ? r : extra);
}

/* The input of the collective, whose parts are equal: a scaled copy, with a row of zeros at the end of
 * parts that are shorter, where the input itself does not do. */
static const void *execution_pad(ring_execution *execution, const ring_ready *ready, int64_t part,
                                 uint64_t row) {
  const ring_tensor *tensor = &ready->tensor;
  int size = execution->negotiation->size;
  int64_t rows = ring_tensor_extent(tensor, 0);
  size_t width = ring_dtype_size(tensor->dtype), bytes = (size_t)(part * size) * row * width;
  if (ready->submission == NULL) return execution_host_zeros(execution, bytes);
  if (rows % size == 0 && tensor->prescale == 1) return ready->submission->input;
  if (!ring_bytes_reserve(&execution->padded, bytes + 1)) return NULL;
  memset(execution->padded.bytes, 0, bytes);
  for (int r = 0; r < size; r++) {
    int64_t first = execution_row_at(rows, size, r), end = execution_row_at(rows, size, r + 1);
    ring_scale(tensor->dtype, execution->padded.bytes + (size_t)(r * part) * row * width,
               (const uint8_t *)ready->submission->input + (size_t)first * row * width,
               (size_t)(end - first) * row, tensor->prescale);
  }
  return execution->padded.bytes;
}

static ring_status execution_reduce_scatter(ring_execution *execution, const ring_ready *ready) {
  const ring_tensor *tensor = &ready->tensor;
  int rank = execution->negotiation->rank, size = execution->negotiation->size;
  int64_t rows = ring_tensor_extent(tensor, 0), part = (rows + size - 1) / size;
  uint64_t row = ring_tensor_elements(tensor, 1);
  ring_submission nobody = {0}, *to = ready->submission != NULL ? ready->submission : &nobody;
  const void *input = execution_pad(execution, ready, part, row);
  if (input == NULL && rows > 0 && row > 0) return execution_no_memory(execution);
  ring_status status = execution_result(execution, to, part, row * ring_dtype_size(tensor->dtype));
  if (status == RING_OK)
    status = ring_reduce_scatter(execution_comm(execution), input, to->result, (size_t)part * row,
                                 tensor->dtype, tensor->op);
  to->result_rows = execution_row_at(rows, size, rank + 1) - execution_row_at(rows, size, rank);
  if (status == RING_OK && tensor->postscale != 1)
    ring_scale(tensor->dtype, to->result, to->result, (size_t)to->result_rows * row,
               tensor->postscale);
  ring_free(nobody.result);
  return status;
}

/* ---- Broadcast ---------------------------------------------------------------------------- */

static ring_status execution_broadcast(ring_execution *execution, const ring_ready *ready,
                                       ring_error *refusal) {
  const ring_tensor *tensor = &ready->tensor;
  const ring_negotiation *negotiation = execution->negotiation;
  size_t count = ring_tensor_elements(tensor, 0);
  if (negotiation->members[tensor->root] == MEMBER_JOINED) {
    ring_error_set(refusal, RING_MISMATCH, tensor->root, 0,
                   "tensor \"%.200s\" cannot be broadcast: its root, rank %d (%s), has joined",
                   ready->entry->name, tensor->root,
                   ring_comm_name(negotiation->comm, tensor->root));
    return RING_OK;
  }
  const void *input = NULL;
  void *output = NULL;
  if (ready->submission != NULL) {
    bool copies = ready->submission->output != NULL;
    input = negotiation->rank == tensor->root ? ready->submission->input : NULL;
    output = copies ? ready->submission->output : (void *)ready->submission->input;
  } else {
    size_t bytes = count * ring_dtype_size(tensor->dtype);
    ring_status status = execution_zeros(execution, tensor->memory, bytes, &output);
    if (status != RING_OK) return status;
  }
  if (tensor->memory == RING_MEMORY_GPU) ring_reducer_gpu_place(execution->gpu);
  return ring_broadcast(negotiation->comm, input, output, count, tensor->dtype, tensor->root);
}

/* ---- Allgather and alltoall --------------------------------------------------------------- */

/* Checks the rows that the ranks send. This rank sends `own` rows to itself. */
static ring_status execution_check_rows(const ring_execution *execution, int64_t own,
                                        size_t row_bytes) {
  static const char what[] = "a reducer an impossible number of rows";
  const ring_negotiation *negotiation = execution->negotiation;
  const int64_t *rows = execution->receive_rows;
  int64_t left = INT64_MAX / (row_bytes > 0 ? (int64_t)row_bytes : 1);
  for (int rank = 0; rank < negotiation->size; left -= rows[rank++])
    if (rows[rank] < 0 || rows[rank] > left) return ring_comm_accuse(negotiation->comm, rank, what);
  return rows[negotiation->rank] == own ? RING_OK : ring_comm_accuse(negotiation->comm, -1, what);
}

/* Allocates a result of the rows in receive_rows, and sets the numbers of elements. */
static ring_status execution_receive(ring_execution *execution, const ring_tensor *tensor,
                                     int64_t own, ring_submission *to) {
  int size = execution->negotiation->size;
  size_t row = ring_tensor_elements(tensor, 1), row_bytes = row * ring_dtype_size(tensor->dtype);
  int64_t rows = 0;
  ring_status status = execution_check_rows(execution, own, row_bytes);
  if (status != RING_OK) return status;
  to->rank_rows = malloc((size_t)size * sizeof *to->rank_rows);
  if (to->rank_rows == NULL) return execution_no_memory(execution);
  for (int r = 0; r < size; r++) {
    to->rank_rows[r] = execution->receive_rows[r];
    execution->receives[r] = (size_t)execution->receive_rows[r] * row;
    rows += execution->receive_rows[r];
  }
  return execution_result(execution, to, rows, row_bytes);
}

static ring_status execution_allgather(ring_execution *execution, const ring_ready *ready,
                                       ring_submission *to) {
  ring_comm *comm = execution_comm(execution);
  ring_status status = ring_allgather(comm, &to->rows, execution->receive_rows, 1, RING_INT64);
  if (status == RING_OK) status = execution_receive(execution, &ready->tensor, to->rows, to);
  if (status != RING_OK) return status;
  return ring_allgatherv(comm, to->input, to->result, execution->receives, ready->tensor.dtype);
}

static ring_status execution_alltoall(ring_execution *execution, const ring_ready *ready,
                                      ring_submission *to) {
  ring_comm *comm = execution_comm(execution);
  int size = execution->negotiation->size;
  size_t row = ring_tensor_elements(&ready->tensor, 1);
  for (int r = 0; r < size; r++) {
    execution->send_rows[r] = to->splits != NULL ? to->splits[r] : to->rows / size;
    execution->sends[r] = (size_t)execution->send_rows[r] * row;
  }
  ring_status status =
      ring_alltoall(comm, execution->send_rows, execution->receive_rows, 1, RING_INT64);
  if (status == RING_OK)
    status = execution_receive(execution, &ready->tensor,
                               execution->send_rows[execution->negotiation->rank], to);
  if (status != RING_OK) return status;
  return ring_alltoallv(comm, to->input, execution->sends, to->result, execution->receives,
                        ready->tensor.dtype);
}

/* ---- Any ---------------------------------------------------------------------------------- */

static ring_status execution_run_one(ring_execution *execution, const ring_ready *ready,
                                     ring_error *refusal) {
  ring_submission nobody = {0}, *to = ready->submission != NULL ? ready->submission : &nobody;
  ring_status status = RING_OK;
  switch (ready->tensor.kind) {
  case RING_OPERATION_REDUCE_SCATTER:
    return execution_reduce_scatter(execution, ready);
  case RING_OPERATION_BROADCAST:
    return execution_broadcast(execution, ready, refusal);
  case RING_OPERATION_ALLGATHER:
    status = execution_allgather(execution, ready, to);
    break;
  case RING_OPERATION_ALLTOALL:
    status = execution_alltoall(execution, ready, to);
    break;
  default: /* the cycle was the barrier */
    break;
  }
  ring_submission_clear(&nobody);
  return status;
}

/* The device is open, and its work follows that of the streams of this rank. */
static ring_status execution_begin_on_gpu(ring_execution *execution, ring_ready *const *items,
                                          size_t count, ring_error *refusal) {
  ring_status status = ring_reducer_gpu_open(execution->gpu, refusal);
  for (size_t i = 0; status == RING_OK && refusal->status == RING_OK && i < count; i++)
    if (items[i]->submission != NULL)
      status = ring_reducer_gpu_follow(execution->gpu, items[i]->submission);
  return status;
}

ring_status ring_execution_run(ring_execution *execution, ring_ready *const *items, size_t count,
                               ring_error *refusal) {
  ring_operation_kind kind = items[0]->tensor.kind;
  refusal->status = RING_OK;
  if (items[0]->tensor.memory == RING_MEMORY_GPU) {
    ring_status status = execution_begin_on_gpu(execution, items, count, refusal);
    if (status != RING_OK || refusal->status != RING_OK) return status;
  }
  if (kind == RING_OPERATION_ALLREDUCE || kind == RING_OPERATION_ALLREDUCE_GROUP)
    return items[0]->tensor.mixed
               ? execution_allreduce_mixed(execution, items)
               : execution_allreduce(execution, items, count, items[0]->tensor.dtype);
  return execution_run_one(execution, items[0], refusal);
}
