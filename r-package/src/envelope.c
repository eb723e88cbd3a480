/* SPDX-License-Identifier: Apache-2.0 */
#include "envelope.h"

#include <string.h>

#include "bindings/envelope.h"

static SEXP envelope_raw(const uint8_t *bytes, size_t length) {
  SEXP raw = Rf_allocVector(RAWSXP, (R_xlen_t)length);
  memcpy(RAW(raw), bytes, length);
  return raw;
}

SEXP envelope_trailer(SEXP length) {
  uint8_t trailer[RING_ENVELOPE_TRAILER_BYTES];
  ring_envelope_seal(trailer, ring_envelope_kind_of_r(), (size_t)Rf_asReal(length));
  return envelope_raw(trailer, sizeof trailer);
}

SEXP envelope_failure(SEXP text) {
  uint8_t envelope[RING_ENVELOPE_FAILURE_BYTES];
  const char *bytes = Rf_translateCharUTF8(STRING_ELT(text, 0));
  size_t length = ring_envelope_fail(envelope, bytes, strlen(bytes));
  return envelope_raw(envelope, length);
}

SEXP envelope_split(SEXP bytes, SEXP given) {
  size_t count = (size_t)Rf_asReal(given);
  size_t *starts = (size_t *)R_alloc(count + 1, sizeof *starts);
  if (!ring_envelope_split(RAW(bytes), (size_t)XLENGTH(bytes), count, starts)) return R_NilValue;
  SEXP result = Rf_allocVector(REALSXP, (R_xlen_t)count + 1);
  for (size_t i = 0; i <= count; i++) REAL(result)[i] = (double)starts[i];
  return result;
}

SEXP envelope_check(SEXP envelope, SEXP rank) {
  char text[RING_ENVELOPE_TEXT_BYTES];
  if (ring_envelope_check(RAW(envelope), (size_t)XLENGTH(envelope), ring_envelope_kind_of_r(),
                          Rf_asInteger(rank), text))
    return R_NilValue;
  return Rf_ScalarString(Rf_mkCharCE(text, CE_UTF8));
}
