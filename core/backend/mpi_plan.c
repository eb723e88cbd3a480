/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/mpi_plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "engine/reduce.h"

enum { MPI_PLAN_TABLES = 4 };

#define MPI_PLAN_LARGE (UINT64_C(1) << 20) /* bytes of all parts */

ring_status ring_mpi_scratch_init(ring_mpi_scratch *scratch, int size) {
  *scratch = (ring_mpi_scratch){.counts = calloc((size_t)size, MPI_PLAN_TABLES * sizeof(int))};
  return scratch->counts != NULL ? RING_OK : RING_NO_MEMORY;
}

void ring_mpi_scratch_fini(ring_mpi_scratch *scratch) {
  free(scratch->counts);
  free(scratch->bytes);
  *scratch = (ring_mpi_scratch){0};
}

static bool mpi_plan_reserve(ring_mpi_scratch *scratch, size_t bytes) {
  if (bytes <= scratch->capacity) return true;
  free(scratch->bytes); /* realloc would copy what is not needed */
  scratch->bytes = malloc(bytes);
  scratch->capacity = scratch->bytes != NULL ? bytes : 0;
  return scratch->bytes != NULL;
}

/* Has MPI read a copy of what it would read. */
static ring_status mpi_plan_copy(ring_mpi_scratch *scratch, size_t bytes, ring_mpi_work *work) {
  if (!mpi_plan_reserve(scratch, bytes)) return RING_NO_MEMORY;
  memcpy(scratch->bytes, work->send, bytes);
  work->send = scratch->bytes;
  return RING_OK;
}

/* ---- Parts -------------------------------------------------------------------------------- */

static uint64_t mpi_plan_begin(const ring_parts *parts, int rank) {
  return parts->offsets != NULL ? parts->offsets[rank] : (uint64_t)rank * parts->count;
}

static uint64_t mpi_plan_length(const ring_parts *parts, int rank) {
  return mpi_plan_begin(parts, rank + 1) - mpi_plan_begin(parts, rank);
}

/* Elements of all parts together. */
static uint64_t mpi_plan_all(const ring_outline *outline) {
  const ring_call *call = &outline->call;
  switch (call->collective) {
  case RING_COLLECTIVE_REDUCE_SCATTER:
  case RING_COLLECTIVE_ALLGATHER:
  case RING_COLLECTIVE_GATHER:
  case RING_COLLECTIVE_SCATTER:
  case RING_COLLECTIVE_ALLTOALL:
    return call->count * (uint64_t)outline->size;
  default:
    return call->count;
  }
}

/* MPI's table of counts, and that of offsets behind it. False where a number needs more than 31 bits. */
static bool mpi_plan_tables(const ring_parts *parts, int size, int *counts) {
  if (mpi_plan_begin(parts, size) > INT_MAX) return false;
  for (int rank = 0; rank < size; rank++) {
    counts[rank] = (int)mpi_plan_length(parts, rank);
    counts[size + rank] = (int)mpi_plan_begin(parts, rank);
  }
  return true;
}

bool ring_mpi_plan_serves(const ring_outline *outline) {
  uint8_t collective = outline->call.collective;
  bool has = collective == RING_COLLECTIVE_BARRIER || collective == RING_COLLECTIVE_BROADCAST ||
             collective == RING_COLLECTIVE_ALLREDUCE || collective == RING_COLLECTIVE_REDUCE ||
             collective == RING_COLLECTIVE_REDUCE_SCATTER ||
             collective == RING_COLLECTIVE_REDUCE_SCATTERV || collective == RING_COLLECTIVE_SCAN ||
             collective == RING_COLLECTIVE_EXSCAN || collective == RING_COLLECTIVE_ALLGATHER ||
             collective == RING_COLLECTIVE_ALLGATHERV || collective == RING_COLLECTIVE_GATHER ||
             collective == RING_COLLECTIVE_GATHERV || collective == RING_COLLECTIVE_SCATTER ||
             collective == RING_COLLECTIVE_SCATTERV || collective == RING_COLLECTIVE_ALLTOALL ||
             collective == RING_COLLECTIVE_ALLTOALLV;
  return has && mpi_plan_all(outline) <= INT_MAX;
}

