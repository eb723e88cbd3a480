/* SPDX-License-Identifier: Apache-2.0
 *
 * The state of the module, one copy for each interpreter. A communicator refers to the state, and
 * what belongs to a communicator finds it there.
 */
#ifndef SPARKRING_STATE_H
#define SPARKRING_STATE_H

#include "python_api.h"
#include "sparkring.h"

#define STATE_COUNT_STATUS(name, text) +1
#define STATUS_COUNT (0 RING_STATUS_MAP(STATE_COUNT_STATUS))

#define ADAPTER_TYPES 16 /* types whose adapter is kept (adapter.h) */

typedef struct adapter_entry {
  PyTypeObject *type;
  const struct adapter *adapter; /* NULL for none */
} adapter_entry;

typedef struct module_state {
  PyTypeObject *comm_type;
  PyTypeObject *request_type;
  PyTypeObject *memory_type;
  PyTypeObject *reducer_type;
  PyTypeObject *submission_type;
  PyTypeObject *messages_type;
  PyTypeObject *transfer_type;
  PyTypeObject *pmi_type;
  PyTypeObject *device_type;
  PyTypeObject *device_memory_type;
  PyTypeObject *device_tensor_type;
  PyObject *errors[STATUS_COUNT]; /* exception classes by status; RingError itself at RING_OK */
  PyObject *numpy;                /* NULL until module_need_numpy() */
  PyObject *numpy_empty;          /* numpy.empty */
  PyObject *numpy_array;          /* numpy.ndarray */
  PyObject *numpy_scalar;         /* numpy.generic */
  PyObject *dtype_name;           /* "dtype", interned */
  struct adapter *adapters;       /* all of them */
  adapter_entry adapter_of[ADAPTER_TYPES];
} module_state;

/* Imports NumPy, which communicators need. 0, or -1 with an exception. */
int module_need_numpy(module_state *state);

#endif
