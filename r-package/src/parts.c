/* SPDX-License-Identifier: Apache-2.0 */
#include "parts.h"

#include <limits.h>

#include "bindings/rows.h"
#include "classed.h"
#include "description.h"
#include "error.h"
#include "request.h"
#include "shared.h"
#include "view.h"

static const char *parts_measure(SEXP x) {
  return Rf_isArray(x) ? "the last dimension" : "the length";
}

size_t parts_equal(const comm_handle *handle, SEXP x) {
  int size = ring_comm_size(handle->comm);
  R_xlen_t extent = view_extent(x);
  if (extent % size != 0)
    error_invalid("%s of `x` is %.0f, which %d ranks cannot share equally: pass a multiple of %d",
                  parts_measure(x), (double)extent, size, size);
  return (size_t)(extent / size * view_stride(x));
}

/* ---- Shapes ------------------------------------------------------------------------------- */

/* Sets the attributes on a new vector that one of R's functions returns for it. */
static void parts_shape(SEXP output, SEXP call) {
  PROTECT(call);
  SEXP package = PROTECT(Rf_mkString("sparkring"));
  SEXP namespace = PROTECT(R_FindNamespace(package));
  SEXP shape = PROTECT(Rf_eval(call, namespace));
  SEXP names = PROTECT(Rf_getAttrib(shape, R_NamesSymbol));
  for (R_xlen_t i = 0; i < Rf_xlength(shape); i++) {
    SEXP value = VECTOR_ELT(shape, i);
    if (value != R_NilValue) Rf_setAttrib(output, Rf_installTrChar(STRING_ELT(names, i)), value);
  }
  UNPROTECT(5);
}

void parts_shape_part(const comm_handle *handle, SEXP output, SEXP x) {
  if (view_is_plain(x)) return;
  SEXP rank = PROTECT(Rf_ScalarInteger(ring_comm_rank(handle->comm)));
  SEXP size = PROTECT(Rf_ScalarInteger(ring_comm_size(handle->comm)));
  parts_shape(output, Rf_lang4(Rf_install("part_shape"), x, rank, size));
  UNPROTECT(2);
}

void parts_shape_counted(const comm_handle *handle, SEXP output, SEXP x, SEXP counts) {
  if (view_is_plain(x)) return;
  SEXP rank = PROTECT(Rf_ScalarInteger(ring_comm_rank(handle->comm)));
  parts_shape(output, Rf_lang4(Rf_install("counted_shape"), x, rank, counts));
  UNPROTECT(1);
}

/* Sets the shape of x with another last dimension, and the class. */
static void parts_shape_extent(SEXP output, SEXP x, double extent) {
  if (view_is_plain(x)) return;
  SEXP wanted = PROTECT(Rf_ScalarReal(extent));
  parts_shape(output, Rf_lang3(Rf_install("resized_shape"), x, wanted));
  classed_keep(output, x);
  UNPROTECT(1);
}

/* Sets the shape of the gathered vectors. For a plain x it is known without a call of R. */
static void parts_shape_gathered(const comm_handle *handle, SEXP output, SEXP x) {
  int size = ring_comm_size(handle->comm);
  R_xlen_t length = Rf_xlength(x);
  if (!view_is_plain(x)) {
    SEXP ranks = PROTECT(Rf_ScalarInteger(size));
    parts_shape(output, Rf_lang3(Rf_install("gathered_shape"), x, ranks));
    UNPROTECT(1);
  } else if (length != 1 && length <= INT_MAX) {
    SEXP dim = PROTECT(Rf_allocVector(INTSXP, 2));
    INTEGER(dim)[0] = (int)length;
    INTEGER(dim)[1] = size;
    Rf_setAttrib(output, R_DimSymbol, dim);
    UNPROTECT(1);
  }
}

/* ---- Equal parts -------------------------------------------------------------------------- */

SEXP parts_gathered(const comm_handle *handle, SEXP x) {
  R_xlen_t size = ring_comm_size(handle->comm);
  if (Rf_xlength(x) > R_XLEN_T_MAX / size)
    error_invalid("the vectors of all %.0f ranks together are longer than R allows", (double)size);
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), Rf_xlength(x) * size));
  parts_shape_gathered(handle, output, x);
  classed_keep_together(output, x);
  UNPROTECT(1);
  return output;
}

