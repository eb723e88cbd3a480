/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension module sparkring._numerics, which needs neither the core nor OpenSSL. PyInit__numerics is its only
 * exported symbol.
 */
#include "calls.h"

#define MODULE_METHOD(name) {#name, calls_##name, METH_VARARGS, NULL},

static PyMethodDef module_methods[] = {CALLS_OF(MODULE_METHOD){NULL, NULL, 0, NULL}};

static PyModuleDef_Slot module_slots[] = {
#if PY_VERSION_HEX >= 0x030C0000 && !defined Py_LIMITED_API
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, NULL}};

static PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "sparkring._numerics",
    .m_doc = PyDoc_STR("Statistics of rows of numbers, for sparkring.models."),
    .m_methods = module_methods,
    .m_slots = module_slots,
};

double *calls_memory(arrays *of, size_t count) {
  if (of->failed) return NULL;
  double *memory = PyMem_Malloc((count + 1) * sizeof *memory);
  of->failed = memory == NULL;
  if (!memory) PyErr_NoMemory();
  return memory;
}

PyMODINIT_FUNC PyInit__numerics(void) {
  return PyModuleDef_Init(&module_definition);
}
