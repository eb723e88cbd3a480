/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of an array of another library by DLPack: described as a Py_buffer, like the memory
 * of any other array. The producer is not trusted: its numbers are checked before they are used.
 */
#ifndef SPARKRING_DLPACK_INPUT_H
#define SPARKRING_DLPACK_INPUT_H

#include "adapter.h"

typedef struct dlpack_input {
  dlpack_managed *managed; /* one of two, or neither */
  dlpack_managed_old *old;
  void *strides; /* in bytes, where the array is not contiguous */
  void *copy;    /* of its elements, in C order */
} dlpack_input;

enum { DLPACK_INPUT_ON_GPU = 1 };

/* Opens the memory of an object whose type has an adapter, and fills *buffer and *dtype.
 * buffer->obj is NULL, so that only dlpack_input_close() ends the access. 0; with nothing open
 * DLPACK_INPUT_ON_GPU for memory of a CUDA GPU, or -1 with an exception. */
int dlpack_input_open(dlpack_input *input, Py_buffer *buffer, dlpack_dtype *dtype,
                      module_state *state, PyObject *object, const adapter *adapter,
                      const char *name);

/* Opens the memory of an object on a GPU, ready for work of a stream as DLPack numbers it, or of a
 * capsule. 0, or -1 with an exception and nothing open. */
int dlpack_input_open_gpu(dlpack_input *input, Py_buffer *buffer, const dlpack_tensor **tensor,
                          module_state *state, PyObject *object, PyObject *stream);

/* Copies the elements in C order; the buffer is then that of the copy. 0, or -1 with an exception
 * set. */
int dlpack_input_pack(dlpack_input *input, Py_buffer *buffer);

/* May be called on zeroed or closed memory. */
void dlpack_input_close(dlpack_input *input);

#endif
