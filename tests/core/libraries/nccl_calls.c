/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls of the stub of NCCL between ranks: collectives, messages, groups, and ops that multiply.
 */
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "cuda.h"
#include "nccl_ranks.h"

/* The calls between ncclGroupStart and ncclGroupEnd: messages, or collectives. */
static _Thread_local struct {
  int depth, count, capacity;
  message *messages;
  ring_nccl_comm comm;
  ring_nccl_stream stream;
  work *parts;
  int part_count;
} group;

static ring_nccl_result append_in_group(const work *given, ring_nccl_stream stream) {
  if (group.depth == 0) return stub_nccl_append(given, stream);
  group.parts = realloc(group.parts, (size_t)(group.part_count + 1) * sizeof *group.parts);
  if (group.parts == NULL) abort();
  group.parts[group.part_count++] = *given;
  group.stream = stream;
  return RING_NCCL_SUCCESS;
}

static ring_nccl_result flush_parts(void) {
  const work of = {.comm = group.parts[0].comm,
                   .kind = GROUP,
                   .parts = group.parts,
                   .part_count = group.part_count};
  group.parts = NULL;
  group.part_count = 0;
  return stub_nccl_append(&of, group.stream);
}

/* ---- Collectives --------------------------------------------------------------------------- */

static const ring_dtype dtypes[] = {RING_INT8,    RING_UINT8,   RING_INT32,   RING_UINT32,
                                    RING_INT64,   RING_UINT64,  RING_FLOAT16, RING_FLOAT32,
                                    RING_FLOAT64, RING_BFLOAT16};
static const ring_op ops[] = {RING_SUM, RING_PROD, RING_MAX, RING_MIN, RING_AVG};

/* Sums of inputs that are multiplied, after NCCL's own ops. */
enum { OWN_OPS = 5, MADE_OPS = 8 };
static struct {
  int used;
  ring_nccl_dtype dtype;
  double factor;
} made[MADE_OPS];

static double read_factor(const void *scalar, ring_nccl_dtype dtype) {
  double wide;
  float narrow;
  uint16_t half;
  memcpy(&half, scalar, sizeof half);
  if (dtype == RING_NCCL_FLOAT16) return ring_float16_to_float32(half);
  if (dtype == RING_NCCL_BFLOAT16) return ring_bfloat16_to_float32(half);
  memcpy(&narrow, scalar, sizeof narrow);
  if (dtype == RING_NCCL_FLOAT32) return narrow;
  memcpy(&wide, scalar, sizeof wide);
  return wide;
}

ring_nccl_result ncclRedOpCreatePreMulSum(ring_nccl_op *op, void *scalar, ring_nccl_dtype dtype,
                                          ring_nccl_residence residence, ring_nccl_comm comm) {
  ring_nccl_result state;
  int i = 0;
  ncclCommGetAsyncError(comm, &state);
  if (state != RING_NCCL_SUCCESS || residence != RING_NCCL_SCALAR_OF_HOST ||
      dtype < RING_NCCL_FLOAT16)
    return RING_NCCL_INVALID_ARGUMENT;
  while (i < MADE_OPS && made[i].used) i++;
  if (i == MADE_OPS) return RING_NCCL_INTERNAL_ERROR;
  made[i].used = 1;
  made[i].dtype = dtype;
  made[i].factor = read_factor(scalar, dtype);
  *op = OWN_OPS + i;
  stub_cuda_count(1);
  return RING_NCCL_SUCCESS;
}

ring_nccl_result ncclRedOpDestroy(ring_nccl_op op, ring_nccl_comm comm) {
  (void)comm;
  if (op < OWN_OPS || op >= OWN_OPS + MADE_OPS || !made[op - OWN_OPS].used)
    return RING_NCCL_INVALID_ARGUMENT;
  made[op - OWN_OPS].used = 0;
  stub_cuda_count(-1);
  return RING_NCCL_SUCCESS;
}

static ring_op op_of(ring_nccl_op op) {
  return op < OWN_OPS ? ops[op] : RING_SUM;
}

