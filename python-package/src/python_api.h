/* SPDX-License-Identifier: Apache-2.0
 *
 * Python.h, and what the limited API of 3.9 and 3.10 lacks: buffers (since 3.11), and METH_FASTCALL and
 * PyUnicode_AsUTF8AndSize (since 3.10). Both versions export the functions, and the limited API has taken
 * them over as they were. So one wheel serves 3.9 and all later versions.
 */
#ifndef SPARKRING_PYTHON_API_H
#define SPARKRING_PYTHON_API_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030A0000
#define METH_FASTCALL 0x0080
#if PY_VERSION_HEX < 0x030A0000 /* later headers have it for every limited API */
PyAPI_FUNC(void *) PyMem_Calloc(size_t count, size_t size);
#endif
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *text, Py_ssize_t *size);
#endif

#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030B0000
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char *format;
  Py_ssize_t *shape;
  Py_ssize_t *strides;
  Py_ssize_t *suboffsets;
  void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_CheckBuffer(PyObject *object);
PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *buffer, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *buffer);
PyAPI_FUNC(int) PyBuffer_IsContiguous(const Py_buffer *buffer, char order);
PyAPI_FUNC(int)
    PyBuffer_ToContiguous(void *to, const Py_buffer *buffer, Py_ssize_t length, char order);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer *buffer, PyObject *object, void *memory,
                                  Py_ssize_t length, int readonly, int flags);

#define Py_bf_getbuffer 1
#define PyBUF_SIMPLE 0
#define PyBUF_WRITABLE 0x0001
#define PyBUF_FORMAT 0x0004
#define PyBUF_ND 0x0008
#define PyBUF_STRIDES (0x0010 | PyBUF_ND)
#define PyBUF_RECORDS_RO (PyBUF_STRIDES | PyBUF_FORMAT)
#define PyBUF_READ 0x0100
#define PyBUF_WRITE 0x0200
#endif

#endif
