/* SPDX-License-Identifier: Apache-2.0
 *
 * Views of arrays in the memory of GPUs. sparkring._device.operand reads them: their libraries have no common protocol
 * that names a stream. The first call of a communicator with such an array opens its device. A reducer has a device
 * apart, which the core opens.
 */
#ifndef SPARKRING_GPU_VIEW_H
#define SPARKRING_GPU_VIEW_H

#include "comm.h"
#include "view.h"

/* The device for an array: that of the communicator, which may be opened for it, or is open; or one apart. */
typedef enum gpu_view_device { GPU_VIEW_OPENS, GPU_VIEW_OPEN, GPU_VIEW_APART } gpu_view_device;

/* Views an array. 0, or -1 with an exception. */
int gpu_view_open(view *view, comm_object *comm, PyObject *object, const char *name,
                  const char *dtype, gpu_view_device device);

/* Makes memory of a shape for a result like `input`. gpu_view_finish makes the array of it. */
int gpu_view_make(view *view, comm_object *comm, const char *name, const struct view *input,
                  PyObject *shape);
PyObject *gpu_view_finish(const view *view);

/* Makes the stream of a view wait, on the host, for that of another. 0, or -1 with an exception. */
int gpu_view_join(const view *view, const struct view *other, comm_object *comm);

#endif
