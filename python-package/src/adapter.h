/* SPDX-License-Identifier: Apache-2.0
 *
 * An adapter: how the arrays of another library, such as PyTorch, are read, and how results are
 * made for it. The adapters are written in Python (sparkring/_arrays.py). This file finds the
 * adapter of a type and keeps it, so that a call looks up one pointer. Arrays of NumPy and plain
 * buffers have no adapter.
 */
#ifndef SPARKRING_ADAPTER_H
#define SPARKRING_ADAPTER_H

#include <stdbool.h>

#include "dlpack_abi.h"
#include "state.h"

typedef struct adapter {
  struct adapter *next;
  PyObject *source; /* in Python; owns the strings */
  PyObject *lend;   /* lend(x): the object whose memory is read; NULL for x itself */
  PyObject *wrap;   /* wrap(memory, x, same): the result; NULL for an array of NumPy */
  const dlpack_exchange *exchange; /* reads and wraps without a call of Python; or NULL */
  bool dlpack;                     /* memory is exchanged by DLPack, not as a buffer */
  bool writable;                   /* out may be such an array */
  bool on_gpu;                     /* memory is always that of a GPU */
  const char *to_host;             /* what to call for an array in memory of the CPU, and */
  const char *to_dtype;            /* for an array of float64: formats with the name of x */
} adapter;

/* Finds the adapter of an object's type: NULL for none. 0, or -1 with an exception. */
int adapter_find(module_state *state, PyObject *object, const adapter **found);

/* For the garbage collector, and the end of the module. */
int adapter_traverse(module_state *state, visitproc visit, void *arg);
void adapter_clear(module_state *state);

/* Raises InvalidError with the exception that the library has raised as the reason. MemoryError
 * and what is no Exception stay. Returns -1. */
int adapter_refuse(module_state *state, PyObject *object, const char *name);

#endif
