/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include <stdio.h>

#include "comm.h"
#include "error.h"
#include "parts.h"
#include "request.h"
#include "shared.h"
#include "view.h"

#define COLLECTIVE_OP_QUOTED(name, value, text) ", \"" text "\""
#define COLLECTIVE_ALIAS_QUOTED(name, text) ", \"" text "\""

static const char *collective_ops(void) {
  static const char listed[] = RING_OP_MAP(COLLECTIVE_OP_QUOTED) //
      RING_OP_ALIAS_MAP(COLLECTIVE_ALIAS_QUOTED);
  return &listed[2]; /* behind the first comma */
}

static ring_op collective_op(SEXP op, ring_dtype dtype) {
  ring_op parsed;
  if (!Rf_isString(op) || Rf_xlength(op) != 1 || STRING_ELT(op, 0) == NA_STRING)
    error_invalid("`op` must be one of %s", collective_ops());
  const char *name = Rf_translateCharUTF8(STRING_ELT(op, 0));
  if (ring_op_parse(name, &parsed) != RING_OK)
    error_invalid("`op` is \"%.40s\"; it must be one of %s", name, collective_ops());
  if (dtype == RING_FLOAT64 && (parsed == RING_LAND || parsed == RING_LOR))
    error_invalid("`op` \"%s\" is for logical, integer and raw vectors, not for double ones", name);
  return parsed;
}

/* As in base R, a sum of logicals is an integer, and what is either true or false is logical. */
static SEXPTYPE collective_result_type(SEXP input, ring_op op) {
  SEXPTYPE type = (SEXPTYPE)TYPEOF(input);
  if (type != INTSXP && type != LGLSXP) return type;
  return op == RING_LAND || op == RING_LOR ? LGLSXP : INTSXP;
}

/* The op of a reduction, and what goes in: averages are of doubles. */
static SEXP collective_input_named(SEXP x, const char *name, SEXP op_name, ring_op *op) {
  *op = collective_op(op_name, view_named(x, name).dtype);
  SEXP input = x;
  if (*op == RING_AVG && TYPEOF(x) != REALSXP) input = Rf_coerceVector(x, REALSXP);
  PROTECT(input);
  view_refuse_na(input, name);
  UNPROTECT(1);
  return input;
}

