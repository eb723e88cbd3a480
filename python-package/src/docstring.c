/* SPDX-License-Identifier: Apache-2.0
 *
 * The descriptors of a type in C read their docstrings from the tables of the type each time. So
 * this file fills in the tables. All interpreters of the process share the tables.
 */
#include "docstring.h"

#include <string.h>

#include "comm.h"
#include "request.h"

static const char **docstring_of_method(PyMethodDef *methods, const char *name) {
  for (; methods->ml_name; methods++)
    if (strcmp(methods->ml_name, name) == 0) return &methods->ml_doc;
  return NULL;
}

static const char **docstring_of_property(PyGetSetDef *properties, const char *name) {
  for (; properties->name; properties++)
    if (strcmp(properties->name, name) == 0) return &properties->doc;
  return NULL;
}

/* Where the type has the docstring, or NULL. */
static const char **docstring_find(const PyType_Spec *spec, const char *name) {
  const char **place = NULL;
  for (const PyType_Slot *slot = spec->slots; place == NULL && slot->slot; slot++) {
    if (slot->slot == Py_tp_methods) place = docstring_of_method(slot->pfunc, name);
    if (slot->slot == Py_tp_getset) place = docstring_of_property(slot->pfunc, name);
  }
  return place;
}

PyObject *docstring_set(PyObject *module, PyObject *args) {
  const module_state *state = PyModule_GetState(module);
  PyObject *type;
  const char *name, *text;
  if (!PyArg_ParseTuple(args, "Oss:document", &type, &name, &text)) return NULL;
  const char **place = NULL;
  if (type == (PyObject *)state->comm_type) place = docstring_find(&comm_type_spec, name);
  if (type == (PyObject *)state->request_type) place = docstring_find(&request_type_spec, name);
  if (place == NULL) return PyErr_Format(PyExc_AttributeError, "%R has no %s in C", type, name);
  if (*place == NULL) *place = strdup(text);
  if (*place == NULL) return PyErr_NoMemory();
  Py_RETURN_NONE;
}
