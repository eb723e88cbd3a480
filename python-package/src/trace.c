/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include <errno.h>
#include <string.h>

#include "error.h"
#include "gil.h"

PyObject *trace_measure_clock(PyObject *object, PyObject *unused) {
  (void)unused;
  comm_object *self = (comm_object *)object;
  ring_clock_offset offset;
  comm_enter(self);
  if (!comm_leave(self, ring_clock_offset_measure(self->comm, &offset))) return NULL;
  return Py_BuildValue("LLL", (long long)offset.nanoseconds, (long long)offset.error,
                       (long long)offset.origin);
}

PyObject *trace_start(PyObject *object, PyObject *args) {
  comm_object *self = (comm_object *)object;
  PyObject *path;
  long long nanoseconds, error, origin;
  int cycles;
  if (!PyArg_ParseTuple(args, "O&(LLL)p:_start_trace", PyUnicode_FSConverter, &path, &nanoseconds,
                        &error, &origin, &cycles))
    return NULL;
  const ring_clock_offset offset = {nanoseconds, error, origin};
  const char *directory = PyBytes_AsString(path);
  if (self->trace != NULL) {
    Py_DECREF(path);
    return error_invalid(comm_state(self),
                         "there is a timeline already: call stop_timeline() first");
  }
  gil_release();
  int code = ring_trace_start(self->comm, directory, &offset, cycles != 0, &self->trace);
  gil_take();
  if (code != 0) {
    errno = code;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, directory);
  }
  Py_DECREF(path);
  if (code != 0) return NULL;
  Py_RETURN_NONE;
}

/* Returns an errno. Another thread finds no trace from now on. */
static int stop(comm_object *self) {
  ring_trace *trace = self->trace;
  self->trace = NULL;
  if (trace == NULL) return 0;
  gil_release();
  int code = ring_trace_stop(trace);
  gil_take();
  return code;
}

PyObject *trace_stop(PyObject *object, PyObject *unused) {
  (void)unused;
  errno = stop((comm_object *)object);
  if (errno != 0) return PyErr_SetFromErrno(PyExc_OSError);
  Py_RETURN_NONE;
}

void trace_end(comm_object *self) {
  if (self->trace == NULL) return;
  char text[256];
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  int code = stop(self);
  if (code != 0) {
    PyOS_snprintf(text, sizeof text, "rank %d: the timeline lacks its last events: %s",
                  ring_comm_rank(self->comm), strerror(code));
    gil_log(NULL, text);
  }
  PyErr_Restore(type, value, traceback);
}
