/* SPDX-License-Identifier: Apache-2.0 */
#include "blame.h"

#include <stdbool.h>

#include "bindings/blame.h"

PyObject *blame_weight(PyObject *module, PyObject *statuses) {
  (void)module;
  Py_ssize_t count = PyList_Size(statuses);
  if (count < 0) return NULL;
  const char **names = PyMem_Calloc((size_t)count + 1, sizeof *names);
  if (names == NULL) return PyErr_NoMemory();
  Py_ssize_t read = 0;
  while (read < count) {
    names[read] = PyUnicode_AsUTF8AndSize(PyList_GetItem(statuses, read), NULL);
    if (names[read++] == NULL) break;
  }
  PyObject *weight = NULL;
  if (!PyErr_Occurred())
    weight = PyFloat_FromDouble(ring_blame_weight_of_names(names, (size_t)count));
  PyMem_Free(names);
  return weight;
}

PyObject *blame_first(PyObject *module, PyObject *failures) {
  (void)module;
  Py_ssize_t count = PyList_Size(failures);
  if (count < 0) return NULL;
  ring_blame *blames = PyMem_Calloc((size_t)count + 1, sizeof *blames);
  if (blames == NULL) return PyErr_NoMemory();
  bool read = true;
  for (Py_ssize_t i = 0; read && i < count; i++)
    read = PyArg_ParseTuple(PyList_GetItem(failures, i), "ddi:blame_first", &blames[i].weight,
                            &blames[i].when, &blames[i].rank);
  PyObject *index = read ? PyLong_FromSize_t(ring_blame_first(blames, (size_t)count)) : NULL;
  PyMem_Free(blames);
  return index;
}
