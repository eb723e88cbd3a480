/* SPDX-License-Identifier: Apache-2.0
 *
 * A view: the memory of a Python object as pointer, count and dtype for the core, without a copy:
 * through the buffer protocol or DLPack, or memory of a GPU (gpu_view.h). The object's memory stays
 * in place while the view is open.
 */
#ifndef SPARKRING_VIEW_H
#define SPARKRING_VIEW_H

#include <stdbool.h>

#include "dlpack_input.h"
#include "state.h"

typedef struct view {
  Py_buffer buffer;
  const char *name; /* the name of the argument */
  size_t count;
  ring_dtype dtype;
  bool direct;            /* contiguous in C order, and aligned: the core may use buffer.buf */
  const adapter *adapter; /* of the object's type, or NULL */
  dlpack_input dlpack;    /* what buffer describes, where it is a tensor of DLPack */
  PyObject *gpu;          /* NULL: memory of the host. Else buffer describes memory of a GPU, for */
  void *stream;           /* work on this stream; gpu keeps */
  PyObject *gpu_array;    /* what sparkring._device reads of the array, or makes it of */
  Py_ssize_t *shape;      /* of the buffer */
} view;

enum { VIEW_ON_GPU = DLPACK_INPUT_ON_GPU };

/* Opens a view of object. `name` is the name of the argument, and must outlive the view. `dtype` is
 * "bfloat16" for 16-bit words that hold it, the object's own dtype, or NULL. 0; VIEW_ON_GPU for an
 * array in the memory of a GPU, of which nothing is open but what view_refuse_gpu() needs; or -1 with
 * an exception. */
int view_open(view *view, module_state *state, PyObject *object, const char *name,
              const char *dtype);

/* Raises the error for VIEW_ON_GPU in a call that serves no GPUs. Returns -1. */
int view_refuse_gpu(const view *view, module_state *state);

/* Copies the elements of a tensor of DLPack in C order, so that it is direct. 0, or -1 with an
 * exception. */
int view_pack(view *view);

/* May be called on a zeroed or closed view. */
void view_close(view *view);

/* Opens a view of a result that is like `input` except for its shape. */
void view_open_output(view *view, const dlpack_tensor *tensor, const char *name,
                      const struct view *input);

/* 0 when the core may write `count` elements like those of `input` into view; else -1 with an
 * exception. */
int view_check_output(const view *view, module_state *state, const struct view *input,
                      size_t count);

/* A new tuple: `rows` unless it is negative, then the shape from dimension `from` on. */
PyObject *view_shape(const view *view, Py_ssize_t rows, int from);

/* 0 when the object has a first dimension. Its length is then buffer.shape[0]. Else -1 with an
 * exception. */
int view_check_rows(const view *view, module_state *state);

#endif
