/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU of a reducer: the device of its communicator, which all ranks open in the cycle in which the first operation
 * on memory of GPUs is ready, and a side stream, on which the device works. Any thread takes memory over; the rest
 * belongs to the thread in the cycle, without the mutex of the reducer.
 */
#ifndef RING_REDUCER_GPU_H
#define RING_REDUCER_GPU_H

#include "device/side_stream.h"
#include "reducer/submission.h"

typedef struct ring_reducer_gpu {
  ring_comm *comm;
  ring_device_options options; /* whose texts are copies */
  ring_side_stream side;
  ring_device *device; /* NULL until it is open */
  ring_error refusal;  /* why it cannot be opened, on all ranks alike; status RING_OK: none */
  ring_error failure;  /* of the device; status RING_OK: none */
  ring_device_memory *zeros;
  size_t zero_bytes;
  uint64_t runs;
  bool works; /* calls were made since the last await */
  bool opens; /* the device is being opened */
} ring_reducer_gpu;

/* Copies the options; NULL: the usual ones. False without memory. */
bool ring_reducer_gpu_init(ring_reducer_gpu *gpu, ring_comm *comm,
                           const ring_device_options *options);

/* Waits until the tensors of an operation are this reducer's to use: *mark becomes the event. Refuses memory of another
 * GPU than that of earlier operations. The errors are local. */
ring_status ring_reducer_gpu_take(ring_reducer_gpu *gpu, const ring_operation *operation,
                                  ring_cuda_event *mark, ring_error *error);

/* Opens the device, unless it is open. Collective. *refusal gets a status other than RING_OK if ranks cannot. */
ring_status ring_reducer_gpu_open(ring_reducer_gpu *gpu, ring_error *refusal);

/* Lets the side stream follow the mark of a submission, and places the next call of the communicator there. */
ring_status ring_reducer_gpu_follow(ring_reducer_gpu *gpu, ring_submission *submission);
void ring_reducer_gpu_place(ring_reducer_gpu *gpu);

/* Zeros for a rank that has joined, in the order of the side stream. *zeros NULL with a failure. */
ring_status ring_reducer_gpu_zeros(ring_reducer_gpu *gpu, size_t bytes, void **zeros);

/* Waits until the calls so far are done. */
ring_status ring_reducer_gpu_await(ring_reducer_gpu *gpu);

/* Ends the calls on the GPUs of all ranks. */
void ring_reducer_gpu_abort(ring_reducer_gpu *gpu, const char *reason);

/* The reducer has failed: ends the calls on the GPUs of all ranks, and waits until no memory is in use. */
void ring_reducer_gpu_fail(ring_reducer_gpu *gpu, const char *reason);

/* Collective, if the device is open. */
ring_status ring_reducer_gpu_close(ring_reducer_gpu *gpu, ring_error *error);

/* Frees the device; in a forked child as well. */
void ring_reducer_gpu_free(ring_reducer_gpu *gpu);

/* Frees all else, when no submission is left. */
void ring_reducer_gpu_destroy(ring_reducer_gpu *gpu);

#endif
