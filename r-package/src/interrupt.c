/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <R_ext/Utils.h>
#include <Rinternals.h>
#include <setjmp.h>
#include <stdbool.h>

static SEXP interrupt_unwind;  /* where a jump that is held back wants to go */
static bool interrupt_pending; /* one is */

void interrupt_init(void) {
  interrupt_unwind = R_MakeUnwindCont();
  R_PreserveObject(interrupt_unwind);
}

static SEXP interrupt_check(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
  return R_NilValue;
}

static void interrupt_land(void *landing, Rboolean jumping) {
  if (jumping) longjmp(*(jmp_buf *)landing, 1);
}

int interrupt_hook(void *unused) {
  (void)unused;
  jmp_buf landing;
  if (setjmp(landing)) {
    interrupt_pending = true;
    return 1;
  }
  R_UnwindProtect(interrupt_check, NULL, interrupt_land, &landing, interrupt_unwind);
  return 0;
}

void interrupt_continue(void) {
  if (!interrupt_pending) return;
  interrupt_pending = false;
  R_ContinueUnwind(interrupt_unwind);
}
