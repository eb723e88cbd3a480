/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl.h"

#include "comm.h"

SEXP nccl_id(SEXP comm, SEXP libraries) {
  comm_handle *handle = comm_of(comm);
  const char *list = NULL; /* to the core: wherever the system finds it */
  if (libraries != R_NilValue) list = Rf_translateChar(STRING_ELT(libraries, 0));
  SEXP id = PROTECT(Rf_allocVector(RAWSXP, RING_NCCL_ID_BYTES));
  comm_finish(handle, ring_nccl_id(handle->comm, list, RAW(id)));
  UNPROTECT(1);
  return id;
}
