/* SPDX-License-Identifier: Apache-2.0
 *
 * A submission: an operation that this rank has submitted, with copies of the lists of its arguments,
 * until the user frees it. Records are reused.
 *
 * The field `done` is set last; every other field belongs to the reducer's mutex before that.
 */
#ifndef RING_REDUCER_SUBMISSION_H
#define RING_REDUCER_SUBMISSION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "device/cuda_api.h"
#include "sparkring.h"

struct ring_submission {
  struct ring_reducer *reducer;
  ring_submission *next; /* among the spare ones */
  atomic_bool done;
  ring_status status;
  ring_error *error; /* NULL: none */
  uint64_t begun;    /* time of the submission */
  uint64_t warned;   /* how long it had waited at the last warning */
  bool compared;     /* it was in flight when the ranks compared which names they lack (stall.h) */
  const void *input;
  void *output;
  int64_t rows; /* first extent */
  const ring_buffer *buffers;
  size_t buffer_count;
  const int64_t *splits;
  ring_cuda_event mark; /* of inputs on a GPU: after it they are there; NULL: followed */
  const uint8_t *description;
  size_t length;
  void *result; /* output that the library has allocated, and its rows */
  int64_t result_rows;
  int64_t *rank_rows;
  size_t capacity; /* of `tail` */
  _Alignas(16) uint8_t tail[];
};

/* A record with copies of what the operation points to. `spare` may be NULL; it is used or freed. NULL
 * without memory. */
ring_submission *ring_submission_make(ring_submission *spare, const ring_operation *operation,
                                      int size);

/* Ends a submission. `error` is NULL for success. */
void ring_submission_complete(ring_submission *submission, const ring_error *error);

/* Frees what belongs to the result, and then the record. */
void ring_submission_clear(ring_submission *submission);
void ring_submission_destroy(ring_submission *submission);

static inline bool submission_is_done(const ring_submission *submission) {
  return atomic_load_explicit(&submission->done, memory_order_acquire);
}

#endif
