/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups and conversions. Short buffers, and those that are converted, are packed into memory of the GPU by kernels,
 * reduced there as one, and unpacked. A bundle is what fits that memory. NCCL multiplies in its sums where it can. On
 * ranks without kernels the buffers are one group of NCCL, and what is converted goes through the host.
 */
#include "base/dtype.h"
#include "base/error.h"
#include "device/device_hub.h"
#include "device/dispatch.h"
#include "device/host_path.h"
#include "device/kernels.h"
#include "device/nccl_path.h"

/* From here on a buffer that is not converted travels alone. */
#define FUSED_DIRECT_BYTES ((size_t)4 << 20)
#define FUSED_ALIGN ((size_t)16)  /* bytes, of each buffer in a bundle */
#define FUSED_WIDEST ((size_t)16) /* bytes of an element */

/* A group. `args` ask the reduction for what the kernels do not do. */
typedef struct fused_call {
  ring_device *device;
  const ring_buffer *buffers;
  size_t buffer_count;
  ring_device_args args; /* of the reduction of a buffer or a bundle */
  bool packs; /* there are kernels that do what NCCL does not; else no buffer is packed */
  ring_dtype wire;
  double prescale, postscale; /* of the kernels */
} fused_call;

/* The next element of a group, and where it goes in the bundle. */
typedef struct fused_cursor {
  size_t buffer, element, bytes;
} fused_cursor;

typedef struct fused_piece {
  const ring_buffer *buffer;
  size_t first, count, offset;
} fused_piece;

static bool fused_is_direct(const fused_call *call, const ring_buffer *buffer) {
  ring_dtype dtype = call->args.dtype;
  return dtype == call->wire && call->prescale == 1 && call->postscale == 1 &&
         (call->buffer_count == 1 || buffer->count * ring_dtype_size(dtype) >= FUSED_DIRECT_BYTES);
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
  ring_cuda_result result = ring_kernels_acquire(call->device, longest, call->args.stream);
  return result == RING_CUDA_SUCCESS ? RING_OK : fused_failed(call->device, result);
}

/* ---- Bundles ------------------------------------------------------------------------------- */

static const uint8_t *fused_at(const void *memory, size_t element, ring_dtype dtype) {
  return (const uint8_t *)memory + element * ring_dtype_size(dtype);
}

/* Copies between the buffers of a bundle and its memory, which begins where the cursor does. */
static ring_cuda_result fused_copy(const fused_call *call, fused_cursor cursor, bool packs) {
  ring_device *device = call->device;
  const ring_dtype dtype = call->args.dtype;
  ring_kernel_batch batch;
  fused_piece piece;
  ring_cuda_result result = RING_CUDA_SUCCESS;
  if (packs)
    ring_kernels_begin(&batch, dtype, call->wire, call->prescale);
  else
    ring_kernels_begin(&batch, call->wire, dtype, call->postscale);
  while (result == RING_CUDA_SUCCESS && fused_next(call, &cursor, &piece)) {
    const void *fused = (const void *)(uintptr_t)(device->kernels.fused + piece.offset);
    const void *from = packs ? fused_at(piece.buffer->input, piece.first, dtype) : fused;
    const void *to = packs ? fused : fused_at(piece.buffer->output, piece.first, dtype);
    result = ring_kernels_add(device, &batch, from, (void *)to, piece.count, call->args.stream);
  }
  return result == RING_CUDA_SUCCESS ? ring_kernels_launch(device, &batch, call->args.stream)
                                     : result;
}

static ring_status fused_reduce(const fused_call *call, const void *input, void *output,
                                size_t count, ring_dtype dtype) {
  ring_device_args args = call->args;
  args.input = input;
  args.output = output;
  args.count = count;
  args.dtype = dtype;
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
  if (result == RING_CUDA_SUCCESS) result = ring_kernels_release(device, call->args.stream);
  return result == RING_CUDA_SUCCESS ? RING_OK : fused_failed(device, result);
}

/* Without kernels: one group of NCCL, or one buffer after the other through the host, which converts, too. */
static ring_status fused_run_plain(const fused_call *call) {
  ring_device_args args = call->args;
  args.collective = RING_COLLECTIVE_ALLREDUCE_GROUP;
  args.buffers = call->buffers;
  args.buffer_count = call->buffer_count;
  for (size_t i = 0; i < call->buffer_count; i++) args.count += call->buffers[i].count;
  return args.count > 0 ? ring_device_dispatch(call->device, &args) : RING_OK;
}

static ring_status fused_run(const fused_call *call) {
  fused_cursor cursor = {0};
  if (!call->packs) return fused_run_plain(call);
  ring_status status = fused_prepare(call);
  for (size_t i = 0; i < call->buffer_count && status == RING_OK; i++) {
    const ring_buffer *buffer = &call->buffers[i];
    if (buffer->count > 0 && fused_is_direct(call, buffer))
      status = fused_reduce(call, buffer->input, buffer->output, buffer->count, call->args.dtype);
  }
  while (status == RING_OK && cursor.buffer < call->buffer_count)
    status = fused_bundle(call, &cursor);
  return status;
}

/* ---- Entry points -------------------------------------------------------------------------- */

