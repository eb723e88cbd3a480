/* SPDX-License-Identifier: Apache-2.0
 *
 * The public functions of the collectives. Each has a static function that turns its arguments into
 * a collective_args. CALLS_DEFINE makes two public functions of it: the blocking one and the one
 * that starts a request. CALL_DEFINE makes the blocking one alone, for send and recv, whose starts are
 * those of messages. Everything happens between enter and leave, on the calling thread.
 */
#include <stdlib.h>
#include <string.h>

#include "api/fusion.h"
#include "api/group.h"
#include "api/request.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "base/error.h"

/* `fill` is the expression that fills *args. The parameters of ring_<name> follow it. */
#define CALL_DEFINE(name, fill, ...)                                                               \
  ring_status ring_##name(__VA_ARGS__) {                                                           \
    ring_status status = ring_comm_enter(comm);                                                    \
    if (status != RING_OK) return status;                                                          \
    collective_args args_here, *args = &args_here;                                                 \
    args->store = &comm->store;                                                                    \
    status = fill;                                                                                 \
    if (status == RING_NO_MEMORY) ring_comm_break(comm, &comm->error);                             \
    if (status == RING_OK) status = ring_collective_admit(comm, args);                             \
    if (status == RING_OK) status = ring_fusion_run_here(comm, args);                              \
    ring_comm_leave(comm);                                                                         \
    return status;                                                                                 \
  }

#define CALLS_DEFINE(name, fill, ...)                                                              \
  CALL_DEFINE(name, fill, __VA_ARGS__)                                                             \
                                                                                                   \
  ring_status ring_##name##_start(__VA_ARGS__, ring_request **request) {                           \
    collective_args *args;                                                                         \
    ring_status status = ring_request_begin(comm, request, &args);                                 \
    if (status != RING_OK) return status;                                                          \
    status = fill;                                                                                 \
    return ring_request_launch(comm, status, request);                                             \
  }

static uint64_t entry_times(uint64_t count, int size) {
  return count > UINT64_MAX / (uint64_t)size ? UINT64_MAX : count * (uint64_t)size;
}

static ring_status entry_check_rank(ring_comm *comm, ring_collective collective, const char *role,
                                    int rank) {
  if (rank >= 0 && rank < comm->peers.size) return RING_OK;
  return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                        "%s: %s %d is no rank: ranks go from 0 to %d",
                        ring_collective_name((uint8_t)collective), role, rank,
                        comm->peers.size - 1);
}

/* ---- Reductions --------------------------------------------------------------------------- */

static void entry_reduction(collective_args *args, ring_collective collective, const void *input,
                            void *output, size_t count, ring_dtype dtype, ring_op op) {
  ring_args_begin(args, collective, input, output, count, dtype);
  args->work.outline.call.op = ring_args_code((int)op);
}

static ring_status entry_allreduce(collective_args *args, const void *input, void *output,
                                   size_t count, ring_dtype dtype, ring_op op) {
  entry_reduction(args, RING_COLLECTIVE_ALLREDUCE, input, output, count, dtype, op);
  return RING_OK;
}

static ring_status entry_reduce(ring_comm *comm, collective_args *args, const void *input,
                                void *output, size_t count, ring_dtype dtype, ring_op op,
                                int root) {
  entry_reduction(args, RING_COLLECTIVE_REDUCE, input, output, count, dtype, op);
  args->work.outline.call.root = root;
  if (comm->peers.rank != root) args->work.output_count = 0;
  return entry_check_rank(comm, RING_COLLECTIVE_REDUCE, "root", root);
}

static ring_status entry_reduce_scatter(ring_comm *comm, collective_args *args, const void *input,
                                        void *output, size_t count, ring_dtype dtype, ring_op op) {
  entry_reduction(args, RING_COLLECTIVE_REDUCE_SCATTER, input, output, count, dtype, op);
  args->input_count = entry_times(count, comm->peers.size);
  args->in_at = (uint64_t)comm->peers.rank * count;
  return RING_OK;
}

CALLS_DEFINE(allreduce, entry_allreduce(args, input, output, count, dtype, op), ring_comm *comm,
             const void *input, void *output, size_t count, ring_dtype dtype, ring_op op)
