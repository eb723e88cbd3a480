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
  uint8_t collective; /* of each buffer */
  bool reads;         /* this rank's inputs are read: no broadcast of another rank */
  /* Parts of `count` elements that an input and an output have. */
  size_t in_parts, out_parts;
} fusion_run;

static size_t fusion_most(const fusion_run *run) {
  return run->in_parts > run->out_parts ? run->in_parts : run->out_parts;
}

static bool fusion_is_short(const fusion_run *run, const ring_group_item *item) {
  size_t width = ring_dtype_size(item->dtype);
  return item->count > 0 && item->count < FUSION_LONG / width / fusion_most(run);
}

/* Runs one collective of the group, under the signature of the group. */
static ring_status fusion_call(const fusion_run *run, const ring_group_item *item) {
  const ring_call *call = &run->group->work.outline.call;
  uint64_t count = item->count;
  collective_args one = {.work = {.outline = {.call = {.collective = run->collective,
                                                       .op = call->op,
                                                       .dtype = (uint8_t)item->dtype,
                                                       .sequence = call->sequence,
                                                       .root = call->root,
                                                       .count = count},
                                              .parts = {NULL, count},
                                              .received = {NULL, count}},
                                  .signature = call,
                                  .input = item->input,
                                  .output = item->output,
                                  .output_count = count * run->out_parts,
                                  .description = run->group->work.description},
                         .input_count = run->reads ? count * run->in_parts : 0,
                         .in_place = true};
  return ring_collective_run(run->comm, &one, run->wait);
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

static bool fusion_scales_before(const collective_args *args) {
  return args->scaled && args->prescale != 1;
}

static bool fusion_scales_after(const collective_args *args) {
  return args->scaled && args->postscale != 1;
}

/* A factor before is applied on the way to the output, or where that is shorter to the memory of bundles;
 * in a bundle where it lies. */
static ring_status fusion_call_scaled(const fusion_run *run, const ring_group_item *item,
                                      bool bundled) {
  const collective_args *group = run->group;
  ring_group_item scaled = *item;
  size_t count = item->count * run->in_parts;
  ring_status status = RING_OK;
  if (fusion_scales_before(group)) {
    void *place = bundled ? run->comm->bundle : item->output;
    if (!bundled && run->in_parts > run->out_parts) {
      status = fusion_grow(run->comm, count * ring_dtype_size(item->dtype));
      place = run->comm->bundle;
    }
    if (status != RING_OK) return status;
    ring_scale(item->dtype, place, item->input, count, group->prescale);
    scaled.input = place;
  }
  status = fusion_call(run, &scaled);
  if (status == RING_OK && fusion_scales_after(group))
    ring_scale(item->dtype, item->output, item->output, item->count * run->out_parts,
               group->postscale);
  return status;
}

static ring_status fusion_run_long(const fusion_run *run) {
  ring_status status = RING_OK;
  for (size_t i = 0; status == RING_OK && i < run->group->item_count; i++) {
    const ring_group_item *item = &run->group->store->items[i];
    if (item->count > 0 && !fusion_is_short(run, item))
      status = fusion_call_scaled(run, item, false);
  }
  return status;
}

/* ---- Bundles ------------------------------------------------------------------------------ */

/* The end of the bundle of a dtype that begins at item `first`. *count becomes its number of elements. */
static size_t fusion_bundle_end(const fusion_run *run, ring_dtype dtype, size_t first,
                                uint64_t *count) {
  size_t end = first, most = FUSION_BUNDLE / ring_dtype_size(dtype) / fusion_most(run);
  *count = 0;
  for (; end < run->group->item_count; end++) {
    const ring_group_item *item = &run->group->store->items[end];
    if (item->dtype != dtype || !fusion_is_short(run, item)) continue;
    if (*count + item->count > most) break;
    *count += item->count;
  }
  return end;
}

/* Copies the short items of a dtype from `first` to before `end` into the bundle at `at`, or out of it: part
 * by part, each with its piece of every item. */
static void fusion_copy(const fusion_run *run, ring_dtype dtype, size_t first, size_t end, bool in,
                        uint8_t *at) {
  size_t width = ring_dtype_size(dtype), parts = in ? run->in_parts : run->out_parts;
  for (size_t part = 0; part < parts; part++)
    for (size_t i = first; i < end; i++) {
      const ring_group_item *item = &run->group->store->items[i];
      if (item->dtype != dtype || !fusion_is_short(run, item)) continue;
      size_t bytes = item->count * width;
      if (in)
        memcpy(at, (const uint8_t *)item->input + part * bytes, bytes);
      else
        memcpy((uint8_t *)item->output + part * bytes, at, bytes);
      at += bytes;
    }
}

/* The bundle of outputs lies behind that of inputs, where their lengths differ. */
static ring_status fusion_run_bundle(const fusion_run *run, ring_dtype dtype, size_t first,
                                     size_t end, uint64_t count) {
  size_t bytes = count * ring_dtype_size(dtype);
  size_t behind = run->in_parts == run->out_parts ? 0 : (run->in_parts * bytes + 63) / 64 * 64;
  ring_status status = fusion_grow(run->comm, behind + fusion_most(run) * bytes);
  if (status != RING_OK) return status;
  uint8_t *in = run->comm->bundle, *out = in + behind;
  if (run->reads) fusion_copy(run, dtype, first, end, true, in);
  status = fusion_call_scaled(run, &(ring_group_item){in, out, count, dtype}, true);
  if (status == RING_OK) fusion_copy(run, dtype, first, end, false, out);
  return status;
}

static ring_status fusion_run_short(const fusion_run *run, ring_dtype dtype) {
  size_t end;
  for (size_t first = 0; first < run->group->item_count; first = end) {
    uint64_t count;
    end = fusion_bundle_end(run, dtype, first, &count);
    if (count == 0) continue;
    ring_status status = fusion_run_bundle(run, dtype, first, end, count);
    if (status != RING_OK) return status;
  }
  return RING_OK;
}

/* Out of line, so that ring_fusion_run is one jump for a single collective. */
__attribute__((noinline)) static ring_status
fusion_run_group(ring_comm *comm, collective_args *group, ring_wait *wait) {
  const ring_call *call = &group->work.outline.call;
  size_t size = (size_t)comm->peers.size;
  uint8_t collective = ring_collective_of_group(call->collective);
  fusion_run run = {.comm = comm,
                    .group = group,
                    .wait = wait,
                    .collective = collective,
                    .reads =
                        collective != RING_COLLECTIVE_BROADCAST || comm->peers.rank == call->root,
                    .in_parts = collective == RING_COLLECTIVE_REDUCE_SCATTER ? size : 1,
                    .out_parts = collective == RING_COLLECTIVE_ALLGATHER ? size : 1};
  /* A group without elements is still a call: ranks that disagree have to get RING_MISMATCH. */
  if (call->count == 0) return fusion_call(&run, &(ring_group_item){.dtype = RING_INT8});
  ring_status status = fusion_run_long(&run);
  bool mixed = call->dtype == RING_CALL_MIXED;
  for (int dtype = 0; status == RING_OK && dtype < RING_DTYPE_COUNT; dtype++)
    if (mixed || dtype == call->dtype) status = fusion_run_short(&run, (ring_dtype)dtype);
  return status;
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
  if (ring_collective_of_group(args->work.outline.call.collective) != 0)
    return fusion_run_group(comm, args, wait);
  if (args->scaled) return fusion_run_scaled(comm, args, wait);
  return ring_collective_run(comm, args, wait);
}

ring_status ring_fusion_run_here(ring_comm *comm, collective_args *args) {
  const ring_place *place = &comm->place;
  ring_wait wait;
  if (place->run != NULL) return place->run(place->device, args, place->stream, &comm->error);
  comm_prepare_wait(comm, comm->call_timeout, &wait);
  ring_status status = ring_fusion_run(comm, args, &wait);
  if (status != RING_OK) comm->error = comm->failure;
  return status;
}
