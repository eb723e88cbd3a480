/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include <stdio.h>

#include "classed.h"
#include "comm.h"
#include "description.h"
#include "error.h"
#include "parts.h"
#include "request.h"
#include "shared.h"
#include "view.h"
#include "wide.h"

#define COLLECTIVE_OP_QUOTED(name, text) ", \"" text "\""

static const char *collective_ops(void) {
  static const char listed[] = RING_OP_MAP(COLLECTIVE_OP_QUOTED) //
      RING_OP_ALIAS_MAP(COLLECTIVE_OP_QUOTED);
  return &listed[2]; /* behind the first comma */
}

static ring_op collective_op(SEXP op, const char **name) {
  ring_op parsed;
  if (!Rf_isString(op) || Rf_xlength(op) != 1 || STRING_ELT(op, 0) == NA_STRING)
    error_invalid("`op` must be one of %s", collective_ops());
  *name = Rf_translateCharUTF8(STRING_ELT(op, 0));
  if (ring_op_parse(*name, &parsed) != RING_OK)
    error_invalid("`op` is \"%.40s\"; it must be one of %s", *name, collective_ops());
  return parsed;
}

/* ---- Reductions --------------------------------------------------------------------------- */

typedef struct reduction {
  SEXP x; /* the user's vector in the form that is sent (view_vector) */
  ring_op op;
  bool wide;  /* (wide.h) */
  SEXP input; /* what the core reads; while the caller protects it, x is safe, too */
  view mine;  /* of it */
} reduction;

/* Whether an op is for integers, logicals and raws only: the logical and the bitwise ops. */
static bool reduction_is_whole(ring_op op) {
  return classed_is_logical(op) || op == RING_BAND || op == RING_BOR || op == RING_BXOR;
}

static ring_op reduction_op(SEXP x, const char *name, SEXP op_name) {
  const char *text;
  ring_op op = collective_op(op_name, &text);
  classed_check_op(x, name, op, text);
  if (reduction_is_whole(op) && (TYPEOF(x) == REALSXP || TYPEOF(x) == CPLXSXP))
    error_invalid("`op` \"%s\" is for logical, integer and raw vectors, not for %s ones", text,
                  Rf_type2char((SEXPTYPE)TYPEOF(x)));
  if ((op == RING_MIN || op == RING_MAX) && TYPEOF(x) == CPLXSXP)
    error_invalid("`op` \"%s\" is not for complex vectors, which have no order: pass Mod(), Re() "
                  "or Im() of them",
                  text);
  return op;
}

/* Sets the input for a vector that is not double. Averages are computed in doubles. */
static void reduction_convert(reduction *reduction, const comm_handle *handle, const char *name) {
  SEXP x = PROTECT(classed_numbers(reduction->x));
  SEXP input = reduction->op == RING_AVG ? Rf_coerceVector(x, REALSXP) : x;
  PROTECT(input);
  view_refuse_na(input, name);
  reduction->x = x;
  reduction->wide = wide_is_for(input, reduction->op);
  reduction->input = reduction->wide ? wide_numbers(handle, input, reduction->op) : input;
  reduction->mine =
      reduction->wide ? wide_view(reduction->input, reduction->op) : view_of(reduction->input);
  UNPROTECT(2);
}

static reduction reduction_named(const comm_handle *handle, SEXP x, const char *name,
                                 SEXP op_name) {
  reduction reduction = {.x = x, .input = x, .mine = view_named(x, name)};
  reduction.op = reduction_op(x, name, op_name);
  bool floating = reduction.mine.dtype == RING_FLOAT64 || reduction.mine.dtype == RING_COMPLEX128;
  if (!floating) reduction_convert(&reduction, handle, name);
  return reduction;
}

static reduction reduction_of(const comm_handle *handle, SEXP x, SEXP op_name) {
  return reduction_named(handle, x, "x", op_name);
}

