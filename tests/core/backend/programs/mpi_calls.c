/* SPDX-License-Identifier: Apache-2.0 */
#include "mpi_calls.h"

#include <stdint.h>

/* Uneven counts, zeros among them. Returns where the part of `rank` begins. */
static size_t call_parts(size_t *parts, int size, int rank, size_t count) {
  size_t begin = 0;
  for (int i = 0; i < size; i++) {
    parts[i] = i % 3 == 1 ? 0 : count / (size_t)(i + 1) + (size_t)i;
    if (i < rank) begin += parts[i];
  }
  return begin;
}

/* Elements that rank `from` sends to rank `to` in an alltoallv. */
static size_t call_pair(int from, int to, size_t count) {
  return (size_t)((3 * from + 5 * to) % 4) * (count / 4 + 1);
}

size_t call_elements(const mpi_call *call, int size) {
  return (size_t)size * (2 * call->count + 8);
}

static ring_status call_reduction(ring_comm *comm, const mpi_call *call, const size_t *parts,
                                  size_t at, uint8_t *input, uint8_t *output) {
  size_t count = call->count, width = ring_dtype_size(call->dtype);
  int rank = ring_comm_rank(comm);
  uint8_t *same = call->in_place ? input : output;
  switch (call->which) {
  case ALLREDUCE:
    return ring_allreduce(comm, input, same, count, call->dtype, call->op);
  case REDUCE:
    return ring_reduce(comm, input, rank == call->root ? same : output, count, call->dtype,
                       call->op, call->root);
  case REDUCE_SCATTER:
    if (call->in_place) output = input + (size_t)rank * count * width;
    return ring_reduce_scatter(comm, input, output, count, call->dtype, call->op);
  case REDUCE_SCATTERV:
    if (call->in_place) output = input + at * width;
    return ring_reduce_scatterv(comm, input, output, parts, call->dtype, call->op);
  case SCAN:
    return ring_scan(comm, input, same, count, call->dtype, call->op);
  default:
    return ring_exscan(comm, input, same, count, call->dtype, call->op);
  }
}

static ring_status call_gathering(ring_comm *comm, const mpi_call *call, const size_t *parts,
                                  size_t at, uint8_t *input, uint8_t *output) {
  size_t count = call->count, width = ring_dtype_size(call->dtype);
  int rank = ring_comm_rank(comm), root = call->root;
  bool gathers = call->which <= ALLGATHERV || rank == root;
  bool counted = call->which == ALLGATHERV || call->which == GATHERV || call->which == SCATTERV;
  size_t own = (counted ? at : (size_t)rank * count) * width;
  bool scatters = call->which >= SCATTER;
  if (call->in_place && gathers && !scatters) input = output + own;
  if (call->in_place && rank == root && scatters) output = input + own;
  switch (call->which) {
  case ALLGATHER:
    return ring_allgather(comm, input, output, count, call->dtype);
  case ALLGATHERV:
    return ring_allgatherv(comm, input, output, parts, call->dtype);
  case GATHER:
    return ring_gather(comm, input, output, count, call->dtype, root);
  case GATHERV:
    return ring_gatherv(comm, input, output, parts, call->dtype, root);
  case SCATTER:
    return ring_scatter(comm, input, output, count, call->dtype, root);
  default:
    return ring_scatterv(comm, input, output, parts, call->dtype, root);
  }
}

static ring_status call_alltoallv(ring_comm *comm, const mpi_call *call, const void *input,
                                  void *output) {
  size_t sends[CALL_SIZE_MOST], receives[CALL_SIZE_MOST];
  int rank = ring_comm_rank(comm);
  for (int i = 0; i < ring_comm_size(comm); i++) {
    sends[i] = call_pair(rank, i, call->count);
    receives[i] = call_pair(i, rank, call->count);
  }
  return ring_alltoallv(comm, input, sends, output, receives, call->dtype);
}

ring_status call_make(ring_comm *comm, const mpi_call *call, void *input, void *output) {
  size_t parts[CALL_SIZE_MOST];
  size_t at = call_parts(parts, ring_comm_size(comm), ring_comm_rank(comm), call->count);
  switch (call->which) {
  case BARRIER:
    return ring_barrier(comm);
  case BROADCAST:
    return ring_broadcast(comm, input, call->in_place ? input : output, call->count, call->dtype,
                          call->root);
  case ALLTOALL:
    return ring_alltoall(comm, input, output, call->count, call->dtype);
  case ALLTOALLV:
    return call_alltoallv(comm, call, input, output);
  default:
    if (call->which <= LAST_REDUCTION) return call_reduction(comm, call, parts, at, input, output);
    return call_gathering(comm, call, parts, at, input, output);
  }
}