static double factor_of(ring_nccl_op op, ring_nccl_dtype dtype) {
  if (op < OWN_OPS) return 1;
  if (made[op - OWN_OPS].dtype != dtype) abort();
  return made[op - OWN_OPS].factor;
}

#define WORK(kind_, dtype_, op_, root_)                                                            \
  append_in_group(&(work){.comm = comm,                                                            \
                          .kind = (kind_),                                                         \
                          .input = stub_cuda_host(input),                                          \
                          .output = stub_cuda_host(output),                                        \
                          .count = count,                                                          \
                          .dtype = dtypes[dtype_],                                                 \
                          .op = op_of(op_),                                                        \
                          .factor = factor_of(op_, dtype_),                                        \
                          .root = (root_)},                                                        \
                  stream)

ring_nccl_result ncclAllReduce(const void *input, void *output, size_t count, ring_nccl_dtype dtype,
                               ring_nccl_op op, ring_nccl_comm comm, ring_nccl_stream stream) {
  return WORK(ALLREDUCE, dtype, op, 0);
}

ring_nccl_result ncclReduce(const void *input, void *output, size_t count, ring_nccl_dtype dtype,
                            ring_nccl_op op, int root, ring_nccl_comm comm,
                            ring_nccl_stream stream) {
  return WORK(REDUCE, dtype, op, root);
}

ring_nccl_result ncclBroadcast(const void *input, void *output, size_t count, ring_nccl_dtype dtype,
                               int root, ring_nccl_comm comm, ring_nccl_stream stream) {
  return WORK(BROADCAST, dtype, RING_NCCL_SUM, root);
}

ring_nccl_result ncclAllGather(const void *input, void *output, size_t count, ring_nccl_dtype dtype,
                               ring_nccl_comm comm, ring_nccl_stream stream) {
  return WORK(ALLGATHER, dtype, RING_NCCL_SUM, 0);
}

ring_nccl_result ncclReduceScatter(const void *input, void *output, size_t count,
                                   ring_nccl_dtype dtype, ring_nccl_op op, ring_nccl_comm comm,
                                   ring_nccl_stream stream) {
  return WORK(REDUCE_SCATTER, dtype, op, 0);
}

/* ---- Messages, which a group collects ------------------------------------------------------ */

static ring_nccl_result flush_group(void) {
  if (group.part_count > 0) return flush_parts();
  if (group.count == 0) return RING_NCCL_SUCCESS;
  const work of = {.comm = group.comm,
                   .kind = MESSAGES,
                   .messages = group.messages,
                   .message_count = group.count};
  group.messages = NULL;
  group.count = group.capacity = 0;
  return stub_nccl_append(&of, group.stream);
}

static ring_nccl_result add(int sends, void *memory, size_t bytes, int peer, ring_nccl_comm comm,
                            ring_nccl_stream stream) {
  if (group.count == group.capacity) {
    group.capacity = 2 * group.capacity + 8;
    group.messages = realloc(group.messages, (size_t)group.capacity * sizeof *group.messages);
    if (group.messages == NULL) abort();
  }
  group.comm = comm;
  group.stream = stream;
  group.messages[group.count++] = (message){sends, peer, memory, bytes};
  return group.depth > 0 ? RING_NCCL_SUCCESS : flush_group();
}

ring_nccl_result ncclSend(const void *input, size_t count, ring_nccl_dtype dtype, int peer,
                          ring_nccl_comm comm, ring_nccl_stream stream) {
  return add(1, stub_cuda_host(input), count * ring_dtype_size(dtypes[dtype]), peer, comm, stream);
}

ring_nccl_result ncclRecv(void *output, size_t count, ring_nccl_dtype dtype, int peer,
                          ring_nccl_comm comm, ring_nccl_stream stream) {
  return add(0, stub_cuda_host(output), count * ring_dtype_size(dtypes[dtype]), peer, comm, stream);
}

ring_nccl_result ncclGroupStart(void) {
  group.depth++;
  return RING_NCCL_SUCCESS;
}

ring_nccl_result ncclGroupEnd(void) {
  return --group.depth > 0 ? RING_NCCL_SUCCESS : flush_group();
}