/* ---- Reductions --------------------------------------------------------------------------- */

static ring_dtype mpi_plan_unsigned(ring_dtype dtype) {
  switch (dtype) {
  case RING_INT8:
    return RING_UINT8;
  case RING_INT16:
    return RING_UINT16;
  case RING_INT32:
    return RING_UINT32;
  case RING_INT64:
    return RING_UINT64;
  default:
    return dtype;
  }
}

/* Our op for that dtype, else MPI's op of the same name. AVG is a SUM. */
static ring_mpi_op mpi_plan_op(ring_dtype dtype, ring_op op) {
  static const uint8_t ops[RING_OP_COUNT] = {
      [RING_SUM] = RING_MPI_SUM, [RING_PROD] = RING_MPI_PROD, [RING_MIN] = RING_MPI_MIN,
      [RING_MAX] = RING_MPI_MAX, [RING_AVG] = RING_MPI_SUM,   [RING_LAND] = RING_MPI_LAND,
      [RING_LOR] = RING_MPI_LOR, [RING_LXOR] = RING_MPI_LXOR, [RING_BAND] = RING_MPI_BAND,
      [RING_BOR] = RING_MPI_BOR, [RING_BXOR] = RING_MPI_BXOR};
  static const uint8_t own[RING_DTYPE_COUNT][RING_OP_COUNT] = {
#define MPI_PLAN_ROW(name, of_dtype, of_op) [of_dtype][of_op] = RING_MPI_##name,
      RING_MPI_OWN_OP_MAP(MPI_PLAN_ROW)
#undef MPI_PLAN_ROW
  };
  if (op == RING_AVG) op = RING_SUM;
  return (ring_mpi_op)(own[dtype][op] != 0 ? own[dtype][op] : ops[op]);
}

/* On bool (sparkring.h). */
static ring_mpi_op mpi_plan_logical_op(ring_op op) {
  if (op == RING_SUM || op == RING_MAX || op == RING_LOR || op == RING_BOR) return RING_MPI_LOR;
  return op == RING_LXOR || op == RING_BXOR ? RING_MPI_LXOR : RING_MPI_LAND;
}

/* Sets the dtype and the op by which MPI reduces. */
static void mpi_plan_reduction(ring_dtype dtype, ring_op op, ring_mpi_work *work) {
  if (ring_dtype_is_half(dtype)) dtype = RING_FLOAT32;
  if (op != RING_MIN && op != RING_MAX) dtype = mpi_plan_unsigned(dtype);
  work->dtype = (uint8_t)dtype;
  work->op = (uint8_t)(dtype == RING_BOOL ? mpi_plan_logical_op(op) : mpi_plan_op(dtype, op));
}

/* Halves: MPI reduces float32, from scratch into scratch behind it. */
static ring_status mpi_plan_widen(const ring_backend_call *call, ring_mpi_scratch *scratch,
                                  ring_mpi_plan *plan) {
  const ring_call *asked = &call->outline.call;
  size_t count = (size_t)mpi_plan_all(&call->outline), own = (size_t)call->output_count;
  if (!mpi_plan_reserve(scratch, (count + own) * sizeof(float))) return RING_NO_MEMORY;
  float *wide = (float *)(void *)scratch->bytes;
  ring_reduction_widen((ring_dtype)asked->dtype, wide, call->input, count);
  plan->work.send = wide;
  plan->work.receive = own > 0 ? wide + count : NULL;
  plan->from = plan->work.receive;
  return RING_OK;
}

/* In place a reduce_scatter of ours leaves this rank's part where it lies, and MPI's at the front. So MPI writes
 * to scratch. */
