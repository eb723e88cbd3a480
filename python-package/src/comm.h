/* SPDX-License-Identifier: Apache-2.0
 *
 * The communicator as a Python object, and the blocking part of its life: open, split, close and
 * abort.
 */
#ifndef SPARKRING_COMM_H
#define SPARKRING_COMM_H

#include <stdbool.h>

#include "bindings/trace.h"
#include "state.h"

typedef struct comm_object {
  PyObject_HEAD ring_comm
      *comm;           /* until deallocation; after close it still knows rank, size and hosts */
  module_state *state; /* outlives the communicator, whose type holds the module */
  PyObject *weakrefs;
  ring_trace *trace;            /* NULL: none */
  struct device_object *device; /* NULL until it is opened; refers to no communicator */
  int running; /* calls inside the core; more than one while a second thread gets BUSY */
  bool closed; /* by close, abort or shrink */
} comm_object;

module_state *comm_state(const comm_object *self);

/* Around every core call on a communicator. enter releases the interpreter lock. leave acquires the
 * lock, and returns true when the call succeeded, or false with an exception. */
void comm_enter(comm_object *self);
bool comm_leave(comm_object *self, ring_status status);

/* The function _core.open and the methods of the same names. */
PyObject *comm_open(PyObject *module, PyObject *args);
PyObject *comm_split(PyObject *self, PyObject *args);
PyObject *comm_shrink(PyObject *self, PyObject *timeout);
PyObject *comm_close(PyObject *self, PyObject *timeout);
PyObject *comm_abort(PyObject *self, PyObject *args);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec comm_type_spec;

#endif
