/* SPDX-License-Identifier: Apache-2.0 */
#include "interrupt.h"

#include <R_ext/Utils.h>
#include <setjmp.h>

static SEXP interrupt_check(void *unused) {
  (void)unused;
  R_CheckUserInterrupt();
  return R_NilValue;
}

static void interrupt_land(void *landing, Rboolean jumping) {
  if (jumping) longjmp(*(jmp_buf *)landing, 1);
}

int interrupt_hook(void *arg) {
  interrupt *held = arg;
  jmp_buf landing;
  if (setjmp(landing)) {
    held->pending = true;
    return 1;
  }
  R_UnwindProtect(interrupt_check, NULL, interrupt_land, &landing, held->unwind);
  return 0;
}

void interrupt_continue(interrupt *held) {
  if (!held->pending) return;
  held->pending = false;
  R_ContinueUnwind(held->unwind);
}
