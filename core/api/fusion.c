/* SPDX-License-Identifier: Apache-2.0 */
#include "api/fusion.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "engine/scale.h"

/* A buffer of this many bytes is reduced alone. Over TCP on one machine, bundling gains up to
 * about twice this size; where ranks share memory the copies cost more. */
#define FUSION_LONG (128 * 1024)

/* A bundle never grows beyond this. Its memory stays with the communicator. With 4 MiB, 32
 * buffers of 8 to 64 KiB take 0.6 of the time that they take with 1 MiB. */
#define FUSION_BUNDLE (4 * 1024 * 1024)

typedef struct fusion_run {
  ring_comm *comm;
  collective_args *group;
  ring_wait *wait;
  size_t width; /* bytes of an element */
} fusion_run;

static bool fusion_is_short(const fusion_run *run, const ring_buffer *buffer) {
  return buffer->count > 0 && buffer->count < FUSION_LONG / run->width;
}

/* Runs one allreduce of the group, under the signature of the group. */
static ring_status fusion_reduce(const fusion_run *run, const void *input, void *output,
                                 uint64_t count) {
  const ring_call *call = &run->group->work.outline.call;
  collective_args one = {.work = {.outline.call = {.collective = RING_COLLECTIVE_ALLREDUCE,
                                                   .op = call->op,
                                                   .dtype = call->dtype,
                                                   .sequence = call->sequence,
                                                   .count = count},
                                  .signature = call,
                                  .input = input,
                                  .output = output,
                                  .output_count = count,
                                  .description = run->group->work.description},
                         .input_count = count,
                         .in_place = true};
  return ring_collective_run(run->comm, &one, run->wait);
}

static bool fusion_scales_before(const collective_args *args) {
  return args->scaled && args->prescale != 1;
}

static bool fusion_scales_after(const collective_args *args) {
  return args->scaled && args->postscale != 1;
}

/* A factor before is applied on the way to the output, where the buffer is reduced in place then. */
static ring_status fusion_reduce_scaled(const fusion_run *run, const ring_buffer *buffer) {
  const collective_args *group = run->group;
  ring_dtype dtype = (ring_dtype)group->work.outline.call.dtype;
  bool before = fusion_scales_before(group);
  if (before) ring_scale(dtype, buffer->output, buffer->input, buffer->count, group->prescale);
  ring_status status =
      fusion_reduce(run, before ? buffer->output : buffer->input, buffer->output, buffer->count);
  if (status == RING_OK && fusion_scales_after(group))
    ring_scale(dtype, buffer->output, buffer->output, buffer->count, group->postscale);
  return status;
}

static ring_status fusion_reduce_long(const fusion_run *run) {
  ring_status status = RING_OK;
  for (size_t i = 0; status == RING_OK && i < run->group->buffer_count; i++) {
    const ring_buffer *buffer = &run->group->store->buffers[i];
    if (buffer->count > 0 && !fusion_is_short(run, buffer))
      status = fusion_reduce_scaled(run, buffer);
  }
  return status;
}

/* The end of the bundle that begins at buffer `first`. *count becomes its number of elements. */
static size_t fusion_bundle_end(const fusion_run *run, size_t first, uint64_t *count) {
  size_t end = first;
  *count = 0;
  for (; end < run->group->buffer_count; end++) {
    const ring_buffer *buffer = &run->group->store->buffers[end];
    if (!fusion_is_short(run, buffer)) continue;
    if (*count + buffer->count > FUSION_BUNDLE / run->width) break;
    *count += buffer->count;
  }
  return end;
}

/* Copies the short buffers from `first` to before `end` into the bundle, or out of it. */
static void fusion_copy(const fusion_run *run, size_t first, size_t end, bool in) {
  uint8_t *at = run->comm->bundle;
  for (size_t i = first; i < end; i++) {
    const ring_buffer *buffer = &run->group->store->buffers[i];
    if (!fusion_is_short(run, buffer)) continue;
    size_t bytes = buffer->count * run->width;
    if (in)
      memcpy(at, buffer->input, bytes);
    else
      memcpy(buffer->output, at, bytes);
    at += bytes;
  }
}

