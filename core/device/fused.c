/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups and conversions. Short buffers, and those that are converted, are packed into memory of the GPU by kernels,
 * reduced there as one, and unpacked. A bundle is what fits that memory.
 */
#include "base/dtype.h"
#include "base/error.h"
#include "device/device_hub.h"
#include "device/dispatch.h"
#include "device/kernels.h"

/* From here on a buffer that is not converted travels alone. */
#define FUSED_DIRECT_BYTES ((size_t)4 << 20)
#define FUSED_ALIGN ((size_t)16)  /* bytes, of each buffer in a bundle */
#define FUSED_WIDEST ((size_t)16) /* bytes of an element */

typedef struct fused_call {
  ring_device *device;
  const ring_buffer *buffers;
  size_t buffer_count;
  ring_dtype dtype, wire;
  ring_op op;
  double prescale, postscale;
  ring_cuda_stream stream;
} fused_call;

/* The next element of a group, and where it goes in the bundle. */
typedef struct fused_cursor {
  size_t buffer, element, bytes;
} fused_cursor;

typedef struct fused_piece {
  const ring_buffer *buffer;
  size_t first, count, offset;
} fused_piece;

static bool fused_converts(const fused_call *call) {
  return call->dtype != call->wire || call->prescale != 1 || call->postscale != 1;
}

static bool fused_is_direct(const fused_call *call, const ring_buffer *buffer) {
  return !fused_converts(call) &&
         (call->buffer_count == 1 || call->device->kernels.lacking[0] != '\0' ||
          buffer->count * ring_dtype_size(call->dtype) >= FUSED_DIRECT_BYTES);
}

/* The next piece that travels in the bundle; buffers that travel alone are passed over. False at the end of the group,
 * or when the bundle is full. */
static bool fused_next(const fused_call *call, fused_cursor *cursor, fused_piece *piece) {
  size_t width = ring_dtype_size(call->wire);
  while (cursor->buffer < call->buffer_count) {
    const ring_buffer *buffer = &call->buffers[cursor->buffer];
    size_t left = buffer->count - cursor->element,
           room = (RING_KERNELS_MOST_BYTES - cursor->bytes) / width;
    if (left > 0 && !fused_is_direct(call, buffer)) {
      if (room == 0) return false;
      size_t count = left < room ? left : room;
      *piece = (fused_piece){buffer, cursor->element, count, cursor->bytes};
      cursor->element += count;
      cursor->bytes += (count * width + FUSED_ALIGN - 1) / FUSED_ALIGN * FUSED_ALIGN;
      return true;
    }
    cursor->buffer++;
    cursor->element = 0;
  }
  return false;
}

static ring_status fused_failed(ring_device *device, ring_cuda_result result) {
  if (result == RING_CUDA_NO_MEMORY)
    return ring_device_hub_report_cuda(
        device, result, "the allocation of memory on the GPU for a group, 64 MiB at most,");
  return ring_device_hub_report_cuda(device, result, "kernels of sparkring");
}

/* Gets memory for the longest bundle, before anything of the group is issued. */
static ring_status fused_prepare(const fused_call *call) {
  fused_cursor cursor = {0};
  fused_piece piece;
  size_t longest = 0;
  while (cursor.buffer < call->buffer_count) {
    cursor.bytes = 0;
    while (fused_next(call, &cursor, &piece)) continue;
    if (cursor.bytes > longest) longest = cursor.bytes;
  }
  if (longest == 0) return RING_OK;
  ring_cuda_result result = ring_kernels_acquire(call->device, longest, call->stream);
  return result == RING_CUDA_SUCCESS ? RING_OK : fused_failed(call->device, result);
}

/* ---- Bundles ------------------------------------------------------------------------------- */

static const uint8_t *fused_at(const void *memory, size_t element, ring_dtype dtype) {
  return (const uint8_t *)memory + element * ring_dtype_size(dtype);
}