static SEXP collective_input(SEXP x, SEXP op_name, ring_op *op) {
  return collective_input_named(x, "x", op_name, op);
}

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op_name, SEXP start) {
  comm_handle *handle = comm_of(comm);
  ring_op op;
  SEXP input = PROTECT(collective_input(x, op_name, &op));
  view mine = view_of(input);
  SEXP output = PROTECT(shared_vector(handle, collective_result_type(input, op), Rf_xlength(x)));
  view_copy_shape(output, x);
  SEXP request = PROTECT(request_new(start, comm, input, output));
  ring_status status = REQUEST_CALL(request, ring_allreduce, handle->comm, mine.data,
                                    view_output(output), mine.count, mine.dtype, op);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

/* ---- Groups ------------------------------------------------------------------------------- */

typedef struct group {
  SEXP inputs, outputs; /* lists */
  ring_buffer *buffers;
  ring_dtype dtype; /* of all: that of the first */
  ring_op op;
} group;

static void group_add(group *group, const comm_handle *handle, SEXP xs, R_xlen_t i, SEXP op_name) {
  SEXP x = VECTOR_ELT(xs, i);
  char name[40];
  snprintf(name, sizeof(name), "xs[[%.0f]]", (double)i + 1);
  SEXP input = collective_input_named(x, name, op_name, &group->op);
  SET_VECTOR_ELT(group->inputs, i, input);
  view mine = view_of(input);
  if (i == 0) group->dtype = mine.dtype;
  if (mine.dtype != group->dtype)
    error_invalid("`%s` is %s and `xs[[1]]` is %s: all vectors of a group have the same type", name,
                  Rf_type2char((SEXPTYPE)TYPEOF(x)),
                  Rf_type2char((SEXPTYPE)TYPEOF(VECTOR_ELT(xs, 0))));
  SEXP output = shared_vector(handle, collective_result_type(input, group->op), Rf_xlength(x));
  SET_VECTOR_ELT(group->outputs, i, output);
  view_copy_shape(output, x);
  group->buffers[i] = (ring_buffer){mine.data, view_output(output), mine.count};
}

SEXP collective_allreduce_group(SEXP comm, SEXP xs, SEXP op_name, SEXP start) {
  comm_handle *handle = comm_of(comm);
  if (TYPEOF(xs) != VECSXP)
    error_invalid("`xs` must be a list of vectors; ring_allreduce() takes a single one");
  R_xlen_t count = Rf_xlength(xs);
  group group = {.inputs = PROTECT(Rf_allocVector(VECSXP, count)),
                 .outputs = PROTECT(Rf_allocVector(VECSXP, count)),
                 .buffers = (ring_buffer *)R_alloc((size_t)count, sizeof(ring_buffer)),
                 .dtype = RING_INT32, /* of none at all: the one that every op is for */
                 .op = collective_op(op_name, RING_INT32)};
  for (R_xlen_t i = 0; i < count; i++) group_add(&group, handle, xs, i, op_name);
  view_copy_shape(group.outputs, xs);
  SEXP request = PROTECT(request_new(start, comm, group.inputs, group.outputs));
  ring_status status = REQUEST_CALL(request, ring_allreduce_group, handle->comm, group.buffers,
                                    (size_t)count, group.dtype, group.op);
  UNPROTECT(3);
  return request_finish(request, handle, status, group.outputs);
}

/* ---- The others --------------------------------------------------------------------------- */

SEXP collective_reduce(SEXP comm, SEXP x, SEXP op_name, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  ring_op op;
  SEXP input = PROTECT(collective_input(x, op_name, &op));
  view mine = view_of(input);
  SEXP output = R_NilValue;
  if (comm_is_rank(handle, root))
    output = shared_vector(handle, collective_result_type(input, op), Rf_xlength(x));
  PROTECT(output);
  if (output != R_NilValue) view_copy_shape(output, x);
  SEXP request = PROTECT(request_new(start, comm, input, output));
  ring_status status = REQUEST_CALL(request, ring_reduce, handle->comm, mine.data,
                                    view_output(output), mine.count, mine.dtype, op, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP collective_reduce_scatter(SEXP comm, SEXP x, SEXP op_name, SEXP start) {
  comm_handle *handle = comm_of(comm);
  ring_op op;
  SEXP input = PROTECT(collective_input(x, op_name, &op));
  view mine = view_of(input);
  size_t count = parts_equal(handle, x);
  SEXP output = PROTECT(shared_vector(handle, collective_result_type(input, op), (R_xlen_t)count));
  parts_shape_part(handle, output, x);
  SEXP request = PROTECT(request_new(start, comm, input, output));
  ring_status status = REQUEST_CALL(request, ring_reduce_scatter, handle->comm, mine.data,
                                    view_output(output), count, mine.dtype, op);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

/* Root has the result: a vector that nobody modifies while two names stand for it. The core only
 * reads it then. */
SEXP collective_broadcast(SEXP comm, SEXP x, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  view mine = view_of(x);
  bool has_it = comm_is_rank(handle, root) && view_is_plain(x) && TYPEOF(x) != LGLSXP;
  SEXP output = has_it ? x : shared_vector(handle, (SEXPTYPE)TYPEOF(x), Rf_xlength(x));
  PROTECT(output);
  if (!has_it) view_copy_shape(output, x);
  void *memory = has_it ? (void *)mine.data : view_output(output);
  SEXP request = PROTECT(request_new(start, comm, x, output));
  ring_status status = REQUEST_CALL(request, ring_broadcast, handle->comm, mine.data, memory,
                                    mine.count, mine.dtype, root);
  UNPROTECT(2);
  return request_finish(request, handle, status, output);
}

SEXP collective_barrier(SEXP comm, SEXP start) {
  comm_handle *handle = comm_of(comm);
  SEXP request = PROTECT(request_new(start, comm, R_NilValue, R_NilValue));
  ring_status status = REQUEST_CALL(request, ring_barrier, handle->comm);
  UNPROTECT(1);
  return request_finish(request, handle, status, R_NilValue);
}
