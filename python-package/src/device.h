/* SPDX-License-Identifier: Apache-2.0
 *
 * The device of a communicator as a Python object: its calls on addresses of a GPU and streams, which are numbers
 * here. sparkring/_device reads arrays and makes results. A communicator owns its device, which refers to no
 * communicator.
 */
#ifndef SPARKRING_DEVICE_OBJECT_H
#define SPARKRING_DEVICE_OBJECT_H

#include "comm.h"

typedef struct device_object {
  PyObject_HEAD ring_device *device;
  int gpu;       /* its number in this process */
  bool has_nccl; /* its path */
  bool reported; /* a call has raised the failure of the device */
} device_object;

/* The methods _device_open(path, gpu, nccl, cuda, nvrtc), which is collective, and _device_get(): None before. */
PyObject *device_open(PyObject *self, PyObject *args);
PyObject *device_get(PyObject *self, PyObject *unused);

/* The method _device_exchange(input, sends, output, receives, stream): sends bytes to each rank and receives bytes, by
 * addresses on the GPU, when the device is open. Both tuples have a number for each rank. */
PyObject *device_exchange(PyObject *self, PyObject *args);

/* Reads the name of a path. 0, or -1 with an exception. */
int device_read_path(module_state *state, const char *name, ring_device_path *path);

/* The fields of sparkring's DeviceExplanation, in its order. */
PyObject *device_tell(const ring_device_explanation *explanation);

/* Waits for a stream. 0, or -1 with an exception. */
int device_join(device_object *self, void *stream);

/* A request of a call that is on a stream, of the class sparkring._device.calls.DeviceRequest. Takes over the
 * reference to the result. */
PyObject *device_request_make(device_object *self, void *stream, PyObject *result);

/* Remembers that a call has raised the status, which may be the failure of the device. */
void device_note(device_object *self, ring_status status);

/* Closes the device with all ranks. Leaves an exception where it fails and no call has raised that. */
void device_end(device_object *self);

/* Ends the device at once, from this rank alone. */
void device_abort(device_object *self, const char *reason);

/* The Python type, for PyType_FromModuleAndSpec. */
extern PyType_Spec device_type_spec;

#endif