CALLS_DEFINE(reduce, entry_reduce(comm, args, input, output, count, dtype, op, root),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             ring_op op, int root)
CALLS_DEFINE(reduce_scatter, entry_reduce_scatter(comm, args, input, output, count, dtype, op),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             ring_op op)

/* A running average of ranks 0 to r would need a divisor of its own on every rank. */
static ring_status entry_scan(ring_comm *comm, collective_args *args, ring_collective collective,
                              const void *input, void *output, size_t count, ring_dtype dtype,
                              ring_op op) {
  entry_reduction(args, collective, input, output, count, dtype, op);
  if (op != RING_AVG) return RING_OK;
  return ring_collective_invalid(comm, (uint8_t)collective,
                                 "op avg is not defined here: divide the result of sum");
}

CALLS_DEFINE(scan, entry_scan(comm, args, RING_COLLECTIVE_SCAN, input, output, count, dtype, op),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             ring_op op)
CALLS_DEFINE(exscan,
             entry_scan(comm, args, RING_COLLECTIVE_EXSCAN, input, output, count, dtype, op),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             ring_op op)

/* ---- Without parts ------------------------------------------------------------------------ */

static ring_status entry_broadcast(ring_comm *comm, collective_args *args, const void *input,
                                   void *output, size_t count, ring_dtype dtype, int root) {
  ring_args_begin(args, RING_COLLECTIVE_BROADCAST, input, output, count, dtype);
  args->work.outline.call.root = root;
  if (comm->peers.rank != root) args->input_count = 0;
  return entry_check_rank(comm, RING_COLLECTIVE_BROADCAST, "root", root);
}

static ring_status entry_barrier(collective_args *args) {
  ring_args_begin(args, RING_COLLECTIVE_BARRIER, NULL, NULL, 0, RING_INT8);
  return RING_OK;
}

static ring_status entry_message(ring_comm *comm, collective_args *args, const void *input,
                                 void *output, size_t count, ring_dtype dtype, int peer,
                                 bool sends) {
  ring_args_begin(args, RING_COLLECTIVE_MESSAGE, input, output, count, dtype);
  args->work.outline.call.root = sends ? comm->peers.rank : peer;
  args->work.outline.peer = peer;
  *(sends ? &args->work.output_count : &args->input_count) = 0;
  args->in_place = false;
  ring_status status = entry_check_rank(comm, RING_COLLECTIVE_MESSAGE, "peer", peer);
  if (status != RING_OK || peer != comm->peers.rank) return status;
  return ring_collective_invalid(comm, RING_COLLECTIVE_MESSAGE,
                                 "peer is this rank itself: copy the buffer");
}

static ring_status entry_send(ring_comm *comm, collective_args *args, const void *input,
                              size_t count, ring_dtype dtype, int peer) {
  return entry_message(comm, args, input, NULL, count, dtype, peer, true);
}

static ring_status entry_recv(ring_comm *comm, collective_args *args, void *output, size_t count,
                              ring_dtype dtype, int peer) {
  return entry_message(comm, args, NULL, output, count, dtype, peer, false);
}

CALLS_DEFINE(broadcast, entry_broadcast(comm, args, input, output, count, dtype, root),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             int root)
CALLS_DEFINE(barrier, entry_barrier(args), ring_comm *comm)
CALL_DEFINE(send, entry_send(comm, args, input, count, dtype, peer), ring_comm *comm,
            const void *input, size_t count, ring_dtype dtype, int peer)
CALL_DEFINE(recv, entry_recv(comm, args, output, count, dtype, peer), ring_comm *comm, void *output,
            size_t count, ring_dtype dtype, int peer)

/* ---- With parts --------------------------------------------------------------------------- */

/* Fills one of the two tables of the store with the offsets of the parts. *digest differs where
 * counts do. RING_INVALID when the sum overflows. */
