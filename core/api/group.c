/* SPDX-License-Identifier: Apache-2.0 */
#include "api/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"

static ring_status group_reserve(ring_comm *comm, ring_store *store, size_t count) {
  if (count <= store->item_capacity) return RING_OK;
  bool fits = count <= PTRDIFF_MAX / sizeof *store->items;
  ring_group_item *grown = fits ? realloc(store->items, count * sizeof *grown) : NULL;
  if (grown == NULL)
    return ring_error_set(&comm->error, RING_NO_MEMORY, comm->peers.rank, 0,
                          "rank %d is out of memory: it cannot list %zu buffers", comm->peers.rank,
                          count);
  store->items = grown;
  store->item_capacity = count;
  return RING_OK;
}

/* The arguments of the collective of one item, for the check; errors carry the name of the group. */
static collective_args group_item_args(const ring_comm *comm, const ring_call *call,
                                       const ring_group_item *item) {
  uint64_t size = (uint64_t)comm->peers.size, rank = (uint64_t)comm->peers.rank;
  uint64_t all = item->count > UINT64_MAX / size ? UINT64_MAX : item->count * size;
  collective_args one = {.store = NULL};
  ring_args_begin(&one, (ring_collective)call->collective, item->input, item->output, item->count,
                  item->dtype);
  one.work.outline.call.op = call->op;
  switch (ring_collective_of_group(call->collective)) {
  case RING_COLLECTIVE_ALLGATHER:
    one.work.output_count = all;
    one.out_at = rank * item->count;
    break;
  case RING_COLLECTIVE_REDUCE_SCATTER:
    one.input_count = all;
    one.in_at = rank * item->count;
    break;
  case RING_COLLECTIVE_BROADCAST:
    if (comm->peers.rank != call->root) one.input_count = 0;
    break;
  default:
    break;
  }
  return one;
}

/* Checks the items, and completes the signature. */
static ring_status group_check(ring_comm *comm, collective_args *args) {
  ring_call *call = &args->work.outline.call;
  uint64_t total = 0, size = (uint64_t)comm->peers.size;
  call->digest = bytes_digest(RING_DIGEST_EMPTY, args->item_count);
  for (size_t i = 0; i < args->item_count; i++) {
    const ring_group_item *item = &args->store->items[i];
    collective_args one = group_item_args(comm, call, item);
    ring_status status = ring_collective_check(comm, &one);
    if (status == RING_OK && item->count > (uint64_t)PTRDIFF_MAX / size - total)
      status = ring_collective_invalid(comm, call->collective,
                                       "the sum of counts is larger than memory");
    if (status != RING_OK) return status;
    total += item->count;
    call->digest = bytes_digest(call->digest, item->count);
    if (item->dtype != args->store->items[0].dtype) call->dtype = RING_CALL_MIXED;
  }
  for (size_t i = 0; call->dtype == RING_CALL_MIXED && i < args->item_count; i++)
    call->digest = bytes_digest(call->digest, (uint64_t)args->store->items[i].dtype);
  call->count = total;
  return RING_OK;
}

static void group_begin(collective_args *args, ring_collective collective, size_t item_count,
                        ring_dtype dtype, ring_op op) {
  ring_args_begin(args, collective, NULL, NULL, 0, dtype);
  args->work.outline.call.op = ring_args_code((int)op);
  args->item_count = item_count;
}

ring_status ring_group_fill_buffers(ring_comm *comm, collective_args *args,
                                    const ring_buffer *buffers, size_t buffer_count,
                                    ring_dtype dtype, ring_op op) {
  group_begin(args, RING_COLLECTIVE_ALLREDUCE_GROUP, buffer_count, dtype, op);
  if (buffer_count > 0 && buffers == NULL)
    return ring_collective_invalid(comm, RING_COLLECTIVE_ALLREDUCE_GROUP,
                                   "buffers is NULL but buffer_count is not 0");
  ring_status status = group_reserve(comm, args->store, buffer_count);
  if (status != RING_OK) return status;
  for (size_t i = 0; i < buffer_count; i++)
    args->store->items[i] =
        (ring_group_item){buffers[i].input, buffers[i].output, buffers[i].count, dtype};
  return group_check(comm, args);
}

ring_status ring_group_fill(ring_comm *comm, collective_args *args, ring_group_kind kind,
                            const ring_group_item *items, size_t item_count, ring_op op, int root) {
  static const ring_collective collectives[] = {
      [RING_GROUP_ALLREDUCE] = RING_COLLECTIVE_ALLREDUCE_GROUP,
      [RING_GROUP_ALLGATHER] = RING_COLLECTIVE_ALLGATHER_GROUP,
      [RING_GROUP_REDUCE_SCATTER] = RING_COLLECTIVE_REDUCE_SCATTER_GROUP,
      [RING_GROUP_BROADCAST] = RING_COLLECTIVE_BROADCAST_GROUP};
  if ((unsigned)kind >= sizeof collectives / sizeof *collectives)
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "group: %d is no kind: pass a ring_group_kind", (int)kind);
  ring_collective collective = collectives[kind];
  bool reduces = ring_collective_reduces((uint8_t)collective);
  bool rooted = ring_collective_has_root((uint8_t)collective);
  if (item_count > 0 && items == NULL)
    return ring_collective_invalid(comm, (uint8_t)collective,
                                   "items is NULL but item_count is not 0");
  group_begin(args, collective, item_count, item_count > 0 ? items[0].dtype : RING_INT8,
              reduces ? op : RING_SUM);
  if (rooted && (root < 0 || root >= comm->peers.size))
    return ring_error_set(&comm->error, RING_INVALID, comm->peers.rank, 0,
                          "%s: root %d is no rank: ranks go from 0 to %d",
                          ring_collective_name((uint8_t)collective), root, comm->peers.size - 1);
  args->work.outline.call.root = rooted ? root : 0;
  ring_status status = group_reserve(comm, args->store, item_count);
  if (status != RING_OK) return status;
  if (item_count > 0) memcpy(args->store->items, items, item_count * sizeof *items);
  return group_check(comm, args);
}
