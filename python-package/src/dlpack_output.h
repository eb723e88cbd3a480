/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of a collective as a tensor of DLPack, in memory of its own, for a library that takes
 * such tensors. The core writes the memory first; then the tensor becomes an array of the library,
 * which frees it.
 */
#ifndef SPARKRING_DLPACK_OUTPUT_H
#define SPARKRING_DLPACK_OUTPUT_H

#include "adapter.h"
#include "comm.h"

typedef struct dlpack_output dlpack_output;

/* A new tensor, not initialised, in shared memory when it is large enough to pay (memory.h) or
 * `shared` is set. Its shape is `rows`, unless it is negative, and then the `ndim` lengths of
 * `shape`. NULL with an exception. */
dlpack_output *dlpack_output_make(comm_object *self, dlpack_dtype dtype, Py_ssize_t rows,
                                  const Py_ssize_t *shape, int ndim, bool shared);

const dlpack_tensor *dlpack_output_tensor(const dlpack_output *output);

/* May be called with NULL. */
void dlpack_output_free(dlpack_output *output);

/* A new array of the library of x, over the memory. `same` says whether the shape is that of x.
 * Takes over the output. NULL with an exception. */
PyObject *dlpack_output_wrap(dlpack_output *output, const adapter *adapter, PyObject *x, bool same);

#endif
