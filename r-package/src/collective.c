/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include "comm.h"
#include "error.h"
#include "parts.h"
#include "view.h"

#define COLLECTIVE_OP_QUOTED(name, value, text) ", \"" text "\""

static const char *collective_ops(void) {
  static const char listed[] = RING_OP_MAP(COLLECTIVE_OP_QUOTED);
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
    error_invalid("`op` \"%s\" is for logical, integer and raw vectors, but `x` is double", name);
  return parsed;
}

/* As in base R, a sum of logicals is an integer, and what is either true or false is logical. */
static SEXPTYPE collective_result_type(SEXP input, ring_op op) {
  SEXPTYPE type = (SEXPTYPE)TYPEOF(input);
  if (type != INTSXP && type != LGLSXP) return type;
  return op == RING_LAND || op == RING_LOR ? LGLSXP : INTSXP;
}

/* The op of a reduction, and what goes in: averages are of doubles. */
static SEXP collective_input(SEXP x, SEXP op_name, ring_op *op) {
  *op = collective_op(op_name, view_of(x).dtype);
  SEXP input = x;
  if (*op == RING_AVG && TYPEOF(x) != REALSXP) input = Rf_coerceVector(x, REALSXP);
  PROTECT(input);
  view_refuse_na(input);
  UNPROTECT(1);
  return input;
}

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op_name) {
  comm_handle *handle = comm_of(comm);
  ring_op op;
  SEXP input = PROTECT(collective_input(x, op_name, &op));
  view mine = view_of(input);
  SEXP output = PROTECT(Rf_allocVector(collective_result_type(input, op), Rf_xlength(x)));
  ring_status status =
      ring_allreduce(handle->comm, mine.data, view_output(output), mine.count, mine.dtype, op);
  comm_finish(handle, status);
  view_copy_shape(output, x);
  UNPROTECT(2);
  return output;
}

SEXP collective_reduce(SEXP comm, SEXP x, SEXP op_name, SEXP root) {
  comm_handle *handle = comm_of(comm);
  ring_op op;
  SEXP input = PROTECT(collective_input(x, op_name, &op));
  view mine = view_of(input);
  SEXP output = R_NilValue;
  if (comm_is_rank(handle, root))
    output = Rf_allocVector(collective_result_type(input, op), Rf_xlength(x));
  PROTECT(output);
  ring_status status = ring_reduce(handle->comm, mine.data, view_output(output), mine.count,
                                   mine.dtype, op, Rf_asInteger(root));
  comm_finish(handle, status);
  if (output != R_NilValue) view_copy_shape(output, x);
  UNPROTECT(2);
  return output;
}

SEXP collective_reduce_scatter(SEXP comm, SEXP x, SEXP op_name) {
  comm_handle *handle = comm_of(comm);
  ring_op op;
  SEXP input = PROTECT(collective_input(x, op_name, &op));
  view mine = view_of(input);
  size_t count = parts_equal(handle, x);
  SEXP output = PROTECT(Rf_allocVector(collective_result_type(input, op), (R_xlen_t)count));
  ring_status status =
      ring_reduce_scatter(handle->comm, mine.data, view_output(output), count, mine.dtype, op);
  comm_finish(handle, status);
  UNPROTECT(2);
  return output;
}

SEXP collective_broadcast(SEXP comm, SEXP x, SEXP root) {
  comm_handle *handle = comm_of(comm);
  view mine = view_of(x);
  SEXP output = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(x), Rf_xlength(x)));
  ring_status status = ring_broadcast(handle->comm, mine.data, view_output(output), mine.count,
                                      mine.dtype, Rf_asInteger(root));
  comm_finish(handle, status);
  view_settle(output);
  view_copy_shape(output, x);
  UNPROTECT(1);
  return output;
}

SEXP collective_barrier(SEXP comm) {
  comm_handle *handle = comm_of(comm);
  comm_finish(handle, ring_barrier(handle->comm));
  return R_NilValue;
}
