/* SPDX-License-Identifier: Apache-2.0
 *
 * Invariant: `released` is NULL exactly while this thread holds the lock. A signal handler that runs
 * in the hook may therefore call other communicators, and an object that is deallocated with the
 * lock held may enter the core, where the hook then does nothing.
 */
#include "gil.h"

#define PY_SSIZE_T_CLEAN
#include <Python.h>

static _Thread_local PyThreadState *released;
static _Thread_local int hooks; /* signal handlers may call the core, so they nest */

void gil_release(void) {
  released = PyEval_SaveThread();
}

void gil_take(void) {
  PyThreadState *state = released;
  released = NULL;
  PyEval_RestoreThread(state);
}

int gil_interrupt(void *unused) {
  (void)unused;
  if (released == NULL) return 0;
  gil_take();
  hooks++;
  int raised = PyErr_Occurred() != NULL || PyErr_CheckSignals() != 0;
  hooks--;
  gil_release();
  return raised;
}

bool gil_in_hook(void) {
  return hooks > 0;
}