/* Copies between the buffers of a bundle and its memory, which begins where the cursor does. */
static ring_cuda_result fused_copy(const fused_call *call, fused_cursor cursor, bool packs) {
  ring_device *device = call->device;
  ring_kernel_batch batch;
  fused_piece piece;
  ring_cuda_result result = RING_CUDA_SUCCESS;
  if (packs)
    ring_kernels_begin(&batch, call->dtype, call->wire, call->prescale);
  else
    ring_kernels_begin(&batch, call->wire, call->dtype, call->postscale);
  while (result == RING_CUDA_SUCCESS && fused_next(call, &cursor, &piece)) {
    const void *fused = (const void *)(uintptr_t)(device->kernels.fused + piece.offset);
    const void *from = packs ? fused_at(piece.buffer->input, piece.first, call->dtype) : fused;
    const void *to = packs ? fused : fused_at(piece.buffer->output, piece.first, call->dtype);
    result = ring_kernels_add(device, &batch, from, (void *)to, piece.count, call->stream);
  }
  return result == RING_CUDA_SUCCESS ? ring_kernels_launch(device, &batch, call->stream) : result;
}

static ring_status fused_reduce(const fused_call *call, const void *input, void *output,
                                size_t count, ring_dtype dtype) {
  const ring_device_args args = {.collective = RING_COLLECTIVE_ALLREDUCE,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .op = call->op,
                                 .stream = call->stream};
  return ring_device_dispatch(call->device, &args);
}

/* Packs, reduces and unpacks what the cursor comes to. */
static ring_status fused_bundle(const fused_call *call, fused_cursor *cursor) {
  ring_device *device = call->device;
  const fused_cursor begin = {cursor->buffer, cursor->element, 0};
  fused_piece piece;
  *cursor = begin;
  while (fused_next(call, cursor, &piece)) continue;
  if (cursor->bytes == 0) return RING_OK;
  ring_cuda_result result = fused_copy(call, begin, true);
  if (result != RING_CUDA_SUCCESS) return fused_failed(device, result);
  void *fused = (void *)(uintptr_t)device->kernels.fused;
  ring_status status =
      fused_reduce(call, fused, fused, cursor->bytes / ring_dtype_size(call->wire), call->wire);
  if (status != RING_OK) return status;
  result = fused_copy(call, begin, false);
  if (result == RING_CUDA_SUCCESS) result = ring_kernels_release(device, call->stream);
  return result == RING_CUDA_SUCCESS ? RING_OK : fused_failed(device, result);
}

static ring_status fused_run(const fused_call *call) {
  fused_cursor cursor = {0};
  ring_status status = fused_prepare(call);
  for (size_t i = 0; i < call->buffer_count && status == RING_OK; i++) {
    const ring_buffer *buffer = &call->buffers[i];
    if (buffer->count > 0 && fused_is_direct(call, buffer))
      status = fused_reduce(call, buffer->input, buffer->output, buffer->count, call->dtype);
  }
  while (status == RING_OK && cursor.buffer < call->buffer_count)
    status = fused_bundle(call, &cursor);
  return status;
}

/* ---- Entry points -------------------------------------------------------------------------- */

static ring_status fused_lacking(const ring_device *device) {
  return ring_error_set(ring_device_reason(), RING_UNSUPPORTED, device->rank, 0,
                        "elements cannot be converted or multiplied on the GPU: %s",
                        device->kernels.lacking);
}

