/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/gpu.h"

#include <stdlib.h>
#include <string.h>

#include "api/comm_state.h"
#include "base/error.h"

/* ---- Opening ------------------------------------------------------------------------------- */

static bool gpu_copy_text(const char **to, const char *text) {
  *to = text != NULL ? strdup(text) : NULL;
  return *to != NULL || text == NULL;
}

bool ring_reducer_gpu_init(ring_reducer_gpu *gpu, ring_comm *comm,
                           const ring_device_options *options) {
  const ring_device_options usual = RING_DEVICE_OPTIONS_INIT;
  const ring_device_options *given = options != NULL ? options : &usual;
  *gpu = (ring_reducer_gpu){.comm = comm, .options = *given};
  ring_side_stream_init(&gpu->side);
  bool enough = gpu_copy_text(&gpu->options.nccl, given->nccl);
  enough = gpu_copy_text(&gpu->options.cuda, given->cuda) && enough;
  return gpu_copy_text(&gpu->options.nvrtc, given->nvrtc) && enough;
}

/* The device is where the memory of this rank is. */
static ring_status gpu_open(ring_reducer_gpu *gpu) {
  ring_device_options options = gpu->options;
  ring_device_explanation explanation;
  if (gpu->side.is_open) options.gpu = gpu->side.gpu;
  gpu->opens = true;
  ring_status status = ring_device_open(gpu->comm, &options, &gpu->device);
  gpu->opens = false;
  if (status != RING_OK || gpu->side.is_open) return status;
  status = ring_device_explain(gpu->device, &explanation);
  if (status == RING_OK)
    return ring_side_stream_open(&gpu->side, options.cuda, explanation.gpu, NULL, &gpu->failure);
  gpu->failure = *ring_device_error(gpu->device);
  return status;
}

ring_status ring_reducer_gpu_open(ring_reducer_gpu *gpu, ring_error *refusal) {
  if (gpu->device == NULL && gpu->refusal.status == RING_OK) {
    ring_status status = gpu_open(gpu);
    bool agreed = status == RING_UNSUPPORTED || status == RING_MISMATCH;
    if (status != RING_OK && !agreed) return status;
    if (agreed) gpu->refusal = *ring_comm_error(gpu->comm);
  }
  *refusal = gpu->refusal;
  return RING_OK;
}

/* ---- Memory of users ----------------------------------------------------------------------- */

static const void *gpu_first(const ring_operation *operation) {
  const ring_buffer *buffers = operation->buffers;
  if (operation->kind != RING_OPERATION_ALLREDUCE_GROUP)
    return operation->input != NULL ? operation->input : operation->output;
  for (size_t i = 0; i < operation->buffer_count; i++)
    if (buffers[i].count > 0) return buffers[i].input;
  return NULL;
}

static ring_status gpu_check(const ring_side_stream *side, const ring_operation *operation,
                             ring_error *error) {
  bool group = operation->kind == RING_OPERATION_ALLREDUCE_GROUP;
  const ring_buffer one = {operation->input, operation->output, 1};
  const ring_buffer *buffers = group ? operation->buffers : &one;
  ring_status status = RING_OK;
  for (size_t i = 0; status == RING_OK && i < (group ? operation->buffer_count : 1); i++) {
    status = ring_side_stream_check(side, buffers[i].input, error);
    if (status == RING_OK) status = ring_side_stream_check(side, buffers[i].output, error);
  }
  return status;
}

ring_status ring_reducer_gpu_take(ring_reducer_gpu *gpu, const ring_operation *operation,
                                  ring_cuda_event *mark, ring_error *error) {
  ring_side_stream *side = &gpu->side;
  ring_error problem;
  ring_status status = ring_side_stream_open(side, gpu->options.cuda, gpu->options.gpu,
                                             gpu_first(operation), &problem);
  if (status == RING_OK) status = gpu_check(side, operation, &problem);
  if (status == RING_OK) status = ring_side_stream_mark(side, operation->stream, mark, &problem);
  if (status == RING_OK) return RING_OK;
  return ring_error_set(error, status, -1, 0, "\"%.200s\": %s", operation->name, problem.message);
}

/* ---- In a cycle ---------------------------------------------------------------------------- */

static ring_status gpu_failed(ring_reducer_gpu *gpu, const ring_error *error) {
  gpu->failure = *error;
  return error->status;
}

ring_status ring_reducer_gpu_follow(ring_reducer_gpu *gpu, ring_submission *submission) {
  ring_cuda_event mark = submission->mark;
  submission->mark = NULL;
  ring_status status = ring_side_stream_follow(&gpu->side, mark, &gpu->failure);
  ring_side_stream_forget(&gpu->side, mark);
  return status;
}

void ring_reducer_gpu_place(ring_reducer_gpu *gpu) {
  gpu->works = true;
  gpu->runs++;
  ring_comm_on_device(gpu->comm, gpu->device, gpu->side.stream);
}

/* Memory is freed when no work on the GPU uses it. */
static ring_status gpu_grow_zeros(ring_reducer_gpu *gpu, size_t bytes) {
  ring_device_memory_free(gpu->zeros);
  gpu->zeros = NULL;
  gpu->zero_bytes = 0;
  ring_status status = ring_device_memory_alloc(gpu->device, bytes, &gpu->zeros);
  if (status != RING_OK) return gpu_failed(gpu, ring_device_error(gpu->device));
  gpu->zero_bytes = bytes;
  return RING_OK;
}

ring_status ring_reducer_gpu_zeros(ring_reducer_gpu *gpu, size_t bytes, void **zeros) {
  *zeros = NULL;
  if (bytes == 0) return RING_OK;
  if (bytes > gpu->zero_bytes) {
    ring_status status = gpu_grow_zeros(gpu, bytes + bytes / 2);
    if (status != RING_OK) return status;
  }
  *zeros = ring_device_memory_address(gpu->zeros);
  return ring_side_stream_clear(&gpu->side, *zeros, bytes, &gpu->failure);
}

ring_status ring_reducer_gpu_await(ring_reducer_gpu *gpu) {
  if (!gpu->works) return RING_OK;
  ring_status status = ring_device_wait(gpu->device, gpu->side.stream);
  if (status != RING_OK) return gpu_failed(gpu, ring_device_error(gpu->device));
  gpu->works = false;
  return RING_OK;
}

/* ---- Ending -------------------------------------------------------------------------------- */

void ring_reducer_gpu_abort(ring_reducer_gpu *gpu, const char *reason) {
  if (gpu->device != NULL) ring_device_abort(gpu->device, reason);
}

void ring_reducer_gpu_fail(ring_reducer_gpu *gpu, const char *reason) {
  ring_reducer_gpu_abort(gpu, reason);
  if (gpu->works) ring_device_wait(gpu->device, gpu->side.stream);
  gpu->works = false;
}

ring_status ring_reducer_gpu_close(ring_reducer_gpu *gpu, ring_error *error) {
  ring_status status = gpu->device != NULL ? ring_device_close(gpu->device) : RING_OK;
  if (status != RING_OK) *error = *ring_device_error(gpu->device);
  return status;
}

void ring_reducer_gpu_free(ring_reducer_gpu *gpu) {
  ring_device_free(gpu->device);
  ring_device_memory_free(gpu->zeros);
  gpu->device = NULL;
  gpu->zeros = NULL;
}

void ring_reducer_gpu_destroy(ring_reducer_gpu *gpu) {
  ring_side_stream_close(&gpu->side);
  free((void *)gpu->options.nccl);
  free((void *)gpu->options.cuda);
  free((void *)gpu->options.nvrtc);
}