static ring_status entry_read_counts(ring_comm *comm, ring_store *store, int table,
                                     const size_t *counts, ring_parts *parts, uint64_t *digest) {
  size_t size = (size_t)comm->peers.size;
  if (counts == NULL) return RING_INVALID;
  if (store->offsets == NULL) store->offsets = calloc(2 * (size + 1), sizeof *store->offsets);
  if (store->offsets == NULL) return RING_NO_MEMORY;
  uint64_t *offsets = store->offsets + (size_t)table * (size + 1);
  *digest = RING_DIGEST_EMPTY;
  for (size_t i = 0; i < size; i++) {
    if (counts[i] > PTRDIFF_MAX - offsets[i]) return RING_INVALID;
    offsets[i + 1] = offsets[i] + counts[i];
    *digest = bytes_digest(*digest, counts[i]);
  }
  *parts = (ring_parts){offsets, 0};
  return RING_OK;
}

/* Sets the parts of a call: `count` elements each, or given by counts, whose sum becomes the
 * count of the call. */
static ring_status entry_set_parts(ring_comm *comm, collective_args *args, const size_t *counts,
                                   bool counted) {
  ring_call *call = &args->work.outline.call;
  args->work.outline.parts = (ring_parts){NULL, call->count};
  args->work.outline.received = args->work.outline.parts;
  if (!counted) return RING_OK;
  ring_status status =
      entry_read_counts(comm, args->store, 0, counts, &args->work.outline.parts, &call->digest);
  if (status == RING_OK) call->count = args->work.outline.parts.offsets[comm->peers.size];
  if (status == RING_INVALID)
    return ring_collective_invalid(comm, call->collective,
                                   counts == NULL ? "counts is NULL: pass one number a rank"
                                                  : "the sum of counts is larger than memory");
  return status == RING_OK ? RING_OK : ring_error_no_memory(&comm->error, comm->peers.rank);
}

static ring_status entry_reduce_scatterv(ring_comm *comm, collective_args *args, const void *input,
                                         void *output, const size_t *counts, ring_dtype dtype,
                                         ring_op op) {
  int rank = comm->peers.rank;
  entry_reduction(args, RING_COLLECTIVE_REDUCE_SCATTERV, input, output, 0, dtype, op);
  ring_status status = entry_set_parts(comm, args, counts, true);
  if (status != RING_OK) return status;
  const uint64_t *offsets = args->work.outline.parts.offsets;
  args->input_count = offsets[comm->peers.size];
  args->work.output_count = offsets[rank + 1] - offsets[rank];
  args->in_at = offsets[rank];
  return RING_OK;
}

CALLS_DEFINE(reduce_scatterv, entry_reduce_scatterv(comm, args, input, output, counts, dtype, op),
             ring_comm *comm, const void *input, void *output, const size_t *counts,
             ring_dtype dtype, ring_op op)

static uint64_t entry_part_begin(ring_parts parts, int rank) {
  return parts.offsets != NULL ? parts.offsets[rank] : (uint64_t)rank * parts.count;
}

/* Allgather, gather and scatter have a side that holds all parts and a side that holds one. */
static ring_status entry_parts(ring_comm *comm, collective_args *args, ring_collective collective,
                               const void *input, void *output, size_t count, const size_t *counts,
                               ring_dtype dtype, int root) {
  int rank = comm->peers.rank, size = comm->peers.size;
  bool counted = ring_collective_has_counts((uint8_t)collective);
  bool scatters = collective == RING_COLLECTIVE_SCATTER || collective == RING_COLLECTIVE_SCATTERV;
  bool to_all = collective == RING_COLLECTIVE_ALLGATHER || collective == RING_COLLECTIVE_ALLGATHERV;
  ring_args_begin(args, collective, input, output, count, dtype);
  args->work.outline.call.root = root;
  ring_status status = entry_check_rank(comm, collective, "root", root);
  if (status == RING_OK) status = entry_set_parts(comm, args, counts, counted);
  if (status != RING_OK) return status;
  ring_parts parts = args->work.outline.parts;
  uint64_t at = entry_part_begin(parts, rank);
  uint64_t own = counted ? parts.offsets[rank + 1] - at : count;
  uint64_t all = counted ? parts.offsets[size] : entry_times(count, size);
  if (!to_all && rank != root) all = 0;
  args->input_count = scatters ? all : own;
  args->work.output_count = scatters ? own : all;
  args->in_at = scatters ? at : 0;
  args->out_at = scatters ? 0 : at;
  return RING_OK;
}

CALLS_DEFINE(allgather,
             entry_parts(comm, args, RING_COLLECTIVE_ALLGATHER, input, output, count, NULL, dtype,
                         0),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype)
