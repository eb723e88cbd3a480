/* SPDX-License-Identifier: Apache-2.0 */
#include "pmi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm.h"
#include "error.h"
#include "interrupt.h"

static SEXP pmi_tag(void) {
  return Rf_install("ring_pmi");
}

ring_pmi *pmi_of(SEXP pmi) {
  if (TYPEOF(pmi) != EXTPTRSXP || R_ExternalPtrTag(pmi) != pmi_tag() ||
      R_ExternalPtrAddr(pmi) == NULL)
    error_invalid("the PMI server was freed");
  return R_ExternalPtrAddr(pmi);
}

static void pmi_finalise(SEXP pmi) {
  interrupt_set_quiet(true);
  ring_pmi_free(R_ExternalPtrAddr(pmi));
  interrupt_set_quiet(false);
  R_ClearExternalPtr(pmi);
}

SEXP pmi_serve(SEXP comm, SEXP pmix) {
  comm_handle *handle = comm_of(comm);
  ring_pmi *served = NULL;
  SEXP pmi = PROTECT(R_MakeExternalPtr(NULL, pmi_tag(), comm));
  R_RegisterCFinalizer(pmi, pmi_finalise);
  ring_status status = ring_pmi_serve(handle->comm, Rf_asLogical(pmix) == TRUE, &served);
  R_SetExternalPtrAddr(pmi, served);
  comm_finish(handle, status);
  UNPROTECT(1);
  return pmi;
}

/* The descriptor that MPI has got, until it is closed; its inode shows whether the number is another file's. */
static struct {
  bool open;
  int fd;
  ino_t inode;
} pmi_joined;

SEXP pmi_join(SEXP pmi) {
  struct stat file;
  ring_pmi *server = pmi_of(pmi);
  int fd = fcntl(ring_pmi_fd(server), F_DUPFD_CLOEXEC, 0);
  pmi_joined.open = fd >= 0 && fstat(fd, &file) == 0;
  if (pmi_joined.open) {
    pmi_joined.fd = fd;
    pmi_joined.inode = file.st_ino;
  } else {
    ring_error error = {.status = RING_SYSTEM, .rank = -1, .system_errno = errno};
    snprintf(error.message, sizeof error.message, "fcntl() failed: %s", strerror(errno));
    error_raise(RING_SYSTEM, &error);
  }
  ring_pmi_started(server);
  return Rf_ScalarInteger(fd);
}

SEXP pmi_leave(void) {
  struct stat file;
  bool ours = pmi_joined.open && fstat(pmi_joined.fd, &file) == 0;
  if (ours && file.st_ino == pmi_joined.inode) close(pmi_joined.fd);
  pmi_joined.open = false;
  return R_NilValue;
}

SEXP pmi_environment(SEXP pmi) {
  const char *const *entries = ring_pmi_environment(pmi_of(pmi));
  R_xlen_t count = 0;
  while (entries[count]) count++;
  SEXP strings = PROTECT(Rf_allocVector(STRSXP, count));
  for (R_xlen_t i = 0; i < count; i++) SET_STRING_ELT(strings, i, Rf_mkChar(entries[i]));
  UNPROTECT(1);
  return strings;
}

SEXP pmi_pmix_problem(SEXP pmi) {
  const char *problem = ring_pmi_pmix_problem(pmi_of(pmi));
  return problem ? Rf_mkString(problem) : R_NilValue;
}

SEXP pmi_test(SEXP pmi) {
  static const char *const states[] = {"silent", "active", "finalized", "aborted", "lost"};
  const char *names[] = {"state", "code", ""};
  ring_pmi *server = pmi_of(pmi);
  ring_pmi_state state;
  int code;
  ring_status status = ring_pmi_test(server, &state, &code);
  if (status != RING_OK) error_raise(status, ring_pmi_error(server));
  SEXP list = PROTECT(Rf_mkNamed(VECSXP, names));
  SET_VECTOR_ELT(list, 0, Rf_mkString(states[state]));
  SET_VECTOR_ELT(list, 1, Rf_ScalarInteger(code));
  UNPROTECT(1);
  return list;
}

SEXP pmi_close(SEXP pmi) {
  ring_pmi *server = pmi_of(pmi);
  ring_status status = ring_pmi_close(server);
  interrupt_continue();
  if (status != RING_OK) error_raise(status, ring_pmi_error(server));
  return R_NilValue;
}

SEXP pmi_abort(SEXP pmi, SEXP reason) {
  ring_pmi_abort(pmi_of(pmi), Rf_translateCharUTF8(STRING_ELT(reason, 0)));
  return R_NilValue;
}

SEXP pmi_free(SEXP pmi) {
  pmi_leave();
  ring_pmi_free(R_ExternalPtrAddr(pmi));
  R_ClearExternalPtr(pmi);
  return R_NilValue;
}
