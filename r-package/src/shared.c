/* SPDX-License-Identifier: Apache-2.0 */
#include "shared.h"

#include <R_ext/Altrep.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "view.h"

/* From this size on a collective gains more than the vector costs. */
#define SHARED_LEAST ((size_t)64 * 1024)

/* The least number of bytes in use before R collects. */
#define SHARED_ALLOWANCE ((size_t)256 << 20)

/* R collects young vectors, in half a millisecond, when this number of bytes has been allocated in
 * vectors of at most SHARED_YOUNG_LENGTH bytes: memory that is soon used again is mapped already. Longer
 * vectors are usually still referenced then, and stay until R collects everything. */
#define SHARED_YOUNG ((size_t)32 << 20)
#define SHARED_YOUNG_LENGTH ((size_t)4 << 20)

static R_altrep_class_t shared_real, shared_integer, shared_logical, shared_raw, shared_complex;
static size_t shared_bytes;                    /* in vectors that are not collected yet */
static size_t shared_young;                    /* allocated since, in not so long ones */
static size_t shared_limit = SHARED_ALLOWANCE; /* of shared_bytes */

/* data1 is an external pointer to the elements, which protects their number, a double; data2 is
 * that number, too. */

static R_xlen_t shared_length(SEXP x) {
  return (R_xlen_t)REAL_RO(R_altrep_data2(x))[0];
}

static void *shared_data(SEXP x) {
  return R_ExternalPtrAddr(R_altrep_data1(x));
}

/* ---- Methods ------------------------------------------------------------------------------ */

static void *shared_dataptr(SEXP x, Rboolean writable) {
  (void)writable;
  return shared_data(x);
}

static const void *shared_dataptr_or_null(SEXP x) {
  return shared_data(x);
}

static double shared_real_element(SEXP x, R_xlen_t i) {
  return ((const double *)shared_data(x))[i];
}

static int shared_int_element(SEXP x, R_xlen_t i) {
  return ((const int *)shared_data(x))[i];
}

static Rbyte shared_raw_element(SEXP x, R_xlen_t i) {
  return ((const Rbyte *)shared_data(x))[i];
}

static Rcomplex shared_complex_element(SEXP x, R_xlen_t i) {
  return ((const Rcomplex *)shared_data(x))[i];
}

static R_altrep_class_t shared_methods(R_altrep_class_t class) {
  R_set_altrep_Length_method(class, shared_length);
  R_set_altvec_Dataptr_method(class, shared_dataptr);
  R_set_altvec_Dataptr_or_null_method(class, shared_dataptr_or_null);
  return class;
}

void shared_init(DllInfo *dll) {
  shared_real = shared_methods(R_make_altreal_class("shared_real", "sparkring", dll));
  shared_integer = shared_methods(R_make_altinteger_class("shared_integer", "sparkring", dll));
  shared_logical = shared_methods(R_make_altlogical_class("shared_logical", "sparkring", dll));
  shared_raw = shared_methods(R_make_altraw_class("shared_raw", "sparkring", dll));
  shared_complex = shared_methods(R_make_altcomplex_class("shared_complex", "sparkring", dll));
  R_set_altcomplex_Elt_method(shared_complex, shared_complex_element);
  R_set_altreal_Elt_method(shared_real, shared_real_element);
  R_set_altinteger_Elt_method(shared_integer, shared_int_element);
  R_set_altlogical_Elt_method(shared_logical, shared_int_element);
  R_set_altraw_Elt_method(shared_raw, shared_raw_element);
}

static R_altrep_class_t shared_class(SEXPTYPE type) {
  switch (type) {
  case REALSXP:
    return shared_real;
  case INTSXP:
    return shared_integer;
  case LGLSXP:
    return shared_logical;
  case CPLXSXP:
    return shared_complex;
  default:
    return shared_raw;
  }
}

static size_t shared_width(SEXPTYPE type) {
  if (type == CPLXSXP) return sizeof(Rcomplex);
  return type == REALSXP ? sizeof(double) : type == RAWSXP ? 1 : sizeof(int);
}

