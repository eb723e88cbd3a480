/* SPDX-License-Identifier: Apache-2.0
 *
 * Reducers of tensors on GPUs, as the tests open and use them.
 */
#ifndef RING_GPU_REDUCERS_H
#define RING_GPU_REDUCERS_H

#include "devices.h"
#include "reducers.h"

enum { MOST_ELEMENTS = 8192 };

/* A reducer on the GPU of the rank's number. */
static inline ring_reducer *gpu_reducer_of(ring_comm *comm, ring_device_path path) {
  const ring_device_options device = device_options(path);
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  options.device = &device;
  use_gpu(ring_comm_rank(comm));
  return reducer_of(comm, &options);
}

/* Frees a reducer, after a close that has returned `status`. */
static inline void end_gpu_reducer(ring_reducer *reducer, ring_status status) {
  CHECK_INT(ring_reducer_close(reducer), status);
  ring_reducer_free(reducer);
  expect_no_leak();
}

/* Memory with `count` elements of `value`. */
static inline float *gpu_floats(int64_t count, float value) {
  float values[MOST_ELEMENTS];
  for (int64_t i = 0; i < count; i++) values[i] = value;
  return gpu_copy(values, (size_t)count * sizeof *values);
}

static inline void expect_floats(const float *memory, int64_t count, float value) {
  float values[MOST_ELEMENTS];
  gpu_get(values, memory, (size_t)count * sizeof *values);
  for (int64_t i = 0; i < count; i++) CHECK(values[i] == value);
}

/* The same as sum_of(), of memory on a GPU. */
static inline ring_operation gpu_sum_of(const char *name, float *memory, const int64_t *count) {
  ring_operation operation = sum_of(name, memory, count);
  operation.memory = RING_MEMORY_GPU;
  return operation;
}

#endif
