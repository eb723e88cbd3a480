/* SPDX-License-Identifier: Apache-2.0
 *
 * The call of the core by a method. A method waits for the result, or starts the collective and
 * returns a request. Its first argument selects one of the two.
 */
#ifndef SPARKRING_CALL_H
#define SPARKRING_CALL_H

#include "arguments.h"
#include "comm.h"
#include "operands.h"
#include "request.h"

typedef struct call {
  comm_object *comm;
  request_object *request; /* NULL for a method that waits, which uses: */
  operands *operands;
  operands_finish_fn finish;
  bool on_gpu, starts; /* memory of a GPU, in the order of `stream`; the method returns a request */
  void *stream;
} call;

/* Called before the core. Takes over the operands and releases the interpreter lock. 0, or -1 with
 * an exception; then the lock is held and the operands are closed. `request` is its class, or NULL
 * for a method that waits. */
int call_enter(call *call, comm_object *comm, operands *operands, operands_finish_fn finish,
               const char *name, PyTypeObject *request);

/* Called after the core. Returns the result or the request, or NULL with an exception. */
PyObject *call_leave(call *call, ring_status status);

/* Between call_enter and call_leave: ring_<name>(comm, arguments) or its start. */
#define CALL_CORE(call, name, ...)                                                                 \
  ((call)->request                                                                                 \
       ? ring_##name##_start((call)->comm->comm, __VA_ARGS__, &(call)->request->request)           \
       : ring_##name((call)->comm->comm, __VA_ARGS__))

/* All three steps, for a collective of one array. */
#define CALL_RETURN(comm, operands, request, name, ...)                                            \
  do {                                                                                             \
    call call_;                                                                                    \
    if (call_enter(&call_, comm, operands, operands_finish, #name, request) < 0) return NULL;      \
    return call_leave(&call_, CALL_CORE(&call_, name, __VA_ARGS__));                               \
  } while (0)

/* Reads the first argument of a method: None to wait, or the class of the request that it returns.
 * *request is NULL for None. 0, or -1 with an exception. */
int call_read_request(PyTypeObject **request, const comm_object *comm, PyObject *kind);

/* Calls a method whose first argument is that of call_read_request. */
typedef PyObject *(*call_method)(comm_object *comm, const arguments_given *given);
PyObject *call_collective(comm_object *comm, call_method method, PyObject *const *values,
                          Py_ssize_t count);

/* The method <prefix>_<name> of a static function <name>_call. It is METH_FASTCALL. */
#define CALL_DECLARE(prefix, name)                                                                 \
  PyObject *prefix##_##name(PyObject *self, PyObject *const *values, Py_ssize_t count);

#define CALL_DEFINE(prefix, name)                                                                  \
  PyObject *prefix##_##name(PyObject *self, PyObject *const *values, Py_ssize_t count) {           \
    return call_collective((comm_object *)self, name##_call, values, count);                       \
  }

#endif
