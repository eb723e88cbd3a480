/* SPDX-License-Identifier: Apache-2.0 */
#include "api/collective.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/counter.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/identity.h"
#include "engine/reduce.h"
#include "shm/shm_failure.h"
#include "shm_collectives/shm_collective.h"

#define COLLECTIVE_MOST ((uint64_t)PTRDIFF_MAX - 2 * RING_CHUNK_BYTES) /* bytes of a buffer */

/* ---- Checking ----------------------------------------------------------------------------- */

ring_status ring_collective_invalid(ring_comm *comm, uint8_t collective, const char *problem) {
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0, "%s: %s",
                        ring_collective_name(collective), problem);
}

static bool collective_overlaps(const collective_args *args, size_t size) {
  uintptr_t input = (uintptr_t)args->work.input, output = (uintptr_t)args->work.output;
  uintptr_t input_bytes = args->input_count * size, output_bytes = args->work.output_count * size;
  bool apart = input + input_bytes <= output || output + output_bytes <= input;
  if (apart) return false;
  return !args->in_place || input + args->in_at * size != output + args->out_at * size;
}

static ring_status collective_check_op(ring_comm *comm, const ring_call *call) {
  ring_op op = (ring_op)call->op;
  ring_dtype dtype = (ring_dtype)call->dtype;
  const char *name = ring_collective_name(call->collective);
  if (ring_op_allowed(op, dtype)) return RING_OK;
  if (!ring_op_valid(op))
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: %d is no op: pass a ring_op", name, (int)op);
  if (ring_op_is_logical(op) || ring_op_is_bitwise(op))
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: op %s is for integers and bool, not for %s", name, ring_op_name(op),
                          ring_dtype_name(dtype));
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                        "%s: op %s is not defined on %s: pass integers or floats", name,
                        ring_op_name(op), ring_dtype_name(dtype));
}

ring_status ring_collective_check(ring_comm *comm, const collective_args *args) {
  const ring_call *call = &args->work.outline.call;
  size_t size = ring_dtype_size((ring_dtype)call->dtype);
  if (size == 0)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: %d is no dtype: pass a ring_dtype",
                          ring_collective_name(call->collective), (int)call->dtype);
  uint64_t most =
      args->input_count > args->work.output_count ? args->input_count : args->work.output_count;
  if (most > COLLECTIVE_MOST / (2 * sizeof(double)) &&
      most > COLLECTIVE_MOST / ring_dtype_wide_size((ring_dtype)call->dtype))
    return ring_collective_invalid(comm, call->collective,
                                   "the buffers would be larger than memory");
  if (args->work.input == NULL && args->input_count > 0)
    return ring_collective_invalid(comm, call->collective, "input is NULL but count is not 0");
  if (args->work.output == NULL && args->work.output_count > 0)
    return ring_collective_invalid(comm, call->collective, "output is NULL but count is not 0");
  if (collective_overlaps(args, size))
    return ring_collective_invalid(comm, call->collective,
                                   "input overlaps output without being in place");
  return ring_collective_reduces(call->collective) ? collective_check_op(comm, call) : RING_OK;
}

/* ---- Running ------------------------------------------------------------------------------ */

/* Makes logical values 0 or 1, by LOR with themselves, where they are copied and not reduced: with one rank,
 * and at the begin of a scan. */
static void collective_normalize(const ring_comm *comm, const collective_args *args) {
  const ring_call *call = &args->work.outline.call;
  bool logical = ring_op_is_logical((ring_op)call->op) || call->dtype == RING_BOOL;
  bool copies = comm->peers.size == 1 || ring_collective_scans(call->collective);
  if (!copies || !logical || !ring_collective_reduces(call->collective)) return;
  ring_reduction reduction = {.dtype = (ring_dtype)call->dtype, .op = RING_LOR};
  ring_reduction_apply(&reduction, args->work.output, args->work.output, args->work.output,
                       args->work.output_count);
}

/* Finishes what no schedule writes. */
static void collective_complete(const ring_comm *comm, const collective_args *args) {
  const ring_call *call = &args->work.outline.call;
  if (call->collective == RING_COLLECTIVE_EXSCAN && comm->peers.rank == 0)
    ring_identity_fill((ring_dtype)call->dtype, (ring_op)call->op, args->work.output,
                       args->work.output_count);
  else
    collective_normalize(comm, args);
}

void ring_collective_record(const ring_comm *comm, const collective_args *args,
                            ring_event_kind kind, bool begins) {
  const ring_call *call = &args->work.outline.call;
  uint64_t bytes = call->count * ring_dtype_size((ring_dtype)call->dtype);
  ring_timeline_record(comm->timeline, kind, begins, call, -1, bytes);
}

/* Whether the core itself makes the call, to open, split or close: `native` carries it out. */
static bool collective_is_internal(const collective_args *args) {
  const ring_call *signature = args->work.signature;
  return signature != NULL && ring_collective_of_group(signature->collective) == 0;
}

