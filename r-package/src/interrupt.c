/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <R_ext/Print.h>
#include <R_ext/Utils.h>
#include <Rinternals.h>
#include <setjmp.h>
#include <stdint.h>

static SEXP interrupt_unwind;  /* where a jump that is held back wants to go */
static bool interrupt_pending; /* one is */
static bool interrupt_quiet;   /* R is collecting, and may not be asked to do anything */

void interrupt_init(void) {
  interrupt_unwind = R_MakeUnwindCont();
  R_PreserveObject(interrupt_unwind);
}

static void interrupt_land(void *landing, Rboolean jumping) {
  if (jumping) longjmp(*(jmp_buf *)landing, 1);
}

/* Runs code of R inside a call of the core; a jump is held back. */
static void interrupt_protect(SEXP (*what)(void *), void *data) {
  jmp_buf landing;
  if (setjmp(landing))
    interrupt_pending = true;
  else
    R_UnwindProtect(what, data, interrupt_land, &landing, interrupt_unwind);
}

/* ---- Ending a wait ------------------------------------------------------------------------ */

static SEXP interrupt_check(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
  return R_NilValue;
}

int interrupt_hook(void *unused) {
  (void)unused;
  if (!interrupt_pending) interrupt_protect(interrupt_check, NULL);
  return interrupt_pending;
}

void interrupt_continue(void) {
  if (!interrupt_pending) return;
  interrupt_pending = false;
  R_ContinueUnwind(interrupt_unwind);
}

/* ---- The log ------------------------------------------------------------------------------ */

static SEXP interrupt_report(void *message) {
  SEXP package = PROTECT(Rf_mkString("sparkring"));
  SEXP namespace = PROTECT(R_FindNamespace(package));
  SEXP text = PROTECT(Rf_ScalarString(Rf_mkCharCE(message, CE_UTF8)));
  SEXP call = PROTECT(Rf_lang2(Rf_install("ring_stall"), text));
  Rf_eval(call, namespace);
  UNPROTECT(4);
  return R_NilValue;
}

void interrupt_log(void *unused, const char *message) {
  (void)unused;
  if (interrupt_quiet || interrupt_pending)
    REprintf("sparkring: %s\n", message);
  else
    interrupt_protect(interrupt_report, (void *)(uintptr_t)message);
}

void interrupt_set_quiet(bool quiet) {
  interrupt_quiet = quiet;
}
