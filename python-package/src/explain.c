/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <string.h>

#include "arguments.h"
#include "error.h"

/* None and None where there is no other algorithm. */
static PyObject *explanation_next(const ring_explanation *e) {
  if (e->runner_up[0] == '\0') return Py_BuildValue("OO", Py_None, Py_None);
  return Py_BuildValue("sd", e->runner_up, e->runner_up_seconds);
}

static PyObject *explanation_new(const ring_explanation *e) {
  PyObject *next = explanation_next(e), *result = NULL;
  if (next)
    result = Py_BuildValue("ssssssKKKKKKKKdOOs", e->collective, e->dtype, e->algorithm, e->reason,
                           e->tier, e->backend, (unsigned long long)e->bytes,
                           (unsigned long long)e->count, (unsigned long long)e->steps,
                           (unsigned long long)e->links, (unsigned long long)e->messages_sent,
                           (unsigned long long)e->messages_received,
                           (unsigned long long)e->bytes_sent, (unsigned long long)e->bytes_received,
                           e->seconds, PyTuple_GetItem(next, 0), PyTuple_GetItem(next, 1), e->text);
  Py_XDECREF(next);
  return result;
}

PyObject *explain_call(PyObject *object, PyObject *args) {
  comm_object *self = (comm_object *)object;
  const char *collective, *dtype_name;
  PyObject *given_bytes, *given_root;
  Py_ssize_t bytes;
  int root;
  ring_dtype dtype;
  ring_explanation explanation;
  if (!PyArg_ParseTuple(args, "sOsO:explain", &collective, &given_bytes, &dtype_name, &given_root))
    return NULL;
  if (arguments_read_size(given_bytes, "nbytes", &bytes) < 0) return NULL;
  if (arguments_read_int(comm_state(self), given_root, "root", &root) < 0) return NULL;
  if (bytes < 0)
    return error_invalid(comm_state(self), "nbytes is %zd: it must be 0 or more", bytes);
  if (ring_dtype_parse(dtype_name, &dtype) != RING_OK)
    return error_invalid(comm_state(self), "unknown dtype \"%s\"", dtype_name);
  ring_status status =
      ring_comm_explain(self->comm, collective, (size_t)bytes, dtype, root, &explanation);
  if (status != RING_OK) return error_raise(comm_state(self), status, ring_comm_error(self->comm));
  return explanation_new(&explanation);
}
