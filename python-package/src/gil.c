/* SPDX-License-Identifier: Apache-2.0
 *
 * Invariant: `released` is NULL exactly while this thread holds the lock. A signal handler that
 * runs in the hook may therefore call other communicators, and an object that is deallocated with
 * the lock held may enter the core, where the hook then does nothing.
 */
#include "gil.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* The end of the interpreter polls for calls of the core about once a millisecond. */
#define END_TRIES 1000

static _Thread_local PyThreadState *released;

/* The hooks that this thread is in. Signal handlers and handlers of the log may call the core, so hooks
 * nest. */
static _Thread_local int hooks;

/* The interpreter stops other threads for good when they ask for the lock after its end has
 * begun. A thread that was stopped inside the core would keep its resources. So the calls of
 * other threads end before. */
static int calls;          /* of all threads; changes with the lock held */
static atomic_bool ending; /* the interpreter; set by this thread of this process: */
static pthread_t ending_thread;
static pid_t process;

void gil_release(void) {
  calls++;
  released = PyEval_SaveThread();
}

void gil_take(void) {
  PyThreadState *state = released;
  released = NULL;
  PyEval_RestoreThread(state);
  calls--;
}

void gil_init(void) {
  if (process == 0) process = getpid();
}

PyObject *gil_end(PyObject *module, PyObject *unused) {
  static const struct timespec moment = {.tv_nsec = 1000000};
  (void)module, (void)unused;
  ending_thread = pthread_self();
  atomic_store(&ending, true);
  bool forked = process != getpid(); /* a child lacks the parent's threads */
  for (int tries = 0; !forked && calls > 0 && tries < END_TRIES; tries++) {
    PyThreadState *state = PyEval_SaveThread();
    nanosleep(&moment, NULL);
    PyEval_RestoreThread(state);
  }
  Py_RETURN_NONE;
}

bool gil_is_ending(void) {
  return atomic_load(&ending);
}

/* Only the main thread handles signals. An exception for another thread
 * (PyThreadState_SetAsyncExc) arrives when the thread runs any Python code. */
static int check_exceptions(void) {
  if (PyErr_Occurred() || PyErr_CheckSignals() != 0) return -1;
  PyObject *globals = PyDict_New();
  PyObject *code = globals ? Py_CompileString("0", "<sparkring>", Py_eval_input) : NULL;
  PyObject *result = code ? PyEval_EvalCode(code, globals, globals) : NULL;
  Py_XDECREF(code);
  Py_XDECREF(globals);
  Py_XDECREF(result);
  return result ? 0 : -1;
}

int gil_interrupt(void *unused) {
  (void)unused;
  if (released == NULL) return 0;
  if (gil_is_ending() && !pthread_equal(pthread_self(), ending_thread)) return 1;
  gil_take();
  hooks++;
  bool ends = check_exceptions() < 0;
  hooks--;
  gil_release();
  return ends;
}

/* ---- The log ------------------------------------------------------------------------------ */

static PyObject *log_warning(const char *message) {
  PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  PyObject *logging = text ? PyImport_ImportModule("logging") : NULL;
  PyObject *logger = logging ? PyObject_CallMethod(logging, "getLogger", "s", "sparkring") : NULL;
  PyObject *result = logger ? PyObject_CallMethod(logger, "warning", "sO", "%s", text) : NULL;
  Py_XDECREF(logger);
  Py_XDECREF(logging);
  Py_XDECREF(text);
  return result;
}

/* An exception of a log handler ends no wait. Ctrl-C, which may arrive in the handler, ends it: the
 * next hook raises it, or, without a wait, the interpreter. */
static void log_handle(bool waiting) {
  bool failed = PyErr_ExceptionMatches(PyExc_Exception);
  if (!failed && waiting) return;
  bool interrupted = PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
  if (!interrupted) {
    PyErr_WriteUnraisable(NULL);
    return;
  }
  PyErr_Clear();
  PyErr_SetInterrupt();
}

void gil_log(void *unused, const char *message) {
  (void)unused;
  bool waiting = released != NULL;
  if (gil_is_ending()) return;
  PyObject *type, *value, *traceback;
  if (waiting) gil_take();
  PyErr_Fetch(&type, &value, &traceback);
  hooks++;
  PyObject *result = log_warning(message);
  if (result == NULL) log_handle(waiting && type == NULL);
  Py_XDECREF(result);
  if (type) PyErr_Restore(type, value, traceback);
  hooks--;
  if (waiting) gil_release();
}

bool gil_in_hook(void) {
  return hooks > 0;
}