static ring_status mpi_plan_reduce_scatter(const ring_backend_call *call, ring_mpi_scratch *scratch,
                                           ring_mpi_plan *plan) {
  const ring_outline *outline = &call->outline;
  ring_parts parts = outline->parts;
  size_t width = ring_dtype_size((ring_dtype)outline->call.dtype);
  if (parts.offsets == NULL) parts.count = outline->call.count;
  const uint8_t *own = (const uint8_t *)call->input + mpi_plan_begin(&parts, outline->rank) * width;
  if (call->output_count == 0) plan->work.receive = NULL; /* MPICH refuses equal pointers */
  if (call->output != own || call->output_count == 0) return RING_OK;
  if (!mpi_plan_reserve(scratch, call->output_count * width)) return RING_NO_MEMORY;
  plan->work.receive = scratch->bytes;
  plan->from = scratch->bytes;
  return RING_OK;
}

/* Root of a reduce passes MPI_IN_PLACE. In other collectives all ranks or none have to pass it, as Open MPI
 * chooses the algorithm by it; so none does, and MPI reads a copy. */
static ring_status mpi_plan_in_place(const ring_backend_call *call, ring_mpi_scratch *scratch,
                                     ring_mpi_work *work) {
  size_t bytes = (size_t)call->output_count * ring_dtype_size((ring_dtype)call->outline.call.dtype);
  if (bytes == 0) work->receive = NULL;
  if (bytes == 0 || call->input != call->output) return RING_OK;
  work->sends_in_place = work->collective == RING_COLLECTIVE_REDUCE;
  return work->sends_in_place ? RING_OK : mpi_plan_copy(scratch, bytes, work);
}

static ring_status mpi_plan_reduce(const ring_backend_call *call, ring_mpi_scratch *scratch,
                                   ring_mpi_plan *plan) {
  const ring_outline *outline = &call->outline;
  ring_dtype dtype = (ring_dtype)outline->call.dtype;
  ring_mpi_work *work = &plan->work;
  mpi_plan_reduction(dtype, (ring_op)outline->call.op, work);
  if (outline->call.op == RING_AVG) plan->divisor = outline->size;
  if (work->collective == RING_COLLECTIVE_REDUCE_SCATTERV) {
    if (!mpi_plan_tables(&outline->parts, outline->size, scratch->counts)) return RING_UNSUPPORTED;
    work->receive_counts = scratch->counts;
  }
  if (ring_dtype_is_half(dtype)) return mpi_plan_widen(call, scratch, plan);
  if (ring_collective_scatters_sums(work->collective))
    return mpi_plan_reduce_scatter(call, scratch, plan);
  return mpi_plan_in_place(call, scratch, work);
}

/* ---- Moves -------------------------------------------------------------------------------- */

/* MPI's broadcast has one buffer, which root only reads. */
static void mpi_plan_broadcast(const ring_backend_call *call, ring_mpi_plan *plan) {
  if (plan->work.root != call->outline.rank) return;
  plan->work.receive = (void *)(uintptr_t)call->input;
  if (call->output != call->input) plan->from = call->input;
}

/* Root's own part may lie at its place already. In an allgather MPI reads a copy of it (mpi_plan_in_place). */
static ring_status mpi_plan_own_part(const ring_outline *outline, ring_mpi_scratch *scratch,
                                     bool scatters, ring_mpi_work *work) {
  bool to_all = !ring_collective_has_root(work->collective);
  size_t width = ring_dtype_size((ring_dtype)work->dtype);
  const uint8_t *whole = scatters ? work->send : work->receive;
  const uint8_t *part = scatters ? work->receive : work->send;
  if (work->count == 0 || whole + mpi_plan_begin(&outline->parts, outline->rank) * width != part)
    return RING_OK;
  if (to_all) return mpi_plan_copy(scratch, (size_t)work->count * width, work);
  work->sends_in_place = !scatters;
  work->receives_in_place = scatters;
  return RING_OK;
}

