/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension module sparkring._core: the type, the exceptions and `open`. Multi-phase
 * initialisation and a state of its own for every interpreter. PyInit__core is all it exports.
 */
#include "comm.h"
#include "error.h"

static int add_names(PyObject *module, module_state *state) {
  state->numpy = PyImport_ImportModule("numpy");
  if (state->numpy == NULL) return -1;
  state->numpy_array = PyObject_GetAttrString(state->numpy, "ndarray");
  state->numpy_scalar = PyObject_GetAttrString(state->numpy, "generic");
  if (state->numpy_array == NULL || state->numpy_scalar == NULL) return -1;
  state->comm_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &comm_type_spec, NULL);
  if (state->comm_type == NULL || PyModule_AddType(module, state->comm_type) < 0) return -1;
  return PyModule_AddStringConstant(module, "version", RING_VERSION);
}

static int module_exec(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  if (error_add_classes(module, state) < 0) return -1;
  return add_names(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  module_state *state = PyModule_GetState(module);
  Py_VISIT(state->comm_type);
  for (int status = 0; status < STATUS_COUNT; status++) Py_VISIT(state->errors[status]);
  Py_VISIT(state->numpy);
  Py_VISIT(state->numpy_array);
  Py_VISIT(state->numpy_scalar);
  return 0;
}

static int module_clear(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  Py_CLEAR(state->comm_type);
  for (int status = 0; status < STATUS_COUNT; status++) Py_CLEAR(state->errors[status]);
  Py_CLEAR(state->numpy);
  Py_CLEAR(state->numpy_array);
  Py_CLEAR(state->numpy_scalar);
  return 0;
}

static void module_free(void *module) {
  module_clear(module);
}

static PyMethodDef functions[] = {
    {"open", comm_open, METH_VARARGS,
     "open($module, rank, size, addresses, root_address, token, job, ports, timeout, call_timeout,"
     " algorithms, exchange, /)\n--\n\n"
     "Open a communicator; `sparkring.init` checks the arguments and calls this."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, module_exec},
    {0, NULL},
};

static PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "sparkring._core",
    .m_doc = "The C core of sparkring.",
    .m_size = sizeof(module_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void) {
  return PyModuleDef_Init(&definition);
}
