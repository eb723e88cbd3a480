/* SPDX-License-Identifier: Apache-2.0
 *
 * A submitted operation as a Python object, the base of the class sparkring.Submission.
 */
#ifndef SPARKRING_SUBMISSION_H
#define SPARKRING_SUBMISSION_H

#include "operands.h"
#include "reducer.h"

typedef struct submission_object {
  PyObject_HEAD reducer_object *reducer;
  ring_submission *submission; /* NULL until it is submitted */
  operands *operands;          /* NULL: of a barrier, and when they are closed */
  PyObject *result, *rows;
  bool allocates; /* the core allocates the output */
  bool group;
  bool settled; /* there is nothing to close */
  bool waiting; /* a thread is in the core with it */
} submission_object;

/* A new submission of a class, without operands. NULL with an exception. */
submission_object *submission_make(PyTypeObject *type, reducer_object *reducer);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec submission_type_spec;

#endif