static ring_status fused_check_buffers(const fused_call *call) {
  const ring_device *device = call->device;
  const size_t most = SIZE_MAX / FUSED_WIDEST / (size_t)device->size;
  ring_status status = RING_OK;
  if (call->buffers == NULL && call->buffer_count > 0)
    return ring_device_invalid(device, "allreduce_group: buffers is NULL");
  for (size_t i = 0; i < call->buffer_count && status == RING_OK; i++) {
    const ring_buffer *buffer = &call->buffers[i];
    if (buffer->count > 0 && (buffer->input == NULL || buffer->output == NULL))
      return ring_device_invalid(device, "allreduce_group: memory of buffer %zu is NULL", i);
    if (buffer->count > most)
      return ring_device_invalid(device, "allreduce_group: count %zu of buffer %zu is too large",
                                 buffer->count, i);
    status = ring_device_check_pointer(device, buffer->input, call->dtype, "allreduce_group");
    if (status == RING_OK)
      status = ring_device_check_pointer(device, buffer->output, call->dtype, "allreduce_group");
  }
  return status;
}

static ring_status fused_check(const fused_call *call) {
  const ring_device *device = call->device;
  if (!ring_op_allowed(call->op, call->dtype) || !ring_op_allowed(call->op, call->wire))
    return ring_device_invalid(device, "allreduce_group: the op %s does not work on %s as %s",
                               ring_op_name(call->op), ring_dtype_name(call->dtype),
                               ring_dtype_name(call->wire));
  if (!ring_kernels_convert(call->dtype, call->wire, call->prescale) ||
      !ring_kernels_convert(call->wire, call->dtype, call->postscale))
    return ring_device_invalid(
        device,
        "allreduce_group: %s cannot travel as %s with these factors: halves and float32 can",
        ring_dtype_name(call->dtype), ring_dtype_name(call->wire));
  ring_status status = fused_check_buffers(call);
  if (status == RING_OK && fused_converts(call) && device->kernels.lacking[0] != '\0')
    status = fused_lacking(device);
  if (status != RING_OK) return status;
  return ring_device_check_call(device, call->stream, "allreduce_group");
}

ring_status ring_device_allreduce_group(ring_device *device, const ring_buffer *buffers,
                                        size_t buffer_count, ring_dtype dtype, ring_dtype wire,
                                        ring_op op, double prescale, double postscale,
                                        void *stream) {
  const fused_call call = {device, buffers,  buffer_count, dtype, wire,
                           op,     prescale, postscale,    stream};
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = fused_check(&call);
  if (status == RING_OK) status = fused_run(&call);
  return ring_device_leave(device, status);
}

static ring_status fused_check_cast(const ring_device *device, const void *input, ring_dtype dtype,
                                    const void *output, ring_dtype output_dtype, size_t count,
                                    double scale) {
  if (!ring_kernels_convert(dtype, output_dtype, scale))
    return ring_device_invalid(
        device, "cast: there is none of %s to %s with a scale: halves and float32 have one",
        ring_dtype_name(dtype), ring_dtype_name(output_dtype));
  if (count > 0 && (input == NULL || output == NULL))
    return ring_device_invalid(device, "cast: memory is NULL");
  if (count > SIZE_MAX / FUSED_WIDEST)
    return ring_device_invalid(device, "cast: count %zu is too large", count);
  if (device->kernels.lacking[0] != '\0') return fused_lacking(device);
  ring_status status = ring_device_check_pointer(device, input, dtype, "cast");
  return status == RING_OK ? ring_device_check_pointer(device, output, output_dtype, "cast")
                           : status;
}

ring_status ring_device_cast(ring_device *device, const void *input, ring_dtype dtype, void *output,
                             ring_dtype output_dtype, size_t count, double scale, void *stream) {
  ring_kernel_batch batch;
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = fused_check_cast(device, input, dtype, output, output_dtype, count, scale);
  if (status == RING_OK) status = ring_device_check_call(device, stream, "cast");
  if (status != RING_OK || count == 0) return ring_device_leave(device, status);
  ring_kernels_begin(&batch, dtype, output_dtype, scale);
  ring_cuda_result result = ring_kernels_add(device, &batch, input, output, count, stream);
  if (result == RING_CUDA_SUCCESS) result = ring_kernels_launch(device, &batch, stream);
  if (result != RING_CUDA_SUCCESS) status = fused_failed(device, result);
  return ring_device_leave(device, status);
}