CALLS_DEFINE(allgatherv,
             entry_parts(comm, args, RING_COLLECTIVE_ALLGATHERV, input, output, 0, counts, dtype,
                         0),
             ring_comm *comm, const void *input, void *output, const size_t *counts,
             ring_dtype dtype)
CALLS_DEFINE(gather,
             entry_parts(comm, args, RING_COLLECTIVE_GATHER, input, output, count, NULL, dtype,
                         root),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             int root)
CALLS_DEFINE(gatherv,
             entry_parts(comm, args, RING_COLLECTIVE_GATHERV, input, output, 0, counts, dtype,
                         root),
             ring_comm *comm, const void *input, void *output, const size_t *counts,
             ring_dtype dtype, int root)
CALLS_DEFINE(scatter,
             entry_parts(comm, args, RING_COLLECTIVE_SCATTER, input, output, count, NULL, dtype,
                         root),
             ring_comm *comm, const void *input, void *output, size_t count, ring_dtype dtype,
             int root)
CALLS_DEFINE(scatterv,
             entry_parts(comm, args, RING_COLLECTIVE_SCATTERV, input, output, 0, counts, dtype,
                         root),
             ring_comm *comm, const void *input, void *output, const size_t *counts,
             ring_dtype dtype, int root)

/* ---- All to all --------------------------------------------------------------------------- */

static ring_status entry_alltoall(ring_comm *comm, collective_args *args, const void *input,
                                  void *output, size_t count, ring_dtype dtype) {
  uint64_t all = entry_times(count, comm->peers.size);
  ring_args_begin(args, RING_COLLECTIVE_ALLTOALL, input, output, count, dtype);
  args->input_count = args->work.output_count = all;
  args->in_place = false;
  return entry_set_parts(comm, args, NULL, false);
}

/* Only the rank itself knows its counts, so neither count nor digest is in the signature. */
static ring_status entry_alltoallv(ring_comm *comm, collective_args *args, const void *input,
                                   const size_t *sends, void *output, const size_t *receives,
                                   ring_dtype dtype) {
  int rank = comm->peers.rank, size = comm->peers.size;
  ring_args_begin(args, RING_COLLECTIVE_ALLTOALLV, input, output, 0, dtype);
  args->in_place = false;
  ring_outline *outline = &args->work.outline;
  uint64_t digest;
  ring_status status = entry_read_counts(comm, args->store, 0, sends, &outline->parts, &digest);
  if (status == RING_OK)
    status = entry_read_counts(comm, args->store, 1, receives, &outline->received, &digest);
  if (status == RING_NO_MEMORY) return ring_error_no_memory(&comm->error, rank);
  if (status != RING_OK)
    return ring_error_set(&comm->error, status, rank, 0,
                          "alltoallv: sends and receives must hold one number a rank, whose sum "
                          "fits into memory");
  if (sends[rank] != receives[rank])
    return ring_error_set(&comm->error, RING_INVALID, rank, 0,
                          "alltoallv: rank %d sends itself %zu elements but receives %zu", rank,
                          sends[rank], receives[rank]);
  args->input_count = outline->parts.offsets[size];
  args->work.output_count = outline->received.offsets[size];
  return RING_OK;
}

CALLS_DEFINE(alltoall, entry_alltoall(comm, args, input, output, count, dtype), ring_comm *comm,
             const void *input, void *output, size_t count, ring_dtype dtype)
CALLS_DEFINE(alltoallv, entry_alltoallv(comm, args, input, sends, output, receives, dtype),
             ring_comm *comm, const void *input, const size_t *sends, void *output,
             const size_t *receives, ring_dtype dtype)

/* ---- Groups ------------------------------------------------------------------------------- */

CALLS_DEFINE(allreduce_group, ring_group_fill_buffers(comm, args, buffers, buffer_count, dtype, op),
             ring_comm *comm, const ring_buffer *buffers, size_t buffer_count, ring_dtype dtype,
             ring_op op)
CALLS_DEFINE(group, ring_group_fill(comm, args, kind, items, item_count, op, root), ring_comm *comm,
             ring_group_kind kind, const ring_group_item *items, size_t item_count, ring_op op,
             int root)