/* Decides what the kernels do, if there are any: all that NCCL does not. */
static void fused_share_out(fused_call *call) {
  ring_device_args *args = &call->args;
  bool in_sum = args->scaled && ring_nccl_serves(call->device, args);
  if (in_sum) call->prescale = call->postscale = 1;
  call->packs = call->device->kernels.lacking[0] == '\0' &&
                ring_kernels_convert(args->dtype, call->wire, call->prescale) &&
                ring_kernels_convert(call->wire, args->dtype, call->postscale);
  if (!call->packs) return;
  args->converts = false;
  args->scaled = in_sum;
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
    ring_dtype dtype = call->args.dtype;
    status = ring_device_check_pointer(device, buffer->input, dtype, "allreduce_group");
    if (status == RING_OK)
      status = ring_device_check_pointer(device, buffer->output, dtype, "allreduce_group");
  }
  return status;
}

static bool fused_is_short(ring_dtype dtype) {
  return dtype == RING_FLOAT32 || dtype == RING_FLOAT16 || dtype == RING_BFLOAT16;
}

/* Whether elements can travel as another dtype, and have factors. */
static bool fused_may(const ring_device_args *args) {
  if (args->converts)
    return fused_is_short(args->dtype) && fused_is_short(args->wire) &&
           (args->dtype == RING_FLOAT32 || args->wire == RING_FLOAT32);
  return !args->scaled || fused_is_short(args->dtype) || args->dtype == RING_FLOAT64;
}

static ring_status fused_check(const fused_call *call) {
  const ring_device *device = call->device;
  const ring_device_args *args = &call->args;
  if (!ring_op_allowed(args->op, args->dtype) || !ring_op_allowed(args->op, args->wire))
    return ring_device_invalid(device, "allreduce_group: the op %s does not work on %s as %s",
                               ring_op_name(args->op), ring_dtype_name(args->dtype),
                               ring_dtype_name(args->wire));
  if (!fused_may(args))
    return ring_device_invalid(device,
                               "allreduce_group: %s cannot travel as %s with these factors: halves "
                               "and float32 can, and float64 as it is",
                               ring_dtype_name(args->dtype), ring_dtype_name(args->wire));
  ring_status status = fused_check_buffers(call);
  if (status != RING_OK) return status;
  return ring_device_check_call(device, args->stream, "allreduce_group");
}

ring_status ring_device_allreduce_group(ring_device *device, const ring_buffer *buffers,
                                        size_t buffer_count, ring_dtype dtype, ring_dtype wire,
                                        ring_op op, double prescale, double postscale,
                                        void *stream) {
  fused_call call = {.device = device,
                     .buffers = buffers,
                     .buffer_count = buffer_count,
                     .args = {.collective = RING_COLLECTIVE_ALLREDUCE,
                              .dtype = dtype,
                              .op = op,
                              .converts = dtype != wire,
                              .scaled = prescale != 1 || postscale != 1,
                              .wire = wire,
                              .prescale = prescale,
                              .postscale = postscale,
                              .stream = stream},
                     .wire = wire,
                     .prescale = prescale,
                     .postscale = postscale};
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = fused_check(&call);
  if (status == RING_OK) {
    fused_share_out(&call);
    status = fused_run(&call);
  }
  return ring_device_leave(device, status);
}

static ring_status fused_check_cast(const ring_device *device, const ring_device_args *args) {
  if (!ring_kernels_convert(args->dtype, args->wire, args->prescale))
    return ring_device_invalid(
        device, "cast: there is none of %s to %s with a scale: halves and float32 have one",
        ring_dtype_name(args->dtype), ring_dtype_name(args->wire));
  if (args->count > 0 && (args->input == NULL || args->output == NULL))
    return ring_device_invalid(device, "cast: memory is NULL");
  if (args->count > SIZE_MAX / FUSED_WIDEST)
    return ring_device_invalid(device, "cast: count %zu is too large", args->count);
  ring_status status = ring_device_check_pointer(device, args->input, args->dtype, "cast");
  if (status == RING_OK)
    status = ring_device_check_pointer(device, args->output, args->wire, "cast");
  return status == RING_OK ? ring_device_check_call(device, args->stream, "cast") : status;
}

static ring_status fused_cast(ring_device *device, const ring_device_args *args) {
  ring_kernel_batch batch;
  if (args->count == 0) return RING_OK;
  if (device->kernels.lacking[0] != '\0') return ring_host_run(device, args);
  ring_kernels_begin(&batch, args->dtype, args->wire, args->prescale);
  ring_cuda_result result =
      ring_kernels_add(device, &batch, args->input, args->output, args->count, args->stream);
  if (result == RING_CUDA_SUCCESS) result = ring_kernels_launch(device, &batch, args->stream);
  return result == RING_CUDA_SUCCESS ? RING_OK : fused_failed(device, result);
}

ring_status ring_device_cast(ring_device *device, const void *input, ring_dtype dtype, void *output,
                             ring_dtype output_dtype, size_t count, double scale, void *stream) {
  const ring_device_args args = {.casts = true,
                                 .input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype,
                                 .wire = output_dtype,
                                 .prescale = scale,
                                 .stream = stream};
  ring_status status = ring_device_enter(device);
  if (status != RING_OK) return status;
  status = fused_check_cast(device, &args);
  if (status == RING_OK) status = fused_cast(device, &args);
  return ring_device_leave(device, status);
}