SEXP parts_allgather(SEXP comm, SEXP given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  SEXP output = PROTECT(parts_gathered(handle, x));
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_whole(handle, x);
  ring_status status = REQUEST_CALL(request, ring_allgather, handle->comm, mine.data,
                                    view_output(output), mine.count, mine.dtype);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP parts_gather(SEXP comm, SEXP given, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  SEXP output = PROTECT(comm_is_rank(handle, root) ? parts_gathered(handle, x) : R_NilValue);
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_whole(handle, x);
  ring_status status = REQUEST_CALL(request, ring_gather, handle->comm, mine.data,
                                    view_output(output), mine.count, mine.dtype, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP parts_scatter(SEXP comm, SEXP given, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  size_t count = parts_equal(handle, x);
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), (R_xlen_t)count));
  parts_shape_part(handle, output, x);
  classed_keep(output, x);
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_whole(handle, x);
  ring_status status = REQUEST_CALL(request, ring_scatter, handle->comm, mine.data,
                                    view_output(output), count, mine.dtype, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP parts_alltoall(SEXP comm, SEXP given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  size_t count = parts_equal(handle, x);
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), Rf_xlength(x)));
  view_copy_shape(output, x);
  classed_keep(output, x);
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_whole(handle, x);
  ring_status status = REQUEST_CALL(request, ring_alltoall, handle->comm, mine.data,
                                    view_output(output), count, mine.dtype);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

/* ---- Parts of different size -------------------------------------------------------------- */

/* Counts as the core needs them: in elements, in memory that R frees when the entry point returns. */
typedef struct parts {
  size_t *counts;
  size_t total;
} parts;

static double parts_sum(SEXP counts) {
  double sum = 0;
  for (R_xlen_t i = 0; i < Rf_xlength(counts); i++) sum += REAL_RO(counts)[i];
  return sum;
}

/* `counts` come from the user or from other ranks, and can be anything. */
static parts parts_of(const comm_handle *handle, SEXP x, SEXP counts) {
  int size = ring_comm_size(handle->comm);
  double stride = (double)view_stride(x);
  if (Rf_xlength(counts) != size)
    error_invalid("`counts` has %.0f numbers and there are %d ranks: pass one for each rank",
                  (double)Rf_xlength(counts), size);
  for (int rank = 0; rank < size; rank++)
    if (!(REAL_RO(counts)[rank] >= 0))
      error_invalid("`counts[[%d]]` is %.0f: it must be 0 or more", rank + 1,
                    REAL_RO(counts)[rank]);
  if (parts_sum(counts) * (stride > 1 ? stride : 1) > (double)R_XLEN_T_MAX)
    error_invalid("the parts of all %d ranks together are longer than R allows", size);
  parts parts = {.counts = (size_t *)R_alloc((size_t)size, sizeof(size_t))};
  for (int rank = 0; rank < size; rank++) {
    parts.counts[rank] = (size_t)(REAL_RO(counts)[rank] * stride);
    parts.total += parts.counts[rank];
  }
  return parts;
}

/* The parts into which x is cut, by the user's counts. */
static parts parts_cut_counts(const comm_handle *handle, SEXP x, SEXP counts) {
  parts parts = parts_of(handle, x, counts);
  if (parts_sum(counts) != (double)view_extent(x))
    error_invalid("`counts` add up to %.0f and %s of `x` is %.0f: they must be equal",
                  parts_sum(counts), parts_measure(x), (double)view_extent(x));
  return parts;
}

const size_t *parts_cut(const comm_handle *handle, SEXP x, SEXP counts) {
  return parts_cut_counts(handle, x, counts).counts;
}

static int64_t *parts_alloc(const comm_handle *handle) {
  return (int64_t *)R_alloc((size_t)ring_comm_size(handle->comm), sizeof(int64_t));
}

static size_t parts_row_bytes(SEXP x) {
  return (size_t)view_stride(x) * ring_dtype_size(view_of(x).dtype);
}

static SEXP parts_doubles(const comm_handle *handle, const int64_t *counts) {
  int size = ring_comm_size(handle->comm);
  SEXP doubles = PROTECT(Rf_allocVector(REALSXP, size));
  for (int rank = 0; rank < size; rank++) REAL(doubles)[rank] = (double)counts[rank];
  UNPROTECT(1);
  return doubles;
}

/* Checks the root before the ranks exchange counts. The core checks it too late. */
static void parts_check_root(const comm_handle *handle, int root) {
  int size = ring_comm_size(handle->comm);
  if (root >= size)
    error_invalid("gatherv: root %d is no rank: ranks go from 0 to %d", root, size - 1);
}

