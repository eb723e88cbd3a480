/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension module sparkring._core: the types, the exceptions and `open`. It has multi-phase
 * initialisation and a state for every interpreter. PyInit__core is its only exported symbol.
 */
#include <openssl/crypto.h>

#include "adapter.h"
#include "blame.h"
#include "checkpoint.h"
#include "comm.h"
#include "device.h"
#include "device_memory.h"
#include "device_tensor.h"
#include "durable_file.h"
#include "envelope.h"
#include "error.h"
#include "gil.h"
#include "memory.h"
#include "messages.h"
#include "pmi.h"
#include "reducer.h"
#include "request.h"
#include "submission.h"

/* A new reference, or NULL with an exception. */
static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec) {
  PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
  if (type && PyModule_AddType(module, type) < 0) Py_CLEAR(type);
  return type;
}

static int add_attribute(PyObject *object, const char *name, PyObject **attribute) {
  if (*attribute == NULL) *attribute = PyObject_GetAttrString(object, name);
  return *attribute == NULL ? -1 : 0;
}

int module_need_numpy(module_state *state) {
  if (state->numpy == NULL) state->numpy = PyImport_ImportModule("numpy");
  if (state->numpy == NULL || add_attribute(state->numpy, "empty", &state->numpy_empty) < 0 ||
      add_attribute(state->numpy, "ndarray", &state->numpy_array) < 0 ||
      add_attribute(state->numpy, "generic", &state->numpy_scalar) < 0)
    return -1;
  return 0;
}

static int add_names(PyObject *module, module_state *state) {
  state->comm_type = add_type(module, &comm_type_spec);
  state->request_type = add_type(module, &request_type_spec);
  state->memory_type = add_type(module, &memory_type_spec);
  state->reducer_type = add_type(module, &reducer_type_spec);
  state->submission_type = add_type(module, &submission_type_spec);
  state->messages_type = add_type(module, &messages_type_spec);
  state->transfer_type = add_type(module, &transfer_type_spec);
  state->pmi_type = add_type(module, &pmi_type_spec);
  state->device_type = add_type(module, &device_type_spec);
  state->device_memory_type = add_type(module, &device_memory_type_spec);
  state->device_tensor_type = add_type(module, &device_tensor_type_spec);
  if (state->comm_type == NULL || state->request_type == NULL || state->memory_type == NULL ||
      state->reducer_type == NULL || state->submission_type == NULL ||
      state->messages_type == NULL || state->transfer_type == NULL || state->pmi_type == NULL ||
      state->device_type == NULL || state->device_memory_type == NULL ||
      state->device_tensor_type == NULL)
    return -1;
  if (PyModule_AddStringConstant(module, "openssl", OpenSSL_version(OPENSSL_VERSION)) < 0)
    return -1;
  return PyModule_AddStringConstant(module, "version", ring_version());
}

static int module_exec(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  gil_init();
  state->dtype_name = PyUnicode_InternFromString("dtype");
  if (state->dtype_name == NULL || error_add_classes(module, state) < 0) return -1;
  return add_names(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg) {
  module_state *state = PyModule_GetState(module);
  Py_VISIT(state->comm_type);
  Py_VISIT(state->request_type);
  Py_VISIT(state->memory_type);
  Py_VISIT(state->reducer_type);
  Py_VISIT(state->submission_type);
  Py_VISIT(state->messages_type);
  Py_VISIT(state->transfer_type);
  Py_VISIT(state->pmi_type);
  Py_VISIT(state->device_type);
  Py_VISIT(state->device_memory_type);
  Py_VISIT(state->device_tensor_type);
  for (int status = 0; status < STATUS_COUNT; status++) Py_VISIT(state->errors[status]);
  Py_VISIT(state->numpy);
  Py_VISIT(state->numpy_empty);
  Py_VISIT(state->numpy_array);
  Py_VISIT(state->numpy_scalar);
  Py_VISIT(state->dtype_name);
  return adapter_traverse(state, visit, arg);
}

static int module_clear(PyObject *module) {
  module_state *state = PyModule_GetState(module);
  Py_CLEAR(state->comm_type);
  Py_CLEAR(state->request_type);
  Py_CLEAR(state->memory_type);
  Py_CLEAR(state->reducer_type);
  Py_CLEAR(state->submission_type);
  Py_CLEAR(state->messages_type);
  Py_CLEAR(state->transfer_type);
  Py_CLEAR(state->pmi_type);
  Py_CLEAR(state->device_type);
  Py_CLEAR(state->device_memory_type);
  Py_CLEAR(state->device_tensor_type);
  for (int status = 0; status < STATUS_COUNT; status++) Py_CLEAR(state->errors[status]);
  Py_CLEAR(state->numpy);
  Py_CLEAR(state->numpy_empty);
  Py_CLEAR(state->numpy_array);
  Py_CLEAR(state->numpy_scalar);
  Py_CLEAR(state->dtype_name);
  adapter_clear(state);
  return 0;
}

static void module_free(void *module) {
  module_clear(module);
}

static PyMethodDef functions[] = {
    {"open", comm_open, METH_VARARGS, NULL},                 /* sparkring._init calls this */
    {"reducer_open", reducer_open, METH_VARARGS, NULL},      /* sparkring._reducer calls this */
    {"messages_open", messages_open, METH_O, NULL},          /* sparkring._messages calls this */
    {"pmi_serve", pmi_serve, METH_VARARGS, NULL},            /* sparkring._mpi calls this */
    {"device_read", device_tensor_read, METH_VARARGS, NULL}, /* sparkring._device calls this */
    {"end", gil_end, METH_NOARGS, NULL},                     /* called when the interpreter ends */
    {"blame_weight", blame_weight, METH_O, NULL}, /* sparkring.spark._rank_result calls both */
    {"blame_first", blame_first, METH_O, NULL},
    {"checkpoint_name", checkpoint_name, METH_O,
     NULL}, /* sparkring.spark._checkpoint calls these */
    {"checkpoint_number", checkpoint_number, METH_O, NULL},
    {"checkpoint_is_old", checkpoint_is_old, METH_VARARGS, NULL},
    {"checkpoint_trailer", checkpoint_trailer, METH_O, NULL},
    {"checkpoint_length", checkpoint_length, METH_O, NULL},
    {"file_write", durable_file_write, METH_VARARGS, NULL},
    {"envelope_trailer", envelope_trailer, METH_O, NULL}, /* sparkring._objects.codec calls these */
    {"envelope_failure", envelope_failure, METH_O, NULL},
    {"envelope_split", envelope_split, METH_VARARGS, NULL},
    {"envelope_check", envelope_check, METH_VARARGS, NULL},
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
