/* SPDX-License-Identifier: Apache-2.0
 *
 * The arguments of a call on a device, checked, as both paths take them. Memory is the GPU's: no code reads it.
 */
#ifndef RING_DEVICE_DEVICE_ARGS_H
#define RING_DEVICE_DEVICE_ARGS_H

#include <stdbool.h>

#include "base/call.h"
#include "base/dtype.h"
#include "device/cuda_api.h"

typedef struct ring_device_args {
  ring_collective collective; /* MESSAGE: a send or a receive */
  bool sending;               /* of a message */
  bool casts;                 /* no collective: this rank converts elements to `wire` */
  const void *input;
  void *output;
  size_t count;
  const size_t *sends, *receives; /* of alltoallv */
  ring_dtype dtype;
  ring_op op;
  int root;                   /* of a message: the peer */
  const ring_buffer *buffers; /* of a group, in place of input, output and count */
  size_t buffer_count;
  bool converts, scaled; /* of an allreduce: */
  ring_dtype wire;       /* elements travel as this dtype, */
  double prescale, postscale;
  ring_cuda_stream stream;
} ring_device_args;

static inline const char *device_args_name(const ring_device_args *args) {
  return args->casts ? "cast" : ring_collective_name((uint8_t)args->collective);
}

static inline ring_dtype device_args_output_dtype(const ring_device_args *args) {
  return args->casts ? args->wire : args->dtype;
}

static inline const uint8_t *device_args_input(const ring_device_args *args, size_t element) {
  return (const uint8_t *)args->input + element * ring_dtype_size(args->dtype);
}

static inline uint8_t *device_args_output(const ring_device_args *args, size_t element) {
  return (uint8_t *)args->output + element * ring_dtype_size(device_args_output_dtype(args));
}

#endif