SEXP parts_extents(SEXP comm, SEXP x, SEXP root) {
  comm_handle *handle = comm_of(comm);
  view_of(x);
  classed_refuse_table(x);
  parts_check_root(handle, comm_read_rank(root, "root"));
  int64_t mine = view_extent(x), *all = parts_alloc(handle);
  comm_finish(handle, ring_rows_allgather(handle->comm, mine, parts_row_bytes(x), all));
  return parts_doubles(handle, all);
}

SEXP parts_allgatherv(SEXP comm, SEXP given, SEXP counts, SEXP start) {
  comm_handle *handle = comm_of(comm);
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  parts parts = parts_of(handle, x, counts);
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), (R_xlen_t)parts.total));
  parts_shape_extent(output, x, parts_sum(counts));
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_part(handle, x);
  ring_status status = REQUEST_CALL(request, ring_allgatherv, handle->comm, mine.data,
                                    view_output(output), parts.counts, mine.dtype);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP parts_gatherv(SEXP comm, SEXP given, SEXP counts, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root");
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  parts parts = parts_of(handle, x, counts);
  SEXP output = R_NilValue;
  if (comm_is_rank(handle, root))
    output = shared_vector(handle, (SEXPTYPE)TYPEOF(x), (R_xlen_t)parts.total);
  PROTECT(output);
  if (output != R_NilValue) parts_shape_extent(output, x, parts_sum(counts));
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_part(handle, x);
  ring_status status = REQUEST_CALL(request, ring_gatherv, handle->comm, mine.data,
                                    view_output(output), parts.counts, mine.dtype, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP parts_scatterv(SEXP comm, SEXP given, SEXP counts, SEXP root_given, SEXP start) {
  comm_handle *handle = comm_of(comm);
  int root = comm_read_rank(root_given, "root"), rank = ring_comm_rank(handle->comm);
  SEXP x = PROTECT(view_vector(given, "x"));
  classed_refuse_table(x);
  view mine = view_of(x);
  bool read = rank == root;
  parts parts = read ? parts_cut_counts(handle, x, counts) : parts_of(handle, x, counts);
  size_t count = parts.counts[rank];
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), (R_xlen_t)count));
  parts_shape_extent(output, x, REAL_RO(counts)[rank]);
  SEXP request = PROTECT(request_new(start, comm, x, output));
  describe_part(handle, x);
  ring_status status = REQUEST_CALL(request, ring_scatterv, handle->comm, read ? mine.data : NULL,
                                    view_output(output), parts.counts, mine.dtype, root);
  UNPROTECT(3);
  return request_finish(request, handle, status, output);
}

SEXP parts_exchange(SEXP comm, SEXP x, SEXP counts) {
  comm_handle *handle = comm_of(comm);
  view_of(x);
  classed_refuse_table(x);
  parts_cut_counts(handle, x, counts);
  int64_t *sends = parts_alloc(handle), *receives = parts_alloc(handle);
  for (R_xlen_t i = 0; i < Rf_xlength(counts); i++) sends[i] = (int64_t)REAL_RO(counts)[i];
  comm_finish(handle, ring_rows_alltoall(handle->comm, sends, parts_row_bytes(x), receives));
  return parts_doubles(handle, receives);
}

/* A list of the output and the counts that were received. */
static SEXP parts_with_counts(SEXP output, SEXP counts) {
  static const char *names[] = {"x", "counts", ""};
  SEXP both = Rf_mkNamed(VECSXP, names);
  SET_VECTOR_ELT(both, 0, output);
  SET_VECTOR_ELT(both, 1, counts);
  return both;
}

SEXP parts_alltoallv(SEXP comm, SEXP given, SEXP sends, SEXP receives, SEXP return_counts,
                     SEXP start) {
  comm_handle *handle = comm_of(comm);
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  parts out = parts_cut_counts(handle, x, sends), in = parts_of(handle, x, receives);
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), (R_xlen_t)in.total));
  parts_shape_extent(output, x, parts_sum(receives));
  bool both = Rf_asLogical(return_counts) == TRUE;
  SEXP result = PROTECT(both ? parts_with_counts(output, receives) : output);
  SEXP request = PROTECT(request_new(start, comm, x, result));
  describe_part(handle, x);
  ring_status status = REQUEST_CALL(request, ring_alltoallv, handle->comm, mine.data, out.counts,
                                    view_output(output), in.counts, mine.dtype);
  UNPROTECT(4);
  return request_finish(request, handle, status, result);
}