/* Allgather, gather and scatter: one part on the one side, all parts on the other. */
static ring_status mpi_plan_parts(const ring_backend_call *call, ring_mpi_scratch *scratch,
                                  ring_mpi_work *work) {
  const ring_outline *outline = &call->outline;
  int size = outline->size, *counts = scratch->counts;
  uint8_t collective = work->collective;
  bool scatters = collective == RING_COLLECTIVE_SCATTER || collective == RING_COLLECTIVE_SCATTERV;
  work->count = (int)mpi_plan_length(&outline->parts, outline->rank);
  if (ring_collective_has_counts(collective)) {
    if (!mpi_plan_tables(&outline->parts, size, counts)) return RING_UNSUPPORTED;
    *(scatters ? &work->send_counts : &work->receive_counts) = counts;
    *(scatters ? &work->send_offsets : &work->receive_offsets) = counts + size;
  }
  if (!ring_collective_has_root(collective) || work->root == outline->rank)
    return mpi_plan_own_part(outline, scratch, scatters, work);
  if (scatters)
    work->send = NULL;
  else
    work->receive = NULL;
  return RING_OK;
}

static ring_status mpi_plan_alltoallv(const ring_backend_call *call, ring_mpi_scratch *scratch,
                                      ring_mpi_work *work) {
  const ring_outline *outline = &call->outline;
  int size = outline->size, *sends = scratch->counts, *receives = scratch->counts + 2 * size;
  if (!mpi_plan_tables(&outline->parts, size, sends) ||
      !mpi_plan_tables(&outline->received, size, receives))
    return RING_UNSUPPORTED;
  work->send_counts = sends;
  work->send_offsets = sends + size;
  work->receive_counts = receives;
  work->receive_offsets = receives + size;
  return RING_OK;
}

/* ---- All of it ---------------------------------------------------------------------------- */

bool ring_mpi_plan_is_large(const ring_backend_call *call) {
  uint64_t all = mpi_plan_all(&call->outline);
  if (all < call->output_count) all = call->output_count; /* alltoallv */
  return all * ring_dtype_size((ring_dtype)call->outline.call.dtype) > MPI_PLAN_LARGE;
}

ring_status ring_mpi_plan_make(const ring_backend_call *call, ring_mpi_scratch *scratch,
                               ring_mpi_plan *plan) {
  const ring_call *asked = &call->outline.call;
  *plan = (ring_mpi_plan){.work = {.collective = asked->collective,
                                   .dtype = asked->dtype,
                                   .root = asked->root,
                                   .send = call->input,
                                   .receive = call->output,
                                   .count = (int)asked->count}};
  if (ring_collective_reduces(asked->collective)) return mpi_plan_reduce(call, scratch, plan);
  switch (asked->collective) {
  case RING_COLLECTIVE_BROADCAST:
    mpi_plan_broadcast(call, plan);
    return RING_OK;
  case RING_COLLECTIVE_ALLTOALLV:
    return mpi_plan_alltoallv(call, scratch, &plan->work);
  case RING_COLLECTIVE_BARRIER:
  case RING_COLLECTIVE_ALLTOALL:
    return RING_OK;
  default:
    return mpi_plan_parts(call, scratch, &plan->work);
  }
}

void ring_mpi_plan_finish(const ring_backend_call *call, const ring_mpi_plan *plan) {
  ring_dtype dtype = (ring_dtype)call->outline.call.dtype;
  size_t count = (size_t)call->output_count;
  bool reduces = ring_collective_reduces(call->outline.call.collective);
  const void *from = plan->from != NULL ? plan->from : call->output;
  if (reduces && (plan->divisor != 0 || ring_dtype_is_half(dtype)))
    ring_reduction_finish(dtype, plan->divisor, call->output, from, count);
  else if (plan->from != NULL)
    memcpy(call->output, plan->from, count * ring_dtype_size(dtype));
}