/* A new vector for a result that is not wide. The results of land and lor are logical. */
static SEXP reduction_vector(const comm_handle *handle, const reduction *reduction,
                             R_xlen_t length) {
  ring_op op = reduction->op;
  SEXPTYPE type = (SEXPTYPE)TYPEOF(reduction->input);
  if (type == INTSXP || type == LGLSXP) type = classed_is_logical(op) ? LGLSXP : INTSXP;
  return shared_vector(handle, type, length);
}

/* The memory where the core writes the result. */
static void *reduction_memory(const reduction *reduction, SEXP output) {
  if (output == R_NilValue) return NULL;
  return reduction->wide ? wide_memory(output, reduction->op) : view_output(output);
}

/* A new vector for all of the result, with its shape and class. */
static SEXP reduction_output(const comm_handle *handle, const reduction *reduction) {
  R_xlen_t length = Rf_xlength(reduction->x);
  SEXP output = reduction->wide ? wide_output(handle, length, reduction->op, reduction->input)
                                : reduction_vector(handle, reduction, length);
  if (view_is_plain(reduction->x)) return output;
  PROTECT(output);
  view_copy_shape(output, reduction->x);
  classed_keep_reduced(output, reduction->x, reduction->op);
  UNPROTECT(1);
  return output;
}

/* A product is sent as doubles, and must not match a product of doubles. */
static bool reduction_is_disguised(const reduction *reduction) {
  return reduction->wide && reduction->op == RING_PROD;
}

static void reduction_describe(const comm_handle *handle, const reduction *reduction) {
  if (!reduction_is_disguised(reduction)) {
    describe_whole(handle, reduction->x);
    return;
  }
  description about = description_of(reduction->x);
  description_add_integers(&about);
  describe(handle, &about);
}

