/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's results are in memory of malloc(). An error of R jumps, so the steps that may raise one run
 * under R_ExecWithCleanup().
 */
#include "agree.h"

#include <string.h>

#include "bindings/agree.h"
#include "bindings/strings.h"
#include "comm.h"

typedef struct agree_step {
  comm_handle *handle;
  ring_status status;
  ring_agreement agreement;
  ring_strings strings;
} agree_step;

static ring_string agree_view(SEXP element) {
  const char *text = Rf_translateCharUTF8(element);
  return (ring_string){text, strlen(text)};
}

static void agree_free(void *given) {
  agree_step *step = given;
  ring_agreement_free(&step->agreement);
  ring_strings_free(&step->strings);
}

static SEXP agree_finish(void *given) {
  agree_step *step = given;
  comm_finish(step->handle, step->status);
  if (step->agreement.text == NULL) return R_NilValue;
  SEXP failure = PROTECT(Rf_allocVector(VECSXP, 2));
  SET_VECTOR_ELT(failure, 0, Rf_ScalarInteger(step->agreement.rank));
  SEXP text = PROTECT(Rf_mkCharCE(step->agreement.text, CE_UTF8));
  SET_VECTOR_ELT(failure, 1, Rf_ScalarString(text));
  UNPROTECT(2);
  return failure;
}

SEXP agree_call(SEXP comm, SEXP failure, SEXP known) {
  agree_step step = {.handle = comm_of(comm)};
  ring_string text = {NULL, 0}, *own = failure == R_NilValue ? NULL : &text;
  if (own != NULL) text = agree_view(STRING_ELT(failure, 0));
  step.status = Rf_asLogical(known) ? ring_agree_on_failure(step.handle->comm, own, &step.agreement)
                                    : ring_agree(step.handle->comm, own, &step.agreement);
  return R_ExecWithCleanup(agree_finish, &step, agree_free, &step);
}

static SEXP agree_vector(const ring_string *strings, size_t count) {
  SEXP vector = PROTECT(Rf_allocVector(STRSXP, (R_xlen_t)count));
  for (size_t i = 0; i < count; i++)
    SET_STRING_ELT(vector, (R_xlen_t)i,
                   Rf_mkCharLenCE(strings[i].bytes, (int)strings[i].length, CE_UTF8));
  UNPROTECT(1);
  return vector;
}

static SEXP agree_list(void *given) {
  agree_step *step = given;
  comm_finish(step->handle, step->status);
  int size = ring_comm_size(step->handle->comm);
  SEXP list = PROTECT(Rf_allocVector(VECSXP, size));
  const ring_string *next = step->strings.strings;
  for (int rank = 0; rank < size; next += step->strings.counts[rank++])
    SET_VECTOR_ELT(list, rank, agree_vector(next, step->strings.counts[rank]));
  UNPROTECT(1);
  return list;
}

SEXP agree_strings(SEXP comm, SEXP strings) {
  agree_step step = {.handle = comm_of(comm)};
  size_t count = (size_t)XLENGTH(strings);
  ring_string *mine = (ring_string *)R_alloc(count + 1, sizeof *mine);
  for (size_t i = 0; i < count; i++) mine[i] = agree_view(STRING_ELT(strings, (R_xlen_t)i));
  step.status = ring_strings_allgather(step.handle->comm, mine, count, &step.strings);
  return R_ExecWithCleanup(agree_list, &step, agree_free, &step);
}
