/* SPDX-License-Identifier: Apache-2.0
 *
 * The core allocates the memory of what is received, because the length is not known before. It becomes a
 * vector when R waits for it.
 */
#include "messages.h"

#include <stdbool.h>
#include <string.h>

#include "comm.h"
#include "error.h"
#include "interrupt.h"
#include "view.h"

enum { KEPT_MESSAGES, KEPT_INPUT, KEPT_OUTPUT, KEPT };

static SEXP messages_tag(void) {
  return Rf_install("ring_messages");
}

static SEXP transfer_tag(void) {
  return Rf_install("ring_transfer");
}

static ring_messages *messages_of(SEXP messages) {
  if (TYPEOF(messages) != EXTPTRSXP || R_ExternalPtrTag(messages) != messages_tag() ||
      R_ExternalPtrAddr(messages) == NULL)
    error_invalid("`messages` must be messages, as ring_messages() returns them in this process");
  return R_ExternalPtrAddr(messages);
}

static ring_transfer *transfer_of(SEXP transfer) {
  if (TYPEOF(transfer) != EXTPTRSXP || R_ExternalPtrTag(transfer) != transfer_tag() ||
      R_ExternalPtrAddr(transfer) == NULL)
    error_invalid("`transfer` must be a transfer, as ring_message_send_start() and "
                  "ring_message_recv_start() return it in this process");
  return R_ExternalPtrAddr(transfer);
}

static SEXP messages_pointer(SEXP tag, SEXP kept, R_CFinalizer_t finaliser) {
  SEXP pointer = PROTECT(R_MakeExternalPtr(NULL, tag, kept));
  SEXP class = PROTECT(Rf_ScalarString(PRINTNAME(tag)));
  R_RegisterCFinalizer(pointer, finaliser);
  Rf_setAttrib(pointer, R_ClassSymbol, class);
  UNPROTECT(2);
  return pointer;
}

/* ---- Life --------------------------------------------------------------------------------- */

static void messages_finalise(SEXP messages) {
  interrupt_set_quiet(true);
  ring_messages_free(R_ExternalPtrAddr(messages));
  interrupt_set_quiet(false);
  R_ClearExternalPtr(messages);
}

/* The core still uses the vector of a send that is not done: it is never collected then. */
static void transfer_finalise(SEXP transfer) {
  ring_transfer *dropped = R_ExternalPtrAddr(transfer);
  int done = 1;
  if (dropped == NULL) return;
  ring_transfer_cancel(dropped);
  ring_transfer_test(dropped, &done);
  if (done)
    ring_transfer_free(dropped);
  else
    R_PreserveObject(R_ExternalPtrProtected(transfer));
  R_ClearExternalPtr(transfer);
}

static void messages_finish(SEXP messages, ring_status status) {
  interrupt_continue();
  if (status != RING_OK) error_raise(status, ring_messages_error(messages_of(messages)));
}

SEXP messages_open(SEXP comm) {
  comm_handle *handle = comm_of(comm);
  ring_messages *opened = NULL;
  SEXP messages = PROTECT(messages_pointer(messages_tag(), comm, messages_finalise));
  ring_status status = ring_messages_open(handle->comm, &opened);
  R_SetExternalPtrAddr(messages, opened);
  comm_finish(handle, status);
  UNPROTECT(1);
  return messages;
}

SEXP messages_close(SEXP messages) {
  messages_finish(messages, ring_messages_close(messages_of(messages)));
  return R_NilValue;
}

/* ---- Sending and receiving ---------------------------------------------------------------- */

static SEXP transfer_new(SEXP messages, SEXP input) {
  SEXP kept = PROTECT(Rf_allocVector(VECSXP, KEPT));
  SET_VECTOR_ELT(kept, KEPT_MESSAGES, messages);
  SET_VECTOR_ELT(kept, KEPT_INPUT, input);
  SEXP transfer = messages_pointer(transfer_tag(), kept, transfer_finalise);
  UNPROTECT(1);
  return transfer;
}

SEXP messages_send(SEXP messages, SEXP given, SEXP peer, SEXP tag, SEXP start) {
  ring_messages *to = messages_of(messages);
  SEXP x = PROTECT(view_vector(given, "x"));
  view mine = view_of(x);
  int rank = Rf_asInteger(peer), number = Rf_asInteger(tag);
  if (Rf_asLogical(start) != TRUE) {
    ring_status status = ring_messages_send(to, mine.data, mine.count, mine.dtype, rank, number);
    messages_finish(messages, status);
    UNPROTECT(1);
    return R_NilValue;
  }
  SEXP transfer = PROTECT(transfer_new(messages, x));
  ring_transfer *started;
  ring_status status =
      ring_messages_send_start(to, mine.data, mine.count, mine.dtype, rank, number, &started);
  R_SetExternalPtrAddr(transfer, started);
  messages_finish(messages, status);
  UNPROTECT(2);
  return transfer;
}

