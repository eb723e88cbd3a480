/* SPDX-License-Identifier: Apache-2.0
 *
 * A side stream: a stream of a GPU beside those of users. A mark is an event on a user's stream; the side stream
 * follows it, so work there begins when the user's work so far is done, and nothing waits on the CPU. Marks may be made
 * by any thread, also before a device is open.
 */
#ifndef RING_DEVICE_SIDE_STREAM_H
#define RING_DEVICE_SIDE_STREAM_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda_api.h"
#include "sparkring.h"

/* `mutex` guards the opening, `spare` and its counts. The other fields are set before `is_open`. */
typedef struct ring_side_stream {
  pthread_mutex_t mutex;
  atomic_bool is_open;
  ring_cuda cuda;
  int gpu;
  ring_cuda_context context; /* the primary one, which is retained */
  ring_cuda_stream stream;
  ring_cuda_event *spare;
  size_t spare_count, spare_capacity;
} ring_side_stream;

void ring_side_stream_init(ring_side_stream *side);

/* Opens the stream unless it is open: on a GPU, or with gpu -1 on that of `memory`, else on that of the calling thread's
 * context. `libraries` is that of ring_cuda_load(). */
ring_status ring_side_stream_open(ring_side_stream *side, const char *libraries, int gpu,
                                  const void *memory, ring_error *error);

/* Frees what the driver has. The events of all marks are in the stream's hands again. */
void ring_side_stream_close(ring_side_stream *side);

/* RING_INVALID for memory of another GPU. */
ring_status ring_side_stream_check(const ring_side_stream *side, const void *memory,
                                   ring_error *error);

/* Marks what is on a user's stream so far, in the thread that uses it. RING_UNSUPPORTED on a stream that captures a
 * graph, RING_INVALID for one that is none. */
ring_status ring_side_stream_mark(ring_side_stream *side, void *stream, ring_cuda_event *mark,
                                  ring_error *error);

/* Makes the side stream wait for a mark on the GPU. */
ring_status ring_side_stream_follow(ring_side_stream *side, ring_cuda_event mark,
                                    ring_error *error);

/* Gives the event of a mark back; NULL is none. */
void ring_side_stream_forget(ring_side_stream *side, ring_cuda_event mark);

/* Fills memory with zeros, in the order of the stream. */
ring_status ring_side_stream_clear(ring_side_stream *side, void *memory, size_t bytes,
                                   ring_error *error);

#endif
