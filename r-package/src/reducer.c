/* SPDX-License-Identifier: Apache-2.0
 *
 * All numbers travel as doubles. The first dimension of the core is the last one of R.
 */
#include "reducer.h"

#include <string.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"
#include "interrupt.h"
#include "view.h"

enum { KEPT_REDUCER, KEPT_INPUT, KEPT_OUTPUT, KEPT };

static SEXP reducer_tag(void) {
  return Rf_install("ring_reducer");
}

static SEXP submission_tag(void) {
  return Rf_install("ring_submission");
}

static ring_reducer *reducer_of(SEXP reducer) {
  if (TYPEOF(reducer) != EXTPTRSXP || R_ExternalPtrTag(reducer) != reducer_tag() ||
      R_ExternalPtrAddr(reducer) == NULL)
    error_invalid("`reducer` must be a reducer, as ring_reducer() returns it in this process");
  return R_ExternalPtrAddr(reducer);
}

static ring_submission *submission_of(SEXP submission) {
  if (TYPEOF(submission) != EXTPTRSXP || R_ExternalPtrTag(submission) != submission_tag() ||
      R_ExternalPtrAddr(submission) == NULL)
    error_invalid("`submission` must be a submission, as ring_submit() returns it in this process");
  return R_ExternalPtrAddr(submission);
}

static SEXP reducer_pointer(void *address, SEXP tag, SEXP kept, R_CFinalizer_t finaliser) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(address, tag, kept));
  SEXP class = PROTECT(Rf_ScalarString(PRINTNAME(tag)));
  R_RegisterCFinalizer(pointer, finaliser);
  Rf_setAttrib(pointer, R_ClassSymbol, class);
  UNPROTECT(2);
  return pointer;
}

/* ---- Life --------------------------------------------------------------------------------- */

static void reducer_finalise(SEXP reducer) {
  interrupt_set_quiet(true);
  ring_reducer_free(R_ExternalPtrAddr(reducer));
  interrupt_set_quiet(false);
  R_ClearExternalPtr(reducer);
}

/* The core still uses the vectors of a submission that is not done: they are never collected then. */
static void submission_finalise(SEXP submission) {
  ring_submission *dropped = R_ExternalPtrAddr(submission);
  int done = 1;
  ring_submission_test(dropped, &done);
  if (done)
    ring_submission_free(dropped);
  else
    R_PreserveObject(R_ExternalPtrProtected(submission));
  R_ClearExternalPtr(submission);
}

static void reducer_finish(SEXP reducer, ring_status status) {
  interrupt_continue();
  if (status != RING_OK) error_raise(status, ring_reducer_error(reducer_of(reducer)));
}

SEXP reducer_open(SEXP comm, SEXP threshold, SEXP cycle_time, SEXP capacity, SEXP stall_timeout,
                  SEXP autotune, SEXP autotune_log) {
  comm_handle *handle = comm_of(comm);
  ring_reducer_options options = RING_REDUCER_OPTIONS_INIT;
  ring_reducer *opened = NULL;
  options.threshold = (size_t)Rf_asReal(threshold);
  options.cycle_time = Rf_asReal(cycle_time);
  options.cache_capacity = (size_t)Rf_asReal(capacity);
  options.stall_timeout = Rf_asReal(stall_timeout);
  options.autotune = Rf_asLogical(autotune) ? RING_ON : RING_OFF;
  if (!Rf_isNull(autotune_log)) options.autotune_log = CHAR(STRING_ELT(autotune_log, 0));
  SEXP reducer = PROTECT(reducer_pointer(NULL, reducer_tag(), comm, reducer_finalise));
  ring_status status = ring_reducer_open(handle->comm, &options, &opened);
  R_SetExternalPtrAddr(reducer, opened);
  comm_finish(handle, status);
  UNPROTECT(1);
  return reducer;
}

SEXP reducer_join(SEXP reducer) {
  int last = -1;
  ring_status status = ring_reducer_join(reducer_of(reducer), &last);
  reducer_finish(reducer, status);
  return Rf_ScalarInteger(last);
}

SEXP reducer_close(SEXP reducer) {
  reducer_finish(reducer, ring_reducer_close(reducer_of(reducer)));
  return R_NilValue;
}

/* ---- Submitting --------------------------------------------------------------------------- */

/* Splits, on the heap of R. */
static const int64_t *reducer_splits(SEXP splits) {
  R_xlen_t count = Rf_xlength(splits);
  if (count == 0) return NULL;
  int64_t *numbers = (int64_t *)R_alloc((size_t)count, sizeof(*numbers));
  for (R_xlen_t r = 0; r < count; r++) numbers[r] = (int64_t)REAL(splits)[r];
  return numbers;
}

