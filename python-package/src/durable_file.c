/* SPDX-License-Identifier: Apache-2.0 */
#include "durable_file.h"

#include <errno.h>

#include "bindings/durable_file.h"

/* Raises the OSError of an errno, with the file that was to be written. */
static PyObject *raise_code(const char *directory, const char *name, int code) {
  PyObject *decoded = PyUnicode_DecodeFSDefault(directory);
  PyObject *path = decoded ? PyUnicode_FromFormat("%U/%s", decoded, name) : NULL;
  errno = code;
  if (path) PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path);
  Py_XDECREF(path);
  Py_XDECREF(decoded);
  return NULL;
}

PyObject *durable_file_write(PyObject *module, PyObject *args) {
  (void)module;
  PyObject *directory;
  const char *name;
  Py_buffer data, trailer;
  if (!PyArg_ParseTuple(args, "O&sy*y*:file_write", PyUnicode_FSConverter, &directory, &name, &data,
                        &trailer))
    return NULL;
  const char *path = PyBytes_AsString(directory);
  const struct iovec parts[] = {{data.buf, (size_t)data.len}, {trailer.buf, (size_t)trailer.len}};
  int code;
  Py_BEGIN_ALLOW_THREADS;
  code = ring_durable_file_write(path, name, parts, 2);
  Py_END_ALLOW_THREADS;
  PyBuffer_Release(&data);
  PyBuffer_Release(&trailer);
  PyObject *result = code == 0 ? Py_BuildValue("") : raise_code(path, name, code);
  Py_DECREF(directory);
  return result;
}