ring_status ring_collective_run(ring_comm *comm, collective_args *args, ring_wait *wait) {
  ring_outline *outline = &args->work.outline;
  ring_backend *backend = comm->backend;
  ring_error error;
  outline->rank = comm->peers.rank;
  outline->size = comm->peers.size;
  outline->nodes = comm->topology.nodes;
  args->work.wait = wait;
  if (collective_is_internal(args) || !ring_backend_serves(backend, outline))
    backend = &comm->native.base;
  ring_collective_record(comm, args, RING_EVENT_CALL, true);
  ring_status status = backend->table->run(backend, &args->work, &error);
  ring_collective_record(comm, args, RING_EVENT_CALL, false);
  if (status == RING_OK)
    collective_complete(comm, args);
  else
    ring_comm_break(comm, &error);
  return status;
}

/* Adds the description of the array, if there is one, to the call. A message has none: sender
 * and receiver each describe a buffer of their own. */
static void collective_describe(ring_comm *comm, collective_args *args) {
  ring_call *call = &args->work.outline.call;
  args->work.description = NULL;
  if (comm->described == 0 || call->collective == RING_COLLECTIVE_MESSAGE) return;
  call->digest = bytes_digest(call->digest, comm->described);
  memcpy(args->store->description, comm->description, sizeof comm->description);
  args->work.description = args->store->description;
}

static bool collective_has_factors(uint8_t collective) {
  return ring_collective_reduces(collective) && !ring_collective_scans(collective);
}

static void collective_digest_factor(ring_call *call, double factor) {
  uint64_t bits;
  memcpy(&bits, &factor, sizeof bits);
  call->digest = bytes_digest(call->digest, bits);
}

/* Adds the factors to the call, and to the description, which the error of a mismatch quotes. */
static ring_status collective_scale(ring_comm *comm, collective_args *args) {
  ring_call *call = &args->work.outline.call;
  char *text = args->store->description;
  if (!collective_has_factors(call->collective))
    return ring_collective_invalid(comm, call->collective,
                                   "factors are for allreduce, reduce and reduce_scatter only");
  if (call->dtype == RING_BOOL)
    return ring_collective_invalid(comm, call->collective, "bool has no factors");
  args->scaled = true;
  args->prescale = comm->prescale;
  args->postscale = comm->postscale;
  collective_digest_factor(call, args->prescale);
  collective_digest_factor(call, args->postscale);
  size_t length = args->work.description != NULL ? strlen(text) : 0;
  snprintf(text + length, sizeof args->store->description - length, "%sfactors %g and %g",
           length > 0 ? ", " : "", args->prescale, args->postscale);
  args->work.description = text;
  return RING_OK;
}

ring_status ring_collective_admit(ring_comm *comm, collective_args *args) {
  ring_call *call = &args->work.outline.call;
  collective_describe(comm, args);
  ring_status status = RING_OK; /* of several dtypes, each item of the group has been checked */
  if (call->dtype != RING_CALL_MIXED) status = ring_collective_check(comm, args);
  if (status == RING_OK && comm->scaled) status = collective_scale(comm, args);
  if (status != RING_OK || comm->place.run != NULL) return status; /* a device numbers its calls */
  if (call->collective == RING_COLLECTIVE_MESSAGE) {
    ring_message_counts *messages = &comm->peers.peer[args->work.outline.peer].messages;
    call->sequence = call->root == comm->peers.rank ? ++messages->sent : ++messages->received;
  } else {
    call->sequence = ++comm->sequence;
  }
  ring_counter_add(&comm->calls, 1);
  return RING_OK;
}

ring_status ring_collective_barrier(ring_comm *comm, ring_collective collective, ring_wait *wait) {
  collective_args args = {.work.outline.call.collective = (uint8_t)collective};
  if (collective == RING_COLLECTIVE_CLOSE) {
    args.work.outline.call.sequence = ++comm->sequence;
    args.work.outline.call.digest = comm->backend->unchecked;
  }
  if (collective == RING_COLLECTIVE_OPEN)
    args.work.outline.call.digest =
        bytes_digest(bytes_digest(ring_selector_digest(&comm->native.plans.selector),
                                  (uint64_t)comm->peers.connections),
                     comm->wants_mpi);
  return ring_collective_run(comm, &args, wait);
}

ring_status ring_collective_barrier_shared(ring_comm *comm, ring_wait *wait) {
  ring_call close = {.collective = RING_COLLECTIVE_CLOSE};
  collective_args args = {
      .work = {.outline = {.call.collective = RING_COLLECTIVE_BARRIER, .size = comm->peers.size},
               .signature = &close}};
  if (!ring_shm_collective_serves(&comm->shm, &args.work.outline)) return RING_OK;
  close.sequence = ++comm->sequence;
  return ring_collective_run(comm, &args, wait);
}

ring_status ring_collective_allgather_byte(ring_comm *comm, uint8_t *bytes, ring_wait *wait) {
  static const ring_call signature = {
      .collective = RING_COLLECTIVE_OPEN_ALLGATHER, .dtype = RING_UINT8, .count = 1};
  collective_args args = {.work = {.outline = {.call = signature, .parts.count = 1},
                                   .signature = &signature,
                                   .input = bytes + comm->peers.rank,
                                   .output = bytes}};
  args.work.outline.call.collective = RING_COLLECTIVE_ALLGATHER;
  return ring_collective_run(comm, &args, wait);
}