SEXP reducer_submit(SEXP reducer, SEXP kind, SEXP name, SEXP x, SEXP op, SEXP root, SEXP splits) {
  ring_reducer *to = reducer_of(reducer);
  ring_operation operation = RING_OPERATION_INIT;
  ring_submission *made;
  int64_t shape[2];
  if (ring_operation_parse(CHAR(STRING_ELT(kind, 0)), &operation.kind) != RING_OK)
    error_invalid("`kind` is \"%.40s\", which is no operation", CHAR(STRING_ELT(kind, 0)));
  operation.name = Rf_translateCharUTF8(STRING_ELT(name, 0));
  operation.root = Rf_asInteger(root);
  if (ring_op_parse(CHAR(STRING_ELT(op, 0)), &operation.op) != RING_OK)
    error_invalid("`op` is \"%.40s\", which is no operation", CHAR(STRING_ELT(op, 0)));
  bool same =
      operation.kind == RING_OPERATION_ALLREDUCE || operation.kind == RING_OPERATION_BROADCAST;
  SEXP kept = PROTECT(Rf_allocVector(VECSXP, KEPT));
  SET_VECTOR_ELT(kept, KEPT_REDUCER, reducer);
  SET_VECTOR_ELT(kept, KEPT_INPUT, x);
  if (same) {
    SET_VECTOR_ELT(kept, KEPT_OUTPUT, Rf_allocVector(REALSXP, Rf_xlength(x)));
    view_copy_shape(VECTOR_ELT(kept, KEPT_OUTPUT), x);
    operation.output = REAL(VECTOR_ELT(kept, KEPT_OUTPUT));
  }
  if (operation.kind != RING_OPERATION_BARRIER) {
    shape[0] = view_extent(x);
    shape[1] = view_stride(x);
    operation.dtype = RING_FLOAT64;
    operation.input = REAL(x);
    operation.shape = shape;
    operation.dimensions = 2;
    operation.splits = reducer_splits(splits);
  }
  SEXP submission = PROTECT(reducer_pointer(NULL, submission_tag(), kept, submission_finalise));
  ring_status status = ring_reducer_submit(to, &operation, &made);
  R_SetExternalPtrAddr(submission, made);
  reducer_finish(reducer, status);
  UNPROTECT(2);
  return submission;
}

/* ---- Waiting ------------------------------------------------------------------------------ */

/* The dimensions of x, with another extent. */
static void submission_shape(SEXP output, SEXP x, int64_t rows) {
  SEXP dim = Rf_getAttrib(x, R_DimSymbol);
  if (Rf_isNull(dim)) return;
  SEXP changed = PROTECT(Rf_coerceVector(Rf_duplicate(dim), INTSXP));
  INTEGER(changed)[Rf_xlength(changed) - 1] = (int)rows;
  Rf_setAttrib(output, R_DimSymbol, changed);
  UNPROTECT(1);
}

/* Copies the output of the core into a vector, once. */
static SEXP submission_output(ring_submission *done, SEXP kept) {
  SEXP x = VECTOR_ELT(kept, KEPT_INPUT);
  if (!Rf_isNull(VECTOR_ELT(kept, KEPT_OUTPUT)) || Rf_isNull(x))
    return VECTOR_ELT(kept, KEPT_OUTPUT);
  int64_t rows = 0;
  void *memory = ring_submission_take_output(done, &rows);
  SEXP output = PROTECT(Rf_allocVector(REALSXP, (R_xlen_t)rows * view_stride(x)));
  if (memory != NULL) memcpy(REAL(output), memory, (size_t)Rf_xlength(output) * sizeof(double));
  ring_free(memory);
  submission_shape(output, x, rows);
  SET_VECTOR_ELT(kept, KEPT_OUTPUT, output);
  UNPROTECT(1);
  return output;
}

SEXP submission_wait(SEXP submission) {
  ring_submission *of = submission_of(submission);
  ring_status status = ring_submission_wait(of);
  interrupt_continue();
  if (status == RING_INVALID) error_raise(status, ring_reducer_error(NULL));
  if (status != RING_OK) error_raise(status, ring_submission_error(of));
  return submission_output(of, R_ExternalPtrProtected(submission));
}

SEXP submission_test(SEXP submission) {
  ring_submission *of = submission_of(submission);
  int done;
  ring_status status = ring_submission_test(of, &done);
  if (done && status != RING_OK) error_raise(status, ring_submission_error(of));
  return Rf_ScalarLogical(done);
}