SEXP messages_recv(SEXP messages, SEXP source, SEXP tag) {
  ring_transfer *started;
  SEXP transfer = PROTECT(transfer_new(messages, R_NilValue));
  ring_status status = ring_messages_take_start(messages_of(messages), Rf_asInteger(source),
                                                Rf_asInteger(tag), &started);
  R_SetExternalPtrAddr(transfer, started);
  messages_finish(messages, status);
  UNPROTECT(1);
  return transfer;
}

/* ---- What has come ------------------------------------------------------------------------ */

/* The type of R for a dtype; NILSXP: there is none. */
static SEXPTYPE message_type(ring_dtype dtype) {
  switch (dtype) {
  case RING_UINT8:
    return RAWSXP;
  case RING_INT32:
    return INTSXP;
  case RING_FLOAT64:
    return REALSXP;
  case RING_COMPLEX128:
    return CPLXSXP;
  case RING_BOOL:
    return LGLSXP;
  default:
    return NILSXP;
  }
}

static void *message_memory(SEXP x) {
  if (TYPEOF(x) == REALSXP) return REAL(x);
  if (TYPEOF(x) == INTSXP) return INTEGER(x);
  return TYPEOF(x) == CPLXSXP ? (void *)COMPLEX(x) : (void *)RAW(x);
}

static SEXP message_vector(const ring_message_info *info, const void *memory) {
  SEXPTYPE type = message_type(info->dtype);
  SEXP output = PROTECT(Rf_allocVector(type, (R_xlen_t)info->count));
  const uint8_t *flags = memory;
  if (type == LGLSXP)
    for (size_t i = 0; i < info->count; i++) LOGICAL(output)[i] = flags[i] != 0;
  else if (info->count > 0)
    memcpy(message_memory(output), memory, info->count * ring_dtype_size(info->dtype));
  UNPROTECT(1);
  return output;
}

SEXP transfer_wait(SEXP transfer) {
  ring_transfer *of = transfer_of(transfer);
  SEXP kept = R_ExternalPtrProtected(transfer);
  ring_status status = ring_transfer_wait(of);
  interrupt_continue();
  if (status == RING_INVALID) error_raise(status, ring_messages_error(NULL));
  if (status != RING_OK) error_raise(status, ring_transfer_error(of));
  ring_message_info info = ring_transfer_info(of);
  bool receives = Rf_isNull(VECTOR_ELT(kept, KEPT_INPUT));
  if (!receives || !Rf_isNull(VECTOR_ELT(kept, KEPT_OUTPUT))) return VECTOR_ELT(kept, KEPT_OUTPUT);
  if (message_type(info.dtype) == NILSXP)
    error_invalid("the message from rank %d with tag %d is of %s, which R has no vectors of: send "
                  "float64, int32, uint8, bool or complex128",
                  info.source, info.tag, ring_dtype_name(info.dtype));
  void *memory = ring_transfer_take_output(of);
  SET_VECTOR_ELT(kept, KEPT_OUTPUT, message_vector(&info, memory));
  ring_free(memory);
  return VECTOR_ELT(kept, KEPT_OUTPUT);
}

SEXP transfer_test(SEXP transfer) {
  ring_transfer *of = transfer_of(transfer);
  int done;
  ring_status status = ring_transfer_test(of, &done);
  if (done && status != RING_OK) error_raise(status, ring_transfer_error(of));
  return Rf_ScalarLogical(done);
}

/* list(source, tag, dtype, count) */
static SEXP message_info_list(const ring_message_info *info) {
  const char *names[] = {"source", "tag", "dtype", "count", ""};
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(list, 0, Rf_ScalarInteger(info->source));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(info->tag));
  SET_VECTOR_ELT(list, 2, Rf_mkString(ring_dtype_name(info->dtype)));
  SET_VECTOR_ELT(list, 3, Rf_ScalarReal((double)info->count));
  UNPROTECT(1);
  return list;
}

SEXP transfer_info(SEXP transfer) {
  ring_message_info info = ring_transfer_info(transfer_of(transfer));
  return message_info_list(&info);
}

SEXP messages_probe(SEXP messages, SEXP source, SEXP tag, SEXP wait) {
  ring_messages *of = messages_of(messages);
  ring_message_info info;
  int found = 1, rank = Rf_asInteger(source), number = Rf_asInteger(tag);
  ring_status status = Rf_asLogical(wait) == TRUE
                           ? ring_messages_probe(of, rank, number, &info)
                           : ring_messages_iprobe(of, rank, number, &found, &info);
  messages_finish(messages, status);
  return found ? message_info_list(&info) : R_NilValue;
}
