/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>

_Noreturn void error_raise(ring_status status, const ring_error *error) {
  if (error != NULL && (error->status != status || error->message[0] == '\0')) error = NULL;
  const char *text = error != NULL ? error->message : ring_status_text(status);
  int rank = error != NULL && error->rank >= 0 ? error->rank : NA_INTEGER;
  int code = error != NULL && error->system_errno != 0 ? error->system_errno : NA_INTEGER;
  SEXP package = PROTECT(Rf_mkString("sparkring"));
  SEXP namespace = PROTECT(R_FindNamespace(package));
  SEXP name = PROTECT(Rf_mkString(ring_status_name(status)));
  SEXP message = PROTECT(Rf_ScalarString(Rf_mkCharCE(text, CE_UTF8)));
  SEXP at_fault = PROTECT(Rf_ScalarInteger(rank));
  SEXP number = PROTECT(Rf_ScalarInteger(code));
  SEXP call = PROTECT(Rf_lang5(Rf_install("ring_stop"), name, message, at_fault, number));
  Rf_eval(call, namespace);
  Rf_error("ring_stop() returned"); /* ring_stop() does not return; the compiler cannot know that */
}

_Noreturn void error_invalid(const char *format, ...) {
  ring_error error = {.status = RING_INVALID, .rank = -1};
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error.message, sizeof(error.message), format, arguments);
  va_end(arguments);
  error_raise(RING_INVALID, &error);
}

_Noreturn void error_number(SEXP x, const char *name) {
  SEXP package = PROTECT(Rf_mkString("sparkring"));
  SEXP namespace = PROTECT(R_FindNamespace(package));
  SEXP call = PROTECT(Rf_lang2(Rf_install("describe"), x));
  SEXP words = PROTECT(Rf_eval(call, namespace));
  error_invalid("`%s` must be one whole number, not %s", name,
                Rf_translateCharUTF8(STRING_ELT(words, 0)));
}