/* ---- Life --------------------------------------------------------------------------------- */

/* The tag of the pointer is the size in bytes, a double. */
static void shared_finalise(SEXP pointer) {
  void *memory = R_ExternalPtrAddr(pointer);
  if (memory == NULL) return;
  R_ClearExternalPtr(pointer);
  ring_free(memory);
  shared_bytes -= (size_t)REAL_RO(R_ExternalPtrTag(pointer))[0];
}

/* gc(full = FALSE) */
static void shared_collect_young(void) {
  SEXP no = PROTECT(Rf_ScalarLogical(FALSE));
  SEXP call = PROTECT(Rf_lang4(Rf_install("gc"), no, no, no));
  Rf_eval(call, R_BaseEnv);
  UNPROTECT(2);
}

/* Collects young vectors, and then everything if that has not freed enough. A full collection takes time
 * in proportion to all that R has allocated. */
static void shared_collect(void) {
  bool full = shared_bytes > shared_limit;
  if (!full && shared_young <= SHARED_YOUNG) return;
  shared_young = 0;
  shared_collect_young();
  if (!full || shared_bytes <= shared_limit / 2) return;
  R_gc();
  size_t twice = 2 * shared_bytes;
  shared_limit = twice > SHARED_ALLOWANCE ? twice : SHARED_ALLOWANCE;
}

static SEXP shared_new(const comm_handle *handle, SEXPTYPE type, R_xlen_t length) {
  size_t bytes = (size_t)length * shared_width(type);
  shared_collect();
  SEXP count = PROTECT(Rf_ScalarReal((double)length));
  SEXP size = PROTECT(Rf_ScalarReal((double)bytes));
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, size, R_NilValue));
  R_RegisterCFinalizer(pointer, shared_finalise);
  void *memory;
  ring_status status = ring_alloc(handle->comm, bytes, &memory);
  if (status != RING_OK) {
    ring_error error = {.status = status, .rank = -1};
    snprintf(error.message, sizeof(error.message), "there is no memory for a vector of %zu bytes",
             bytes);
    error_raise(status, &error);
  }
  R_SetExternalPtrAddr(pointer, memory);
  shared_bytes += bytes;
  if (bytes <= SHARED_YOUNG_LENGTH) shared_young += bytes;
  SEXP x = R_new_altrep(shared_class(type), pointer, count);
  UNPROTECT(3);
  return x;
}

static bool shared_is_possible(const comm_handle *handle) {
  return handle->shares && ring_comm_local_size(handle->comm) > 1 && ring_comm_usable(handle->comm);
}

SEXP shared_vector(const comm_handle *handle, SEXPTYPE type, R_xlen_t length) {
  bool large = (size_t)length >= SHARED_LEAST / shared_width(type);
  if (!large || !shared_is_possible(handle)) return Rf_allocVector(type, length);
  return shared_new(handle, type, length);
}

void shared_release(SEXP x) {
  if (R_altrep_inherits(x, shared_real)) shared_finalise(R_altrep_data1(x));
}

/* ---- Entry points ------------------------------------------------------------------------- */

SEXP shared_alloc(SEXP comm, SEXP type, SEXP length) {
  const comm_handle *handle = comm_of(comm);
  SEXPTYPE of = Rf_str2type(CHAR(STRING_ELT(type, 0)));
  SEXP x = PROTECT(shared_vector(handle, of, (R_xlen_t)Rf_asReal(length)));
  if (Rf_xlength(x) > 0) memset(view_output(x), 0, (size_t)Rf_xlength(x) * shared_width(of));
  UNPROTECT(1);
  return x;
}

SEXP shared_is(SEXP x) {
  return Rf_ScalarLogical(R_altrep_inherits(x, shared_real) ||
                          R_altrep_inherits(x, shared_integer) ||
                          R_altrep_inherits(x, shared_logical) ||
                          R_altrep_inherits(x, shared_raw) || R_altrep_inherits(x, shared_complex));
}
