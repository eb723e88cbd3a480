/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/operands.h"

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/error.h"

static bool operands_are_bad(const void *memory, uint64_t elements, size_t width) {
  return elements > 0 && (memory == NULL || (uintptr_t)memory % width != 0);
}

/* Checks the memory of one buffer, which the collective would refuse on this rank alone. */
static ring_status operands_check_buffer(const ring_operation *operation, ring_dtype dtype,
                                         const void *input, const void *output, uint64_t elements,
                                         ring_error *error) {
  size_t width = ring_dtype_size(dtype);
  bool own = operation->kind >= RING_OPERATION_REDUCE_SCATTER &&
             operation->kind != RING_OPERATION_BROADCAST;
  uintptr_t in = (uintptr_t)input, out = (uintptr_t)output, bytes = elements * width;
  const char *problem = NULL;
  if (operands_are_bad(input, elements, width))
    problem = "input is NULL or not aligned for its dtype";
  else if (!own && operands_are_bad(output, elements, width))
    problem = "output is NULL or not aligned for its dtype";
  else if (!own && in != out && in < out + bytes && out < in + bytes)
    problem = "input overlaps output without being in place";
  if (problem == NULL) return RING_OK;
  return ring_error_set(error, RING_INVALID, -1, 0, "\"%.200s\": %s", operation->name, problem);
}

ring_status ring_reducer_check_operands(const ring_operation *operation, int rank,
                                        ring_error *error) {
  ring_status status = RING_OK;
  uint64_t elements = 1;
  if (operation->kind == RING_OPERATION_BARRIER) return RING_OK;
  for (size_t i = 0; i < operation->buffer_count && status == RING_OK &&
                     operation->kind == RING_OPERATION_ALLREDUCE_GROUP;
       i++) {
    const ring_buffer *buffer = &operation->buffers[i];
    ring_dtype dtype = operation->dtypes != NULL ? operation->dtypes[i] : operation->dtype;
    status = operands_check_buffer(operation, dtype, buffer->input, buffer->output, buffer->count,
                                   error);
  }
  if (operation->kind == RING_OPERATION_ALLREDUCE_GROUP) return status;
  for (int i = 0; i < operation->dimensions; i++) elements *= (uint64_t)operation->shape[i];
  const void *input = operation->input, *output = operation->output;
  bool broadcast = operation->kind == RING_OPERATION_BROADCAST;
  if (broadcast && operation->root != rank) input = output;
  if (broadcast && output == NULL) output = input;
  return operands_check_buffer(operation, operation->dtype, input, output, elements, error);
}