static ring_status fusion_grow(ring_comm *comm, size_t need) {
  if (need <= comm->bundle_capacity) return RING_OK;
  uint8_t *grown = realloc(comm->bundle, need);
  ring_error error;
  if (grown == NULL) {
    ring_error_set(&error, RING_NO_MEMORY, comm->peers.rank, 0,
                   "rank %d is out of memory: the group needs %zu bytes", comm->peers.rank, need);
    ring_comm_break(comm, &error);
    return RING_NO_MEMORY;
  }
  comm->bundle = grown;
  comm->bundle_capacity = need;
  return RING_OK;
}

static ring_status fusion_reduce_short(const fusion_run *run) {
  size_t end;
  for (size_t first = 0; first < run->group->buffer_count; first = end) {
    uint64_t count;
    end = fusion_bundle_end(run, first, &count);
    if (count == 0) continue;
    ring_status status = fusion_grow(run->comm, count * run->width);
    if (status != RING_OK) return status;
    fusion_copy(run, first, end, true);
    status = fusion_reduce_scaled(run, &(ring_buffer){run->comm->bundle, run->comm->bundle, count});
    if (status != RING_OK) return status;
    fusion_copy(run, first, end, false);
  }
  return RING_OK;
}

/* Out of line, so that ring_fusion_run is one jump for a single collective. */
__attribute__((noinline)) static ring_status
fusion_run_group(ring_comm *comm, collective_args *group, ring_wait *wait) {
  fusion_run run = {comm, group, wait, ring_dtype_size((ring_dtype)group->work.outline.call.dtype)};
  /* A group without elements is still a call: ranks that disagree have to get RING_MISMATCH. */
  if (group->work.outline.call.count == 0) return fusion_reduce(&run, NULL, NULL, 0);
  ring_status status = fusion_reduce_long(&run);
  return status == RING_OK ? fusion_reduce_short(&run) : status;
}

/* A single reduction with factors. The scaled input goes to the output, if that holds as much, or else to
 * the memory of bundles. */
__attribute__((noinline)) static ring_status
fusion_run_scaled(ring_comm *comm, const collective_args *args, ring_wait *wait) {
  collective_args scaled = *args;
  ring_dtype dtype = (ring_dtype)args->work.outline.call.dtype;
  void *output = args->work.output, *place = output;
  ring_status status = RING_OK;
  if (fusion_scales_before(args)) {
    bool fits = args->work.output_count == args->input_count;
    if (!fits) status = fusion_grow(comm, args->input_count * ring_dtype_size(dtype));
    if (status != RING_OK) return status;
    if (!fits) place = comm->bundle;
    ring_scale(dtype, place, args->work.input, args->input_count, args->prescale);
    scaled.work.input = place;
  }
  status = ring_collective_run(comm, &scaled, wait);
  if (status == RING_OK && fusion_scales_after(args))
    ring_scale(dtype, output, output, args->work.output_count, args->postscale);
  return status;
}

ring_status ring_fusion_run(ring_comm *comm, collective_args *args, ring_wait *wait) {
  if (args->work.outline.call.collective == RING_COLLECTIVE_ALLREDUCE_GROUP)
    return fusion_run_group(comm, args, wait);
  if (args->scaled) return fusion_run_scaled(comm, args, wait);
  return ring_collective_run(comm, args, wait);
}

ring_status ring_fusion_run_here(ring_comm *comm, collective_args *args) {
  ring_wait wait;
  comm_prepare_wait(comm, comm->call_timeout, &wait);
  ring_status status = ring_fusion_run(comm, args, &wait);
  if (status != RING_OK) comm->error = comm->failure;
  return status;
}
