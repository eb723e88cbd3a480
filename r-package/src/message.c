/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include "classed.h"
#include "comm.h"
#include "request.h"
#include "shared.h"
#include "view.h"

SEXP message_send(SEXP comm, SEXP given, SEXP peer_given) {
  comm_handle *handle = comm_of(comm);
  int peer = comm_read_rank(peer_given, "peer");
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  comm_finish(handle, ring_send(handle->comm, mine.data, mine.count, mine.dtype, peer));
  UNPROTECT(1);
  return R_NilValue;
}

SEXP message_recv(SEXP comm, SEXP given, SEXP peer_given) {
  comm_handle *handle = comm_of(comm);
  int peer = comm_read_rank(peer_given, "peer");
  SEXP x = PROTECT(view_vector(given, "x"));
  view like = view_of(x);
  SEXP output = PROTECT(shared_vector(handle, (SEXPTYPE)TYPEOF(x), Rf_xlength(x)));
  view_copy_shape(output, x);
  classed_keep(output, x);
  ring_status status = ring_recv(handle->comm, view_output(output), like.count, like.dtype, peer);
  UNPROTECT(2);
  return request_finish(R_NilValue, handle, status, output);
}
