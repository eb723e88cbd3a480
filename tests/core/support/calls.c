/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include <stdio.h>
#include <stdlib.h>

#include "check.h"

typedef enum call_need { CALL_NEEDS_ALL, CALL_NEEDS_ALL_FOR_ROOT, CALL_NEEDS_ROOT } call_need;

typedef struct call_trait {
  const char *name;
  call_need needs;
} call_trait;

static const call_trait call_traits[] = {
#define CALL_KIND_TRAIT(name, needs) {#name, CALL_NEEDS_##needs},
    CALL_KIND_MAP(CALL_KIND_TRAIT)
#undef CALL_KIND_TRAIT
};

const char *call_name(call_kind kind) {
  return call_traits[kind].name;
}

bool call_reduces(call_kind kind) {
  return kind == CALL_allreduce || kind == CALL_allreduce_group || kind == CALL_reduce ||
         kind == CALL_reduce_scatter;
}

bool call_has_root(call_kind kind) {
  return kind != CALL_message && call_traits[kind].needs != CALL_NEEDS_ALL;
}

bool call_has_counts(call_kind kind) {
  return kind == CALL_allgatherv || kind == CALL_gatherv || kind == CALL_scatterv ||
         kind == CALL_alltoallv;
}

bool call_concerns(const call *of, int rank) {
  return of->kind != CALL_message || rank == of->root || rank == of->peer;
}

bool call_needs(const call *of, int rank, int other) {
  if (rank == other || !call_concerns(of, rank)) return false;
  switch (call_traits[of->kind].needs) {
  case CALL_NEEDS_ALL:
    return true;
  case CALL_NEEDS_ALL_FOR_ROOT:
    return rank == of->root;
  default:
    return other == of->root;
  }
}

/* ---- Running ------------------------------------------------------------------------------ */

typedef struct call_memory {
  void *input, *output;
  size_t parts[CALL_RANKS], sends[CALL_RANKS];
} call_memory;

static void call_divide(const call *of, int rank, int size, call_memory *memory) {
  for (int i = 0; i < size; i++) {
    bool less = of->skewed && i == 0, more = of->skewed && i == size - 1;
    memory->parts[i] = of->count - (less ? 1 : 0) + (more ? 1 : 0);
    memory->sends[i] = memory->parts[i] + (of->sends && i != rank ? 1 : 0);
  }
}

static ring_status call_run_group(const call *of, ring_comm *comm, const call_memory *memory) {
  ring_buffer buffers[CALL_BUFFERS];
  for (int i = 0; i < of->buffers; i++) {
    size_t at = (size_t)i * of->count * ring_dtype_size(of->dtype);
    buffers[i] = (ring_buffer){(char *)memory->input + at, (char *)memory->output + at, of->count};
  }
  return ring_allreduce_group(comm, buffers, (size_t)of->buffers, of->dtype, of->op);
}

static ring_status call_run_message(const call *of, ring_comm *comm, const call_memory *memory) {
  if (ring_comm_rank(comm) == of->root)
    return ring_send(comm, memory->input, of->count, of->dtype, of->peer);
  return ring_recv(comm, memory->output, of->count, of->dtype, of->root);
}

/* Those with counts, and those without data. */
static ring_status call_run_other(const call *of, ring_comm *comm, const call_memory *memory,
                                  ring_comm **child) {
  void *in = memory->input, *out = memory->output;
  switch (of->kind) {
  case CALL_allgatherv:
    return ring_allgatherv(comm, in, out, memory->parts, of->dtype);
  case CALL_gatherv:
    return ring_gatherv(comm, in, out, memory->parts, of->dtype, of->root);
  case CALL_scatterv:
    return ring_scatterv(comm, in, out, memory->parts, of->dtype, of->root);
  case CALL_alltoallv:
    return ring_alltoallv(comm, in, memory->sends, out, memory->parts, of->dtype);
  case CALL_split:
    return ring_comm_split(comm, 0, 0, child);
  case CALL_message:
    return call_run_message(of, comm, memory);
  default:
    return ring_barrier(comm);
  }
}

static ring_status call_run_on(const call *of, ring_comm *comm, const call_memory *memory,
                               ring_comm **child) {
  void *in = memory->input, *out = memory->output;
  size_t count = of->count;
  switch (of->kind) {
  case CALL_allreduce:
    return ring_allreduce(comm, in, out, count, of->dtype, of->op);
  case CALL_allreduce_group:
    return call_run_group(of, comm, memory);
  case CALL_reduce:
    return ring_reduce(comm, in, out, count, of->dtype, of->op, of->root);
  case CALL_reduce_scatter:
    return ring_reduce_scatter(comm, in, out, count, of->dtype, of->op);
  case CALL_broadcast:
    return ring_broadcast(comm, in, out, count, of->dtype, of->root);
  case CALL_allgather:
    return ring_allgather(comm, in, out, count, of->dtype);
  case CALL_gather:
    return ring_gather(comm, in, out, count, of->dtype, of->root);
  case CALL_scatter:
    return ring_scatter(comm, in, out, count, of->dtype, of->root);
  case CALL_alltoall:
    return ring_alltoall(comm, in, out, count, of->dtype);
  default:
    return call_run_other(of, comm, memory, child);
  }
}

static void *call_alloc(const call *of, ring_comm *comm, size_t bytes) {
  void *memory = NULL;
  if (!of->arena) return calloc(1, bytes);
  if (ring_alloc(comm, bytes, &memory) == RING_OK) memset(memory, 0, bytes);
  return memory;
}

static void call_free(const call *of, void *memory) {
  if (of->arena)
    ring_free(memory);
  else
    free(memory);
}

ring_status call_run(const call *of, ring_comm *comm, ring_comm **child) {
  call_memory memory;
  int size = ring_comm_size(comm);
  size_t parts = (size_t)(size > CALL_BUFFERS ? size : CALL_BUFFERS);
  size_t bytes = parts * (of->count + 1) * ring_dtype_size(of->dtype);
  CHECK(size <= CALL_RANKS && of->buffers <= CALL_BUFFERS);
  *child = NULL;
  if (!call_concerns(of, ring_comm_rank(comm))) return RING_OK;
  memory.input = call_alloc(of, comm, bytes);
  memory.output = call_alloc(of, comm, bytes);
  CHECK(memory.input != NULL && memory.output != NULL);
  call_divide(of, ring_comm_rank(comm), size, &memory);
  ring_status status = call_run_on(of, comm, &memory, child);
  call_free(of, memory.input);
  call_free(of, memory.output);
  return status;
}

void call_print(const call *of, char *text, size_t size) {
  char op[16] = "", root[32] = "", buffers[32] = "";
  if (of->kind == CALL_barrier || of->kind == CALL_split) {
    snprintf(text, size, "%s()", call_name(of->kind));
    return;
  }
  if (call_reduces(of->kind)) snprintf(op, sizeof op, ", %s", ring_op_name(of->op));
  if (call_has_root(of->kind)) snprintf(root, sizeof root, ", root %d", of->root);
  if (of->kind == CALL_message) snprintf(root, sizeof root, ", rank %d to %d", of->root, of->peer);
  if (of->kind == CALL_allreduce_group) snprintf(buffers, sizeof buffers, "%d x ", of->buffers);
  snprintf(text, size, "%s(count %s%zu%s, %s%s%s)", call_name(of->kind), buffers, of->count,
           of->skewed  ? " skewed"
           : of->sends ? " but one more to each"
                       : "",
           ring_dtype_name(of->dtype), op, root);
}
