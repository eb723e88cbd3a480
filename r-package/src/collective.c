/* SPDX-License-Identifier: Apache-2.0 */
#include "collective.h"

#include "comm.h"
#include "error.h"
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

SEXP collective_allreduce(SEXP comm, SEXP x, SEXP op_name) {
  comm_handle *handle = comm_of(comm);
  view mine = view_of(x);
  ring_op op = collective_op(op_name, mine.dtype);
  SEXP input = x;
  if (op == RING_AVG && mine.dtype != RING_FLOAT64) input = Rf_coerceVector(x, REALSXP);
  PROTECT(input);
  view_refuse_na(input);
  mine = view_of(input);
  SEXP output = PROTECT(Rf_allocVector(collective_result_type(input, op), Rf_xlength(x)));
  ring_status status =
      ring_allreduce(handle->comm, mine.data, view_output(output), mine.count, mine.dtype, op);
  comm_finish(handle, status);
  view_copy_shape(output, x);
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

SEXP collective_allgather(SEXP comm, SEXP x) {
  comm_handle *handle = comm_of(comm);
  view mine = view_of(x);
  R_xlen_t size = ring_comm_size(handle->comm);
  if (Rf_xlength(x) > R_XLEN_T_MAX / size)
    error_invalid("the vectors of all %.0f ranks together are longer than R allows", (double)size);
  SEXP output = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(x), Rf_xlength(x) * size));
  ring_status status =
      ring_allgather(handle->comm, mine.data, view_output(output), mine.count, mine.dtype);
  comm_finish(handle, status);
  view_settle(output);
  UNPROTECT(1);
  return output;
}

SEXP collective_barrier(SEXP comm) {
  comm_handle *handle = comm_of(comm);
  comm_finish(handle, ring_barrier(handle->comm));
  return R_NilValue;
}
