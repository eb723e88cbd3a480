/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include "comm.h"
#include "error.h"

static ring_dtype explain_dtype(SEXP name) {
  ring_dtype dtype;
  const char *text = Rf_translateCharUTF8(STRING_ELT(name, 0));
  if (ring_dtype_parse(text, &dtype) != RING_OK)
    error_invalid("`dtype` is \"%.40s\", which is no element type", text);
  return dtype;
}

static void explain_set_text(SEXP list, int at, const char *text) {
  SET_VECTOR_ELT(list, at, Rf_mkString(text));
}

/* The names are those of Python's Explanation, in its order. */
static SEXP explain_list(const ring_explanation *e) {
  static const char *names[] = {"collective",
                                "dtype",
                                "algorithm",
                                "reason",
                                "tier",
                                "backend",
                                "bytes",
                                "count",
                                "steps",
                                "links",
                                "messages_sent",
                                "messages_received",
                                "bytes_sent",
                                "bytes_received",
                                "seconds",
                                "runner_up",
                                "runner_up_seconds",
                                "text",
                                ""};
  const char *texts[] = {e->collective, e->dtype, e->algorithm, e->reason, e->tier, e->backend};
  bool alone = e->runner_up[0] == '\0';
  const double numbers[] = {
      (double)e->bytes,      (double)e->count,          (double)e->steps,
      (double)e->links,      (double)e->messages_sent,  (double)e->messages_received,
      (double)e->bytes_sent, (double)e->bytes_received, e->seconds};
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  for (int i = 0; i < 6; i++) explain_set_text(list, i, texts[i]);
  for (int i = 0; i < 9; i++) SET_VECTOR_ELT(list, 6 + i, Rf_ScalarReal(numbers[i]));
  if (alone)
    SET_VECTOR_ELT(list, 15, Rf_ScalarString(NA_STRING));
  else
    explain_set_text(list, 15, e->runner_up);
  SET_VECTOR_ELT(list, 16, Rf_ScalarReal(alone ? NA_REAL : e->runner_up_seconds));
  explain_set_text(list, 17, e->text);
  SEXP class = PROTECT(Rf_mkString("ring_explanation"));
  Rf_setAttrib(list, R_ClassSymbol, class);
  UNPROTECT(2);
  return list;
}

SEXP explain_call(SEXP comm, SEXP collective, SEXP bytes, SEXP dtype, SEXP root) {
  comm_handle *handle = comm_of(comm);
  ring_explanation explanation;
  const char *name = Rf_translateCharUTF8(STRING_ELT(collective, 0));
  ring_status status = ring_comm_explain(handle->comm, name, (size_t)Rf_asReal(bytes),
                                         explain_dtype(dtype), Rf_asInteger(root), &explanation);
  comm_finish(handle, status);
  return explain_list(&explanation);
}
