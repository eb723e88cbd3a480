/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "comm.h"
#include "view.h"

SEXP message_send(SEXP comm, SEXP x, SEXP peer) {
  comm_handle *handle = comm_of(comm);
  view mine = view_of(x);
  comm_finish(handle,
              ring_send(handle->comm, mine.data, mine.count, mine.dtype, Rf_asInteger(peer)));
  return R_NilValue;
}

SEXP message_recv(SEXP comm, SEXP x, SEXP peer) {
  comm_handle *handle = comm_of(comm);
  view like = view_of(x);
  SEXP output = PROTECT(Rf_allocVector((SEXPTYPE)TYPEOF(x), Rf_xlength(x)));
  ring_status status =
      ring_recv(handle->comm, view_output(output), like.count, like.dtype, Rf_asInteger(peer));
  comm_finish(handle, status);
  view_settle(output);
  view_copy_shape(output, x);
  UNPROTECT(1);
  return output;
}