/* The factors before and after the reduction, which the next call of the core uses. */
static void reduction_scale(const comm_handle *handle, SEXP factors) {
  ring_comm_scale(handle->comm, REAL_RO(factors)[0], REAL_RO(factors)[1]);
}

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op_name, SEXP factors, SEXP start) {
  comm_handle *handle = comm_of(comm);
  reduction reduction = reduction_of(handle, x, op_name);
  PROTECT(reduction.input);
  SEXP output = PROTECT(reduction_output(handle, &reduction));
  SEXP request = PROTECT(request_new(start, comm, reduction.input, output));
  reduction_describe(handle, &reduction);
  reduction_scale(handle, factors);
  view mine = reduction.mine;
  ring_status status =
      REQUEST_CALL(request, ring_allreduce, handle->comm, mine.data,
                   reduction_memory(&reduction, output), mine.count, mine.dtype, reduction.op);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

/* ---- Groups ------------------------------------------------------------------------------- */

typedef struct group {
  const comm_handle *handle;
  SEXP inputs, outputs; /* lists */
  ring_group_kind kind;
  ring_group_item *items;
  SEXP op_name; /* of a reduction */
  bool disguised;
  description about;
} group;

/* A new vector for this rank's part of a reduced vector. */
static SEXP reduction_part(const comm_handle *handle, const reduction *reduction, SEXP x,
                           size_t count) {
  ring_op op = reduction->op;
  SEXP output = reduction->wide ? wide_output(handle, (R_xlen_t)count, op, R_NilValue)
                                : reduction_vector(handle, reduction, (R_xlen_t)count);
  PROTECT(output);
  parts_shape_part(handle, output, x);
  classed_keep_reduced(output, reduction->x, op);
  UNPROTECT(1);
  return output;
}

static void group_add_reduction(group *group, SEXP x, const char *name, R_xlen_t i,
                                R_xlen_t count) {
  bool scatters = group->kind == RING_GROUP_REDUCE_SCATTER;
  reduction reduction = reduction_named(group->handle, x, name, group->op_name);
  PROTECT(reduction.input);
  view mine = reduction.mine;
  size_t length = scatters ? parts_equal(group->handle, x) : mine.count;
  SET_VECTOR_ELT(group->inputs, i, reduction.input);
  group->disguised = group->disguised || reduction_is_disguised(&reduction);
  SEXP output = scatters ? reduction_part(group->handle, &reduction, x, length)
                         : reduction_output(group->handle, &reduction);
  SET_VECTOR_ELT(group->outputs, i, output);
  group->items[i] =
      (ring_group_item){mine.data, reduction_memory(&reduction, output), length, mine.dtype};
  description_add_member(&group->about, reduction.x, i, count);
  UNPROTECT(1);
}

static void group_add_copy(group *group, SEXP given, const char *name, R_xlen_t i, R_xlen_t count) {
  SEXP x = PROTECT(view_vector(given, name));
  view mine = view_of(x);
  SET_VECTOR_ELT(group->inputs, i, x);
  SEXP output = group->kind == RING_GROUP_ALLGATHER
                    ? parts_gathered(group->handle, x)
                    : shared_vector(group->handle, (SEXPTYPE)TYPEOF(x), Rf_xlength(x));
  SET_VECTOR_ELT(group->outputs, i, output);
  if (group->kind == RING_GROUP_BROADCAST) {
    view_copy_shape(output, x);
    classed_keep(output, x);
  }
  group->items[i] = (ring_group_item){mine.data, view_output(output), mine.count, mine.dtype};
  description_add_member(&group->about, x, i, count);
  UNPROTECT(1);
}

static void group_add(group *group, SEXP xs, R_xlen_t i) {
  char name[40];
  snprintf(name, sizeof(name), "xs[[%.0f]]", (double)i + 1);
  if (group->op_name != R_NilValue)
    group_add_reduction(group, VECTOR_ELT(xs, i), name, i, Rf_xlength(xs));
  else
    group_add_copy(group, VECTOR_ELT(xs, i), name, i, Rf_xlength(xs));
}

/* `kind` is a ring_group_kind; `op` and `factors` are those of a reduction, NULL otherwise. */
SEXP collective_group(SEXP comm, SEXP kind, SEXP xs, SEXP op_name, SEXP root_given, SEXP factors,
                      SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  if (TYPEOF(xs) != VECSXP)
    error_invalid("`xs` must be a list of vectors; functions without _group take a single one");
  R_xlen_t count = Rf_xlength(xs);
  const char *text;
  ring_op op = op_name == R_NilValue ? RING_SUM : collective_op(op_name, &text);
  group group = {.handle = handle,
                 .inputs = PROTECT(Rf_allocVector(VECSXP, count)),
                 .outputs = PROTECT(Rf_allocVector(VECSXP, count)),
                 .kind = (ring_group_kind)Rf_asInteger(kind),
                 .items = (ring_group_item *)R_alloc((size_t)count, sizeof(ring_group_item)),
                 .op_name = op_name};
  for (R_xlen_t i = 0; i < count; i++) group_add(&group, xs, i);
  view_copy_shape(group.outputs, xs);
  description_add_names(&group.about, xs);
  if (group.disguised) description_add_integers(&group.about);
  SEXP request = PROTECT(request_new(start, comm, group.inputs, group.outputs));
  describe(handle, &group.about);
  if (factors != R_NilValue) reduction_scale(handle, factors);
  ring_status status = REQUEST_CALL(request, ring_group, handle->comm, group.kind, group.items,
                                    (size_t)count, op, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, group.outputs);
}

/* ---- Other collectives -------------------------------------------------------------------- */

SEXP collective_reduce(SEXP comm, SEXP x, SEXP op_name, SEXP root_given, SEXP factors, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  reduction reduction = reduction_of(handle, x, op_name);
  PROTECT(reduction.input);
  bool has_it = comm_is_rank(handle, root);
  SEXP output = PROTECT(has_it ? reduction_output(handle, &reduction) : R_NilValue);
  SEXP request = PROTECT(request_new(start, comm, reduction.input, output));
  reduction_describe(handle, &reduction);
  reduction_scale(handle, factors);
  view mine = reduction.mine;
  ring_status status = REQUEST_CALL(request, ring_reduce, handle->comm, mine.data,
                                    reduction_memory(&reduction, output), mine.count, mine.dtype,
                                    reduction.op, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP collective_reduce_scatter(SEXP comm, SEXP x, SEXP op_name, SEXP factors, SEXP start) {
  comm_handle *handle = comm_of(comm);
  reduction reduction = reduction_of(handle, x, op_name);
  PROTECT(reduction.input);
  size_t count = parts_equal(handle, x);
  SEXP output = PROTECT(reduction_part(handle, &reduction, x, count));
  SEXP request = PROTECT(request_new(start, comm, reduction.input, output));
  reduction_describe(handle, &reduction);
  reduction_scale(handle, factors);
  view mine = reduction.mine;
  ring_status status =
      REQUEST_CALL(request, ring_reduce_scatter, handle->comm, mine.data,
                   reduction_memory(&reduction, output), count, mine.dtype, reduction.op);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP collective_scan(SEXP comm, SEXP x, SEXP op_name, SEXP exclusive, SEXP start) {
  comm_handle *handle = comm_of(comm);
  reduction reduction = reduction_of(handle, x, op_name);
  PROTECT(reduction.input);
  SEXP output = PROTECT(reduction_output(handle, &reduction));
  SEXP request = PROTECT(request_new(start, comm, reduction.input, output));
  reduction_describe(handle, &reduction);
  view mine = reduction.mine;
  void *memory = reduction_memory(&reduction, output);
  ring_status status = Rf_asLogical(exclusive)
                           ? REQUEST_CALL(request, ring_exscan, handle->comm, mine.data, memory,
                                          mine.count, mine.dtype, reduction.op)
                           : REQUEST_CALL(request, ring_scan, handle->comm, mine.data, memory,
                                          mine.count, mine.dtype, reduction.op);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP collective_reduce_scatterv(SEXP comm, SEXP x, SEXP counts, SEXP op_name, SEXP factors,
                                SEXP start) {
  comm_handle *handle = comm_of(comm);
  reduction reduction = reduction_of(handle, x, op_name);
  PROTECT(reduction.input);
  const size_t *elements = parts_cut(handle, x, counts);
  R_xlen_t count = (R_xlen_t)elements[ring_comm_rank(handle->comm)];
  SEXP output = reduction.wide ? wide_output(handle, count, reduction.op, R_NilValue)
                               : reduction_vector(handle, &reduction, count);
  PROTECT(output);
  parts_shape_counted(handle, output, x, counts);
  classed_keep_reduced(output, reduction.x, reduction.op);
  SEXP request = PROTECT(request_new(start, comm, reduction.input, output));
  reduction_describe(handle, &reduction);
  reduction_scale(handle, factors);
  view mine = reduction.mine;
  ring_status status =
      REQUEST_CALL(request, ring_reduce_scatterv, handle->comm, mine.data,
                   reduction_memory(&reduction, output), elements, mine.dtype, reduction.op);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

/* On root the result is x itself, if possible: R does not modify a vector while two names refer to it. The
 * core only reads it then. */
SEXP collective_broadcast(SEXP comm, SEXP given, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  bool has_it = comm_is_rank(handle, root) && view_is_plain(x) && TYPEOF(x) != LGLSXP;
  SEXP output = has_it ? x : shared_vector(handle, (SEXPTYPE)TYPEOF(x), Rf_xlength(x));
  PROTECT(output);
  if (!has_it) view_copy_shape(output, x);
  if (!has_it) classed_keep(output, x);
  void *memory = has_it ? (void *)mine.data : view_output(output);
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_whole(handle, x);
  ring_status status = REQUEST_CALL(request, ring_broadcast, handle->comm, mine.data, memory,
                                    mine.count, mine.dtype, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP collective_barrier(SEXP comm, SEXP start) {
  comm_handle *handle = comm_of(comm);
  SEXP request = PROTECT(request_new(start, comm, R_NilValue, R_NilValue));
  ring_status status = REQUEST_CALL(request, ring_barrier, handle->comm);
  UNPROTECT(1);
  return request_finish(request, handle, status, R_NilValue);
}
