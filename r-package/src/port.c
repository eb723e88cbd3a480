/* SPDX-License-Identifier: Apache-2.0 */
#include "port.h"

#include "comm.h"

SEXP port_reserve(SEXP comm) {
  comm_handle *handle = comm_of(comm);
  int port;
  comm_finish(handle, ring_port_reserve(handle->comm, &port));
  return Rf_ScalarInteger(port);
}

SEXP port_release(SEXP comm, SEXP port) {
  comm_handle *handle = comm_of(comm);
  comm_finish(handle, ring_port_release(handle->comm, Rf_asInteger(port)));
  return R_NilValue;
}
