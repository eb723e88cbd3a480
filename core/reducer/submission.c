/* SPDX-License-Identifier: Apache-2.0 */
#include "reducer/submission.h"

#include <stdlib.h>
#include <string.h>

#include "base/platform.h"
#include "reducer/tensor.h"

static const ring_error submission_fine = {.status = RING_OK, .rank = -1};
static ring_error submission_no_memory = {
    .status = RING_NO_MEMORY, .rank = -1, .message = "out of memory for the error of a submission"};

ring_submission *ring_submission_make(ring_submission *spare, const ring_operation *operation,
                                      int size) {
  bool group = operation->kind == RING_OPERATION_ALLREDUCE_GROUP;
  bool split = operation->kind == RING_OPERATION_ALLTOALL && operation->splits != NULL;
  size_t buffers = group ? operation->buffer_count * sizeof *operation->buffers : 0;
  size_t splits = split ? (size_t)size * sizeof *operation->splits : 0;
  size_t length = ring_tensor_length(operation), need = buffers + splits + length;
  ring_submission *made = spare;
  if (spare == NULL || spare->capacity < need) {
    free(spare);
    made = malloc(sizeof *made + need);
    if (made == NULL) return NULL;
    made->capacity = need;
  }
  size_t capacity = made->capacity;
  *made = (ring_submission){.input = operation->input,
                            .output = operation->output,
                            .rows = operation->dimensions > 0 ? operation->shape[0] : 0,
                            .buffers = (const ring_buffer *)made->tail,
                            .buffer_count = group ? operation->buffer_count : 0,
                            .splits = split ? (const int64_t *)(made->tail + buffers) : NULL,
                            .description = made->tail + buffers + splits,
                            .length = length,
                            .begun = ring_platform_now(),
                            .capacity = capacity};
  if (buffers > 0) memcpy(made->tail, operation->buffers, buffers);
  if (splits > 0) memcpy(made->tail + buffers, operation->splits, splits);
  ring_tensor_encode(operation, made->tail + buffers + splits);
  return made;
}

void ring_submission_complete(ring_submission *submission, const ring_error *error) {
  submission->status = error == NULL ? RING_OK : error->status;
  if (error != NULL) {
    submission->error = malloc(sizeof *submission->error);
    if (submission->error != NULL) *submission->error = *error;
  }
  atomic_store_explicit(&submission->done, true, memory_order_release);
}

void ring_submission_clear(ring_submission *submission) {
  free(submission->error);
  free(submission->rank_rows);
  ring_free(submission->result);
  submission->error = NULL;
  submission->rank_rows = NULL;
  submission->result = NULL;
}

void ring_submission_destroy(ring_submission *submission) {
  ring_submission_clear(submission);
  free(submission);
}

/* ---- Reading ------------------------------------------------------------------------------ */

const ring_error *ring_submission_error(const ring_submission *submission) {
  if (submission == NULL || !submission_is_done(submission) || submission->status == RING_OK)
    return &submission_fine;
  return submission->error != NULL ? submission->error : &submission_no_memory;
}

void *ring_submission_take_output(ring_submission *submission, int64_t *rows) {
  bool ready = submission != NULL && submission_is_done(submission);
  if (rows != NULL) *rows = ready ? submission->result_rows : 0;
  if (!ready) return NULL;
  void *result = submission->result;
  submission->result = NULL;
  return result;
}

const int64_t *ring_submission_rows(const ring_submission *submission) {
  return submission != NULL && submission_is_done(submission) ? submission->rank_rows : NULL;
}
